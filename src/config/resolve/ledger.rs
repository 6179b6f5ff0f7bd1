//! `[ledger]`: the store, its secret, its bounds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hyper::header::HeaderName;
use percent_encoding::percent_decode_str;

use crate::config::resolve::check::Check;
use crate::config::{Hidden, Ledger, RedisServers, SentinelLogin, StoreUrl, Topology, raw};

/// The variable with the ledger's secret. It is no key of the file: a secret does not belong there.
pub(in crate::config) const SECRET_VARIABLE: &str = "BALER_LEDGER__SECRET";
/// The shortest secret, bytes: what `openssl rand -base64 24` prints.
const LEAST_SECRET_BYTES: usize = 32;
/// Ports where a URL names none.
const REDIS_PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

impl Check<'_> {
    pub(super) fn ledger(
        &mut self,
        raw: &raw::Ledger,
        env: &BTreeMap<String, String>,
    ) -> Option<Ledger> {
        self.at_least("ledger.memory_bytes", raw.memory_bytes, 1 << 20);
        self.at_least("ledger.messages", raw.messages, 1_000);
        self.at_least("ledger.max_bytes", raw.max_bytes, 16 << 20);
        self.longer_than_nothing("ledger.window_lifetime", raw.window_lifetime);
        self.longer_than_nothing("ledger.timeout", raw.timeout);
        if raw.lifetime.as_secs() == 0 {
            self.fail("ledger.lifetime", "must be a second at least");
        }
        let store = match store_url(&raw.url) {
            Ok(StoreUrl::Redb(path)) if path.is_dir() => {
                self.fail(
                    "ledger.url",
                    "is a directory; redb needs the path of a file",
                );
                None
            }
            Ok(store) => Some(store),
            Err(problem) => {
                // The text is not shown: it may hold a password.
                self.fail("ledger.url", problem);
                None
            }
        };
        let secret = self.ledger_secret(raw.secret_file.as_deref(), env);
        if matches!(store, Some(StoreUrl::Redis(_))) && secret.is_none() && self.passed() {
            self.fail(
                "ledger.secret_file",
                format_args!(
                    "a store that replicas share needs a secret that they share: name a file with \
                     it, or set {SECRET_VARIABLE} (openssl rand -base64 32)"
                ),
            );
        }
        let ca = raw.ca_file.as_deref().and_then(|file| {
            let read = std::fs::read(file);
            read.map_err(|error| {
                let problem = format_args!("the file cannot be read: {error}").to_string();
                self.fail("ledger.ca_file", problem);
            })
            .ok()
        });
        Some(Ledger {
            store: store?,
            memory_bytes: raw.memory_bytes,
            messages: raw.messages,
            max_bytes: raw.max_bytes,
            lifetime: raw.lifetime,
            window_lifetime: raw.window_lifetime,
            timeout: raw.timeout,
            secret,
            ca,
        })
    }

    /// The headers that name a tenant by the operator's word.
    pub(super) fn named_tenant(&mut self, raw: &raw::LedgerTenant) -> Vec<HeaderName> {
        let mut headers = Vec::with_capacity(raw.headers.len());
        for (at, name) in raw.headers.iter().enumerate() {
            let key = format!("ledger.tenant.headers.{at}");
            headers.extend(self.header_name(&key, name));
        }
        headers
    }

    fn ledger_secret(
        &mut self,
        file: Option<&str>,
        env: &BTreeMap<String, String>,
    ) -> Option<Hidden> {
        let variable = env.get(SECRET_VARIABLE);
        let key = "ledger.secret_file";
        let (key, secret) = match (file, variable) {
            (None, None) => return None,
            (Some(_), Some(_)) => {
                let problem = format_args!("takes one of the file and {SECRET_VARIABLE}");
                self.fail(key, problem);
                return None;
            }
            (None, Some(secret)) => (SECRET_VARIABLE, secret.clone()),
            (Some(file), None) => match std::fs::read_to_string(file) {
                Ok(secret) => (key, secret),
                Err(error) => {
                    self.fail(key, format_args!("the file cannot be read: {error}"));
                    return None;
                }
            },
        };
        let secret = secret.trim();
        if secret.len() < LEAST_SECRET_BYTES {
            self.fail(
                key,
                format_args!(
                    "a secret has at least {LEAST_SECRET_BYTES} characters (openssl rand -base64 \
                     32)"
                ),
            );
            return None;
        }
        Some(Hidden(secret.to_owned()))
    }
}

const KNOWN: &str = "unknown store; memory, redb:///path/to/file, redis://, rediss:// (TLS), \
                     redis+sentinel:// or redis+cluster://";

/// What a store's URL stands for, or the problem with it, which shows no part of it.
fn store_url(url: &str) -> Result<StoreUrl, &'static str> {
    if url == "memory" {
        return Ok(StoreUrl::Memory);
    }
    let (scheme, rest) = url.split_once("://").ok_or(KNOWN)?;
    if scheme == "redb" {
        let path = PathBuf::from(rest);
        return if path.is_absolute() && path.file_name().is_some() && !rest.ends_with('/') {
            Ok(StoreUrl::Redb(path))
        } else {
            Err("redb needs the absolute path of a file: redb:///var/lib/baler/ledger.redb")
        };
    }
    let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
    let tls = match scheme {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(KNOWN),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if rest.contains('#') || query.contains('#') || (kind != "sentinel" && !query.is_empty()) {
        return Err("the URL of a store takes no query, but for that of redis+sentinel");
    }
    let servers = redis_servers(kind, tls, rest)?;
    Ok(StoreUrl::Redis(RedisServers {
        sentinel: sentinel_login(query)?,
        ..servers
    }))
}

