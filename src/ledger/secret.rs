//! The secret of a store in a file, where the configuration names none: it stands beside the file,
//! for its owner's eyes only.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::config;
use crate::ledger::Secrets;

/// The shortest secret in such a file, bytes.
const LEAST_BYTES: usize = 32;

/// The file with the secret of the store in `path`.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".key");
    PathBuf::from(name)
}

/// The secret of the store in `path`: the configured one, else the one beside it, which is made
/// when there is none.
///
/// # Errors
/// When the file can be neither read nor made, or holds no secret.
pub(super) fn of_file(config: &config::Ledger, path: &Path) -> io::Result<Secrets> {
    if let Some(secret) = &config.secret {
        return Ok(Secrets::new(secret.0.as_bytes()));
    }
    let file = beside(path);
    let found = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(&file).and_then(|()| fs::read_to_string(&file))
        }
        found => found,
    };
    let name = file.display();
    let secret = found.map_err(|error| {
        let what = format!("the ledger's secret {name} can be neither read nor made: {error}");
        io::Error::new(error.kind(), what)
    })?;
    let secret = secret.trim();
    if secret.len() < LEAST_BYTES {
        let what = format!("{name} holds no secret; without it, and its store, a new one is made");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(Secrets::new(secret.as_bytes()))
}

/// Makes a file with a new secret. Of two processes that do so at a time, one makes it, whole.
fn make(file: &Path) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", crate::random::id()));
    let new = PathBuf::from(name);
    let written = write(&new).and_then(|()| match fs::hard_link(&new, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    // It is there under its own name now, or of no use.
    let _ = fs::remove_file(&new);
    written
}

fn write(file: &Path) -> io::Result<()> {
    let secret = STANDARD.encode(crate::random::bytes::<32>());
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    writeln!(file, "{secret}")?;
    file.sync_all()
}
