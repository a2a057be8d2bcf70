//! Bearer tokens of every kind, and what happens to who guesses.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use signalbox_protocol::app::{ConnectionRole, ListenerAuth, WsAuth};
use signalbox_rpc::Role;
use signalbox_server::access::{Access, Caller, Clock, Keys, KeysError, Refused};

use crate::stage::{Stage, chmod, here, ip, reason, within};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const TOKEN: &str = "a-token-that-is-long-enough-to-be-one";

async fn enters(access: &Access, token: &str) -> Result<Caller, Refused> {
    within(access.authenticate(Some(token), here())).await
}

fn tokens(path: &Path) -> Result<Keys, KeysError> {
    let tokens_file = Some(path.display().to_string());
    Keys::load(&ListenerAuth { tokens_file, ..ListenerAuth::default() })
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn the_homes_token_is_made_once_private_and_makes_an_owner() {
    let stage = Stage::new().await;
    let path = stage.home().join("token");
    assert!(!path.exists(), "only who needs it makes it");
    let token = stage.access.home_token().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), token);
    assert_eq!(stage.access.home_token().unwrap(), token);
    let caller = enters(&stage.access, &format!(" {token} ")).await.unwrap();
    assert_eq!((caller.role, caller.device), (Role::Owner, None));
    assert_eq!(enters(&stage.access, &token[..token.len() - 1]).await.unwrap_err().status, 401);

    let stage = stage.restarted().await;
    assert_eq!(enters(&stage.access, &token).await.unwrap().role, Role::Owner);
}

#[tokio::test]
async fn a_home_may_have_a_token_of_somebodys_own_but_no_weak_or_public_one() {
    let stage = Stage::new().await;
    let path = stage.home().join("token");
    let put = |content: &str, mode| {
        std::fs::write(&path, content).unwrap();
        chmod(&path, mode);
    };
    put("short", 0o600);
    let error = stage.access.home_token().unwrap_err().to_string();
    assert!(error.contains("at least 32") && !error.contains("short\""), "{error}");
    put(TOKEN, 0o640);
    let error = stage.access.home_token().unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    assert!(enters(&stage.access, TOKEN).await.is_err());
    chmod(&path, 0o600);
    assert_eq!(stage.access.home_token().unwrap(), TOKEN);
    assert_eq!(enters(&stage.access, TOKEN).await.unwrap().role, Role::Owner);
}

#[tokio::test]
async fn without_a_credential_only_an_open_listener_is_entered_and_from_this_machine_alone() {
    let stage = Stage::new().await;
    for nothing in [None, Some(""), Some("  ")] {
        let refused = stage.access.authenticate(nothing, ip("127.0.0.1")).await.unwrap_err();
        assert_eq!((refused.status, refused.reason, refused.needs), (401, "unauthorized", "bearer"));
    }
    let open = stage.with(Keys::open_to_this_machine(Role::Operator));
    for local in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        let caller = open.authenticate(None, ip(local)).await.unwrap();
        assert_eq!((caller.role, &*caller.name), (Role::Operator, "local"));
    }
    for remote in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "0.0.0.0"] {
        assert_eq!(open.authenticate(None, ip(remote)).await.unwrap_err().status, 401);
    }
    // A wrong credential is not as good as none.
    assert_eq!(open.authenticate(Some("nope"), ip("127.0.0.1")).await.unwrap_err().status, 401);
    // What opens one listener opens no other.
    assert!(stage.access.authenticate(None, ip("127.0.0.1")).await.is_err());
}

