//! What a bridge knows of the conversation that it carries, and what it does when one of the servers is gone: answers
//! what is on its way, greets the next server as the client did, joins its threads and tells what was missed. Pure: frames
//! go in, and come out of [`Tracker::to_client`] and [`Tracker::to_server`].

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use signalbox_protocol::app::method;

use super::flights::{Ask, Asked, Flight, Flights};
use super::look::{self, Envelope, Look};
use super::owed::{Found, Owed};
use super::thread::{Followed, Told};
use super::told;

/// What ids of the bridge's own requests begin with.
const OWN: &str = "signalbox-bridge-";
/// Answered approvals that are remembered, so that an answer that comes too late is told so.
const GONE: usize = 64;
/// Items that are looked up one by one for one thread.
const LOOKED_UP: usize = 64;
/// Bytes of frames that wait while something is looked up.
const HELD_BYTES: usize = 4 << 20;
/// Why a client is to fetch a thread again.
const RESTARTED: &str = "server_restarted";

/// Whether a frame goes on to the other side as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    On,
    Kept,
}

/// How far a bridge is with its server.
#[derive(Debug, Default)]
enum Phase {
    /// Frames pass.
    #[default]
    Live,
    /// There is no server.
    Away,
    /// The next server is greeted, under this id.
    Greeting(String),
    /// A thread is joined, under this id.
    Joining { id: String, thread: String },
    /// What a page had no room for is looked up, under this id.
    LookingUp { id: String, thread: String, found: Found, wanted: VecDeque<Wanted> },
    /// The next server refused the client's handshake, for this reason.
    Refused(String),
}

/// Something to be looked up.
#[derive(Debug)]
enum Wanted {
    Item { number: u64, turn: Box<str> },
    Turn(Box<str>),
}

