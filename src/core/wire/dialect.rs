//! The verbs of a wire format apart from reading and rewriting messages: which requests speak it,
//! what an answer reports, and Baler's own calls and errors.

use memchr::memmem::Finder;

use crate::core::wire::chat;
use crate::core::wire::chat::{Insertion, Opening, Outline, UsageFilter};
use crate::core::wire::overflow::Overflow;
use crate::core::wire::own_call::{Ask, Manner, NoCompletion, Parameter};
use crate::core::wire::usage::{Usage, UsageReader};
use crate::core::wire::{Dialect, Fault};

/// Collections whose members have resources of their own: a POST to `/threads/ID/messages` is not
/// one to `/messages`.
const COLLECTIONS: [&str; 3] = ["threads", "conversations", "batches"];

/// Names and routing.
impl Dialect {
    /// The value of the metric label `endpoint`, and the dialect's name in seeds and keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::ChatCompletions => "chat",
        }
    }

    /// How the paths of its requests end, unless the configuration says otherwise.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Dialect::ChatCompletions => chat::SUFFIX,
        }
    }

    /// The dialect of a POST to `path`, where the paths of chat completions end in one of
    /// `chat_suffixes`. `None` for requests that are passed on unread.
    ///
    /// A suffix of a single segment is an ambiguous one: it does not match below a member of a
    /// collection.
    #[must_use]
    pub fn route(path: &str, chat_suffixes: &[String]) -> Option<Self> {
        chat_suffixes
            .iter()
            .any(|suffix| ends_in(path, suffix))
            .then_some(Dialect::ChatCompletions)
    }

    /// The model that a body names, found without reading further than its name. Good only for
    /// choosing a policy: a body that is malformed after that point, or names its model twice, is
    /// not noticed. The messages of an opening that it begins with are not read.
    #[must_use]
    pub fn peek_model(self, body: &[u8], opening: Option<&Opening>) -> Option<String> {
        match self {
            Dialect::ChatCompletions => chat::peek_model(body, opening),
        }
    }
}

fn ends_in(path: &str, suffix: &str) -> bool {
    let Some(base) = path.strip_suffix(suffix) else {
        return false;
    };
    let is_one_segment = suffix.matches('/').count() == 1;
    !(is_one_segment
        && base
            .split('/')
            .any(|segment| COLLECTIONS.contains(&segment)))
}

/// The request at a glance: bytes that are looked for without parsing.
impl Dialect {
    /// Keys of a request that limit its answer, in quotation marks.
    #[must_use]
    pub fn output_limit_keys(self) -> &'static [Finder<'static>] {
        match self {
            Dialect::ChatCompletions => chat::output_limit_keys(),
        }
    }

    /// Without any of these, or an escape that may spell one, a body has no media.
    #[must_use]
    pub fn media_markers(self) -> &'static [Finder<'static>] {
        match self {
            Dialect::ChatCompletions => chat::media_markers(),
        }
    }

    /// The most tokens of a prompt that no byte of the body accounts for.
    #[must_use]
    pub fn header_tokens(self) -> u64 {
        match self {
            Dialect::ChatCompletions => chat::HARMONY_TOKENS,
        }
    }

    /// The edit that makes a streaming request ask for usage. `None` for one that does not stream,
    /// asks already, or is not as the API describes it.
    #[must_use]
    pub fn include_usage(self, body: &[u8]) -> Option<Insertion> {
        match self {
            Dialect::ChatCompletions => chat::include_usage_edit(body),
        }
    }
}

/// The answer.
impl Dialect {
    /// Takes out of a stream what is only there because of [`Dialect::include_usage`].
    #[must_use]
    pub fn usage_filter(self) -> UsageFilter {
        match self {
            Dialect::ChatCompletions => UsageFilter::default(),
        }
    }

    /// A reader of the usage that an answer reports.
    #[must_use]
    pub fn usage_reader(self) -> UsageReader {
        UsageReader::new(self)
    }

    /// Whether the data of a stream's event may report usage. Cheap: most events do not, and are
    /// not parsed.
    pub(super) fn may_report_usage(self, data: &[u8]) -> bool {
        match self {
            Dialect::ChatCompletions => chat::may_report_usage(data),
        }
    }

