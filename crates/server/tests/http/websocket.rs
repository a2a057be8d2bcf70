//! WebSockets, frame by frame.

use serde_json::{Value, json};
use signalbox_server::http::ListenOptions;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::client::Client;
use crate::stage::{Set, Stage, owner, within};

/// The header lines of a handshake.
pub(crate) const HANDSHAKE: &str = "host: localhost\r\nupgrade: websocket\r\nconnection: keep-alive, Upgrade\r\n\
     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// A client after its handshake.
pub(crate) struct Socket {
    pub(crate) client: Client<TcpStream>,
}

/// A frame as a client sends it.
pub(crate) fn frame(opcode: u8, last: bool, masked: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![opcode | if last { 0x80 } else { 0 }];
    let mask = if masked { 0x80 } else { 0 };
    match payload.len() {
        short @ 0..126 => frame.push(mask | u8::try_from(short).unwrap()),
        middle @ 126..65_536 => {
            frame.push(mask | 126);
            frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
        }
        long => {
            frame.push(mask | 127);
            frame.extend(u64::try_from(long).unwrap().to_be_bytes());
        }
    }
    if masked {
        let key = [1, 2, 3, 4];
        frame.extend(key);
        frame.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    } else {
        frame.extend(payload);
    }
    frame
}

impl Socket {
    pub(crate) async fn open(stage: &Stage, target: &str, headers: &str) -> Self {
        Self::over(stage.connect().await, target, headers).await
    }

    pub(crate) async fn over(mut client: Client<TcpStream>, target: &str, headers: &str) -> Self {
        client.sends("GET", target, &format!("{HANDSHAKE}{headers}"), "").await;
        let answer = client.head().await.unwrap();
        assert_eq!(answer.status, 101, "{answer:?}");
        Self { client }
    }

    pub(crate) async fn sends(&mut self, json: Value) {
        self.client.writes(frame(TEXT, true, true, json.to_string().as_bytes())).await;
    }

