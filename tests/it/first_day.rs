//! The first day with Baler: it does what the configuration says, and says what it does.

use baler::config::{Problems, Sources, load};
use baler::core::policy::{Mode, Window};

fn with_env(env: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Sources {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Sources {
        env: env.iter().map(owned).collect(),
        flags: flags
            .iter()
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect(),
        ..Sources::default()
    }
}

#[test]
fn the_default_policy_can_be_set_by_variables_and_flags() {
    let env = [
        ("BALER_POLICY__MODE", "observe"),
        ("BALER_POLICY__WINDOW", "128k"),
        ("BALER_POLICY__LADDER", "digest,token_budget"),
        ("BALER_LIMITS__BODY_BYTES", "16MiB"),
    ];
    let config = load(&with_env(&env, &[])).unwrap();
    let policy = &config.policies[0];
    assert_eq!(config.policies.len(), 1);
    assert_eq!(policy.delivery.mode, Mode::Observe);
    assert_eq!(policy.window, Window::Tokens(128_000));
    assert_eq!(policy.ladder.len(), 2);
    assert_eq!(config.limits.body_bytes, 16 << 20);
    // Flags are stronger.
    let config = load(&with_env(&env, &[("policy.mode", "off")])).unwrap();
    assert_eq!(config.policies[0].delivery.mode, Mode::Off);
    let Problems(problems) = load(&with_env(&[("BALER_POLICY__MODE", "shadow")], &[])).unwrap_err();
    let text = problems[0].to_string();
    assert!(
        text.contains("observe") && text.contains("(BALER_POLICY__MODE)"),
        "{text}"
    );
}

#[test]
fn what_serve_would_refuse_is_refused_at_once() {
    for (name, value, key) in [
        ("BALER_UPSTREAM__CA_FILE", "/nope.pem", "upstream.ca_file"),
        ("BALER_UPSTREAM__URL", "http://x:99999/v1", "upstream.url"),
        (
            "BALER_UPSTREAM__URL",
            "http://x/v1/chat/completions",
            "upstream.url",
        ),
        ("BALER_LOG__LEVEL", "loud", "log.level"),
    ] {
        let Problems(problems) = load(&with_env(&[(name, value)], &[])).expect_err(value);
        assert_eq!(problems[0].key, key, "{value}");
    }
    let config = load(&with_env(&[("BALER_LOG__LEVEL", "WARNING")], &[])).unwrap();
    assert_eq!(config.log_level, "warn");
}
