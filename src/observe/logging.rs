//! Log lines on standard error.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

/// Starts logging. A later call changes nothing, so that tests may start several Balers.
pub fn init(format: LogFormat, level: &str) {
    let level = own_lines(level);
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    let _ = match format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => builder.event_format(JsonLines).try_init(),
    };
    // A panic's own message may quote content; its location is enough to find the defect.
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(
            at = panic.location().map(ToString::to_string),
            "panic: a defect; the request concerned continues without the failed work"
        );
    }));
}

/// The filter with `debug` standing for Baler's own lines: the HTTP library's would bury them.
/// `trace`, or a directive for a module, shows those as well.
fn own_lines(level: &str) -> String {
    let directives = level.split(',').map(|directive| {
        if directive.trim().eq_ignore_ascii_case("debug") {
            "info,baler=debug"
        } else {
            directive
        }
    });
    directives.collect::<Vec<_>>().join(",")
}

/// A field whose text is JSON already: a list of what each step did.
const JSON_FIELD: &str = "steps";

/// One flat object a line: time, level, message and fields. Numbers are numbers.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = JsonLine(String::from("{"));
        line.member("timestamp", &json(&time));
        line.member("level", &json(event.metadata().level().as_str()));
        event.record(&mut line);
        writeln!(writer, "{}}}", line.0)
    }
}

/// An object being written.
struct JsonLine(String);

impl JsonLine {
    fn member(&mut self, name: &str, json_value: &str) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        self.0.push_str(&json(name));
        self.0.push(':');
        self.0.push_str(json_value);
    }
}

/// A text as a JSON string.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Visit for JsonLine {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(field.name(), &serde_json::Value::from(value).to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field.name(), &value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field.name(), &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field.name(), &value.to_string());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == JSON_FIELD {
            self.member(field.name(), value);
        } else {
            self.member(field.name(), &json(value));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.member(field.name(), &json(&format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_stands_for_own_lines() {
        assert_eq!(own_lines("info"), "info");
        assert_eq!(own_lines("DEBUG"), "info,baler=debug");
        assert_eq!(own_lines("warn,hyper=debug"), "warn,hyper=debug");
        assert_eq!(own_lines("trace"), "trace");
    }

    #[test]
    fn a_line_is_one_flat_object() {
        let mut line = JsonLine(String::from("{"));
        line.member("a", &json("\"x\"\n"));
        line.member("b", "1");
        assert_eq!(format!("{}}}", line.0), r#"{"a":"\"x\"\n","b":1}"#);
    }
}
