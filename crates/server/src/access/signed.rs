//! Signed bearer tokens for machines: JWT, HS256 alone. Whoever has the secret can make them.
//!
//! The library reads and checks claims; the one algorithm is handed to it here, so no token can choose another.

use std::fmt;
use std::time::Duration;

use hmac::{Hmac, Mac};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Validation};
use serde::Deserialize;
use sha2::Sha256;
use signalbox_protocol::app::ConnectionRole;
use signalbox_rpc::Role;

use super::keys::role_in;

/// Shortest secret: as long as the hash, below which it would be the weakest part.
pub(super) const MIN_SECRET_BYTES: usize = 32;
/// Longest name taken from a token.
const NAME_CHARS: usize = 100;

/// What a signed token must be.
pub(super) struct Signed {
    key: DecodingKey,
    validation: Validation,
    skew: Duration,
}

/// What a token says, once it is known to be true.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) name: String,
    pub(super) role: Role,
    /// Until when, unix milliseconds, the clocks' difference included.
    pub(super) until_ms: i64,
}

#[derive(Deserialize)]
struct Claims {
    exp: u64,
    nbf: Option<u64>,
    sub: Option<String>,
    role: Option<ConnectionRole>,
}

impl Signed {
    /// `None` if the secret is shorter than [`MIN_SECRET_BYTES`].
    pub(super) fn new(
        secret: &[u8],
        issuer: Option<String>,
        audience: Option<String>,
        skew: Duration,
    ) -> Option<Self> {
        let key = DecodingKey::from_secret(secret).ok().filter(|_| secret.len() >= MIN_SECRET_BYTES)?;
        // One that is there already is this very one: nobody else in the process uses the library.
        let _ = HS256.install_default();
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = skew.as_secs();
        // Times are compared below, with the clock of this module's callers.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.set_required_spec_claims(&["exp"]);
        if let Some(issuer) = issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        match audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                validation.required_spec_claims.insert("aud".to_owned());
            }
            None => validation.validate_aud = false,
        }
        Some(Self { key, validation, skew })
    }

    /// Whether a text looks like such a token at all.
    pub(super) fn is_meant(text: &str) -> bool {
        text.starts_with("eyJ") && text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// What a token says, if it is worth something now.
    ///
    /// # Errors
    /// What is wrong with it, for people: without anything of the token.
    pub(super) fn check(&self, token: &str, now_ms: i64) -> Result<Claimed, String> {
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation);
        let Claims { exp, nbf, sub, role } = decoded.map_err(|error| said(&error))?.claims;
        let ms = |seconds: u64| i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        let skew = ms(self.skew.as_secs());
        let until_ms = ms(exp).saturating_add(skew);
        if until_ms <= now_ms {
            return Err("the token has expired".to_owned());
        }
        if nbf.is_some_and(|from| ms(from).saturating_sub(skew) > now_ms) {
            return Err("the token is not valid yet (nbf)".to_owned());
        }
        let name = sub.unwrap_or_default().chars().take(NAME_CHARS).collect::<String>();
        let name = if name.trim().is_empty() { "signed token".to_owned() } else { name };
        Ok(Claimed { name, role: role.map_or(Role::Operator, role_in), until_ms })
    }
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signed")
    }
}

/// What is wrong with a token, in words that tell its maker what to change.
fn said(error: &Error) -> String {
    match error.kind() {
        ErrorKind::InvalidToken | ErrorKind::Base64(_) | ErrorKind::Utf8(_) => "this is no token".to_owned(),
        ErrorKind::InvalidIssuer => "the token's issuer (iss) is another one".to_owned(),
        ErrorKind::InvalidAudience => "the token's audience (aud) is another one".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("the token has no {claim}"),
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => {
            "the token must be signed with HS256".to_owned()
        }
        ErrorKind::Json(_) | ErrorKind::InvalidClaimFormat(_) => {
            "the token's claims cannot be read: exp and nbf are whole numbers, role is observer, operator or owner"
                .to_owned()
        }
        _ => "the token's signature is not that of this server's secret".to_owned(),
    }
}

/// The one algorithm.
static HS256: CryptoProvider = CryptoProvider {
    signer_factory: sign,
    verifier_factory: verify,
    key_utils: KeyUtils::new_unimplemented(),
};

/// A key, ready to be used.
struct Keyed(Hmac<Sha256>);

impl Keyed {
    fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self, Error> {
        if algorithm != Algorithm::HS256 {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let keyed = Hmac::new_from_slice(secret).map_err(|_| Error::from(ErrorKind::InvalidKeyFormat))?;
        Ok(Self(keyed))
    }
}

fn sign(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Ok(Box::new(Keyed::new(*algorithm, key.as_bytes())?))
}

fn verify(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    Ok(Box::new(Keyed::new(*algorithm, key.try_get_as_bytes()?)?))
}

impl signature::Signer<Vec<u8>> for Keyed {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(self.0.clone().chain_update(message).finalize().into_bytes().to_vec())
    }
}

impl signature::Verifier<Vec<u8>> for Keyed {
    /// In constant time.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let keyed = self.0.clone().chain_update(message);
        keyed.verify_slice(signature).map_err(|_wrong| signature::Error::new())
    }
}

impl JwtSigner for Keyed {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Keyed {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}
