//! A plausible engine: it assigns seqs and items and orders facts as the real one does, and knows nothing of views.

use std::collections::{BTreeMap, BTreeSet};

use signalbox_engine::activity;
use signalbox_facts::{
    Activity, AgentText, CompactionStatus, ContextCompaction, ContextWindow, Decision, DocBlock, Fact,
    FactBody, FailedReason, Failure, FieldKind, FileDiff, Form, FormField, InputId, InputKind, ItemKind,
    Location, McpTool, OptionKind, PendingInput, PermissionOption, PermissionResolved, Plan, PlanEntry,
    PlanStatus, Policy, PolicyChanged, Prompt, Provider, ResolvedBy, ResolverKind, Reverted, Seq,
    SessionCreated, SessionId, SessionRow, SessionSource, Signal, SignalBody, TitleChanged, TitleOrigin,
    TokensAtEnd, ToolCall, ToolOutcome, ToolOutput, ToolStatus, TurnContext, TurnDiff, TurnEnded, TurnId,
    TurnStatus, Usage, Warning,
};
use uuid::Uuid;

/// What an engine releases.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Fact(Fact),
    Signal(Signal),
}

/// A session and all it has said so far.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) events: Vec<Event>,
    pub(crate) activity: Activity,
    pub(crate) turn: Option<TurnId>,
    /// Turns that were not taken back, with the seq of their first fact.
    pub(crate) turns: Vec<(TurnId, Seq)>,
    pub(crate) tools: Vec<Tool>,
    /// Items of which clients cannot know the whole truth before `item/completed`.
    pub(crate) diverged: BTreeSet<Seq>,
    last_turn: Option<TurnId>,
    turn_count: u128,
    input_count: u64,
    text: Option<(bool, Seq)>,
    plan: Option<(Seq, String)>,
    /// What the open turn has learned of tokens, and what is known of the session's.
    news: bool,
    tokens: TokensAtEnd,
    seq: Seq,
    at_ms: i64,
}

/// A tool call of the newest turn.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) item: Seq,
    pub(crate) call: ToolCall,
    pub(crate) written: bool,
}

pub(crate) fn session() -> SessionId {
    SessionId(Uuid::from_u128(0x5e55))
}

pub(crate) fn turn_id(n: u128) -> TurnId {
    TurnId(Uuid::from_u128(0x7000 + n))
}

pub(crate) fn input_id(n: u64) -> InputId {
    InputId(Uuid::from_u128(0xa000 + u128::from(n)))
}

pub(crate) fn option(id: &str, kind: OptionKind) -> PermissionOption {
    PermissionOption { id: id.into(), label: id.into(), kind }
}

pub(crate) fn entry(content: &str, status: PlanStatus) -> PlanEntry {
    PlanEntry { content: content.into(), priority: None, status }
}

impl World {
    /// A session that was just created.
    pub(crate) fn new() -> Self {
        let mut world = Self {
            events: Vec::new(),
            activity: Activity::default(),
            turn: None,
            turns: Vec::new(),
            tools: Vec::new(),
            diverged: BTreeSet::new(),
            last_turn: None,
            turn_count: 0,
            input_count: 0,
            text: None,
            plan: None,
            news: false,
            tokens: TokensAtEnd::default(),
            seq: 0,
            at_ms: 1_000_000,
        };
        let created = SessionCreated {
            provider: Provider::new("rehearsal"),
            cwd: "/repo".into(),
            roots: Vec::new(),
            project_path: "/repo".into(),
            worktree: None,
            policy: Policy::default(),
            model: None,
            effort: None,
            instructions: None,
            request_id: Some("r0".into()),
            source: SessionSource::App,
            forked_from: None,
            fork_context: None,
            ephemeral: false,
            launch: None,
        };
        world.fact(None, FactBody::SessionCreated(Box::new(created)));
        world
    }

    pub(crate) fn facts(&self) -> Vec<Fact> {
        Self::facts_of(&self.events)
    }

    /// The facts among these events.
    pub(crate) fn facts_of(events: &[Event]) -> Vec<Fact> {
        let fact = |event: &Event| match event {
            Event::Fact(fact) => Some(fact.clone()),
            Event::Signal(_) => None,
        };
        events.iter().filter_map(fact).collect()
    }

