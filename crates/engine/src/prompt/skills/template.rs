//! Placeholders of a skill: `{{name}}` is replaced by a value, once, in one pass. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// A template with its values in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Filled {
    pub(super) text: String,
    /// Placeholders without a value, in the order of the text; they are left as they were written.
    pub(super) unfilled: Vec<String>,
    /// Values without a placeholder.
    pub(super) unused: BTreeSet<String>,
}

/// Replaces every placeholder that has a value. What a value holds is never looked at, so it cannot bring in another.
pub(super) fn fill(template: &str, values: &BTreeMap<String, String>) -> Filled {
    let mut unused: BTreeSet<String> = values.keys().cloned().collect();
    let mut unfilled: Vec<String> = Vec::new();
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        match placeholder(&from[2..]) {
            Some((name, after)) => {
                if let Some(value) = values.get(name) {
                    unused.remove(name);
                    text.push_str(value);
                } else {
                    if !unfilled.iter().any(|known| known == name) {
                        unfilled.push(name.to_owned());
                    }
                    text.push_str(&from[..from.len() - after.len()]);
                }
                rest = after;
            }
            None => {
                // One brace only: `{{{name}}` has its placeholder one further.
                text.push('{');
                rest = &from[1..];
            }
        }
    }
    text.push_str(rest);
    Filled { text, unfilled, unused }
}

/// The name of a placeholder, and what follows it. White space around the name does not count.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.split_once("}}")?;
    let name = name.trim_matches([' ', '\t']);
    let letter = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!name.is_empty() && name.chars().all(letter)).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_is_never_expanded_again() {
        let filled = fill("{{a}} and {{ b }}", &values(&[("a", "{{b}}"), ("b", "{{a}}{{b}}")]));
        assert_eq!(filled.text, "{{b}} and {{a}}{{b}}");
        assert!(filled.unfilled.is_empty() && filled.unused.is_empty());
        // Nor do two values make a placeholder between them.
        assert_eq!(fill("{{o}}{{o}}a}}", &values(&[("o", "{"), ("a", "no")])).text, "{{a}}");
    }

    #[test]
    fn placeholders_without_a_value_stay_and_are_told_once() {
        let filled = fill("{{x}} {{y}} {{ x }} ${{ secrets.KEY }}", &values(&[("y", "Y"), ("z", "Z")]));
        assert_eq!(filled.text, "{{x}} Y {{ x }} ${{ secrets.KEY }}");
        assert_eq!(filled.unfilled, ["x", "secrets.KEY"]);
        assert_eq!(filled.unused, BTreeSet::from(["z".to_owned()]));
    }

    #[test]
    fn braces_that_are_no_placeholder_are_text() {
        let filled = fill("{{}} {{a b}} {{{a}} {{a {{a}}", &values(&[("a", "1")]));
        assert_eq!(filled.text, "{{}} {{a b}} {1 {{a 1");
    }

    proptest! {
        #[test]
        fn without_values_a_template_stays_as_it_is(template in "[{}a \n]{0,40}") {
            prop_assert_eq!(fill(&template, &BTreeMap::new()).text, template);
        }

        #[test]
        fn the_order_of_values_makes_no_difference(a in "[{}ab]{0,6}", b in "[{}ab]{0,6}") {
            let filled = fill("-{{a}}-{{b}}-", &values(&[("a", &a), ("b", &b)]));
            prop_assert_eq!(filled.text, format!("-{a}-{b}-"));
        }
    }
}
