//! What stands around the lines of files that are named: whole regions, as far as there is room.

use super::{Choice, LEAST_LEFT};
use crate::core::Cancelled;
use crate::core::conversation::scale;
use crate::core::strategy::digest::line::{DigestLine, Standing};
use crate::core::strategy::digest::subject::regions::{Place, Region};
use crate::core::strategy::digest::weigh::weights::share;

/// Lines of a region before and after the one that is named, and those of a section.
const REACH: usize = 12;
const REACH_OF_SECTION: usize = 48;

impl Choice<'_> {
    /// Takes what the newest messages name of files, and the files that they name as wholes.
    /// Returns the tokens spent.
    pub(super) fn take_named(&mut self, budget: u64, left: u64) -> Result<u64, Cancelled> {
        let named = [
            (std::mem::take(&mut self.regions), share::REGIONS),
            (std::mem::take(&mut self.files), share::FILES),
        ];
        let mut spent = 0;
        for (regions, most) in &named {
            let room = scale(budget, *most).min(left - spent);
            spent += room - self.take_regions(regions, room)?;
        }
        let [(regions, _), (files, _)] = named;
        (self.regions, self.files) = (regions, files);
        Ok(spent)
    }

    /// Takes the regions around the lines that are named. Returns the tokens that are left.
    fn take_regions(&mut self, regions: &[Region], budget: u64) -> Result<u64, Cancelled> {
        let mut left = budget;
        let alone = self.part_without_records();
        for (nth, region) in regions.iter().enumerate() {
            self.cancel.check_budget()?;
            if left < LEAST_LEFT {
                break;
            }
            let is_last = nth + 1 == regions.len();
            let room = if is_last {
                left
            } else {
                scale(left, share::REGION)
            };
            // Where records compete, they tell what the model said of them.
            let is_section = region.iter().any(|place| place.end.is_some());
            let room = if is_section { scale(room, alone) } else { room };
            left -= self.take_region(region, room);
        }
        Ok(left)
    }

    /// Takes lines on both sides of those that are named, line after line, as far as there is room.
    /// Returns the tokens that they take.
    fn take_region(&mut self, region: &Region, room: u64) -> u64 {
        let mut spent = 0;
        let sides = region.iter().flat_map(|place| {
            let above = place.above.then_some(Side {
                next: place.line.checked_sub(1),
                is_below: false,
                of: *place,
            });
            let below = Side {
                next: Some(place.line),
                is_below: true,
                of: *place,
            };
            [below].into_iter().chain(above)
        });
        let mut sides: Vec<Side> = sides.collect();
        for step in 0..=REACH_OF_SECTION {
            for side in &mut sides {
                let is_far = step > REACH && side.of.end.is_none();
                let next = side.next.filter(|_| !is_far);
                let Some(line) = next.filter(|line| self.is_in_region(*line, &side.of)) else {
                    side.next = None;
                    continue;
                };
                let chain: Vec<usize> = self.chain(line).collect();
                // What is no longer there would look like what is.
                if self
                    .lines
                    .get(line)
                    .is_none_or(|line| line.standing != Standing::Gone)
                {
                    let tokens: u64 = chain.iter().map(|at| self.tokens_of(*at)).sum();
                    if spent + tokens > room {
                        side.next = None;
                        continue;
                    }
                    spent += tokens;
                    chain.into_iter().for_each(|at| self.take(at));
                }
                side.next = if side.is_below {
                    Some(line + 1)
                } else {
                    line.checked_sub(1)
                };
            }
        }
        spent
    }

    /// Whether a line is of the same text, or the same section, as the one that is named.
    fn is_in_region(&self, line: usize, named: &Place) -> bool {
        if let Some(end) = named.end {
            return line < end;
        }
        let text = |at: usize| {
            let of_text = |line: &&DigestLine| line.part.is_quoted() || line.is_code;
            let line = self.lines.get(at).filter(of_text)?;
            Some((line.part, self.of.lines.get(at)?.entry))
        };
        text(line).is_some_and(|of| text(named.line) == Some(of))
    }
}

/// One side of a region that grows.
struct Side {
    /// The line that comes next; `None` at its end.
    next: Option<usize>,
    is_below: bool,
    of: Place,
}