/// A part of a URL with its escapes taken out; nothing if it is empty.
fn plain(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// The credentials of the sentinels, in the query of the URL.
fn sentinel_login(query: &str) -> Result<SentinelLogin, &'static str> {
    let mut login = SentinelLogin::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_username", user)) if login.username.is_none() => {
                login.username = plain(user);
            }
            Some(("sentinel_password", password)) if login.password.is_none() => {
                login.password = plain(password).map(Hidden);
            }
            _ => {
                return Err(
                    "the query of redis+sentinel takes sentinel_username and sentinel_password, \
                     each once",
                );
            }
        }
    }
    if login.username.is_some() && login.password.is_none() {
        return Err("sentinel_username needs a sentinel_password");
    }
    Ok(login)
}

/// The servers of a URL after its scheme, which says how they belong together.
fn redis_servers(kind: &str, tls: bool, rest: &str) -> Result<RedisServers, &'static str> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (username, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let mut parts = path.split('/');
    let (topology, port) = match kind {
        "" => (Topology::Single, REDIS_PORT),
        "cluster" => (Topology::Cluster, REDIS_PORT),
        "sentinel" => {
            let service = parts.next().and_then(plain);
            let service = service.ok_or(
                "redis+sentinel needs the name of the service: redis+sentinel://host,host/mymaster",
            )?;
            (Topology::Sentinel(service), SENTINEL_PORT)
        }
        _ => return Err(KNOWN),
    };
    let database = match parts.next().unwrap_or_default() {
        "" => 0,
        number => number
            .parse::<u16>()
            .map_err(|_| "the database after the host is not a number")?,
    };
    if parts.next().is_some() {
        return Err("the path of a store's URL is the number of a database");
    }
    let nodes: Option<Vec<_>> = hosts.split(',').map(|host| node(host, port)).collect();
    let nodes = nodes.ok_or("a host of the store is empty, or its port is not a number")?;
    if topology == Topology::Cluster && database != 0 {
        return Err("a cluster has no databases besides 0");
    }
    if topology == Topology::Single && nodes.len() != 1 {
        return Err("takes one host; several are for redis+sentinel:// and redis+cluster://");
    }
    Ok(RedisServers {
        topology,
        nodes,
        tls,
        username: plain(username),
        password: plain(password).map(Hidden),
        database,
        sentinel: SentinelLogin::default(),
    })
}

/// A host, which may be an IPv6 address in brackets, and its port.
fn node(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(url: &str) -> RedisServers {
        match store_url(url) {
            Ok(StoreUrl::Redis(servers)) => servers,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[test]
    fn urls_name_servers_users_and_databases() {
        let one = redis("rediss://ba%40ler:p%3Aw@cache.example:6380/3");
        assert_eq!(one.nodes, [("cache.example".to_owned(), 6_380)]);
        assert!(one.tls && one.topology == Topology::Single);
        assert_eq!(one.username.as_deref(), Some("ba@ler"));
        assert_eq!(one.password.as_ref().unwrap().0, "p:w");
        assert_eq!(one.database, 3);
        assert!(!format!("{one:?}").contains("p:w"));

        let sentinels = redis("redis+sentinel://:pw@a,b:1,[::1]:2/mymaster/1");
        let names: Vec<_> = sentinels
            .nodes
            .iter()
            .map(|(host, _)| host.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "::1"]);
        assert_eq!(sentinels.nodes[0].1, SENTINEL_PORT);
        assert_eq!(
            sentinels.topology,
            Topology::Sentinel("mymaster".to_owned())
        );
        assert_eq!(sentinels.username, None);
        assert_eq!(sentinels.sentinel, SentinelLogin::default());

        let guarded = redis(
            "rediss+sentinel://user:pw@a/mymaster/1?sentinel_username=w%26tch&\
             sentinel_password=w%3Ford",
        );
        assert_eq!(guarded.password.as_ref().unwrap().0, "pw");
        assert_eq!(guarded.sentinel.username.as_deref(), Some("w&tch"));
        assert_eq!(guarded.sentinel.password.as_ref().unwrap().0, "w?ord");
        assert_eq!(guarded.database, 1);
        assert!(!format!("{guarded:?}").contains("w?ord"));
        let shown = StoreUrl::Redis(guarded).to_string();
        assert_eq!(shown, "rediss+sentinel://a:26379");

        assert_eq!(redis("redis+cluster://a:1,b:2").topology, Topology::Cluster);
    }

    #[test]
    fn what_is_no_store_is_refused_without_being_shown() {
        for url in [
            "disk",
            "redb://relative/file",
            "redb:///",
            "redb:///dir/",
            "http://host",
            "redis://",
            "redis://host:port",
            "redis://host/one",
            "redis://host/1/2",
            "redis://a,b",
            "redis://hunter2@host?x=1",
            "redis+sentinel://host",
            "redis+sentinel://host/mymaster?password=hunter2",
            "redis+sentinel://host/mymaster?sentinel_password",
            "redis+sentinel://host/mymaster?sentinel_password=hunter2&sentinel_password=hunter2",
            "redis+sentinel://host/mymaster?sentinel_username=hunter2",
            "redis://host?sentinel_password=hunter2",
            "redis+other://host",
            "redis+cluster://host/1",
        ] {
            let problem = store_url(url).unwrap_err();
            assert!(!problem.contains("hunter2"), "{url}: {problem}");
        }
    }
}
