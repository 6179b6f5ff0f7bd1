//! `baler probe`: asks a running Baler's admin listener whether it is ready. For images without a
//! shell or an HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::{EXIT_CONFIG, ServeFlags, complain};
use crate::{admin, config};

/// Time for each of connecting, asking and answering.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn run(flags: ServeFlags) -> anyhow::Result<ExitCode> {
    let address = match config::load_admin(&flags.sources()) {
        Ok(address) => admin::reachable(address),
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

/// The status line of `/readyz`.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(admin::ASK_READY)?;
    let mut head = Vec::new();
    stream.take(1_024).read_to_end(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
