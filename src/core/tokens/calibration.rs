//! How an upstream's count of a model's tokens compares with Baler's.
//!
//! One factor per upstream and model, learned from reported usage. It moves slowly, a single odd
//! report moves it little, and small prompts teach little: the tokens that a chat template adds
//! weigh most in them. The ledger keeps the factors.

use crate::core::conversation::{as_float, ratio};

/// A report this far off (in either direction) is about another prompt: one that the upstream cut,
/// or did not get from Baler.
const ABSURD: f64 = 5.0;
/// Share of the difference that the factor moves by once it is settled.
const PACE: f64 = 0.1;
/// The most that one report may move the factor once it is settled, as a share of it.
const LONGEST_STEP: f64 = 0.02;
/// Reports after which the factor is settled.
const EARLY: f64 = 8.0;
/// Counted tokens of a prompt that teaches all it can.
const FULL_WEIGHT_TOKENS: u64 = 1_000;

/// Reported tokens per counted token.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Calibration {
    factor: f64,
    /// Reports so far, small prompts counting less than one.
    weight: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration {
            factor: 1.0,
            weight: 0.0,
        }
    }
}

impl Calibration {
    /// The factor is never below nor above these.
    pub const BOUNDS: (f64, f64) = (0.5, 3.0);

    /// Reported tokens per counted token, 0.5..=3; 1 before the first report.
    #[must_use]
    pub fn factor(self) -> f64 {
        self.factor
    }

    /// Reports that it was learned from, small prompts counting less than one: of two calibrations
    /// of one model the heavier is the later one.
    #[must_use]
    pub fn weight(self) -> f64 {
        self.weight
    }

    /// The calibration after the upstream `reported` a prompt's tokens that Baler `counted`.
    #[must_use]
    pub fn learn(self, reported: u64, counted: u64) -> Self {
        let seen = ratio(reported, counted);
        if !(1.0 / ABSURD..=ABSURD).contains(&seen) {
            return self;
        }
        let weight = (as_float(counted) / as_float(FULL_WEIGHT_TOKENS)).min(1.0);
        let known = self.weight + weight;
        // An average at first, so that the first reports count alike; later a slow pursuit.
        let pace = (weight / known).max(PACE * weight);
        let mut step = (seen.clamp(Self::BOUNDS.0, Self::BOUNDS.1) - self.factor) * pace;
        if self.weight >= EARLY {
            step = step.clamp(-LONGEST_STEP * self.factor, LONGEST_STEP * self.factor);
        }
        Calibration {
            factor: (self.factor + step).clamp(Self::BOUNDS.0, Self::BOUNDS.1),
            weight: known.min(1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::conversation::scale;
    use proptest::prelude::*;

    fn after(reports: &[(u64, u64)]) -> f64 {
        reports
            .iter()
            .fold(Calibration::default(), |known, (reported, counted)| {
                known.learn(*reported, *counted)
            })
            .factor()
    }

    #[test]
    fn the_factor_finds_what_the_upstream_reports() {
        let reports: Vec<(u64, u64)> = (1..40).map(|n| (1_250 * n, 1_000 * n)).collect();
        assert!(
            (after(&reports[..1]) - 1.25).abs() < 1e-9,
            "one report sets the factor"
        );
        assert!((after(&reports) - 1.25).abs() < 1e-9);
    }

    #[test]
    fn small_prompts_teach_little() {
        // A template adds thirty tokens to each of them.
        let mut reports: Vec<(u64, u64)> = vec![(2_000, 2_000); 3];
        let before = after(&reports);
        reports.extend([(60, 30); 5]);
        assert!(after(&reports) - before < 0.05, "{}", after(&reports));
    }

    #[test]
    fn it_follows_a_change_slowly() {
        let mut reports = vec![(4_000, 4_000); 20];
        reports.extend([(6_000, 4_000); 5]);
        let soon = after(&reports);
        assert!((1.01..1.15).contains(&soon), "{soon}");
        reports.extend([(6_000, 4_000); 100]);
        assert!((after(&reports) - 1.5).abs() < 0.05);
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_factor_stays_in_bounds(
            reports in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50),
        ) {
            let factor = after(&reports);
            let (least, most) = Calibration::BOUNDS;
            prop_assert!((least..=most).contains(&factor), "{}", factor);
        }

        #[test]
        fn an_outlier_moves_a_settled_factor_by_no_more_than_a_step(
            odd in 1_u64..1_000_000,
            true_factor in 0.6..2.5_f64,
        ) {
            let mut reports = vec![(scale(5_000, true_factor), 5_000); 30];
            let before = after(&reports);
            reports.push((odd, 5_000));
            prop_assert!((after(&reports) / before - 1.0).abs() <= LONGEST_STEP + 1e-9);
        }
    }
}
