//! The client's end of a WebSocket with blocking reads and writes, so that one thread reads while another writes.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket, client::client_with_config};

/// More than the server ever writes at once.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The socket, written to under a lock: a pong must not get into a message.
#[derive(Debug, Clone)]
struct Locked {
    reading: Arc<UnixStream>,
    writing: Arc<Mutex<UnixStream>>,
}

impl Read for Locked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.reading).read(buffer)
    }
}

impl Write for Locked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The library hands over whole messages.
        self.writing.lock().unwrap().write_all(bytes)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads messages, and answers pings meanwhile.
pub(crate) struct Receiver(WebSocket<Locked>);

/// Writes messages.
pub(crate) struct Sender(WebSocket<Locked>);

/// Shakes hands with the server behind this socket.
pub(crate) fn connect(socket: &UnixStream) -> io::Result<(Receiver, Sender)> {
    let locked =
        Locked { reading: Arc::new(socket.try_clone()?), writing: Arc::new(Mutex::new(socket.try_clone()?)) };
    let config = WebSocketConfig::default()
        .write_buffer_size(0)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let (receiver, _response) =
        client_with_config("ws://localhost/rpc", locked.clone(), Some(config)).map_err(io::Error::other)?;
    Ok((Receiver(receiver), Sender(WebSocket::from_raw_socket(locked, Role::Client, Some(config)))))
}

impl Receiver {
    /// The next text; none at the end.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => return Some(text.as_bytes().to_vec()),
                Ok(Message::Binary(_)) => panic!("the server sent a binary message"),
                Ok(_) => {}
                Err(_ended) => return None,
            }
        }
    }
}

impl Sender {
    pub(crate) fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(frame).into_owned();
        self.0.send(Message::text(text)).map_err(of_socket)
    }

    pub(crate) fn say_goodbye(&mut self) -> io::Result<()> {
        self.0.close(None).map_err(of_socket)
    }
}

fn of_socket(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
