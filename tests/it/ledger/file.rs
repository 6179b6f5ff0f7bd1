//! The store in a file: what a killed process leaves, what a damaged file costs, who may read it,
//! and how large it grows.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use super::{force, key, last, prefix, stop, talk, toml};
use crate::support::Baler;
use crate::support::Client;
use crate::support::Upstream;
use crate::support::long;
use crate::support::request;
use crate::support::until;
use crate::support::within;

fn store(folder: &Path) -> (PathBuf, String) {
    let file = folder.join("ledger.redb");
    let url = format!("redb://{}", file.display());
    (file, url)
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_stands_beside_the_file_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (file, url) = store(folder.path());
    let (upstream, _log) = Upstream::agreeable().await;
    let all = talk("river", 12, 60);
    let baler = Baler::start(&toml(&url, None, ""), upstream).await;
    let answer = baler.chat_with(&request(&all[..20]), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    stop(baler).await;
    assert_eq!(files(folder.path()), ["ledger.redb", "ledger.redb.key"]);
    let secret = folder.path().join("ledger.redb.key");
    for file in [&file, &secret] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }

    let baler = Baler::start(&toml(&url, None, ""), upstream).await;
    let body = request(&all[..22]);
    assert_eq!(baler.chat_with(&body, &key("a")).await.action(), "replayed");
    stop(baler).await;
    // Without the secret nobody finds anything: a new one is made.
    std::fs::remove_file(&secret).unwrap();
    let baler = Baler::start(&toml(&url, None, ""), upstream).await;
    assert_eq!(baler.chat_with(&body, &key("a")).await.action(), "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_inspected_does_not_wait_for_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (_, url) = store(folder.path());
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Baler::start(&toml(&url, None, ""), upstream).await;
    let lookups = async || {
        let of_store = [("store", "redb")];
        baler.sum("baler_ledger_lookups_total", &of_store).await
    };
    let body = request(&talk("river", 3, 20));
    let signed = "authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature=c\r\n";
    let off = format!("{}x-baler-mode: off\r\n", key("a"));
    let encoded = format!("{}content-encoding: unheard-of\r\n", key("a"));
    for headers in [signed, &off, &encoded] {
        let answer = baler.chat_with(&body, headers).await;
        assert_eq!(answer.action(), "bypassed", "{headers}");
        assert!(lookups().await <= 0.0, "{headers}");
    }
    baler.chat_with(&body, &key("a")).await;
    assert!(
        lookups().await >= 1.0,
        "one that is inspected asks the store"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_opened_is_told_of_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("redb://{}", folder.path().join("no/such.redb").display());
    let config = crate::support::config(&toml(&url, None, ""), "http://127.0.0.1:9/v1");
    let listeners = baler::app::Listeners::bind(&config).await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let error = baler::app::run(config, listeners, stop).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("no/such.redb"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_set_aside_and_a_fresh_one_begun() {
    let (upstream, _log) = Upstream::agreeable().await;
    let all = talk("stone", 12, 60);
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("another file", |bytes| {
            *bytes = b"this is no database".repeat(900)
        }),
        ("a cut one", |bytes| bytes.truncate(6_000)),
        ("a header of zeros", |bytes| bytes[..512].fill(0)),
        ("a body of noise", |bytes| {
            let from = 4096.min(bytes.len());
            for (at, byte) in bytes[from..].iter_mut().enumerate() {
                *byte ^= u8::try_from(at * 31 % 251).unwrap() | 1;
            }
        }),
    ];
    for (name, damage) in damages {
        let folder = tempfile::tempdir().unwrap();
        let (file, url) = store(folder.path());
        // Another process, so that it has let go of the file.
        let (child, address) = process(&url, upstream).await;
        let action = chat(address, &request(&all[..20]), &force("a")).await;
        assert_eq!(action.as_deref(), Some("compacted"));
        terminated(child).await;
        let toml = toml(&url, None, "");
        let mut bytes = std::fs::read(&file).unwrap();
        damage(&mut bytes);
        std::fs::write(&file, &bytes).unwrap();

        let baler = Baler::start(&toml, upstream).await;
        // It is found out at the start, or by the first write.
        let other = talk("paper", 12, 60);
        for _ in 0..2 {
            let answer = baler.chat_with(&request(&other[..20]), &force("b")).await;
            assert_eq!(answer.status, 200, "{name}");
        }
        stop(baler).await;
        let names = files(folder.path());
        let aside = names.iter().filter(|name| name.contains(".corrupt-"));
        assert_eq!(aside.count(), 1, "{name}: {names:?}");

        // The fresh one works.
        let baler = Baler::start(&toml, upstream).await;
        let answer = baler.chat_with(&request(&all[..20]), &force("c")).await;
        assert_eq!(answer.action(), "compacted", "{name}");
        stop(baler).await;
        let baler = Baler::start(&toml, upstream).await;
        let answer = baler.chat_with(&request(&all[..22]), &key("c")).await;
        assert_eq!(answer.action(), "replayed", "{name}");
    }
}

/// A process of its own on this store, and where it listens.
async fn process(url: &str, upstream: std::net::SocketAddr) -> (Child, std::net::SocketAddr) {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), toml(url, None, "")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_baler"))
        .env_clear()
        .args(["--config", config.path().to_str().unwrap()])
        .args(["--upstream", &format!("http://{upstream}/v1")])
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = within(lines.next_line()).await.unwrap().expect("it starts");
        if let Some((_, rest)) = line.split_once("listening on http://") {
            let address = rest.split('/').next().unwrap().parse().unwrap();
            // It must be able to go on talking.
            tokio::spawn(async move { lines.into_inner().read_to_end(&mut Vec::new()).await });
            return (child, address);
        }
    }
}

/// Ends a process in an orderly way.
async fn terminated(mut child: Child) {
    let pid = child.id().unwrap().to_string();
    let sent = Command::new("kill").args(["-s", "TERM", &pid]).status();
    assert!(sent.await.unwrap().success());
    assert!(within(child.wait()).await.unwrap().success());
}

async fn chat(to: std::net::SocketAddr, body: &str, headers: &str) -> Option<String> {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
        content-length: {}\r\n{headers}connection: close\r\n\r\n",
        body.len()
    );
    let stream = tokio::net::TcpStream::connect(to).await.ok()?;
    drop(stream);
    let answer = Client::send(to, &head, body.as_bytes())
        .await
        .answer()
        .await;
    Some(answer.action().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_while_it_writes_leaves_whole_checkpoints() {
    let rounds = if long() { 200 } else { 8 };
    let folder = tempfile::tempdir().unwrap();
    let (_, url) = store(folder.path());
    let (upstream, log) = Upstream::agreeable().await;
    let mut expected: Vec<(String, Vec<u8>)> = Vec::new();
    let (mut replayed, mut lost) = (0, 0);
    for round in 0..rounds {
        let (mut child, address) = process(&url, upstream).await;
        // What the processes before wrote is there, whole, or not at all.
        for (name, sent) in expected.drain(..) {
            let all = talk(&name, 12, 40);
            match chat(address, &request(&all[..22]), &key("a"))
                .await
                .as_deref()
            {
                Some("replayed") => {
                    replayed += 1;
                    assert!(
                        last(&log).starts_with(prefix(&sent)),
                        "round {round}: {name}"
                    );
                }
                Some("none") => lost += 1,
                other => panic!("round {round}: {other:?}"),
            }
        }
        // At least one commit is done, and others are on their way, when it is killed.
        let writes = 2 + round % 7;
        for nth in 0..writes {
            let name = format!("river {round} {nth}");
            let body = request(&talk(&name, 12, 40)[..20]);
            let action = chat(address, &body, &force("a")).await;
            assert_eq!(action.as_deref(), Some("compacted"));
            expected.push((name, last(&log)));
        }
        // Some moment, and each time another one.
        let moment = Duration::from_micros(u64::try_from(round * 977 % 20_000).unwrap());
        let _ = tokio::time::timeout(moment, std::future::pending::<()>()).await;
        child.start_kill().unwrap();
        within(child.wait()).await.unwrap();
    }
    println!("killed {rounds} times: {replayed} checkpoints found, {lost} lost with the process");
    assert!(replayed > 0, "some were written");
    let names = files(folder.path());
    assert!(
        names.iter().all(|name| !name.contains("corrupt")),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_is_replaced_and_its_successor_share_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (_, url) = store(folder.path());
    let toml = toml(&url, None, "");
    let (upstream, log) = Upstream::agreeable().await;
    let old = Baler::start(&toml, upstream).await;
    let new = Baler::start(&toml, upstream).await;
    let all = talk("music", 12, 60);
    let answer = old.chat_with(&request(&all[..20]), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    let sent = last(&log);
    stop(old).await;
    let answer = new.chat_with(&request(&all[..22]), &key("a")).await;
    assert_eq!(answer.action(), "replayed");
    assert!(last(&log).starts_with(prefix(&sent)));
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_end_with_their_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let (_, url) = store(folder.path());
    let toml = toml(&url, None, "lifetime = \"1s\"\n");
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Baler::start(&toml, upstream).await;
    let all = talk("light", 12, 60);
    let answer = baler.chat_with(&request(&all[..20]), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    stop(baler).await;
    let baler = Baler::start(&toml, upstream).await;
    let expired = "baler_ledger_evictions_total{reason=\"lifetime\",store=\"redb\"}";
    let nth = std::cell::Cell::new(0);
    until(async || {
        // Whatever is written next takes out what is over its lifetime.
        nth.set(nth.get() + 1);
        let other = talk(&format!("north {}", nth.get()), 6, 20);
        baler.chat_with(&request(&other), &force("b")).await;
        baler.metric(expired).await >= 1.0
    })
    .await;
    let answer = baler.chat_with(&request(&all[..22]), &key("a")).await;
    assert_eq!(answer.action(), "none");
}