    /// The session's row after these events.
    pub(crate) fn row(events: &[Event]) -> SessionRow {
        let mut facts = events.iter().filter_map(|event| match event {
            Event::Fact(fact) => Some(fact),
            Event::Signal(_) => None,
        });
        let mut row = facts.next().and_then(SessionRow::created).unwrap();
        facts.for_each(|fact| row.apply(fact));
        row
    }

    fn fact(&mut self, item: Option<Seq>, body: FactBody) -> Seq {
        self.seq += 1;
        // The end of a turn is one commit, and a commit is one moment.
        if !matches!(body, FactBody::TurnEnded(_)) {
            self.at_ms += 10;
        }
        self.events.push(Event::Fact(Fact {
            session: session(),
            turn: self.turn.or(self.last_turn),
            seq: self.seq,
            through_seq: self.seq,
            item_seq: item,
            at_ms: self.at_ms,
            body,
        }));
        self.seq
    }

    /// A fact that starts its item.
    fn start(&mut self, body: FactBody) -> Seq {
        self.text = None;
        self.fact(Some(self.seq + 1), body)
    }

    pub(crate) fn signal(&mut self, body: SignalBody) -> &mut Self {
        let turn = self.turn;
        self.events.push(Event::Signal(Signal {
            session: session(),
            turn,
            seq: self.seq,
            at_ms: self.at_ms,
            body,
        }));
        self
    }

    fn act(&mut self, next: Option<Activity>) -> bool {
        let Some(next) = next else { return false };
        self.activity = next.clone();
        self.fact(None, FactBody::Activity(next));
        true
    }

    // ---- Turns ----

    /// Opens a turn, or steers the open one.
    pub(crate) fn prompt(&mut self, text: &str) -> &mut Self {
        let mut prompt = Prompt {
            blocks: vec![DocBlock::text(text)],
            text: text.into(),
            display: text.into(),
            request_id: None,
            client_message_id: Some(format!("c-{text}")),
            opens: None,
        };
        if self.turn.is_none() {
            self.turn_count += 1;
            let turn = turn_id(self.turn_count);
            self.turn = Some(turn);
            self.last_turn = Some(turn);
            self.turns.push((turn, self.seq + 1));
            self.tools.clear();
            self.plan = None;
            self.diverged.clear();
            self.act(activity::open_turn(&self.activity, turn, None));
            let context = TurnContext { cwd: "/repo".into(), ..TurnContext::default() };
            prompt.opens = Some(Box::new(context));
        }
        self.start(FactBody::Prompt(Box::new(prompt)));
        self
    }

    /// The agent has answered the prompt.
    pub(crate) fn ends(&mut self, status: TurnStatus) -> &mut Self {
        let outcome = match status {
            TurnStatus::Interrupted => ToolOutcome::Interrupted,
            TurnStatus::Failed => ToolOutcome::AgentGone,
            TurnStatus::Completed | TurnStatus::InProgress => ToolOutcome::Unfinished,
        };
        let failure = (status == TurnStatus::Failed).then(|| Failure {
            reason: "agent_failed".into(),
            message: "The agent died.".into(),
            retryable: true,
            data: serde_json::Map::new(),
        });
        self.end(status, failure, outcome, ResolverKind::Interrupt)
    }

    /// The server stopped in mid-turn and has come back.
    pub(crate) fn restarts(&mut self) -> &mut Self {
        let failure = Failure {
            reason: "server_restarted".into(),
            message: "signalbox stopped before the turn finished.".into(),
            retryable: true,
            data: serde_json::Map::new(),
        };
        self.end(TurnStatus::Interrupted, Some(failure), ToolOutcome::Interrupted, ResolverKind::Restart)
    }

    fn end(
        &mut self,
        status: TurnStatus,
        failure: Option<Failure>,
        outcome: ToolOutcome,
        by: ResolverKind,
    ) -> &mut Self {
        let Some(turn) = self.turn else { return self };
        let pending = self.activity.pending().to_vec();
        if by == ResolverKind::Interrupt {
            self.act(activity::drain(&self.activity));
        }
        for input in pending {
            self.resolution(&input, Decision::Cancel, None, by);
        }
        for place in 0..self.tools.len() {
            if !self.tools[place].call.status.is_final() {
                let call = &mut self.tools[place].call;
                call.status = ToolStatus::Failed;
                call.outcome.get_or_insert(outcome);
                self.tell(place);
            }
        }
        let next = match &failure {
            Some(failure) => {
                let reason = FailedReason::ProviderError;
                activity::fail(&self.activity, turn, reason, failure.message.clone())
            }
            None => activity::finish(&self.activity, turn),
        };
        self.act(next);
        let ended = TurnEnded {
            status,
            stop_reason: None,
            failure,
            request_id: None,
            tokens: std::mem::take(&mut self.news).then_some(self.tokens),
        };
        self.fact(None, FactBody::TurnEnded(Box::new(ended)));
        self.turn = None;
        self.text = None;
        self.diverged.clear();
        self
    }