/// The client's handshake, once it was accepted.
#[derive(Debug)]
struct Handshake {
    params: Option<Box<RawValue>>,
    opted_out: Vec<String>,
    resync: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capabilities {
    opt_out_notification_methods: Option<Vec<String>>,
    resync: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InitializeOutline {
    capabilities: Option<Capabilities>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfThread<'a> {
    thread_id: &'a str,
}

/// The state of one bridge.
#[derive(Debug)]
pub(super) struct Tracker {
    phase: Phase,
    flights: Flights,
    handshake: Option<Handshake>,
    initialized: bool,
    threads: BTreeMap<String, Followed>,
    /// Threads that are still to be joined on this server.
    to_join: VecDeque<String>,
    gone: VecDeque<(Box<str>, String)>,
    held: Vec<Bytes>,
    held_bytes: usize,
    /// The bridge's version, if the server has another.
    version: Option<String>,
    next_id: u64,
    now_ms: fn() -> i64,
    /// Frames of the bridge's own for the client, in order.
    pub(super) to_client: Vec<Bytes>,
    /// Frames of the bridge's own for the server, in order.
    pub(super) to_server: Vec<Bytes>,
}

impl Tracker {
    /// A conversation that is about to begin. `now_ms` tells the time, Unix milliseconds.
    pub(super) fn new(now_ms: fn() -> i64) -> Self {
        Self {
            phase: Phase::Live,
            flights: Flights::default(),
            handshake: None,
            initialized: false,
            threads: BTreeMap::new(),
            to_join: VecDeque::new(),
            gone: VecDeque::new(),
            held: Vec::new(),
            held_bytes: 0,
            version: None,
            next_id: 0,
            now_ms,
            to_client: Vec::new(),
            to_server: Vec::new(),
        }
    }

    /// Says that the server has another version than the bridge, which is this.
    pub(super) fn set_skew(&mut self, version: Option<String>) {
        self.version = version;
    }

    /// Whether frames pass both ways; else the client is not to be read.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live)
    }

    /// Why the next server does not take this client, if it does not.
    pub(super) fn refusal(&self) -> Option<&str> {
        match &self.phase {
            Phase::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Whether so many requests are on their way that the client has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.flights.is_full()
    }

    /// Whether a request waits for its answer.
    pub(super) fn is_asked(&self) -> bool {
        !self.flights.is_empty()
    }

    // ---- The client's frames ----

    /// A frame of the client.
    pub(super) fn client(&mut self, frame: &Bytes) -> Way {
        match look::look(frame) {
            Look::One(message) => {
                if !message.has_method() {
                    return self.response(&message);
                }
                if let Some(asked) = self.asks(&message) {
                    self.flights.push(Flight { requests: vec![asked], is_batch: false });
                } else if message.method() == Some(method::INITIALIZED) {
                    self.initialized = true;
                }
            }
            Look::Batch(messages) => {
                for message in messages.iter().filter(|message| !message.has_method()) {
                    // A late answer in a batch is left to the server.
                    let _left = self.response(message);
                }
                let requests: Vec<_> = messages.iter().filter_map(|one| self.asks(one)).collect();
                if !requests.is_empty() {
                    self.flights.push(Flight { requests, is_batch: true });
                }
            }
            Look::Unclear => {}
        }
        Way::On
    }

    /// A frame of the client while there is no server and none is to be started without need. False if it needs one: then
    /// it is to be passed on once there is.
    pub(super) fn client_while_away(&mut self, frame: &Bytes) -> bool {
        match look::look(frame) {
            Look::One(message) if !message.has_method() => {
                let _known = self.response(&message);
                true
            }
            Look::One(message) if message.id.is_none() => {
                self.initialized |= message.method() == Some(method::INITIALIZED);
                true
            }
            _ => frame.trim_ascii().is_empty(),
        }
    }

    fn asks(&mut self, message: &Envelope<'_>) -> Option<Asked> {
        let id = message.id?.get();
        let is_usable = id.starts_with('"') || id.parse::<i64>().is_ok();
        if !message.has_method() || !is_usable {
            return None;
        }
        let ask = match message.method() {
            Some(method::INITIALIZE) => Ask::Initialize(message.params.map(ToOwned::to_owned)),
            Some(
                method::THREAD_START | method::THREAD_RESUME | method::THREAD_FORK | method::THREAD_IMPORT,
            ) => {
                if let Some(OfThread { thread_id }) = message.params_as()
                    && let Some(followed) = self.threads.get_mut(thread_id)
                {
                    // It asks for everything, so it is to get everything.
                    followed.echo = false;
                }
                Ask::Follow
            }
            Some(method::THREAD_UNSUBSCRIBE) => {
                message.params_as::<OfThread<'_>>().map_or(Ask::Other, |of| Ask::Leave(of.thread_id.into()))
            }
            _ => Ask::Other,
        };
        Some(Asked { id: id.into(), ask })
    }

    fn response(&mut self, message: &Envelope<'_>) -> Way {
        let Some(id) = message.id.and_then(|id| look::plain(id.get())) else { return Way::On };
        for followed in self.threads.values_mut() {
            followed.answered(id);
        }
        let Some(at) = self.gone.iter().position(|(gone, _)| &**gone == id) else { return Way::On };
        let Some((_, thread)) = self.gone.remove(at) else { return Way::On };
        self.warn_late(id, &thread);
        Way::Kept
    }

    /// As the server says it of an answer that comes too late.
    fn warn_late(&mut self, id: &str, thread: &str) {
        let wants = self
            .handshake
            .as_ref()
            .is_some_and(|handshake| handshake.opted_out.iter().all(|method| method != method::WARNING));
        let Some(followed) = self.threads.get_mut(thread).filter(|_| wants) else { return };
        let mut params = Map::new();
        params.insert("threadId".to_owned(), thread.into());
        let message =
            format!("The answer to approval {id} came too late: the server that asked has ended meanwhile.");
        params.insert("message".to_owned(), message.into());
        let place = (followed.seq, followed.next_cursor());
        self.to_client.push(told::notification(method::WARNING, params, place, (self.now_ms)()));
    }

    // ---- The server's frames ----

    /// A frame of the server.
    pub(super) fn server(&mut self, frame: &Bytes) -> Way {
        if matches!(self.phase, Phase::LookingUp { .. }) && !self.is_own(frame) {
            self.hold(frame);
            return Way::Kept;
        }
        self.heard(frame)
    }

    fn heard(&mut self, frame: &Bytes) -> Way {
        if let Some(delta) = look::delta(frame) {
            match self.threads.get_mut(delta.thread) {
                Some(followed) if followed.cut.is_empty() => {
                    followed.passed(delta.cursor);
                    return Way::On;
                }
                None => return Way::On,
                Some(_) => {}
            }
        }
        if let Some(id) = look::answered(frame) {
            return self.answer(id, frame);
        }
        match look::look(frame) {
            Look::One(message) => match (message.has_method(), message.id) {
                (true, Some(id)) => self.server_request(id.get(), &message),
                (true, None) => self.notification(&message),
                (false, Some(id)) => self.answer(id.get(), frame),
                (false, None) => Way::On,
            },
            Look::Batch(answers) => {
                self.batch_answer(&answers);
                Way::On
            }
            Look::Unclear => Way::On,
        }
    }

    fn is_own(&self, frame: &[u8]) -> bool {
        look::answered(frame).and_then(look::plain).is_some_and(|id| id.starts_with(OWN))
    }

    fn answer(&mut self, id: &str, frame: &Bytes) -> Way {
        if let Some(own) = look::plain(id).filter(|id| id.starts_with(OWN)) {
            let own = own.to_owned();
            self.own_answer(&own, frame);
            return Way::Kept;
        }
        let Some(flight) = self.flights.land(id, false) else { return Way::On };
        let Some(asked) = flight.requests.first() else { return Way::On };
        if matches!(asked.ask, Ask::Other) {
            return Way::On;
        }
        let Look::One(message) = look::look(frame) else { return Way::On };
        self.learns(&asked.ask, &message);
        if matches!(asked.ask, Ask::Initialize(_))
            && let Some(version) = &self.version
            && let Some(answer) = told::with_bridge_version(frame, version)
        {
            self.to_client.push(answer);
            return Way::Kept;
        }
        Way::On
    }

    fn batch_answer(&mut self, answers: &[Envelope<'_>]) {
        let ids = || answers.iter().filter_map(|answer| answer.id.map(RawValue::get));
        let Some(flight) = ids().find_map(|id| self.flights.land(id, true)) else { return };
        for asked in &flight.requests {
            if matches!(asked.ask, Ask::Other) {
                continue;
            }
            let answer = answers.iter().find(|answer| answer.id.is_some_and(|id| *id.get() == *asked.id));
            if let Some(answer) = answer {
                self.learns(&asked.ask, answer);
            }
        }
    }

    /// A request was answered.
    fn learns(&mut self, ask: &Ask, answer: &Envelope<'_>) {
        let Some(result) = answer.result.filter(|_| answer.error.is_none_or(|error| error.get() == "null"))
        else {
            return;
        };
        match ask {
            Ask::Initialize(params) => self.handshake = Some(Handshake::read(params.as_deref())),
            Ask::Leave(thread) => drop(self.threads.remove(&**thread)),
            Ask::Other => {}
            Ask::Follow => {
                let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
                let Some(thread) = result["thread"]["id"].as_str() else { return };
                if result["continued"] == true && self.threads.contains_key(thread) {
                    return;
                }
                // What still waits is asked again.
                self.threads.insert(thread.to_owned(), Followed::joined(&result));
            }
        }
    }

    fn server_request(&mut self, id: &str, message: &Envelope<'_>) -> Way {
        let known = message
            .params_as::<OfThread<'_>>()
            .and_then(|of| self.threads.get_mut(of.thread_id))
            .zip(look::plain(id));
        let Some((followed, id)) = known else { return Way::On };
        if !followed.asked(id) && followed.echo { Way::Kept } else { Way::On }
    }

    fn notification(&mut self, message: &Envelope<'_>) -> Way {
        let (Some(method), Some(told)) = (message.method(), message.params_as::<Told<'_>>()) else {
            return Way::On;
        };
        let Some(thread) = told.thread_id else { return Way::On };
        let Some(followed) = self.threads.get_mut(thread) else { return Way::On };
        if !followed.told(method, &told) {
            return Way::Kept;
        }
        if matches!(method, method::THREAD_CLOSED | method::THREAD_DELETED) {
            self.threads.remove(thread);
        }
        Way::On
    }

    // ---- Between two servers ----

    /// The server is gone: what is on its way is answered, but for a handshake, which can still be made with the next one.
    pub(super) fn broken(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        drop(held);
        self.to_server.clear();
        self.to_join.clear();
        self.phase = Phase::Away;
        let failed = if self.handshake.is_some() { self.flights.fail_all() } else { self.flights.fail() };
        self.to_client.extend(failed.iter().map(told::unanswered));
    }

    /// There will be no other server: everything that is on its way is answered.
    pub(super) fn given_up(&mut self) {
        self.broken();
        let failed = self.flights.fail_all();
        self.to_client.extend(failed.iter().map(told::unanswered));
    }

    /// There is another server.
    pub(super) fn reconnected(&mut self) {
        self.to_join = self.threads.keys().cloned().collect();
        let Some(handshake) = &self.handshake else {
            if let Some((id, params)) = self.flights.handshake() {
                self.to_server.extend(told::initialize(id, params));
                if self.initialized {
                    self.to_server.push(told::initialized());
                }
            }
            self.phase = Phase::Live;
            return;
        };
        let params = handshake.params.clone();
        let id = self.id();
        self.to_server.extend(told::initialize(&format!("\"{id}\""), params.as_deref()));
        self.phase = Phase::Greeting(id);
    }

    fn own_answer(&mut self, id: &str, frame: &Bytes) {
        let Look::One(answer) = look::look(frame) else { return };
        match std::mem::take(&mut self.phase) {
            Phase::Greeting(asked) if asked == id => {
                if let Some(error) = answer.error {
                    self.phase = Phase::Refused(error.get().to_owned());
                    return;
                }
                if self.initialized {
                    self.to_server.push(told::initialized());
                }
                self.join_next();
            }
            Phase::Joining { id: asked, thread } if asked == id => {
                match answer.result_as::<Value>().filter(|_| answer.error.is_none()) {
                    Some(result) => self.joined(thread, result),
                    None => {
                        tracing::warn!(
                            thread,
                            error = answer.error.map(RawValue::get).unwrap_or_default(),
                            "a thread cannot be followed any more"
                        );
                        self.tell(&thread, |owed| owed.tell_gone());
                        self.threads.remove(&thread);
                        self.join_next();
                    }
                }
            }
            Phase::LookingUp { id: asked, thread, mut found, mut wanted } if asked == id => {
                if let Some(wanted) = wanted.pop_front() {
                    take_in(&mut found, &wanted, &answer.result_as::<Value>().unwrap_or_default());
                }
                self.look_up(thread, found, wanted);
            }
            other => self.phase = other,
        }
    }

    fn join_next(&mut self) {
        let resync = self.handshake.as_ref().is_some_and(|handshake| handshake.resync);
        while let Some(thread) = self.to_join.pop_front() {
            if resync {
                self.tell(&thread, |owed| owed.tell_resync(RESTARTED));
                self.threads.remove(&thread);
                continue;
            }
            let Some(followed) = self.threads.get(&thread) else { continue };
            let mut params = json!({ "threadId": thread });
            if !followed.cursor.is_empty() {
                params["afterCursor"] = followed.cursor.as_str().into();
            }
            let id = self.id();
            self.to_server.push(told::request(&id, method::THREAD_RESUME, &params));
            self.phase = Phase::Joining { id, thread };
            return;
        }
        self.phase = Phase::Live;
    }

    fn joined(&mut self, thread: String, result: Value) {
        let Some(followed) = self.threads.get_mut(&thread) else { return self.join_next() };
        followed.echo = true;
        if result["continued"] == true {
            // The server goes on where it was.
            return self.join_next();
        }
        let found = Found { result, ..Found::default() };
        let mut wanted: VecDeque<Wanted> = found
            .missing_items(followed)
            .into_iter()
            .take(LOOKED_UP)
            .map(|(number, turn)| Wanted::Item { number, turn })
            .collect();
        if found.misses_turn(followed)
            && let Some(turn) = followed.open_turn.clone()
        {
            wanted.push_back(Wanted::Turn(turn));
        }
        self.look_up(thread, found, wanted);
    }

    fn look_up(&mut self, thread: String, found: Found, wanted: VecDeque<Wanted>) {
        let next = wanted.front().filter(|_| self.held_bytes <= HELD_BYTES);
        let Some(next) = next else { return self.tell_found(&thread, &found) };
        let (method, params) = match next {
            Wanted::Item { number, turn } => {
                let anchor = json!({ "type": "item", "itemId": format!("i{number}") });
                let params = json!({
                    "threadId": thread, "turnId": turn, "cursor": anchor, "sortDirection": "asc", "limit": 1,
                });
                (method::THREAD_ITEMS_LIST, params)
            }
            Wanted::Turn(_) => {
                let params = json!({ "threadId": thread, "itemsView": "notLoaded", "limit": 200 });
                (method::THREAD_TURNS_LIST, params)
            }
        };
        let id = self.id();
        self.to_server.push(told::request(&id, method, &params));
        self.phase = Phase::LookingUp { id, thread, found, wanted };
    }

    fn tell_found(&mut self, thread: &str, found: &Found) {
        self.tell(thread, |owed| owed.tell(found));
        if let Some(followed) = self.threads.get_mut(thread) {
            followed.is_now(&found.result);
        }
        self.join_next();
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        for frame in held {
            if self.heard(&frame) == Way::On {
                self.to_client.push(frame);
            }
        }
    }

    fn tell(&mut self, thread: &str, tell: impl FnOnce(&mut Owed<'_>)) {
        let Some(known) = self.threads.get_mut(thread) else { return };
        let before: Vec<Box<str>> = known.pending.clone();
        let opted_out = self.handshake.as_ref().map(|handshake| handshake.opted_out.as_slice());
        let opted_out = opted_out.unwrap_or_default();
        let mut owed =
            Owed { thread, known: &mut *known, opted_out, now_ms: (self.now_ms)(), told: Vec::new() };
        tell(&mut owed);
        self.to_client.append(&mut owed.told);
        for id in before.into_iter().filter(|id| !known.pending.contains(id)) {
            if self.gone.len() == GONE {
                self.gone.pop_front();
            }
            self.gone.push_back((id, thread.to_owned()));
        }
    }

    fn hold(&mut self, frame: &Bytes) {
        self.held_bytes += frame.len();
        self.held.push(frame.clone());
        if self.held_bytes > HELD_BYTES
            && let Phase::LookingUp { thread, found, .. } = std::mem::take(&mut self.phase)
        {
            // Rather an end that is told without all its details than memory without a bound.
            self.tell_found(&thread, &found);
        }
    }

    fn id(&mut self) -> String {
        self.next_id += 1;
        format!("{OWN}{}", self.next_id)
    }
}

impl Handshake {
    fn read(params: Option<&RawValue>) -> Self {
        let outline = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let InitializeOutline { capabilities } = outline.unwrap_or_default();
        let Capabilities { opt_out_notification_methods, resync } = capabilities.unwrap_or_default();
        Self {
            params: params.map(ToOwned::to_owned),
            opted_out: opt_out_notification_methods.unwrap_or_default(),
            resync: resync.unwrap_or_default(),
        }
    }
}

fn take_in(found: &mut Found, wanted: &Wanted, page: &Value) {
    let data = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    match wanted {
        Wanted::Item { number, .. } => {
            let item = data.first().map(|entry| &entry["item"]);
            if let Some(item) = item.filter(|item| item["id"] == format!("i{number}")) {
                found.items.insert(*number, item.clone());
            }
        }
        Wanted::Turn(turn) => found.turn = data.iter().find(|one| one["id"] == **turn).cloned(),
    }
}
