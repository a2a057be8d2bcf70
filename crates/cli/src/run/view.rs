//! What a turn looks like: each notification becomes lines on the [`Screen`]. Waits for nothing, asks nothing.

use std::collections::HashMap;
use std::io;

use anstyle::Style;
use signalbox_protocol::app::{
    ApprovalDecision, CommandExecutionStatus, DynamicToolCallOutputContentItem, DynamicToolCallStatus,
    ErrorNotification, FileUpdateChange, ItemBody, McpToolCallStatus, PatchApplyStatus, ServerNotification,
    ThreadItem, ThreadTokenUsage, TurnPlanStep, TurnPlanStepStatus,
};

use super::clean::{self, Cleaner};
use super::diff;
use super::ending::duration;
use super::output::Output;
use super::screen::{BAD, BOLD, Block, DIM, GOOD, NOTE, PLAIN, Screen};
use super::wrap::wrapped;

/// What stands before each line of a thought.
const THOUGHT: &str = "┆ ";
/// Longest title that is shown, in characters.
const TITLE: usize = 100;
/// Longest result of a tool that is shown behind its title, in characters.
const RESULT: usize = 80;

/// A turn on a screen.
#[derive(Debug)]
pub(super) struct View {
    pub(super) screen: Screen,
    cwd: String,
    items: HashMap<String, Item>,
    plan: Vec<TurnPlanStep>,
    pub(super) usage: Option<ThreadTokenUsage>,
    pub(super) diff: Option<String>,
    /// What is being waited for, for the spinner.
    waits_for: String,
    /// A question stands at the end of the screen; what can wait does not push it up.
    pub(super) is_asking: bool,
}

/// What is kept of an open item.
#[derive(Debug, Default)]
struct Item {
    text: Cleaner,
    output: Output,
    /// When it was decided about, Unix milliseconds: it runs since then.
    answered_at_ms: Option<i64>,
    /// It was not allowed.
    refused: Option<&'static str>,
    /// Its heading, for when it has to be said again.
    heading: String,
    /// Its heading, and of a file change its diff, are on the screen.
    shown: bool,
    /// The changes that are on the screen.
    changes: Vec<FileUpdateChange>,
    /// Its end is on the screen.
    closed: bool,
}

impl View {
    /// An empty screen for a turn in this directory.
    pub(super) fn new(screen: Screen, cwd: &str) -> Self {
        Self {
            screen,
            cwd: cwd.to_owned(),
            items: HashMap::new(),
            plan: Vec::new(),
            usage: None,
            diff: None,
            waits_for: "starting the agent".to_owned(),
            is_asking: false,
        }
    }

    /// Shows what a notification says.
    pub(super) fn show(&mut self, notification: &ServerNotification) -> io::Result<()> {
        use ServerNotification as Told;
        match notification {
            Told::TurnStarted(_) => self.waits_for = "waiting for the agent".to_owned(),
            Told::ItemStarted(told) => self.started(&told.item)?,
            Told::AgentMessageDelta(told) => self.text(&told.item_id, "", PLAIN, &told.delta)?,
            Told::ReasoningSummaryTextDelta(told) => self.text(&told.item_id, THOUGHT, DIM, &told.delta)?,
            Told::CommandExecutionOutputDelta(told) => self.output(&told.item_id, &told.delta)?,
            Told::ItemCompleted(told) => self.completed(&told.item)?,
            Told::TurnPlanUpdated(told) => self.plan(&told.plan)?,
            Told::TurnDiffUpdated(told) => self.diff = Some(told.diff.clone()),
            Told::ThreadTokenUsageUpdated(told) => self.usage = Some(told.token_usage.clone()),
            Told::Warning(told) => self.notice(&told.message)?,
            Told::Error(told) => self.error(told)?,
            _ => {}
        }
        self.screen.flush()
    }

    /// A line that stops nothing.
    pub(super) fn notice(&mut self, message: &str) -> io::Result<()> {
        self.screen.begin(Block::Line)?;
        let text = wrapped(&clean::line(message), self.width_beside("! "));
        for (n, line) in text.lines().enumerate() {
            let mark = if n == 0 { "!" } else { " " };
            self.screen.line(format_args!("{NOTE}{mark} {line}{NOTE:#}"))?;
        }
        self.screen.flush()
    }

    /// A remark of this program itself, under everything else.
    pub(super) fn aside(&mut self, text: &str) -> io::Result<()> {
        for line in wrapped(text, self.screen.width()).lines() {
            self.screen.line(format_args!("{DIM}{line}{DIM:#}"))?;
        }
        self.screen.flush()
    }

