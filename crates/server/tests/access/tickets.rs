//! Tickets: one socket each, within five minutes, as whoever asked.

use std::time::Duration;

use signalbox_rpc::Role;
use signalbox_server::access::{Access, Answer, Keys};

use crate::stage::{Paired, Stage, here, ip, reason, within};

async fn ticket(access: &Access, bearer: &str) -> String {
    let answer = within(access.ws_ticket(Some(bearer), here())).await;
    assert_eq!((answer.status, &answer.body["expires_in"]), (200, &300.into()), "{answer:?}");
    answer.body["ticket"].as_str().unwrap().to_owned()
}

async fn refused(access: &Access, bearer: Option<&str>) -> Answer {
    let answer = within(access.ws_ticket(bearer, here())).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    answer
}

#[tokio::test]
async fn s120_s121_a_ticket_opens_one_socket() {
    let stage = Stage::new().await;
    let device = stage.paired(Role::Operator).await;
    assert_eq!(reason(&refused(&stage.access, Some("nope")).await), "unauthorized");
    assert_eq!(refused(&stage.access, None).await.body["error"]["needs"], "bearer");
    let ticket = ticket(&stage.access, &device.bearer).await;
    assert_eq!(stage.devices()[0].connections, 0, "who has a ticket is not here yet");

    let wrong = stage.access.redeem(Some("nope"), here()).await.unwrap_err();
    assert_eq!((wrong.status, wrong.needs), (401, "ticket"));
    assert_eq!(stage.access.redeem(None, here()).await.unwrap_err().status, 401);
    let caller = stage.access.redeem(Some(&ticket), here()).await.unwrap();
    assert_eq!((caller.role, caller.device.unwrap().to_string()), (Role::Operator, device.id.clone()));
    assert_eq!(stage.devices()[0].connections, 1);
    assert_eq!(stage.access.redeem(Some(&ticket), here()).await.unwrap_err().status, 401);
    stage.revokes(&device.id).await.unwrap();
    assert_eq!(within(caller.ended()).await, "the device was revoked");
}

#[tokio::test]
async fn a_ticket_is_worth_nothing_after_five_minutes() {
    let stage = Stage::new().await;
    let device = stage.paired(Role::Operator).await;
    let (young, old) =
        (ticket(&stage.access, &device.bearer).await, ticket(&stage.access, &device.bearer).await);
    stage.hands.pass(Duration::from_secs(299));
    stage.access.redeem(Some(&young), here()).await.unwrap();
    stage.hands.set_back(Duration::from_secs(3600));
    stage.hands.pass(Duration::from_secs(1));
    assert_eq!(stage.access.redeem(Some(&old), here()).await.unwrap_err().status, 401);
}

#[tokio::test]
async fn s123_a_ticket_dies_with_its_device() {
    let stage = Stage::new().await;
    let Paired { id, bearer } = stage.paired(Role::Operator).await;
    let ticket = ticket(&stage.access, &bearer).await;
    stage.revokes(&id).await.unwrap();
    assert_eq!(stage.access.redeem(Some(&ticket), here()).await.unwrap_err().status, 401);
    refused(&stage.access, Some(&bearer)).await;
}

#[tokio::test]
async fn s126_a_secret_in_the_wrong_place_is_refused_and_not_used_up() {
    let stage = Stage::new().await;
    let device = stage.paired(Role::Operator).await;
    let (code, ticket) = (stage.code(Role::Operator), ticket(&stage.access, &device.bearer).await);
    let said = refused(&stage.access, Some(&code)).await;
    assert!(said.body["error"]["message"].as_str().unwrap().contains("pairing code"));
    refused(&stage.access, Some(&ticket)).await;
    for wrong in [&device.bearer, &code] {
        assert_eq!(stage.access.redeem(Some(wrong), here()).await.unwrap_err().status, 401);
    }
    for wrong in [&device.bearer, &ticket] {
        assert_eq!(stage.tries(wrong, here()).await.status, 401);
    }
    assert_eq!(stage.tries(&code, here()).await.status, 200);
    stage.access.redeem(Some(&ticket), here()).await.unwrap();
    stage.access.authenticate(Some(&device.bearer), here()).await.unwrap();
}

#[tokio::test]
async fn who_has_no_device_gets_tickets_too() {
    let stage = Stage::new().await;
    let local = stage.with(Keys::open_to_this_machine(Role::Operator));
    let answer = within(local.ws_ticket(None, ip("127.0.0.1"))).await;
    assert_eq!(answer.status, 200);
    let caller = local.redeem(answer.body["ticket"].as_str(), ip("127.0.0.1")).await.unwrap();
    assert_eq!((caller.role, caller.device), (Role::Operator, None));
    let owner = ticket(&stage.access, &stage.access.home_token().unwrap()).await;
    assert_eq!(stage.access.redeem(Some(&owner), here()).await.unwrap().role, Role::Owner);
}

#[tokio::test]
async fn a_holder_has_so_many_tickets_and_its_oldest_goes() {
    let stage = Stage::new().await;
    let (device, other) = (stage.paired(Role::Operator).await, stage.paired(Role::Operator).await);
    let others = ticket(&stage.access, &other.bearer).await;
    let oldest = ticket(&stage.access, &device.bearer).await;
    let second = ticket(&stage.access, &device.bearer).await;
    for _ in 0..31 {
        stage.hands.pass(Duration::from_secs(1));
        ticket(&stage.access, &device.bearer).await;
    }
    assert!(stage.access.redeem(Some(&oldest), here()).await.is_err());
    stage.access.redeem(Some(&second), here()).await.unwrap();
    stage.access.redeem(Some(&others), here()).await.unwrap();
}
