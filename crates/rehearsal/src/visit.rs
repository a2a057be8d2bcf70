//! What the agent does when it is asked in prose: it has no model, so it looks around and says what it sees,
//! with one command and one small file on the way, both only if they are allowed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::json;

use crate::{
    command::{self, Ended},
    config::{Mode, Model},
    files::{self, Change},
    script::Style,
    survey::{self, NOTE, Survey},
    text,
    turn::{Call, Step, Stop, Turn, content, tokens},
};

const GIT_LOG: &str = "git log --oneline -5";
const STEPS: [&str; 4] =
    ["Look around", "Read what describes the project", "Ask for the latest commits", "Propose a note"];
/// The size of a context window that there is not; `usage_update` wants one.
const WINDOW_TOKENS: u64 = 200_000;

/// The whole visit.
pub(crate) async fn visit(turn: &Turn) -> Step {
    let name = survey::folder_name(&turn.cwd);
    let wordy = turn.config.model == Model::Rehearsal;
    turn.title(&format!("A look around {name}")).await?;
    plan(turn, 0).await?;
    if wordy {
        turn.think("There is no model behind me, so I cannot do what was asked. I can look around, though.")
            .await?;
        turn.say(&format!(
            "I am the rehearsal agent that comes with signalbox. There is no model behind me, so I do not \
             understand your words; I look around `{name}` and show what a turn is made of."
        ))
        .await?;
    }
    let survey = look(turn, &name).await?;
    plan(turn, 1).await?;
    let project = describe(turn, &survey).await?;
    turn.say(&summary(&name, &survey, project.as_deref())).await?;
    plan(turn, 2).await?;
    commits(turn, &survey, wordy).await?;
    plan(turn, 3).await?;
    note(turn, &name, &survey, project.as_deref(), wordy).await?;
    plan(turn, 4).await?;
    let used = turn.session.with(|kept| kept.tokens) + tokens(turn.said_bytes());
    turn.update(json!({"sessionUpdate": "usage_update", "used": used, "size": WINDOW_TOKENS})).await?;
    if wordy {
        turn.say("That was the rehearsal. Lines such as `say hello` or `run ls` in a prompt make me play a script.")
            .await?;
    }
    Ok(())
}

/// The plan with the first `done` steps completed and the next one under way.
async fn plan(turn: &Turn, done: usize) -> Step {
    let entries = STEPS.iter().enumerate().map(|(n, step)| {
        let status = match n.cmp(&done) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        (status, *step)
    });
    turn.plan(entries).await
}

async fn look(turn: &Turn, name: &str) -> Step<Survey> {
    let mut call = Call::new(turn.id("call"), format!("Look around {name}"), Some("search"));
    call.locations = vec![turn.cwd.clone()];
    turn.announce_as(&call, "in_progress").await?;
    let root = turn.cwd.clone();
    let stop = Arc::new(AtomicBool::new(false));
    // A cancelled turn drops this future; the walk then ends at its next file.
    let _halt = Halt(stop.clone());
    let walk = tokio::task::spawn_blocking(move || survey::look(&root, &stop));
    let survey =
        walk.await.map_err(|error| Stop::Failed(format!("the look around did not end well: {error}")))?;
    let words = format!("{}, {}", text::count(survey.files, "file"), text::bytes(survey.bytes));
    let fields = json!({
        "content": [content(&words)],
        "rawOutput": {"files": survey.files, "bytes": survey.bytes, "partial": survey.partial},
    });
    turn.finish(&call.id, "completed", fields).await?;
    Ok(survey)
}

struct Halt(Arc<AtomicBool>);

impl Drop for Halt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the README and the manifest; what the manifest calls the project.
async fn describe(turn: &Turn, survey: &Survey) -> Step<Option<String>> {
    if let Some(readme) = &survey.readme {
        files::read(turn, readme).await?;
    }
    let Some(manifest) = &survey.manifest else { return Ok(None) };
    let text = files::read(turn, manifest).await?;
    Ok(text.and_then(|text| survey::project_name(manifest, &text)))
}