    /// A question and the place where its answer is typed; right below what it is about, or on its own.
    pub(super) fn question(&mut self, lines: &[String], prompt: &str, own_block: bool) -> io::Result<()> {
        if own_block {
            self.screen.begin(Block::Piece)?;
        }
        for line in lines {
            self.screen.line(format_args!("{BOLD}{line}{BOLD:#}"))?;
        }
        self.screen.ask(format_args!("{NOTE}{prompt}{NOTE:#}"))
    }

    /// Nothing has come for a while: shows what was held back, and that something is awaited.
    pub(super) fn idle(&mut self) -> io::Result<()> {
        self.screen.settle()?;
        self.screen.flush()?;
        self.screen.spin(&self.waits_for);
        Ok(())
    }

    /// Shows an item's heading (and diff), unless it is what the screen ends with.
    pub(super) fn show_again(&mut self, item: &str, changes: &[FileUpdateChange]) -> io::Result<()> {
        let known = self.items.entry(item.to_owned()).or_default();
        if !changes.is_empty() && (!known.shown || known.changes != changes) {
            known.shown = true;
            known.changes = changes.to_vec();
            self.screen.begin(Block::Text(item.to_owned()))?;
            return diff::show(&mut self.screen, &self.cwd, changes);
        }
        let heading = known.heading.clone();
        if heading.is_empty() || self.screen.is_open(&Block::Text(item.to_owned())) {
            return Ok(());
        }
        self.heading(item, &heading)
    }

    /// Shows how an item was decided about without asking anybody.
    pub(super) fn declined(&mut self, item: &str, why: &str) -> io::Result<()> {
        self.show_again(item, &[])?;
        let known = self.items.entry(item.to_owned()).or_default();
        known.closed = true;
        if known.heading.is_empty() && !known.shown {
            return self.notice(&format!("declined: {why}"));
        }
        self.screen.line(format_args!("└ {NOTE}declined: {why}{NOTE:#}"))?;
        self.screen.flush()
    }

    /// An item was decided about, by whomever.
    pub(super) fn answered(&mut self, item: &str, at_ms: Option<i64>, decision: Option<ApprovalDecision>) {
        if let Some(known) = self.items.get_mut(item) {
            known.answered_at_ms = at_ms;
            known.refused = match decision {
                Some(ApprovalDecision::Decline) => Some("declined"),
                Some(ApprovalDecision::Cancel) => Some("cancelled"),
                _ => None,
            };
        }
    }

    fn error(&mut self, told: &ErrorNotification) -> io::Result<()> {
        // A turn's own error is shown where the turn ends.
        if !told.turn_id.is_empty() && !told.will_retry {
            return Ok(());
        }
        self.screen.begin(Block::Piece)?;
        self.failure(&told.error)
    }

    fn started(&mut self, item: &ThreadItem) -> io::Result<()> {
        let known = self.items.entry(item.id.clone()).or_default();
        match &item.body {
            ItemBody::CommandExecution { command, .. } => {
                self.waits_for = format!("running {}", clean::short(command, 50));
                let heading = format!("$ {}", clean::clean(command).trim().replace('\n', "\n  "));
                known.heading.clone_from(&heading);
                if !self.is_asking {
                    known.shown = true;
                    self.heading(&item.id, &heading)?;
                }
            }
            ItemBody::FileChange { changes, .. } => {
                self.waits_for = match changes.first() {
                    Some(change) => {
                        format!("changing {}", clean::short(diff::within(&self.cwd, &change.path), 50))
                    }
                    None => "changing files".to_owned(),
                };
            }
            ItemBody::McpToolCall { .. } | ItemBody::DynamicToolCall { .. } => {
                self.waits_for = title(item);
            }
            ItemBody::Reasoning { .. } => self.waits_for = "thinking".to_owned(),
            ItemBody::ContextCompaction { .. } => self.waits_for = "compacting the context".to_owned(),
            ItemBody::UserMessage { .. } | ItemBody::AgentMessage { .. } | ItemBody::Plan { .. } => {}
        }
        Ok(())
    }

