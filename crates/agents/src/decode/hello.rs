//! The answer to `initialize`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{
    MESSAGE_BYTES, Object, has, into_object, object, take_about, take_id, take_list, take_name, take_object,
    text,
};
use crate::event::AuthMethod;

/// Ways to log in that are kept.
const MAX_METHODS: usize = 32;

/// What an agent says about itself, defaults where it says nothing.
#[derive(Debug, Default, Clone)]
pub(crate) struct Hello {
    /// ACP version; `None` if it named none that is a number.
    pub(crate) protocol: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) load: bool,
    pub(crate) resume: bool,
    pub(crate) fork: bool,
    pub(crate) close: bool,
    pub(crate) list: bool,
    pub(crate) delete: bool,
    pub(crate) roots: bool,
    pub(crate) system_prompt: bool,
    pub(crate) images: bool,
    pub(crate) audio: bool,
    pub(crate) resources: bool,
    pub(crate) mcp_http: bool,
    pub(crate) mcp_sse: bool,
    pub(crate) auth_methods: Vec<AuthMethod>,
}

/// Reads the answer to `initialize`; `line` is the command line the agent was started with.
pub(crate) fn hello(result: Value, line: &[String]) -> Hello {
    let mut result = into_object(result).unwrap_or_default();
    let protocol = result.get("protocolVersion");
    let protocol = protocol.and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
    if protocol.is_some_and(|version| version >= 2) {
        return hello_v2(protocol, result, line);
    }
    let mut info = take_object(&mut result, "agentInfo").unwrap_or_default();
    let methods = take_list(&mut result, "authMethods").unwrap_or_default();
    let empty = Object::new();
    let agent = object(&result, "agentCapabilities").unwrap_or(&empty);
    let session = object(agent, "sessionCapabilities").unwrap_or(&empty);
    let prompt = object(agent, "promptCapabilities").unwrap_or(&empty);
    let mcp = object(agent, "mcpCapabilities").unwrap_or(&empty);
    Hello {
        protocol,
        name: take_name(&mut info, "title").or_else(|| take_name(&mut info, "name")),
        version: take_name(&mut info, "version"),
        load: has(agent, "loadSession"),
        resume: has(session, "resume"),
        fork: has(session, "fork"),
        close: has(session, "close"),
        list: has(session, "list"),
        delete: has(session, "delete"),
        roots: has(session, "additionalDirectories"),
        system_prompt: has(session, "systemPrompt"),
        images: has(prompt, "image"),
        audio: has(prompt, "audio"),
        resources: has(prompt, "embeddedContext"),
        mcp_http: has(mcp, "http"),
        mcp_sse: has(mcp, "sse"),
        auth_methods: auth_methods(methods, line),
    }
}

/// The same of version 2: what every agent with sessions has is no capability there.
fn hello_v2(protocol: Option<u64>, mut result: Object, line: &[String]) -> Hello {
    let mut info = take_object(&mut result, "info").unwrap_or_default();
    let methods = take_list(&mut result, "authMethods").unwrap_or_default();
    let empty = Object::new();
    let agent = object(&result, "capabilities").unwrap_or(&empty);
    let session = object(agent, "session").unwrap_or(&empty);
    let prompt = object(session, "prompt").unwrap_or(&empty);
    let mcp = object(session, "mcp").unwrap_or(&empty);
    Hello {
        protocol,
        name: take_name(&mut info, "title").or_else(|| take_name(&mut info, "name")),
        version: take_name(&mut info, "version"),
        load: true,
        resume: true,
        fork: has(session, "fork"),
        close: true,
        list: true,
        delete: has(session, "delete"),
        roots: has(session, "additionalDirectories"),
        system_prompt: has(session, "systemPrompt"),
        images: has(prompt, "image"),
        audio: has(prompt, "audio"),
        resources: has(prompt, "embeddedContext"),
        mcp_http: has(mcp, "http"),
        mcp_sse: false,
        auth_methods: auth_methods(methods, line),
    }
}

fn auth_methods(list: Vec<Value>, line: &[String]) -> Vec<AuthMethod> {
    list.into_iter().filter_map(|method| auth_method(method, line)).take(MAX_METHODS).collect()
}

