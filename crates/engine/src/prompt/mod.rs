//! Compiles a prompt's blocks to what the agent gets. What is expanded here is stored nowhere: the stored prompt keeps what
//! the user wrote. Only files are read, never the store; `run.rs` does that and moves the work off the async threads.

mod chat;
mod labels;
mod mentions;
mod rules;
mod run;
mod skills;

use std::collections::BTreeMap;
use std::path::PathBuf;

use signalbox_agents::PromptBlock;
use signalbox_facts::{AdditionalContext, DocBlock, canonical_text};

pub use chat::render as render_chat;
pub use skills::{Scope, Skill, SkillError, Skills, skills};

pub(crate) use chat::Chat;
pub use run::SkillsError;
pub(crate) use run::{History, Opening, compile_document, list_skills, opening, preview};

use labels::{issue, labelled, one_line};

/// Text of files, skills and resources that goes into one prompt; what is beyond it goes as links, or not.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Bytes of images that go into one prompt.
const MAX_IMAGES_BYTES: usize = 32 << 20;

/// Where skills and rules are looked for, besides a session's own directories. All paths are absolute.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sources {
    /// The user's home directory.
    pub user_home: Option<PathBuf>,
    /// The server's home folder.
    pub home: Option<PathBuf>,
    /// Folders of skills from the configuration.
    pub skill_roots: Vec<PathBuf>,
    /// Rule files from the configuration.
    pub rule_files: Vec<PathBuf>,
}

/// What the agent gets, what was left out of it, and what could not be found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Compiled {
    /// For the agent, in order. Never empty for a document that is not blank.
    pub pieces: Vec<Piece>,
    /// What is shorter than what it stands for. No reason to worry, but a preview tells it.
    pub omissions: Vec<Omission>,
    /// References that led nowhere, one entry each.
    pub unresolved: Vec<Unresolved>,
}

/// A block for the agent, and what it was made from.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    /// What it was made from.
    pub from: MadeFrom,
    /// The key of what it was made from, such as `skill:review` or `file:src/main.rs`; text has none.
    pub reference: Option<String>,
    /// For the agent. One that does not take it in this form gets text or a link instead.
    pub(crate) block: PromptBlock,
}

/// The kinds of content blocks that agents get, in ACP's words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PieceKind {
    /// Text.
    Text,
    /// An image.
    Image,
    /// A resource with its text.
    Resource,
    /// Only the address of a resource.
    ResourceLink,
}

/// What a piece was made from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MadeFrom {
    /// The session's instructions, for an agent that takes no system prompt.
    Instructions,
    /// A rule file.
    Rules,
    /// What was said in the session before an agent joined it.
    History,
    /// Context that a client adds.
    Context,
    /// What the user wrote.
    Text,
    /// A skill.
    Skill,
    /// A file of the session's roots.
    File,
    /// An image.
    Image,
    /// Another session.
    Chat,
    /// An issue.
    Issue,
    /// A resource.
    Resource,
}

/// Something that is shorter than what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Omission {
    /// What it is about, as in [`Piece::reference`].
    pub reference: String,
    /// What is left out, for people.
    pub reason: String,
}

/// A reference that led nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unresolved {
    /// Its key, such as `skill:nope`, `file:x` or `session:ghost`.
    pub reference: String,
    /// Why, for people.
    pub reason: String,
}

/// A document with all that is needed from the store to compile it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) blocks: Vec<DocBlock>,
    pub(crate) context: BTreeMap<String, AdditionalContext>,
    /// The working directory first.
    pub(crate) roots: Vec<PathBuf>,
    /// The chats that the blocks refer to, by id as written, or why there is none.
    pub(crate) chats: BTreeMap<String, Result<Chat, String>>,
}

/// Compiles a document: context first, then its blocks in order.
pub(crate) fn compile(document: &Document, sources: &Sources) -> Compiled {
    let mut compiler =
        Compiler { sources, document, done: Compiled::default(), text: 0, images: 0, skills: None };
    for (source, entry) in &document.context {
        compiler.context(source, &entry.value, entry.untrusted);
    }
    let before = compiler.done.pieces.len();
    for block in &document.blocks {
        compiler.block(block);
    }
    let mut done = compiler.done;
    if done.pieces.len() == before {
        // Everything that the user referred to is missing. The agent at least learns what that was.
        done.fall_back(&document.blocks);
    }
    done
}

