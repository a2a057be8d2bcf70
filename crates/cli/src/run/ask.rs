//! Questions of the agent to somebody at a terminal: what is shown, and what a typed line means. Waits for nothing.

use serde_json::{Map, Value};
use signalbox_protocol::app::{
    Approval, ApprovalDecision, ApprovalOption, ApprovalRequestInfo, ApprovalRespondParams, McpElicitation,
    ServerRequest,
};
use signalbox_protocol::ops::{Form, FormField, FormFieldKind};

use super::clean;

/// A request of the agent that waits for somebody's answer.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) approval_id: String,
    /// The item it holds up.
    pub(super) item: Option<String>,
    /// Why it is asked, where that is not what it is about.
    reason: Option<String>,
    question: Question,
}

#[derive(Debug)]
enum Question {
    /// Whether something may be done.
    Permission { words: String, for_session: bool },
    /// One of the agent's own options.
    Options { title: String, options: Vec<ApprovalOption> },
    /// Values for fields, one after the other.
    Fields { form: Form, at: usize, content: Map<String, Value> },
}

/// What a typed line led to.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// It was not understood: this is said, and it is asked again.
    Again(String),
    /// The next field is asked.
    Next,
    /// It is answered.
    Done(Box<ApprovalRespondParams>),
}

/// The answer that nobody gave.
pub(super) fn decline(approval_id: &str) -> ApprovalRespondParams {
    decided(approval_id, ApprovalDecision::Decline)
}

fn decided(approval_id: &str, decision: ApprovalDecision) -> ApprovalRespondParams {
    ApprovalRespondParams {
        approval_id: approval_id.to_owned(),
        decision: Some(decision),
        ..ApprovalRespondParams::default()
    }
}

impl Asking {
    /// A request; `approval` is its record, which has the fields of a question in full.
    pub(super) fn new(request: &ServerRequest, approval: Option<&Approval>) -> Self {
        let of_item = |id: &str| Some(id.to_owned()).filter(|id| !id.is_empty());
        let permission = |words: &str, info: &ApprovalRequestInfo| Question::Permission {
            words: words.to_owned(),
            for_session: info.available_decisions.contains(&ApprovalDecision::AcceptForSession),
        };
        let options = |info: &ApprovalRequestInfo| Question::Options {
            title: info.title.clone(),
            options: info.options.clone(),
        };
        let (item, question) = match request {
            ServerRequest::CommandExecutionApproval(params) => {
                (of_item(&params.item_id), permission("Run it?", &params.info))
            }
            ServerRequest::FileChangeApproval(params) => {
                (of_item(&params.item_id), permission("Change it?", &params.info))
            }
            ServerRequest::ToolUserInput(params) => (of_item(&params.item_id), options(&params.info)),
            ServerRequest::Elicitation(params) => {
                let form = approval.and_then(|approval| approval.form.clone());
                let form = form.unwrap_or_else(|| Form {
                    message: params.question.message().to_owned(),
                    url: match &params.question {
                        McpElicitation::Url { url, .. } => Some(url.clone()),
                        McpElicitation::Form { .. } => None,
                    },
                    ..Form::default()
                });
                let question = Question::Fields { form, at: 0, content: Map::new() };
                (approval.and_then(|approval| approval.item_id.clone()), question.skipped())
            }
        };
        let (reason, title) = match request {
            ServerRequest::CommandExecutionApproval(params) => {
                (params.reason.as_ref(), params.command.as_ref())
            }
            ServerRequest::FileChangeApproval(params) => (params.reason.as_ref(), Some(&params.info.title)),
            ServerRequest::ToolUserInput(_) | ServerRequest::Elicitation(_) => (None, None),
        };
        let reason = reason.filter(|reason| Some(*reason) != title && !reason.trim().is_empty()).cloned();
        Self { approval_id: request.approval_id().to_owned(), item, reason, question }
    }