    fn completed(&mut self, item: &ThreadItem) -> io::Result<()> {
        self.waits_for = "waiting for the agent".to_owned();
        let mut known = self.items.remove(&item.id).unwrap_or_default();
        let began = known.answered_at_ms.or(item.started_at_ms);
        let took = began.zip(item.completed_at_ms).map(|(from, to)| to - from);
        match &item.body {
            ItemBody::AgentMessage { text, .. } => self.end_text(item, &known, "", PLAIN, text),
            ItemBody::Reasoning { summary, .. } => {
                self.end_text(item, &known, THOUGHT, DIM, &summary.join("\n\n"))
            }
            ItemBody::CommandExecution {
                command, status, aggregated_output, exit_code, duration_ms, ..
            } => {
                if !known.shown {
                    let heading = format!("$ {}", clean::clean(command).trim().replace('\n', "\n  "));
                    self.heading(&item.id, &heading)?;
                }
                let refused =
                    known.refused.or((*status == CommandExecutionStatus::Declined).then_some("declined"));
                let whole = aggregated_output.as_deref().unwrap_or_default();
                let rest = known.output.rest(whole);
                // What stands in the output of a refused command is only that it was.
                if !rest.is_empty() && refused.is_none() {
                    self.reopen(&item.id, &known)?;
                    for line in rest {
                        self.screen.bar(PLAIN, &line)?;
                    }
                }
                if std::mem::replace(&mut known.closed, true) {
                    return Ok(());
                }
                self.reopen(&item.id, &known)?;
                let took = took.or(*duration_ms).map(duration).unwrap_or_default();
                if let Some(refused) = refused {
                    return self.screen.line(format_args!("└ {NOTE}{refused}{NOTE:#}"));
                }
                match (status, exit_code) {
                    (_, Some(0)) => self.screen.line(format_args!("{DIM}└ exit 0 · {took}{DIM:#}")),
                    (_, Some(code)) => {
                        self.screen.line(format_args!("└ {BAD}exit {code}{BAD:#}{DIM} · {took}{DIM:#}"))
                    }
                    (CommandExecutionStatus::Completed, None) => {
                        self.screen.line(format_args!("{DIM}└ {took}{DIM:#}"))
                    }
                    (_, None) => self.screen.line(format_args!("└ {BAD}failed{BAD:#}{DIM} · {took}{DIM:#}")),
                }
            }
            ItemBody::FileChange { changes, status } => {
                if !std::mem::replace(&mut known.shown, true) {
                    self.screen.begin(Block::Text(item.id.clone()))?;
                    diff::show(&mut self.screen, &self.cwd, changes)?;
                }
                if known.closed {
                    return Ok(());
                }
                if !self.screen.is_open(&Block::Text(item.id.clone())) {
                    self.screen.begin(Block::Text(item.id.clone()))?;
                    diff::headings(&mut self.screen, &self.cwd, changes)?;
                }
                if let Some(refused) = known.refused {
                    return self.screen.line(format_args!("└ {NOTE}{refused}{NOTE:#}"));
                }
                match status {
                    PatchApplyStatus::Completed => self.screen.line(format_args!("{DIM}└ done{DIM:#}")),
                    PatchApplyStatus::Declined => {
                        let why = unasked(&self.cwd, changes);
                        self.screen.line(format_args!("└ {NOTE}declined: {why}{NOTE:#}"))
                    }
                    PatchApplyStatus::Failed | PatchApplyStatus::InProgress => {
                        self.screen.line(format_args!("└ {BAD}failed{BAD:#}"))
                    }
                }
            }
            ItemBody::McpToolCall { status, error, declined, .. } => {
                let failed = *status == McpToolCallStatus::Failed;
                let why = error.as_ref().map(|error| error.message.as_str());
                self.tool(&title(item), failed, *declined, why)
            }
            ItemBody::DynamicToolCall { status, content_items, declined, .. } => {
                let failed = *status == DynamicToolCallStatus::Failed;
                let said = content_items.iter().flatten().find_map(|content| match content {
                    DynamicToolCallOutputContentItem::InputText { text } => Some(text.as_str()),
                    _ => None,
                });
                self.tool(&title(item), failed, *declined, said)
            }
            ItemBody::ContextCompaction { .. } => self.tool("context compacted", false, false, None),
            ItemBody::UserMessage { .. } | ItemBody::Plan { .. } => Ok(()),
        }
    }

    /// One line for a call of any other tool, with its result if that is short.
    fn tool(&mut self, title: &str, failed: bool, declined: bool, said: Option<&str>) -> io::Result<()> {
        self.screen.begin(Block::Line)?;
        let result = said.map(str::trim).filter(|said| !said.is_empty());
        let short = |said: &str| format!(" · {}", clean::short(said, RESULT));
        if declined {
            return self.screen.line(format_args!("{NOTE}✗{NOTE:#} {title}{DIM} · declined{DIM:#}"));
        }
        if failed {
            let why = result.map(short).unwrap_or_default();
            return self.screen.line(format_args!("{BAD}✗{BAD:#} {title}{DIM}{why}{DIM:#}"));
        }
        // Contents of files and the like are the agent's business.
        let result = result.filter(|said| !said.contains('\n') && said.chars().count() <= RESULT).map(short);
        let result = result.unwrap_or_default();
        self.screen.line(format_args!("{DIM}•{DIM:#} {title}{DIM}{result}{DIM:#}"))
    }

