//! A short visit to an agent: it is started without a session, asked for its own ones, perhaps has one opened, and stops.

use std::path::PathBuf;

use crate::event::{AgentEvent, AgentFailure, AgentInfo, FailureReason};
use crate::handle::{Agent, ListRequest, Request, Token, launch};
use crate::listed::SessionPage;
use crate::queue::AgentEvents;
use crate::spec::{LaunchSpec, Limits, OpenSession};
use crate::supervisor::Supervisor;

/// An agent that was started without a session. When it is dropped, the agent is stopped.
#[derive(Debug)]
pub struct Visit {
    agent: Agent,
    events: AgentEvents,
    info: AgentInfo,
    next_token: u64,
}

impl Visit {
    /// Starts an agent and waits until it has introduced itself: at most [`Limits::initialize`], and where it has to be
    /// logged in by us [`Limits::session`]. It runs under `supervisor`.
    ///
    /// # Errors
    /// It cannot be started, or wants a login.
    pub async fn begin(
        spec: LaunchSpec,
        limits: Limits,
        supervisor: &Supervisor,
    ) -> Result<Self, Box<AgentFailure>> {
        let (agent, mut events) = launch(spec, None, limits, supervisor);
        let info = next(&agent, &mut events, |event| match event {
            AgentEvent::Met(info) => Some(*info),
            _ => None,
        });
        let info = info.await?;
        Ok(Self { agent, events, info, next_token: 0 })
    }

    /// What the agent has told of itself. Nothing of it is about a session.
    #[must_use]
    pub fn info(&self) -> &AgentInfo {
        &self.info
    }

    /// A page of the agent's own sessions, of one directory or of all, from a cursor of an earlier page on. Waits for at
    /// most [`Limits::session`].
    ///
    /// # Errors
    /// The agent does not list ([`AgentInfo::can_list`]), answers with an error, or is gone.
    pub async fn list(
        &mut self,
        cwd: Option<PathBuf>,
        cursor: Option<String>,
    ) -> Result<SessionPage, Box<AgentFailure>> {
        let own = self.token();
        self.send(Request::List(own, ListRequest { cwd, cursor }))?;
        let listed = next(&self.agent, &mut self.events, |event| match event {
            AgentEvent::Listed { token, result } if token == own => Some(result),
            _ => None,
        });
        listed.await?
    }

    /// Has the agent delete one of its own sessions. Waits for at most [`Limits::session`].
    ///
    /// # Errors
    /// The agent does not delete ([`AgentInfo::can_delete`]), answers with an error, or is gone.
    pub async fn delete(&mut self, session: String) -> Result<(), Box<AgentFailure>> {
        let own = self.token();
        self.send(Request::DeleteSession(own, session))?;
        let deleted = next(&self.agent, &mut self.events, |event| match event {
            AgentEvent::SessionDeleted { token, result } if token == own => Some(result),
            _ => None,
        });
        deleted.await?
    }

    /// Opens a session; what follows are the events of [`crate::start`].
    ///
    /// # Errors
    /// The agent is gone.
    pub fn open(self, open: OpenSession) -> Result<(Agent, AgentEvents), Box<AgentFailure>> {
        self.send(Request::Open(Box::new(open)))?;
        Ok((self.agent, self.events))
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    fn send(&self, request: Request) -> Result<(), Box<AgentFailure>> {
        self.agent.send(request).map_err(|error| {
            Box::new(AgentFailure::new(
                FailureReason::AgentFailed,
                format!("the agent is not there: {error}"),
            ))
        })
    }
}

/// The next event that is wanted; what else the agent says without a session means nothing, and what it asks is
/// dismissed.
async fn next<T>(
    agent: &Agent,
    events: &mut AgentEvents,
    wanted: impl Fn(AgentEvent) -> Option<T>,
) -> Result<T, Box<AgentFailure>> {
    while let Some(some) = events.recv().await {
        for event in some {
            if let AgentEvent::StartFailed(failure) | AgentEvent::Exited(failure) = event {
                return Err(failure);
            }
            dismiss_request(agent, &event);
            if let Some(found) = wanted(event) {
                return Ok(found);
            }
        }
    }
    Err(Box::new(AgentFailure::new(FailureReason::AgentFailed, "the agent has ended")))
}

/// Nobody is there to answer what an agent asks while it is only visited or looked at: it is dismissed at once, so that
/// the agent goes on. Other events are left alone.
pub fn dismiss_request(agent: &Agent, event: &AgentEvent) {
    let (AgentEvent::Permission { key, .. } | AgentEvent::Elicitation { key, .. }) = event else { return };
    if let Err(error) = agent.dismiss(*key) {
        tracing::debug!(%error, "a question of an agent that ends is not answered");
    }
}
