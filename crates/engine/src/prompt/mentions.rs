//! Files and images that a prompt mentions: found inside the roots only, and turned into blocks. Reads files.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use signalbox_agents::PromptBlock;

use super::labels::one_line;

/// A mentioned text file up to this size goes along; a larger one goes as a link.
const MAX_FILE_BYTES: usize = 64 << 10;
const MAX_IMAGE_BYTES: usize = 16 << 20;

/// A block, and what it lacks of what was mentioned.
#[derive(PartialEq, Debug)]
pub(super) struct Found {
    pub(super) block: PromptBlock,
    pub(super) omitted: Option<String>,
}

impl From<PromptBlock> for Found {
    fn from(block: PromptBlock) -> Self {
        Self { block, omitted: None }
    }
}

/// A file of the roots: its text if it is text and short, else a link. `left` is the room for text in the prompt.
pub(super) fn file(path: &str, roots: &[PathBuf], left: usize) -> Result<Found, String> {
    let file = resolve(path, roots)?;
    text_of(&file, None, None, path, left)
}

/// An image of the roots. Its content says what it is, whatever its name says; SVG is text and goes as such.
pub(super) fn image(path: &str, roots: &[PathBuf], left: usize) -> Result<Found, String> {
    image_of(&resolve(path, roots)?, path, left)
}

fn image_of(file: &Path, path: &str, left: usize) -> Result<Found, String> {
    let length = regular(file)?;
    if length > MAX_IMAGE_BYTES as u64 {
        return Err(format!("it is larger than {} MiB", MAX_IMAGE_BYTES >> 20));
    }
    let bytes = read(file, MAX_IMAGE_BYTES)?;
    let Some(mime) = image_type(&bytes) else {
        if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg")) {
            let mut found = text_of(file, None, Some("image/svg+xml"), path, MAX_FILE_BYTES)?;
            found.omitted.get_or_insert_with(|| "an SVG drawing is sent as its source text".to_owned());
            return Ok(found);
        }
        return Err("it holds no PNG, JPEG, GIF or WebP image".to_owned());
    };
    let uri = file_uri(file);
    if bytes.len() > left {
        let omitted =
            Some("the prompt holds too many bytes of images already; it is sent as a link".to_owned());
        let block = PromptBlock::Link { uri, name: one_line(path), mime: Some(mime.to_owned()) };
        return Ok(Found { block, omitted });
    }
    Ok(PromptBlock::Image { mime: mime.to_owned(), data: BASE64.encode(bytes), uri: Some(uri) }.into())
}

/// An image by URL: `data:` is taken apart, `file:` is looked up, what lies in the web goes as a link.
pub(super) fn image_url(url: &str, roots: &[PathBuf], left: usize) -> Result<Found, String> {
    if let Some(data) = strip_scheme(url, "data:") {
        return data_url(data, left);
    }
    if let Some(path) = file_path(url) {
        let shown = path.display().to_string();
        return image_of(&inside(&path, roots)?, &shown, left);
    }
    if strip_scheme(url, "https://").or_else(|| strip_scheme(url, "http://")).is_none() {
        return Err("it is no data, file, http or https URL".to_owned());
    }
    Ok(PromptBlock::Link { uri: url.to_owned(), name: one_line(url), mime: None }.into())
}

fn data_url(data: &str, left: usize) -> Result<Found, String> {
    let (kind, data) = data.split_once(',').ok_or("it is no data URL")?;
    let named = kind.split(';').next().unwrap_or_default();
    if !kind.split(';').any(|word| word.eq_ignore_ascii_case("base64")) {
        return Err("its data is not in base64".to_owned());
    }
    let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = BASE64.decode(&data).map_err(|error| format!("its data is not in base64: {error}"))?;
    let mime = image_type(&bytes)
        .ok_or_else(|| format!("it holds no PNG, JPEG, GIF or WebP image, but says {named:?}"))?;
    if bytes.len() > left.min(MAX_IMAGE_BYTES) {
        return Err("it is larger than what may be sent".to_owned());
    }
    Ok(PromptBlock::Image { mime: mime.to_owned(), data, uri: None }.into())
}

/// A resource: its own text, the file that holds it, or only its address.
pub(super) fn resource(
    uri: &str,
    text: Option<&str>,
    path: Option<&str>,
    mime: Option<&str>,
    roots: &[PathBuf],
    left: usize,
) -> Result<Found, String> {
    if let Some(text) = text {
        let (uri, text, mime) = (uri.to_owned(), text.to_owned(), mime.map(str::to_owned));
        return Ok(PromptBlock::Resource { uri, text, mime }.into());
    }
    if let Some(path) = path {
        return text_of(&resolve(path, roots)?, Some(uri), mime, path, left);
    }
    if let Some(path) = file_path(uri) {
        return text_of(&inside(&path, roots)?, None, mime, &path.display().to_string(), left);
    }
    Ok(PromptBlock::Link { uri: uri.to_owned(), name: one_line(uri), mime: mime.map(str::to_owned) }.into())
}

