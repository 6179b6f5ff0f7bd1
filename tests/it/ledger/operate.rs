//! What operators do: configure a store, look at it, empty it.

use std::process::Command;

use baler::config;
use baler::config::Sources;

use super::server::Server;
use super::{POLICY, SECRET, force, key, secret_file, stop, talk, toml};
use crate::support::Baler;
use crate::support::Upstream;
use crate::support::request;

/// The problems of a configuration.
fn problems(text: &str, secret: Option<&str>) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let env = secret.map(|secret| ("BALER_LEDGER__SECRET".to_owned(), secret.to_owned()));
    let sources = Sources {
        file: Some(file.path().to_owned()),
        env: env.into_iter().collect(),
        ..Sources::default()
    };
    config::load(&sources).map_or_else(|problems| problems.to_string(), |_| String::new())
}

#[test]
fn a_shared_store_needs_a_shared_secret_and_shows_none() {
    let redis = "[ledger]\nurl = \"redis://user:hunter2@127.0.0.1\"\n";
    let told = problems(redis, None);
    assert!(
        told.contains("ledger.secret_file") && told.contains("BALER_LEDGER__SECRET"),
        "{told}"
    );
    assert_eq!(problems(redis, Some(SECRET)), "");
    let told = problems(redis, Some("hunter3"));
    assert!(told.contains("at least 32"), "{told}");
    let file = secret_file();
    let named = format!("{redis}secret_file = \"{}\"\n", file.path().display());
    assert_eq!(problems(&named, None), "");
    assert!(problems(&named, Some(SECRET)).contains("one of"));
    let missing = format!("{redis}secret_file = \"/no/such/file\"\n");
    assert!(problems(&missing, None).contains("cannot be read"));
    for text in [
        "[ledger]\nsecret = \"hunter2hunter2hunter2hunter2hunter2\"\n",
        "[ledger]\nurl = \"redis://user:hunter2@127.0.0.1:port\"\n",
        "[ledger]\nurl = \"redsi://user:hunter2@127.0.0.1\"\n",
    ] {
        let told = problems(text, None);
        assert!(!told.is_empty() && !told.contains("hunter"), "{told}");
    }
    // Digits are a secret as well, and no number.
    assert_eq!(problems(redis, Some(&"1".repeat(40))), "");
}

/// `baler ledger …`; what it printed, and whether it succeeded.
fn operated(toml: &str, words: &[&str]) -> (String, bool) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), toml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_baler"));
    command.env_clear().arg("ledger").args(words);
    command.args(["--config", file.path().to_str().unwrap()]);
    // The upstream is part of no key of a tenant.
    let done = command.output().unwrap();
    let told = [done.stdout, done.stderr].concat();
    (String::from_utf8(told).unwrap(), done.status.success())
}

async fn counted_and_purged(toml: &str) {
    let (upstream, _log) = Upstream::agreeable().await;
    let baler = Baler::start(toml, upstream).await;
    for (name, tenant) in [("river", "sk-a"), ("stone", "sk-a"), ("cloud", "sk-b")] {
        let all = talk(name, 12, 60);
        let answer = baler.chat_with(&request(&all[..20]), &force(tenant)).await;
        assert_eq!(answer.action(), "compacted");
    }
    baler.metric_ends("baler_ledger_writes_waiting").await;
    // It runs meanwhile.
    let operate = async |words: &[&str]| {
        let (toml, words) = (toml.to_owned(), words.iter().map(|word| (*word).to_owned()));
        let words: Vec<String> = words.collect();
        let done = tokio::task::spawn_blocking(move || {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            operated(&toml, &words)
        });
        done.await.unwrap()
    };
    let (told, ok) = operate(&["stats"]).await;
    assert!(ok && told.contains("  checkpoints 3\n"), "{told}");
    let tenant = tempfile::NamedTempFile::new().unwrap();
    let path = tenant.path().to_str().unwrap();
    // The key alone, or the header line as it is sent: the same tenant.
    std::fs::write(&tenant, "sk-nobody\n").unwrap();
    let (told, ok) = operate(&["purge", "--tenant-of", path]).await;
    assert!(ok && told == "purged 0 entries\n", "{told}");
    std::fs::write(&tenant, "sk-a\n").unwrap();
    let (told, ok) = operate(&["purge", "--tenant-of", path]).await;
    assert!(ok && told != "purged 0 entries\n", "{told}");
    let (told, _) = operate(&["stats"]).await;
    assert!(told.contains("  checkpoints 1\n"), "{told}");
    stop(baler).await;
    let baler = Baler::start(toml, upstream).await;
    for (name, tenant, action) in [("river", "sk-a", "none"), ("cloud", "sk-b", "replayed")] {
        let all = talk(name, 12, 60);
        let answer = baler.chat_with(&request(&all[..22]), &key(tenant)).await;
        assert_eq!(answer.action(), action, "{name}");
    }
    std::fs::write(&tenant, "Authorization: Bearer sk-b\n").unwrap();
    let (told, ok) = operate(&["purge", "--tenant-of", path]).await;
    assert!(ok && told != "purged 0 entries\n", "{told}");
    let (told, _) = operate(&["stats"]).await;
    assert!(!told.contains("checkpoints"), "{told}");
    let (told, ok) = operate(&["purge"]).await;
    assert!(ok && told.starts_with("purged "), "{told}");
    let (told, ok) = operate(&["stats"]).await;
    assert!(ok && told.starts_with("entries 0\n"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_counted_and_purged_while_it_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("redb://{}", folder.path().join("ledger.redb").display());
    counted_and_purged(&toml(&url, None, "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_counted_and_purged_while_it_is_in_use() {
    let Some(server) = Server::start() else {
        return;
    };
    let secret = secret_file();
    counted_and_purged(&toml(&server.url(), Some(secret.path()), "")).await;
}

#[test]
fn the_memory_of_processes_is_nobody_elses() {
    let (told, ok) = operated(POLICY, &["stats"]);
    assert!(!ok && told.contains("each process"), "{told}");
    let folder = tempfile::tempdir().unwrap();
    let url = format!("redb://{}", folder.path().join("none.redb").display());
    let (told, ok) = operated(&toml(&url, None, ""), &["stats"]);
    assert!(!ok && told.contains("none.redb"), "{told}");
    assert!(
        !folder.path().join("none.redb").exists(),
        "looking makes no file"
    );
}