    /// The lines above the place where the answer is typed.
    pub(super) fn lines(&self) -> Vec<String> {
        match &self.question {
            Question::Permission { .. } => self.reason.as_deref().map(clean::line).into_iter().collect(),
            Question::Options { title, options } => {
                let mut lines = vec![format!("? {}", clean::clean(title).trim())];
                lines.extend(options.iter().enumerate().map(|(n, option)| {
                    let kind = option.kind.as_deref().filter(|kind| *kind != "allow_once");
                    let kind = kind.map(|kind| format!(" ({})", kind.replace('_', " "))).unwrap_or_default();
                    format!("  {}  {}{kind}", n + 1, clean::line(&option.name))
                }));
                lines
            }
            Question::Fields { form, at, .. } => {
                let mut lines = Vec::new();
                if *at == first_field(form) {
                    lines.push(format!("? {}", clean::clean(&form.message).trim()));
                }
                if let Some(field) = form.fields.get(*at) {
                    lines.extend(field_lines(field, form));
                }
                // Whole, so that everybody sees where it leads.
                lines.extend(form.url.as_deref().map(|url| format!("  {}", clean::line(url))));
                lines
            }
        }
    }

    /// What stands before the answer.
    pub(super) fn prompt(&self) -> String {
        let go_on = "n decline · c cancel turn";
        match &self.question {
            Question::Permission { words, for_session } => {
                let session = if *for_session { " · a this session" } else { "" };
                format!("{words}  y once{session} · {go_on} › ")
            }
            Question::Options { options, .. } => format!("  1-{} · {go_on} › ", options.len().max(1)),
            Question::Fields { form, at, .. } => match form.fields.get(*at) {
                Some(field) => match field.kind {
                    FormFieldKind::Select => format!("  1-{} · n decline › ", field.options.len().max(1)),
                    FormFieldKind::MultiSelect => "  numbers, such as 1 3 · n decline › ".to_owned(),
                    FormFieldKind::Boolean => "  y · n › ".to_owned(),
                    FormFieldKind::Number | FormFieldKind::Integer => "  a number · n decline › ".to_owned(),
                    FormFieldKind::Text => "  › ".to_owned(),
                },
                None if form.url.is_some() => "  open it, then y · n decline › ".to_owned(),
                None => "  y accept · n decline › ".to_owned(),
            },
        }
    }

    /// What a typed line means.
    pub(super) fn answer(&mut self, line: &str) -> Step {
        let decide = |decision| Step::Done(Box::new(decided(&self.approval_id, decision)));
        match &mut self.question {
            Question::Permission { for_session, .. } => match word(line) {
                Some(Word::Yes) => decide(ApprovalDecision::Accept),
                Some(Word::Always) if *for_session => decide(ApprovalDecision::AcceptForSession),
                Some(Word::No) => decide(ApprovalDecision::Decline),
                Some(Word::Cancel) => decide(ApprovalDecision::Cancel),
                _ => Step::Again(match for_session {
                    true => "Type y, a, n or c.".to_owned(),
                    false => "Type y, n or c.".to_owned(),
                }),
            },
            Question::Options { options, .. } => match (number(line, options.len()), word(line)) {
                (Some(n), _) => Step::Done(Box::new(ApprovalRespondParams {
                    approval_id: self.approval_id.clone(),
                    option_id: Some(options[n].option_id.clone()),
                    ..ApprovalRespondParams::default()
                })),
                (_, Some(Word::No)) => decide(ApprovalDecision::Decline),
                (_, Some(Word::Cancel)) => decide(ApprovalDecision::Cancel),
                _ => Step::Again(format!("Type a number up to {}, n or c.", options.len())),
            },
            Question::Fields { form, at, content } => {
                let Some(field) = form.fields.get(*at).cloned() else {
                    return match word(line) {
                        Some(Word::Yes) => decide(ApprovalDecision::Accept),
                        Some(Word::No) => decide(ApprovalDecision::Decline),
                        _ => Step::Again("Type y or n.".to_owned()),
                    };
                };
                let declines = !matches!(field.kind, FormFieldKind::Text | FormFieldKind::Boolean);
                if declines && word(line) == Some(Word::No) {
                    return decide(ApprovalDecision::Decline);
                }
                match value(&field, form, line) {
                    Ok(values) => content.extend(values),
                    Err(problem) => return Step::Again(problem),
                }
                *at += 1;
                *at = skip(form, *at);
                if *at < form.fields.len() {
                    return Step::Next;
                }
                Step::Done(Box::new(ApprovalRespondParams {
                    content: Some(std::mem::take(content)),
                    ..decided(&self.approval_id, ApprovalDecision::Accept)
                }))
            }
        }
    }
}

