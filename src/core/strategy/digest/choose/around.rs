//! What stands around the lines of files that are named: whole regions, as far as there is room.

use super::{Choice, LEAST_LEFT};
use crate::core::Cancelled;
use crate::core::conversation::scale;
use crate::core::strategy::digest::regions::Region;
use crate::core::strategy::digest::weights::share;

/// Lines of a region before and after the one that is named.
const REACH: usize = 12;

impl Choice<'_> {
    /// Takes the regions around the lines that are named. Returns the tokens that are left.
    pub(super) fn take_regions(&mut self, budget: u64) -> Result<u64, Cancelled> {
        let mut left = budget;
        let regions = std::mem::take(&mut self.regions);
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
            left -= self.take_region(region, room);
        }
        self.regions = regions;
        Ok(left)
    }

    /// Takes lines on both sides of those that are named, line after line, as far as there is room.
    /// Returns the tokens that they take.
    fn take_region(&mut self, region: &Region, room: u64) -> u64 {
        let mut spent = 0;
        let sides = region.iter().flat_map(|place| {
            let above = place.above.then_some((place.line, false));
            [(place.line, true)].into_iter().chain(above)
        });
        let mut ends: Vec<(Option<usize>, bool, usize)> = sides
            .map(|(at, is_below)| {
                let end = if is_below {
                    Some(at)
                } else {
                    at.checked_sub(1)
                };
                (end, is_below, at)
            })
            .collect();
        for _ in 0..=REACH {
            for (end, is_below, named) in &mut ends {
                let Some(line) = end.filter(|line| self.is_in_region(*line, *named)) else {
                    *end = None;
                    continue;
                };
                let chain: Vec<usize> = self.chain(line).collect();
                let tokens: u64 = chain.iter().map(|at| self.tokens_of(*at)).sum();
                if spent + tokens > room {
                    *end = None;
                    continue;
                }
                spent += tokens;
                chain.into_iter().for_each(|at| self.take(at));
                *end = if *is_below {
                    Some(line + 1)
                } else {
                    line.checked_sub(1)
                };
            }
        }
        spent
    }

    /// Whether a line is of the same text as another.
    fn is_in_region(&self, line: usize, other: usize) -> bool {
        let text = |at: usize| {
            let line = self.lines.get(at).filter(|line| line.part.is_quoted())?;
            Some((line.part, self.of.lines.get(at)?.entry))
        };
        text(line).is_some_and(|of| text(other) == Some(of))
    }
}