    /// The next frame of the server: opcode and payload; none at the end.
    pub(crate) async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let stream = &mut self.client.stream;
        let read = async {
            let (mut message, mut kind) = (Vec::new(), 0);
            loop {
                let head = [stream.read_u8().await.ok()?, stream.read_u8().await.ok()?];
                assert_eq!(head[1] & 0x80, 0, "a server does not mask");
                let length = match head[1] {
                    126 => u64::from(stream.read_u16().await.ok()?),
                    127 => stream.read_u64().await.ok()?,
                    short => u64::from(short),
                };
                let mut payload = vec![0; usize::try_from(length).unwrap()];
                stream.read_exact(&mut payload).await.ok()?;
                if head[0] & 0x0f != 0 {
                    kind = head[0] & 0x0f;
                }
                message.extend(payload);
                if head[0] & 0x80 != 0 {
                    return Some((kind, message));
                }
            }
        };
        within(read).await
    }

    /// The next message, which must be JSON.
    pub(crate) async fn json(&mut self) -> Value {
        let (opcode, payload) = self.next().await.expect("a message");
        assert_eq!(opcode, TEXT, "{}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap()
    }

    /// The answer to a call.
    pub(crate) async fn calls(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.sends(json!({"id": id, "method": method, "params": params})).await;
        loop {
            let message = self.json().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) async fn initializes(&mut self) {
        let client = json!({"clientInfo": {"name": "test", "version": "1"}});
        let answer = self.calls(0, "initialize", client).await;
        assert!(answer.get("result").is_some(), "{answer}");
    }

    /// The code with which the server closes; what comes before is read over.
    pub(crate) async fn close_code(&mut self) -> (u16, String) {
        loop {
            let (opcode, payload) = self.next().await.expect("a close frame");
            if opcode == CLOSE {
                let reason = String::from_utf8(payload[2..].to_vec()).unwrap();
                return (u16::from_be_bytes([payload[0], payload[1]]), reason);
            }
        }
    }
}

#[tokio::test]
async fn the_handshake_is_that_of_the_standard() {
    let stage = Stage::open().await;
    for (path, asked, told) in [
        ("/", "", None),
        ("/rpc", "sec-websocket-protocol: signalbox.v1\r\n", Some("signalbox.v1")),
        ("/rpc", "sec-websocket-protocol: other\r\n", None),
    ] {
        let mut client = stage.connect().await;
        client.sends("GET", path, &format!("{HANDSHAKE}{asked}"), "").await;
        let answer = client.head().await.unwrap();
        assert_eq!(answer.status, 101);
        // The example of RFC 6455.
        assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(answer.header("sec-websocket-protocol"), told);
        Socket { client }.initializes().await;
    }
    let no_key = HANDSHAKE.replace("dGhlIHNhbXBsZSBub25jZQ==", "short");
    let old = HANDSHAKE.replace("version: 13", "version: 8");
    let loose = HANDSHAKE.replace("keep-alive, Upgrade", "keep-alive");
    for (headers, status) in [(no_key, 400), (old, 426), (loose, 400)] {
        let answer = stage.asks("GET", "/", &headers, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (status, "bad_handshake"));
    }
    let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (what, first, more) in [
        ("another version of HTTP", "GET / HTTP/1.0", "\r\n"),
        ("a body", "GET / HTTP/1.1", "content-length: 2\r\n\r\n{}"),
        ("a body in chunks", "GET / HTTP/1.1", "transfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("two keys", "GET / HTTP/1.1", &format!("{key}\r\n")),
        ("two versions", "GET / HTTP/1.1", "sec-websocket-version: 13\r\n\r\n"),
    ] {
        let mut client = stage.connect().await;
        client.writes(format!("{first}\r\n{HANDSHAKE}{more}")).await;
        let answer = client.answer().await.unwrap();
        assert_eq!((answer.status, answer.reason().as_str()), (400, "bad_handshake"), "{what}");
    }
}

#[tokio::test]
async fn a_token_opens_the_socket_in_a_header_or_as_a_subprotocol_and_is_never_sent_back() {
    let stage = Stage::with(Set { options: ListenOptions::default(), ..Set::default() }).await;
    let token = stage.access.home_token().unwrap();
    let answer = stage.asks("GET", "/", HANDSHAKE, "").await;
    assert_eq!((answer.status, answer.reason().as_str()), (401, "unauthorized"));
    assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
    let wrong = format!("{HANDSHAKE}authorization: Bearer wrong-{token}\r\n");
    assert_eq!(stage.asks("GET", "/", &wrong, "").await.status, 401);
    let other = format!("{HANDSHAKE}authorization: Basic {token}\r\n");
    assert_eq!(stage.asks("GET", "/", &other, "").await.reason(), "bad_credential");

    Socket::open(&stage, "/", &format!("authorization: bearer {token}\r\n")).await.initializes().await;
    let mut client = stage.connect().await;
    let asked = format!("{HANDSHAKE}sec-websocket-protocol: signalbox.v1, bearer.{token}\r\n");
    client.sends("GET", "/rpc", &asked, "").await;
    let answer = client.head().await.unwrap();
    assert_eq!((answer.status, answer.header("sec-websocket-protocol")), (101, Some("signalbox.v1")));
    Socket { client }.initializes().await;
    // A browser that asks for the token alone must not have it confirmed.
    let mut client = stage.connect().await;
    client.sends("GET", "/", &format!("{HANDSHAKE}sec-websocket-protocol: bearer.{token}\r\n"), "").await;
    let answer = client.head().await.unwrap();
    assert_eq!((answer.status, answer.header("sec-websocket-protocol")), (101, None));
}

#[tokio::test]
async fn a_turn_with_an_approval_runs_over_it() {
    let stage = Stage::open().await;
    let mut socket = Socket::open(&stage, "/", "").await;
    socket.initializes().await;
    let started = socket.calls(1, "thread/start", json!({})).await;
    let thread = started["result"]["thread"]["id"].as_str().unwrap().to_owned();
    let input = json!([{"type": "text", "text": "run echo hello"}]);
    socket.calls(2, "turn/start", json!({"threadId": thread, "input": input})).await;
    let mut approved = false;
    loop {
        let message = socket.json().await;
        if message["method"] == "item/commandExecution/requestApproval" {
            approved = true;
            socket.sends(json!({"id": message["id"], "result": {"decision": "accept"}})).await;
        }
        if message["method"] == "turn/completed" {
            assert_eq!(message["params"]["turn"]["status"], "completed");
            break;
        }
    }
    assert!(approved);
}

#[tokio::test]
async fn frames_that_break_the_rules_end_the_socket_with_the_code_for_it() {
    let stage = Stage::open().await;
    let limit = 16 << 20;
    let mut too_long = vec![0x81, 0xff];
    too_long.extend(u64::try_from(limit + 1).unwrap().to_be_bytes());
    too_long.extend([1, 2, 3, 4]);
    for (what, bytes, code) in [
        ("unmasked", frame(TEXT, true, false, b"{}"), 1002),
        ("binary", frame(BINARY, true, true, b"{}"), 1003),
        ("no UTF-8", frame(TEXT, true, true, &[0xff, 0xfe]), 1007),
        ("too long", too_long, 1009),
        ("an end without a beginning", frame(0, true, true, b"x"), 1002),
        ("a long ping", frame(PING, true, true, &[0; 200]), 1002),
    ] {
        let mut socket = Socket::open(&stage, "/", "").await;
        socket.client.writes(bytes).await;
        assert_eq!(socket.close_code().await.0, code, "{what}");
    }
    // The limit is that of the message, in however many pieces it comes.
    let mut socket = Socket::open(&stage, "/", "").await;
    let piece = vec![b' '; 8 << 20];
    socket.client.writes(frame(TEXT, false, true, &piece)).await;
    socket.client.writes(frame(0, false, true, &piece)).await;
    socket.client.writes(frame(0, false, true, b"x")).await;
    assert_eq!(socket.close_code().await.0, 1009);
}

#[tokio::test]
async fn pieces_pings_and_nonsense_are_no_reason_to_part() {
    let stage = Stage::open().await;
    let mut socket = Socket::open(&stage, "/", "").await;
    socket.initializes().await;
    let call = br#"{"id":7,"method":"server/health"}"#;
    socket.client.writes(frame(TEXT, false, true, &call[..5])).await;
    socket.client.writes(frame(PING, true, true, b"still there?")).await;
    socket.client.writes(frame(0, false, true, &call[5..20])).await;
    socket.client.writes(frame(0, true, true, &call[20..])).await;
    assert_eq!(socket.next().await, Some((PONG, b"still there?".to_vec())));
    assert_eq!(socket.json().await["id"], 7);
    socket.client.writes(frame(TEXT, true, true, b"{")).await;
    assert_eq!(socket.json().await["error"]["data"]["reason"], "parse_error");
    socket.client.writes(frame(CLOSE, true, true, &[3, 232])).await;
    assert_eq!(socket.close_code().await.0, 1000);
}

#[tokio::test]
async fn a_revoked_device_is_shown_the_door_at_once() {
    let stage = Stage::with(Set { options: ListenOptions::default(), ..Set::default() }).await;
    let caller = owner();
    let code = stage.access.pairing_create(&caller, Default::default()).unwrap().code;
    let body = json!({"token": code, "device_name": "phone"}).to_string();
    let paired = stage.asks("POST", "/api/pair", crate::stage::JSON, &body).await;
    assert_eq!(paired.status, 200, "{paired:?}");
    let (bearer, device) = (paired.json()["bearer"].clone(), paired.json()["device_id"].clone());
    let header = format!("authorization: Bearer {}\r\n", bearer.as_str().unwrap());
    let mut socket = Socket::open(&stage, "/", &header).await;
    socket.initializes().await;
    let again = stage.asks("POST", "/api/pair", crate::stage::JSON, &body).await;
    assert_eq!(again.status, 401, "a code is good for one device");

    let revoke = serde_json::from_value(json!({"deviceId": device})).unwrap();
    stage.access.device_revoke(&caller, revoke).await.unwrap();
    let (code, reason) = socket.close_code().await;
    assert_eq!(code, 1008);
    assert!(reason.contains("revoked"), "{reason}");
    assert_eq!(stage.asks("GET", "/", &format!("{HANDSHAKE}{header}"), "").await.status, 401);
}
