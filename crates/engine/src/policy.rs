//! What the execution policy decides about a permission request. Pure; the order of its rules is the documentation.
//!
//! This mediates what agents *ask* for; it does not contain what they do without asking.

use std::path::{Component, Path, PathBuf};

use signalbox_agents::Posture;
use signalbox_facts::{Location, Mode, OptionKind, PermissionOption, Policy, Sandbox, SessionRule};

/// How much a policy leaves to the agent itself. What it may do unasked inside the roots it may only do where the ceiling
/// admits edits.
pub(crate) fn posture(policy: Policy) -> Posture {
    match policy.mode {
        _ if policy.lets_agents_loose() => Posture::Loose,
        _ if policy.sandbox == Sandbox::ReadOnly => Posture::Ask,
        Mode::AcceptEdits | Mode::NeverAsk => Posture::Edits,
        Mode::Ask | Mode::Yolo => Posture::Ask,
    }
}

/// What a permission request is about, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// ACP tool kind; `None` if neither the request nor the tool call before it has one.
    pub kind: Option<&'a str>,
    /// The command line of an `execute`.
    pub command: Option<&'a str>,
    /// What it would touch.
    pub locations: &'a [Location],
    /// The session's cwd and additional roots.
    pub roots: &'a [PathBuf],
    /// The agent confines the commands that it runs.
    pub confined: bool,
}

/// What to do with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Choose an option of kind allow_once; if there is none, ask.
    Allow(Rule),
    /// Choose a rejecting option.
    Reject(Rule),
    /// Park it, and say why if it is not simply the mode.
    Ask(Rule),
}

/// The rule that decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The kind is beyond the sandbox's ceiling.
    Ceiling,
    /// The kind is unknown, or its locations are outside the roots or missing.
    Unclear,
    /// An earlier "allow for this session".
    SessionRule,
    /// The permission mode.
    Mode,
    /// The permission mode that asks nobody.
    NeverAsk,
}

impl Rule {
    /// Stable word for events and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::Unclear => "unclear",
            Self::SessionRule => "session_rule",
            Self::Mode => "mode",
            Self::NeverAsk => "never_ask",
        }
    }
}

/// How a tool kind stands to the ceiling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Reads,
    Edits,
    Executes,
    Unclear,
}

fn class(kind: Option<&str>) -> Class {
    match kind {
        Some("read" | "search" | "fetch" | "think") => Class::Reads,
        Some("edit" | "delete" | "move") => Class::Edits,
        Some("execute") => Class::Executes,
        // `switch_mode`, `other` and everything unknown.
        _ => Class::Unclear,
    }
}

/// Decides a permission request. Elicitations never come here: they are always asked.
#[must_use]
pub fn decide(policy: Policy, subject: Subject<'_>, rules: &[SessionRule]) -> Verdict {
    let class = class(subject.kind);
    let full_access = policy.sandbox == Sandbox::DangerFullAccess;
    if policy.sandbox == Sandbox::ReadOnly && matches!(class, Class::Edits | Class::Executes) {
        return Verdict::Reject(Rule::Ceiling);
    }
    let far = class == Class::Edits && !inside(subject.locations, subject.roots);
    if !full_access && (class == Class::Unclear || far) {
        let never_asked =
            matches!(policy.mode, Mode::Yolo | Mode::NeverAsk) || policy.sandbox == Sandbox::ReadOnly;
        return if never_asked { Verdict::Reject(Rule::Unclear) } else { Verdict::Ask(Rule::Unclear) };
    }
    if rules.iter().any(|rule| covers(rule, class, subject)) {
        return Verdict::Allow(Rule::SessionRule);
    }
    match policy.mode {
        Mode::Yolo => Verdict::Allow(Rule::Mode),
        // Under full access an edit outside the roots is still only an edit.
        Mode::AcceptEdits if class == Class::Edits => Verdict::Allow(Rule::Mode),
        Mode::AcceptEdits | Mode::Ask => Verdict::Ask(Rule::Mode),
        Mode::NeverAsk if full_access || class != Class::Executes || subject.confined => {
            Verdict::Allow(Rule::NeverAsk)
        }
        Mode::NeverAsk => Verdict::Reject(Rule::NeverAsk),
    }
}

/// The verdict where these options are offered. What nothing allows once is asked, or rejected where nobody is asked.
#[must_use]
pub fn with_options(verdict: Verdict, policy: Policy, options: &[PermissionOption]) -> Verdict {
    match verdict {
        Verdict::Allow(rule) if allowing(options).is_none() => match policy.mode {
            Mode::NeverAsk => Verdict::Reject(Rule::NeverAsk),
            Mode::Ask | Mode::AcceptEdits | Mode::Yolo => Verdict::Ask(rule),
        },
        verdict => verdict,
    }
}

