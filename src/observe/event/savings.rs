//! What Baler saves net: prompt tokens that were not sent, less those that it cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use crate::observe::event::gauge_value;
use crate::observe::registry::{LabelDescription, Registered, Registrar};

/// The accounts of all policies.
#[derive(Debug)]
pub(in crate::observe) struct SavingsFamilies {
    net: IntCounterVec,
    owed: IntGaugeVec,
    accounts: Mutex<HashMap<String, Arc<SavingsMetrics>>>,
}

impl SavingsFamilies {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let policy = || vec![LabelDescription::open("policy")];
        Ok(SavingsFamilies {
            net: registrar.counters(
                "baler_tokens_saved_net_total",
                "Prompt tokens that were not sent, less the tokens of Baler's own calls and those \
                 that the upstream had to read again. Costs are paid from later savings.",
                policy(),
            )?,
            owed: registrar.gauges(
                "baler_tokens_owed",
                "Costs in tokens that no saving has paid for yet.",
                policy(),
            )?,
            accounts: Mutex::default(),
        })
    }

    /// The account of a policy, opened at 0.
    pub(in crate::observe) fn of(&self, policy: &str) -> Arc<SavingsMetrics> {
        // An account is inserted whole.
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let account = accounts.entry(policy.to_owned()).or_insert_with(|| {
            Arc::new(SavingsMetrics {
                net: self.net.with_label_values(&[policy]),
                owed: self.owed.with_label_values(&[policy]),
                debt: Mutex::default(),
            })
        });
        Arc::clone(account)
    }
}

/// One policy's account. A counter cannot fall, so that costs are owed until a saving pays for
/// them: `net - owed` is the exact balance at any time.
#[derive(Debug)]
pub(in crate::observe) struct SavingsMetrics {
    net: IntCounter,
    owed: IntGauge,
    debt: Mutex<u64>,
}

impl SavingsMetrics {
    /// Books tokens saved and tokens spent.
    pub(super) fn settle(&self, saved: u64, spent: u64) {
        if saved == 0 && spent == 0 {
            return;
        }
        let mut debt = self.debt.lock().unwrap_or_else(PoisonError::into_inner);
        let due = debt.saturating_add(spent);
        let paid = due.min(saved);
        *debt = due - paid;
        self.owed.set(gauge_value(*debt));
        self.net.inc_by(saved - paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_paid_from_savings_and_the_balance_is_exact() {
        let mut registrar = Registrar::default();
        let families = SavingsFamilies::register(&mut registrar).unwrap();
        let account = families.of("p");
        let mut balance = 0_i64;
        for (saved, spent, net) in [
            (0, 500, 0),
            (300, 0, 0),
            (1_000, 100, 700),
            (0, 200, 700),
            (50, 0, 700),
            (400, 0, 950),
        ] {
            account.settle(saved, spent);
            balance += i64::try_from(saved).unwrap() - i64::try_from(spent).unwrap();
            assert_eq!(account.net.get(), net);
            let net = i64::try_from(account.net.get()).unwrap();
            assert_eq!(net - account.owed.get(), balance);
        }
        assert_eq!(
            families.of("p").net.get(),
            950,
            "one account for each policy"
        );
        assert_eq!(families.of("q").net.get(), 0);
    }
}