struct Compiler<'a> {
    sources: &'a Sources,
    document: &'a Document,
    done: Compiled,
    /// Bytes of text and of images so far that came from elsewhere.
    text: usize,
    images: usize,
    /// Looked up when the first skill is met.
    skills: Option<Skills>,
}

impl Compiler<'_> {
    fn block(&mut self, block: &DocBlock) {
        let roots = &self.document.roots;
        match block {
            DocBlock::Text { text, .. } => self.done.push_text(MadeFrom::Text, None, text.clone()),
            DocBlock::Context { source, value, untrusted } => self.context(source, value, *untrusted),
            DocBlock::Issue { source, id, title, url, body } => {
                let reference = format!("issue:{}#{}", one_line(source), one_line(id));
                let (text, cut) = issue(source, id, title, url, body);
                if let Some(reason) = cut {
                    self.done.omit(&reference, reason);
                }
                self.done.push_text(MadeFrom::Issue, Some(reference), text);
            }
            DocBlock::File { path, .. } => {
                let found = mentions::file(path, roots, MAX_TEXT_BYTES.saturating_sub(self.text));
                self.found(MadeFrom::File, format!("file:{path}"), found);
            }
            DocBlock::Image { path, .. } => {
                let found = mentions::image(path, roots, MAX_IMAGES_BYTES.saturating_sub(self.images));
                self.found(MadeFrom::Image, format!("image:{path}"), found);
            }
            DocBlock::ImageUrl { url, .. } => {
                let found = mentions::image_url(url, roots, MAX_IMAGES_BYTES.saturating_sub(self.images));
                self.found(MadeFrom::Image, format!("image:{}", mentions::short_url(url)), found);
            }
            DocBlock::Resource { uri, text, path, mime_type } => {
                let left = MAX_TEXT_BYTES.saturating_sub(self.text);
                let found = mentions::resource(
                    uri,
                    text.as_deref(),
                    path.as_deref(),
                    mime_type.as_deref(),
                    roots,
                    left,
                );
                self.found(MadeFrom::Resource, format!("resource:{}", mentions::short_url(uri)), found);
            }
            DocBlock::Skill { skill_id, params, path } => self.skill(skill_id, params, path.as_deref()),
            DocBlock::Session { session_id } => self.chat(session_id),
        }
    }

    fn context(&mut self, source: &str, value: &str, untrusted: bool) {
        if !value.trim().is_empty() {
            let reference = format!("context:{}", one_line(source));
            self.done.push_text(MadeFrom::Context, Some(reference), labelled(source, value, untrusted));
        }
    }

    fn found(&mut self, from: MadeFrom, reference: String, found: Result<mentions::Found, String>) {
        match found {
            Ok(mentions::Found { block, omitted }) => {
                if let Some(reason) = omitted {
                    self.done.omit(&reference, reason);
                }
                let piece = Piece { from, reference: Some(reference), block };
                match &piece.block {
                    PromptBlock::Image { .. } => self.images += piece.bytes(),
                    PromptBlock::Resource { .. } => self.text += piece.bytes(),
                    PromptBlock::Text(_) | PromptBlock::Context(_) | PromptBlock::Link { .. } => {}
                }
                self.done.pieces.push(piece);
            }
            Err(reason) => self.done.miss(reference, reason),
        }
    }

    fn skill(&mut self, id: &str, params: &BTreeMap<String, String>, path: Option<&str>) {
        let reference = format!("skill:{id}");
        let (roots, sources) = (&self.document.roots, self.sources);
        let known = self.skills.get_or_insert_with(|| skills(roots, sources));
        let filled = known.find(id, path, roots).and_then(|skill| skills::fill(skill, params));
        match filled {
            Ok(filled) if self.text + filled.text.len() > MAX_TEXT_BYTES => {
                self.done.miss(
                    reference,
                    "there is no room for it: the prompt holds too much text already".to_owned(),
                );
            }
            Ok(filled) => {
                if !filled.unfilled.is_empty() {
                    let reason = format!("no value was given for {}", filled.unfilled.join(", "));
                    self.done.omit(&reference, reason);
                }
                self.text += filled.text.len();
                self.done.push_text(MadeFrom::Skill, Some(reference), filled.text);
            }
            Err(reason) => self.done.miss(reference, reason),
        }
    }

    fn chat(&mut self, id: &str) {
        let reference = format!("session:{id}");
        match self.document.chats.get(id) {
            Some(Ok(chat)) => {
                if chat.cut {
                    self.done.omit(&reference, "earlier messages are left out".to_owned());
                }
                self.done.push_text(MadeFrom::Chat, Some(reference), chat.text.clone());
            }
            Some(Err(reason)) => self.done.miss(reference, reason.clone()),
            None => self.done.miss(reference, "it was not read".to_owned()),
        }
    }
}

