//! The command itself, as a user runs it.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use crate::support::Client;
use crate::support::Upstream;
use crate::support::message;
use crate::support::request;
use crate::support::until;
use crate::support::until_closed;
use crate::support::within;

fn baler() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baler"));
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Starts `serve` on free ports; returns where it listens.
async fn serve(
    mut command: Command,
) -> (
    Child,
    Lines<BufReader<ChildStderr>>,
    Vec<String>,
    std::net::SocketAddr,
) {
    command
        .env("BALER_LISTEN__ADDRESS", "127.0.0.1:0")
        .env("BALER_ADMIN__ADDRESS", "127.0.0.1:0");
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen
        .iter()
        .all(|line: &String| !line.contains("policy default"))
    {
        seen.push(
            within(lines.next_line())
                .await
                .unwrap()
                .expect("it logs where it listens"),
        );
    }
    let listening = seen
        .iter()
        .find(|line| line.contains("listening on"))
        .unwrap();
    let address = listening
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    (child, lines, seen, address)
}

#[tokio::test]
async fn zero_configuration_says_in_a_line_each_what_it_does() {
    let (address, _) = Upstream::agreeable().await;
    for variable in ["BALER_UPSTREAM__URL", "OPENAI_BASE_URL"] {
        let mut command = baler();
        command.env(variable, format!("http://{address}/v1"));
        let (_child, _lines, seen, data) = serve(command).await;
        assert!(
            seen.iter()
                .any(|line| line.contains(&format!("forwarding to http://{address}/v1"))),
            "{seen:?}"
        );
        assert!(
            seen.iter()
                .any(|line| line.contains("policy default: mode enforce, window auto")),
            "{seen:?}"
        );
        let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        assert_eq!(
            within(async { Client::send(data, head, b"").await.answer().await })
                .await
                .status,
            200
        );
    }
}

#[tokio::test]
async fn signals_drain_and_exit_with_zero() {
    for signal in ["TERM", "INT"] {
        let upstream = Upstream::start().await;
        let mut command = baler();
        command.args([
            "serve",
            "--upstream",
            &format!("http://{}/v1", upstream.address),
            "--log-format",
            "json",
        ]);
        let (mut child, _lines, _, data) = serve(command).await;
        let body = request(&[message("user", "hi")]);
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut client = Client::send(data, &head, body.as_bytes()).await;
        let mut got = within(upstream.next()).await;
        got.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
            .await;
        within(client.read_until("one\r\n")).await;
        let pid = child.id().unwrap().to_string();
        assert!(
            std::process::Command::new("kill")
                .args([&format!("-{signal}"), &pid])
                .status()
                .unwrap()
                .success()
        );
        until_closed(data).await;
        got.send("3\r\ntwo\r\n0\r\n\r\n").await;
        assert!(within(client.rest()).await.ends_with(b"two\r\n0\r\n\r\n"));
        assert_eq!(
            within(child.wait()).await.unwrap().code(),
            Some(0),
            "{signal}"
        );
    }
}

#[tokio::test]
async fn requests_that_are_cut_off_are_counted_and_told_by_the_exit_code() {
    let upstream = Upstream::start().await;
    let mut command = baler();
    command
        .args([
            "serve",
            "--upstream",
            &format!("http://{}/v1", upstream.address),
        ])
        .env("BALER_SHUTDOWN__TIMEOUT", "50ms");
    let (mut child, mut lines, _, data) = serve(command).await;
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut running = Vec::new();
    for _ in 0..2 {
        let client = Client::send(data, head, b"").await;
        running.push((client, within(upstream.next()).await));
    }
    let pid = child.id().unwrap().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(killed.unwrap().success());
    assert_eq!(within(child.wait()).await.unwrap().code(), Some(3));
    let mut told = false;
    while let Some(line) = within(lines.next_line()).await.unwrap() {
        told |= line.contains("cut off") && line.contains("requests=2");
    }
    assert!(told, "the log has their number");
}

#[tokio::test]
async fn descriptors_are_raised_and_bound_the_connections() {
    let upstream = Upstream::start().await;
    let run = format!(
        "ulimit -Sn 100; ulimit -Hn 400; exec {} serve --upstream http://{}/v1 \
        --listen 127.0.0.1:0 --admin 127.0.0.1:0",
        env!("CARGO_BIN_EXE_baler"),
        upstream.address
    );
    let mut command = Command::new("/bin/sh");
    command
        .env_clear()
        .args(["-c", &run])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let (_child, _lines, seen, data) = serve(command).await;
    // Nobody set the limit that does not hold: that is no reason to warn.
    let bounded =
        |line: &String| line.contains("descriptors for 136 only") && line.contains("INFO");
    assert!(seen.iter().any(bounded), "{seen:?}");
    // More connections than that, all silent, keep nobody out.
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(data).await.unwrap());
    }
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut client = Client::send(data, head, b"").await;
    let mut got = within(upstream.next()).await;
    got.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await;
    within(client.read_until("ok")).await;
}

