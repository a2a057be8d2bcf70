//! What of a tool call's input tells that it launches another agent or a workflow: a few named texts, bounded. Pure.

use serde_json::{Map, Value};

/// Last words of a tool's name, as snake case, that make it a launch.
const LAUNCHES: [&str; 12] = [
    "agent",
    "delegate",
    "delegate_task",
    "run_agent",
    "run_subagent",
    "run_workflow",
    "spawn_agent",
    "spawn_subagent",
    "start_agent",
    "start_subagent",
    "subagent",
    "workflow",
];
/// Fields that say what sort of agent it is; one of them is enough.
const TYPES: [&str; 4] = ["agent_type", "agentType", "subagent_type", "subagentType"];
/// Fields that name the tool.
const TOOLS: [&str; 4] = ["tool", "tool_name", "toolName", "operation"];
/// Fields that say what it shall do.
const TASKS: [&str; 4] = ["message", "prompt", "task", "objective"];
/// Everything else that is kept.
const OTHERS: [&str; 8] =
    ["task_name", "taskName", "role", "title", "name", "description", "instructions", "workflow"];
/// Objects in which agents put the actual input.
const NESTED: [&str; 4] = ["arguments", "args", "input", "params"];

const MAX_SCALARS: usize = 2048;
const MAX_TOTAL_SCALARS: usize = 8192;
/// Input within input within input; deeper is no launch that anybody makes.
const MAX_DEPTH: usize = 4;

/// The fields of a launch; `None` for an ordinary call.
#[must_use]
pub(crate) fn launch_fields(kind: Option<&str>, title: &str, input: &Value) -> Option<Map<String, Value>> {
    let mut fields = Map::new();
    collect(input, MAX_DEPTH, &mut fields);
    let named = |name: &str| fields.get(name).and_then(Value::as_str);
    let launches = kind.is_some_and(is_launch)
        || is_launch(title)
        || TOOLS.iter().any(|field| named(field).is_some_and(is_launch))
        || TYPES.iter().any(|field| named(field).is_some())
        || named("task_name").is_some() && TASKS.iter().any(|field| named(field).is_some());
    if !launches || fields.is_empty() {
        return None;
    }
    let mut room = MAX_TOTAL_SCALARS;
    for value in fields.values_mut() {
        let Value::String(text) = value else { continue };
        let kept: String = text.chars().take(MAX_SCALARS.min(room)).collect();
        room -= kept.chars().count();
        *text = kept;
    }
    fields.retain(|_, value| value != "");
    Some(fields)
}

/// The texts under known names, those of nested inputs included; an outer one wins.
fn collect(input: &Value, depth: usize, fields: &mut Map<String, Value>) {
    let parsed: Value;
    let object = match input {
        Value::Object(object) => object,
        // Some agents pass arguments as the text of an object.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => {
                parsed = value;
                let Value::Object(object) = &parsed else { return };
                object
            }
            _ => return,
        },
        _ => return,
    };
    for name in TYPES.iter().chain(&TOOLS).chain(&TASKS).chain(&OTHERS) {
        if let Some(text @ Value::String(_)) = object.get(*name) {
            fields.entry(*name).or_insert_with(|| text.clone());
        }
    }
    if depth > 0 {
        for name in NESTED {
            if let Some(nested) = object.get(name) {
                collect(nested, depth - 1, fields);
            }
        }
    }
}

/// Whether a name is one of [`LAUNCHES`] or ends in one as words do: `functions.spawn_agent`, `RunSubagent`.
fn is_launch(name: &str) -> bool {
    let words = snake(name);
    LAUNCHES.iter().any(|launch| {
        words.strip_suffix(launch).is_some_and(|before| before.is_empty() || before.ends_with('_'))
    })
}

fn snake(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    let mut lower = false;
    for c in name.trim().chars() {
        if !c.is_alphanumeric() {
            if !words.is_empty() && !words.ends_with('_') {
                words.push('_');
            }
            lower = false;
            continue;
        }
        if c.is_uppercase() && lower {
            words.push('_');
        }
        lower = c.is_lowercase() || c.is_numeric();
        words.extend(c.to_lowercase());
    }
    words.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(kind: Option<&str>, title: &str, input: Value) -> Option<Value> {
        launch_fields(kind, title, &input).map(Value::Object)
    }

    #[test]
    fn a_launch_keeps_named_texts_only() {
        let input = json!({"arguments": {"agent_type": "explorer", "task_name": "look", "message": "Look around.",
            "command": "rm", "secret": "s", "cwd": "/", "role": 7}});
        let kept = json!({"agent_type": "explorer", "task_name": "look", "message": "Look around."});
        assert_eq!(fields(None, "functions.spawn_agent", input.clone()), Some(kept.clone()));
        let text = json!({"arguments": input["arguments"].to_string()});
        assert_eq!(fields(None, "functions.spawn_agent", text), Some(kept));
    }

    #[test]
    fn what_makes_a_launch() {
        let task = json!({"description": "d"});
        for title in ["Agent", "spawn_agent", "functions.spawn_agent", "mcp__x__runSubagent", "delegate task"]
        {
            assert!(fields(None, title, task.clone()).is_some(), "{title}");
        }
        for title in ["reagent", "Run command", "agents", "agent list", ""] {
            assert!(fields(None, title, task.clone()).is_none(), "{title}");
        }
        assert!(fields(Some("agent"), "x", task).is_some());
        assert!(fields(None, "x", json!({"subagent_type": "t"})).is_some());
        assert!(fields(None, "x", json!({"tool": "run_workflow"})).is_some());
        assert!(fields(None, "x", json!({"task_name": "t"})).is_none());
        assert!(fields(None, "x", json!({"task_name": "t", "objective": "o"})).is_some());
        assert!(fields(Some("execute"), "ls", json!({"command": "ls", "description": "d"})).is_none());
        assert!(fields(None, "agent", json!({"command": "ls"})).is_none(), "nothing to show");
    }

    #[test]
    fn texts_are_bounded_each_and_together() {
        let long = "ä".repeat(3000);
        let input =
            json!({"agent_type": long, "message": long, "prompt": long, "task": long, "objective": long});
        let kept = launch_fields(None, "x", &input).unwrap();
        let lengths: Vec<_> = kept.values().map(|text| text.as_str().unwrap().chars().count()).collect();
        assert_eq!((lengths.iter().max(), lengths.iter().sum::<usize>()), (Some(&2048), 8192));
    }
}