#[tokio::test]
async fn static_tokens_come_from_a_file() {
    let stage = Stage::new().await;
    let other = "another-token-that-is-long-enough-too";
    let path = stage.private_file(
        "tokens.toml",
        &format!(
            "# machines\n[[token]]\nname = \"ci\"\nrole = \"observer\"\ntoken = \"{TOKEN}\"\n\
             [[token]]\nname = \"bot\"\nsha256 = \"{}\"\n",
            sha256(other)
        ),
    );
    let access = stage.with(tokens(&path).unwrap());
    let ci = enters(&access, TOKEN).await.unwrap();
    assert_eq!((ci.role, &*ci.name, ci.device), (Role::Observer, "ci", None));
    let bot = enters(&access, other).await.unwrap();
    assert_eq!((bot.role, &*bot.name), (Role::Operator, "bot"));
    assert_eq!(enters(&access, &sha256(other)).await.unwrap_err().status, 401);
    assert_eq!(enters(&stage.access, TOKEN).await.unwrap_err().status, 401, "another listener");
    // Devices and the home's token open it as well.
    let device = stage.paired(Role::Operator).await;
    enters(&access, &device.bearer).await.unwrap();
    enters(&access, &stage.access.home_token().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_file_of_tokens_that_is_not_as_it_should_be_is_refused_without_being_quoted() {
    let stage = Stage::new().await;
    let entry = |more: &str| format!("[[token]]\nname = \"ci\"\n{more}\n");
    for (content, said) in [
        (String::new(), "no [[token]]"),
        (entry(""), "either token or sha256"),
        (entry(&format!("token = \"{TOKEN}\"\nsha256 = \"{}\"", sha256(TOKEN))), "either token or sha256"),
        (entry("token = \"too-short-secret\""), "at least 32"),
        (entry("token = \"a token with spaces in it that is long\""), "one word"),
        (entry("sha256 = \"abc\""), "64 hexadecimal digits"),
        (entry(&format!("token = \"{TOKEN}\"\nrole = \"admin\"")), "line 4"),
        (entry(&format!("token = \"{TOKEN}\"\nrolle = \"owner\"")), "rolle"),
        (entry(&format!("token = \"{TOKEN}\"")).repeat(2), "twice"),
        (format!("token = \"{TOKEN}"), "line 1"),
        (format!("[[token]]\nname = \" \"\ntoken = \"{TOKEN}\"\n"), "no name"),
    ] {
        let path = stage.private_file("tokens.toml", &content);
        let error = tokens(&path).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("tokens.toml"), "{content}: {error}");
        assert!(!error.contains(TOKEN) && !error.contains("too-short-secret"), "{error}");
    }
    let path = stage.private_file("tokens.toml", &entry(&format!("token = \"{TOKEN}\"")));
    tokens(&path).unwrap();
    for mode in [0o604, 0o640, 0o622] {
        chmod(&path, mode);
        assert!(matches!(tokens(&path), Err(KeysError::Open { .. })), "{mode:o}");
    }
    chmod(&path, 0o400);
    tokens(&path).unwrap();
    assert!(matches!(tokens(Path::new("/no/such/file")), Err(KeysError::Read { .. })));
    assert!(matches!(tokens(stage.folder.path()), Err(KeysError::Read { .. })));
    let path = stage.private_file("tokens.toml", &"#".repeat((1 << 20) + 1));
    assert!(matches!(tokens(&path), Err(KeysError::TooLarge { .. })));
}

#[tokio::test]
async fn a_capability_token_is_a_file_or_a_hash() {
    let stage = Stage::new().await;
    let load = |token_file: Option<&Path>, token_sha256: Option<&str>| {
        let token_file = token_file.map(|path| path.display().to_string());
        let ws_auth = WsAuth::CapabilityToken { token_file, token_sha256: token_sha256.map(str::to_owned) };
        Keys::load(&ListenerAuth { ws_auth: Some(ws_auth), ..ListenerAuth::default() })
    };
    let path = stage.private_file("ws-token", &format!("{TOKEN}\n"));
    for keys in [
        load(Some(&path), None),
        load(None, Some(&sha256(TOKEN))),
        load(None, Some(&sha256(TOKEN).to_uppercase())),
    ] {
        let access = stage.with(keys.unwrap());
        assert_eq!(enters(&access, TOKEN).await.unwrap().role, Role::Operator);
        assert_eq!(enters(&access, "nope").await.unwrap_err().status, 401);
    }
    assert!(matches!(load(None, None), Err(KeysError::Option(_))));
    assert!(matches!(load(Some(&path), Some(&sha256(TOKEN))), Err(KeysError::Option(_))));
    assert!(matches!(load(None, Some("abc")), Err(KeysError::Option(_))));
    let short = stage.private_file("ws-token", "hunter2");
    assert!(matches!(load(Some(&short), None), Err(KeysError::Content { .. })));
}

/// A listener for signed tokens.
fn signed(stage: &Stage, issuer: Option<&str>, audience: Option<&str>) -> Access {
    let path = stage.private_file("secret", &format!("{SECRET}\n"));
    let ws_auth = WsAuth::SignedBearerToken {
        shared_secret_file: path.display().to_string(),
        issuer: issuer.map(str::to_owned),
        audience: audience.map(str::to_owned),
        max_clock_skew_seconds: None,
    };
    stage.with(Keys::load(&ListenerAuth { ws_auth: Some(ws_auth), ..ListenerAuth::default() }).unwrap())
}

fn jwt(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes()).unwrap())
        .unwrap()
}