impl Question {
    /// The same at the first field that is asked.
    fn skipped(self) -> Self {
        match self {
            Self::Fields { form, content, .. } => Self::Fields { at: first_field(&form), form, content },
            other => other,
        }
    }
}

fn first_field(form: &Form) -> usize {
    skip(form, 0)
}

/// Fields for words of one's own are not asked by themselves: they are filled where their select is answered.
fn skip(form: &Form, mut at: usize) -> usize {
    let is_other = |field: &FormField| field.custom_answer_for.is_some();
    while form.fields.get(at).is_some_and(is_other) {
        at += 1;
    }
    at
}

/// The field that takes an answer to this select in words of one's own.
fn other_of<'f>(form: &'f Form, field: &FormField) -> Option<&'f FormField> {
    form.fields.iter().find(|other| other.custom_answer_for.as_deref() == Some(field.key.as_str()))
}

fn field_lines(field: &FormField, form: &Form) -> Vec<String> {
    let mut lines = Vec::new();
    let name = field.title.as_deref().or(field.description.as_deref()).unwrap_or(&field.key);
    let needed = match &field.default {
        Some(default) => format!(" (empty: {})", clean::line(&words_of(default))),
        None if field.required => String::new(),
        None => " (may be left empty)".to_owned(),
    };
    if form.fields.len() > 1 || field.options.is_empty() {
        let bounds = bounds(field).map(|bounds| format!(", {bounds}")).unwrap_or_default();
        lines.push(format!("  {}{bounds}{needed}", clean::line(name)));
    }
    lines.extend(field.options.iter().enumerate().map(|(n, option)| {
        let more = option.description.as_deref().map(|more| format!(" · {}", clean::short(more, 80)));
        format!("  {}  {}{}", n + 1, clean::line(&option.label), more.unwrap_or_default())
    }));
    if other_of(form, field).is_some() {
        lines.push("  or words of your own".to_owned());
    }
    lines
}

