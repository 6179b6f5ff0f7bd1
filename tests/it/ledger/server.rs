//! Real servers: Redis or Valkey, as the system has it, started on free ports.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// The program of a server; `None`, loudly, where there is none.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = ["redis-server", "valkey-server"].iter().find_map(|name| {
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    });
    if found.is_none() {
        eprintln!(
            "\nSKIPPED: NO TEST OF REDIS WAS RUN: there is neither redis-server nor \
             valkey-server; apt-get install redis-server\n"
        );
        assert!(
            std::env::var_os("BALER_NEEDS_REDIS").is_none(),
            "BALER_NEEDS_REDIS is set"
        );
    }
    found
}

/// A port that was free a moment ago. With the one 10,000 above it, which a cluster uses.
pub fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let bus = port.checked_add(10_000);
        if bus.is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok()) {
            return port;
        }
    }
}

/// A running server. Dropping it kills it.
pub struct Server {
    pub address: SocketAddr,
    pub folder: TempDir,
    program: PathBuf,
    options: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Starts one that keeps nothing on disk; `None` where there is no program for it.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same with more options.
    pub fn start_with(options: &[&str]) -> Option<Self> {
        let program = program()?;
        // Another program may take the port first: then another one is tried.
        for _ in 0..5 {
            let mut server = Server {
                address: SocketAddr::from(([127, 0, 0, 1], free_port())),
                folder: tempfile::tempdir().unwrap(),
                program: program.clone(),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                child: None,
            };
            if server.run() {
                return Some(server);
            }
        }
        panic!("no server would start");
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Starts the process; whether it answers.
    pub fn run(&mut self) -> bool {
        let port = self.address.port().to_string();
        let mut command = Command::new(&self.program);
        command.current_dir(self.folder.path());
        let file = self.folder.path().join("server.conf");
        std::fs::write(&file, "").unwrap();
        command.arg(&file).args(&self.options);
        if !self.options.iter().any(|option| option == "--port") {
            command.args(["--port", &port]);
        }
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--enable-debug-command", "yes"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.child = Some(child);
        let says = |line: &Result<String, _>| {
            let line = line.as_ref();
            line.is_ok_and(|line| line.contains("Ready to accept connections"))
        };
        let is_ready = lines.any(|line| says(&line));
        // It must be able to go on talking.
        std::thread::spawn(move || lines.for_each(drop));
        is_ready
    }

    /// Kills the process; the port is free afterwards.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let done = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(done.unwrap().success());
    }

    /// The answer to a command, as text.
    pub fn command(&self, words: &[&str]) -> String {
        command(self.address, words)
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.command(&["DBSIZE"]).parse().unwrap()
    }

    /// The names of all entries.
    pub fn names(&self) -> Vec<String> {
        let names = self.command(&["KEYS", "*"]);
        names.lines().map(str::to_owned).collect()
    }

    /// Everything that the server keeps, as it would be on disk.
    pub fn dump(&self) -> Vec<u8> {
        self.command(&["CONFIG", "SET", "rdbcompression", "no"]);
        self.command(&["SAVE"]);
        std::fs::read(self.folder.path().join("dump.rdb")).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The answer of any server to a command, as text. A sentinel closes the connections of the replica
/// that it makes the master: then the command is sent again.
pub fn command(to: SocketAddr, words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    let ask = || {
        let mut stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(text.as_bytes())?;
        answer(&mut BufReader::new(stream))
    };
    ask().or_else(|_| ask()).unwrap()
}

/// One answer of the protocol: texts and numbers as they are, the parts of a list a line each.
fn answer(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (kind, rest) = line.trim_end().split_at(1);
    Ok(match kind {
        "$" => {
            let Ok(length) = rest.parse::<usize>() else {
                return Ok(String::new());
            };
            let mut bytes = vec![0; length + 2];
            stream.read_exact(&mut bytes)?;
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        }
        "*" => {
            let count = rest.parse::<usize>().unwrap_or(0);
            let parts: io::Result<Vec<String>> = (0..count).map(|_| answer(stream)).collect();
            parts?.join("\n")
        }
        _ => rest.to_owned(),
    })
}

/// The path of a file in a folder, as an option has it.
pub fn within(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
