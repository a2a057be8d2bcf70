//! The stored row of a session is what `SessionRow::apply` makes of its facts, whatever they are.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use common::*;
use proptest::prelude::*;
use signalbox_facts::{
    ActivityState, Decision, FactBody, FailedReason, InputId, Mode, PermissionResolved, Policy,
    PolicyChanged, QueueChanged, ResolvedBy, ResolverKind, Reverted, Sandbox, SessionRow, SessionRule,
    SettingsChanged, TitleChanged, TitleOrigin, TurnId, Usage, WorktreeDiscarded,
};
use signalbox_store::Store;

fn resolved(kept_rule: Option<SessionRule>) -> FactBody {
    FactBody::PermissionResolved(
        PermissionResolved {
            input: InputId::generate(),
            title: "t".into(),
            tool_call: None,
            decision: Decision::Accept,
            option_id: None,
            by: ResolvedBy { kind: ResolverKind::Policy, name: None },
            rule: None,
            message: None,
            kept_rule,
        }
        .into(),
    )
}

fn bodies() -> impl Strategy<Value = FactBody> {
    let word = "[a-zé'\"]{0,5}";
    let rule = prop_oneof![
        "[a-b]{1,2}".prop_map(|command| SessionRule::Command { command }),
        Just(SessionRule::Edits { root: "/r".into() }),
    ];
    let options = prop::collection::btree_map(
        "[a-c.\"]{1,2}",
        prop_oneof![any::<bool>().prop_map(Into::into), word.prop_map(Into::into)],
        0..3,
    );
    let settings =
        (prop::option::of(word), prop::option::of(word), prop::option::of("/[a-c]"), any::<bool>(), options);
    prop_oneof![
        word.prop_map(|text| prompt(&text, false, None)),
        (0..300_usize).prop_map(|length| prompt(&"é".repeat(length), false, None)),
        word.prop_map(|text| chunk("m", &text)),
        word.prop_map(|title| FactBody::TitleChanged(TitleChanged { title, origin: TitleOrigin::Manual })),
        any::<bool>().prop_map(|archived| FactBody::Archived { archived }),
        any::<bool>()
            .prop_map(|paused| FactBody::QueueChanged(QueueChanged { paused, ..QueueChanged::default() })),
        any::<u32>().prop_map(|n| FactBody::Usage(Usage { input_tokens: n.into(), ..Usage::default() })),
        word.prop_map(|id| FactBody::AgentSession { id }),
        prop::option::of(rule).prop_map(resolved),
        Just(FactBody::PolicyChanged(PolicyChanged {
            policy: Policy { mode: Mode::AcceptEdits, sandbox: Sandbox::ReadOnly },
            request_id: None
        })),
        Just(FactBody::WorktreeDiscarded(WorktreeDiscarded {
            path: "/x".into(),
            removed_checkout: false,
            deleted_branch: None
        })),
        prop_oneof![Just("a"), Just("b")]
            .prop_map(|word| FactBody::RuleRemoved { rule: SessionRule::Command { command: word.into() } }),
        Just(FactBody::RuleRemoved { rule: SessionRule::Edits { root: "/r".into() } }),
        Just(FactBody::Reverted(Reverted { before_turn: TurnId::generate(), from_seq: 9, request_id: None })),
        settings.prop_map(|(model, effort, cwd, roots, options)| FactBody::SettingsChanged(
            SettingsChanged {
                model,
                effort,
                cwd: cwd.map(Into::into),
                roots: roots.then(|| vec!["/r1".into(), "/r2".into()]),
                options,
                request_id: None,
            }
            .into()
        )),
    ]
}

#[test]
fn stored_rows_follow_from_facts_as_defined() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Store::in_memory()).unwrap();
    let config = ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(commits in prop::collection::vec(prop::collection::vec(bodies(), 1..6), 0..8))| {
        runtime.block_on(async {
            let mut session = Session::new();
            store.writer.commit(session.created()).await.unwrap();
            store.writer.commit(session.prompt("")).await.unwrap();
            for bodies in commits {
                store.writer.commit(session.commit(bodies)).await.unwrap();
            }
            session.revision += 1;
            let failed = ActivityState::Failed {
                turn_id: session.turn,
                reason: FailedReason::ProviderError,
                message: "gone".into(),
            };
            store.writer.commit(session.commit([activity(session.revision, failed)])).await.unwrap();
            let mut row = SessionRow::created(&session.facts[0]).unwrap();
            session.facts[1..].iter().for_each(|fact| row.apply(fact));
            assert_eq!(store.reader.session(session.id).await.unwrap().unwrap(), row);
        });
    });
}
