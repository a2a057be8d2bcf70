//! What a document becomes, on real files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// The eight bytes that every PNG begins with, and a few more.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n0000";

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::write(folder.path().join("secret"), "SECRET").unwrap();
        Self { folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.work().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        file
    }

    fn compiles(&self, blocks: Vec<DocBlock>) -> Compiled {
        let document = Document { blocks, roots: vec![self.work()], ..Document::default() };
        compile(&document, &Sources::default())
    }

    /// The one block that a single block becomes.
    fn becomes(&self, block: DocBlock) -> (PromptBlock, Vec<String>) {
        let compiled = self.compiles(vec![block]);
        assert!(compiled.unresolved.is_empty(), "{compiled:?}");
        let [piece] = compiled.pieces.as_slice() else { panic!("{compiled:?}") };
        let omissions = compiled.omissions.iter().map(|omission| omission.reason.clone()).collect();
        (piece.block.clone(), omissions)
    }

    /// Key and reason of the one reference that a block leaves unresolved.
    fn misses(&self, block: DocBlock) -> (String, String) {
        let compiled = self.compiles(vec![block]);
        let [missing] = compiled.unresolved.as_slice() else { panic!("{compiled:?}") };
        (missing.reference.clone(), missing.reason.clone())
    }
}

fn file(path: &str) -> DocBlock {
    DocBlock::File { path: path.to_owned(), name: None }
}

fn image(path: &str) -> DocBlock {
    DocBlock::Image { path: path.to_owned(), detail: None }
}

fn url(url: &str) -> DocBlock {
    DocBlock::ImageUrl { url: url.to_owned(), detail: None }
}

fn resource(uri: &str, text: Option<&str>, path: Option<&str>) -> DocBlock {
    DocBlock::Resource {
        uri: uri.to_owned(),
        text: text.map(str::to_owned),
        path: path.map(str::to_owned),
        mime_type: Some("text/x".to_owned()),
    }
}

fn uri(path: &Path) -> String {
    mentions::file_uri(path)
}

#[test]
fn a_short_text_file_goes_along_and_others_as_links() {
    let project = Project::new();
    let small = project.write("a b.txt", "hello");
    let uri_of_small = uri(&small);
    assert!(uri_of_small.ends_with("/a%20b.txt"));
    let block = PromptBlock::Resource { uri: uri_of_small, text: "hello".into(), mime: None };
    assert_eq!(project.becomes(file("a b.txt")), (block.clone(), vec![]));
    assert_eq!(project.becomes(file(small.to_str().unwrap())).0, block, "absolute, inside the roots");

    let big = project.write("big.txt", "x".repeat((64 << 10) + 1));
    let link = |path: &Path, name: &str| PromptBlock::Link { uri: uri(path), name: name.into(), mime: None };
    let (block, omitted) = project.becomes(file("big.txt"));
    assert_eq!(
        (block, omitted[0].as_str()),
        (link(&big, "big.txt"), "it has 65537 bytes; it is sent as a link")
    );
    let binary = project.write("binary", [0xff, 0x00]);
    let (block, omitted) = project.becomes(file("binary"));
    assert_eq!(
        (block, omitted[0].as_str()),
        (link(&binary, "binary"), "it is not text; it is sent as a link")
    );
    assert_eq!(project.becomes(file(".")), (link(&project.work(), "."), vec![]));
}

#[test]
fn a_mention_stays_inside_the_roots_symbolic_links_included() {
    let project = Project::new();
    symlink(project.folder.path().join("secret"), project.work().join("link")).unwrap();
    symlink(project.folder.path(), project.work().join("up")).unwrap();
    project.write("in/a.txt", "inside");
    symlink("in/a.txt", project.work().join("good")).unwrap();
    for path in ["link", "up/secret", "../secret", "in/../../secret", "/etc/hostname"] {
        assert_eq!(
            project.misses(file(path)),
            (format!("file:{path}"), "it lies outside of the session's directories".to_owned())
        );
        assert!(project.misses(image(path)).0.starts_with("image:"));
        assert!(project.misses(resource("x:y", None, Some(path))).0.starts_with("resource:x:y"));
    }
    let escaping = uri(&project.folder.path().join("secret").canonicalize().unwrap());
    assert_eq!(
        project.misses(resource(&escaping, None, None)).1,
        "it lies outside of the session's directories"
    );
    assert_eq!(project.misses(url(&escaping)).1, "it lies outside of the session's directories");
    assert!(
        matches!(project.becomes(file("good")).0, PromptBlock::Resource { text, .. } if text == "inside")
    );
    assert_eq!(project.misses(file("missing")).0, "file:missing");
    assert_eq!(project.misses(file("")).1, "no path is given");
}

#[test]
fn a_second_root_counts_too() {
    let project = Project::new();
    let other = project.folder.path().canonicalize().unwrap().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("x"), "there").unwrap();
    let blocks = vec![file(other.join("x").to_str().unwrap())];
    let document = Document { blocks, roots: vec![project.work(), other], ..Document::default() };
    assert_eq!(compile(&document, &Sources::default()).pieces[0].text(), Some("there"));
}

