//! What prompts cost with a provider's prompt cache, in uncached prompt tokens.

use crate::core::conversation::as_float;
use crate::core::models::Prices;

/// Providers cache prompts from this many tokens on.
const LEAST_CACHED_TOKENS: u64 = 1_024;
/// Providers cache prompts in steps of this many tokens.
const CACHE_STEP_TOKENS: u64 = 128;

/// The price of a prompt after the one before it, in uncached prompt tokens. A prompt is a list of
/// parts with their tokens; the leading parts that both prompts share are read from the cache.
#[must_use]
pub fn price<T: PartialEq>(before: &[(T, u64)], now: &[(T, u64)], prices: Prices) -> f64 {
    let shared = before.iter().zip(now).take_while(|((a, _), (b, _))| a == b);
    let shared: u64 = shared.map(|(_, (_, tokens))| tokens).sum();
    let cached = match shared {
        0..LEAST_CACHED_TOKENS => 0,
        _ => shared / CACHE_STEP_TOKENS * CACHE_STEP_TOKENS,
    };
    let all: u64 = now.iter().map(|(_, tokens)| tokens).sum();
    as_float(cached) * prices.cache_read + as_float(all - cached) * prices.cache_write
}

/// Whether a compaction pays: whether the requests still to come, assumed to be as many as there
/// were so far, save more by `gain` fewer tokens each than reading the `behind` tokens after the
/// first change again costs once.
#[must_use]
pub fn pays(requests: u64, gain: u64, behind: u64, prices: Option<Prices>) -> bool {
    let Some(Prices {
        cache_read,
        cache_write,
    }) = prices
    else {
        return true;
    };
    let saved = as_float(requests) * as_float(gain) * cache_read;
    saved > as_float(behind) * (cache_write - cache_read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices {
        cache_read: 0.1,
        cache_write: 1.0,
    };

    #[test]
    fn shared_parts_are_read_from_the_cache_in_steps() {
        let before = [("a", 1_000), ("b", 100)];
        let now = [("a", 1_000), ("b", 100), ("c", 50)];
        let price = price(&before, &now, PRICES);
        assert!((price - (1_024.0 * 0.1 + 126.0)).abs() < 1e-9, "{price}");
        let short = [("a", 500), ("b", 100)];
        assert!((super::price(&short, &short, PRICES) - 600.0).abs() < 1e-9);
    }

    #[test]
    fn a_compaction_pays_when_many_requests_save_and_little_is_read_again() {
        assert!(pays(20, 10_000, 10_000, Some(PRICES)));
        assert!(!pays(2, 1_000, 10_000, Some(PRICES)));
        assert!(
            pays(1, 1, 1_000_000, None),
            "without prices nothing is known against it"
        );
    }
}
