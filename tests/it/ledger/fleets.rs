//! Servers as fleets have them: behind TLS and a password, watched by sentinels, as a cluster.

use std::io::Write;
use std::process::{Command, Stdio};

use baler::ledger::operate;

use super::server::{Server, command, free_port, program, within};
use super::{force, key, last, prefix, secret_file, stop, talk, toml};
use crate::support::Baler;
use crate::support::Upstream;
use crate::support::request;
use crate::support::until;

/// One replica compacts, another one replays, and an operator counts and purges.
async fn is_shared(url: &str, more: &str) {
    let secret = secret_file();
    let toml = toml(url, Some(secret.path()), more);
    let (upstream, log) = Upstream::agreeable().await;
    let (first, second) = (
        Baler::start(&toml, upstream).await,
        Baler::start(&toml, upstream).await,
    );
    for name in ["river", "stone", "cloud", "paper"] {
        let all = talk(name, 12, 60);
        let answer = first.chat_with(&request(&all[..20]), &force("a")).await;
        assert_eq!(answer.action(), "compacted");
        let sent = last(&log);
        first.metric_ends("baler_ledger_writes_waiting").await;
        let answer = second.chat_with(&request(&all[..22]), &key("a")).await;
        assert_eq!(answer.action(), "replayed", "{name}");
        assert!(last(&log).starts_with(prefix(&sent)));
    }
    for replica in [&first, &second] {
        assert!(replica.metric("baler_ledger_breaker_open").await < 1.0);
    }
    let config = crate::support::config(&toml, "http://127.0.0.1:9/v1").ledger;
    let operated = std::thread::spawn(move || {
        let stats = operate::stats(&config).unwrap().unwrap();
        let purged = operate::purge(&config, None).unwrap().unwrap();
        let after = operate::stats(&config).unwrap().unwrap();
        (stats, purged, after)
    });
    let (stats, purged, after) = operated.join().unwrap();
    assert_eq!(stats.kinds.get("checkpoints"), Some(&4), "{stats:?}");
    assert_eq!(purged, stats.entries());
    assert_eq!(after.entries(), 0);
    stop(first).await;
    stop(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_tls_and_a_password() {
    if program().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let made =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]);
    let made = made.unwrap();
    let files = [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let port = free_port().to_string();
    let (cert, private) = (
        within(folder.path(), "cert.pem"),
        within(folder.path(), "key.pem"),
    );
    let options = [
        "--requirepass",
        "p@ss/word",
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &private,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
    ];
    let Some(_server) = Server::start_with(&options) else {
        return;
    };
    let url = format!("rediss://:p%40ss%2Fword@localhost:{port}/2");
    is_shared(&url, &format!("ca_file = \"{cert}\"\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_three_nodes() {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"];
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let Some(node) = Server::start_with(&options) else {
            return;
        };
        nodes.push(node);
    }
    for (node, slots) in nodes
        .iter()
        .zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]])
    {
        node.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]);
        let (ip, port) = (
            node.address.ip().to_string(),
            node.address.port().to_string(),
        );
        nodes[0].command(&["CLUSTER", "MEET", &ip, &port]);
    }
    until(async || {
        nodes.iter().all(|node| {
            let info = node.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    })
    .await;
    let addresses: Vec<_> = nodes.iter().map(|node| node.address.to_string()).collect();
    is_shared(&format!("redis+cluster://{}", addresses.join(",")), "").await;
}

/// A sentinel that watches one master. Dropping it kills it.
struct Sentinel {
    child: std::process::Child,
    address: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `more` lines of its configuration.
fn sentinel(master: &Server, more: &str) -> Sentinel {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let file = folder.path().join("sentinel.conf");
    let mut config = std::fs::File::create(&file).unwrap();
    writeln!(
        config,
        "port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {} 1\n\
        sentinel down-after-milliseconds mymaster 500\n\
        sentinel failover-timeout mymaster 2000\n{more}",
        master.address.port()
    )
    .unwrap();
    let child = Command::new(program().unwrap())
        .arg(&file)
        .arg("--sentinel")
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Sentinel {
        child,
        address: ([127, 0, 0, 1], port).into(),
        _folder: folder,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_may_have_a_password_other_than_the_servers() {
    let Some(master) = Server::start_with(&["--requirepass", "of the servers"]) else {
        return;
    };
    let watcher = sentinel(
        &master,
        "sentinel auth-pass mymaster \"of the servers\"\nrequirepass \"of & sentinels\"\n",
    );
    until(async || {
        tokio::net::TcpStream::connect(watcher.address)
            .await
            .is_ok()
    })
    .await;
    // It is the sentinel that refuses: the server's password is right in both URLs.
    let refused = command(watcher.address, &["SENTINEL", "MASTERS"]);
    assert!(refused.starts_with("NOAUTH"), "{refused}");
    let url = format!(
        "redis+sentinel://:of%20the%20servers@{}/mymaster",
        watcher.address
    );
    let secret = secret_file();
    let config = toml(&url, Some(secret.path()), "");
    let (upstream, _log) = Upstream::agreeable().await;
    let without = Baler::start(&config, upstream).await;
    assert!(without.metric("baler_ledger_breaker_open").await > 0.0);
    stop(without).await;
    is_shared(&format!("{url}?sentinel_password=of%20%26%20sentinels"), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_name_the_master_also_after_a_failover() {
    let Some(mut master) = Server::start() else {
        return;
    };
    let of_master = ["127.0.0.1", &master.address.port().to_string()].map(str::to_owned);
    let replica = Server::start_with(&["--replicaof", &of_master.join(" ")]);
    let replica = replica.unwrap();
    until(async || {
        replica
            .command(&["INFO", "replication"])
            .contains("master_link_status:up")
    })
    .await;
    let watcher = sentinel(&master, "");
    let url = format!("redis+sentinel://{}/mymaster", watcher.address);
    until(async || {
        tokio::net::TcpStream::connect(watcher.address)
            .await
            .is_ok()
    })
    .await;
    is_shared(&url, "").await;

    let secret = secret_file();
    let toml = toml(&url, Some(secret.path()), "");
    let (upstream, log) = Upstream::agreeable().await;
    let baler = Baler::start(&toml, upstream).await;
    let all = talk("music", 12, 60);
    let answer = baler.chat_with(&request(&all[..20]), &force("a")).await;
    assert_eq!(answer.action(), "compacted");
    let sent = last(&log);
    baler.metric_ends("baler_ledger_writes_waiting").await;
    // All of it, or the failover loses the rest.
    let written = master.entries();
    assert!(written >= 1);
    until(async || replica.entries() >= written).await;
    // The sentinel must know the replica before it can choose it.
    let port = replica.address.port().to_string();
    until(async || command(watcher.address, &["SENTINEL", "REPLICAS", "mymaster"]).contains(&port))
        .await;
    master.kill();
    until(async || replica.command(&["ROLE"]).starts_with("master")).await;
    let other = talk("light", 12, 60);
    until(async || {
        // Written to whoever is the master now.
        let answer = baler.chat_with(&request(&other[..20]), &force("a")).await;
        assert_eq!(answer.status, 200);
        baler.metric("baler_ledger_breaker_open").await < 1.0
    })
    .await;
    let second = Baler::start(&toml, upstream).await;
    let answer = second.chat_with(&request(&all[..22]), &key("a")).await;
    assert_eq!(answer.action(), "replayed");
    assert!(last(&log).starts_with(prefix(&sent)));
}
