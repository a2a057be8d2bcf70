//! Which of two versions is newer.

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether `one` is a newer version than `other`. What cannot be read is newer than nothing, so that nobody is replaced
/// by mistake.
pub(crate) fn is_newer(one: &str, other: &str) -> bool {
    match (numbers(one), numbers(other)) {
        (Some(one), Some(other)) => one > other,
        _ => false,
    }
}

/// Major, minor, patch; and whether it is a release, which comes after everything that leads to it.
fn numbers(version: &str) -> Option<(u64, u64, u64, bool)> {
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (numbers, release) = match version.split_once('-') {
        Some((numbers, _)) => (numbers, false),
        None => (version, true),
    };
    let mut parts = numbers.split('.').map(str::parse);
    let mut next = || parts.next()?.ok();
    let found = (next()?, next()?, next()?, release);
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (newer, older) in
            [("1.10.0", "1.9.9"), ("2.0.0", "1.99.99"), ("1.0.0", "1.0.0-rc.1"), ("1.0.1+b", "1.0.0+c")]
        {
            assert!(is_newer(newer, older) && !is_newer(older, newer), "{newer} {older}");
        }
        assert!(!is_newer("1.0.0", "1.0.0"));
    }

    #[test]
    fn what_is_no_version_replaces_nothing() {
        for strange in ["", "1", "1.2", "a.b.c", "1.2.3.4", "main"] {
            assert!(!is_newer(strange, "0.0.1") && !is_newer("9.9.9", strange), "{strange}");
        }
    }
}
