//! The methods on sessions beside the prompt: opening, telling again, copying, listing, closing, choosing.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    agent::{Agent, Handled, Reply, is_busy},
    options::Start,
    peer::{AUTH_REQUIRED, INTERNAL, NOT_FOUND, RpcError},
    session::{Busy, Kept, Session},
};

/// Entries of one page of a listing.
const PAGE: usize = 50;
/// Sessions that one process holds at a time.
const MAX_SESSIONS: usize = 1000;

impl Agent {
    pub(crate) fn new_session(&self, params: &Value) -> Handled {
        self.may_open()?;
        let cwd = folder(params)?;
        servers(params)?;
        self.has_room()?;
        let session = Session::fresh(Uuid::now_v7().to_string(), cwd);
        session.save(&self.memory);
        let mut result = choices(&session);
        result["sessionId"] = json!(&*session.id);
        self.sessions.lock().insert(session.id.to_string(), session);
        Ok(Reply::Now(result))
    }

    /// Tells the conversation again, then answers; or the other way round.
    pub(crate) fn load(self: &Arc<Self>, id: &Value, params: &Value) -> Handled {
        servers(params)?;
        let session = self.reopen(params)?;
        let busy = Busy::new(id.clone(), &self.closing);
        if !session.begin(busy.clone()) {
            return Err(is_busy());
        }
        let (agent, id) = (self.clone(), id.clone());
        let late = self.start == Start::LateLoad;
        self.turns.spawn(async move {
            if late {
                agent.answer(&id, Ok(choices(&session))).await;
            }
            let (mut updates, title) =
                session.with(|kept| (kept.history.replay().collect::<Vec<_>>(), kept.title.clone()));
            updates
                .extend(title.map(|title| json!({"sessionUpdate": "session_info_update", "title": title})));
            for update in updates {
                let told = tokio::select! {
                    told = agent.peer.update(&session.id, &update) => told.is_ok(),
                    () = busy.kill.cancelled() => false,
                };
                if !told {
                    break;
                }
            }
            session.end();
            if !late {
                agent.answer(&id, Ok(choices(&session))).await;
            }
            busy.done.cancel();
        });
        Ok(Reply::Later)
    }

    pub(crate) fn resume(&self, params: &Value) -> Handled {
        let session = self.reopen(params)?;
        Ok(Reply::Now(choices(&session)))
    }

    /// Whether a conversation can be copied: a copy is for another process, which has to find it.
    pub(crate) fn can_fork(&self) -> bool {
        self.memory.keeps() && self.start != Start::NoFork
    }

    /// Copies a conversation: another session with the same memory.
    pub(crate) fn fork(&self, params: &Value) -> Handled {
        self.may_open()?;
        if self.start == Start::FailFork {
            return Err(RpcError::new(INTERNAL, "no copy, as asked by SIGNALBOX_REHEARSAL_START"));
        }
        let cwd = folder(params)?;
        let id = session_id(params)?;
        let mut kept = match self.known(id) {
            Some(session) if session.busy().is_some() => return Err(is_busy()),
            Some(session) => session.with(|kept| kept.clone()),
            None => self.kept(id)?,
        };
        kept.cwd = cwd;
        self.has_room()?;
        let copy = Session::new(Uuid::now_v7().to_string(), kept);
        copy.save(&self.memory);
        let mut result = choices(&copy);
        result["sessionId"] = json!(&*copy.id);
        self.sessions.lock().insert(copy.id.to_string(), copy);
        Ok(Reply::Now(result))
    }

    /// Forgets a session for good. One that is busy has to be cancelled or closed first; one that is not there is gone already.
    pub(crate) fn delete(&self, params: &Value) -> Handled {
        let id = session_id(params)?;
        if self.known(id).is_some_and(|session| session.busy().is_some()) {
            return Err(is_busy());
        }
        self.sessions.lock().remove(id);
        self.memory.remove(id).map_err(|error| {
            tracing::warn!(%error, "a kept conversation cannot be removed");
            RpcError::new(INTERNAL, "the session's file cannot be removed")
        })?;
        Ok(Reply::Now(json!({})))
    }

    pub(crate) fn list(&self, params: &Value) -> Handled {
        if self.start == Start::Auth {
            self.may_open()?;
        }
        let cwd = params["cwd"].as_str().map(PathBuf::from);
        let cursor = params["cursor"].as_str().map(str::to_owned);
        let open: HashMap<String, Session> = self.sessions.lock().clone();
        let mut ids = self.memory.ids();
        ids.extend(
            open.keys().filter(|id| !self.memory.keeps() || !ids.contains(id)).cloned().collect::<Vec<_>>(),
        );
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        let mut page = Vec::new();
        let mut next = None;
        for id in ids.into_iter().filter(|id| cursor.as_ref().is_none_or(|cursor| id < cursor)) {
            let listed = match open.get(&id) {
                Some(session) => Some(session.listed()),
                None => match self.memory.load(&id) {
                    Ok(kept) => kept.map(|kept| kept.listed(&id)),
                    Err(error) => {
                        tracing::warn!(%error, "a kept conversation cannot be read");
                        None
                    }
                },
            };
            let Some(listed) = listed.filter(|listed| cwd.as_ref().is_none_or(|cwd| *cwd == listed.cwd))
            else {
                continue;
            };
            if page.len() == PAGE {
                next = page.last().map(|last: &Value| last["sessionId"].clone());
                break;
            }
            let mut entry = json!({"sessionId": listed.id, "cwd": listed.cwd});
            if let Some(title) = listed.title {
                entry["title"] = json!(title);
            }
            page.push(entry);
        }
        let mut result = json!({"sessions": page});
        if let Some(next) = next {
            result["nextCursor"] = next;
        }
        Ok(Reply::Now(result))
    }