impl Compiled {
    fn append(&mut self, more: Self) {
        let Self { pieces, omissions, unresolved } = more;
        self.pieces.extend(pieces);
        self.omissions.extend(omissions);
        self.unresolved.extend(unresolved);
    }

    fn push_text(&mut self, from: MadeFrom, reference: Option<String>, text: String) {
        if !text.trim().is_empty() {
            let block = match from {
                // A skill is as if the user had written it.
                MadeFrom::Text | MadeFrom::Skill => PromptBlock::Text(text),
                _ => PromptBlock::Context(text),
            };
            self.pieces.push(Piece { from, reference, block });
        }
    }

    fn omit(&mut self, reference: &str, reason: String) {
        self.omissions.push(Omission { reference: reference.to_owned(), reason });
    }

    fn miss(&mut self, reference: String, reason: String) {
        self.unresolved.push(Unresolved { reference, reason });
    }

    fn fall_back(&mut self, blocks: &[DocBlock]) {
        self.push_text(MadeFrom::Text, None, canonical_text(blocks));
    }

    /// What is sent of a document that could not be compiled.
    fn failed(document: &Document, reason: &str) -> Self {
        let mut compiled = Self::default();
        for block in &document.blocks {
            match block {
                DocBlock::Text { text, .. } => compiled.push_text(MadeFrom::Text, None, text.clone()),
                other => compiled.miss(key(other), reason.to_owned()),
            }
        }
        if compiled.pieces.is_empty() {
            compiled.fall_back(&document.blocks);
        }
        compiled
    }

    /// What the agent gets.
    pub(crate) fn into_blocks(self) -> Vec<PromptBlock> {
        self.pieces.into_iter().map(|piece| piece.block).collect()
    }
}

fn key(block: &DocBlock) -> String {
    match block {
        DocBlock::Text { .. } => "text".to_owned(),
        DocBlock::Context { source, .. } => format!("context:{}", one_line(source)),
        DocBlock::Issue { source, id, .. } => format!("issue:{}#{}", one_line(source), one_line(id)),
        DocBlock::File { path, .. } => format!("file:{path}"),
        DocBlock::Image { path, .. } => format!("image:{path}"),
        DocBlock::ImageUrl { url, .. } => format!("image:{}", mentions::short_url(url)),
        DocBlock::Resource { uri, .. } => format!("resource:{}", mentions::short_url(uri)),
        DocBlock::Skill { skill_id, .. } => format!("skill:{skill_id}"),
        DocBlock::Session { session_id } => format!("session:{session_id}"),
    }
}

impl Piece {
    /// Kind of content block.
    #[must_use]
    pub fn kind(&self) -> PieceKind {
        match &self.block {
            PromptBlock::Text(_) | PromptBlock::Context(_) => PieceKind::Text,
            PromptBlock::Image { .. } => PieceKind::Image,
            PromptBlock::Resource { .. } => PieceKind::Resource,
            PromptBlock::Link { .. } => PieceKind::ResourceLink,
        }
    }

    /// Size of the content: bytes of its text, of the image, or of the link.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.block {
            PromptBlock::Text(text) | PromptBlock::Context(text) | PromptBlock::Resource { text, .. } => {
                text.len()
            }
            PromptBlock::Image { data, .. } => data.trim_end_matches('=').len() * 3 / 4,
            PromptBlock::Link { uri, .. } => uri.len(),
        }
    }

    /// The text, of a text or resource; the address, of a link.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.block {
            PromptBlock::Text(text) | PromptBlock::Context(text) | PromptBlock::Resource { text, .. } => {
                Some(text)
            }
            PromptBlock::Link { uri, .. } => Some(uri),
            PromptBlock::Image { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
