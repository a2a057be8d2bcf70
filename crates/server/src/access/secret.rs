//! Secrets: made from the operating system's randomness, kept as hashes, compared in constant time.
//!
//! Each is 256 random bits, so a plain SHA-256 is enough: nobody can try 2^256 of them, and a slow or salted hash would protect
//! only what people think up. Each begins with what it is, so that one in the wrong place is told from a wrong one, and
//! scanners find one that was committed somewhere.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a secret is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The home's own token.
    Home,
    /// Makes a device, once.
    Pairing,
    /// A device's bearer.
    Device,
    /// Opens one socket.
    Ticket,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Home, Self::Pairing, Self::Device, Self::Ticket];

    fn prefix(self) -> &'static str {
        match self {
            Self::Home => "sbx_home_",
            Self::Pairing => "sbx_pair_",
            Self::Device => "sbx_device_",
            Self::Ticket => "sbx_ticket_",
        }
    }

    /// What the text claims to be.
    pub(super) fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| text.starts_with(kind.prefix()))
    }
}

/// SHA-256 of a secret.
#[derive(Clone, Copy, Eq)]
pub(super) struct Hashed(pub(super) [u8; 32]);

impl Hashed {
    pub(super) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Of 64 hexadecimal digits.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
        let bytes: Vec<u8> =
            digits?.chunks(2).map(|pair| pair.iter().fold(0, |all, one| all << 4 | one)).collect();
        (text.len() == 64).then(|| bytes.try_into().ok().map(Self)).flatten()
    }
}

/// In constant time: how much of a wrong guess is right must not show.
impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::hash::Hash for Hashed {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

/// A new secret.
///
/// # Errors
/// If the operating system has no randomness to give.
pub(super) fn new(kind: Kind) -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_say_what_they_are_and_never_repeat() {
        for kind in Kind::ALL {
            let (one, other) = (new(kind).unwrap(), new(kind).unwrap());
            assert_eq!(Kind::of(&one), Some(kind));
            assert_ne!(one, other);
            let random = one.strip_prefix(kind.prefix()).unwrap();
            assert_eq!(URL_SAFE_NO_PAD.decode(random).unwrap().len(), 32);
            // Nothing in it needs quoting in a URL, a header or a WebSocket subprotocol.
            assert!(one.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter)));
        }
        assert_eq!(Kind::of("something"), None);
    }

    #[test]
    fn hashes_are_those_of_everybody_else() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Some(Hashed::of("abc")), Hashed::from_hex(abc));
        assert_eq!(Some(Hashed::of("abc")), Hashed::from_hex(&abc.to_uppercase()));
        assert_eq!(Hashed::from_hex(&abc[1..]), None);
        assert_eq!(Hashed::from_hex(&abc.replace('b', "g")), None);
        assert_ne!(Hashed::of("abc"), Hashed::of("abd"));
        assert_eq!(format!("{:?}", Hashed::of("abc")), "Hash(…)");
    }
}