#[tokio::test]
async fn signed_tokens_are_let_in_by_what_they_say() {
    let stage = Stage::new().await;
    let access = signed(&stage, Some("ci.example"), Some("signalbox"));
    let now = stage.hands.now_ms() / 1000;
    let good = json!({ "exp": now + 60, "iss": "ci.example", "aud": "signalbox" });
    let with = |member: &str, value: Value| {
        let mut claims = good.clone();
        claims[member] = value;
        jwt(&claims)
    };
    let caller = enters(&access, &jwt(&good)).await.unwrap();
    assert_eq!((caller.role, &*caller.name), (Role::Operator, "signed token"));
    let caller = enters(&access, &with("sub", json!("build 7"))).await.unwrap();
    assert_eq!(&*caller.name, "build 7");
    for (role, is) in [("observer", Role::Observer), ("operator", Role::Operator), ("owner", Role::Owner)] {
        assert_eq!(enters(&access, &with("role", json!(role))).await.unwrap().role, is);
    }
    enters(&access, &with("aud", json!(["other", "signalbox"]))).await.unwrap();
    // Clocks may differ by half a minute.
    enters(&access, &with("exp", json!(now - 29))).await.unwrap();
    enters(&access, &with("nbf", json!(now + 29))).await.unwrap();
    for (member, value, said) in [
        ("exp", json!(now - 30), "expired"),
        ("exp", json!(null), "exp"),
        ("exp", json!("tomorrow"), "exp"),
        ("nbf", json!(now + 31), "not valid yet"),
        ("iss", json!("evil.example"), "issuer"),
        ("iss", json!(null), "iss"),
        ("aud", json!("other"), "audience"),
        ("aud", json!(null), "aud"),
        ("role", json!("admin"), "role"),
    ] {
        let refused = within(access.authenticate(Some(&with(member, value.clone())), ip("192.0.2.9"))).await;
        let refused = refused.unwrap_err();
        assert!(refused.message.contains(said), "{member} {value}: {}", refused.message);
        stage.hands.pass(Duration::from_secs(0));
    }
    // Without an issuer and an audience in the options, any will do.
    let access = signed(&stage, None, None);
    enters(&access, &jwt(&good)).await.unwrap();
    enters(&access, &jwt(&json!({ "exp": now + 60 }))).await.unwrap();
    // And it opens no listener that has not been told the secret.
    assert_eq!(enters(&stage.access, &jwt(&good)).await.unwrap_err().status, 401);
}

#[tokio::test]
async fn a_signature_is_of_the_secret_and_of_nothing_else() {
    let stage = Stage::new().await;
    let access = signed(&stage, None, None);
    let claims = json!({ "exp": stage.hands.now_ms() / 1000 + 60 });
    let good = jwt(&claims);
    enters(&access, &good).await.unwrap();
    let parts: Vec<&str> = good.split('.').collect();
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let hs384 = "eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCJ9";
    let other = EncodingKey::from_secret(&[b'x'; 32]).unwrap();
    let forged = encode(&Header::new(Algorithm::HS256), &claims, &other).unwrap();
    for wrong in [
        format!("{}.{}.", parts[0], parts[1]),
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{hs384}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], &parts[2][1..]),
        format!("{}.eyJleHAiOjk5OTk5OTk5OTl9.{}", parts[0], parts[2]),
        forged,
    ] {
        let refused = within(access.authenticate(Some(&wrong), ip("192.0.2.9"))).await.unwrap_err();
        assert_eq!(refused.status, 401, "{wrong}");
        assert!(!refused.message.contains(parts[1]), "{}", refused.message);
    }
    let short = stage.private_file("short", "0123456789abcdef0123456789abcde");
    let ws_auth = WsAuth::SignedBearerToken {
        shared_secret_file: short.display().to_string(),
        issuer: None,
        audience: None,
        max_clock_skew_seconds: Some(0),
    };
    let error = Keys::load(&ListenerAuth { ws_auth: Some(ws_auth), ..ListenerAuth::default() }).unwrap_err();
    assert!(error.to_string().contains("at least 32 bytes"), "{error}");
}

