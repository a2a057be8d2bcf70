//! Compiling as the session actor and the preview do it: chats are read from the store, files on a blocking thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use signalbox_facts::{DocBlock, Seq, SessionId, SessionRow};

use super::chat::{self, Chat};
use super::{Compiled, Document, MadeFrom, Skills, Sources, compile, rules, skills};
use crate::stores::Stores;
use crate::transcript;

/// Longest that the files of a prompt may take; a network drive that does not answer must not hold a session.
const READING: Duration = Duration::from_secs(10);
/// Most chats that one prompt refers to.
const MAX_CHATS: usize = 16;

/// What goes before the first prompt of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    /// The session's working directory.
    pub(crate) cwd: PathBuf,
    /// Names of the rule files that the agent reads itself.
    pub(crate) reads: Vec<String>,
    /// Instructions that the agent did not take as its system prompt.
    pub(crate) instructions: Option<String>,
    /// What was said before in the session, for an agent that was not there.
    pub(crate) history: History,
}

/// A session's conversation up to a prompt.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) session: SessionId,
    pub(crate) title: String,
    /// Seq of the prompt that opened the turn which is not part of it; `None`: all of it.
    pub(crate) before: Option<Seq>,
}

/// Compiles a document of a session.
pub(crate) async fn compile_document(
    stores: &Stores,
    session: SessionId,
    mut document: Document,
    sources: &Sources,
) -> Compiled {
    document.chats = chats(stores, session, &document.blocks).await;
    if document.blocks.iter().all(is_without_files) {
        return compile(&document, sources);
    }
    let (shared, sources) = (document.clone(), sources.clone());
    match off_thread(move || compile(&shared, &sources)).await {
        Ok(compiled) => compiled,
        Err(reason) => Compiled::failed(&document, &reason),
    }
}

/// What goes before the first prompt of a conversation: instructions, then rules, then what was said before.
pub(crate) async fn opening(stores: &Stores, opening: Opening, sources: &Sources) -> Compiled {
    let Opening { cwd, reads, instructions, history } = opening;
    let mut compiled = Compiled::default();
    if let Some(instructions) = instructions.filter(|text| !text.trim().is_empty()) {
        let text = format!("<instructions>\n{instructions}\n</instructions>");
        compiled.push_text(MadeFrom::Instructions, None, text);
    }
    let files = sources.rule_files.clone();
    match off_thread(move || rules::collect(&cwd, &reads, &files)).await {
        Ok(rules) => compiled.append(rules),
        Err(reason) => compiled.miss("rules".to_owned(), reason),
    }
    match earlier(stores, &history).await {
        Ok(None) => {}
        Ok(Some(chat)) => {
            if chat.cut {
                compiled.omit(HISTORY, "its beginning is left out".to_owned());
            }
            let text = format!(
                "What was said in this conversation before you joined it; it is given for your information:\n\n{}",
                chat.text
            );
            compiled.push_text(MadeFrom::History, Some(HISTORY.to_owned()), text);
        }
        Err(reason) => compiled.miss(HISTORY.to_owned(), reason),
    }
    compiled
}

/// Key of the session's own earlier conversation.
const HISTORY: &str = "history";

/// What was said before; none if nothing was.
async fn earlier(stores: &Stores, history: &History) -> Result<Option<Chat>, String> {
    let id = history.session.to_string();
    let reader = stores.reader_of(history.session);
    let page = transcript::page_of_items(&reader, &id, history.before, Some(chat::TURNS)).await;
    let page = page.map_err(|error| unreadable(history.session, &error))?;
    let said = !chat::is_empty(&page.entries);
    Ok(said.then(|| chat::compose(&history.title, &page.entries, page.next_before.is_some())))
}

/// What the next prompt of a session would be, with the very functions that make it. Instructions are not in it, because
/// only a running agent tells whether it takes them as its system prompt.
pub(crate) async fn preview(
    stores: &Stores,
    row: &SessionRow,
    reads: Vec<String>,
    document: Document,
    sources: &Sources,
) -> Compiled {
    let mut compiled = Compiled::default();
    if row.agent_session.is_none() {
        let history = History { session: row.id, title: row.title.clone(), before: None };
        let first = Opening { cwd: row.cwd.clone(), reads, instructions: None, history };
        compiled = opening(stores, first, sources).await;
    }
    compiled.append(compile_document(stores, row.id, document, sources).await);
    compiled
}

/// Skills cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("the folders of skills cannot be read: {0}")]
pub struct SkillsError(String);

/// The skills of these roots.
pub(crate) async fn list_skills(roots: Vec<PathBuf>, sources: &Sources) -> Result<Skills, SkillsError> {
    let sources = sources.clone();
    off_thread(move || skills(&roots, &sources)).await.map_err(SkillsError)
}

/// The chats that blocks refer to, each read once.
async fn chats(
    stores: &Stores,
    session: SessionId,
    blocks: &[DocBlock],
) -> BTreeMap<String, Result<Chat, String>> {
    let mut chats = BTreeMap::new();
    for block in blocks {
        let DocBlock::Session { session_id } = block else { continue };
        if chats.contains_key(session_id) {
            continue;
        }
        let chat = if chats.len() >= MAX_CHATS {
            Err(format!("a prompt may refer to {MAX_CHATS} chats at most"))
        } else {
            read_chat(stores, session, session_id).await
        };
        chats.insert(session_id.clone(), chat);
    }
    chats
}

async fn read_chat(stores: &Stores, own: SessionId, id: &str) -> Result<Chat, String> {
    let Ok(session) = id.parse::<SessionId>() else { return Err("there is no such session".to_owned()) };
    if session == own {
        return Err("it is this conversation itself, which the agent has already".to_owned());
    }
    let reader = stores.reader_of(session);
    let row = reader.session(session).await.map_err(|error| unreadable(session, &error))?;
    let row = row.ok_or("there is no such session")?;
    let page = transcript::page_of_items(&reader, id, None, Some(chat::TURNS)).await;
    let page = page.map_err(|error| unreadable(session, &error))?;
    if chat::is_empty(&page.entries) {
        return Err("nothing has been said in it".to_owned());
    }
    Ok(chat::compose(&row.title, &page.entries, page.next_before.is_some()))
}

fn unreadable(session: SessionId, error: &(dyn std::error::Error + 'static)) -> String {
    tracing::warn!(%session, error, "a chat that a prompt refers to cannot be read");
    "it cannot be read".to_owned()
}

fn is_without_files(block: &DocBlock) -> bool {
    match block {
        DocBlock::Text { .. }
        | DocBlock::Context { .. }
        | DocBlock::Issue { .. }
        | DocBlock::Session { .. } => true,
        DocBlock::Resource { text, .. } => text.is_some(),
        DocBlock::Skill { .. }
        | DocBlock::File { .. }
        | DocBlock::Image { .. }
        | DocBlock::ImageUrl { .. } => false,
    }
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    match tokio::time::timeout(READING, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            tracing::error!(%error, "compiling a prompt failed");
            Err("it could not be read".to_owned())
        }
        Err(_) => Err(format!("it could not be read within {} seconds", READING.as_secs())),
    }
}
