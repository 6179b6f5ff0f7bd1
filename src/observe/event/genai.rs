//! The metrics of OpenTelemetry's conventions for generative AI, by their names in Prometheus, so
//! that dashboards made for them work.

use std::time::Duration;

use hyper::Uri;
use prometheus::{Histogram, HistogramVec};

use crate::core::wire::Usage;
use crate::observe::label::labels;
use crate::observe::registry::{LabelDescription, Registered, Registrar, Series};

labels! {
    /// `gen_ai_operation_name`.
    pub enum Operation {
        /// A chat completion.
        Chat = "chat",
    }
}

labels! {
    /// `gen_ai_token_type`.
    pub enum TokenType {
        /// Tokens of prompts.
        Input = "input",
        /// Tokens of answers.
        Output = "output",
    }
}

labels! {
    /// `error_type`; empty for a success.
    pub enum ErrorType {
        /// No error.
        None = "",
        /// A status of 429.
        TooManyRequests = "429",
        /// Another client error.
        ClientError = "4xx",
        /// A server error, Baler's own included.
        ServerError = "5xx",
        /// The answer did not end properly.
        Broken = "broken",
    }
}

/// The boundaries that the conventions give for tokens: powers of four.
const TOKEN_BUCKETS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// The boundaries that they give for durations, seconds.
const SECOND_BUCKETS: [f64; 14] = [
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
];

/// The service that is called, as the conventions name it.
#[derive(Debug, Clone, Default)]
pub struct Provider {
    name: &'static str,
    address: String,
    port: String,
}

/// Hosts, or the ends of hosts, of providers that the conventions have a name for.
const PROVIDERS: [(&str, &str); 14] = [
    ("api.openai.com", "openai"),
    (".openai.azure.com", "azure.ai.openai"),
    (".services.ai.azure.com", "azure.ai.inference"),
    ("api.anthropic.com", "anthropic"),
    (".amazonaws.com", "aws.bedrock"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("api.cohere.ai", "cohere"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
];

impl Provider {
    /// The provider at an address. Others that speak OpenAI's protocol go by its name, as the
    /// conventions say.
    #[must_use]
    pub fn at(origin: &Uri) -> Self {
        let address = origin.host().unwrap_or_default().to_owned();
        let known = PROVIDERS.iter().find(|(end, _)| address.ends_with(end));
        let default_port = if origin.scheme_str() == Some("http") {
            80
        } else {
            443
        };
        let port = origin.port_u16().unwrap_or(default_port);
        Provider {
            name: known.map_or("openai", |(_, name)| name),
            port: port.to_string(),
            address,
        }
    }
}

/// The metrics of these conventions.
#[derive(Debug)]
pub(in crate::observe) struct GenAiFamilies {
    tokens: HistogramVec,
    duration: HistogramVec,
    first_chunk: HistogramVec,
}

impl GenAiFamilies {
    pub(in crate::observe) fn register(registrar: &mut Registrar) -> Registered<Self> {
        let labels = |more: &[LabelDescription]| {
            let mut labels = vec![
                LabelDescription::of::<Operation>("gen_ai_operation_name"),
                LabelDescription::open("gen_ai_provider_name"),
                LabelDescription::open("gen_ai_request_model"),
                LabelDescription::open("server_address"),
                LabelDescription::open("server_port"),
            ];
            labels.extend_from_slice(more);
            labels
        };
        Ok(GenAiFamilies {
            tokens: registrar.histograms(
                "gen_ai_client_token_usage",
                "Tokens of prompts and of answers, as the upstream reported them.",
                labels(&[LabelDescription::of::<TokenType>("gen_ai_token_type")]),
                &TOKEN_BUCKETS,
            )?,
            duration: registrar.histograms(
                "gen_ai_client_operation_duration_seconds",
                "Time that chat completions took.",
                labels(&[LabelDescription::of::<ErrorType>("error_type")]),
                &SECOND_BUCKETS,
            )?,
            first_chunk: registrar.histograms(
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                "Time to the first piece of a streamed chat completion.",
                labels(&[]),
                &SECOND_BUCKETS,
            )?,
        })
    }

    /// The series of one model, created at 0.
    pub(in crate::observe) fn of(&self, model: &str, provider: &Provider) -> GenAiMetrics {
        let Provider {
            name,
            address,
            port,
        } = provider;
        let operation = Operation::Chat.as_str();
        let labels = [operation, name, model, address, port];
        let with = |more: &'static str| {
            let [operation, name, model, address, port] = labels;
            [operation, name, model, address, port, more]
        };
        GenAiMetrics {
            tokens: Series::new(TokenType::ALL.iter().copied(), |kind| {
                self.tokens.with_label_values(&with(kind.as_str()))
            }),
            duration: Series::new(ErrorType::ALL.iter().copied(), |error| {
                self.duration.with_label_values(&with(error.as_str()))
            }),
            first_chunk: self.first_chunk.with_label_values(&labels),
        }
    }
}

/// The series of one model, looked up once.
#[derive(Debug)]
pub(in crate::observe) struct GenAiMetrics {
    tokens: Series<TokenType, Histogram>,
    duration: Series<ErrorType, Histogram>,
    first_chunk: Histogram,
}

impl GenAiMetrics {
    /// Records one chat completion.
    pub(super) fn record(
        &self,
        error: ErrorType,
        usage: Option<Usage>,
        took: Duration,
        first_chunk: Option<Duration>,
    ) {
        self.duration.observe(error, took.as_secs_f64());
        if let Some(time) = first_chunk {
            self.first_chunk.observe(time.as_secs_f64());
        }
        if let Some(usage) = usage {
            let tokens = |count: u64| crate::core::conversation::as_float(count);
            self.tokens
                .observe(TokenType::Input, tokens(usage.prompt_tokens));
            // A report in a header tells nothing of the answer.
            if usage.completion_tokens > 0 {
                let output = tokens(usage.completion_tokens);
                self.tokens.observe(TokenType::Output, output);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_named_by_their_host() {
        for (origin, name, port) in [
            ("https://api.openai.com", "openai", "443"),
            ("https://x.openai.azure.com", "azure.ai.openai", "443"),
            ("https://api.mistral.ai", "mistral_ai", "443"),
            ("http://127.0.0.1:8080", "openai", "8080"),
            ("http://vllm", "openai", "80"),
        ] {
            let provider = Provider::at(&Uri::from_static(origin));
            assert_eq!((provider.name, &*provider.port), (name, port), "{origin}");
        }
    }
}
