//! `baler probe`: asks a running Baler's admin listener whether it is ready. For images without a
//! shell or an HTTP client.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::{EXIT_CONFIG, ServeFlags, complain};
use crate::config;

/// Time for each of connecting, asking and answering.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn run(flags: ServeFlags) -> anyhow::Result<ExitCode> {
    let address = match config::load(&flags.sources()) {
        Ok(config) => reachable(config.admin),
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(ExitCode::from(EXIT_CONFIG));
        }
    };
    match ask(address) {
        Ok(status) if status.starts_with("HTTP/1.1 200") => Ok(ExitCode::SUCCESS),
        Ok(status) => {
            complain(&format!("baler probe: {address} answers {status}"));
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            complain(&format!("baler probe: {address}: {error}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The address to connect to: one that stands for all of the machine's own is reached by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The status line of `/readyz`.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut head = Vec::new();
    stream.take(1_024).read_to_end(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
