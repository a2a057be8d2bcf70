//! `POST /api/pair` and `POST /api/ws-ticket`: from a code to a device, from a bearer to a ticket. Bodies in, answers out; HTTP is
//! elsewhere.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::json;
use signalbox_facts::{DeviceId, DeviceRow};
use signalbox_protocol::app::{PairingCreateParams, PairingCreateResult};
use signalbox_rpc::Role;

use super::clock::Deadline;
use super::codes::{CODE_LIFE, Holder, Offer, TICKET_LIFE, Taken};
use super::devices::AddError;
use super::keys::{role_in, role_out};
use super::refused::{Answer, Refused};
use super::secret::{self, Hashed, Kind};
use super::{Access, AccessError, AuditEvent, stored};

/// Longest name of a device.
const NAME_CHARS: usize = 100;
/// Largest body of a pairing.
const BODY_BYTES: usize = 16 << 10;

/// The body of `POST /api/pair`; what else it says is ignored.
#[derive(Deserialize)]
struct Pair {
    token: String,
    #[serde(default)]
    device_name: Option<String>,
}

/// A pairing code was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodeError {
    /// Too many wait to be used.
    #[error("too many pairing codes wait to be used; they are forgotten after 15 minutes")]
    TooMany,
    /// The address is none.
    #[error("the base URL must begin with http:// or https:// and have neither query nor fragment")]
    BaseUrl,
    /// No randomness.
    #[error(transparent)]
    Access(#[from] AccessError),
}

impl Access {
    /// A code with which one device can be paired.
    pub(super) fn offer(&self, params: PairingCreateParams) -> Result<PairingCreateResult, CodeError> {
        let PairingCreateParams { role, device_name, base_url } = params;
        let base = match base_url {
            Some(base) => Some(checked(&base).ok_or(CodeError::BaseUrl)?),
            None => self.shared.bases.lock().last().cloned(),
        };
        let role = role.map_or(Role::Operator, role_in);
        let code = secret::new(Kind::Pairing).map_err(AccessError::from)?;
        let deadline = Deadline::after(&self.shared.clock, CODE_LIFE);
        let offer = Offer { role, device_name: device_name.as_deref().and_then(name) };
        if !self.shared.codes.lock().add(Hashed::of(&code), offer, deadline, &self.shared.clock) {
            return Err(CodeError::TooMany);
        }
        Ok(PairingCreateResult {
            // In the fragment: browsers send it to no server, and it is in nobody's log.
            url: base.map(|base| format!("{base}/pair#token={code}")),
            code,
            role: role_out(role),
            expires_at: deadline.wall_ms / 1000,
            expires_in: CODE_LIFE.as_secs(),
        })
    }

    /// `POST /api/pair {"token", "device_name"?}` → `{"device_id", "bearer", "role", "expires_in"}`: makes a device of a pairing
    /// code. If the device cannot be stored, the code is as good as before.
    pub async fn pair(&self, body: &[u8], from: IpAddr) -> Answer {
        self.paired(body, from).await.unwrap_or_else(Answer::from)
    }

    async fn paired(&self, body: &[u8], from: IpAddr) -> Result<Answer, Refused> {
        self.admit(from, "pairing_code")?;
        if let Some(left) = self.shared.limits.locked(from) {
            return Err(Refused::too_many("pairing_code", left));
        }
        let body = (body.len() <= BODY_BYTES).then_some(body).ok_or_else(|| {
            refusal(413, "body_too_large", format!("the body is larger than {BODY_BYTES} bytes"))
        })?;
        let Pair { token, device_name } = serde_json::from_slice(body).map_err(|_| {
            let message = r#"the body must be {"token": "…", "device_name": "…"}"#;
            refusal(400, "invalid_request", message.to_owned())
        })?;
        let hash = Hashed::of(token.trim());
        let taken = self.shared.codes.lock().take(hash, &self.shared.clock);
        let offer = match taken {
            Taken::Yours(offer) => offer,
            Taken::Busy => {
                let message = "somebody pairs with this code at this moment; try again".to_owned();
                return Err(Refused {
                    retry_after: Some(std::time::Duration::from_secs(1)),
                    ..refusal(409, "pairing_in_progress", message)
                });
            }
            Taken::Nothing => {
                let message = "the pairing code is wrong, was used before, or is older than 15 minutes; \
                               `signalbox pair` makes a new one";
                return Err(self.refused(from, "pairing_code", message));
            }
        };
        // On a task of its own: a client that goes in the middle leaves the code used or not, never in between.
        let access = self.clone();
        let making = self.shared.tasks.spawn(async move {
            let made = access.make(hash, offer, device_name, from).await;
            if made.is_err() {
                access.shared.codes.lock().give_back(hash);
            }
            made
        });
        making.await.unwrap_or_else(|_| Err(refusal(500, "internal", "the device was not paired".to_owned())))
    }

