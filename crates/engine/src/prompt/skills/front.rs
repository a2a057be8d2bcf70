//! The front matter of a `SKILL.md`: the flat part of YAML that such files use, read by hand. Pure.
//!
//! Only two keys matter, and the files in the field are not always YAML: a description with a colon in it is common, and
//! a YAML parser refuses it. Keys that are not ours may hold whatever they like.

/// A file taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Parsed {
    /// `name`, if there is one.
    pub(super) name: Option<String>,
    /// `description`, if there is one.
    pub(super) description: Option<String>,
    /// What follows the front matter, without blank lines around it.
    pub(super) body: String,
}

/// Why a front matter cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum FrontError {
    /// The line that ends it is missing.
    #[error("the front matter that begins in line 1 has no end: a line `---` is missing")]
    NoEnd,
    /// A line is none of what may stand there.
    #[error("line {line} of the front matter is no `key: value`")]
    NoKey {
        /// Counted from 1, of the file.
        line: usize,
    },
    /// A key that matters is there twice.
    #[error("`{key}` is there twice, again in line {line}")]
    Twice {
        /// The key.
        key: &'static str,
        /// Counted from 1, of the file.
        line: usize,
    },
    /// A key that matters holds something else than text.
    #[error("`{key}` in line {line} must be text")]
    NoText {
        /// The key.
        key: &'static str,
        /// Counted from 1, of the file.
        line: usize,
    },
    /// A quoted text has no end.
    #[error("the quotes of `{key}` in line {line} are not closed")]
    Unclosed {
        /// The key.
        key: &'static str,
        /// Counted from 1, of the file.
        line: usize,
    },
}

/// Takes a file apart. Without front matter, everything is body.
pub(super) fn parse(text: &str) -> Result<Parsed, FrontError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    if lines.first().is_none_or(|line| line.trim_end() != "---") {
        return Ok(Parsed { body: body(&lines), ..Parsed::default() });
    }
    let end = lines.iter().skip(1).position(|line| matches!(line.trim_end(), "---" | "..."));
    let end = end.ok_or(FrontError::NoEnd)? + 1;
    let mut parsed = Parsed { body: body(&lines[end + 1..]), ..Parsed::default() };
    let mut at = 1;
    while at < end {
        let line = lines[at];
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            at += 1;
            continue;
        }
        let (key, value) = entry(line).ok_or(FrontError::NoKey { line: at + 1 })?;
        let rest = &lines[at + 1..end];
        let more = rest.iter().take_while(|line| line.trim().is_empty() || is_inner(line)).count();
        let place = match key {
            "name" => Some(("name", &mut parsed.name)),
            "description" => Some(("description", &mut parsed.description)),
            _ => None,
        };
        if let Some((key, place)) = place {
            if place.is_some() {
                return Err(FrontError::Twice { key, line: at + 1 });
            }
            *place = Some(scalar(value, &rest[..more], key, at + 1)?);
        }
        at += 1 + more;
    }
    parsed.name = parsed.name.filter(|name| !name.is_empty());
    parsed.description = parsed.description.filter(|description| !description.is_empty());
    Ok(parsed)
}

fn body(lines: &[&str]) -> String {
    let first = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or(lines.len());
    lines[first..].join("\n").trim_end().to_owned()
}

/// Key and value of a line that begins with a key.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '/');
    let fits = !key.is_empty() && !key.starts_with(['-', ' ']) && key.chars().all(letter);
    (fits && (value.is_empty() || value.starts_with([' ', '\t']))).then_some((key, value.trim()))
}

/// Whether a line goes on with the value of the key above: it is indented, or an entry of a list.
fn is_inner(line: &str) -> bool {
    line.starts_with([' ', '\t']) || line.starts_with("- ") || line == "-"
}

fn scalar(value: &str, more: &[&str], key: &'static str, line: usize) -> Result<String, FrontError> {
    let no_text = FrontError::NoText { key, line };
    match value.chars().next() {
        Some(style @ ('|' | '>')) => Ok(block(style == '>', more)),
        Some('"') => double_quoted(&folded(value, more)).ok_or(FrontError::Unclosed { key, line }),
        Some('\'') => single_quoted(&folded(value, more)).ok_or(FrontError::Unclosed { key, line }),
        Some('[' | '{' | '&' | '*' | '!') => Err(no_text),
        None if more
            .iter()
            .map(|line| line.trim_start())
            .any(|line| line.starts_with("- ") || is_mapping(line)) =>
        {
            Err(no_text)
        }
        _ => {
            let text = folded(without_comment(value), more);
            Ok(if matches!(text.as_str(), "~" | "null") { String::new() } else { text })
        }
    }
}

/// Whether a line under a key without a value begins a table.
fn is_mapping(line: &str) -> bool {
    entry(line).is_some_and(|(key, _)| !key.contains(' '))
}

fn without_comment(value: &str) -> &str {
    if value.starts_with('#') {
        return "";
    }
    value.split_once(" #").map_or(value, |(value, _)| value.trim_end())
}

