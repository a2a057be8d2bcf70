//! Why somebody was not let in, as HTTP says it, and as JSON-RPC does.

use std::time::Duration;

use serde_json::{Value, json};
use signalbox_rpc::{RpcError, UNAUTHORIZED};

/// Somebody was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The HTTP status: 400, 401, 403, 409, 429 or 503.
    pub status: u16,
    /// Stable word for programs: `unauthorized`, `too_many_attempts`, …
    pub reason: &'static str,
    /// What was wrong and what to do, for people. Holds no secret.
    pub message: String,
    /// What would be needed, for programs: `bearer`, `pairing_code`, `ticket`, or a role.
    pub needs: &'static str,
    /// When to try again, if that may help (`Retry-After`).
    pub retry_after: Option<Duration>,
}

impl Refused {
    /// 401: the credential is missing or not worth anything.
    #[must_use]
    pub fn unauthorized(needs: &'static str, message: impl Into<String>) -> Self {
        Self { status: 401, reason: "unauthorized", message: message.into(), needs, retry_after: None }
    }

    /// 429: too many attempts; nothing was looked at.
    #[must_use]
    pub fn too_many(needs: &'static str, retry_after: Duration) -> Self {
        let seconds = whole_seconds(retry_after);
        let message = format!("too many attempts from this address; try again in {seconds} s");
        let retry_after = Some(Duration::from_secs(seconds));
        Self { status: 429, reason: "too_many_attempts", message, needs, retry_after }
    }

    /// The value of `Retry-After`, whole seconds.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(whole_seconds)
    }

    /// `WWW-Authenticate` belongs to every 401.
    #[must_use]
    pub fn challenge(&self) -> Option<&'static str> {
        (self.status == 401).then_some(r#"Bearer realm="signalbox""#)
    }

    /// The body of the HTTP answer: `{"error": {"reason", "message", "needs", "retryAfterMs"?}}`.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = json!({ "reason": self.reason, "message": self.message, "needs": self.needs });
        if let Some(seconds) = self.retry_after_seconds() {
            error["retryAfterMs"] = json!(seconds.saturating_mul(1000));
        }
        json!({ "error": error })
    }

    /// The same as an error of JSON-RPC.
    #[must_use]
    pub fn rpc(&self) -> RpcError {
        let error = RpcError::new(UNAUTHORIZED, self.reason, self.message.clone()).with("needs", self.needs);
        match self.retry_after_seconds() {
            Some(seconds) => error.retryable().with("retryAfterMs", seconds.saturating_mul(1000)),
            None => error,
        }
    }
}

/// What a request about access is answered over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body. May hold a secret: never to be logged, and to be sent with `Cache-Control: no-store`.
    pub body: Value,
    /// The value of `Retry-After`, whole seconds.
    pub retry_after: Option<u64>,
    /// The value of `WWW-Authenticate`.
    pub challenge: Option<&'static str>,
}

impl Answer {
    /// 200.
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body, retry_after: None, challenge: None }
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        Self {
            status: refused.status,
            body: refused.body(),
            retry_after: refused.retry_after_seconds(),
            challenge: refused.challenge(),
        }
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
