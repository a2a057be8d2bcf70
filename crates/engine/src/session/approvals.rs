//! Permission requests and questions: decided by the policy, or parked until somebody answers.

use std::collections::BTreeMap;

use signalbox_agents::{Answer, ElicitationAnswer, RequestKey, ToolPatch};
use signalbox_facts::{
    Decision, DocBlock, FactBody, FieldKind, Form, FormField, InputId, InputKind, Mode, OptionKind,
    PendingInput, PermissionOption, PermissionResolved, Policy, PolicyChanged, ResolvedBy, ResolverKind, Seq,
    SubmissionId, ToolCall,
};
use signalbox_protocol::ops;

use super::actor::Actor;
use super::turns::not_stored;
use crate::activity;
use crate::batch::Item;
use crate::policy::{self, Rule, Subject, Verdict, posture};
use crate::submission::{Accepted, OpError, Resolution};

/// Option of a projected question that answers nothing.
const SKIP: &str = "__elicitation_skip";
/// Option of a projected question that says that its address is opened.
const OPEN: &str = "__elicitation_open";

/// A client's answer to a permission request.
pub(super) struct Choice {
    /// One of the agent's options.
    pub option_id: Option<String>,
    /// With an allowing one: the same is allowed for the rest of the session.
    pub for_session: bool,
    /// What the agent is told with a decline.
    pub message: Option<String>,
    /// A decline where no option says so.
    pub decline: bool,
}

impl Actor {
    /// The agent asks whether it may do something.
    pub(super) async fn permission(
        &mut self,
        key: RequestKey,
        tool: ToolPatch,
        description: Option<String>,
        options: Vec<PermissionOption>,
    ) {
        let Some(turn) = self.turn.as_ref().filter(|turn| !turn.cancelled).map(|turn| turn.id) else {
            // Nobody would see it: no turn is open, or it is being interrupted.
            self.answer(key, Answer::Cancelled);
            return;
        };
        let id = tool.id.clone();
        self.batch();
        if let Some(batch) = &mut self.batch {
            self.items.tool(batch, turn, tool, true);
        }
        // What the request is about is shown before the request, and is stored even if parking fails.
        self.commit().await;
        let Some((call, item)) = self.items.call(&id).map(|(call, item)| (call.clone(), item)) else {
            self.answer(key, Answer::Cancelled);
            return;
        };
        let roots = self.roots();
        let subject = Subject { confined: self.confines(), ..subject(&call, &roots) };
        let verdict = policy::decide(self.row.policy, subject, &self.row.rules);
        match policy::with_options(verdict, self.row.policy, &options) {
            Verdict::Allow(rule) => {
                let option = policy::allowing(&options).map(|option| option.id.clone());
                self.decide_unasked(key, &call, item, Decision::Accept, option, rule).await;
            }
            Verdict::Reject(rule) => {
                let option = policy::rejecting(&options).map(|option| option.id.clone());
                self.decide_unasked(key, &call, item, Decision::Decline, option, rule).await;
            }
            Verdict::Ask(rule) => {
                // What the agent says is nearer to the matter than why the policy asks.
                let description = description.or_else(|| reason(rule).map(str::to_owned));
                let input = self.pending(InputKind::Permission, &call, item, options, description);
                self.park(key, input).await;
            }
        }
    }

    /// The agent asks the user something: never answered unasked, and not at all where nobody wants to be asked.
    pub(super) async fn elicitation(&mut self, key: RequestKey, tool_call: Option<String>, form: Form) {
        if self.turn.as_ref().is_none_or(|turn| turn.cancelled) {
            self.answer_form(key, ElicitationAnswer::Cancel);
            return;
        }
        self.commit().await;
        let known = tool_call.as_deref().and_then(|id| self.items.call(id));
        let item_seq = known.and_then(|(_, item)| item);
        let input = PendingInput {
            id: InputId::generate(),
            kind: InputKind::Elicitation,
            title: form.message.clone(),
            options: project_options(&form),
            sequence: 0,
            requested_at_ms: (self.core.now_ms)(),
            item_seq,
            tool_call,
            tool_kind: None,
            command: None,
            cwd: None,
            locations: Vec::new(),
            reason: None,
            form: Some(form),
        };
        if self.row.policy.mode != Mode::NeverAsk {
            return self.park(key, input).await;
        }
        self.resolve_in_batch(declined_unasked(&input), input.item_seq);
        self.commit().await;
        self.answer_form(key, ElicitationAnswer::Decline);
    }

    /// Whether the agent confines the commands that it runs.
    fn confines(&self) -> bool {
        let entry = self.core.catalog.entry(&self.row.provider);
        entry.is_ok_and(|entry| entry.quirks.confines_commands)
    }