    /// Ends what runs in the session, however deaf, and forgets it. Its file stays.
    pub(crate) fn close(self: &Arc<Self>, id: &Value, params: &Value) -> Handled {
        let session = self.session(params)?;
        self.sessions.lock().remove(&*session.id);
        let Some(busy) = session.busy() else { return Ok(Reply::Now(json!({}))) };
        busy.kill.cancel();
        let (agent, id) = (self.clone(), id.clone());
        self.turns.spawn(async move {
            busy.done.cancelled().await;
            agent.answer(&id, Ok(json!({}))).await;
        });
        Ok(Reply::Later)
    }

    pub(crate) fn set_mode(&self, params: &Value) -> Handled {
        let session = self.session(params)?;
        let mode = params["modeId"].as_str().ok_or_else(|| RpcError::params("`modeId` is missing"))?;
        session.with(|kept| kept.config.set_mode(mode))?;
        session.save(&self.memory);
        let options = session.with(|kept| kept.config.options());
        let updates = vec![
            (session.id.to_string(), json!({"sessionUpdate": "current_mode_update", "currentModeId": mode})),
            (
                session.id.to_string(),
                json!({"sessionUpdate": "config_option_update", "configOptions": options}),
            ),
        ];
        Ok(Reply::Then(json!({}), updates))
    }

    pub(crate) fn set_config_option(&self, params: &Value) -> Handled {
        let session = self.session(params)?;
        let (Some(option), Some(value)) = (params["configId"].as_str(), params["value"].as_str()) else {
            return Err(RpcError::params("`configId` and `value` must be strings"));
        };
        session.with(|kept| kept.config.set(option, value))?;
        session.save(&self.memory);
        let (options, mode) = session.with(|kept| (kept.config.options(), kept.config.mode_id()));
        let updates = if option == "mode" {
            let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
            vec![(session.id.to_string(), update)]
        } else {
            Vec::new()
        };
        Ok(Reply::Then(json!({"configOptions": options}), updates))
    }

    /// Sets an option once no turn runs.
    pub(crate) fn choose_late(self: &Arc<Self>, id: &Value, params: &Value) -> Handled {
        let Some(busy) = self.session(params)?.busy() else { return self.set_config_option(params) };
        let (agent, id, params) = (self.clone(), id.clone(), params.clone());
        self.turns.spawn(async move {
            busy.done.cancelled().await;
            agent.reply(&id, agent.set_config_option(&params)).await;
        });
        Ok(Reply::Later)
    }

    /// The session of a load or resume: one of this process, or one that was kept.
    pub(crate) fn reopen(&self, params: &Value) -> Result<Session, RpcError> {
        self.may_open()?;
        let cwd = folder(params)?;
        let id = session_id(params)?;
        let session = match self.known(id) {
            Some(session) => session,
            None => Session::new(id.to_owned(), self.kept(id)?),
        };
        if session.busy().is_some() {
            return Err(is_busy());
        }
        session.with(|kept| kept.cwd = cwd);
        self.sessions.lock().insert(id.to_owned(), session.clone());
        Ok(session)
    }

    /// A conversation of an earlier process.
    fn kept(&self, id: &str) -> Result<Kept, RpcError> {
        let kept = self.memory.load(id).map_err(|error| {
            tracing::warn!(%error, "a kept conversation cannot be read");
            RpcError::new(INTERNAL, "the session's file cannot be read")
        })?;
        kept.ok_or_else(|| not_found(id))
    }

    fn has_room(&self) -> Result<(), RpcError> {
        if self.sessions.lock().len() >= MAX_SESSIONS {
            return Err(RpcError::new(INTERNAL, "too many sessions are open in this process"));
        }
        Ok(())
    }

    pub(crate) fn known(&self, id: &str) -> Option<Session> {
        self.sessions.lock().get(id).cloned()
    }

    pub(crate) fn session(&self, params: &Value) -> Result<Session, RpcError> {
        let id = session_id(params)?;
        self.known(id).ok_or_else(|| not_found(id))
    }

    pub(crate) fn may_open(&self) -> Result<(), RpcError> {
        match self.start {
            Start::NoNew => Err(RpcError::new(INTERNAL, "no session, as asked by SIGNALBOX_REHEARSAL_START")),
            Start::Auth => Err(RpcError::new(AUTH_REQUIRED, "Authentication required")),
            _ => Ok(()),
        }
    }
}

fn choices(session: &Session) -> Value {
    session.with(|kept| json!({"configOptions": kept.config.options(), "modes": kept.config.modes()}))
}

fn session_id(params: &Value) -> Result<&str, RpcError> {
    params["sessionId"].as_str().ok_or_else(|| RpcError::params("`sessionId` is missing"))
}

/// `cwd`, which must be an existing folder's absolute path.
fn folder(params: &Value) -> Result<PathBuf, RpcError> {
    let cwd = params["cwd"].as_str().ok_or_else(|| RpcError::params("`cwd` is missing"))?;
    let cwd = PathBuf::from(cwd);
    if !cwd.is_absolute() {
        return Err(RpcError::params(format!("`cwd` must be absolute: {}", cwd.display())));
    }
    if !cwd.is_dir() {
        return Err(RpcError::params(format!("`cwd` is no folder: {}", cwd.display())));
    }
    Ok(cwd)
}

/// `mcpServers` is required by ACP v1, and most agents insist on it.
fn servers(params: &Value) -> Result<(), RpcError> {
    if params["mcpServers"].is_array() {
        return Ok(());
    }
    Err(RpcError::params("`mcpServers` must be a list; it may be empty"))
}

fn not_found(id: &str) -> RpcError {
    RpcError::new(NOT_FOUND, format!("session not found: {id}"))
}
