//! The two sockets that Baler listens on, and the question whether a port may be shared.
//!
//! A port is shared (`SO_REUSEPORT`) so that a new process can listen while the one before it still
//! drains. With a process that goes on serving, the system would spread connections over both:
//! requests and their credentials would reach the upstream of either.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tracing::warn;

use crate::admin;
use crate::config::Config;

/// The two sockets. They are bound before anything else, so that an occupied port is noticed first.
#[derive(Debug)]
pub struct Listeners {
    /// For applications.
    pub data: TcpListener,
    /// For probes and Prometheus.
    pub admin: TcpListener,
}

impl Listeners {
    /// Binds the configured addresses. A Baler that is being replaced may still hold them while it
    /// drains: both listen then, and the system gives new connections to either.
    ///
    /// # Errors
    /// With the address that could not be bound, or that a process holds which is not draining.
    pub async fn bind(config: &Config) -> io::Result<Self> {
        let data = Bound::new(config.listen, "listen.address")?;
        let admin = Bound::new(config.admin, "admin.address")?;
        // A socket that is bound and does not listen yet gets no connection: it is the other
        // process that answers.
        check_holder(&data, &admin).await?;
        Ok(Listeners {
            data: data.listen()?,
            admin: admin.listen()?,
        })
    }
}

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;
/// Time for the process that holds a port to say whether it is ready.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two questions.
const ASK_PAUSE: Duration = Duration::from_millis(20);
/// The longest answer that is read, bytes.
const ANSWER_BYTES: u64 = 1_024;

/// A socket that does not listen yet.
struct Bound {
    socket: TcpSocket,
    address: SocketAddr,
    key: &'static str,
    /// Whether another process has the port, too.
    is_shared: bool,
}

impl Bound {
    fn new(address: SocketAddr, key: &'static str) -> io::Result<Self> {
        let bound = bound(address);
        let (socket, is_shared) = bound.map_err(|error| at(address, key, &error))?;
        Ok(Bound {
            socket,
            address,
            key,
            is_shared,
        })
    }

    fn listen(self) -> io::Result<TcpListener> {
        let Bound { address, key, .. } = self;
        let listening = self.socket.listen(BACKLOG);
        let listener = listening.map_err(|error| at(address, key, &error))?;
        if self.is_shared {
            warn!("{key} {address} is shared with another process, which should be draining");
        }
        Ok(listener)
    }

    /// The error for a port whose holder goes on serving.
    fn taken(&self, why: &str) -> io::Error {
        let Bound { address, key, .. } = self;
        io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("{key} {address}: {why}; stop that process, or set another {key}"),
        )
    }
}

/// An error with the key and the address that it is about.
fn at(address: SocketAddr, key: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{key} {address}: {error}"))
}

/// A socket with this address, and whether another process has it, too.
fn bound(address: SocketAddr) -> io::Result<(TcpSocket, bool)> {
    let socket = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        io::Result::Ok(socket)
    };
    // Only an attempt to have it alone tells whether another process shares the port.
    let is_shared = address.port() != 0 && socket()?.bind(address).is_err();
    let socket = socket()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok((socket, is_shared))
}

/// Refuses ports whose holder is not draining. One that does not answer may be too busy with the
/// end of its requests to do so, and is no obstacle.
async fn check_holder(data: &Bound, admin: &Bound) -> io::Result<()> {
    if !admin.is_shared {
        // A draining Baler closes the port for applications first, and that for probes last.
        return if data.is_shared {
            Err(data.taken(&format!(
                "another process holds it, and is not draining: a draining Baler would still hold \
                 admin.address {}",
                admin.address
            )))
        } else {
            Ok(())
        };
    }
    let probed = admin::reachable(admin.address);
    let asked = settled_readiness_at(probed, data.is_shared);
    match tokio::time::timeout(ASK_TIMEOUT, asked).await {
        Ok(Ok(status)) if !status.is_empty() && status != "503" => {
            let first = if data.is_shared { data } else { admin };
            Err(first.taken(&format!(
                "a Baler that is not draining holds it (http://{probed}/readyz answers {status})"
            )))
        }
        _ => Ok(()),
    }
}

/// The same as [`readiness_at`], of a process that `may_start`: one that still has the port for
/// applications and is not ready has only begun, and is given the time to become ready.
async fn settled_readiness_at(address: SocketAddr, may_start: bool) -> io::Result<String> {
    loop {
        let status = readiness_at(address).await?;
        if !may_start || status != "503" {
            return Ok(status);
        }
        tokio::time::sleep(ASK_PAUSE).await;
    }
}

/// The status that `/readyz` at this address answers; empty without an answer.
async fn readiness_at(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(admin::ASK_READY).await?;
    let mut head = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut head).await?;
    let head = String::from_utf8_lossy(&head);
    Ok(head.split(' ').nth(1).unwrap_or_default().to_owned())
}
