//! How an upstream's count compares with Baler's, in few coarse steps: what decisions that every
//! replica makes alike may know of it.

/// Reported tokens per counted token of each step. They lie far enough apart for replicas that
/// learned from other requests to come to the same one.
const FACTORS: [f64; 13] = [
    1.0, 1.1, 1.21, 1.33, 1.46, 1.61, 1.77, 1.95, 2.14, 2.36, 2.59, 2.85, 3.13,
];
/// The nearest step is wrong by this much at most: a compaction happens within 5 % of its trigger.
const EITHER_SIDE: f64 = 1.05;
/// Where a list is rewritten anyway, a step in use stays as long as it is no further off than this:
/// so replicas agree whose last answers lie on either side of a border.
const STILL_NEAR: f64 = 1.07;
/// A step in use stays as long as the upstream counts no more than this times what it says: the
/// width of its step and a margin, so that a factor at the border of two steps does not go to and
/// fro. Triggers of the default policy leave more room than this below the window.
const MARGIN_ABOVE: f64 = 1.08;
/// And no less than one part in so many: a compaction that comes early costs less than a rewrite.
const MARGIN_BELOW: f64 = 1.2;

/// A step: a class of factors by which upstreams count more than Baler does. The lowest stands for
/// upstreams that count the same, or less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactorStep(u8);

impl FactorStep {
    /// The step nearest to a factor.
    #[must_use]
    pub fn nearest(factor: f64) -> Self {
        let covering = FACTORS
            .iter()
            .position(|step| factor <= step * EITHER_SIDE)
            .unwrap_or(FACTORS.len() - 1);
        FactorStep(u8::try_from(covering).unwrap_or_default())
    }

    /// The tokens that one counted token is taken for.
    #[must_use]
    pub fn factor(self) -> f64 {
        FACTORS.get(usize::from(self.0)).copied().unwrap_or(1.0)
    }

    /// The step of this number, if there is one.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        (usize::from(number) < FACTORS.len()).then_some(FactorStep(number))
    }

    /// Its number, from 0.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The step above it; the highest is its own.
    #[must_use]
    pub fn above(self) -> Self {
        let next = usize::from(self.0) + 1;
        if next < FACTORS.len() {
            FactorStep(self.0 + 1)
        } else {
            self
        }
    }

    /// The step for a list that is rewritten anyway, where this one was in use.
    #[must_use]
    pub fn renewed(self, factor: f64) -> Self {
        let off = factor / self.factor();
        if (1.0 / STILL_NEAR..=STILL_NEAR).contains(&off) {
            self
        } else {
            Self::nearest(factor)
        }
    }

    /// Whether the step may stay in use where the upstream counts by this factor.
    #[must_use]
    pub fn tolerates(self, factor: f64) -> bool {
        let early = self.0 > 0 && factor * MARGIN_BELOW < self.factor();
        self.tolerates_from_above(factor) && !early
    }

    fn tolerates_from_above(self, factor: f64) -> bool {
        factor <= self.factor() * MARGIN_ABOVE
    }

    /// Tokens by the upstream's count that are no reason to compact beyond what was derived by a
    /// step: its margin taken off.
    #[must_use]
    pub fn without_margin(tokens: u64) -> u64 {
        crate::core::conversation::scale(tokens, 1.0 / MARGIN_ABOVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_counts_and_nearly_equal_ones_are_the_first_step() {
        for factor in [0.0, 0.5, 1.0, 1.005, 1.02, 1.05] {
            assert_eq!(
                FactorStep::nearest(factor),
                FactorStep::default(),
                "{factor}"
            );
            assert!(FactorStep::default().tolerates(factor), "{factor}");
        }
        assert!((FactorStep::default().factor() - 1.0).abs() < f64::EPSILON);
        assert_eq!(FactorStep::nearest(1.15).number(), 1);
        assert_eq!(FactorStep::nearest(1.4).number(), 4);
        assert_eq!(
            FactorStep::nearest(f64::NAN).above(),
            FactorStep::nearest(99.0)
        );
    }

    proptest! {
        #[test]
        fn the_nearest_step_is_near_and_stays_for_a_while(
            factor in 1.0..3.2_f64, drift in 0.985..1.015_f64,
        ) {
            let step = FactorStep::nearest(factor);
            let off = factor / step.factor();
            prop_assert!((0.947..=1.05).contains(&off), "{factor} {step:?}");
            prop_assert!(step.tolerates(factor * drift), "a border is no place to go to and fro");
            prop_assert!(step.above() >= step && !step.tolerates(factor * 1.2));
        }
    }
}