fn summary(name: &str, survey: &Survey, project: Option<&str>) -> String {
    let mut lines = Vec::new();
    let more = if survey.partial { " (I stopped there; it has more)" } else { "" };
    let files = text::count(survey.files, "file");
    lines.push(format!("`{name}` holds {files}, {}{more}.", text::bytes(survey.bytes)));
    lines.extend(findings(survey, project));
    lines.join("\n")
}

/// What is worth a line each, for the message and for the note.
fn findings(survey: &Survey, project: Option<&str>) -> Vec<String> {
    const MOST: usize = 5;
    let mut lines = Vec::new();
    if let Some(project) = project {
        lines.push(format!("- Project: {project}"));
    }
    let languages: Vec<String> = survey
        .languages
        .iter()
        .take(MOST)
        .map(|language| {
            let files = text::count(language.files, "file");
            format!("{} {} in {files}", language.name, text::count(language.lines, "line"))
        })
        .collect();
    if !languages.is_empty() {
        lines.push(format!("- Languages: {}", languages.join("; ")));
    }
    let folders: Vec<String> = survey
        .folders
        .iter()
        .take(MOST)
        .map(|folder| format!("{}/ {}", folder.name, text::bytes(folder.bytes)))
        .collect();
    if !folders.is_empty() {
        lines.push(format!("- Biggest folders: {}", folders.join(", ")));
    }
    for (what, found) in [("README", &survey.readme), ("Tests", &survey.tests), ("CI", &survey.ci)] {
        let found = found.as_deref().map_or("none seen".to_owned(), |path| format!("`{path}`"));
        lines.push(format!("- {what}: {found}"));
    }
    lines
}

async fn commits(turn: &Turn, survey: &Survey, wordy: bool) -> Step {
    if !survey.git {
        return turn.say("This is no git repository, so there are no commits to ask for.").await;
    }
    if wordy && turn.config.mode == Mode::Ask {
        turn.say(&format!("To see the latest commits I would like to run `{GIT_LOG}`.")).await?;
    }
    match command::execute(turn, GIT_LOG, Style::Proper).await? {
        Ended::Exit(Some(0)) if wordy => turn.say("Those are the latest commits.").await,
        Ended::Exit(Some(0)) => Ok(()),
        Ended::Exit(Some(code)) => {
            turn.say(&format!("`{GIT_LOG}` ended with exit code {code}, so I go on without it.")).await
        }
        Ended::Exit(None) | Ended::Unstarted => {
            turn.say(&format!("`{GIT_LOG}` did not run to its end, so I go on without it.")).await
        }
        Ended::Declined => turn.say("Declined, so I did not look at the commits.").await,
    }
}

async fn note(turn: &Turn, name: &str, survey: &Survey, project: Option<&str>, wordy: bool) -> Step {
    let findings = findings(survey, project).join("\n");
    let text = format!(
        "# Rehearsal note\n\n\
         Written by the rehearsal agent of signalbox, after permission. Delete it whenever you like.\n\n\
         `{name}`: {}, {}.\n\n{findings}\n",
        text::count(survey.files, "file"),
        text::bytes(survey.bytes),
    );
    if wordy && turn.config.mode == Mode::Ask {
        turn.say(&format!("I propose to keep this in a small file, `{NOTE}`.")).await?;
    }
    match files::write(turn, NOTE, &text).await? {
        Change::Made if wordy => turn.say(&format!("`{NOTE}` is written.")).await,
        Change::Made => Ok(()),
        Change::Nothing => turn.say(&format!("`{NOTE}` already says all this; nothing to write.")).await,
        Change::Declined => turn.say(&format!("Declined, so `{NOTE}` is not written.")).await,
        Change::Failed => turn.say(&format!("`{NOTE}` could not be written, so I go on without it.")).await,
    }
}
