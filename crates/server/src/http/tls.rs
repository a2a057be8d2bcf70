//! TLS for a listener, from a certificate and a key in PEM files.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::access::text_of;

use super::listen::{HttpDoorError, TlsFiles};

/// Reads the files. They are read once; a new certificate needs a new listener.
///
/// # Errors
/// If a file cannot be read, the key may be read by others, a file is no PEM, or key and certificate do not belong together.
pub(super) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, HttpDoorError> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| HttpDoorError::Tls {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&files.cert, &error))?;
    if chain.is_empty() {
        return Err(wrong(&files.cert, &"there is no certificate in it"));
    }
    let key = text_of(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| wrong(&files.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| wrong(&files.key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
