//! What opens one listener beside the home's token and the bearers of devices: static tokens, signed ones, or nothing at all.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use signalbox_protocol::app::{ConnectionRole, ListenerAuth, WsAuth};
use signalbox_rpc::Role;

use super::secret::Hashed;
use super::signed::{MIN_SECRET_BYTES, Signed};

/// Largest file of tokens or a secret.
const FILE_BYTES: u64 = 1 << 20;
/// Static tokens of one listener.
const TOKENS: usize = 1000;
/// Shortest static token. Whatever people think up is too short for being guessed at over a network.
const TOKEN_BYTES: usize = 32;
/// How far clocks may differ unless said otherwise.
const CLOCK_SKEW: Duration = Duration::from_secs(30);

/// What opens one listener beside the home's token and the bearers of devices. The default: nothing.
#[derive(Default)]
pub struct Keys {
    /// What whoever comes from this machine may do without a credential.
    pub(super) open: Option<Role>,
    pub(super) tokens: Vec<StaticToken>,
    pub(super) signed: Option<Signed>,
}

/// A token from a file or the command line.
pub(super) struct StaticToken {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) hash: Hashed,
}

/// Keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read the file.
    #[error("{} holds secrets and can be read by others; make it yours alone: chmod 600 {}", path.display(), path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any such file should be.
    #[error("{} is larger than {FILE_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what it should be.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong. Holds nothing of the file.
        message: String,
    },
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
}

impl Keys {
    /// A listener that whoever comes from this machine enters without a credential, with this role.
    #[must_use]
    pub fn open_to_this_machine(role: Role) -> Self {
        Self { open: Some(role), ..Self::default() }
    }

    /// Reads what the options name.
    ///
    /// # Errors
    /// If a file cannot be read, is open to others, or is not what it should be.
    pub fn load(auth: &ListenerAuth) -> Result<Self, KeysError> {
        let ListenerAuth { allow_local, tokens_file, ws_auth } = auth;
        let mut keys = Self { open: allow_local.map(role_in), ..Self::default() };
        if let Some(path) = tokens_file {
            keys.tokens = tokens_of(Path::new(path))?;
        }
        match ws_auth {
            None => {}
            Some(WsAuth::CapabilityToken { token_file, token_sha256 }) => {
                let hash = match (token_file, token_sha256) {
                    (Some(path), None) => {
                        let path = Path::new(path);
                        let token = text_of(path)?;
                        Hashed::of(long_enough(path, token.trim())?)
                    }
                    (None, Some(digits)) => Hashed::from_hex(digits.trim())
                        .ok_or(KeysError::Option("the SHA-256 of a token is 64 hexadecimal digits"))?,
                    _ => {
                        return Err(KeysError::Option(
                            "a capability token needs either --ws-token-file FILE or --ws-token-sha256 HEX",
                        ));
                    }
                };
                let name = "capability token".to_owned();
                keys.tokens.push(StaticToken { name, role: Role::Operator, hash });
            }
            Some(WsAuth::SignedBearerToken {
                shared_secret_file,
                issuer,
                audience,
                max_clock_skew_seconds,
            }) => {
                let path = Path::new(shared_secret_file);
                let skew = max_clock_skew_seconds.map_or(CLOCK_SKEW, Duration::from_secs);
                let secret = text_of(path)?;
                let signed = Signed::new(secret.trim().as_bytes(), issuer.clone(), audience.clone(), skew);
                keys.signed = Some(signed.ok_or_else(|| {
                    let message = format!("the secret must have at least {MIN_SECRET_BYTES} bytes");
                    KeysError::Content { path: path.to_owned(), message }
                })?);
            }
        }
        Ok(keys)
    }

    /// Whether somebody gets in without any credential.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("open", &self.open)
            .field("tokens", &self.tokens.len())
            .field("signed", &self.signed.is_some())
            .finish()
    }
}

/// The wire's word for a role.
pub(super) fn role_out(role: Role) -> ConnectionRole {
    match role {
        Role::Observer => ConnectionRole::Observer,
        Role::Operator => ConnectionRole::Operator,
        Role::Owner => ConnectionRole::Owner,
    }
}

/// The role behind the wire's word.
pub(super) fn role_in(role: ConnectionRole) -> Role {
    match role {
        ConnectionRole::Observer => Role::Observer,
        ConnectionRole::Operator => Role::Operator,
        ConnectionRole::Owner => Role::Owner,
    }
}

/// The text of a file that holds secrets: small, and nobody else's to read.
pub(crate) fn text_of(path: &Path) -> Result<String, KeysError> {
    let failed = |source| KeysError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    // Of the file that was opened: its name may lead elsewhere by now.
    let meta = file.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(KeysError::Open { path: path.to_owned() });
    }
    let mut text = String::new();
    file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(KeysError::TooLarge { path: path.to_owned() });
    }
    Ok(text)
}

/// A token that is worth its name.
pub(super) fn long_enough<'a>(path: &Path, token: &'a str) -> Result<&'a str, KeysError> {
    if token.len() < TOKEN_BYTES {
        let message = format!(
            "a token must have at least {TOKEN_BYTES} characters, all of them random; `openssl rand -hex 32` makes one"
        );
        return Err(KeysError::Content { path: path.to_owned(), message });
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "a token must be one word of printable ASCII characters".to_owned();
        return Err(KeysError::Content { path: path.to_owned(), message });
    }
    Ok(token)
}

/// The file of `--tokens`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensFile {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    #[serde(default = "operator")]
    role: ConnectionRole,
    token: Option<String>,
    sha256: Option<String>,
}

fn operator() -> ConnectionRole {
    ConnectionRole::Operator
}

fn tokens_of(path: &Path) -> Result<Vec<StaticToken>, KeysError> {
    let wrong = |message: String| KeysError::Content { path: path.to_owned(), message };
    let text = text_of(path)?;
    // Its message alone: the whole error quotes the line, which may hold a token.
    let file: TokensFile = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        wrong(format!("{line}{}", error.message()))
    })?;
    if file.token.is_empty() {
        return Err(wrong("there is no [[token]] in it".to_owned()));
    }
    if file.token.len() > TOKENS {
        return Err(wrong(format!("there are more than {TOKENS} tokens in it")));
    }
    let mut tokens: Vec<StaticToken> = Vec::with_capacity(file.token.len());
    for TokenEntry { name, role, token, sha256 } in file.token {
        if name.trim().is_empty() {
            return Err(wrong("a token has no name".to_owned()));
        }
        let hash = match (token, sha256) {
            (Some(token), None) => Hashed::of(long_enough(path, &token)?),
            (None, Some(digits)) => Hashed::from_hex(&digits)
                .ok_or_else(|| wrong(format!("the sha256 of {name:?} must be 64 hexadecimal digits")))?,
            _ => return Err(wrong(format!("{name:?} needs either token or sha256"))),
        };
        if tokens.iter().any(|other| other.name == name || other.hash == hash) {
            return Err(wrong(format!("{name:?} is there twice, or its token is")));
        }
        tokens.push(StaticToken { name, role: role_in(role), hash });
    }
    Ok(tokens)
}