#[tokio::test]
async fn who_came_by_a_signed_token_leaves_when_it_expires() {
    let stage = Stage::new().await;
    let access = signed(&stage, None, None);
    let token = jwt(&json!({ "exp": stage.hands.now_ms() / 1000 - 29 }));
    let caller = enters(&access, &token).await.unwrap();
    let waits = tokio::spawn(async move { caller.ended().await });
    stage.hands.set_forward(Duration::from_secs(1));
    assert_eq!(within(waits).await.unwrap(), "the token has expired");
}

#[tokio::test]
async fn the_usual_clock_is_everybodys() {
    let clock = Clock::default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    assert!(now.abs_diff(u128::from(clock.wall_ms().unsigned_abs())) < 60_000);
    assert!(clock.steady() <= clock.steady());
}

#[tokio::test]
async fn who_guesses_is_locked_out_and_a_paired_neighbour_is_not() {
    let stage = Stage::new().await;
    let path = stage.private_file("tokens.toml", &format!("[[token]]\nname = \"ci\"\ntoken = \"{TOKEN}\"\n"));
    let access = stage.with(tokens(&path).unwrap());
    let device = stage.paired(Role::Operator).await;
    let code = stage.code(Role::Operator);
    let mut last = None;
    for _ in 0..10 {
        last = enters(&access, "guess").await.err();
    }
    let locked = last.unwrap();
    assert_eq!(
        (locked.status, locked.reason, locked.retry_after_seconds()),
        (429, "too_many_attempts", Some(60))
    );
    assert_eq!(locked.body()["error"]["retryAfterMs"], 60_000);
    // From there nothing that could be guessed is even looked at, right or wrong.
    assert_eq!(enters(&access, TOKEN).await.unwrap_err().status, 429);
    let pairing = stage.tries(&code, here()).await;
    assert_eq!((pairing.status, pairing.retry_after), (429, Some(60)));
    assert_eq!(stage.access.redeem(Some("guess"), here()).await.unwrap_err().status, 429);
    // What is random and ours is let in, and so is everybody elsewhere.
    enters(&access, &device.bearer).await.unwrap();
    access.authenticate(Some(TOKEN), ip("192.0.2.2")).await.unwrap();
    // What is refused unseen is not noted again.
    assert_eq!((stage.audited("refused").len(), stage.audited("locked_out").len()), (10, 1));
    stage.hands.pass(Duration::from_secs(60));
    enters(&access, TOKEN).await.unwrap();
    assert_eq!(stage.tries(&code, here()).await.status, 200);
}

#[tokio::test]
async fn pairing_and_tickets_are_asked_for_at_a_bounded_rate() {
    let stage = Stage::new().await;
    let device = stage.paired(Role::Operator).await;
    let mut answer = within(stage.access.ws_ticket(Some(&device.bearer), here())).await;
    for _ in 0..30 {
        answer = within(stage.access.ws_ticket(Some(&device.bearer), here())).await;
    }
    assert_eq!((answer.status, reason(&answer), answer.retry_after), (429, "too_many_attempts", Some(1)));
    assert_eq!(stage.tries("x", here()).await.status, 429);
    assert_eq!(within(stage.access.ws_ticket(Some(&device.bearer), ip("192.0.2.2"))).await.status, 200);
    stage.hands.pass(Duration::from_secs(1));
    assert_eq!(within(stage.access.ws_ticket(Some(&device.bearer), here())).await.status, 200);
}

#[tokio::test]
async fn a_refusal_is_the_same_error_over_json_rpc() {
    let stage = Stage::new().await;
    let refused = enters(&stage.access, "nope").await.unwrap_err().rpc();
    assert_eq!(
        (refused.code, refused.reason, &refused.data["needs"]),
        (-32020, "unauthorized", &json!("bearer"))
    );
    assert_eq!(ConnectionRole::Owner, serde_json::from_value(json!("owner")).unwrap());
}
