//! The servers that figures are taken of, each in a home of its own; none outlives its figure.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::child::{Lines, Result};

/// A server that is a child of this program; killed when it is no longer needed.
pub(crate) struct Server {
    child: Child,
    /// Kept as long as the server.
    _home: Option<TempDir>,
}

impl Server {
    /// A server on a unix socket in this home.
    pub(crate) fn unix(bin: &Path, home: &Path, socket: &Path) -> Result<Self> {
        let listen = format!("unix://{}", socket.display());
        let child = Command::new(bin)
            .args(["app-server", "--standalone", "--listen", &listen])
            .env("SIGNALBOX_HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child, _home: None })
    }

    /// A server for WebSocket and HTTP on a port that the system chooses, open to this machine.
    pub(crate) fn tcp(bin: &Path) -> Result<(Self, SocketAddr)> {
        let home = tempfile::tempdir()?;
        let mut command = Command::new(bin);
        command
            .args(["app-server", "--standalone", "--listen", "ws://127.0.0.1:0"])
            .env("SIGNALBOX_HOME", home.path());
        Self::listening(&mut command, Some(home))
    }

    /// jsonrpsee's own server with methods that do as little.
    pub(crate) fn jsonrpsee() -> Result<(Self, SocketAddr)> {
        Self::listening(Command::new(std::env::current_exe()?).arg("jsonrpsee"), None)
    }

    /// Starts a server that says on stderr where it listens.
    fn listening(command: &mut Command, home: Option<TempDir>) -> Result<(Self, SocketAddr)> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or("no stderr")?;
        let server = Self { child, _home: home };
        let mut stderr = BufReader::new(stderr);
        let mut line = String::new();
        loop {
            line.clear();
            if stderr.read_line(&mut line)? == 0 {
                return Err("the server does not start".into());
            }
            if let Some((_, address)) = line.split_once("listening on ws://") {
                let end = address.find(|one: char| !one.is_ascii_digit() && one != '.' && one != ':');
                let address = address.get(..end.unwrap_or(address.len())).unwrap_or_default().parse()?;
                // Whatever else it says is read, so that it never waits for that.
                std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
                return Ok((server, address));
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A home whose server is a process of its own, reached by bridges; dropped, that server is stopped.
pub(crate) struct Shared {
    bin: PathBuf,
    home: TempDir,
}

impl Shared {
    pub(crate) fn new(bin: &Path) -> Result<Self> {
        let home = tempfile::tempdir()?;
        // Should this program be killed, the server leaves by itself soon.
        std::fs::write(home.path().join("config.toml"), "[server]\nidle_exit_seconds = 60\n")?;
        Ok(Self { bin: bin.to_owned(), home })
    }

    pub(crate) fn path(&self) -> &Path {
        self.home.path()
    }

    /// A client's bridge, not initialized yet.
    pub(crate) fn bridge(&self) -> Result<Lines> {
        Lines::start(Command::new(&self.bin).arg("app-server").env("SIGNALBOX_HOME", self.path()))
    }

    /// The process that serves the home, as it wrote itself into the lock.
    pub(crate) fn server_pid(&self) -> Result<u32> {
        let lock = std::fs::read_to_string(self.path().join("lock"))?;
        let pid = lock.lines().find_map(|line| line.strip_prefix("pid = ")).ok_or("no holder in the lock")?;
        Ok(pid.trim().parse()?)
    }

    pub(crate) fn stop(&self) -> Result<()> {
        let mut command = Command::new(&self.bin);
        command.arg("stop").env("SIGNALBOX_HOME", self.path()).stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("signalbox stop: {status}").into()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("bench: a server may still run in {}: {error}", self.path().display());
        }
    }
}