    async fn make(
        &self,
        code: Hashed,
        offer: Offer,
        device_name: Option<String>,
        from: IpAddr,
    ) -> Result<Answer, Refused> {
        let bearer = secret::new(Kind::Device).map_err(|error| {
            tracing::error!(%error, "no device can be paired without random bytes");
            refusal(500, "internal", "the operating system gives no random bytes".to_owned())
        })?;
        let now = self.shared.clock.wall_ms();
        let row = DeviceRow {
            id: DeviceId::generate(),
            name: offer.device_name.or(device_name.as_deref().and_then(name)).unwrap_or("Device".to_owned()),
            role: stored(offer.role),
            hash: Hashed::of(&bearer).0,
            created_at_ms: now,
            expires_at_ms: self.shared.devices.expiry(),
            last_seen_ms: None,
        };
        let (id, name, role) = (row.id, row.name.clone(), row.role.name());
        let expires_in = row.expires_at_ms.saturating_sub(now) / 1000;
        self.shared.devices.add(row).await.map_err(|error| match error {
            AddError::Full => refusal(409, "too_many_devices", error.to_string()),
            AddError::Store(cause) => {
                tracing::error!(error = %cause, "a device could not be stored");
                let message = "the device could not be stored; the code is still good, try again";
                Refused {
                    retry_after: Some(std::time::Duration::from_secs(1)),
                    ..refusal(500, "storage_failed", message.to_owned())
                }
            }
        })?;
        if !self.shared.codes.lock().used(code) {
            // Withdrawn while the device was stored: whoever made the code was revoked.
            if let Err(error) = self.shared.devices.revoke(id).await {
                tracing::error!(device = %id, %error, "a device with a withdrawn code cannot be removed; revoke it");
            }
            return Err(self.refused(from, "pairing_code", "the pairing code was withdrawn"));
        }
        self.shared.audit.note(&AuditEvent {
            event: "paired",
            who: Some(&name),
            role: Some(role),
            device: Some(id),
            address: Some(from.to_canonical()),
            ..AuditEvent::default()
        });
        Ok(Answer::ok(json!({
            "device_id": id.to_string(),
            "bearer": bearer,
            "name": name,
            "role": role,
            "expires_in": expires_in,
        })))
    }

    /// `POST /api/ws-ticket`, with a bearer → `{"ticket", "expires_in"}`: what opens `/ws?ticket=…` once, within five minutes, as
    /// whoever asked for it.
    pub async fn ws_ticket(&self, credential: Option<&str>, from: IpAddr) -> Answer {
        self.ticket(credential, from).await.unwrap_or_else(Answer::from)
    }

    async fn ticket(&self, credential: Option<&str>, from: IpAddr) -> Result<Answer, Refused> {
        self.admit(from, "bearer")?;
        let caller = self.authenticate(credential, from).await?;
        let ticket = secret::new(Kind::Ticket).map_err(|error| {
            tracing::error!(%error, "no ticket can be made without random bytes");
            refusal(500, "internal", "the operating system gives no random bytes".to_owned())
        })?;
        // Not the caller itself: a device is here when its ticket is used, not while it has one.
        let holder = match caller.device {
            Some(id) => Holder::Device(id),
            None => Holder::Other(caller),
        };
        if !self.shared.tickets.lock().add(Hashed::of(&ticket), holder, &self.shared.clock) {
            return Err(Refused {
                message: "too many tickets wait to be used".to_owned(),
                ..Refused::too_many("ticket", TICKET_LIFE)
            });
        }
        Ok(Answer::ok(json!({ "ticket": ticket, "expires_in": TICKET_LIFE.as_secs() })))
    }

    fn admit(&self, from: IpAddr, needs: &'static str) -> Result<(), Refused> {
        self.shared.limits.admit(from).map_err(|wait| Refused::too_many(needs, wait))
    }
}

fn refusal(status: u16, reason: &'static str, message: String) -> Refused {
    Refused { status, reason, message, needs: "pairing_code", retry_after: None }
}

/// A device's name: one line that fits into lists, `None` if nothing is left.
fn name(given: &str) -> Option<String> {
    let words: String = given.chars().map(|letter| if steers(letter) { ' ' } else { letter }).collect();
    let name: String = words.trim().chars().take(NAME_CHARS).collect();
    (!name.is_empty()).then_some(name)
}

/// Whether a letter does something to the text around it instead of standing in it: control characters, and those that turn
/// the direction of writing, with which a name may look like another one.
fn steers(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A base URL without the slash at its end.
fn checked(base: &str) -> Option<String> {
    let rest = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://"))?;
    let plain = |letter: char| letter.is_ascii_graphic() && !"?#\"<>\\".contains(letter);
    (!rest.is_empty() && !rest.starts_with('/') && rest.chars().all(plain))
        .then(|| base.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_steers_nothing() {
        for (given, kept) in [
            ("Phone", Some("Phone")),
            (" a\nb\u{1b}c ", Some("a b c")),
            ("x\u{202e}gpj.y\u{2066}z", Some("x gpj.y z")),
            ("\u{202a}\u{2069}\t", None),
        ] {
            assert_eq!(name(given).as_deref(), kept);
        }
    }
}
