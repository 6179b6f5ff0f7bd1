//! What upstreams say about requests that are too long, as it was recorded, and what sounds like
//! it.

use baler::core::wire::overflow::{Kind, Overflow, Prompt, in_answer, in_event};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Row {
    vendor: String,
    case: String,
    status: u16,
    /// A text, or JSON that is sent as it stands.
    body: Value,
    overflow: Option<Expected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    kind: String,
    window: Option<u64>,
    #[serde(default)]
    input_only: bool,
    prompt: Option<u64>,
    exact: Option<bool>,
    output: Option<u64>,
}

impl Row {
    fn body(&self) -> String {
        match &self.body {
            Value::String(text) => text.clone(),
            json => json.to_string(),
        }
    }

    fn expected(&self) -> Option<Overflow> {
        let expected = self.overflow.as_ref()?;
        let kind = match expected.kind.as_str() {
            "prompt" => Kind::Prompt,
            "total" => Kind::Total,
            "output" => Kind::Output,
            other => panic!("{}: no kind {other}", self.case),
        };
        Some(Overflow {
            kind,
            window: expected.window,
            input_only: expected.input_only,
            prompt: expected.prompt.map(|tokens| Prompt {
                tokens,
                exact: expected.exact.expect("a prompt is exact or not"),
            }),
            output_tokens: expected.output,
        })
    }
}

fn rows() -> Vec<Row> {
    include_str!("fixtures/overflow.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn recorded_answers_are_understood() {
    let wrong: Vec<String> = rows()
        .iter()
        .filter_map(|row| {
            let found = in_answer(row.status, row.body().as_bytes());
            (found != row.expected()).then(|| {
                format!(
                    "{}, {}:\n  found    {found:?}\n  expected {:?}",
                    row.vendor,
                    row.case,
                    row.expected()
                )
            })
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn an_event_of_a_stream_tells_the_same() {
    for row in rows() {
        // These words are believed at certain statuses only, and an event has none.
        if matches!(row.vendor.as_str(), "any" | "gateway")
            || row.case == "code with another text"
            || row.case == "validation"
        {
            continue;
        }
        // Some envelopes do not say of themselves that they are errors; they do not occur in
        // streams.
        let says_error = row
            .body
            .get("error")
            .or_else(|| row.body.get(0)?.get("error"))
            .is_some_and(|error| !error.is_null());
        if says_error && row.status != 429 {
            assert_eq!(
                in_event(row.body().as_bytes()),
                row.expected(),
                "{}, {}",
                row.vendor,
                row.case
            );
        }
    }
}

#[test]
fn common_words_are_believed_at_the_statuses_of_bad_requests_only() {
    for row in rows()
        .iter()
        .filter(|row| row.vendor == "any" && row.overflow.is_some())
    {
        for status in [400, 413, 422] {
            assert!(
                in_answer(status, row.body().as_bytes()).is_some(),
                "{} at {status}",
                row.case
            );
        }
        for status in [200, 401, 404, 429, 500, 503] {
            assert_eq!(
                in_answer(status, row.body().as_bytes()),
                None,
                "{} at {status}",
                row.case
            );
        }
    }
}

#[test]
fn no_wording_is_an_overflow_at_the_status_of_rate_limits() {
    for row in rows() {
        assert_eq!(
            in_answer(429, row.body().as_bytes()),
            None,
            "{}, {}",
            row.vendor,
            row.case
        );
    }
}

#[test]
fn case_does_not_matter() {
    for row in rows()
        .iter()
        .filter(|row| row.overflow.is_some() && row.body.pointer("/error/message").is_some())
    {
        let mut body = row.body.clone();
        let message = body.pointer_mut("/error/message").unwrap();
        // JSON inside a message has keys, which are as they are.
        if let Some(text) = message.as_str().filter(|text| !text.contains('{')) {
            *message = Value::String(text.to_ascii_uppercase());
        }
        assert_eq!(
            in_answer(row.status, body.to_string().as_bytes()),
            row.expected(),
            "{}, {}",
            row.vendor,
            row.case
        );
    }
}

#[test]
fn envelopes_within_envelopes_end_somewhere() {
    let message =
        r#"{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#.to_owned();
    let wrapped = |times: usize| {
        (0..times).fold(message.clone(), |inner, _| {
            Value::Object(
                [("detail".to_owned(), Value::String(inner))]
                    .into_iter()
                    .collect(),
            )
            .to_string()
        })
    };
    assert!(in_answer(400, wrapped(2).as_bytes()).is_some());
    assert_eq!(in_answer(400, wrapped(9).as_bytes()), None);
    assert_eq!(in_answer(400, "[".repeat(60_000).as_bytes()), None);
    assert_eq!(
        in_answer(400, r#"{"error":"#.repeat(6_000).as_bytes()),
        None
    );
}

proptest! {
    #[test]
    fn any_bytes_are_no_reason_to_panic(status in 100u16..=599,
        body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = in_answer(status, &body);
        let _ = in_event(&body);
    }

    #[test]
    fn mangled_answers_are_no_reason_to_panic(
        status in 100u16..=599,
        row in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        piece in "[0-9]{0,40}|\\PC{0,8}|[\"{}\\[\\]\\\\]{0,8}",
        replaced in 0usize..30,
    ) {
        let rows = rows();
        let mut body = rows[row.index(rows.len())].body();
        let start = body.floor_char_boundary(cut.index(body.len() + 1));
        let end = body.ceil_char_boundary((start + replaced).min(body.len()));
        body.replace_range(start..end, &piece);
        let _ = in_event(body.as_bytes());
        if let Some(overflow) = in_answer(status, body.as_bytes()) {
            let plausible = |window| (1_000..=20_000_000).contains(&window);
            prop_assert!(overflow.window.is_none_or(plausible));
            prop_assert!(overflow.window.is_some() || !overflow.input_only);
            prop_assert!(overflow.prompt.is_none_or(|prompt| prompt.tokens > 0));
        }
    }
}
