//! TLS, and addresses that others can reach.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use signalbox_server::http::{HttpDoor, HttpDoorError, ListenOptions, TlsFiles};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::Client;
use crate::stage::{JSON, Set, Stage, local, within};

#[tokio::test]
async fn it_is_spoken_where_it_was_asked_for_and_nothing_else_is() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { cert: folder.path().join("c.pem"), key: folder.path().join("k.pem") };
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let options = ListenOptions { tls: Some(files.clone()), ..local() };
    let mode = |mode| std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    let error = HttpDoor::bind("127.0.0.1:0".parse().unwrap(), options.clone()).unwrap_err().to_string();
    assert!(error.contains("can be read by others") && error.contains("chmod 600"), "{error}");
    mode(0o600);
    let stage = Stage::with(Set { options, ..Set::default() }).await;

    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap();
    let mut client = Client::new(stream);
    let body = r#"{"id":1,"method":"server/health"}"#;
    assert_eq!(client.asks("POST", "/rpc", JSON, body).await.status, 200);

    let mut plain = stage.connect().await;
    plain.sends("GET", "/healthz", "host: localhost\r\n", "").await;
    assert!(plain.is_closed().await);

    std::fs::write(&files.key, "no key").unwrap();
    let wrong = ListenOptions { tls: Some(files), ..local() };
    let error = HttpDoor::bind("127.0.0.1:0".parse().unwrap(), wrong).unwrap_err();
    assert!(matches!(&error, HttpDoorError::Tls { path, .. } if path.ends_with("k.pem")), "{error}");
}

#[tokio::test]
async fn other_machines_are_not_listened_for_in_the_clear_by_accident() {
    let address = "0.0.0.0:0".parse().unwrap();
    let error = HttpDoor::bind(address, local()).unwrap_err().to_string();
    assert!(error.contains("--tls-cert") && error.contains("--insecure"), "{error}");
    HttpDoor::bind(address, ListenOptions { insecure: true, ..local() }).unwrap();
}
