//! Talks to an agent and prints every event: to see what an agent does before it gets a place in the launch table.
//!
//! `cargo run -p signalbox-agents --example talk -- [--protocol=2] [--resume=ID] [PROVIDER] HOW PROMPT COMMAND [ARGS…]`
//!
//! HOW says how permission requests are answered: `allow`, `reject`, `cancel` (the prompt), `leave` (not at all), or
//! `interrupt`: the prompt is cancelled at the first word of its answer. The environment is the caller's; a provider's quirks are used if given.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own, for people")]

use signalbox_agents::{
    Agent, AgentEvent, Answer, Environment, LaunchSpec, Limits, OpenSession, PromptBlock, PromptRequest,
    Quirks, Supervisor, Update, preset, start,
};
use signalbox_facts::{OptionKind, PermissionOption, Provider};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let at = args.iter().position(|arg| arg.starts_with(name))?;
        Some(args.remove(at)[name.len()..].to_owned())
    };
    let protocol = option("--protocol=").map_or(Ok(1), |version| version.parse())?;
    let resume = option("--resume=");
    let known = args.first().and_then(|name| preset(name));
    let provider = if known.is_some() { args.remove(0) } else { "custom".to_owned() };
    let [how, prompt, command, rest @ ..] = args.as_slice() else {
        return Err(
            "usage: talk [PROVIDER] allow|reject|cancel|leave|interrupt PROMPT COMMAND [ARGS…]".into()
        );
    };
    let cwd = std::env::current_dir()?;
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let spec = LaunchSpec {
        provider: Provider::new(&provider),
        command: command.clone(),
        args: rest.to_vec(),
        env: Environment(std::env::vars().collect()),
        cwd: cwd.clone(),
        ask_modes: known.map(|preset| texts(preset.ask_modes)).unwrap_or_default(),
        edit_modes: known.map(|preset| texts(preset.edit_modes)).unwrap_or_default(),
        yolo_modes: known.map(|preset| texts(preset.yolo_modes)).unwrap_or_default(),
        protocol,
        quirks: known.map_or(Quirks::NONE, |preset| preset.quirks),
        install_hint: known.map(|preset| preset.install_hint.to_owned()),
        login_hint: None,
        downloads: false,
    };
    let supervisor = Supervisor::default();
    let (agent, mut events) =
        start(spec, OpenSession { cwd, resume, ..OpenSession::default() }, Limits::default(), &supervisor);
    let blocks = vec![PromptBlock::Text(prompt.clone())];
    agent.prompt(PromptRequest { blocks, ..PromptRequest::default() })?;
    while let Some(batch) = events.recv().await {
        for event in batch {
            println!("{event:#?}");
            match event {
                AgentEvent::Permission { key, options, .. } => answer(&agent, how, key, &options)?,
                AgentEvent::Elicitation { key, .. } => agent.dismiss(key)?,
                AgentEvent::Update(Update::Message(_)) if how == "interrupt" => agent.cancel()?,
                AgentEvent::PromptEnded(_) => agent.stop(),
                _ => {}
            }
        }
    }

    supervisor.finish().await;
    Ok(())
}

fn answer(
    agent: &Agent,
    how: &str,
    key: signalbox_agents::RequestKey,
    options: &[PermissionOption],
) -> Result<(), Box<dyn std::error::Error>> {
    let choose = |kind: &OptionKind| options.iter().find(|option| option.kind == *kind);
    let choice = match how {
        "allow" => choose(&OptionKind::AllowOnce),
        "reject" => choose(&OptionKind::RejectOnce),
        "cancel" => return Ok(agent.cancel()?),
        _ => return Ok(()),
    };
    let choice = choice.map_or(Answer::Cancelled, |option| Answer::Selected(option.id.clone()));
    Ok(agent.answer_permission(key, choice)?)
}
