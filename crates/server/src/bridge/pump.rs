//! Moves frames between the client and the server, and finds another server when this one is gone.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use signalbox_engine::wall_clock_ms;
use signalbox_home::{Holder, Home};
use signalbox_protocol::greeting::Greeting;
use signalbox_rpc::{Received, RpcError, Source, Stdio, StdioSink, StdioSource};
use tokio::time::{Instant, sleep, sleep_until};

use super::link::Link;
use super::tracker::{Tracker, Way};
use crate::life::{ConnectError, Connected, Launch, connect_home, find_server};
use crate::signals::Signals;

/// Bytes for the client from which on nothing more is taken from the server.
const ENOUGH: usize = 256 * 1024;
/// How long a bridge looks for another server.
const WITHOUT_SERVER: Duration = Duration::from_secs(10);
/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How often a bridge whose server was stopped looks whether somebody has started another.
const LOOK: Duration = Duration::from_secs(1);
/// How long a client that has ended its input may read nothing before it is left alone.
const FAREWELL: Duration = Duration::from_secs(5);

/// How a bridge finds its server, and what it says for its client.
#[derive(Debug)]
pub struct BridgeOptions {
    /// The home.
    pub home: Home,
    /// How the bridge introduces itself.
    pub greeting: Greeting,
    /// How a server is started if none runs.
    pub launch: Launch,
    /// Largest frame of the client, in bytes.
    pub max_frame_bytes: usize,
}

/// How a bridge ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The client has left.
    Client,
    /// A signal came.
    Signal,
}

/// A bridge had to end.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// stdin or stdout cannot be used.
    #[error("stdin and stdout cannot be used")]
    Stdio(#[source] io::Error),
    /// No server at the beginning.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No server any more.
    #[error(
        "the server of {} is gone, and within {} seconds no other could be reached{}; start this program again, and see \
         logs/server.log in the home if that does not help",
        home.display(), WITHOUT_SERVER.as_secs(), because(last.as_deref())
    )]
    Lost {
        /// The home.
        home: std::path::PathBuf,
        /// What the last attempt came to.
        last: Option<Box<ConnectError>>,
    },
    /// The next server does not take this client.
    #[error("the new server refuses this client's initialize: {0}")]
    Refused(String),
}

fn because(last: Option<&ConnectError>) -> String {
    last.map(|error| format!(" ({error})")).unwrap_or_default()
}

/// Serves the client on `stdio` until it leaves or a signal comes. `said` is told what people should know about the server,
/// each thing once.
///
/// # Errors
/// If there is no server, or none any more.
pub async fn bridge(
    options: BridgeOptions,
    stdio: Stdio,
    signals: &mut Signals,
    said: impl Fn(&str),
) -> Result<Left, BridgeError> {
    let connected = tokio::select! {
        connected = connect_home(&options.home, options.greeting.clone(), &options.launch) => connected?,
        _ = signals.next() => return Ok(Left::Signal),
    };
    let (source, sink) = stdio.split(options.max_frame_bytes).map_err(BridgeError::Stdio)?;
    let mut pump = Pump {
        options,
        tracker: Tracker::new(wall_clock_ms),
        source,
        writing: Writing::Idle(sink),
        to_client: Vec::new(),
        to_client_bytes: 0,
        link: None,
        seeking: None,
        deadline: None,
        parked: None,
        leaving: None,
        told: Vec::new(),
        said,
    };
    pump.takes(connected);
    pump.run(signals).await
}

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// The way to the client's stdout.
enum Writing {
    Idle(StdioSink),
    Busy(Boxed<(StdioSink, io::Result<()>)>),
    /// Nobody reads it any more.
    Gone,
}

struct Pump<S> {
    options: BridgeOptions,
    tracker: Tracker,
    source: StdioSource,
    writing: Writing,
    to_client: Vec<Bytes>,
    to_client_bytes: usize,
    link: Option<Link>,
    /// The search for another server.
    seeking: Option<Boxed<Result<Connected, ConnectError>>>,
    /// Until when another server must have been found and told everything.
    deadline: Option<Instant>,
    /// A frame of the client that waits for the next server.
    parked: Option<Bytes>,
    /// Why the bridge leaves, once it does: the client says nothing more.
    leaving: Option<Left>,
    /// What people were told already.
    told: Vec<String>,
    said: S,
}

/// What happened.
enum Event {
    Signal,
    Written(io::Result<()>),
    Sent(io::Result<()>),
    Server(io::Result<bool>),
    Client(io::Result<Option<Received>>),
    Found(Result<Connected, ConnectError>),
    TooLate,
    Stalled,
}