#[test]
fn the_content_of_an_image_says_what_it_is() {
    let project = Project::new();
    project.write("a.png", PNG);
    project.write("really-a-png.jpg", PNG);
    project.write("b.JPG", b"\xff\xd8\xff\xe0");
    project.write("c.webp", b"RIFF\0\0\0\0WEBPVP8 ");
    for (name, mime) in [
        ("a.png", "image/png"),
        ("really-a-png.jpg", "image/png"),
        ("b.JPG", "image/jpeg"),
        ("c.webp", "image/webp"),
    ] {
        let (block, _) = project.becomes(image(name));
        assert!(
            matches!(&block, PromptBlock::Image { mime: found, .. } if found == mime),
            "{name}: {block:?}"
        );
    }
    project.write("text.png", "GIF, it is not");
    let no_image = "it holds no PNG, JPEG, GIF or WebP image";
    assert_eq!(project.misses(image("text.png")), ("image:text.png".to_owned(), no_image.to_owned()));
    assert_eq!(project.misses(image(".")).1, "it is no regular file");
    project.write("drawing.svg", "<svg/>");
    let (block, omitted) = project.becomes(image("drawing.svg"));
    assert!(matches!(block, PromptBlock::Resource { text, .. } if text == "<svg/>"));
    assert_eq!(omitted, ["an SVG drawing is sent as its source text"]);
}

#[test]
fn images_by_url() {
    let project = Project::new();
    let png = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, PNG);
    let (block, _) = project.becomes(url(&format!("data:image/jpeg;x=y;base64,{png}")));
    assert_eq!(block, PromptBlock::Image { mime: "image/png".into(), data: png.clone(), uri: None });
    let web = "https://example.org/a.png";
    assert!(matches!(project.becomes(url(web)).0, PromptBlock::Link { uri, .. } if uri == web));
    let real = project.write("a.png", PNG);
    assert!(matches!(project.becomes(url(&uri(&real))).0, PromptBlock::Image { .. }));
    for (bad, key) in [
        ("data:image/png;base64,!", "image:data:image/png"),
        ("data:image/png;base64,AAAA", "image:data:image/png"),
        ("data:text/plain,hello", "image:data:text/plain"),
        ("ftp://x/y", "image:ftp://x/y"),
    ] {
        assert_eq!(project.misses(url(bad)).0, key);
    }
}

#[test]
fn a_resource_is_its_text_its_file_or_its_address() {
    let project = Project::new();
    project.write("a.txt", "from the file");
    let mime = || Some("text/x".to_owned());
    let with = |text: &str| PromptBlock::Resource { uri: "x:1".into(), text: text.into(), mime: mime() };
    assert_eq!(project.becomes(resource("x:1", Some("its own"), Some("a.txt"))).0, with("its own"));
    assert_eq!(project.becomes(resource("x:1", None, Some("a.txt"))).0, with("from the file"));
    let link = PromptBlock::Link { uri: "x:1".into(), name: "x:1".into(), mime: mime() };
    assert_eq!(project.becomes(resource("x:1", None, None)).0, link);
}

#[test]
fn there_is_a_bound_for_all_files_together() {
    let project = Project::new();
    project.write("a.txt", "x".repeat(64 << 10));
    let compiled = project.compiles(vec![file("a.txt"); 17]);
    let kinds: Vec<_> = compiled.pieces.iter().map(Piece::kind).collect();
    assert_eq!((kinds[..16].to_vec(), kinds[16]), (vec![PieceKind::Resource; 16], PieceKind::ResourceLink));
    assert_eq!(compiled.omissions[0].reason, "the prompt holds too much text already; it is sent as a link");
    assert_eq!(compiled.pieces[0].bytes(), 64 << 10);
}

#[test]
fn what_is_missing_is_named_and_the_rest_goes_on() {
    let project = Project::new();
    let skill = DocBlock::Skill { skill_id: "nope".into(), params: BTreeMap::new(), path: None };
    let chat = DocBlock::Session { session_id: "ghost".into() };
    let compiled = project.compiles(vec![skill.clone(), DocBlock::text("  Go on. "), file("x"), chat]);
    let keys: Vec<_> = compiled.unresolved.iter().map(|missing| missing.reference.as_str()).collect();
    assert_eq!(keys, ["skill:nope", "file:x", "session:ghost"]);
    assert_eq!(compiled.pieces.len(), 1);
    assert_eq!(compiled.pieces[0].text(), Some("  Go on. "));
    // If nothing is left, the agent at least learns what was asked for.
    let compiled = project.compiles(vec![skill, file("x")]);
    assert_eq!(compiled.unresolved.len(), 2);
    assert_eq!(compiled.pieces[0].text(), Some("[skill:nope]\n\n[@x]"));
}

#[test]
fn context_comes_first_and_in_order() {
    let project = Project::new();
    let entry = |value: &str, untrusted| AdditionalContext { value: value.into(), untrusted };
    let context =
        BTreeMap::from([("web".to_owned(), entry("W", true)), ("editor".to_owned(), entry("E", false))]);
    let blocks = vec![
        DocBlock::text("T"),
        DocBlock::Context { source: "late".into(), value: "L".into(), untrusted: false },
        DocBlock::Context { source: "empty".into(), value: " ".into(), untrusted: false },
    ];
    let document = Document { blocks, context, roots: vec![project.work()], ..Document::default() };
    let compiled = compile(&document, &Sources::default());
    let seen: Vec<_> = compiled.pieces.iter().map(|piece| (piece.from, piece.reference.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (MadeFrom::Context, Some("context:editor")),
            (MadeFrom::Context, Some("context:web")),
            (MadeFrom::Text, None),
            (MadeFrom::Context, Some("context:late"))
        ]
    );
}

#[test]
fn a_document_that_cannot_be_read_in_time_keeps_its_words() {
    let document = Document { blocks: vec![DocBlock::text("words"), file("x")], ..Document::default() };
    let compiled = Compiled::failed(&document, "too slow");
    assert_eq!(compiled.pieces[0].text(), Some("words"));
    assert_eq!(compiled.unresolved, [Unresolved { reference: "file:x".into(), reason: "too slow".into() }]);
    let document = Document { blocks: vec![file("x")], ..Document::default() };
    assert_eq!(Compiled::failed(&document, "too slow").pieces[0].text(), Some("[@x]"));
}