fn auth_method(value: Value, line: &[String]) -> Option<AuthMethod> {
    let mut object = into_object(value).ok()?;
    let id = take_id(&mut object, "id").or_else(|| take_id(&mut object, "methodId"))?;
    let kind = take_name(&mut object, "type").unwrap_or_else(|| "agent".to_owned());
    // An older hint for a login in a terminal has the whole command line; the newer form appends to the agent's own.
    let hint = object.get("_meta").and_then(|meta| meta.get("terminal-auth")?.as_object());
    let command = match hint.and_then(|hint| Some((text(hint, "command")?, hint))) {
        Some((program, hint)) => Some(std::iter::once(program.to_owned()).chain(words(hint)).collect()),
        None if kind == "terminal" => Some(line.iter().cloned().chain(words(&object)).collect()),
        None => None,
    };
    let variables = match hint {
        Some(hint) => env(hint),
        None => env(&object),
    };
    // A part of a command is another command.
    let words = command.iter().flatten().map(String::len);
    let pairs = variables.iter().map(|(name, value)| name.len() + value.len());
    if words.chain(pairs).sum::<usize>() > MESSAGE_BYTES {
        return None;
    }
    Some(AuthMethod {
        env: if command.is_some() { variables } else { BTreeMap::new() },
        kind: if command.is_some() { "terminal".to_owned() } else { kind },
        command,
        name: take_name(&mut object, "name").unwrap_or_else(|| id.clone()),
        description: take_about(&mut object, "description"),
        id,
    })
}

/// Variables as an object, or as a list of names and values.
fn env(object: &Object) -> BTreeMap<String, String> {
    match object.get("env") {
        Some(Value::Object(env)) => {
            env.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
        }
        Some(Value::Array(env)) => {
            let pair =
                |one: &Value| Some((one.get("name")?.as_str()?.into(), one.get("value")?.as_str()?.into()));
            env.iter().filter_map(pair).collect()
        }
        _ => BTreeMap::new(),
    }
}

fn words(object: &Object) -> impl Iterator<Item = String> + '_ {
    let args = object.get("args").and_then(Value::as_array).into_iter().flatten();
    args.filter_map(|arg| Some(arg.as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn capabilities_are_markers_or_booleans_and_nothing_is_required() {
        let answer = json!({
            "protocolVersion": "1",
            "agentCapabilities": {"loadSession": true, "promptCapabilities": {"image": false, "embeddedContext": true},
                "sessionCapabilities": {"resume": {}, "fork": null}, "mcpCapabilities": 5},
            "authMethods": [{"id": "login", "_meta": {"terminal-auth": {"command": "kimi", "args": ["login"]}}}, 3,
                {"id": "cli", "type": "terminal", "args": ["--login"], "env": {"A": "b", "C": 3}}, {"id": "key"}],
        });
        let hello = super::hello(answer, &["agent".to_owned(), "acp".to_owned()]);
        assert_eq!(hello.protocol, Some(1));
        assert!(
            hello.load && hello.resume && hello.resources && !hello.fork && !hello.images && !hello.mcp_http
        );
        let methods = hello.auth_methods.iter();
        let methods: Vec<_> = methods.map(|method| (method.kind.as_str(), method.command.clone())).collect();
        let command = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            methods,
            [
                ("terminal", command(&["kimi", "login"])),
                ("terminal", command(&["agent", "acp", "--login"])),
                ("agent", None)
            ]
        );
        assert_eq!(hello.auth_methods[1].env, BTreeMap::from([("A".to_owned(), "b".to_owned())]));
        assert_eq!(super::hello(Value::Null, &[]).protocol, None);
    }

    #[test]
    fn version_2_has_other_names_and_takes_more_for_granted() {
        let answer = json!({
            "protocolVersion": 2, "info": {"name": "a", "title": "Agent", "version": "3"},
            "capabilities": {"session": {"prompt": {"image": {}}, "mcp": {"stdio": {}, "http": {}}, "fork": {}}},
            "authMethods": [{"methodId": "key", "type": "agent", "name": "Key"}],
        });
        let hello = super::hello(answer, &[]);
        assert_eq!(
            (hello.protocol, hello.name.as_deref(), hello.version.as_deref()),
            (Some(2), Some("Agent"), Some("3"))
        );
        assert!(
            hello.load
                && hello.resume
                && hello.close
                && hello.list
                && hello.fork
                && hello.images
                && hello.mcp_http
        );
        assert!(!hello.resources && !hello.roots && !hello.mcp_sse && !hello.system_prompt);
        assert_eq!(hello.auth_methods[0].id, "key");
    }
}