#[tokio::test]
async fn a_hang_up_is_ignored_and_a_probe_finds_it_ready() {
    let (child, mut lines, seen, _) = serve(baler()).await;
    let first = &seen[0];
    assert!(
        first.contains("configuration file: none") && first.contains(env!("CARGO_PKG_VERSION")),
        "{seen:?}"
    );
    let pid = child.id().unwrap().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status();
    assert!(within(sent).await.unwrap().success());
    loop {
        let line = within(lines.next_line()).await.unwrap();
        if line.expect("it goes on").contains("SIGHUP ignored") {
            break;
        }
    }
    let listening = seen.iter().find(|line| line.contains("probes on")).unwrap();
    let admin = listening.rsplit("http://").next().unwrap();
    let admin = admin.trim_end_matches(')').to_owned();
    until(async || {
        let mut probe = baler();
        let status = probe.args(["probe", "--admin", &admin]).status();
        within(status).await.unwrap().success()
    })
    .await;
    drop(child);
    // Nobody listens there any more, once the process is gone.
    until(async || {
        let mut probe = baler();
        let status = probe.args(["probe", "--admin", &admin]).status();
        !within(status).await.unwrap().success()
    })
    .await;
}

#[tokio::test]
async fn a_quiet_log_does_not_end_the_process() {
    let mut command = baler();
    command.args([
        "serve",
        "--log-level",
        "error",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    let mut child = command.spawn().unwrap();
    // It is up once it has two listening sockets; it ends only when asked to.
    let pid = child.id().unwrap();
    until(async || {
        std::fs::read_to_string(format!("/proc/{pid}/net/tcp"))
            .is_ok_and(|table| table.contains(" 0A "))
    })
    .await;
    assert!(child.try_wait().unwrap().is_none());
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
    within(child.wait()).await.unwrap();
}

#[tokio::test]
async fn check_tells_every_problem_and_exits_with_two() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "[listen]\nadress = 1\n[upstream]\nurl = \"nonsense\"\n",
    )
    .unwrap();
    let output = within(baler().arg("check").arg(file.path()).output())
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("listen.adress: unknown key, did you mean \"address\"?")
            && text.contains("upstream.url"),
        "{text}"
    );
    let output = within(
        baler()
            .args(["serve", "--config"])
            .arg(file.path())
            .output(),
    )
    .await
    .unwrap();
    assert_eq!(output.status.code(), Some(2), "serve refuses the same");
    let output = within(
        baler()
            .arg("check")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/config/baler.toml"))
            .output(),
    )
    .await
    .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("policy default")
    );
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = within(
        baler()
            .args(["--listen", &address, "--admin", "127.0.0.1:0"])
            .output(),
    )
    .await
    .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains(&format!("listen.address {address}"))
    );
}

#[tokio::test]
async fn no_content_credential_or_query_reaches_the_log() {
    let (address, _) = Upstream::agreeable().await;
    let mut command = baler();
    command.args([
        "serve",
        "--upstream",
        &format!("http://{address}/v1"),
        "--log-level",
        "baler=trace",
    ]);
    let (mut child, mut lines, seen, data) = serve(command).await;
    let body = request(&[message("user", "canary-content")]);
    let head = format!(
        "POST /v1/chat/completions?key=canary-query HTTP/1.1\r\nhost: x\r\n\
        authorization: Bearer canary-key\r\nx-team: canary-header\r\ncontent-length: {}\r\n\
        connection: close\r\n\r\n",
        body.len()
    );
    let answer = within(async {
        Client::send(data, &head, body.as_bytes())
            .await
            .answer()
            .await
    })
    .await;
    assert_eq!(answer.status, 200);
    let mut line = String::new();
    while !line.contains("action=\"none\"") {
        line = line + &within(lines.next_line()).await.unwrap().unwrap() + "\n";
    }
    child.start_kill().unwrap();
    let mut rest = String::new();
    lines.into_inner().read_to_string(&mut rest).await.unwrap();
    let log = seen.join("\n") + &line + &rest;
    assert!(!log.contains("canary"), "{log}");
}

#[tokio::test]
async fn the_demo_needs_nothing_and_shows_errors_without_and_none_with() {
    let output = within(baler().args(["demo", "--turns", "24"]).output())
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        !text.contains('\u{1b}'),
        "plain lines when it is not a terminal"
    );
    let summary = text.lines().rev().take(6).collect::<Vec<_>>().join("\n");
    assert!(
        summary.contains("with Baler: 24 of 24 turns answered, 0 upstream errors"),
        "{text}"
    );
    assert!(!summary.contains("without Baler: 24 of 24"), "{text}");
}
