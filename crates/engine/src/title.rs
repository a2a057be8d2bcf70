//! The automatic title of a session: a short line out of its first prompt. Pure.

const MAX_WORDS: usize = 8;
const MAX_SCALARS: usize = 40;
const MAX_CJK_SCALARS: usize = 24;

/// A title from a prompt's text; `None` if nothing in it makes one.
#[must_use]
pub(crate) fn from_prompt(text: &str) -> Option<String> {
    let line = text
        .lines()
        .map(|line| line.trim().trim_start_matches(['#', '>', '-', '*', '+', ' ', '\t']).trim_start())
        .find(|line| !line.is_empty() && !line.starts_with("```") && !line.starts_with("~~~"))?;
    let sentence = first_sentence(line);
    let title = shorten(sentence);
    let title = title.trim_end_matches([',', ':', ';', '、', '，', '：']).trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Up to the first sentence mark. A Latin mark counts only before white space or the end, so `main.rs` survives.
fn first_sentence(line: &str) -> &str {
    for (at, c) in line.char_indices() {
        let end = match c {
            '。' | '？' | '！' | '；' => true,
            '.' | '?' | '!' | ';' => line[at + c.len_utf8()..].chars().next().is_none_or(char::is_whitespace),
            _ => false,
        };
        if end && at > 0 {
            return &line[..at];
        }
    }
    line
}

fn shorten(sentence: &str) -> String {
    if sentence.chars().any(is_cjk) {
        return sentence.chars().take(MAX_CJK_SCALARS).collect();
    }
    let mut title = String::new();
    for word in sentence.split_whitespace().take(MAX_WORDS) {
        let length = title.chars().count() + word.chars().count() + usize::from(!title.is_empty());
        if length > MAX_SCALARS {
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
    }
    if title.is_empty() { sentence.chars().take(MAX_SCALARS).collect() } else { title }
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::from_prompt;

    #[test]
    fn titles() {
        let cases = [
            ("Refactor src/main.rs and lib.rs. Then test.", Some("Refactor src/main.rs and lib.rs")),
            ("\n\n## Fix the build\nmore", Some("Fix the build")),
            ("```rust\nfn main() {}", Some("fn main() {}")),
            ("one two three four five six seven eight nine", Some("one two three four five six seven eight")),
            ("Please look at this:", Some("Please look at this")),
            ("修复登录处理程序。然后测试", Some("修复登录处理程序")),
            (".", Some(".")),
            ("   \n\t", None),
        ];
        for (prompt, title) in cases {
            assert_eq!(from_prompt(prompt).as_deref(), title, "{prompt:?}");
        }
        assert_eq!(from_prompt(&"x".repeat(90)).unwrap().chars().count(), 40);
    }
}