    fn pending(
        &self,
        kind: InputKind,
        call: &ToolCall,
        item: Option<Seq>,
        options: Vec<PermissionOption>,
        reason: Option<String>,
    ) -> PendingInput {
        PendingInput {
            id: InputId::generate(),
            kind,
            title: call.title.clone(),
            options,
            sequence: 0,
            requested_at_ms: (self.core.now_ms)(),
            item_seq: item,
            tool_call: Some(call.id.clone()),
            tool_kind: call.kind.clone(),
            command: call.command.clone(),
            cwd: call.cwd.clone(),
            locations: call.locations.clone(),
            reason,
            form: None,
        }
    }

    /// Parks an input. What cannot be stored is answered `cancelled`, because nobody could ever answer it.
    async fn park(&mut self, key: RequestKey, mut input: PendingInput) {
        input.sequence = self.core.stores.disk.writer.next_pending_sequence();
        match self.store_parked(&input).await {
            Ok(()) => {
                self.parked.insert(input.id, key);
            }
            Err(error) => {
                tracing::error!(session = %self.row.id, %error, "an approval could not be stored; it is cancelled");
                match input.kind {
                    InputKind::Permission => self.answer(key, Answer::Cancelled),
                    InputKind::Elicitation => self.answer_form(key, ElicitationAnswer::Cancel),
                }
            }
        }
    }

    async fn store_parked(&mut self, input: &PendingInput) -> Result<(), String> {
        let Some(waiting) = activity::park(&self.row.activity, input.clone()) else {
            return Err("no turn is open".to_owned());
        };
        let turn = waiting.turn();
        self.batch().push(turn, Item::None, FactBody::Activity(waiting));
        self.batch().push(turn, Item::None, FactBody::PermissionRequested(Box::new(input.clone())));
        self.try_commit().await.map_err(|error| error.to_string())
    }

    async fn decide_unasked(
        &mut self,
        key: RequestKey,
        call: &ToolCall,
        item: Option<Seq>,
        decision: Decision,
        option_id: Option<String>,
        rule: Rule,
    ) {
        if decision == Decision::Decline {
            self.items.declined(&call.id);
        }
        let resolved = PermissionResolved {
            input: InputId::generate(),
            title: call.title.clone(),
            tool_call: Some(call.id.clone()),
            decision,
            option_id: option_id.clone(),
            by: by_policy(rule),
            rule: Some(rule.as_str().to_owned()),
            message: None,
            kept_rule: None,
        };
        self.resolve_in_batch(resolved, item);
        self.commit().await;
        self.answer(key, option_id.map_or(Answer::Cancelled, Answer::Selected));
    }

    /// Adds a resolution to the batch and remembers it for late answers.
    pub(super) fn resolve_in_batch(&mut self, resolved: PermissionResolved, item: Option<Seq>) {
        let at_ms = self.batch().at_ms();
        let resolution = Resolution::of(&resolved, at_ms);
        self.remember(resolved.input, resolution);
        let turn = self.turn.as_ref().map(|turn| turn.id).or(self.last_turn);
        let item = item.map_or(Item::None, Item::Of);
        self.batch().push(turn, item, FactBody::PermissionResolved(Box::new(resolved)));
    }

    /// A client answers a permission request with one of its options, or with none.
    pub(super) async fn answer_permission(
        &mut self,
        id: &str,
        choice: Choice,
        interrupt: Option<SubmissionId>,
        by: ResolvedBy,
    ) -> Result<Accepted, OpError> {
        let Choice { option_id, for_session, message, decline } = choice;
        let (key, input) = self.waiting(id)?;
        if let Some(form) = &input.form {
            let answer = answer_from_option(form, option_id.as_deref());
            return self.resolve_form(key, &input, answer, interrupt, by).await;
        }
        let option = match &option_id {
            None => None,
            Some(option_id) => {
                Some(input.options.iter().find(|option| option.id == *option_id).ok_or_else(|| {
                    let offered: Vec<_> = input.options.iter().map(|option| option.id.as_str()).collect();
                    let message = format!("{option_id:?} is not offered; offered are {}", offered.join(", "));
                    OpError::InvalidParams { path: "option_id", message }
                })?)
            }
        };
        let decision = match option.map(|option| &option.kind) {
            None if decline => Decision::Decline,
            None => Decision::Cancel,
            Some(OptionKind::AllowOnce | OptionKind::AllowAlways) if for_session => {
                Decision::AcceptForSession
            }
            Some(OptionKind::AllowOnce | OptionKind::AllowAlways) => Decision::Accept,
            Some(OptionKind::RejectOnce | OptionKind::RejectAlways) => Decision::Decline,
            Some(OptionKind::Other(_)) => Decision::Answered,
        };
        let roots = self.roots();
        let kept_rule = (decision == Decision::AcceptForSession)
            .then(|| policy::rule_to_keep(pending_subject(&input, &roots)))
            .flatten();
        let resolved = PermissionResolved {
            option_id: option_id.clone(),
            message: message.clone(),
            kept_rule,
            ..PermissionResolved::of(&input, decision, by)
        };
        self.store_resolution(&input, resolved).await?;
        if let Some(id) = interrupt {
            return self.interrupt_with_answer(id).await;
        }
        self.answer(key, option_id.map_or(Answer::Cancelled, Answer::Selected));
        if decision == Decision::Decline
            && let Some(message) = message.filter(|message| !message.trim().is_empty())
            && let Some(turn) = self.turn.as_ref().map(|turn| turn.id)
        {
            // Agents take no reason with a rejection, so it is their next input.
            let document = self.document(vec![DocBlock::text(message)], BTreeMap::new());
            self.store_steer(turn, document, None, None).await.map_err(|e| not_stored(&e))?;
        }
        self.stop_to_steer();
        Ok(Accepted::Applied)
    }

