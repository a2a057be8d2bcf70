//! The one loop of `signalbox run`: events of the server, lines of somebody at the terminal, signals.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use signalbox_client::{CallError, Client, Event, Events, Notification, Request};
use signalbox_protocol::app::{
    Approval, ApprovalRespondParams, CwdFilter, ServerNotification, ServerRequest,
    ServerRequestResolvedNotification, ThreadListParams, ThreadResumeParams, ThreadSortKey,
    ThreadStartParams, TurnInterruptParams, TurnStartMode, TurnStartParams, TurnStatus, UserInput,
};
use signalbox_protocol::ops::{PermissionMode, Policy, ResolverKind, SandboxLevel};
use signalbox_server::Signals;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::RunError;
use super::ask::{self, Asking, Step};
use super::diff;
use super::keyboard::Keyboard;
use super::screen::{BOLD, Block, DIM, QUIET, Screen};
use super::view::View;
use crate::args::{PolicyArg, RunArgs};

/// The name under which threads of this command are listed as its own.
const CLIENT_NAME: &str = "signalbox-run";
/// How long a turn that is left may take to be interrupted.
const ABANDON: Duration = Duration::from_secs(2);

/// How watching a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The turn ended so. In progress: it was left.
    Turn(TurnStatus),
    /// Nobody reads the output any more.
    Unread,
}

/// A turn under way.
pub(super) struct Session {
    client: Client,
    events: Events,
    thread: String,
    turn: String,
    face: Face,
    keyboard: Option<Keyboard>,
    /// Approvals by id, as records.
    approvals: HashMap<String, Approval>,
    /// What waits to be asked, behind what is being asked.
    waiting: VecDeque<Request>,
    asking: Option<Asking>,
    /// The question is on the screen, and nothing below it.
    asked: bool,
    /// What was asked and answered; if the answer is refused it is asked again.
    answered: HashMap<String, Request>,
    /// Calls on their way; those that answer something with the approval's id.
    calls: JoinSet<Result<(), (Option<String>, CallError)>>,
    interrupts: usize,
    /// The turn has ended.
    ended: bool,
    is_rehearsal: bool,
    cwd: String,
    policy: PolicyArg,
}

/// What is shown, and how.
enum Face {
    People(Box<View>),
    Json(Box<dyn Write + Send>),
}

/// Something that the loop has waited for.
enum Happened {
    Event(Option<Event>),
    Typed(io::Result<Option<String>>),
    Called(Result<(), (Option<String>, CallError)>),
    Signal,
    Quiet,
}

impl Session {
    /// Shakes hands, starts the thread and the turn.
    pub(super) async fn open(
        client: Client,
        events: Events,
        args: RunArgs,
        cwd: PathBuf,
        warnings: &[String],
    ) -> Result<Self, RunError> {
        client.initialize(CLIENT_NAME, env!("CARGO_PKG_VERSION")).await?;
        let policy = Policy {
            mode: PermissionMode::from(args.policy),
            sandbox: SandboxLevel::WorkspaceWrite,
            never_ask: false,
        };
        let thread = match args.thread.clone() {
            None if args.last => Some(newest(&client, &cwd).await?),
            named => named,
        };
        let opened = match thread {
            Some(thread_id) => {
                let resume = ThreadResumeParams {
                    thread_id,
                    model: args.model.clone(),
                    policy: Some(policy),
                    exclude_turns: true,
                    ..ThreadResumeParams::default()
                };
                client.thread_resume(&resume).await?.opened
            }
            None => {
                let start = ThreadStartParams {
                    model_provider: args.provider.clone(),
                    model: args.model.clone(),
                    cwd: Some(cwd.display().to_string()),
                    policy: Some(policy),
                    ..ThreadStartParams::default()
                };
                client.thread_start(&start).await?.opened
            }
        };
        let thread = opened.thread.id.clone();
        let is_rehearsal = args.provider.is_none() && opened.model_provider == signalbox_server::REHEARSAL;

        let at_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
        let keyboard = match at_terminal && !args.json {
            true => Keyboard::open().map_err(RunError::Terminal)?,
            false => None,
        };
        let mut face = match args.json {
            true => Face::Json(Box::new(io::stdout())),
            false => {
                let out = Box::new(anstream::AutoStream::auto(io::stdout()));
                let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
                let may_spin = io::stdout().is_terminal() && io::stderr().is_terminal() && !is_dumb;
                let screen = Screen::new(out, columns(), may_spin);
                Face::People(Box::new(View::new(screen, &opened.cwd)))
            }
        };
        face.greet(&opened.model_provider, &opened.cwd, args.policy).map_err(RunError::Output)?;
        for warning in warnings {
            face.notice(warning).map_err(RunError::Output)?;
        }

        let input = vec![UserInput::Text { text: args.prompt, text_elements: Vec::new() }];
        let start = TurnStartParams {
            thread_id: thread.clone(),
            input,
            mode: Some(TurnStartMode::Start),
            ..TurnStartParams::default()
        };
        let turn = client.turn_start(&start).await?.turn.id;
        let (cwd, policy) = (opened.cwd, args.policy);
        Ok(Self {
            cwd,
            policy,
            client,
            events,
            thread,
            turn,
            face,
            keyboard,
            approvals: HashMap::new(),
            waiting: VecDeque::new(),
            asking: None,
            asked: false,
            answered: HashMap::new(),
            calls: JoinSet::new(),
            interrupts: 0,
            ended: false,
            is_rehearsal,
        })
    }

