//! Connections: to one server, to the master that sentinels name, to a cluster.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cluster::ClusterClientBuilder;
use ::redis::cluster_async::ClusterConnection;
use ::redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use ::redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    IntoConnectionInfo, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, TlsMode,
};

use crate::config::{RedisServers, Topology};

/// Time to connect, and for a command that no request waits for.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);
/// Time to find the right one among several servers.
const SEARCH: Duration = Duration::from_secs(2);

/// The servers of a store.
#[derive(Debug, Clone)]
pub(in crate::ledger) struct Servers {
    pub servers: RedisServers,
    /// Certificates (PEM) to trust in place of the public ones.
    pub ca: Option<Vec<u8>>,
}

/// A connection to one server, or to a cluster.
#[derive(Clone)]
pub(in crate::ledger) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    /// The answer to a command.
    pub(in crate::ledger) async fn ask<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
    ) -> RedisResult<T> {
        match self {
            Connection::One(connection) => command.query_async(connection).await,
            Connection::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

impl Servers {
    /// A connection that answers.
    pub(in crate::ledger) async fn connect(&self) -> RedisResult<Connection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        let connection = match &self.servers.topology {
            Topology::Single => {
                let node = self.nodes().next();
                let node = node.ok_or((ErrorKind::InvalidClientConfig, "no host"))?;
                let client = if self.servers.tls {
                    Client::build_with_tls(node?, self.certificates())?
                } else {
                    Client::open(node?)?
                };
                let connecting = client.get_multiplexed_async_connection_with_config(&config);
                Connection::One(connecting.await?)
            }
            Topology::Sentinel(service) => self.by_sentinels(service, &config).await?,
            Topology::Cluster => self.cluster().await?,
        };
        Ok(connection)
    }

    async fn by_sentinels(
        &self,
        service: &str,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Connection> {
        let nodes = self.servers.nodes.iter().map(|node| self.address(node));
        let mut builder = SentinelClientBuilder::new(nodes, service, SentinelServerType::Master)?
            .set_client_to_redis_db(i64::from(self.servers.database));
        if let Some(user) = &self.servers.username {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = &self.servers.password {
            builder = builder.set_client_to_redis_password(&password.0);
        }
        let login = &self.servers.sentinel;
        if let Some(user) = &login.username {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = &login.password {
            builder = builder.set_client_to_sentinel_password(&password.0);
        }
        if self.servers.tls {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_redis_certificates(self.certificates())
                .set_client_to_sentinel_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_certificates(self.certificates());
        }
        let mut client = builder.build()?;
        let connecting = client.get_async_connection_with_config(config);
        let within = tokio::time::timeout(SEARCH, connecting).await;
        let timeout = || RedisError::from((ErrorKind::Io, "no sentinel answers"));
        Ok(Connection::One(within.map_err(|_| timeout())??))
    }

    async fn cluster(&self) -> RedisResult<Connection> {
        let nodes: RedisResult<Vec<_>> = self.nodes().collect();
        let mut builder = ClusterClientBuilder::new(nodes?)
            .retries(1)
            .connection_timeout(TIMEOUT)
            .response_timeout(TIMEOUT);
        if self.servers.tls {
            builder = builder.tls(TlsMode::Secure).certs(self.certificates());
        }
        let client = builder.build()?;
        let timeout = || RedisError::from((ErrorKind::Io, "no node answers"));
        let connecting = client.get_async_connection();
        let within = tokio::time::timeout(SEARCH, connecting).await;
        Ok(Connection::Cluster(within.map_err(|_| timeout())??))
    }

    fn nodes(&self) -> impl Iterator<Item = RedisResult<ConnectionInfo>> + '_ {
        let mut settings = RedisConnectionInfo::default();
        if let Some(user) = &self.servers.username {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.servers.password {
            settings = settings.set_password(&password.0);
        }
        settings = settings.set_db(i64::from(self.servers.database));
        self.servers.nodes.iter().map(move |node| {
            let info = self.address(node).into_connection_info()?;
            Ok(info.set_redis_settings(settings.clone()))
        })
    }

    fn address(&self, (host, port): &(String, u16)) -> ConnectionAddr {
        if self.servers.tls {
            ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host.clone(), *port)
        }
    }

    fn certificates(&self) -> TlsCertificates {
        TlsCertificates {
            client_tls: None,
            root_cert: self.ca.clone(),
        }
    }
}
