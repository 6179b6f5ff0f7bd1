//! `baler demo`: plays a long conversation of a tool-using agent twice, directly with a model that
//! has a small window and through Baler, and prints both side by side. Everything runs in this
//! process, on loopback.

mod script;
mod upstream;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::app;
use crate::app::{Drained, Listeners};
use crate::cli::DemoFlags;
use crate::config;
use crate::config::raw;
use crate::core::conversation::{ratio, scale};
use crate::core::policy::Window;
use crate::proxy;
use crate::server;
use crate::server::{Bounds, Worker};

/// Tokens that the agent reserves for each answer.
const ANSWER_TOKENS: u64 = 500;
/// Pause between turns on a terminal, so that a person can follow.
const PACE: Duration = Duration::from_millis(120);
/// Characters of an occupancy bar.
const BAR: usize = 20;

pub(super) fn run(flags: &DemoFlags) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let clean = runtime.block_on(play(flags))?;
    runtime.shutdown_background();
    Ok(if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One of the two conversations: with or without Baler.
#[derive(Debug)]
struct Lane {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    messages: Vec<Value>,
    answered: u32,
    errors: u32,
    first_error: Option<u32>,
    compactions: u32,
    /// Prompt tokens of the answered requests, as the model counted them, and the share of them
    /// that the model had cached.
    prompt: u64,
    cached: u64,
    saved: u64,
}

/// The outcome of one turn.
#[derive(Debug)]
struct Turn {
    status: u16,
    /// Prompt tokens; 0 if the model refused the request.
    prompt: u64,
    action: String,
    removed: u64,
}

impl Lane {
    fn new(address: SocketAddr) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Lane {
            address,
            client,
            messages: script::opening(),
            answered: 0,
            errors: 0,
            first_error: None,
            compactions: 0,
            prompt: 0,
            cached: 0,
            saved: 0,
        }
    }

    async fn take(&mut self, turn: u32) -> anyhow::Result<Turn> {
        let body =
            json!({ "model": "demo", "max_tokens": ANSWER_TOKENS, "messages": self.messages })
                .to_string();
        let request = Request::post(format!("http://{}/v1/chat/completions", self.address))
            .header("content-type", "application/json")
            .body(Full::from(body))?;
        let response = self.client.request(request).await?;
        let status = response.status().as_u16();
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let (action, tokens) = (
            header("x-baler-action")
                .split(';')
                .next()
                .unwrap_or_default()
                .to_owned(),
            header("x-baler-tokens"),
        );
        let answer: Value =
            serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
        let number = |key: &str| {
            tokens
                .split("; ")
                .find_map(|part| part.strip_prefix(key)?.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let count = |path: &str| answer.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let (prompt, removed) = (
            count("/usage/prompt_tokens"),
            number("before=").saturating_sub(number("after=")),
        );
        let message = answer.pointer("/choices/0/message").cloned();
        if let Some(message) = message.filter(|_| status == 200) {
            self.answered += 1;
            self.prompt += prompt;
            self.cached += count("/usage/prompt_tokens_details/cached_tokens");
            self.saved += removed;
            let next = script::next(turn, &message);
            self.messages.push(message);
            self.messages.extend(next);
        } else {
            // The agent repeats the request unchanged, as real agents do.
            self.errors += 1;
            self.first_error.get_or_insert(turn);
        }
        self.compactions += u32::from(action == "compacted");
        Ok(Turn {
            status,
            prompt,
            action,
            removed,
        })
    }
}

async fn play(flags: &DemoFlags) -> anyhow::Result<bool> {
    let stop = CancellationToken::new();
    let (model, model_running) = start_model(&stop).await?;
    let (baler, running) = start_baler(model, &stop).await?;
    let screen = Screen {
        colour: std::io::stdout().is_terminal() && !flags.plain,
    };
    let (mut without, mut with) = (Lane::new(model), Lane::new(baler));

    screen.say(&format!(
        "An agent asks a model with a window of {} tokens, {} times: straight, and \
        through Baler.\n\n{:>4}  {:<38}  {}",
        upstream::WINDOW,
        flags.turns,
        "turn",
        "without Baler",
        "with Baler"
    ))?;
    for turn in 1..=flags.turns {
        let (left, right) = (without.take(turn).await?, with.take(turn).await?);
        screen.say(&format!(
            "{turn:>4}  {}  {}",
            screen.cell(&left),
            screen.cell(&right)
        ))?;
        if screen.colour {
            tokio::time::sleep(PACE).await;
        }
    }
    screen.say("")?;
    screen.say(&summary("without Baler", &without, flags.turns))?;
    screen.say(&summary("with Baler", &with, flags.turns))?;
    screen.say(NEXT)?;
    stop.cancel();
    running.await??;
    model_running.await?;
    Ok(with.errors == 0)
}

async fn start_model(
    stop: &CancellationToken,
) -> anyhow::Result<(SocketAddr, AbortOnDropHandle<usize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let model = Arc::new(upstream::Model::default());
    let bounds = Bounds {
        connections: 64,
        header_timeout: Duration::from_secs(10),
        write_timeout: Duration::from_secs(10),
        http1_only: false,
        drain_timeout: Duration::from_secs(1),
    };
    let worker = Worker::here(
        move |request| upstream::answer(Arc::clone(&model), request),
        proxy::after_panic,
        bounds,
    );
    let serving = server::serve(listener, vec![worker], bounds.connections, stop.clone());
    let running = AbortOnDropHandle::new(tokio::spawn(serving));
    Ok((address, running))
}

type Running = AbortOnDropHandle<anyhow::Result<Drained>>;

async fn start_baler(
    model: SocketAddr,
    stop: &CancellationToken,
) -> anyhow::Result<(SocketAddr, Running)> {
    let mut raw = raw::Raw::default();
    raw.upstream.url = format!("http://{model}/v1");
    raw.listen = raw::Listen {
        address: "127.0.0.1:0".to_owned(),
        workers: 1,
        ..raw::Listen::default()
    };
    raw.admin.address = "127.0.0.1:0".to_owned();
    raw.policy = vec![raw::Policy {
        name: "demo".to_owned(),
        window: Window::Tokens(upstream::WINDOW),
        reserve: 1_000,
        ..raw::Policy::default()
    }];
    let config = config::from_raw(&raw)?;
    let listeners = Listeners::bind(&config).await?;
    let address = listeners.data.local_addr()?;
    let running = tokio::spawn(app::run(config, listeners, stop.clone()));
    Ok((address, AbortOnDropHandle::new(running)))
}

fn summary(name: &str, lane: &Lane, turns: u32) -> String {
    let mut text = format!(
        "{name}: {} of {turns} turns answered, {} upstream errors",
        lane.answered, lane.errors
    );
    match lane.first_error {
        Some(turn) => text.push_str(&format!(" (context_length_exceeded from turn {turn} on)")),
        None => {
            let share = |part, whole| scale(100, ratio(part, whole));
            text.push_str(&format!(
                ", {} compactions, {} tokens not sent ({} %), {} % of the prompts \
                read from the model's cache",
                lane.compactions,
                lane.saved,
                share(lane.saved, lane.saved + lane.prompt),
                share(lane.cached, lane.prompt)
            ));
        }
    }
    text
}

/// What to do after the demo.
const NEXT: &str = "\nnext: run `baler` (with `--upstream URL` for another API than OpenAI's), \
                    and start the application with\nOPENAI_BASE_URL=http://127.0.0.1:4141/v1";

/// Writes to standard output: with colours on a terminal, plain lines otherwise.
#[derive(Debug, Clone, Copy)]
struct Screen {
    colour: bool,
}

impl Screen {
    fn say(self, line: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// One cell of the table: an occupancy bar, the occupancy in percent, and the action; 38
    /// characters wide.
    fn cell(self, turn: &Turn) -> String {
        if turn.status != 200 {
            return self.paint(
                "31",
                &format!(
                    "{:<38}",
                    format!("[{}] full   {} refused", "!".repeat(BAR), turn.status)
                ),
            );
        }
        let occupancy = ratio(turn.prompt, upstream::WINDOW - ANSWER_TOKENS);
        let filled = usize::try_from(scale(BAR as u64, occupancy))
            .unwrap_or(BAR)
            .min(BAR);
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR - filled));
        let percent = format!("{:>3} %", scale(100, occupancy));
        let note = match turn.action.as_str() {
            "compacted" => format!("  compacted, -{} tokens", turn.removed),
            "replayed" => format!("  -{}", turn.removed),
            _ => String::new(),
        };
        let code = match turn.action.as_str() {
            "compacted" => "32",
            _ if occupancy > 0.8 => "33",
            _ => "0",
        };
        self.paint(code, &format!("{:<38}", format!("[{bar}] {percent}{note}")))
    }
}
