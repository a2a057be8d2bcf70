//! What a listener may be told: plain options that can be sent to the process that opens it, and whether they make sense.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use hyper::Uri;
use serde::{Deserialize, Serialize};
use signalbox_protocol::app::ListenerAuth;

use crate::access::KeysError;

/// Options of one TCP listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenOptions {
    /// Origins of web pages that may use it, beside its own: `https://app.example` or `http://localhost:5173`.
    pub allow_origins: Vec<String>,
    /// Names under which it may be reached, beside localhost and the address itself; a port is not looked at.
    pub allow_hosts: Vec<String>,
    /// Who comes in beside the home's token and paired devices.
    pub auth: ListenerAuth,
    /// Other machines may connect although what is said, credentials included, can be read on the way.
    pub insecure: bool,
    /// Serves TLS.
    pub tls: Option<TlsFiles>,
    /// Where relative directories of those begin who come in here, absolute; else where the server's begin.
    pub base_dir: Option<PathBuf>,
}

/// Where certificate and key lie. Absolute paths, PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The certificate, and the chain behind it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HttpDoorError {
    /// What is said could be read by others.
    #[error(
        "{0} can be reached from other machines, and without TLS everybody on the way could read what is said, tokens included. \
         Give --tls-cert FILE --tls-key FILE, or listen on 127.0.0.1 behind a proxy or a tunnel (ssh -L), or say --insecure if the \
         network is yours alone"
    )]
    NeedsTls(SocketAddr),
    /// No origin.
    #[error(
        "--allow-origin {0:?} is no origin: write scheme://host or scheme://host:port, as in https://app.example"
    )]
    Origin(String),
    /// No host.
    #[error("--allow-host {0:?} is no host name: write it without scheme and path, as in box.example")]
    Host(String),
    /// TLS was asked for without saying with what.
    #[error("wss://{0} needs a certificate: --tls-cert FILE --tls-key FILE")]
    NoCertificate(SocketAddr),
    /// A file of credentials, or an option about them.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Certificate or key.
    #[error("{} cannot be used for TLS: {why}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The address.
    #[error("cannot listen on {address}: {source}{}", in_use(source, *address))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// What to do about an address that is taken.
fn in_use(error: &io::Error, address: SocketAddr) -> String {
    if error.kind() != io::ErrorKind::AddrInUse {
        return String::new();
    }
    let ip = address.ip();
    let free = SocketAddr::new(ip, 0);
    format!(
        "; perhaps by this home's own server (`signalbox doctor` lists its addresses); --listen {free} takes a free port"
    )
}

impl ListenOptions {
    /// Whether they make sense for this address.
    ///
    /// # Errors
    /// With what to do, if they do not.
    pub fn check(&self, address: SocketAddr) -> Result<(), HttpDoorError> {
        if !address.ip().to_canonical().is_loopback() && self.tls.is_none() && !self.insecure {
            return Err(HttpDoorError::NeedsTls(address));
        }
        for origin in &self.allow_origins {
            let plain = origin.parse::<Uri>().is_ok_and(|uri| {
                uri.scheme().is_some()
                    && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
                    && uri.path_and_query().is_none_or(|path| path.as_str() == "/")
                    && !origin.ends_with('/')
            });
            if !plain {
                return Err(HttpDoorError::Origin(origin.clone()));
            }
        }
        for host in &self.allow_hosts {
            let wrong =
                |character: char| !(character.is_ascii_alphanumeric() || "-._:[]".contains(character));
            if host.is_empty() || host.contains(wrong) {
                return Err(HttpDoorError::Host(host.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str, options: &ListenOptions) -> String {
        options.check(address.parse().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn other_machines_need_tls_or_a_word() {
        let plain = ListenOptions::default();
        for local in ["127.0.0.1:0", "127.3.4.5:1", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            plain.check(local.parse().unwrap()).unwrap();
        }
        for remote in ["0.0.0.0:4517", "[::]:4517", "192.168.1.5:1"] {
            let said = refused(remote, &plain);
            assert!(said.contains("--tls-cert") && said.contains("--insecure"), "{said}");
            ListenOptions { insecure: true, ..plain.clone() }.check(remote.parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn origins_and_hosts_are_read_when_it_starts() {
        let with = |origin: &str, host: &str| ListenOptions {
            allow_origins: vec![origin.to_owned()],
            allow_hosts: vec![host.to_owned()],
            ..ListenOptions::default()
        };
        with("https://app.example:8443", "box.example:4517").check("127.0.0.1:0".parse().unwrap()).unwrap();
        for origin in
            ["app.example", "*", "null", "https://app.example/path", "https://app.example/", "https://me@app"]
        {
            assert!(refused("127.0.0.1:0", &with(origin, "box")).contains("--allow-origin"), "{origin}");
        }
        for host in ["", "http://box", "box/path", "*"] {
            assert!(refused("127.0.0.1:0", &with("https://a", host)).contains("--allow-host"), "{host}");
        }
    }

    #[test]
    fn options_can_be_sent() {
        let options: ListenOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(options, ListenOptions::default());
        let tls = Some(TlsFiles { cert: "/c.pem".into(), key: "/k.pem".into() });
        let options = ListenOptions {
            tls,
            auth: ListenerAuth { tokens_file: Some("/t.toml".to_owned()), ..Default::default() },
            ..options
        };
        let sent = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<ListenOptions>(&sent).unwrap(), options);
    }
}