    /// A client answers a question with fields.
    pub(super) async fn answer_elicitation(
        &mut self,
        id: &str,
        answer: ops::ElicitationAnswer,
        interrupt: Option<SubmissionId>,
        by: ResolvedBy,
    ) -> Result<Accepted, OpError> {
        let (key, input) = self.waiting(id)?;
        let Some(form) = &input.form else {
            let message = format!("{id} is a permission request; answer it with one of its options");
            return Err(OpError::InvalidParams { path: "request_id", message });
        };
        let answer = match answer {
            ops::ElicitationAnswer::Accept { content } => {
                if let Some(message) = crate::form::none_known(form, &content) {
                    return Err(OpError::InvalidParams { path: "content", message });
                }
                let content = crate::form::sanitize(form, content);
                if let Some(field) = crate::form::missing(form, &content) {
                    let message = unusable(field);
                    return Err(OpError::InvalidParams { path: "content", message });
                }
                if let Some(message) = crate::form::out_of_bounds(form, &content) {
                    return Err(OpError::InvalidParams { path: "content", message });
                }
                ElicitationAnswer::Accept(content)
            }
            ops::ElicitationAnswer::Decline => ElicitationAnswer::Decline,
            ops::ElicitationAnswer::Cancel => ElicitationAnswer::Cancel,
        };
        self.resolve_form(key, &input, answer, interrupt, by).await
    }

    async fn resolve_form(
        &mut self,
        key: RequestKey,
        input: &PendingInput,
        answer: ElicitationAnswer,
        interrupt: Option<SubmissionId>,
        by: ResolvedBy,
    ) -> Result<Accepted, OpError> {
        let decision = match &answer {
            ElicitationAnswer::Accept(_) => Decision::Answered,
            ElicitationAnswer::Decline => Decision::Decline,
            ElicitationAnswer::Cancel => Decision::Cancel,
        };
        let resolved = PermissionResolved::of(input, decision, by);
        self.store_resolution(input, resolved).await?;
        if let Some(id) = interrupt {
            return self.interrupt_with_answer(id).await;
        }
        self.answer_form(key, answer);
        self.stop_to_steer();
        Ok(Accepted::Applied)
    }

    /// The answer interrupts the turn too. The agent is not answered here: its driver does so behind the interrupt, so that
    /// the agent never goes on with less than both.
    async fn interrupt_with_answer(&mut self, id: SubmissionId) -> Result<Accepted, OpError> {
        self.cancel(None).await?;
        self.drop_waiting_prompts(id);
        Ok(Accepted::Applied)
    }

    /// An input that waits, by the id that clients know.
    fn waiting(&self, id: &str) -> Result<(RequestKey, PendingInput), OpError> {
        let not_found = || OpError::ApprovalNotFound(id.to_owned());
        let input: InputId = id.parse().map_err(|_| not_found())?;
        if let Some((_, resolution)) = self.resolved.iter().find(|(known, _)| *known == input) {
            return Err(OpError::ApprovalResolved {
                id: id.to_owned(),
                resolution: Box::new(resolution.clone()),
            });
        }
        let key = *self.parked.get(&input).ok_or_else(not_found)?;
        let pending = self.row.activity.pending().iter().find(|pending| pending.id == input);
        Ok((key, pending.ok_or_else(not_found)?.clone()))
    }

