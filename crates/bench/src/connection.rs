//! One connection to a server, over whatever carries it, with blocking reads and writes and as little of its own as possible.

use std::io::{BufRead, BufReader, BufWriter, Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::child::Result;

/// What stands around a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Lines,
    WebSocket,
    Post,
}

/// Both directions, buffered.
pub(crate) struct Connection {
    input: BufWriter<Box<dyn Write + Send>>,
    output: BufReader<Box<dyn Read + Send>>,
    framing: Framing,
    frame: Vec<u8>,
    head: String,
    next_id: u64,
}

impl Connection {
    fn new(input: impl Write + Send + 'static, output: impl Read + Send + 'static, framing: Framing) -> Self {
        Self::buffered(input, output, framing, 256 << 10)
    }

    fn buffered(
        input: impl Write + Send + 'static,
        output: impl Read + Send + 'static,
        framing: Framing,
        bytes: usize,
    ) -> Self {
        Self {
            input: BufWriter::new(Box::new(input)),
            output: BufReader::with_capacity(bytes, Box::new(output)),
            framing,
            frame: Vec::new(),
            head: String::new(),
            next_id: 0,
        }
    }

    /// Lines on these pipes.
    pub(crate) fn pipes(input: impl Write + Send + 'static, output: impl Read + Send + 'static) -> Self {
        Self::new(input, output, Framing::Lines)
    }

    /// Lines on a unix socket, which may only be about to be there.
    pub(crate) fn unix(path: &Path) -> Result<Self> {
        let give_up = Instant::now() + Duration::from_secs(10);
        let stream = loop {
            match UnixStream::connect(path) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > give_up => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        Ok(Self::new(stream.try_clone()?, stream, Framing::Lines))
    }

    /// A WebSocket; the buffer is small, because there may be a thousand of them.
    pub(crate) fn websocket(address: SocketAddr, buffer_bytes: usize) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (socket, _response) = tungstenite::client(format!("ws://{address}/"), stream)
            .map_err(|error| format!("no WebSocket on {address}: {error}"))?;
        // Nothing comes before the first request, so no byte is left behind in the library's buffer.
        let stream = socket.into_inner();
        Ok(Self::buffered(stream.try_clone()?, stream, Framing::WebSocket, buffer_bytes))
    }

    /// HTTP, each frame a POST on the same connection.
    pub(crate) fn post(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self::buffered(stream.try_clone()?, stream, Framing::Post, 16 << 10))
    }

    /// Writes a frame; it goes out with [`Self::flush`].
    pub(crate) fn put(&mut self, frame: &[u8]) -> Result<()> {
        match self.framing {
            Framing::Lines => {
                self.input.write_all(frame)?;
                self.input.write_all(b"\n")?;
            }
            Framing::WebSocket => {
                // With a mask of zeros the payload is its own.
                let header = FrameHeader {
                    opcode: OpCode::Data(Data::Text),
                    mask: Some([0; 4]),
                    ..FrameHeader::default()
                };
                header.format(frame.len() as u64, &mut self.input)?;
                self.input.write_all(frame)?;
            }
            Framing::Post => {
                let bytes = frame.len();
                write!(
                    self.input,
                    "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"
                )?;
                self.input.write_all(frame)?;
            }
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.input.flush()?)
    }

    /// Whether something has been read that is not taken.
    pub(crate) fn has_more(&self) -> bool {
        !self.output.buffer().is_empty()
    }

    /// The next frame.
    pub(crate) fn take(&mut self) -> Result<&str> {
        self.frame.clear();
        match self.framing {
            Framing::Lines => {
                if self.output.read_until(b'\n', &mut self.frame)? == 0 {
                    return Err("the server has left".into());
                }
                self.frame.pop();
            }
            Framing::WebSocket => while !self.message()? {},
            Framing::Post => self.body()?,
        }
        Ok(std::str::from_utf8(&self.frame)?)
    }

    /// Reads a frame of a WebSocket; whether it was the end of a text. Pings are passed over: no figure takes so long.
    fn message(&mut self) -> Result<bool> {
        let mut head = [0; 14];
        self.output.read_exact(&mut head[..2])?;
        let more = match head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        self.output.read_exact(&mut head[2..2 + more])?;
        let (header, bytes) =
            FrameHeader::parse(&mut Cursor::new(&head[..2 + more]))?.ok_or("a broken head of a frame")?;
        let before = self.frame.len();
        self.frame.resize(before + usize::try_from(bytes)?, 0);
        self.output.read_exact(&mut self.frame[before..])?;
        match header.opcode {
            OpCode::Data(_) => Ok(header.is_final),
            OpCode::Control(tungstenite::protocol::frame::coding::Control::Close) => {
                Err(format!("closed: {}", String::from_utf8_lossy(&self.frame[before..])).into())
            }
            OpCode::Control(_) => {
                self.frame.truncate(before);
                Ok(false)
            }
        }
    }

    /// Reads a response of HTTP.
    fn body(&mut self) -> Result<()> {
        let mut bytes = None;
        let mut status = None;
        loop {
            self.head.clear();
            if self.output.read_line(&mut self.head)? == 0 {
                return Err("the server has left".into());
            }
            let line = self.head.trim_end();
            if line.is_empty() {
                break;
            }
            if status.is_none() {
                status = Some(line.contains(" 200 "));
            } else if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                bytes = Some(value.trim().parse()?);
            }
        }
        self.frame.resize(bytes.ok_or("an answer without length")?, 0);
        self.output.read_exact(&mut self.frame)?;
        if status != Some(true) {
            return Err(format!("refused: {}", String::from_utf8_lossy(&self.frame)).into());
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.next_id += 1;
        let frame = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.put(frame.to_string().as_bytes())?;
        self.flush()?;
        Ok(self.next_id)
    }

    /// Sends a request and gives its result; frames that come before it are dropped.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send(method, params)?;
        loop {
            let mut frame: Value = serde_json::from_str(self.take()?)?;
            if frame["id"] == json!(id) && frame.get("method").is_none() {
                if let Some(error) = frame.get("error") {
                    return Err(format!("{method}: {error}").into());
                }
                return Ok(frame["result"].take());
            }
        }
    }

    pub(crate) fn initialize(&mut self) -> Result<()> {
        self.call("initialize", &json!({"clientInfo": {"name": "bench", "version": "1"}})).map(drop)
    }

    /// A thread with the built-in agent in this directory.
    pub(crate) fn thread(&mut self, cwd: &Path) -> Result<String> {
        let started = self.call("thread/start", &json!({"cwd": cwd, "modelProvider": "rehearsal"}))?;
        Ok(started["thread"]["id"].as_str().ok_or("no thread id")?.to_owned())
    }

    /// A whole turn; gives the number of its frames.
    pub(crate) fn turn(&mut self, thread: &str, prompt: &str) -> Result<usize> {
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": prompt}]});
        self.send("turn/start", &params)?;
        self.until_end()
    }

    /// Frames until a turn has ended.
    pub(crate) fn until_end(&mut self) -> Result<usize> {
        let mut frames = 1;
        while !self.take()?.contains("\"turn/completed\"") {
            frames += 1;
        }
        Ok(frames)
    }
}
