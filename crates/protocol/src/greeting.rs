//! How a program of this machine introduces itself on a home's unix socket: the first line of the connection, and the
//! line that answers it. A connection that begins with anything else is a client's as it is.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How a greeting begins, byte for byte. No frame of JSON-RPC has such a member.
pub const GREETING_START: &[u8] = b"{\"signalbox\":";
/// Longest greeting and longest welcome, in bytes with the line end.
pub const GREETING_BYTES: usize = 1024 * 1024;
/// The version of these two lines.
pub const GREETING_PROTOCOL: u32 = 1;

/// What the program that connects says: `{"signalbox":{…}}` and a line end. It sends nothing else before the welcome.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Greeting {
    /// [`GREETING_PROTOCOL`] of the program.
    pub protocol: u32,
    /// Version of the program.
    pub version: String,
    /// What it is, for people: `bridge`, `run`, `serve`, …
    pub client: String,
    /// Where relative directories of this connection begin, absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<String>,
    /// Variables that agents of threads which this connection starts or resumes may be given: `PATH` and those of the
    /// launch table. Kept in memory only. Without them agents get what the server has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// `KEY=VALUE` of the command line, for this connection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<String>,
    /// An older server that has nothing to do is to leave, because this program will start its own.
    pub upgrade: bool,
}

// Variables carry secrets: only their names are shown.
impl fmt::Debug for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Greeting")
            .field("version", &self.version)
            .field("client", &self.client)
            .field("base_dir", &self.base_dir)
            .field("env", &self.env.as_ref().map(BTreeMap::keys))
            .field("upgrade", &self.upgrade)
            .finish_non_exhaustive()
    }
}

/// What the server answers, in the same form. Behind it the connection is like any other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Welcome {
    /// [`GREETING_PROTOCOL`] of the server.
    pub protocol: u32,
    /// Version of the server.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Whether it has nothing to do but this connection.
    pub idle: bool,
    /// It leaves, because it is older and was asked to: nothing more comes on this connection but its end.
    #[serde(skip_serializing_if = "is_false")]
    pub leaving: bool,
    /// Addresses that are open besides the home's socket.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<String>,
    /// Those of [`Greeting::config`] that do not hold, because they are the whole server's and it runs with others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Why the greeting is refused; nothing more comes on this connection but its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Serialize)]
struct Line<'a, T> {
    signalbox: &'a T,
}

#[derive(Deserialize)]
struct OwnedLine<T> {
    signalbox: T,
}

/// Writes a greeting or a welcome as its line, the line end included.
///
/// # Errors
/// Never for these types; serde's signature wants it.
pub fn greeting_line<T: Serialize>(said: &T) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { signalbox: said })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads such a line. Members that it does not know are left out.
///
/// # Errors
/// It is no such line.
pub fn read_greeting<T: for<'de> Deserialize<'de>>(line: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice::<OwnedLine<T>>(line).map(|line| line.signalbox)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_begins_as_agreed_and_comes_back() {
        let greeting = Greeting {
            protocol: GREETING_PROTOCOL,
            version: "1.2.3".into(),
            client: "run".into(),
            base_dir: Some("/work".into()),
            env: Some(BTreeMap::from([("PATH".into(), "/bin".into())])),
            config: vec!["default_provider=codex".into()],
            upgrade: true,
        };
        let line = greeting_line(&greeting).unwrap();
        assert!(line.starts_with(GREETING_START) && line.ends_with(b"}}\n"));
        assert_eq!(read_greeting::<Greeting>(&line).unwrap(), greeting);
    }

    #[test]
    fn what_another_version_says_beside_is_no_error() {
        let welcome: Welcome =
            read_greeting(br#"{"signalbox":{"version":"9.0.0","pid":7,"new":[]}}"#).unwrap();
        assert_eq!((welcome.version.as_str(), welcome.pid, welcome.leaving), ("9.0.0", 7, false));
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        let env = Some(BTreeMap::from([("API_KEY".into(), "very-secret".into())]));
        let shown = format!("{:?}", Greeting { env, ..Greeting::default() });
        assert!(shown.contains("API_KEY") && !shown.contains("very-secret"), "{shown}");
    }
}