    fn text(&mut self, item: &str, margin: &'static str, style: Style, delta: &str) -> io::Result<()> {
        let goes_on = self.screen.is_open(&Block::Text(item.to_owned()));
        let known = self.items.entry(item.to_owned()).or_default();
        let text = known.text.push(delta);
        // A text that something else has come between begins a line anew.
        let text = if known.shown && !goes_on { text.trim_start_matches(' ') } else { &text };
        if text.is_empty() {
            return Ok(());
        }
        known.shown = true;
        self.begin_text(item)?;
        self.screen.grow(margin, style, text)
    }

    /// The end of a text: what of it is not on the screen yet.
    fn end_text(
        &mut self,
        item: &ThreadItem,
        known: &Item,
        margin: &'static str,
        style: Style,
        whole: &str,
    ) -> io::Result<()> {
        if !known.shown && !whole.trim().is_empty() {
            self.begin_text(&item.id)?;
            self.screen.grow(margin, style, &clean::clean(whole))?;
        }
        if self.screen.is_open(&Block::Text(item.id.clone())) { self.screen.end_line() } else { Ok(()) }
    }

    fn width_beside(&self, margin: &str) -> Option<usize> {
        self.screen.width().map(|width| width.saturating_sub(margin.chars().count()))
    }

    fn begin_text(&mut self, item: &str) -> io::Result<()> {
        let block = Block::Text(item.to_owned());
        if self.screen.is_open(&block) { Ok(()) } else { self.screen.begin(block) }
    }

    fn output(&mut self, item: &str, delta: &str) -> io::Result<()> {
        let known = self.items.entry(item.to_owned()).or_default();
        let lines = known.output.push(delta);
        if lines.is_empty() {
            return Ok(());
        }
        let heading = known.heading.clone();
        if !self.screen.is_open(&Block::Text(item.to_owned())) && !heading.is_empty() {
            self.heading(item, &heading)?;
        }
        for line in lines {
            self.screen.bar(PLAIN, &line)?;
        }
        Ok(())
    }

    fn heading(&mut self, item: &str, heading: &str) -> io::Result<()> {
        if let Some(known) = self.items.get_mut(item) {
            known.shown = true;
        }
        self.screen.begin(Block::Text(item.to_owned()))?;
        self.screen.line(format_args!("{BOLD}{heading}{BOLD:#}"))
    }

    /// Something else was shown meanwhile: says again what the following belongs to.
    fn reopen(&mut self, item: &str, known: &Item) -> io::Result<()> {
        if self.screen.is_open(&Block::Text(item.to_owned())) || known.heading.is_empty() {
            return Ok(());
        }
        self.heading(item, &known.heading)
    }

    /// The whole plan when it is new, afterwards what has changed.
    fn plan(&mut self, plan: &[TurnPlanStep]) -> io::Result<()> {
        let is_new = plan.len() != self.plan.len()
            || plan.iter().zip(&self.plan).any(|(now, before)| now.step != before.step);
        if is_new {
            self.screen.begin(Block::Piece)?;
            for step in plan {
                self.step(step)?;
            }
        } else {
            let changed: Vec<_> = plan.iter().zip(&self.plan).filter(|(now, before)| now != before).collect();
            let changed: Vec<TurnPlanStep> = changed.into_iter().map(|(now, _)| now.clone()).collect();
            // What begins is shown by what follows; what is done by its mark.
            let done = changed.iter().filter(|step| step.status == TurnPlanStepStatus::Completed);
            for step in done {
                self.screen.begin(Block::Line)?;
                self.step(step)?;
            }
        }
        self.plan = plan.to_vec();
        Ok(())
    }

    fn step(&mut self, step: &TurnPlanStep) -> io::Result<()> {
        let text = clean::line(&step.step);
        match step.status {
            TurnPlanStepStatus::Completed => {
                self.screen.line(format_args!("{GOOD}✓{GOOD:#} {DIM}{text}{DIM:#}"))
            }
            TurnPlanStepStatus::InProgress => self.screen.line(format_args!("{BOLD}▸ {text}{BOLD:#}")),
            TurnPlanStepStatus::Pending => self.screen.line(format_args!("{DIM}○ {text}{DIM:#}")),
        }
    }
}

/// Why changes were declined without a question.
fn unasked(cwd: &str, changes: &[FileUpdateChange]) -> String {
    match diff::outside(cwd, changes) {
        Some(path) => format!("{path} is outside {cwd}; -C DIR works there"),
        None => "by the policy".to_owned(),
    }
}

/// What a call is called.
fn title(item: &ThreadItem) -> String {
    let own =
        item.tool_call.as_ref().map(|call| call.title.as_str()).filter(|title| !title.trim().is_empty());
    match (&item.body, own) {
        (ItemBody::McpToolCall { server, tool, .. }, _) => clean::short(&format!("{server}: {tool}"), TITLE),
        (_, Some(title)) => clean::short(title, TITLE),
        (ItemBody::DynamicToolCall { tool, .. }, None) => clean::short(tool, TITLE),
        _ => String::new(),
    }
}
