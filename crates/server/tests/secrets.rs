//! No secret is where it should not be: in the database, in a log, in what `Debug` prints. Alone in its process, because logs are
//! the process's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

#[path = "access/stage.rs"]
#[allow(dead_code, reason = "not every test uses every verb")]
mod stage;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::json;
use signalbox_protocol::app::PairingCreateParams;
use signalbox_rpc::Role;

use stage::{Stage, here, within};

/// Where everything is logged that can be.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything under a folder, as bytes.
fn contents(folder: &std::path::Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The home's token is a file of its own, for its owner to read.
        if path.is_dir() {
            all.extend(contents(&path));
        } else if !path.ends_with("token") {
            all.extend(std::fs::read(&path).unwrap());
        }
    }
    all
}

#[tokio::test]
async fn secrets_are_in_no_file_and_no_log() {
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let stage = Stage::new().await;
    let home = stage.access.home_token().unwrap();
    let _open = stage.access.listening("http://127.0.0.1:4517");
    let made = stage.offers(PairingCreateParams::default()).unwrap();
    let used = stage.paired(Role::Operator).await;
    let answer = within(stage.access.ws_ticket(Some(&used.bearer), here())).await;
    let ticket = answer.body["ticket"].as_str().unwrap().to_owned();
    let guess = "a-guess-that-might-be-a-password-of-somebody";
    let refused = stage.access.authenticate(Some(guess), here()).await.unwrap_err();
    let again = stage.tries(guess, here()).await;
    let body = json!({ "token": made.code, "device_name": "x" }).to_string();
    let paired = within(stage.access.pair(body.as_bytes(), here())).await;
    let caller = stage.access.redeem(Some(&ticket), here()).await.unwrap();
    let shown = format!("{made:?} {refused:?} {caller:?} {:?} {:?}", stage.access, stage.devices());
    stage.revokes(&used.id).await.unwrap();
    within(stage.access.finish()).await;
    within(stage.store.close()).await;

    let second = paired.body["bearer"].as_str().unwrap().to_owned();
    let files = contents(stage.folder.path());
    let logs = logged.0.lock().unwrap().clone();
    assert!(String::from_utf8_lossy(&logs).contains("paired"), "something was logged");
    assert!(files.len() > 4096, "something was stored");
    assert!(again.body.to_string().len() > 10 && !again.body.to_string().contains(guess));
    let found =
        |place: &[u8], secret: &str| place.windows(secret.len()).any(|part| part == secret.as_bytes());
    for secret in [&home, &made.code, &used.bearer, &second, &ticket, guess] {
        // Also without what says its kind.
        for part in [secret, &secret[secret.len() - 20..]] {
            assert!(!found(&files, part), "{secret} is in a file");
            assert!(!found(&logs, part), "{secret} is in a log");
            assert!(!found(shown.as_bytes(), part), "{secret} is in {shown}");
        }
    }
}
