//! Half-open sockets: who answers no ping is gone, who does stays however long it says nothing else.

use std::time::Duration;

use serde_json::json;
use signalbox_rpc::KeepAlive;
use signalbox_server::http::HttpLimits;

use crate::ops::open_with;
use crate::stage::{Set, Stage, within};
use crate::websocket::{PING, PONG, Socket, frame};

async fn stage() -> Stage {
    let short = Duration::from_millis(200);
    let keep_alive = KeepAlive { interval: short, pings: 2 };
    let limits = HttpLimits { heartbeat: short, keep_alive, ..HttpLimits::default() };
    Stage::with(Set { limits, ..Set::default() }).await
}

#[tokio::test]
async fn a_socket_on_which_no_ping_is_answered_ends() {
    let stage = stage().await;
    let mut rpc = Socket::open(&stage, "/", "").await;
    rpc.initializes().await;
    let mut ops = open_with(&stage, "").await;
    for (kind, socket) in [("websocket", &mut rpc), ("ops", &mut ops)] {
        let mut pings = 0;
        // It reads, so that its end is not that of a client that does not take anything.
        while let Some((opcode, _)) = socket.next().await {
            pings += usize::from(opcode == PING);
        }
        assert!(pings >= 2, "{kind}: {pings} pings");
        stage.falls_to(&format!("signalbox_connections{{transport=\"{kind}\"}}"), 0).await;
    }
}

#[tokio::test]
async fn a_socket_on_which_pings_are_answered_stays() {
    let stage = stage().await;
    let mut rpc = Socket::open(&stage, "/", "").await;
    rpc.initializes().await;
    let mut ops = open_with(&stage, "").await;
    let stays = async |socket: &mut Socket| {
        for _ in 0..8 {
            let (opcode, payload) = socket.next().await.expect("it is still open");
            assert_eq!(opcode, PING);
            socket.client.writes(frame(PONG, true, true, &payload)).await;
        }
    };
    within(async { tokio::join!(stays(&mut rpc), stays(&mut ops)) }).await;
    assert_eq!(rpc.calls(1, "server/health", json!({})).await["result"]["status"], "ok");
    ops.sends(json!({"req": "sessions"})).await;
    while ops.next().await.expect("it is still open").0 == PING {}
}