    /// The usage in a whole answer, or in the data of one event of a stream.
    #[must_use]
    pub fn usage(self, json: &[u8]) -> Option<Usage> {
        match self {
            Dialect::ChatCompletions => chat::usage(json),
        }
    }

    /// What an event's usage adds to what earlier events of the same stream reported.
    pub(super) fn merge_usage(self, _earlier: Option<Usage>, event: Usage) -> Usage {
        match self {
            // Each event reports the whole stream so far.
            Dialect::ChatCompletions => event,
        }
    }

    /// The overflow that a whole answer reports: as an error, also under status 200, or as the
    /// reason why it ended.
    #[must_use]
    pub fn overflow(self, status: u16, body: &[u8]) -> Option<Overflow> {
        match self {
            Dialect::ChatCompletions => chat::overflow(status, body),
        }
    }

    /// The overflow that the data of a stream's event reports.
    #[must_use]
    pub fn overflow_event(self, data: &[u8]) -> Option<Overflow> {
        match self {
            Dialect::ChatCompletions => chat::overflow_event(data),
        }
    }

    /// The body of an error that Baler answers with. `code` is the error's static kind.
    #[must_use]
    pub fn error_body(self, fault: Fault, code: &str, message: &str) -> String {
        match self {
            Dialect::ChatCompletions => chat::error_body(fault, code, message),
        }
    }
}

/// Baler's own calls of a model.
impl Dialect {
    /// The path of Baler's own calls, as a client of Baler would spell it (`/v1` stands for the
    /// path of the upstream's URL), when `request_path` is the path of the request that the call is
    /// made for. It is never the client's own path, whose dialect or version may be another: only a
    /// deployment in it (Azure) is kept, because there it names the model.
    #[must_use]
    pub fn own_path(self, request_path: &str) -> String {
        match self {
            Dialect::ChatCompletions => chat::own_path(request_path),
        }
    }

    /// Fields of a call that the operator's own parameters may not replace.
    #[must_use]
    pub fn own_fields(self) -> &'static [&'static str] {
        match self {
            Dialect::ChatCompletions => &chat::OWN_FIELDS,
        }
    }

    /// The body of a call.
    #[must_use]
    pub fn completion_request(self, ask: &Ask<'_>) -> String {
        match self {
            Dialect::ChatCompletions => chat::completion_request(ask),
        }
    }

    /// The body of a call that continues a client's request: `messages` instead of its list, and
    /// `text` as the last message of the user. `None` when the client's body is not an object.
    #[must_use]
    pub fn continued_request(
        self,
        outline: &Outline<'_>,
        messages: &[&str],
        text: &str,
        manner: &Manner,
    ) -> Option<String> {
        match self {
            Dialect::ChatCompletions => chat::continued_request(outline, messages, text, manner),
        }
    }

    /// The text of an answer to a call.
    ///
    /// # Errors
    /// [`NoCompletion`] when the answer has no finished text.
    pub fn completion(self, body: &[u8]) -> Result<String, NoCompletion> {
        match self {
            Dialect::ChatCompletions => chat::completion(body),
        }
    }

    /// The parameter of a call that an error complains about.
    #[must_use]
    pub fn refused_parameter(self, body: &[u8]) -> Option<Parameter> {
        match self {
            Dialect::ChatCompletions => chat::refused_parameter(body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_dialect() {
        let suffixes = ["/chat/completions", "/messages"].map(str::to_owned);
        for (path, inspected) in [
            ("/v1/chat/completions", true),
            ("/chat/completions", true),
            ("/openai/deployments/gpt-4o/chat/completions", true),
            ("/v1/messages", true),
            ("/messages", true),
            ("/v1/threads/thread_1/messages", false),
            ("/v1/conversations/1/messages", false),
            ("/v1/threads/1/chat/completions", true),
            ("/v1/messages/count_tokens", false),
            ("/v1/chat/completions/", false),
            ("/v1/models", false),
            ("", false),
        ] {
            assert_eq!(
                Dialect::route(path, &suffixes).is_some(),
                inspected,
                "{path}"
            );
        }
        assert_eq!(Dialect::route("/v1/chat/completions", &[]), None);
    }
}
