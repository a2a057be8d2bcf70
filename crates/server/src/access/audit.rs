//! The audit log: who was let in, refused, paired, revoked, and who answered what. One line each, as a log line of the target
//! `audit` and as JSON in the home's `logs/audit.log`. Never a secret.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use signalbox_facts::DeviceId;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// A file of this size makes room for a new one.
const FILE_BYTES: u64 = 4 << 20;
/// So many are kept beside it: `audit.log.1` is the newest of them.
const KEPT: u32 = 4;

/// Where the log goes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Audit(Option<Arc<Mutex<Log>>>);

/// One line.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditEvent<'a> {
    /// `paired`, `pairing_created`, `revoked`, `refused`, `locked_out`, `approval_answered`,
    /// `approval_answer_sent`, `listener_opened`, `listener_closed`.
    pub event: &'a str,
    /// Who did it, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<&'a str>,
    /// What it may do, or is allowed from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'a str>,
    /// The device that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceId>,
    /// The address that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The thread that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<&'a str>,
    /// The approval that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<&'a str>,
    /// What else there is to say: why it was refused, what was answered, where is listened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// The last attempt to write has failed; told once.
    failing: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    at: &'a str,
    #[serde(flatten)]
    event: &'a AuditEvent<'a>,
}

impl Audit {
    /// Appends to this file, and to those beside it when it is full.
    #[must_use]
    pub fn to_file(path: PathBuf) -> Self {
        let log = Log { path, file: None, bytes: 0, failing: false };
        Self(Some(Arc::new(Mutex::new(log))))
    }

    /// Log lines only.
    #[must_use]
    pub fn without_file() -> Self {
        Self(None)
    }

    /// Notes something. The file is written at once; there are few lines, and each is short.
    pub fn note(&self, event: &AuditEvent<'_>) {
        let AuditEvent { event: what, who, role, device, address, thread, approval, detail } = event;
        let (device, address) = (device.map(|id| id.to_string()), address.map(|address| address.to_string()));
        let (device, address) = (device.as_deref(), address.as_deref());
        tracing::info!(
            target: "audit", event = what, who, role, device, address, thread, approval, detail, "{what}"
        );
        let Some(log) = &self.0 else { return };
        let mut at = String::new();
        if SystemTime.format_time(&mut Writer::new(&mut at)).is_err() {
            at.clear();
        }
        match serde_json::to_vec(&Line { at: &at, event }) {
            Ok(mut line) => {
                line.push(b'\n');
                log.lock().append(&line);
            }
            Err(error) => tracing::error!(%error, "a line of the audit log cannot be written"),
        }
    }
}

impl Log {
    fn append(&mut self, line: &[u8]) {
        let written = self.write(line);
        match written {
            Ok(()) => self.failing = false,
            Err(error) => {
                self.file = None;
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::error!(path = %self.path.display(), %error, "the audit log cannot be written");
                }
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_some() && self.bytes.saturating_add(line.len() as u64) > FILE_BYTES {
            self.file = None;
            self.make_room()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
                self.bytes = file.metadata()?.len();
                self.file.insert(file)
            }
        };
        file.write_all(line)?;
        self.bytes = self.bytes.saturating_add(line.len() as u64);
        Ok(())
    }

    fn make_room(&self) -> io::Result<()> {
        let kept = |number: u32| {
            let mut path = self.path.clone().into_os_string();
            path.push(format!(".{number}"));
            PathBuf::from(path)
        };
        for number in (1..KEPT).rev() {
            match std::fs::rename(kept(number), kept(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, kept(1))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_are_json_and_the_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Audit::to_file(path.clone());
        let device = DeviceId::generate();
        audit.note(&AuditEvent {
            event: "revoked",
            who: Some("me \"and\" you\n"),
            device: Some(device),
            ..AuditEvent::default()
        });
        audit.note(&AuditEvent {
            event: "refused",
            address: Some("192.0.2.1".parse().unwrap()),
            ..AuditEvent::default()
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["event"], "revoked");
        assert_eq!(lines[0]["who"], "me \"and\" you\n");
        assert_eq!(lines[0]["device"], device.to_string());
        assert!(lines[0]["at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(lines[1]["address"], "192.0.2.1");
        assert!(lines[1].get("device").is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_log_is_bounded_and_the_newest_lines_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Audit::to_file(path.clone());
        let detail = "x".repeat(64 << 10);
        let lines = u32::try_from(FILE_BYTES).unwrap() / (64 << 10) * (KEPT + 3);
        for number in 0..lines {
            let who = number.to_string();
            audit.note(&AuditEvent {
                event: "refused",
                who: Some(&who),
                detail: Some(&detail),
                ..AuditEvent::default()
            });
        }
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len() as u32, KEPT + 1);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= FILE_BYTES));
        let newest = std::fs::read_to_string(&path).unwrap();
        let last: serde_json::Value = serde_json::from_str(newest.lines().last().unwrap()).unwrap();
        assert_eq!(last["who"], (lines - 1).to_string());
    }

    #[test]
    fn a_log_that_cannot_be_written_hurts_nobody_and_goes_on_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/audit.log");
        let audit = Audit::to_file(path.clone());
        audit.note(&AuditEvent { event: "lost", ..AuditEvent::default() });
        std::fs::create_dir(folder.path().join("logs")).unwrap();
        audit.note(&AuditEvent { event: "kept", ..AuditEvent::default() });
        assert!(std::fs::read_to_string(&path).unwrap().contains("kept"));
    }
}