    /// Shows the turn until it ends, puts its questions, interrupts it when asked to. A turn that is left is interrupted too:
    /// nobody has asked for one that goes on alone.
    pub(super) async fn watch(mut self, signals: &mut Signals) -> Result<Ending, RunError> {
        let ending = self.until_end(signals).await;
        if !self.ended {
            self.abandon().await;
        }
        ending
    }

    /// Has the turn interrupted whose end nobody waits for.
    pub(super) async fn abandon(self) {
        let Self { client, events, thread: thread_id, turn: turn_id, .. } = self;
        // Nobody reads them any more, and an answer must not wait behind them.
        drop(events);
        let params = TurnInterruptParams { thread_id, turn_id };
        match tokio::time::timeout(ABANDON, client.turn_interrupt(&params)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::info!(%error, "the turn was left and not interrupted"),
            Err(_) => tracing::info!("the turn was left; whether it was interrupted is not known"),
        }
    }

    async fn until_end(&mut self, signals: &mut Signals) -> Result<Ending, RunError> {
        let mut quiet_from = Instant::now();
        loop {
            let happened = self.happens(signals, quiet_from).await;
            if !matches!(happened, Happened::Quiet) {
                quiet_from = Instant::now();
            }
            match self.handle(happened).await {
                Ok(None) => {}
                Ok(Some(ending)) => return Ok(ending),
                Err(RunError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(Ending::Unread);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn happens(&mut self, signals: &mut Signals, quiet_from: Instant) -> Happened {
        let restless = match &self.face {
            Face::People(_) if self.asking.is_some() => (!self.asked).then(|| quiet_from + QUIET),
            Face::People(view) => view.screen.restless(quiet_from),
            Face::Json(_) => None,
        };
        let typed = async {
            match &mut self.keyboard {
                Some(keyboard) if self.asked => keyboard.line().await,
                _ => pending().await,
            }
        };
        let called = async {
            match self.calls.join_next().await {
                Some(Ok(result)) => result,
                // No call panics, and none is aborted.
                Some(Err(_)) => Ok(()),
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = signals.next() => Happened::Signal,
            event = self.events.next() => Happened::Event(event),
            line = typed => Happened::Typed(line),
            result = called => Happened::Called(result),
            () = tokio::time::sleep_until(restless.unwrap_or(quiet_from)), if restless.is_some() => Happened::Quiet,
        }
    }

    async fn handle(&mut self, happened: Happened) -> Result<Option<Ending>, RunError> {
        match happened {
            Happened::Event(Some(Event::Notification(told))) => return self.told(*told),
            Happened::Event(Some(Event::Request(request))) => self.requested(*request)?,
            Happened::Event(Some(Event::Unreadable(strange))) => {
                tracing::warn!(
                    method = strange.method,
                    problem = strange.problem,
                    "an event that cannot be read"
                );
            }
            Happened::Event(None) => {
                // So that what ends the command does not begin in the middle of a line.
                if let Face::People(view) = &mut self.face {
                    view.notice("The connection to the server is gone.").map_err(RunError::Output)?;
                }
                return Err(RunError::ServerGone);
            }
            Happened::Typed(line) => self.typed(line)?,
            Happened::Called(Ok(())) => {}
            Happened::Called(Err((approval, error))) => self.failed(approval, &error)?,
            Happened::Signal => return self.interrupt(),
            Happened::Quiet if self.asking.is_some() => self.put_question(false)?,
            Happened::Quiet => {
                if let Face::People(view) = &mut self.face {
                    view.idle().map_err(RunError::Output)?;
                }
            }
        }
        Ok(None)
    }

    fn told(&mut self, told: Notification) -> Result<Option<Ending>, RunError> {
        if let Face::Json(out) = &mut self.face {
            let written =
                out.write_all(&told.frame).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
            written.map_err(RunError::Output)?;
        }
        match &told.body {
            ServerNotification::ApprovalRequested(asked) => {
                self.approvals.insert(asked.approval.approval_id.clone(), asked.approval.clone());
            }
            ServerNotification::ServerRequestResolved(resolved) => {
                self.resolved(resolved, told.emitted_at_ms)?;
            }
            ServerNotification::TurnCompleted(ended) if ended.turn.id == self.turn => {
                self.ended = true;
                if let Face::People(view) = &mut self.face {
                    view.ended(&ended.turn).map_err(RunError::Output)?;
                    let goes_on = format!("Go on: signalbox run --thread {} \"…\"", self.thread);
                    view.aside(&goes_on).map_err(RunError::Output)?;
                    let completed = ended.turn.status == TurnStatus::Completed;
                    if completed && self.is_rehearsal && self.keyboard.is_some() {
                        view.aside("This was the built-in rehearsal agent. --provider NAME chooses a real one; `signalbox doctor` lists them.")
                            .map_err(RunError::Output)?;
                    }
                }
                return Ok(Some(Ending::Turn(ended.turn.status)));
            }
            _ => {}
        }
        if let Face::People(view) = &mut self.face {
            let before = view.screen.written();
            view.is_asking = self.asked;
            view.show(&told.body).map_err(RunError::Output)?;
            // What was shown lies below the question.
            self.asked = self.asked && view.screen.written() == before;
        }
        Ok(None)
    }

    fn requested(&mut self, request: Request) -> Result<(), RunError> {
        if self.keyboard.is_none() {
            return self.decline(&request.body);
        }
        self.waiting.push_back(request);
        if self.asking.is_none() {
            self.next_question()?;
        }
        Ok(())
    }

    /// Answers for somebody who is not there.
    fn decline(&mut self, request: &ServerRequest) -> Result<(), RunError> {
        let asking = Asking::new(request, self.approvals.get(request.approval_id()));
        let why = nobody(request, &self.cwd, self.policy);
        match &mut self.face {
            Face::People(view) => {
                let changes = match request {
                    ServerRequest::FileChangeApproval(params) => params.changes.as_slice(),
                    _ => &[],
                };
                let shown = match &asking.item {
                    Some(item) => view.show_again(item, changes).and_then(|()| view.declined(item, &why)),
                    None => view.notice(&format!("declined: {why}")),
                };
                shown.map_err(RunError::Output)?;
            }
            Face::Json(_) => {
                let title = super::clean::short(title_of(request), 80);
                crate::setup::complain(&format!("{title}: declined: {why}"));
            }
        }
        self.respond(ask::decline(request.approval_id()));
        Ok(())
    }

    fn respond(&mut self, answer: ApprovalRespondParams) {
        let client = self.client.clone();
        self.calls.spawn(async move {
            let answered = client.approval_respond(&answer).await;
            answered.map(drop).map_err(|error| (Some(answer.approval_id), error))
        });
    }

    /// A call has failed. An answer that was not taken leaves its question open, so it is put once more.
    fn failed(&mut self, approval: Option<String>, error: &CallError) -> Result<(), RunError> {
        self.notice(&error.to_string())?;
        let Some(request) = approval.as_ref().and_then(|id| self.answered.remove(id)) else { return Ok(()) };
        if error.reason() != Some("invalid_params") || self.keyboard.is_none() {
            return Ok(());
        }
        self.waiting.push_front(request);
        if self.asking.is_none() { self.next_question() } else { Ok(()) }
    }

    fn next_question(&mut self) -> Result<(), RunError> {
        self.asking = None;
        self.asked = false;
        let Some(request) = self.waiting.pop_front() else { return Ok(()) };
        let asking = Asking::new(&request.body, self.approvals.get(request.body.approval_id()));
        if let (Face::People(view), Some(item)) = (&mut self.face, &asking.item) {
            let changes = match &request.body {
                ServerRequest::FileChangeApproval(params) => params.changes.as_slice(),
                _ => &[],
            };
            view.show_again(item, changes).map_err(RunError::Output)?;
        }
        self.asking = Some(asking);
        self.answered.insert(request.body.approval_id().to_owned(), request);
        self.put_question(true)
    }

    /// Writes the question that is being asked; what was typed before it is forgotten.
    fn put_question(&mut self, whole: bool) -> Result<(), RunError> {
        let (Some(asking), Face::People(view), Some(keyboard)) =
            (&self.asking, &mut self.face, &mut self.keyboard)
        else {
            return Ok(());
        };
        if !whole && let Some(item) = &asking.item {
            view.show_again(item, &[]).map_err(RunError::Output)?;
        }
        if whole {
            // Before the question can be seen: what is typed from then on is meant.
            keyboard.forget();
        }
        let own_block = asking.item.is_none();
        view.question(&asking.lines(), &asking.prompt(), own_block).map_err(RunError::Output)?;
        self.asked = true;
        Ok(())
    }

    fn typed(&mut self, line: io::Result<Option<String>>) -> Result<(), RunError> {
        let line = line.map_err(RunError::Terminal)?;
        let Some(asking) = &mut self.asking else { return Ok(()) };
        let Some(line) = line else {
            // The end of input: nobody is there any more.
            self.keyboard = None;
            let open = std::iter::once(ask::decline(&asking.approval_id));
            let open: Vec<_> =
                open.chain(self.waiting.drain(..).map(|one| ask::decline(one.body.approval_id()))).collect();
            self.asking = None;
            open.into_iter().for_each(|answer| self.respond(answer));
            return self.notice("no input any more: what is asked from now on is declined");
        };
        if let Face::People(view) = &mut self.face {
            view.screen.typed();
        }
        match asking.answer(&line) {
            Step::Again(hint) => {
                if let Face::People(view) = &mut self.face {
                    view.screen.line(format_args!("{DIM}  {hint}{DIM:#}")).map_err(RunError::Output)?;
                }
                self.put_question(true)
            }
            Step::Next => self.put_question(true),
            Step::Done(answer) => {
                self.respond(*answer);
                self.next_question()
            }
        }
    }

    /// An approval needs no answer any more, whoever gave it.
    fn resolved(
        &mut self,
        resolved: &ServerRequestResolvedNotification,
        at_ms: Option<i64>,
    ) -> Result<(), RunError> {
        let id = resolved.approval_id.as_str();
        let item = self.approvals.remove(id).and_then(|approval| approval.item_id);
        if let (Face::People(view), Some(item)) = (&mut self.face, item) {
            view.answered(&item, at_ms, resolved.decision);
        }
        self.waiting.retain(|request| request.body.approval_id() != id);
        self.answered.remove(id);
        if self.asking.as_ref().is_none_or(|asking| asking.approval_id != id) {
            return Ok(());
        }
        let by = match resolved.by.kind {
            // Whoever interrupted it knows.
            ResolverKind::Interrupt => return self.next_question(),
            ResolverKind::Client => "by another client",
            ResolverKind::Policy => "by the policy",
            ResolverKind::Restart => "because the agent has stopped",
            ResolverKind::Unattended => "because nobody was there",
            ResolverKind::Agent => "elsewhere, as the agent says",
        };
        let name = resolved.by.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        self.notice(&format!("answered {by}{name}"))?;
        self.next_question()
    }

    /// Ctrl-C: the first time the turn is interrupted, the second time it is left.
    fn interrupt(&mut self) -> Result<Option<Ending>, RunError> {
        self.interrupts += 1;
        if self.interrupts > 1 {
            return Ok(Some(Ending::Turn(TurnStatus::Interrupted)));
        }
        self.notice("interrupting; Ctrl-C again to leave at once")?;
        let (client, thread_id, turn_id) = (self.client.clone(), self.thread.clone(), self.turn.clone());
        self.calls.spawn(async move {
            let interrupted = client.turn_interrupt(&TurnInterruptParams { thread_id, turn_id }).await;
            match interrupted {
                // It has ended by itself meanwhile, which is told.
                Err(error) if error.reason() == Some("no_active_turn") => Ok(()),
                other => other.map(drop).map_err(|error| (None, error)),
            }
        });
        Ok(None)
    }

    fn notice(&mut self, message: &str) -> Result<(), RunError> {
        self.face.notice(message).map_err(RunError::Output)
    }
}

impl Face {
    fn greet(&mut self, provider: &str, cwd: &str, policy: PolicyArg) -> io::Result<()> {
        let Self::People(view) = self else { return Ok(()) };
        let policy = match policy {
            PolicyArg::Ask => "asks before it acts",
            PolicyArg::AcceptEdits => "may edit, asks for the rest",
            PolicyArg::Yolo => "asks nothing",
        };
        let cwd = super::clean::line(cwd);
        view.screen.begin(Block::Piece)?;
        view.screen.line(format_args!("{BOLD}{provider}{BOLD:#}{DIM} in {cwd} · {policy}{DIM:#}"))?;
        view.screen.flush()
    }

    fn notice(&mut self, message: &str) -> io::Result<()> {
        match self {
            Self::People(view) => view.notice(message),
            Self::Json(_) => {
                crate::setup::complain(message);
                Ok(())
            }
        }
    }
}

/// The thread of a directory that was used last.
async fn newest(client: &Client, cwd: &Path) -> Result<String, RunError> {
    let params = ThreadListParams {
        limit: Some(1),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        cwd: Some(CwdFilter(vec![cwd.display().to_string()])),
        ..ThreadListParams::default()
    };
    let thread = client.thread_list(&params).await?.data.into_iter().next();
    thread.map(|thread| thread.id).ok_or_else(|| RunError::NoThread { cwd: cwd.to_owned() })
}

/// Why something is declined where nobody can be asked, and what would allow it.
fn nobody(request: &ServerRequest, cwd: &str, policy: PolicyArg) -> String {
    let allows = match request {
        ServerRequest::FileChangeApproval(params) => match diff::outside(cwd, &params.changes) {
            Some(path) => Some(format!("{path} is outside {cwd}; -C DIR works there")),
            None => Some("use --policy yolo to allow".to_owned()),
        },
        // Under that policy, whatever is asked nonetheless has no answer that it could give.
        _ if policy == PolicyArg::Yolo => None,
        ServerRequest::CommandExecutionApproval(_) => Some("use --policy yolo to allow".to_owned()),
        ServerRequest::ToolUserInput(_) => Some("--policy yolo allows what only reads".to_owned()),
        ServerRequest::Elicitation(_) => None,
    };
    let more = allows.map(|allows| format!("; {allows}")).unwrap_or_default();
    format!("no terminal to ask on{more}")
}

/// The width of the terminal that stdout is.
fn columns() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn title_of(request: &ServerRequest) -> &str {
    match request {
        ServerRequest::CommandExecutionApproval(params) => {
            params.command.as_deref().unwrap_or(&params.info.title)
        }
        ServerRequest::FileChangeApproval(params) => &params.info.title,
        ServerRequest::ToolUserInput(params) => &params.info.title,
        ServerRequest::Elicitation(params) => params.question.message(),
    }
}