/// The lines of a value joined by spaces; blank ones are line breaks.
fn folded(first: &str, more: &[&str]) -> String {
    let mut text = first.to_owned();
    let mut blank = 0;
    for line in more {
        let line = line.trim();
        if line.is_empty() {
            blank += 1;
            continue;
        }
        match blank {
            0 if !text.is_empty() => text.push(' '),
            _ => (0..blank).for_each(|_| text.push('\n')),
        }
        blank = 0;
        text.push_str(line);
    }
    text
}

/// A block scalar. Its indentation is that of its first line; how it ends makes no difference here.
fn block(fold: bool, lines: &[&str]) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let margin = lines.iter().find(|line| !line.trim().is_empty()).map_or(0, |line| indent(line));
    let lines = lines.iter().map(|line| line.get(margin.min(indent(line))..).unwrap_or_default().trim_end());
    let mut text = String::new();
    let mut blank = 0;
    for line in lines {
        if line.is_empty() {
            blank += 1;
            continue;
        }
        if !text.is_empty() {
            match (fold, blank) {
                (true, 0) => text.push(' '),
                (true, blank) => (0..blank).for_each(|_| text.push('\n')),
                (false, blank) => (0..=blank).for_each(|_| text.push('\n')),
            }
        }
        blank = 0;
        text.push_str(line);
    }
    text
}

fn double_quoted(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = text.chars().skip(1);
    loop {
        match chars.next()? {
            '"' => return Some(plain),
            '\\' => match chars.next()? {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                'u' => {
                    let code: String = chars.by_ref().take(4).collect();
                    plain.push(
                        u32::from_str_radix(&code, 16).ok().and_then(char::from_u32).unwrap_or('\u{fffd}'),
                    );
                }
                other => plain.push(other),
            },
            other => plain.push(other),
        }
    }
}

fn single_quoted(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = text.chars().skip(1).peekable();
    loop {
        match chars.next()? {
            '\'' if chars.next_if_eq(&'\'').is_some() => plain.push('\''),
            '\'' => return Some(plain),
            other => plain.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(front: &str, name: &str, description: &str) {
        let parsed = parse(&format!("---\n{front}\n---\nBody.\n")).unwrap();
        assert_eq!(
            (parsed.name.as_deref().unwrap_or("-"), parsed.description.as_deref().unwrap_or("-")),
            (name, description)
        );
        assert_eq!(parsed.body, "Body.");
    }

    #[test]
    fn every_form_of_text_that_such_files_use() {
        check("name: review\ndescription: Reviews code.", "review", "Reviews code.");
        check(
            "description: Use when: a colon is in it # and a comment\nname: 'it''s'",
            "it's",
            "Use when: a colon is in it",
        );
        check("name: \"a \\\"b\\\"\\u00e9\" # c\ndescription: \"two\n  lines\"", "a \"b\"é", "two lines");
        check("name: a\ndescription: >-\n  One\n  line.\n\n  Two.", "a", "One line.\nTwo.");
        check("name: a\ndescription: |\n    One\n      in\n\n    Two.\n", "a", "One\n  in\n\nTwo.");
        check("name: a\ndescription:\n  under\n  it", "a", "under it");
        check("name: a\ndescription: starts here\n  and goes on", "a", "starts here and goes on");
        check("name: ~\ndescription:", "-", "-");
    }

    #[test]
    fn keys_that_are_not_ours_may_hold_anything() {
        check(
            "allowed-tools: [Read, 'Grep']\nmetadata:\n  author: x\n  tags:\n    - a\nname: a\nlist:\n- one\n- two\n# comment\n\"license\": MIT\nx: &anchor {a: b}\ndescription: d",
            "a",
            "d",
        );
    }

    #[test]
    fn line_ends_of_windows_a_byte_order_mark_and_no_front_matter() {
        let parsed = parse("\u{feff}---\r\nname: a\r\ndescription: b\r\n---\r\n\r\nOne\r\nTwo\r\n").unwrap();
        assert_eq!(
            parsed,
            Parsed { name: Some("a".into()), description: Some("b".into()), body: "One\nTwo".into() }
        );
        assert_eq!(parse("# A title\n---\n").unwrap().body, "# A title\n---");
        assert_eq!(parse("").unwrap(), Parsed::default());
        assert_eq!(parse("---\nname: a\n...\n").unwrap().name.as_deref(), Some("a"));
    }

    #[test]
    fn mistakes_say_where_they_are() {
        let error = |front: &str| parse(&format!("---\n{front}\n---\n")).unwrap_err().to_string();
        assert_eq!(parse("---\nname: a\n").unwrap_err(), FrontError::NoEnd);
        assert_eq!(error("name: a\njust words"), "line 3 of the front matter is no `key: value`");
        assert_eq!(error("name: a\n\nname: b"), "`name` is there twice, again in line 4");
        assert_eq!(error("name: [a]"), "`name` in line 2 must be text");
        assert_eq!(error("x: 1\ndescription:\n  a: b"), "`description` in line 3 must be text");
        assert_eq!(error("name: \"a"), "the quotes of `name` in line 2 are not closed");
        assert_eq!(error("  name: a"), "line 2 of the front matter is no `key: value`");
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_nothing_breaks(text in "(---\n)?(([a-z]{1,8}|description|name|[ \t-]*): ?['\"|>\\[#]?[^\n]{0,12}\r?\n|\\PC{0,20}\n){0,8}(---)?") {
            let _ = parse(&text);
        }
    }
}