/// The text of a file under this address, or a link to the file.
fn text_of(
    file: &Path,
    uri: Option<&str>,
    mime: Option<&str>,
    name: &str,
    left: usize,
) -> Result<Found, String> {
    let link = |omitted: Option<String>| {
        let block =
            PromptBlock::Link { uri: file_uri(file), name: one_line(name), mime: mime.map(str::to_owned) };
        Found { block, omitted }
    };
    if file.is_dir() {
        return Ok(link(None));
    }
    let length = regular(file)?;
    if length > MAX_FILE_BYTES as u64 {
        return Ok(link(Some(format!("it has {length} bytes; it is sent as a link"))));
    }
    if length > left as u64 {
        return Ok(link(Some("the prompt holds too much text already; it is sent as a link".to_owned())));
    }
    match String::from_utf8(read(file, MAX_FILE_BYTES)?) {
        Ok(text) if !text.contains('\0') => {
            let uri = uri.map_or_else(|| file_uri(file), str::to_owned);
            Ok(PromptBlock::Resource { uri, text, mime: mime.map(str::to_owned) }.into())
        }
        _ => Ok(link(Some("it is not text; it is sent as a link".to_owned()))),
    }
}

/// The real path of something inside the roots, symbolic links followed. Relative paths begin at the first root.
fn resolve(path: &str, roots: &[PathBuf]) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("no path is given".to_owned());
    }
    let base = roots.first().map_or(Path::new("/"), PathBuf::as_path);
    inside(&base.join(path), roots)
}

fn inside(path: &Path, roots: &[PathBuf]) -> Result<PathBuf, String> {
    let file = path.canonicalize().map_err(|error| error.to_string())?;
    let inside = roots.iter().any(|root| root.canonicalize().is_ok_and(|root| file.starts_with(root)));
    if inside { Ok(file) } else { Err("it lies outside of the session's directories".to_owned()) }
}

/// The length of a regular file. Others are not opened: a pipe would never end.
pub(super) fn regular(file: &Path) -> Result<u64, String> {
    let data = file.metadata().map_err(|error| error.to_string())?;
    if data.is_file() { Ok(data.len()) } else { Err("it is no regular file".to_owned()) }
}

/// At most so many bytes of a regular file, also if it grows meanwhile.
pub(super) fn read(file: &Path, at_most: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(at_most as u64).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The rest of a URL with this scheme, in whatever case that is written.
fn strip_scheme<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let head = url.get(..scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
}

/// A URL as it is named in keys and messages; the data of a `data:` URL is left out.
pub(super) fn short_url(url: &str) -> String {
    match strip_scheme(url, "data:") {
        Some(data) => format!("data:{}", one_line(data.split([';', ',']).next().unwrap_or_default())),
        None => one_line(url),
    }
}

/// `file://` and the path, what may not stand in a URI escaped.
pub(super) fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte))
            }
            other => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                uri.push('%');
                uri.push(char::from(DIGITS[usize::from(other >> 4)]));
                uri.push(char::from(DIGITS[usize::from(other & 15)]));
            }
        }
    }
    uri
}

/// The path of a `file:` URL of this machine.
fn file_path(url: &str) -> Option<PathBuf> {
    let rest = strip_scheme(url, "file://")?;
    let rest = strip_scheme(rest, "localhost").unwrap_or(rest);
    if !rest.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let [first, rest @ ..] = left {
        left = match (first, rest) {
            (b'%', [high, low, rest @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default();
                bytes.push(u8::try_from(digit(*high) * 16 + digit(*low)).unwrap_or_default());
                rest
            }
            _ => {
                bytes.push(*first);
                rest
            }
        };
    }
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_go_there_and_back() {
        let path = Path::new("/a b/é#?%/c.txt");
        let uri = file_uri(path);
        assert_eq!(uri, "file:///a%20b/%C3%A9%23%3F%25/c.txt");
        assert_eq!(file_path(&uri).as_deref(), Some(path));
        assert_eq!(file_path("FILE://localhost/x%2"), Some(PathBuf::from("/x%2")));
        assert_eq!(file_path("file://elsewhere/x"), None);
    }

    #[test]
    fn a_data_url_is_named_without_its_data() {
        assert_eq!(short_url("data:image/png;base64,AAAA"), "data:image/png");
        assert_eq!(short_url("https://x/y"), "https://x/y");
        assert_eq!(strip_scheme("é", "data:"), None);
    }
}