/// What a value must be, in few words.
fn bounds(field: &FormField) -> Option<String> {
    let unit = match field.kind {
        FormFieldKind::Text => " characters",
        FormFieldKind::MultiSelect => " choices",
        _ => "",
    };
    let range = match (&field.min, &field.max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (Some(min), None) => Some(format!("at least {min}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (None, None) => None,
    };
    let pattern = field.pattern.as_deref().map(|pattern| format!("like {}", clean::short(pattern, 60)));
    let format = field.format.as_deref().map(|format| clean::short(format, 30));
    let all: Vec<String> = [range, pattern, format].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn words_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(flag) => if *flag { "y" } else { "n" }.to_owned(),
        Value::Array(values) => values.iter().map(words_of).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The values that a line gives to a field, or why it gives none.
fn value(field: &FormField, form: &Form, line: &str) -> Result<Map<String, Value>, String> {
    let one = |value: Value| Map::from_iter([(field.key.clone(), value)]);
    if line.is_empty() {
        return match &field.default {
            Some(default) => Ok(one(default.clone())),
            None if field.required => Err("An answer is needed.".to_owned()),
            None => Ok(Map::new()),
        };
    }
    match field.kind {
        FormFieldKind::Text => Ok(one(line.into())),
        FormFieldKind::Integer => {
            line.parse::<i64>().map(|n| one(n.into())).map_err(|_| "Type a whole number.".to_owned())
        }
        FormFieldKind::Number => match line.parse::<f64>().ok().and_then(serde_json::Number::from_f64) {
            Some(number) => Ok(one(Value::Number(number))),
            None => Err("Type a number.".to_owned()),
        },
        FormFieldKind::Boolean => match word(line) {
            Some(Word::Yes) => Ok(one(true.into())),
            Some(Word::No) => Ok(one(false.into())),
            _ => Err("Type y or n.".to_owned()),
        },
        FormFieldKind::Select => match (chosen(field, line), other_of(form, field)) {
            (Some(value), _) => Ok(one(value)),
            (None, Some(other)) => Ok(Map::from_iter([(other.key.clone(), line.into())])),
            (None, None) => Err(format!("Type a number up to {}.", field.options.len())),
        },
        FormFieldKind::MultiSelect => {
            let words = line.split([' ', ',']).filter(|word| !word.is_empty());
            let values: Option<Vec<Value>> = words.map(|word| chosen(field, word)).collect();
            values
                .map(|values| one(values.into()))
                .ok_or_else(|| format!("Type numbers up to {}.", field.options.len()))
        }
    }
}

/// The choice with this number, or with these words.
fn chosen(field: &FormField, line: &str) -> Option<Value> {
    let by_number = number(line, field.options.len()).and_then(|n| field.options.get(n));
    let same = |option: &&signalbox_protocol::ops::FormOption| {
        option.label.eq_ignore_ascii_case(line) || option.value.eq_ignore_ascii_case(line)
    };
    by_number.or_else(|| field.options.iter().find(same)).map(|option| option.value.clone().into())
}

/// A number from one up to `count`, as an index.
fn number(line: &str, count: usize) -> Option<usize> {
    line.parse::<usize>().ok()?.checked_sub(1).filter(|n| *n < count)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Yes,
    Always,
    No,
    Cancel,
}

fn word(line: &str) -> Option<Word> {
    Some(match line.to_ascii_lowercase().as_str() {
        "y" | "yes" | "once" => Word::Yes,
        "a" | "always" | "session" => Word::Always,
        "n" | "no" | "decline" => Word::No,
        "c" | "cancel" => Word::Cancel,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asking(method: &str, params: Value, form: Option<Value>) -> Asking {
        let request = ServerRequest::decode(method, params).unwrap().unwrap();
        let approval = form.map(|form| {
            let record = json!({
                "approvalId": "x", "threadId": "t", "turnId": "u", "itemId": null, "kind": "elicitation", "title": "",
                "options": [], "form": form, "sequence": 1, "requestedAtMs": 1, "availableDecisions": [],
            });
            serde_json::from_value::<Approval>(record).unwrap()
        });
        Asking::new(&request, approval.as_ref())
    }

    fn command() -> Asking {
        let params = json!({
            "threadId": "t", "turnId": "u", "itemId": "i4", "startedAtMs": 1, "command": "ls", "approvalId": "x",
            "title": "ls", "options": [], "availableDecisions": ["accept", "acceptForSession", "decline", "cancel"],
        });
        asking("item/commandExecution/requestApproval", params, None)
    }

    fn tool() -> Asking {
        let params = json!({
            "threadId": "t", "turnId": "u", "itemId": "", "questions": [], "isBlocking": true, "approvalId": "x",
            "title": "Which?", "availableDecisions": ["accept", "decline", "cancel"],
            "options": [{"optionId": "red", "name": "Red"}, {"optionId": "blue", "name": "Blue"}],
        });
        asking("item/tool/requestUserInput", params, None)
    }

    fn form(fields: Value) -> Asking {
        let params = json!({
            "threadId": "t", "serverName": "p", "mode": "form", "message": "Tell me", "requestedSchema": {},
            "approvalId": "x", "title": "", "options": [], "availableDecisions": [],
        });
        asking(
            "mcpServer/elicitation/request",
            params,
            Some(json!({ "message": "Tell me", "fields": fields })),
        )
    }

    fn done(step: Step) -> ApprovalRespondParams {
        match step {
            Step::Done(answer) => *answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_letter_or_a_word_decides() {
        for (line, decision) in [
            ("y", ApprovalDecision::Accept),
            ("YES", ApprovalDecision::Accept),
            ("a", ApprovalDecision::AcceptForSession),
            ("n", ApprovalDecision::Decline),
            ("cancel", ApprovalDecision::Cancel),
        ] {
            let answer = done(command().answer(line));
            assert_eq!((answer.approval_id.as_str(), answer.decision), ("x", Some(decision)));
        }
        assert_eq!(command().item.as_deref(), Some("i4"));
        assert_eq!(command().prompt(), "Run it?  y once · a this session · n decline · c cancel turn › ");
    }

    #[test]
    fn nothing_is_allowed_by_accident() {
        for line in ["", "ye", "yy", "1", "\u{1b}[A"] {
            assert_eq!(command().answer(line), Step::Again("Type y, a, n or c.".to_owned()));
        }
    }

    #[test]
    fn options_are_chosen_by_number() {
        let mut asking = tool();
        assert_eq!(asking.lines(), ["? Which?", "  1  Red", "  2  Blue"]);
        assert_eq!(asking.answer("3"), Step::Again("Type a number up to 2, n or c.".to_owned()));
        assert_eq!(asking.answer("0"), Step::Again("Type a number up to 2, n or c.".to_owned()));
        assert_eq!(done(asking.answer("2")).option_id.as_deref(), Some("blue"));
        assert_eq!(done(tool().answer("c")).decision, Some(ApprovalDecision::Cancel));
    }

    #[test]
    fn fields_are_filled_one_after_the_other() {
        let mut asking = form(json!([
            {"key": "colour", "kind": "select", "title": "Colour", "required": true,
             "options": [{"value": "r", "label": "Red"}, {"value": "b", "label": "Blue"}]},
            {"key": "own", "kind": "text", "custom_answer_for": "colour"},
            {"key": "count", "kind": "integer", "required": true},
            {"key": "sure", "kind": "boolean"},
            {"key": "parts", "kind": "multi_select", "options": [{"value": "p", "label": "P"}, {"value": "q", "label": "Q"}]},
            {"key": "why", "kind": "text"},
        ]));
        assert_eq!(
            asking.lines(),
            ["? Tell me", "  Colour", "  1  Red", "  2  Blue", "  or words of your own"]
        );
        assert_eq!(asking.answer("blue"), Step::Next);
        assert!(matches!(asking.answer("many"), Step::Again(_)));
        assert_eq!(asking.answer("3"), Step::Next);
        assert_eq!(asking.answer("y"), Step::Next);
        assert_eq!(asking.answer("1, 2"), Step::Next);
        let answer = done(asking.answer(""));
        assert_eq!(answer.decision, Some(ApprovalDecision::Accept));
        assert_eq!(
            Value::Object(answer.content.unwrap()),
            json!({"colour": "b", "count": 3, "sure": true, "parts": ["p", "q"]})
        );
    }

    #[test]
    fn words_of_ones_own_go_into_their_field() {
        let mut asking = form(json!([
            {"key": "colour", "kind": "select", "options": [{"value": "r", "label": "Red"}]},
            {"key": "own", "kind": "text", "custom_answer_for": "colour"},
        ]));
        let content = done(asking.answer("a warm green")).content.unwrap();
        assert_eq!(Value::Object(content), json!({"own": "a warm green"}));
    }

    #[test]
    fn a_form_without_fields_is_a_yes_or_no() {
        assert_eq!(done(form(json!([])).answer("y")).decision, Some(ApprovalDecision::Accept));
        assert_eq!(done(form(json!([])).answer("n")).decision, Some(ApprovalDecision::Decline));
    }

    #[test]
    fn an_address_is_shown_whole_and_a_letter_says_that_it_was_opened() {
        let params = json!({
            "threadId": "t", "serverName": "p", "mode": "url", "message": "Log in", "elicitationId": "e",
            "url": "https://x.test/a?b=1", "approvalId": "x", "title": "", "options": [], "availableDecisions": [],
        });
        let mut asking = asking("mcpServer/elicitation/request", params, None);
        assert_eq!(asking.lines(), ["? Log in", "  https://x.test/a?b=1"]);
        assert_eq!(asking.prompt(), "  open it, then y · n decline › ");
        assert_eq!(asking.answer("what"), Step::Again("Type y or n.".to_owned()));
        assert_eq!(done(asking.answer("y")).decision, Some(ApprovalDecision::Accept));
    }

    #[test]
    fn a_field_says_its_bounds_and_what_an_empty_line_means() {
        let mut asking = form(json!([
            {"key": "n", "kind": "integer", "title": "How many", "min": 1, "max": 9, "default": 3},
            {"key": "m", "kind": "text", "title": "Mail", "format": "email", "required": true},
        ]));
        assert_eq!(asking.lines(), ["? Tell me", "  How many, 1 to 9 (empty: 3)"]);
        assert_eq!(asking.answer(""), Step::Next);
        assert_eq!(asking.lines(), ["  Mail, email"]);
        let content = done(asking.answer("a@b")).content.unwrap();
        assert_eq!(Value::Object(content), json!({"n": 3, "m": "a@b"}));
    }
}