    /// Stores the answer; only then is anybody told, the agent included.
    pub(super) async fn store_resolution(
        &mut self,
        input: &PendingInput,
        resolved: PermissionResolved,
    ) -> Result<(), OpError> {
        let Some(next) = activity::resolve(&self.row.activity, input.id) else {
            return Err(OpError::ApprovalNotFound(input.id.to_string()));
        };
        let declined = resolved.decision == Decision::Decline;
        let turn = next.turn();
        self.batch().push(turn, Item::None, FactBody::Activity(next));
        self.resolve_in_batch(resolved, input.item_seq);
        if let Err(error) = self.try_commit().await {
            self.resolved.retain(|(known, _)| *known != input.id);
            return Err(not_stored(&error));
        }
        self.parked.remove(&input.id);
        if declined && let Some(id) = &input.tool_call {
            self.items.declined(id);
        }
        Ok(())
    }

    /// The agent takes a request back.
    pub(super) async fn withdrawn(&mut self, key: RequestKey) {
        let by = ResolvedBy { kind: ResolverKind::Interrupt, name: Some("agent".to_owned()) };
        self.needs_no_answer(key, Decision::Cancel, by).await;
    }

    /// What a question asked for is done, elsewhere.
    pub(super) async fn done_elsewhere(&mut self, key: RequestKey) {
        self.needs_no_answer(key, Decision::Answered, ResolvedBy::kind(ResolverKind::Agent)).await;
    }

    async fn needs_no_answer(&mut self, key: RequestKey, decision: Decision, by: ResolvedBy) {
        let Some(id) = self.parked.iter().find(|(_, known)| **known == key).map(|(id, _)| *id) else {
            return;
        };
        self.parked.remove(&id);
        let now = self.activity();
        let Some(input) = now.pending().iter().find(|input| input.id == id).cloned() else { return };
        let Some(next) = activity::resolve(&now, id) else { return };
        let turn = next.turn();
        self.batch().push(turn, Item::None, FactBody::Activity(next));
        let resolved = PermissionResolved::of(&input, decision, by);
        self.resolve_in_batch(resolved, input.item_seq);
        self.commit().await;
        self.stop_to_steer();
    }

    /// Both axes of the policy, in the row and in force at once; what is parked is decided anew.
    pub(super) async fn set_policy(
        &mut self,
        policy: Policy,
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        self.core.catalog.suits(&self.row.provider, policy)?;
        self.batch().push(None, Item::None, FactBody::PolicyChanged(PolicyChanged { policy, request_id }));
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        self.policy_in_force().await;
        Ok(Accepted::Applied)
    }

    /// After the policy changed: the agent's mode, and what is parked.
    pub(super) async fn policy_in_force(&mut self) {
        let token = self.token();
        let posture = posture(self.row.policy);
        if let Some(live) = self.agent.as_ref().filter(|live| live.ready)
            && let Err(error) = live.agent.set_posture(token, posture)
        {
            tracing::debug!(session = %self.row.id, %error, "setting the mode of an ending agent");
        }
        let roots = self.roots();
        for input in self.row.activity.pending().to_vec() {
            if input.kind != InputKind::Permission {
                if self.row.policy.mode == Mode::NeverAsk {
                    self.decline_parked_form(&input).await;
                }
                continue;
            }
            let subject = Subject { confined: self.confines(), ..pending_subject(&input, &roots) };
            let verdict = policy::decide(self.row.policy, subject, &self.row.rules);
            let (decision, option, rule) =
                match policy::with_options(verdict, self.row.policy, &input.options) {
                    Verdict::Allow(rule) => {
                        let option = policy::allowing(&input.options).map(|option| option.id.clone());
                        (Decision::Accept, option, rule)
                    }
                    Verdict::Reject(rule) => {
                        let option = policy::rejecting(&input.options).map(|option| option.id.clone());
                        (Decision::Decline, option, rule)
                    }
                    Verdict::Ask(_) => continue,
                };
            let Some(key) = self.parked.get(&input.id).copied() else { continue };
            let resolved = PermissionResolved {
                option_id: option.clone(),
                rule: Some(rule.as_str().to_owned()),
                ..PermissionResolved::of(&input, decision, by_policy(rule))
            };
            match self.store_resolution(&input, resolved).await {
                Ok(()) => self.answer(key, option.map_or(Answer::Cancelled, Answer::Selected)),
                Err(error) => tracing::error!(session = %self.row.id, %error, "an approval stays open"),
            }
        }
    }

