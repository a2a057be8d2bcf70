//! What a commit changes besides the log: rows derived from its facts. Pure. For a session's row it says in changes what
//! [`signalbox_facts::SessionRow::apply`] says of the whole row; a test holds the two together.

use signalbox_facts::{
    Activity, Fact, FactBody, PendingInput, Policy, Seq, SessionCreated, SessionRule, TitleChanged,
    TurnContext, TurnEnded, TurnId, Usage,
};

/// One change of the derived rows, in the order of the facts that cause it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Change<'a> {
    /// The session's row; it comes before the facts.
    Created { at_ms: i64, created: &'a SessionCreated },
    /// Title and who chose it.
    Title(&'a TitleChanged),
    /// Activity; `first` is the first revision in the commit, which must follow the stored one.
    Activity { first: u64, last: &'a Activity },
    /// A prompt was accepted; the first one of a session is its preview.
    Prompted { at_ms: i64, preview: String },
    /// A turn began.
    TurnOpened { turn: TurnId, first_seq: Seq, at_ms: i64, context: &'a TurnContext },
    /// A turn ended.
    TurnEnded { turn: TurnId, seq: Seq, at_ms: i64, ended: &'a TurnEnded },
    /// Policy.
    Policy(Policy),
    /// Model, effort, cwd, roots, options.
    Settings(&'a signalbox_facts::SettingsChanged),
    /// The agent's id of the conversation.
    AgentSession(&'a str),
    /// Token usage.
    Usage(&'a Usage),
    /// Queue of follow-ups.
    Queue(signalbox_facts::QueueChanged),
    /// In or out of the archive.
    Archived(bool),
    /// The checkout is gone.
    WorktreeDiscarded,
    /// A session rule was kept.
    Rule(&'a SessionRule),
    /// A session rule was taken back.
    RuleRemoved(&'a SessionRule),
    /// Turns were taken back.
    Reverted { from_seq: Seq },
    /// An input waits.
    Parked { turn: Option<TurnId>, input: &'a PendingInput },
    /// An input waits no longer.
    Resolved(signalbox_facts::InputId),
    /// A client's message was accepted.
    Receipt { client_message_id: &'a str, turn: Option<TurnId>, seq: Seq },
}

/// Scalars of the first prompt that a list shows.
const PREVIEW_SCALARS: usize = 200;

/// The changes that follow from the facts of one commit.
pub(crate) fn changes<'a>(facts: impl Iterator<Item = &'a Fact> + Clone) -> Vec<Change<'a>> {
    let mut out = Vec::new();
    let mut activity: Option<(u64, &'a Activity)> = None;
    // The turn that is being told, and where it began in this commit.
    let mut begun: Option<(TurnId, Seq)> = None;
    for fact in facts {
        if let Some(turn) = fact.turn.filter(|turn| begun.is_none_or(|(known, _)| known != *turn)) {
            begun = Some((turn, fact.seq));
        }
        match &fact.body {
            FactBody::SessionCreated(created) => out.push(Change::Created { at_ms: fact.at_ms, created }),
            FactBody::TitleChanged(title) => out.push(Change::Title(title)),
            FactBody::Activity(next) => {
                activity = Some((activity.map_or(next.revision, |(first, _)| first), next));
            }
            FactBody::Prompt(prompt) => {
                let preview = prompt.display.chars().take(PREVIEW_SCALARS).collect();
                out.push(Change::Prompted { at_ms: fact.at_ms, preview });
                if let (Some(context), Some(turn)) = (&prompt.opens, fact.turn) {
                    // The activity before the prompt belongs to the turn too.
                    out.push(Change::TurnOpened {
                        turn,
                        first_seq: begun.map_or(fact.seq, |(_, first)| first),
                        at_ms: fact.at_ms,
                        context,
                    });
                }
                if let Some(client_message_id) = &prompt.client_message_id {
                    out.push(Change::Receipt { client_message_id, turn: fact.turn, seq: fact.seq });
                }
            }
            FactBody::PermissionRequested(input) => out.push(Change::Parked { turn: fact.turn, input }),
            FactBody::PermissionResolved(resolved) => {
                out.push(Change::Resolved(resolved.input));
                out.extend(resolved.kept_rule.as_ref().map(Change::Rule));
            }
            FactBody::RuleRemoved { rule } => out.push(Change::RuleRemoved(rule)),
            FactBody::PolicyChanged(changed) => out.push(Change::Policy(changed.policy)),
            FactBody::SettingsChanged(settings) => out.push(Change::Settings(settings)),
            FactBody::AgentSession { id } => out.push(Change::AgentSession(id)),
            FactBody::Usage(usage) => out.push(Change::Usage(usage)),
            FactBody::TurnEnded(ended) => out.extend(fact.turn.map(|turn| Change::TurnEnded {
                turn,
                seq: fact.seq,
                at_ms: fact.at_ms,
                ended,
            })),
            FactBody::Reverted(reverted) => out.push(Change::Reverted { from_seq: reverted.from_seq }),
            FactBody::Archived { archived } => out.push(Change::Archived(*archived)),
            FactBody::QueueChanged(queue) => {
                out.push(Change::Queue(signalbox_facts::QueueChanged { request_id: None, ..queue.clone() }));
            }
            FactBody::WorktreeDiscarded(_) => out.push(Change::WorktreeDiscarded),
            FactBody::AgentText(_)
            | FactBody::AgentThought(_)
            | FactBody::ToolCall(_)
            | FactBody::ToolOutput(_)
            | FactBody::Plan(_)
            | FactBody::TurnDiff(_)
            | FactBody::ContextCompaction(_)
            | FactBody::Warning(_) => {}
        }
    }
    out.extend(activity.map(|(first, last)| Change::Activity { first, last }));
    out
}

/// Checks what the database cannot: one session, seqs without gap, revisions without gap.
pub(crate) fn check<'a>(
    session: signalbox_facts::SessionId,
    expected_last_seq: Seq,
    facts: impl Iterator<Item = &'a Fact>,
) -> Result<(), String> {
    let mut last = expected_last_seq;
    let mut revision = None;
    for fact in facts {
        if fact.session != session {
            return Err(format!("fact {} belongs to session {}", fact.seq, fact.session));
        }
        if fact.seq != last + 1 || fact.through_seq != fact.seq {
            return Err(format!("fact {} through {} follows {last}", fact.seq, fact.through_seq));
        }
        last = fact.seq;
        match &fact.body {
            FactBody::SessionCreated(_) if fact.seq != 1 => {
                return Err(format!("session_created has seq {}, not 1", fact.seq));
            }
            FactBody::SessionCreated(_) => {}
            _ if fact.seq == 1 => return Err("the first fact is not session_created".to_owned()),
            FactBody::Activity(activity) => {
                if revision.is_some_and(|before: u64| activity.revision != before + 1) {
                    return Err(format!("activity revision {} skips or repeats", activity.revision));
                }
                revision = Some(activity.revision);
            }
            FactBody::Prompt(prompt) if prompt.opens.is_some() && fact.turn.is_none() => {
                return Err("a prompt opens a turn but names none".to_owned());
            }
            FactBody::TurnEnded(_) if fact.turn.is_none() => {
                return Err("a turn ends but is not named".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}
