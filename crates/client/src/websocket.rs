//! Frames as text messages of a WebSocket: the handshake, and carrying them.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::client::CloseNote;
use crate::frames::{FrameReceiver, FrameSender};

/// The largest message that is taken, in bytes; the server's own limit is 16 MiB.
const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;
/// What one read asks for.
const READ_BYTES: usize = 16 * 1024;
/// What is shown of the body of a refusal.
const SHOWN_BYTES: usize = 500;
/// Port of `ws://` without one.
const PORT: u16 = 80;

/// How a WebSocket is opened.
#[derive(Clone)]
pub struct WebSocketOptions {
    /// Sent as `Authorization: Bearer …`: a device's bearer, or a token.
    pub bearer: Option<String>,
    /// How long connecting and the handshake may take, each. Default 10 s.
    pub patience: Duration,
}

impl Default for WebSocketOptions {
    fn default() -> Self {
        Self { bearer: None, patience: Duration::from_secs(10) }
    }
}

impl std::fmt::Debug for WebSocketOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the secret itself.
        f.debug_struct("WebSocketOptions")
            .field("bearer", &self.bearer.is_some())
            .field("patience", &self.patience)
            .finish()
    }
}

/// A WebSocket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address cannot be connected to by this client.
    #[error("{url:?} is no address of the form ws://HOST:PORT/rpc{}", hint(url))]
    Address {
        /// The address as given.
        url: String,
    },
    /// The bearer cannot be sent.
    #[error("the bearer holds characters that no header can")]
    Bearer,
    /// Nobody listens there, or the network is not there.
    #[error("cannot connect to {url}")]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        source: std::io::Error,
    },
    /// It took too long.
    #[error("{url} did not answer in time")]
    Late {
        /// The address.
        url: String,
    },
    /// The server does not let this client in.
    #[error("{url} refuses the connection ({status}): {text}")]
    Refused {
        /// The address.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the server says about it.
        text: String,
    },
    /// What answered is no WebSocket.
    #[error("{url} does not speak WebSocket")]
    Handshake {
        /// The address.
        url: String,
        /// What is wrong.
        source: Box<Error>,
    },
}

fn hint(url: &str) -> &'static str {
    if url.starts_with("wss://") {
        "; for TLS open the stream yourself and use Client::over_websocket"
    } else {
        ""
    }
}

/// Connects to the host and port of a `ws://` address.
pub(crate) async fn connect(url: &str, options: &WebSocketOptions) -> Result<TcpStream, ConnectError> {
    let address = || ConnectError::Address { url: url.to_owned() };
    let parsed: Uri = url.parse().map_err(|_invalid| address())?;
    if parsed.scheme_str() != Some("ws") {
        return Err(address());
    }
    let host = parsed.host().ok_or_else(address)?.trim_start_matches('[').trim_end_matches(']');
    let connecting = TcpStream::connect((host, parsed.port_u16().unwrap_or(PORT)));
    let stream = tokio::time::timeout(options.patience, connecting)
        .await
        .map_err(|_elapsed| ConnectError::Late { url: url.to_owned() })?
        .map_err(|source| ConnectError::Unreachable { url: url.to_owned(), source })?;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small messages may wait for each other");
    }
    Ok(stream)
}

/// The handshake, over a stream that leads to the server.
pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    url: &str,
    options: &WebSocketOptions,
) -> Result<WebSocketStream<S>, ConnectError> {
    let mut request =
        url.into_client_request().map_err(|_invalid| ConnectError::Address { url: url.to_owned() })?;
    if let Some(bearer) = &options.bearer {
        let mut value =
            HeaderValue::try_from(format!("Bearer {bearer}")).map_err(|_| ConnectError::Bearer)?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let shaking = client_async_with_config(request, stream, Some(config));
    let shaken = tokio::time::timeout(options.patience, shaking)
        .await
        .map_err(|_elapsed| ConnectError::Late { url: url.to_owned() })?;
    match shaken {
        Ok((stream, _response)) => Ok(stream),
        Err(Error::Http(response)) => {
            let text = response.body().as_deref().unwrap_or_default();
            let text = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]).trim().to_owned();
            Err(ConnectError::Refused { url: url.to_owned(), status: response.status().as_u16(), text })
        }
        Err(source) => Err(ConnectError::Handshake { url: url.to_owned(), source: Box::new(source) }),
    }
}

/// Reads messages until the connection or the queue ends, and notes what the server says at its end.
pub(crate) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitStream<WebSocketStream<S>>,
    frames: FrameSender,
    note: CloseNote,
) {
    while let Some(message) = stream.next().await {
        match message {
            Ok(Message::Text(text)) => {
                if frames.send(Bytes::from(text)).await.is_err() {
                    return;
                }
            }
            Ok(Message::Close(Some(close))) => {
                tracing::debug!(code = u16::from(close.code), reason = %close.reason, "the server said goodbye");
                if close.code != CloseCode::Normal {
                    note.set(u16::from(close.code), &close.reason);
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "reading from the server has failed");
                return;
            }
        }
    }
}

/// Writes messages until the queue ends, then says goodbye.
pub(crate) async fn write<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: SplitSink<WebSocketStream<S>, Message>,
    mut frames: FrameReceiver,
) {
    let written = async {
        while let Some(frame) = frames.recv().await {
            let text = Utf8Bytes::try_from(frame).map_err(|error| Error::Utf8(error.to_string()))?;
            stream.send(Message::Text(text)).await?;
        }
        stream.close().await
    };
    if let Err(error) = written.await {
        tracing::debug!(%error, "writing to the server has failed");
    }
}
