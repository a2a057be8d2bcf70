//! A client of HTTP that writes what it is told to, byte for byte, and reads answers by their framing.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::stage::within;

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: BufReader<S>,
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The reason of a refusal.
    pub(crate) fn reason(&self) -> String {
        let body = self.json();
        body["error"]["data"]["reason"].as_str().unwrap_or_else(|| panic!("no reason in {body}")).to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) async fn writes(&mut self, text: impl AsRef<[u8]>) {
        within(self.stream.get_mut().write_all(text.as_ref())).await.unwrap();
    }

    /// A line of a head; none at the end of the stream.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = within(self.stream.read_line(&mut line)).await.ok()?;
        (read > 0).then(|| line.trim_end_matches("\r\n").trim_end_matches('\n').to_owned())
    }

    /// Status and headers of the next answer.
    pub(crate) async fn head(&mut self) -> Option<Answer> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("{first:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Answer { status, headers, body: Vec::new() })
    }

    /// The next answer, whole.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head().await?;
        if let Some(length) = answer.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            within(self.stream.read_exact(&mut body)).await.ok()?;
            answer.body = body;
        }
        Some(answer)
    }

    /// The bytes of the next chunk of a chunked body; none at its end.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(self.line().await?.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        within(self.stream.read_exact(&mut chunk)).await.ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// A request with these header lines, each with its end, and this body.
    pub(crate) async fn sends(&mut self, method: &str, target: &str, headers: &str, body: &str) {
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        self.writes(format!("{method} {target} HTTP/1.1\r\n{headers}{length}\r\n{body}")).await;
    }

    /// The answer to such a request.
    pub(crate) async fn asks(&mut self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        self.sends(method, target, headers, body).await;
        self.answer().await.expect("an answer")
    }

    /// Whether the server ends the connection.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        within(self.stream.read_to_end(&mut rest)).await.is_ok_and(|_| true) || rest.is_empty()
    }
}