    /// Nobody wants to be asked any more, and a question waits.
    async fn decline_parked_form(&mut self, input: &PendingInput) {
        let Some(key) = self.parked.get(&input.id).copied() else { return };
        match self.store_resolution(input, declined_unasked(input)).await {
            Ok(()) => self.answer_form(key, ElicitationAnswer::Decline),
            Err(error) => tracing::error!(session = %self.row.id, %error, "an approval stays open"),
        }
    }

    pub(super) fn answer(&self, key: RequestKey, answer: Answer) {
        if let Some(live) = &self.agent
            && let Err(error) = live.agent.answer_permission(key, answer)
        {
            tracing::debug!(session = %self.row.id, %error, "answering an ending agent");
        }
    }

    pub(super) fn answer_form(&self, key: RequestKey, answer: ElicitationAnswer) {
        if let Some(live) = &self.agent
            && let Err(error) = live.agent.answer_elicitation(key, answer)
        {
            tracing::debug!(session = %self.row.id, %error, "answering an ending agent");
        }
    }
}

/// Who decided: the policy, by name where a client has asked for exactly that.
fn by_policy(rule: Rule) -> ResolvedBy {
    let name = (rule == Rule::NeverAsk).then(|| rule.as_str().to_owned());
    ResolvedBy { kind: ResolverKind::Policy, name }
}

/// The resolution of a question that nobody wants to be asked.
fn declined_unasked(input: &PendingInput) -> PermissionResolved {
    PermissionResolved {
        rule: Some(Rule::NeverAsk.as_str().to_owned()),
        ..PermissionResolved::of(input, Decision::Decline, by_policy(Rule::NeverAsk))
    }
}

fn unusable(field: &FormField) -> String {
    let offered: Vec<_> = field.options.iter().map(|option| option.value.as_str()).collect();
    if offered.is_empty() {
        format!("{:?} needs a value of the kind that the form asks for", field.key)
    } else {
        format!("{:?} needs one of {}", field.key, offered.join(", "))
    }
}

fn subject<'a>(call: &'a ToolCall, roots: &'a [std::path::PathBuf]) -> Subject<'a> {
    Subject {
        kind: call.kind.as_deref(),
        command: call.command.as_deref(),
        locations: &call.locations,
        roots,
        confined: false,
    }
}

fn pending_subject<'a>(input: &'a PendingInput, roots: &'a [std::path::PathBuf]) -> Subject<'a> {
    Subject {
        kind: input.tool_kind.as_deref(),
        command: input.command.as_deref(),
        locations: &input.locations,
        roots,
        confined: false,
    }
}

fn reason(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::Unclear => Some("What it would touch is outside the thread's roots, or not known."),
        Rule::Ceiling | Rule::SessionRule | Rule::Mode | Rule::NeverAsk => None,
    }
}

/// A question as options, for clients that know only permissions: its choices if only one choice is needed, or that the
/// address is opened; and a way out.
fn project_options(form: &Form) -> Vec<PermissionOption> {
    let mut options = Vec::new();
    if let Some(field) = only_choice(form) {
        options.extend(field.options.iter().enumerate().map(|(index, option)| PermissionOption {
            id: format!("{}#{index}", field.key),
            label: option.label.clone(),
            kind: OptionKind::Other("answer".to_owned()),
        }));
    }
    if form.link.is_some() {
        options.push(PermissionOption {
            id: OPEN.to_owned(),
            label: "Opened".to_owned(),
            kind: OptionKind::Other("answer".to_owned()),
        });
    }
    options.push(PermissionOption {
        id: SKIP.to_owned(),
        label: "Skip".to_owned(),
        kind: OptionKind::RejectOnce,
    });
    options
}

/// The choice that answers a form all by itself: the only field, or the only one besides texts that may be left out.
fn only_choice(form: &Form) -> Option<&FormField> {
    let mut fields = form.fields.iter().filter(|field| field.kind != FieldKind::Text || field.required);
    let field = fields.next().filter(|field| field.kind == FieldKind::Select)?;
    fields.next().is_none().then_some(field)
}

/// The answer that a projected option stands for.
fn answer_from_option(form: &Form, option: Option<&str>) -> ElicitationAnswer {
    let Some(option) = option else { return ElicitationAnswer::Cancel };
    if form.link.is_some() && option == OPEN {
        return ElicitationAnswer::Accept(BTreeMap::new());
    }
    let chosen = only_choice(form).and_then(|field| {
        let index: usize = option.strip_prefix(&field.key)?.strip_prefix('#')?.parse().ok()?;
        Some((field.key.clone(), field.options.get(index)?.value.clone()))
    });
    match chosen {
        Some((key, value)) => ElicitationAnswer::Accept([(key, value.into())].into()),
        None => ElicitationAnswer::Decline,
    }
}