/// The rule to keep from an "allow for this session" answer, if the request is of a kind that can have one.
#[must_use]
pub fn rule_to_keep(subject: Subject<'_>) -> Option<SessionRule> {
    match class(subject.kind) {
        Class::Executes => Some(SessionRule::Command { command: subject.command?.to_owned() }),
        Class::Edits => {
            let root =
                subject.roots.iter().find(|root| inside(subject.locations, std::slice::from_ref(root)))?;
            Some(SessionRule::Edits { root: root.clone() })
        }
        Class::Reads | Class::Unclear => None,
    }
}

/// The option to choose for an automatic allow: once, never always.
#[must_use]
pub fn allowing(options: &[PermissionOption]) -> Option<&PermissionOption> {
    options.iter().find(|option| option.kind == OptionKind::AllowOnce)
}

/// The option to choose for a rejection: once if there is one. Without any the request is answered `cancelled`.
#[must_use]
pub fn rejecting(options: &[PermissionOption]) -> Option<&PermissionOption> {
    options
        .iter()
        .find(|option| option.kind == OptionKind::RejectOnce)
        .or_else(|| options.iter().find(|option| option.kind == OptionKind::RejectAlways))
}

fn covers(rule: &SessionRule, class: Class, subject: Subject<'_>) -> bool {
    match rule {
        SessionRule::Command { command } => class == Class::Executes && subject.command == Some(command),
        SessionRule::Edits { root } => {
            class == Class::Edits && inside(subject.locations, std::slice::from_ref(root))
        }
    }
}

/// Whether there is at least one location and all of them lie inside one of the roots. Lexical: callers resolve
/// symbolic links before they ask.
fn inside(locations: &[Location], roots: &[PathBuf]) -> bool {
    !locations.is_empty()
        && locations.iter().all(|location| {
            let path = &location.path;
            !climbs(path) && roots.iter().any(|root| path.starts_with(root))
        })
}