impl<S: Fn(&str)> Pump<S> {
    async fn run(&mut self, signals: &mut Signals) -> Result<Left, BridgeError> {
        let mut progress = Instant::now();
        loop {
            self.pass();
            if let Some(why) = self.tracker.refusal() {
                let error = BridgeError::Refused(why.to_owned());
                self.tracker.given_up();
                return self.fails(error).await;
            }
            if let (Some(left), None) = (self.leaving, &self.link)
                && self.to_client.is_empty()
                && !matches!(self.writing, Writing::Busy(_))
            {
                return Ok(left);
            }
            match self.event(signals, progress).await {
                Event::Signal => {
                    if self.leaving == Some(Left::Signal) {
                        return Ok(Left::Signal);
                    }
                    progress = Instant::now();
                    self.leaves(Left::Signal);
                }
                Event::Written(written) => {
                    progress = Instant::now();
                    if written.is_err() {
                        return Ok(Left::Client);
                    }
                }
                Event::Sent(Ok(())) => {}
                // The last words of the server are still to be read.
                Event::Sent(Err(error)) => tracing::debug!(%error, "the server takes nothing any more"),
                Event::Server(Ok(true)) => {}
                Event::Server(ended) => self.lost(ended.err()),
                Event::Client(Ok(Some(received))) => self.client(received),
                Event::Client(ended) => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, "stdin cannot be read any more");
                    }
                    progress = Instant::now();
                    self.leaves(Left::Client);
                }
                Event::Found(Ok(connected)) => {
                    self.seeking = None;
                    self.deadline.get_or_insert_with(|| Instant::now() + WITHOUT_SERVER);
                    self.takes(connected);
                }
                Event::Found(Err(error)) => {
                    self.tracker.given_up();
                    let home = self.options.home.folder().to_owned();
                    return self.fails(BridgeError::Lost { home, last: Some(Box::new(error)) }).await;
                }
                Event::TooLate => {
                    self.tracker.given_up();
                    let home = self.options.home.folder().to_owned();
                    return self.fails(BridgeError::Lost { home, last: None }).await;
                }
                Event::Stalled => return Ok(self.leaving.unwrap_or(Left::Client)),
            }
        }
    }

    /// Waits for whatever happens next.
    async fn event(&mut self, signals: &mut Signals, progress: Instant) -> Event {
        let may_hear = self.may_hear_client();
        let Self { link, writing, source, seeking, to_client_bytes, .. } = self;
        if let Writing::Idle(_) = writing
            && !self.to_client.is_empty()
            && let Writing::Idle(mut sink) = std::mem::replace(writing, Writing::Gone)
        {
            let frames = std::mem::take(&mut self.to_client);
            *to_client_bytes = 0;
            *writing = Writing::Busy(Box::pin(async move {
                let written = sink.write(frames).await;
                (sink, written)
            }));
        }
        let room = *to_client_bytes < ENOUGH;
        let deadline = self.deadline.filter(|_| self.leaving.is_none());
        let stalled = self.leaving.map(|_| progress + FAREWELL);
        // A link is read and written at a time: what holds up one direction must not hold up the other.
        let linked = async {
            match link {
                Some(link) => link.turn(room).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = signals.next() => Event::Signal,
            written = writing.done() => Event::Written(written),
            event = linked => event,
            received = source.next(), if may_hear => Event::Client(received),
            found = found(seeking) => Event::Found(found),
            () = until(deadline) => Event::TooLate,
            () = until(stalled) => Event::Stalled,
        }
    }

    /// Whether the client is read: not while there is no server and one is looked for, nor while it has too much on its way.
    fn may_hear_client(&self) -> bool {
        if self.leaving.is_some() || self.parked.is_some() || self.tracker.is_full() {
            return false;
        }
        // Errors of frames are answered here, and must find room too.
        let room = self.to_client_bytes < ENOUGH;
        match &self.link {
            Some(link) => room && self.tracker.is_live() && !link.is_full(),
            None => room && self.deadline.is_none(),
        }
    }

    /// Passes what can be passed without waiting.
    fn pass(&mut self) {
        self.collect();
        while self.to_client_bytes < ENOUGH {
            let Some(received) = self.link.as_mut().and_then(Link::next) else { break };
            let Received::Frame(frame) = received else {
                tracing::error!("a frame of the server is too large to be passed on");
                continue;
            };
            if self.tracker.server(&frame) == Way::On {
                self.tell(frame);
            }
            self.collect();
        }
        if self.link.is_some() && self.tracker.is_live() {
            self.deadline = None;
            if let Some(frame) = self.parked.take() {
                self.client_frame(frame);
                self.collect();
            }
        }
    }

    fn collect(&mut self) {
        for frame in std::mem::take(&mut self.tracker.to_client) {
            self.tell(frame);
        }
        if let Some(link) = &mut self.link {
            for frame in self.tracker.to_server.drain(..) {
                link.push(&frame);
            }
        }
    }

    fn tell(&mut self, frame: Bytes) {
        self.to_client_bytes += frame.len();
        self.to_client.push(frame);
    }

    fn client(&mut self, received: Received) {
        let error = match received {
            Received::Frame(frame) if frame.trim_ascii().is_empty() => return,
            Received::Frame(frame) => return self.client_frame(frame),
            Received::TooLarge => RpcError::frame_too_large(self.options.max_frame_bytes),
            Received::Malformed(error) => error,
            Received::End(reason) => {
                tracing::warn!(%reason, "stdin cannot be understood any more");
                return self.leaves(Left::Client);
            }
        };
        let answer = json!({ "jsonrpc": "2.0", "id": null, "error": error });
        self.tell(answer.to_string().into());
    }

    fn client_frame(&mut self, frame: Bytes) {
        if let Some(link) = &mut self.link {
            if self.tracker.client(&frame) == Way::On {
                link.push(&frame);
            }
        } else if !self.tracker.client_while_away(&frame) {
            // It asks for something: so there is to be a server again.
            self.parked = Some(frame);
            self.seek();
        }
    }

    /// The client says nothing more.
    fn leaves(&mut self, left: Left) {
        self.leaving = Some(left);
        self.seeking = None;
        match &mut self.link {
            Some(link) if self.tracker.is_live() => link.end(),
            _ => {
                self.link = None;
                self.tracker.given_up();
            }
        }
    }

    // ---- Servers ----

    fn takes(&mut self, connected: Connected) {
        for notice in connected.notices() {
            if !self.told.contains(&notice) {
                (self.said)(&notice);
                self.told.push(notice);
            }
        }
        let own = &self.options.greeting.version;
        self.tracker.set_skew((connected.welcome.version != *own).then(|| own.clone()));
        self.link = Some(Link::new(connected.stream, connected.welcome.pid));
        self.tracker.reconnected();
    }

    fn lost(&mut self, error: Option<io::Error>) {
        let Some(link) = self.link.take() else { return };
        self.tracker.broken();
        if self.leaving.is_some() {
            return self.tracker.given_up();
        }
        let error = error.map(|error| error.to_string());
        if Holder::has_left(&self.options.home, link.pid) {
            tracing::info!("the server was stopped; another is started when the client asks for something");
            self.deadline = None;
            if self.tracker.is_asked() {
                return self.seek();
            }
            self.seeking = Some(Box::pin(watch(self.options.home.clone(), self.options.greeting.clone())));
            return;
        }
        tracing::warn!(error, "the server is gone; looking for another");
        self.seek();
    }

    fn seek(&mut self) {
        self.deadline.get_or_insert_with(|| Instant::now() + WITHOUT_SERVER);
        let BridgeOptions { home, greeting, launch, .. } = &self.options;
        self.seeking = Some(Box::pin(seek(home.clone(), greeting.clone(), launch.clone())));
    }

    /// Tells the client what is left to tell, for a bounded time.
    async fn fails(&mut self, error: BridgeError) -> Result<Left, BridgeError> {
        self.link = None;
        self.collect();
        let flush = async {
            let _ = self.writing.done_if_busy().await;
            if let Writing::Idle(sink) = &mut self.writing {
                // That it cannot be told changes nothing.
                let _ = sink.write(std::mem::take(&mut self.to_client)).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, flush).await;
        Err(error)
    }
}

impl Link {
    /// Reads or writes, whichever goes first.
    async fn turn(&mut self, room: bool) -> Event {
        let (reading, writing) = self.halves();
        tokio::select! {
            biased;
            sent = writing.write() => Event::Sent(sent),
            read = reading.read(), if room => Event::Server(read),
        }
    }
}

impl Writing {
    /// Waits until what is being written is written; for ever if nothing is.
    async fn done(&mut self) -> io::Result<()> {
        match self.done_if_busy().await {
            Some(written) => written,
            None => std::future::pending().await,
        }
    }

    async fn done_if_busy(&mut self) -> Option<io::Result<()>> {
        let Self::Busy(busy) = self else { return None };
        let (sink, written) = busy.as_mut().await;
        *self = Self::Idle(sink);
        Some(written)
    }
}

async fn found(
    seeking: &mut Option<Boxed<Result<Connected, ConnectError>>>,
) -> Result<Connected, ConnectError> {
    match seeking {
        Some(seeking) => seeking.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Reaches a server, starting one if none runs; tries again until it is dropped.
async fn seek(home: Home, greeting: Greeting, launch: Launch) -> Result<Connected, ConnectError> {
    let (mut pause, longest) = PAUSES;
    loop {
        match connect_home(&home, greeting.clone(), &launch).await {
            Ok(connected) => return Ok(connected),
            Err(error) => tracing::warn!(%error, "no server yet"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Waits until somebody else has started a server.
async fn watch(home: Home, greeting: Greeting) -> Result<Connected, ConnectError> {
    loop {
        sleep(LOOK).await;
        match find_server(&home, greeting.clone()).await {
            Ok(Some(connected)) => return Ok(connected),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "no server that answers"),
        }
    }
}
