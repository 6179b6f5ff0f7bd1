//! Configuration: precedence, and errors that name the place, all at once.

use std::collections::BTreeMap;

use baler::config::{Config, Problem, Problems, Sources, load, load_admin, raw};

fn sources(
    toml: &str,
    env: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> (Sources, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let env: BTreeMap<String, String> = env
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let flags = flags
        .iter()
        .map(|(key, value)| (*key, (*value).to_owned()))
        .collect();
    (
        Sources {
            file: Some(file.path().to_owned()),
            env,
            flags,
            ..Sources::default()
        },
        file,
    )
}

fn read(
    toml: &str,
    env: &[(&str, &str)],
    flags: &[(&'static str, &str)],
) -> Result<Config, Vec<Problem>> {
    let (sources, _file) = sources(toml, env, flags);
    load(&sources).map_err(|Problems(problems)| problems)
}

#[test]
fn no_file_at_all_is_a_good_start() {
    let config = load(&Sources::default()).unwrap();
    assert_eq!(config.upstream.origin, "https://api.openai.com/");
    assert_eq!(config.listen.to_string(), "127.0.0.1:4141");
    assert_eq!(config.policies.len(), 1);
}

#[test]
fn flags_beat_environment_beats_file_beats_openais_variable() {
    let file = "[upstream]\nurl = \"http://file/v1\"\n\
        [listen]\naddress = \"127.0.0.1:1\"\n[limits]\nin_flight = 7\n";
    let env = [
        ("BALER_UPSTREAM__URL", "http://env/v1"),
        ("BALER_LISTEN__ADDRESS", "127.0.0.1:2"),
        ("OPENAI_BASE_URL", "http://openai/v1"),
    ];
    let config = read(file, &env, &[("upstream.url", "http://flag/v1")]).unwrap();
    assert_eq!(config.upstream.origin, "http://flag/");
    assert_eq!(config.listen.to_string(), "127.0.0.1:2");
    assert_eq!(config.limits.in_flight, 7);
    assert_eq!(
        read(file, &env[2..], &[]).unwrap().upstream.origin,
        "http://file/"
    );
    assert_eq!(
        read("", &env[2..], &[]).unwrap().upstream.origin,
        "http://openai/"
    );
    assert_eq!(read("", &env, &[]).unwrap().upstream.origin, "http://env/");
}

#[test]
fn every_problem_is_reported_at_once_with_its_key() {
    let file = r#"
top = 1
[listen]
adress = "127.0.0.1:1"
[upstream]
url = "ftp://x"
http2 = "yes"
connect_timeout = "soon"
[limits]
in_flight = -3
[[policy]]
name = "a b"
mode = "enforced"
window = "big"
trigger = { ratio = 1.5 }
ladder = [
    "clear_result",
    { token_budget = { threshhold = 1 } },
    { sliding_window = { turns = 1, messages = 2 } },
]
[[policy]]
target = { ratio = 0.9 }
pin = { text = "(" }
on_unfit = "drop"
"#;
    let problems = read(
        file,
        &[
            ("BALER_LISTEN__WORKERS", "many"),
            ("BALER_UPSTREAM_URL", "http://x"),
        ],
        &[("log.level", "=loud=")],
    )
    .unwrap_err();
    let text = problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    for expected in [
        "top: unknown key; known here",
        "listen.adress: unknown key, did you mean \"address\"?",
        "upstream.url: not an http or https URL",
        "upstream.http2: ",
        "upstream.connect_timeout: \"soon\" is not a duration",
        "limits.in_flight: ",
        "got -3",
        "policy.0.name: \"a b\"",
        "policy.0.mode: unknown value \"enforced\", did you mean \"enforce\"?",
        "policy.0.window: ",
        "policy.0.trigger.ratio: 1.5 is not between 0 and 1",
        "did you mean \"clear_results\"?",
        "policy.0.ladder.1.token_budget.threshhold: unknown key, did you mean \"threshold\"?",
        "policy.0.ladder.2.sliding_window: takes one of",
        "policy.1.target: is not below the trigger",
        "policy.1.pin.text: \"(\" is not a regular expression: unclosed group",
        "policy.1.on_unfit: unknown value \"drop\"",
        "listen.workers: ",
        "(BALER_LISTEN__WORKERS)",
        "BALER_UPSTREAM_URL: no such variable",
        "did you mean BALER_UPSTREAM__URL?",
        "log.level: \"=loud=\"",
        "(--log-level)",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_are_ignored() {
    let env = [
        ("BALER_SERVICE_HOST", "10.0.0.1"),
        ("BALER_SERVICE_PORT", "4141"),
        ("BALER_SERVICE_PORT_HTTP", "4141"),
        ("BALER_PORT", "tcp://10.0.0.1:4141"),
        ("BALER_PORT_4141_TCP", "tcp://10.0.0.1:4141"),
        ("BALER_PORT_4141_TCP_PROTO", "tcp"),
        ("BALER_METRICS_SERVICE_HOST", "10.0.0.2"),
        ("BALER_METRICS_PORT_4142_TCP", "tcp://10.0.0.2:4142"),
        ("BALER_CONFIG", "/etc/baler.toml"),
    ];
    read("", &env, &[]).unwrap();
}

#[test]
fn a_loop_and_a_clash_of_ports_are_refused() {
    for url in [
        "http://127.0.0.1:4141/v1",
        "http://localhost:4141",
        "http://[::1]:4141/v1",
    ] {
        let problems = read("", &[("OPENAI_BASE_URL", url)], &[]).unwrap_err();
        assert!(problems[0].what.contains("round in circles"), "{url}");
        let way_out = "unset OPENAI_BASE_URL for Baler, or give --upstream";
        assert!(problems[0].what.contains(way_out), "{url}");
        // A command that forwards nothing has no such circle.
        let (mut sources, _file) = sources("", &[("OPENAI_BASE_URL", url)], &[]);
        sources.may_loop = true;
        load(&sources).unwrap();
    }
    let problems = read("", &[], &[("upstream.url", "http://localhost:4142/v1")]).unwrap_err();
    let what = &problems[0].what;
    assert!(
        what.contains("port for probes") && what.contains("name the API's"),
        "{what}"
    );
    assert!(read("", &[("BALER_ADMIN__ADDRESS", "127.0.0.1:4141")], &[]).is_err());
}

#[test]
fn a_probe_needs_the_address_of_probes_alone() {
    let admin = |toml: &str, env: &[(&str, &str)], flags: &[(&'static str, &str)]| {
        let (sources, _file) = sources(toml, env, flags);
        let Problems(problems) = match load_admin(&sources) {
            Ok(address) => return Ok(address.to_string()),
            Err(problems) => problems,
        };
        assert_eq!(problems.len(), 1, "{problems:?}");
        Err(problems[0].to_string())
    };
    let broken = "nonsense = 1\n[upstream]\nurl = 5\n[admin]\naddress = \"127.0.0.1:1\"\n";
    let unknown = [("BALER_FOO", "1"), ("BALER_POLICY__MODE", "loud")];
    let own = [("OPENAI_BASE_URL", "http://127.0.0.1:4141/v1")];
    assert_eq!(admin("", &own, &[]).unwrap(), "127.0.0.1:4142");
    assert_eq!(admin(broken, &unknown, &[]).unwrap(), "127.0.0.1:1");
    let flag = [("admin.address", "127.0.0.1:2")];
    assert_eq!(admin("no TOML", &[], &flag).unwrap(), "127.0.0.1:2");
    assert!(admin("no TOML", &[], &[]).unwrap_err().contains("TOML"));
    let problem = admin("[admin]\naddress = 4142\n", &[], &[]).unwrap_err();
    assert!(
        problem.starts_with("admin.address: ") && problem.contains("127.0.0.1"),
        "{problem}"
    );
}

#[test]
fn a_url_with_a_secret_is_refused_without_showing_it() {
    let problems = read(
        "",
        &[("BALER_UPSTREAM__URL", "https://user:hunter2@x/v1")],
        &[],
    )
    .unwrap_err();
    assert!(
        !problems[0].to_string().contains("hunter2"),
        "{}",
        problems[0]
    );
}

#[test]
fn unreadable_files_are_named() {
    let problems = read("[listen\n", &[], &[]).unwrap_err();
    assert!(problems[0].what.contains("TOML"), "{}", problems[0]);
    let missing = Sources {
        file: Some("/does/not/exist.toml".into()),
        ..Sources::default()
    };
    let Problems(problems) = load(&missing).unwrap_err();
    assert!(
        problems[0].key.contains("/does/not/exist.toml")
            && problems[0].what.contains("cannot be read")
    );
}

const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/baler.toml");

#[test]
fn the_shipped_file_shows_every_key_at_its_default() {
    let text = std::fs::read_to_string(SHIPPED).unwrap();
    let shipped: raw::Raw = toml::from_str(&text).unwrap();
    let defaults = raw::Raw {
        policy: vec![raw::Policy::default()],
        ..raw::Raw::default()
    };
    assert_eq!(shipped, defaults);

    // And it names all of them: taking any line away loses a key.
    fn keys(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map
                .iter()
                .for_each(|(key, value)| keys(value, &format!("{path}.{key}"), found)),
            serde_json::Value::Array(list) => {
                list.iter().for_each(|value| keys(value, path, found))
            }
            _ => found.push(path.to_owned()),
        }
    }
    let mut found = Vec::new();
    keys(&serde_json::to_value(&defaults).unwrap(), "", &mut found);
    for key in found {
        let name = key.rsplit('.').next().unwrap();
        assert!(text.contains(name), "{key} is not in config/baler.toml");
    }
}

#[test]
fn the_schema_is_fresh_and_knows_every_key() {
    let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config/schema.json"))
        .unwrap();
    assert_eq!(
        kept,
        format!("{:#}\n", raw::schema()),
        "run: cargo run -- schema > config/schema.json"
    );
    for key in raw::key_paths() {
        assert!(
            kept.contains(&format!("\"{}\"", key.rsplit('.').next().unwrap())),
            "{key}"
        );
    }
}

#[test]
fn problems_of_a_summariser_are_reported_with_their_keys() {
    let ladder = |step: &str| format!("[[policy]]\nladder = [{step}]\n");
    for (toml, key) in [
        (
            "[summarizer]\nurl = \"ftp://x\"".to_owned(),
            "summarizer.url",
        ),
        (
            "[summarizer]\nurl = \"http://127.0.0.1:4141/v1\"".to_owned(),
            "summarizer.url",
        ),
        (
            "[summarizer]\nstyle = \"suffix\"\nmodel = \"m\"".to_owned(),
            "summarizer.style",
        ),
        (
            "[summarizer]\napi_key_env = \"NOT_SET\"".to_owned(),
            "summarizer.api_key_env",
        ),
        (
            "[summarizer]\napi_key_file = \"/no/such/file\"".to_owned(),
            "summarizer.api_key_file",
        ),
        (
            "[summarizer]\nprompt_file = \"/no/such/file\"".to_owned(),
            "summarizer.prompt_file",
        ),
        (
            "[summarizer]\nparameters = { messages = [] }".to_owned(),
            "summarizer.parameters.messages",
        ),
        (
            "[summarizer]\nheaders = { \"a b\" = \"c\" }".to_owned(),
            "summarizer.headers",
        ),
        (
            "[summarizer]\nmax_share = 0.0".to_owned(),
            "summarizer.max_share",
        ),
        (
            "[summarizer]\ntimeout = \"soon\"".to_owned(),
            "summarizer.timeout",
        ),
        (
            ladder("{ summarize = { prepare_at = 0.8 } }"),
            "policy.0.ladder.0.summarize.prepare_at",
        ),
        (
            ladder("{ summarize = { wait = \"later\" } }"),
            "policy.0.ladder.0.summarize.wait",
        ),
        (
            ladder("{ summarize = { max_ungrounded = 2.0 } }"),
            "policy.0.ladder.0.summarize.max_ungrounded",
        ),
        (
            ladder("{ summarize = { extract_share = -0.1 } }"),
            "policy.0.ladder.0.summarize.extract_share",
        ),
        (
            ladder(
                "{ summarize = { files = [{ tool = \"[\", argument = \"path\", \
                kind = \"read\" }] } }",
            ),
            "policy.0.ladder.0.summarize.files.0.tool",
        ),
        (
            ladder(
                "{ summarize = { files = [{ tool = \"read\", argument = \"\", \
                kind = \"read\" }] } }",
            ),
            "policy.0.ladder.0.summarize.files.0.argument",
        ),
        (ladder("\"summarize\", \"summarize\""), "policy.0.ladder"),
    ] {
        let problems = read(&toml, &[], &[]).unwrap_err();
        assert!(
            problems.iter().any(|problem| problem.key == key),
            "{toml}: {problems:?}"
        );
    }
    let config = read(
        "[summarizer]\napi_key_env = \"SUMMARY_KEY\"",
        &[("SUMMARY_KEY", "sk-secret")],
        &[],
    )
    .unwrap();
    assert!(
        !format!("{config:?}").contains("sk-secret"),
        "a key is not for logs"
    );
    read(
        &ladder("{ summarize = { prepare_at = 0.9, wait = \"5s\" } }"),
        &[],
        &[],
    )
    .unwrap();
}

#[test]
fn a_renamed_key_names_its_new_name() {
    for (toml, key, new) in [
        (
            "[limits]\nthink_timeout = \"1s\"",
            "limits.think_timeout",
            "plan_timeout",
        ),
        (
            "[[policy]]\ninject_usage = true",
            "policy.0.inject_usage",
            "include_usage",
        ),
        (
            "[[policy]]\nladder = [{ summarize = { max_invented = 0.1 } }]",
            "policy.0.ladder.0.summarize.max_invented",
            "max_ungrounded",
        ),
        (
            "[[policy]]\nladder = [{ summarize = { facts = 0.1 } }]",
            "policy.0.ladder.0.summarize.facts",
            "extract_share",
        ),
        (
            "[[policy]]\nladder = [{ summarize = { artifacts = [] } }]",
            "policy.0.ladder.0.summarize.artifacts",
            "files",
        ),
    ] {
        let problems = read(toml, &[], &[]).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].key, key);
        assert_eq!(problems[0].what, format!("renamed to {new}"));
    }
    let variable = [("BALER_LIMITS__THINK_TIMEOUT", "1s")];
    let problems = read("", &variable, &[]).unwrap_err();
    assert_eq!(problems[0].what, "renamed to plan_timeout");
    assert_eq!(
        problems[0].source.as_deref(),
        Some("BALER_LIMITS__THINK_TIMEOUT")
    );
}

#[test]
fn options_and_limits_of_a_step_share_a_table() {
    let ladder = |step: &str| format!("[[policy]]\nladder = [{step}]\n");
    let step = |toml: &str| {
        let config = read(&ladder(toml), &[], &[]).unwrap();
        config.policies[0].ladder[0].clone()
    };
    let limited = step("{ clear_results = { tools = [\"read_*\"], keep = 7, older_than = 4 } }");
    assert!(limited.scope.tools.is_match("read_file"));
    assert!(!limited.scope.tools.is_match("write_file"));
    assert_eq!(limited.scope.older_than, 4);
    // What is written is what was read.
    let written = serde_json::to_value(&limited).unwrap();
    assert_eq!(
        written,
        serde_json::json!({ "clear_results": {
            "keep": 7, "keep_tokens": 0, "clear_inputs": false, "clear_at_least": 0,
            "tools": ["read_*"], "exclude_tools": [], "older_than": 4,
        } })
    );
    assert_eq!(
        serde_json::from_value::<baler::core::strategy::Step>(written).unwrap(),
        limited
    );
    assert_eq!(step("\"digest\""), step("{ digest = {} }"));

    for (toml, key, what) in [
        (
            "{ digest = { tool = [] } }",
            "policy.0.ladder.0.digest.tool",
            "known here: tools, exclude_tools, older_than",
        ),
        (
            "{ minify = { tools = [\"a\", \"[\"] } }",
            "policy.0.ladder.0.minify.tools.1",
            "unclosed character class",
        ),
        (
            "{ minify = { older_than = \"x\" } }",
            "policy.0.ladder.0.minify.older_than",
            "got \"x\"",
        ),
        (
            "{ token_budget = { budget = { ratio = 0.5, tokens = 5 } } }",
            "policy.0.ladder.0.token_budget.budget",
            "takes one of ratio and tokens",
        ),
        (
            "{ digest = {}, minify = {} }",
            "policy.0.ladder.0",
            "one strategy a table",
        ),
        (
            "{ digests = {} }",
            "policy.0.ladder.0.digests",
            "did you mean \"digest\"?",
        ),
    ] {
        let problems = read(&ladder(toml), &[], &[]).unwrap_err();
        assert_eq!(problems[0].key, key, "{toml}: {problems:?}");
        assert!(problems[0].what.contains(what), "{toml}: {problems:?}");
    }
}

#[test]
fn no_value_that_may_be_a_secret_is_shown() {
    let secret = "sk-live-0123456789";
    for toml in [
        "[summarizer]\napi_key = \"SECRET\"\n",
        "[upstream]\napi_key = \"SECRET\"\n",
        "[summarizer]\nurl = \"http://127.0.0.1:1\"\napi_key_env = \"SECRET\"\n",
        "[summarizer]\nurl = \"http://127.0.0.1:1\"\napi_key_file = \"SECRET\"\n",
        "[summarizer]\nheaders = \"SECRET\"\n",
        "[summarizer.headers]\n\"authorization: Bearer SECRET\" = \"x\"\n",
        "[summarizer.headers]\nauthorization = \"SECRET\\n\"\n",
        "[summarizer.headers]\nx-baler-mode = \"SECRET\"\n",
        "[upstream]\nusage_headers = [\"authorization: SECRET\"]\n",
        "[tenant]\nheaders = [\"authorization\", \"x-key: SECRET\"]\n",
        "[listen]\nauth_tokens_file = \"SECRET\"\n",
        "[listen]\nauth_tokens_file = [\"SECRET\"]\n",
        "[listen]\ntoken = \"SECRET\"\n",
        "summarizer = \"SECRET\"\n",
        "api_key = \"SECRET\"\n",
        "[summarizer]\napi_key_env = SECRET\n",
        "[[policy]]\nladder = [{ webhook = { url = \"http://user:SECRET@127.0.0.1:1\" } }]\n",
        "[[policy]]\npassword = \"SECRET\"\n",
    ] {
        let problems = read(&toml.replace("SECRET", secret), &[], &[]).unwrap_err();
        assert!(!problems.is_empty(), "{toml}");
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(!text.concat().contains(secret), "{toml}: {text:?}");
    }
    for variable in [
        "BALER_SUMMARIZER__API_KEY",
        "BALER_SUMMARIZER__HEADERS",
        "BALER_UPSTREAM__TOKEN",
        "BALER_LISTEN__AUTH_TOKENS_FILE",
    ] {
        let problems = read("", &[(variable, secret)], &[]).unwrap_err();
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(!text.concat().contains(secret), "{variable}: {text:?}");
        assert!(
            text.concat().contains(variable),
            "the place is told: {text:?}"
        );
    }
}

#[test]
fn the_list_of_credentials_must_hold_the_usual_one() {
    let problems = read("[tenant]\nheaders = [\"x-key\"]\n", &[], &[]).unwrap_err();
    assert_eq!(problems[0].key, "tenant.headers");
    read("[tenant]\nheaders = [\"Authorization\"]\n", &[], &[]).unwrap();
}