fn climbs(path: &Path) -> bool {
    path.components().any(|component| matches!(component, Component::ParentDir)) || path.is_relative()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [Option<&str>; 13] = [
        Some("read"),
        Some("search"),
        Some("fetch"),
        Some("think"),
        Some("edit"),
        Some("delete"),
        Some("move"),
        Some("execute"),
        Some("switch_mode"),
        Some("other"),
        Some("provider_magic"),
        Some(""),
        None,
    ];
    const MODES: [Mode; 4] = [Mode::Ask, Mode::AcceptEdits, Mode::Yolo, Mode::NeverAsk];
    const SANDBOXES: [Sandbox; 3] = [Sandbox::ReadOnly, Sandbox::WorkspaceWrite, Sandbox::DangerFullAccess];

    fn subject<'a>(kind: Option<&'a str>, locations: &'a [Location], roots: &'a [PathBuf]) -> Subject<'a> {
        Subject { kind, command: Some("ls"), locations, roots, confined: false }
    }

    fn at(path: &str) -> Vec<Location> {
        vec![Location { path: path.into(), line: None }]
    }

    fn verdict(mode: Mode, sandbox: Sandbox, kind: Option<&str>, locations: &[Location]) -> Verdict {
        let roots = [PathBuf::from("/repo")];
        decide(Policy { mode, sandbox }, subject(kind, locations, &roots), &[])
    }

    #[test]
    fn an_agent_is_let_go_as_far_as_mode_and_ceiling_both_say() {
        let of = |mode, sandbox| posture(Policy { mode, sandbox });
        for mode in [Mode::Ask, Mode::AcceptEdits, Mode::NeverAsk] {
            assert_eq!(of(mode, Sandbox::ReadOnly), Posture::Ask, "{mode:?}");
        }
        assert_eq!(of(Mode::Ask, Sandbox::DangerFullAccess), Posture::Ask);
        assert_eq!(of(Mode::AcceptEdits, Sandbox::WorkspaceWrite), Posture::Edits);
        assert_eq!(of(Mode::NeverAsk, Sandbox::WorkspaceWrite), Posture::Edits);
        assert_eq!(of(Mode::NeverAsk, Sandbox::DangerFullAccess), Posture::Loose);
        assert_eq!(of(Mode::Yolo, Sandbox::WorkspaceWrite), Posture::Loose);
    }

    #[test]
    fn the_ceiling_beats_mode_and_rules() {
        let roots = [PathBuf::from("/repo")];
        let locations = at("/repo/a");
        let rules =
            [SessionRule::Command { command: "ls".into() }, SessionRule::Edits { root: "/repo".into() }];
        for mode in MODES {
            for kind in ["edit", "delete", "move", "execute"] {
                let policy = Policy { mode, sandbox: Sandbox::ReadOnly };
                let verdict = decide(policy, subject(Some(kind), &locations, &roots), &rules);
                assert_eq!(verdict, Verdict::Reject(Rule::Ceiling), "{kind}");
            }
        }
    }

    /// Where a request would act, and what an earlier answer left.
    const PLACES: [(&str, &[&str], bool); 5] = [
        ("inside", &["/repo/a", "/extra/b"], true),
        ("outside", &["/etc/a"], false),
        ("partly inside", &["/repo/a", "/etc/a"], false),
        ("climbing out", &["/repo/../etc/a"], false),
        ("nowhere", &[], false),
    ];

    fn remembered() -> Vec<(&'static str, Vec<SessionRule>)> {
        let command = |command: &str| SessionRule::Command { command: command.into() };
        let edits = |root: &str| SessionRule::Edits { root: root.into() };
        vec![
            ("nothing", vec![]),
            ("this command", vec![command("ls")]),
            ("another command", vec![command("ls -l")]),
            ("these roots", vec![edits("/repo"), edits("/")]),
            ("another root", vec![edits("/elsewhere")]),
            ("all of it", vec![command("ls -l"), command("ls"), edits("/elsewhere"), edits("/")]),
        ]
    }

    /// The four rules, one after the other, in the words of the documentation.
    fn tabulated(
        (mode, sandbox): (Mode, Sandbox),
        kind: Option<&str>,
        near: bool,
        rule: &str,
        confined: bool,
    ) -> Verdict {
        let reads = matches!(kind, Some("read" | "search" | "fetch" | "think"));
        let edits = matches!(kind, Some("edit" | "delete" | "move"));
        let executes = kind == Some("execute");
        // 1. The ceiling.
        if sandbox == Sandbox::ReadOnly && (edits || executes) {
            return Verdict::Reject(Rule::Ceiling);
        }
        // 2. Unclear or far.
        if sandbox != Sandbox::DangerFullAccess && (!(reads || edits || executes) || (edits && !near)) {
            let nobody_asked = [Mode::Yolo, Mode::NeverAsk].contains(&mode) || sandbox == Sandbox::ReadOnly;
            return if nobody_asked { Verdict::Reject(Rule::Unclear) } else { Verdict::Ask(Rule::Unclear) };
        }
        // 3. What was allowed for the session.
        let kept = (executes && ["this command", "all of it"].contains(&rule))
            || (edits && near && ["these roots", "all of it"].contains(&rule));
        if kept {
            return Verdict::Allow(Rule::SessionRule);
        }
        // 4. The mode.
        match mode {
            Mode::Yolo => Verdict::Allow(Rule::Mode),
            Mode::AcceptEdits if edits => Verdict::Allow(Rule::Mode),
            Mode::AcceptEdits | Mode::Ask => Verdict::Ask(Rule::Mode),
            Mode::NeverAsk if executes && sandbox != Sandbox::DangerFullAccess && !confined => {
                Verdict::Reject(Rule::NeverAsk)
            }
            Mode::NeverAsk => Verdict::Allow(Rule::NeverAsk),
        }
    }

    /// Every mode, sandbox, kind (unknown and missing ones included), place and remembered rule.
    #[test]
    fn every_combination_is_as_tabulated() {
        let roots = [PathBuf::from("/repo"), PathBuf::from("/extra")];
        let remembered = remembered();
        let mut rows = 0;
        for mode in MODES {
            for sandbox in SANDBOXES {
                for kind in KINDS {
                    for (place, paths, near) in PLACES {
                        let locations: Vec<_> = paths.iter().flat_map(|path| at(path)).collect();
                        for (rule, rules) in &remembered {
                            // A rule for `/` covers what lies outside the roots; only full access lets it count there.
                            let far_rule = sandbox == Sandbox::DangerFullAccess
                                && ["outside", "partly inside"].contains(&place);
                            for confined in [false, true] {
                                let subject = Subject { confined, ..subject(kind, &locations, &roots) };
                                let got = decide(Policy { mode, sandbox }, subject, rules);
                                let near = near || far_rule;
                                let expected = tabulated((mode, sandbox), kind, near, rule, confined);
                                assert_eq!(
                                    got, expected,
                                    "{mode:?} {sandbox:?} {kind:?} {place}, {rule} remembered, {confined}"
                                );
                                rows += 1;
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(rows, 4 * 3 * 13 * 5 * 6 * 2);
    }

    proptest! {
        /// Nothing beyond the ceiling is ever allowed: whatever was allowed for the session under a higher one, by whichever
        /// request, is not allowed under the lower one.
        #[test]
        fn nothing_beyond_the_ceiling_is_ever_allowed(
            kinds in prop::collection::vec(prop::sample::select(KINDS.to_vec()), 1..8),
            paths in prop::collection::vec(prop::sample::select(vec!["/repo/a", "/etc/a", "/repo/../x", "a", "/"]), 0..3),
            modes in (prop::sample::select(MODES.to_vec()), prop::sample::select(MODES.to_vec())),
            high in prop::sample::select(SANDBOXES.to_vec()),
        ) {
            let roots = [PathBuf::from("/repo"), PathBuf::from("/")];
            let locations: Vec<_> = paths.iter().flat_map(|path| at(path)).collect();
            let of = |kind| subject(kind, &locations, &roots);
            // Each was allowed for the session, whatever the policy then said of it.
            let rules: Vec<_> = kinds.iter().filter_map(|kind| rule_to_keep(of(*kind))).collect();
            for kind in KINDS {
                let before = decide(Policy { mode: modes.0, sandbox: high }, of(kind), &rules);
                let lowered = decide(Policy { mode: modes.1, sandbox: Sandbox::ReadOnly }, of(kind), &rules);
                if !matches!(kind, Some("read" | "search" | "fetch" | "think")) {
                    prop_assert!(matches!(lowered, Verdict::Reject(_)), "{:?} after {:?}: {:?}", kind, before, lowered);
                }
                // And what lies far away or is unclear is not allowed below full access, whatever is remembered.
                let outside = [PathBuf::from("/repo")];
                let far = Subject { roots: &outside, ..of(kind) };
                let middle = decide(Policy { mode: modes.1, sandbox: Sandbox::WorkspaceWrite }, far, &rules);
                let unclear = class(kind) == Class::Unclear
                    || class(kind) == Class::Edits && !inside(&locations, &outside);
                prop_assert!(!(unclear && matches!(middle, Verdict::Allow(_))), "{:?}: {:?}", kind, middle);
            }
        }
    }

    #[test]
    fn a_session_rule_counts_for_the_exact_command_only() {
        let roots = [PathBuf::from("/repo")];
        let rules = [SessionRule::Command { command: "cargo test".into() }];
        let ask = |command| {
            let subject = Subject { command: Some(command), ..subject(Some("execute"), &[], &roots) };
            decide(Policy::default(), subject, &rules)
        };
        assert_eq!(ask("cargo test"), Verdict::Allow(Rule::SessionRule));
        assert_eq!(ask("cargo test; rm -rf /"), Verdict::Ask(Rule::Mode));
    }

    #[test]
    fn a_path_that_climbs_is_outside() {
        assert_eq!(
            verdict(Mode::AcceptEdits, Sandbox::WorkspaceWrite, Some("edit"), &at("/repo/../etc/passwd")),
            Verdict::Ask(Rule::Unclear)
        );
    }

    #[test]
    fn nobody_is_asked_who_does_not_want_to_be() {
        let roots = [PathBuf::from("/repo")];
        for sandbox in SANDBOXES {
            for kind in KINDS {
                let policy = Policy { mode: Mode::NeverAsk, sandbox };
                let verdict = decide(policy, subject(kind, &at("/repo/a"), &roots), &[]);
                assert!(!matches!(verdict, Verdict::Ask(_)), "{sandbox:?} {kind:?}: {verdict:?}");
                let always =
                    PermissionOption { id: "a".into(), label: "a".into(), kind: OptionKind::AllowAlways };
                let verdict = with_options(verdict, policy, &[always]);
                assert!(matches!(verdict, Verdict::Reject(_)), "an always is never chosen for the user");
            }
        }
    }

    #[test]
    fn automatic_answers_prefer_once() {
        let option = |id: &str, kind| PermissionOption { id: id.into(), label: id.into(), kind };
        let options = [
            option("a", OptionKind::AllowAlways),
            option("b", OptionKind::AllowOnce),
            option("c", OptionKind::RejectAlways),
            option("d", OptionKind::RejectOnce),
        ];
        assert_eq!(allowing(&options).unwrap().id, "b");
        assert_eq!(rejecting(&options).unwrap().id, "d");
        assert_eq!(allowing(&options[..1]), None, "an always is never chosen for the user");
        assert_eq!(rejecting(&options[2..3]).unwrap().id, "c");
    }
}