    /// Takes back this turn and all after it.
    pub(crate) fn reverts(&mut self, place: usize) -> &mut Self {
        if self.turn.is_some() || place >= self.turns.len() {
            return self;
        }
        let (before_turn, from_seq) = self.turns[place];
        self.turns.truncate(place);
        self.fact(None, FactBody::Reverted(Reverted { before_turn, from_seq, request_id: None }));
        self
    }

    // ---- Texts and plans ----

    pub(crate) fn says(&mut self, text: &str) -> &mut Self {
        self.chunk(false, text)
    }

    pub(crate) fn thinks(&mut self, text: &str) -> &mut Self {
        self.chunk(true, text)
    }

    fn chunk(&mut self, thought: bool, text: &str) -> &mut Self {
        if self.last_turn.is_none() {
            return self;
        }
        let open = self.text.filter(|(kind, _)| *kind == thought).map(|(_, item)| item);
        let item = open.unwrap_or(self.seq + 1);
        let chunk = AgentText { message_id: format!("m{item}"), text: text.into() };
        self.fact(
            Some(item),
            if thought { FactBody::AgentThought(chunk) } else { FactBody::AgentText(chunk) },
        );
        self.text = Some((thought, item));
        self
    }

    /// What comes after a turn's end comes in commits of its own.
    pub(crate) fn breaks(&mut self) -> &mut Self {
        if self.turn.is_none() {
            self.text = None;
        }
        self
    }

    pub(crate) fn plans(&mut self, entries: Vec<PlanEntry>, markdown: Option<&str>) -> &mut Self {
        if self.last_turn.is_none() || entries.is_empty() && markdown.is_none() {
            return self;
        }
        let plan = Plan { entries, markdown: markdown.map(str::to_owned) };
        let text = markdown.unwrap_or_default().to_owned();
        match self.plan.take() {
            Some((item, before)) => {
                if markdown.is_none() || !text.starts_with(&before) {
                    self.diverged.insert(item);
                }
                self.fact(Some(item), FactBody::Plan(plan));
                self.plan = Some((item, text));
            }
            None => {
                let item = self.start(FactBody::Plan(plan));
                self.plan = Some((item, text));
                if markdown.is_none() {
                    self.diverged.insert(item);
                }
            }
        }
        self
    }

    pub(crate) fn compacts(&mut self, id: &str, status: CompactionStatus) -> Option<Seq> {
        self.last_turn?;
        Some(self.start(FactBody::ContextCompaction(ContextCompaction {
            id: id.into(),
            status,
            summary: None,
        })))
    }

    pub(crate) fn compacted(&mut self, item: Seq, id: &str, status: CompactionStatus) -> &mut Self {
        let summary = (status == CompactionStatus::Completed).then(|| "What was said.".into());
        let body = ContextCompaction { id: id.into(), status, summary };
        self.fact(Some(item), FactBody::ContextCompaction(body));
        self
    }

    // ---- Tools ----

    /// Announces a call; gives its place among the turn's tools.
    pub(crate) fn calls(&mut self, title: &str, kind: &str, status: ToolStatus) -> Option<usize> {
        self.last_turn?;
        let mcp = (kind == "mcp").then(|| McpTool { server: "docs".into(), tool: "search".into() });
        let item = match kind {
            "execute" => ItemKind::CommandExecution,
            "edit" | "delete" | "move" => ItemKind::FileChange,
            "mcp" => ItemKind::McpToolCall,
            _ => ItemKind::DynamicToolCall,
        };
        let edits = item == ItemKind::FileChange;
        let call = ToolCall {
            id: format!("call-{title}"),
            item,
            title: title.into(),
            kind: Some(kind.into()),
            status,
            outcome: None,
            agent_input: None,
            command: (kind == "execute").then(|| title.into()),
            cwd: (kind == "execute").then(|| "/repo".into()),
            exit_code: None,
            locations: if edits {
                vec![Location { path: "/repo/a.txt".into(), line: None }]
            } else {
                Vec::new()
            },
            mcp,
            diffs: None,
            content: None,
            raw_input: None,
            error: None,
        };
        let item = self.start(FactBody::ToolCall(Box::new(call.clone())));
        self.tools.push(Tool { item, call, written: false });
        Some(self.tools.len() - 1)
    }

