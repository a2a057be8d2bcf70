//! From a code to a device, and what becomes of it.

use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};
use signalbox_app_server::{ApprovalAnswered, DoorCaller, Doors};
use signalbox_facts::{DeviceId, DeviceRole, DeviceRow};
use signalbox_protocol::app::{ApprovalDecision, ConnectionRole, PairingCreateParams};
use signalbox_rpc::{ConnectionId, Role};
use signalbox_server::access::AccessDoors;
use signalbox_store::FailPoint;

use crate::stage::{DAY, HOUR, Stage, here, ip, reason, within};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn s119_a_code_makes_one_device_and_is_used_up() {
    let stage = Stage::new().await;
    let code = stage.code(Role::Operator);
    let wrong = stage.tries("sbx_pair_nope", here()).await;
    assert_eq!((wrong.status, reason(&wrong)), (401, "unauthorized"));
    assert_eq!(wrong.body["error"]["needs"], "pairing_code");
    assert_eq!(wrong.challenge, Some(r#"Bearer realm="signalbox""#));

    let made = stage.tries(&code, here()).await;
    assert_eq!(made.status, 200);
    let bearer = made.body["bearer"].as_str().unwrap();
    let caller = stage.access.authenticate(Some(bearer), here()).await.unwrap();
    assert_eq!((caller.role, &*caller.name), (Role::Operator, "Phone"));
    assert_eq!(caller.device.unwrap().to_string(), made.body["device_id"]);
    assert_eq!(made.body["expires_in"], 90 * 24 * 60 * 60);

    let again = stage.tries(&code, here()).await;
    assert_eq!((again.status, reason(&again)), (401, "unauthorized"));
    assert_eq!(stage.devices().len(), 1);
    assert_eq!(stage.audited("pairing_created")[0]["who"], "unix");
    let paired = &stage.audited("paired")[0];
    assert_eq!((&paired["who"], &paired["role"]), (&json!("Phone"), &json!("operator")));
    assert_eq!(paired["device"], made.body["device_id"]);
    assert_eq!(stage.audited("refused").len(), 2);
}

#[tokio::test]
async fn a_device_is_called_as_its_owner_says_else_as_it_says_itself() {
    let stage = Stage::new().await;
    for (given, own, name) in [
        (Some("  Kitchen\ntablet "), json!("Mallory"), "Kitchen tablet"),
        (None, json!("My phone"), "My phone"),
        (None, json!("   "), "Device"),
        (None, json!(null), "Device"),
        (Some(""), json!("\u{1b}[31mred"), "[31mred"),
    ] {
        let device_name = given.map(str::to_owned);
        let code = stage.offers(PairingCreateParams { device_name, ..Default::default() }).unwrap().code;
        let body = json!({ "token": code, "device_name": own, "unknown": 1 }).to_string();
        let made = within(stage.access.pair(body.as_bytes(), here())).await;
        assert_eq!(made.body["name"], name);
    }
    let code = stage.code(Role::Observer);
    let long = json!({ "token": code, "device_name": "é".repeat(500) }).to_string();
    let made = within(stage.access.pair(long.as_bytes(), here())).await;
    assert_eq!(made.body["name"].as_str().unwrap().chars().count(), 100);
    assert_eq!(made.body["role"], "observer");
}

#[tokio::test]
async fn a_url_has_the_code_in_its_fragment_and_the_newest_open_listener_in_front() {
    let stage = Stage::new().await;
    let offer = |base: Option<&str>| {
        stage.offers(PairingCreateParams { base_url: base.map(str::to_owned), ..Default::default() })
    };
    assert_eq!(offer(None).unwrap().url, None, "nobody listens");
    let first = stage.access.listening("http://127.0.0.1:4517/");
    let second = stage.access.listening("https://box.example");
    let made = offer(None).unwrap();
    assert_eq!(made.url.unwrap(), format!("https://box.example/pair#token={}", made.code));
    assert_eq!(made.role, ConnectionRole::Operator);
    assert_eq!(made.expires_at, stage.hands.now_ms() / 1000 + 15 * 60);
    drop(second);
    assert!(offer(None).unwrap().url.unwrap().starts_with("http://127.0.0.1:4517/pair#token="));
    drop(first);
    let made = offer(Some("https://tunnel.example/box/")).unwrap();
    assert!(made.url.unwrap().starts_with("https://tunnel.example/box/pair#token=sbx_pair_"));
    for wrong in
        ["", "box.example", "javascript:alert(1)", "http://", "http://x/?q", "http://x/#f", "http://x y"]
    {
        let error = offer(Some(wrong)).unwrap_err();
        assert_eq!(
            (error.reason, error.data["path"].as_str()),
            ("invalid_params", Some("baseUrl")),
            "{wrong}"
        );
    }
    assert_eq!(stage.audited("listener_opened").len(), 2);
    assert_eq!(stage.audited("listener_closed").len(), 2);
}

#[tokio::test]
async fn a_code_is_worth_nothing_after_fifteen_minutes_whichever_clock_says_so() {
    let stage = Stage::new().await;
    let (old, jumped) = (stage.code(Role::Operator), stage.code(Role::Operator));
    stage.hands.pass(15 * MINUTE - Duration::from_secs(1));
    assert_eq!(stage.tries(&stage.code(Role::Operator), here()).await.status, 200);
    // Set back, the wall clock makes no code younger.
    stage.hands.set_back(HOUR);
    stage.hands.pass(Duration::from_secs(1));
    assert_eq!(stage.tries(&old, here()).await.status, 401);
    let ahead = stage.code(Role::Operator);
    stage.hands.set_forward(2 * HOUR);
    assert_eq!(stage.tries(&ahead, here()).await.status, 401);
    assert_eq!(stage.tries(&jumped, here()).await.status, 401);
}

#[tokio::test]
async fn only_so_many_codes_wait_and_old_ones_make_room() {
    let stage = Stage::new().await;
    for _ in 0..64 {
        stage.code(Role::Operator);
    }
    let error = stage.offers(PairingCreateParams::default()).unwrap_err();
    assert_eq!((error.reason, error.retryable), ("server_overloaded", true));
    stage.hands.pass(15 * MINUTE);
    stage.code(Role::Operator);
}

#[tokio::test]
async fn a_body_that_is_none_consumes_nothing() {
    let stage = Stage::new().await;
    let code = stage.code(Role::Operator);
    let large = json!({ "token": code, "device_name": "x".repeat(20_000) }).to_string();
    for (body, status) in [("", 400), ("[]", 400), ("{}", 400), (r#"{"token":7}"#, 400), (&large, 413)] {
        assert_eq!(within(stage.access.pair(body.as_bytes(), here())).await.status, status, "{body:.40}");
    }
    assert_eq!(stage.tries(&code, here()).await.status, 200);
}

#[tokio::test]
async fn s125_what_cannot_be_stored_consumes_nothing() {
    let stage = Stage::new().await;
    let code = stage.code(Role::Operator);
    // Before the row, and after it, when the disk is asked.
    for point in [FailPoint::BeforeBegin, FailPoint::BeforeFlush] {
        stage.fail.fail(point, 0, 1);
        let failed = stage.tries(&code, here()).await;
        assert_eq!((failed.status, reason(&failed)), (500, "storage_failed"));
        assert_eq!(failed.retry_after, Some(1));
        assert!(stage.devices().is_empty());
        assert!(stage.store.reader.devices().await.unwrap().is_empty(), "nothing is left behind");
    }
    let made = stage.tries(&code, here()).await;
    assert_eq!(made.status, 200);
    assert_eq!(stage.tries(&code, here()).await.status, 401);

    let bearer = made.body["bearer"].as_str().unwrap();
    let device = made.body["device_id"].as_str().unwrap();
    stage.fail.fail(FailPoint::BeforeBegin, 0, 1);
    let error = stage.revokes(device).await.unwrap_err();
    assert_eq!((error.reason, error.retryable), ("storage_failed", true));
    let caller = stage.access.authenticate(Some(bearer), here()).await.unwrap();
    assert_eq!(stage.devices().len(), 1);
    assert_eq!(stage.audited("revoked").len(), 0);
    assert_eq!(stage.revokes(device).await.unwrap().closed_connections, 1);
    assert_eq!(within(caller.ended()).await, "the device was revoked");
}

#[tokio::test]
async fn two_who_have_the_same_code_become_one_device() {
    let stage = Stage::new().await;
    let code = stage.code(Role::Operator);
    let held = stage.fail.hold(FailPoint::BeforeBegin);
    let (access, body) = (stage.access.clone(), json!({ "token": code }).to_string());
    let first = tokio::spawn(async move { access.pair(body.as_bytes(), here()).await });
    within(held.reached()).await;
    let second = stage.tries(&code, ip("192.0.2.2")).await;
    assert_eq!((second.status, reason(&second), second.retry_after), (409, "pairing_in_progress", Some(1)));
    drop(held);
    assert_eq!(within(first).await.unwrap().status, 200);
    assert_eq!(stage.tries(&code, ip("192.0.2.2")).await.status, 401);
    assert_eq!(stage.devices().len(), 1);
}

#[tokio::test]
async fn a_client_that_goes_while_its_device_is_stored_leaves_the_code_used() {
    let stage = Stage::new().await;
    let code = stage.code(Role::Operator);
    let held = stage.fail.hold(FailPoint::BeforeBegin);
    let (access, body) = (stage.access.clone(), json!({ "token": code }).to_string());
    let gone = tokio::spawn(async move { access.pair(body.as_bytes(), here()).await });
    within(held.reached()).await;
    gone.abort();
    assert!(within(gone).await.unwrap_err().is_cancelled());
    drop(held);
    within(stage.access.finish()).await;
    assert_eq!(stage.devices().len(), 1);
    assert_eq!(stage.tries(&code, here()).await.status, 401);
}

#[tokio::test]
async fn s124_devices_survive_a_restart_and_codes_do_not() {
    let stage = Stage::new().await;
    let code = stage.code(Role::Operator);
    let device = stage.paired(Role::Observer).await;
    let before = stage.devices();
    let stage = stage.restarted().await;
    let caller = stage.access.authenticate(Some(&device.bearer), here()).await.unwrap();
    assert_eq!((caller.role, &*caller.name), (Role::Observer, "Phone"));
    assert_eq!(before[0].id, stage.devices()[0].id);
    assert_eq!(stage.tries(&code, here()).await.status, 401);
}

#[tokio::test]
async fn a_device_is_renewed_by_use_and_written_at_most_once_an_hour() {
    let stage = Stage::new().await;
    let device = stage.paired(Role::Operator).await;
    let uses = async || stage.access.authenticate(Some(&device.bearer), here()).await;
    let written = async || {
        // The write happens behind the answer; a read after a flush sees it.
        loop {
            let row = stage.store.reader.devices().await.unwrap().remove(0);
            let shown = stage.devices().remove(0);
            if row.last_seen_ms.map(|at| at / 1000) == shown.last_seen_at && shown.last_seen_at.is_some() {
                return row;
            }
            tokio::task::yield_now().await;
        }
    };
    let first_ms = stage.hands.now_ms();
    uses().await.unwrap();
    let row = within(written()).await;
    assert_eq!(row.last_seen_ms, Some(first_ms));
    // Whoever comes again within the hour is let in by what is in memory.
    let commits = stage.store.figures().flushes;
    stage.hands.pass(HOUR - Duration::from_secs(1));
    uses().await.unwrap();
    assert_eq!(stage.store.figures().flushes, commits);
    // Used every two months it lives for ever; then not at all for three.
    for _ in 0..4 {
        stage.hands.pass(60 * DAY);
        uses().await.unwrap();
        let seen = stage.hands.now_ms();
        while within(written()).await.last_seen_ms != Some(seen) {
            tokio::task::yield_now().await;
        }
    }
    let expires = stage.devices()[0].expires_at;
    assert_eq!(expires, (stage.hands.now_ms() + 90 * DAY.as_millis() as i64) / 1000);
    stage.hands.pass(90 * DAY);
    let refused = uses().await.unwrap_err();
    assert_eq!((refused.status, refused.reason), (401, "unauthorized"));
    assert!(refused.message.contains("expired; pair it again"), "{}", refused.message);
    assert!(stage.devices()[0].expired, "it is listed until it is revoked");
    let stage = stage.restarted().await;
    assert!(stage.access.authenticate(Some(&device.bearer), here()).await.is_err());
}

#[tokio::test]
async fn a_use_that_cannot_be_written_lets_the_device_in_all_the_same() {
    let stage = Stage::new().await;
    let device = stage.paired(Role::Operator).await;
    stage.fail.fail(FailPoint::BeforeBegin, 0, 1);
    stage.access.authenticate(Some(&device.bearer), here()).await.unwrap();
    within(stage.access.finish()).await;
    assert_eq!(stage.devices()[0].last_seen_at, None);
    stage.access.authenticate(Some(&device.bearer), here()).await.unwrap();
}

#[tokio::test]
async fn a_device_whose_socket_is_open_is_told_when_it_expires() {
    let stage = Stage::new().await;
    let bearer = "sbx_device_of_an_earlier_server";
    let row = DeviceRow {
        id: DeviceId::generate(),
        name: "Old".into(),
        role: DeviceRole::Operator,
        hash: Sha256::digest(bearer.as_bytes()).into(),
        created_at_ms: 0,
        // Near on the clock of the test, so that the next look at it is soon on everybody's.
        expires_at_ms: stage.hands.now_ms() + 50,
        last_seen_ms: Some(stage.hands.now_ms()),
    };
    stage.store.writer.add_device(&row).await.unwrap();
    let stage = stage.restarted().await;
    let caller = stage.access.authenticate(Some(bearer), here()).await.unwrap();
    let waits = tokio::spawn(async move { caller.ended().await });
    stage.hands.set_forward(DAY);
    assert_eq!(within(waits).await.unwrap(), "the device's pairing has expired");
}

#[tokio::test]
async fn a_revoked_device_leaves_at_once_and_others_stay() {
    let stage = Stage::new().await;
    let (lost, kept) = (stage.paired(Role::Operator).await, stage.paired(Role::Operator).await);
    let mut callers = Vec::new();
    for device in [&lost, &lost, &kept] {
        callers.push(stage.access.authenticate(Some(&device.bearer), here()).await.unwrap());
    }
    let connections = |id: &str| stage.devices().into_iter().find(|one| one.id == id).unwrap().connections;
    assert_eq!((connections(&lost.id), connections(&kept.id)), (2, 1));
    let open: Vec<_> = callers.to_vec();
    drop(callers);
    assert_eq!(connections(&lost.id), 2, "a clone is the same connection");

    assert_eq!(stage.revokes(&lost.id).await.unwrap().closed_connections, 2);
    for caller in &open[..2] {
        assert_eq!(within(caller.ended()).await, "the device was revoked");
    }
    let stays = std::pin::pin!(open[2].ended());
    assert!(futures_util::poll!(stays).is_pending());
    let refused = stage.access.authenticate(Some(&lost.bearer), here()).await.unwrap_err();
    assert_eq!(refused.status, 401);
    stage.access.authenticate(Some(&kept.bearer), here()).await.unwrap();

    let error = stage.revokes(&lost.id).await.unwrap_err();
    assert_eq!((error.reason, error.code), ("device_not_found", -32023));
    assert_eq!(stage.revokes("phone").await.unwrap_err().reason, "device_not_found");
    let noted = &stage.audited("revoked")[0];
    assert_eq!((&noted["who"], &noted["device"]), (&json!("unix"), &json!(lost.id)));
    let stage = stage.restarted().await;
    assert_eq!(stage.devices().len(), 1);
}

#[tokio::test]
async fn a_revoked_owner_does_not_come_back_by_a_code_it_made() {
    let stage = Stage::new().await;
    let owner = stage.paired(Role::Owner).await;
    let code = stage.code(Role::Owner);
    stage.revokes(&owner.id).await.unwrap();
    assert_eq!(stage.tries(&code, here()).await.status, 401);

    // Nor by one that is being used at that moment.
    let owner = stage.paired(Role::Owner).await;
    let body = json!({ "token": stage.code(Role::Owner) }).to_string();
    let held = stage.fail.hold(FailPoint::BeforeFlush);
    let access = stage.access.clone();
    let pairing = tokio::spawn(async move { access.pair(body.as_bytes(), here()).await });
    within(held.reached()).await;
    let params = signalbox_protocol::app::DeviceRevokeParams { device_id: owner.id };
    let access = stage.access.clone();
    let revoking = tokio::spawn(async move { access.device_revoke(&crate::stage::owner(), params).await });
    while stage.store.reader.devices().await.unwrap().len() > 1 {
        tokio::task::yield_now().await;
    }
    drop(held);
    within(revoking).await.unwrap().unwrap();
    let answer = within(pairing).await.unwrap();
    let left = stage.devices().len();
    // Whichever was first: either the code was withdrawn in time, or the device is one of after it.
    assert_eq!(left, usize::from(answer.status == 200), "{answer:?}");
}

#[tokio::test]
async fn who_answers_an_approval_is_noted() {
    let stage = Stage::new().await;
    let caller = DoorCaller { connection: ConnectionId(7), role: Role::Operator, name: "Phone (web)".into() };
    let (thread, approval) = ("t".to_owned(), "a".to_owned());
    let answered = ApprovalAnswered { thread, approval, decision: ApprovalDecision::AcceptForSession };
    AccessDoors(stage.access.clone()).approval_answered(caller, answered);
    let noted = &stage.audited("approval_answered")[0];
    let is = json!({
        "at": noted["at"], "event": "approval_answered", "who": "Phone (web)", "role": "operator",
        "thread": "t", "approval": "a", "detail": "acceptForSession",
    });
    assert_eq!(noted, &is);
}