    /// The call is in the state that `change` leads to.
    pub(crate) fn updates(&mut self, place: usize, change: impl FnOnce(&mut ToolCall)) -> &mut Self {
        let Some(tool) = self.tools.get_mut(place) else { return self };
        let was_final = tool.call.status.is_final();
        change(&mut tool.call);
        if was_final && !tool.call.status.is_final() {
            tool.call.status = ToolStatus::Failed;
        }
        if was_final && self.turn.is_some() {
            self.diverged.insert(tool.item);
        }
        self.tell(place);
        self
    }

    fn tell(&mut self, place: usize) {
        let tool = &mut self.tools[place];
        let (item, call) = (tool.item, tool.call.clone());
        (tool.call.diffs, tool.call.content, tool.call.raw_input) = (None, None, None);
        self.fact(Some(item), FactBody::ToolCall(Box::new(call)));
    }

    pub(crate) fn closes(&mut self, place: usize, status: ToolStatus) -> &mut Self {
        self.updates(place, |call| call.status = status)
    }

    pub(crate) fn edits(&mut self, place: usize, diffs: Vec<FileDiff>) -> &mut Self {
        self.updates(place, |call| call.diffs = Some(diffs))
    }

    pub(crate) fn writes(&mut self, place: usize, text: &str, replace: bool) -> &mut Self {
        let Some(tool) = self.tools.get_mut(place) else { return self };
        let is_open = !tool.call.status.is_final();
        if replace && tool.written || !is_open && self.turn.is_some() {
            self.diverged.insert(tool.item);
        }
        tool.written |= !text.is_empty();
        let output = ToolOutput { id: tool.call.id.clone(), text: text.into(), replace };
        let item = tool.item;
        self.fact(Some(item), FactBody::ToolOutput(output));
        self
    }

    // ---- Approvals ----

    /// The agent asks whether it may go on with a call.
    pub(crate) fn asks(&mut self, place: usize) -> &mut Self {
        let Some(tool) = self.tools.get(place).filter(|tool| !tool.call.status.is_final()) else {
            return self;
        };
        let (item, call) = (tool.item, tool.call.clone());
        self.park(PendingInput {
            id: input_id(self.input_count + 1),
            kind: InputKind::Permission,
            title: call.title.clone(),
            options: vec![
                option("yes", OptionKind::AllowOnce),
                option("always", OptionKind::AllowAlways),
                option("no", OptionKind::RejectOnce),
            ],
            sequence: 0,
            requested_at_ms: self.at_ms,
            item_seq: Some(item),
            tool_call: Some(call.id),
            tool_kind: call.kind,
            command: call.command,
            cwd: call.cwd,
            locations: call.locations,
            reason: None,
            form: None,
        })
    }

    /// The agent asks the user something.
    pub(crate) fn questions(&mut self) -> &mut Self {
        let field = FormField {
            key: "name".into(),
            kind: FieldKind::Text,
            title: Some("Name".into()),
            required: true,
            ..FormField::default()
        };
        let form = Form { message: "Who are you?".into(), fields: vec![field], ..Form::default() };
        self.park(PendingInput {
            id: input_id(self.input_count + 1),
            kind: InputKind::Elicitation,
            title: form.message.clone(),
            options: Vec::new(),
            sequence: 0,
            requested_at_ms: self.at_ms,
            item_seq: None,
            tool_call: None,
            tool_kind: None,
            command: None,
            cwd: None,
            locations: Vec::new(),
            reason: None,
            form: Some(form),
        })
    }

    fn park(&mut self, mut input: PendingInput) -> &mut Self {
        input.sequence = self.input_count + 1;
        if self.act(activity::park(&self.activity, input.clone())) {
            self.input_count += 1;
            self.fact(None, FactBody::PermissionRequested(Box::new(input)));
        }
        self
    }

    /// Somebody answers the approval at this place of what waits.
    pub(crate) fn answers(&mut self, place: usize, decision: Decision, option: Option<&str>) -> &mut Self {
        let Some(input) = self.activity.pending().get(place).cloned() else { return self };
        self.act(activity::resolve(&self.activity, input.id));
        self.resolution(&input, decision, option, ResolverKind::Client);
        if decision == Decision::Decline {
            let id = input.tool_call.as_ref();
            let declined = self.tools.iter_mut().find(|tool| Some(&tool.call.id) == id);
            if let Some(tool) = declined.filter(|tool| !tool.call.status.is_final()) {
                tool.call.outcome = Some(ToolOutcome::Declined);
            }
        }
        self
    }

    fn resolution(
        &mut self,
        input: &PendingInput,
        decision: Decision,
        option_id: Option<&str>,
        by: ResolverKind,
    ) {
        let name = (by == ResolverKind::Client).then(|| "phone".to_owned());
        let resolved = PermissionResolved {
            input: input.id,
            title: input.title.clone(),
            tool_call: input.tool_call.clone(),
            decision,
            option_id: option_id.map(str::to_owned),
            by: ResolvedBy { kind: by, name },
            rule: None,
            message: None,
            kept_rule: None,
        };
        self.fact(input.item_seq, FactBody::PermissionResolved(Box::new(resolved)));
    }

    /// The policy decides about a call without asking.
    pub(crate) fn decides(&mut self, place: usize) -> &mut Self {
        let Some(tool) = self.tools.get(place).filter(|_| self.turn.is_some()) else { return self };
        let item = tool.item;
        let resolved = PermissionResolved {
            input: input_id(900 + self.seq),
            title: tool.call.title.clone(),
            tool_call: Some(tool.call.id.clone()),
            decision: Decision::Accept,
            option_id: Some("yes".into()),
            by: ResolvedBy { kind: ResolverKind::Policy, name: None },
            rule: Some("mode".into()),
            message: None,
            kept_rule: None,
        };
        self.fact(Some(item), FactBody::PermissionResolved(Box::new(resolved)));
        self
    }

    // ---- The rest ----

    pub(crate) fn changes(&mut self, diff: &str) -> &mut Self {
        self.fact(None, FactBody::TurnDiff(TurnDiff { diff: diff.into(), truncated: false, partial: false }));
        self
    }

    pub(crate) fn uses(&mut self, tokens: u64) -> &mut Self {
        let usage = Usage { input_tokens: tokens, last_total_tokens: tokens, ..Usage::default() };
        self.tokens.usage = Some(usage);
        self.news |= self.turn.is_some();
        self.fact(None, FactBody::Usage(usage));
        self
    }

    pub(crate) fn fills(&mut self, used_tokens: u64) -> &mut Self {
        let window = ContextWindow { used_tokens, size_tokens: 1000, cost_usd: None };
        // The engine tells no window twice.
        self.news |= self.turn.is_some() && self.tokens.window != Some(window);
        self.tokens.window = Some(window);
        self.signal(SignalBody::ContextWindow(window))
    }

    pub(crate) fn warns(&mut self, message: &str, terminal: bool) -> &mut Self {
        let warning = Warning {
            message: message.into(),
            reason: "agent_failed".into(),
            terminal,
            request_id: Some("r9".into()),
        };
        self.fact(None, FactBody::Warning(warning));
        self
    }

    pub(crate) fn titled(&mut self, title: &str) -> &mut Self {
        self.fact(
            None,
            FactBody::TitleChanged(TitleChanged { title: title.into(), origin: TitleOrigin::Manual }),
        );
        self
    }

    pub(crate) fn policy(&mut self, policy: Policy) -> &mut Self {
        self.fact(None, FactBody::PolicyChanged(PolicyChanged { policy, request_id: None }));
        self
    }

    pub(crate) fn archived(&mut self, archived: bool) -> &mut Self {
        self.fact(None, FactBody::Archived { archived });
        self
    }

    /// Ids by their numbers, for reading.
    pub(crate) fn names() -> BTreeMap<String, String> {
        let turns = (1..10).map(|n| (turn_id(n).to_string(), format!("t{n}")));
        let inputs = (1..10).map(|n| (input_id(n).to_string(), format!("a{n}")));
        turns.chain(inputs).chain([(session().to_string(), "s".to_owned())]).collect()
    }
}
