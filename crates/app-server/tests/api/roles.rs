//! What each role may call: the whole table, each method by each role.

use expect_test::expect;
use serde_json::json;
use signalbox_app_server::registry;
use signalbox_rpc::{EntryKind, Role};

use crate::stage::Stage;

const ROLES: [Role; 3] = [Role::Observer, Role::Operator, Role::Owner];

/// Observers read what the server has. Operators also prompt, answer, change threads, and see what lies in directories that they
/// name and who else is connected. Owners also decide who comes in, where, and whether the server stays.
#[test]
fn the_least_role_of_each_method() {
    let mut lines = String::new();
    for role in ROLES {
        lines.push_str(&format!("{}:\n", role.name()));
        let mut names: Vec<&str> = registry()
            .describe()
            .iter()
            .filter(|entry| entry.kind == EntryKind::Method && entry.role == role)
            .map(|entry| entry.name)
            .collect();
        names.sort_unstable();
        names.iter().for_each(|name| lines.push_str(&format!("  {name}\n")));
    }
    expect![[r#"
        observer:
          account/read
          approval/list
          collaborationMode/list
          config/read
          configRequirements/read
          experimentalFeature/list
          hooks/list
          initialize
          item/output/read
          mcpServerStatus/list
          model/list
          modelProvider/list
          permissionProfile/list
          permissionRule/list
          plugin/installed
          provider/list
          rpc.discover
          server/health
          thread/command/list
          thread/configOption/list
          thread/explain
          thread/items/list
          thread/list
          thread/loaded/list
          thread/queue/list
          thread/read
          thread/resume
          thread/search
          thread/transcript/read
          thread/turns/list
          thread/unsubscribe
        operator:
          approval/respond
          fuzzyFileSearch
          op/submit
          permissionRule/remove
          prompt/preview
          provider/check
          provider/sessions/list
          server/diagnostics
          skills/list
          thread/archive
          thread/compact/start
          thread/configOption/set
          thread/delete
          thread/fork
          thread/import
          thread/name/set
          thread/queue/add
          thread/queue/delete
          thread/queue/reorder
          thread/queue/update
          thread/revert
          thread/settings/update
          thread/start
          thread/unarchive
          thread/worktree/discard
          turn/interrupt
          turn/start
          turn/steer
          worktree/baselines
        owner:
          device/list
          device/revoke
          listener/open
          pairing/create
          provider/login
          provider/login/answer
          server/stop
    "#]]
    .assert_eq(&lines);
}

#[tokio::test]
async fn whoever_may_less_is_told_what_is_needed() {
    let stage = Stage::new().await;
    let mut refused = 0;
    for role in ROLES {
        let mut client = stage.client_with("somebody", role, json!({})).await;
        for entry in registry().describe() {
            if entry.kind != EntryKind::Method || entry.role <= role {
                continue;
            }
            // Whatever the parameters are: what may not be called is not even read.
            for params in [json!({}), json!({"threadId": "x", "nonsense": []})] {
                let error = client.refusal(entry.name, params).await;
                assert_eq!(error["code"], -32020, "{} by {}: {error}", entry.name, role.name());
                assert_eq!(error["data"]["reason"], "unauthorized", "{}", entry.name);
                assert_eq!(error["data"]["needs"], entry.role.name(), "{}", entry.name);
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "only {refused} calls were refused");
}

#[tokio::test]
async fn a_server_without_doors_says_so() {
    let stage = Stage::new().await;
    let mut owner = stage.client("owner").await;
    for (method, params) in [
        ("pairing/create", json!({})),
        ("device/list", json!({})),
        ("device/revoke", json!({"deviceId": "x"})),
    ] {
        assert_eq!(owner.refused(method, params).await, (-32022, "no_doors".to_owned()));
    }
}

#[tokio::test]
async fn an_observer_sees_an_approval_and_is_neither_asked_nor_heard() {
    let stage = Stage::new().await;
    let mut operator = stage.client("operator").await;
    let thread = operator.thread(json!({})).await;
    let mut observer = stage.client_with("observer", Role::Observer, json!({})).await;
    observer.ok("thread/resume", json!({"threadId": thread})).await;
    operator.turn(&thread, "run make").await;
    let asked = operator.until("item/commandExecution/requestApproval").await;
    let seen = observer.until("approval/requested").await;
    assert_eq!(seen["params"]["approval"]["approvalId"], asked["id"]);
    // As if it had been asked, and in the ways there are for those who were not.
    observer.send(json!({"id": asked["id"], "result": {"decision": "accept"}})).await;
    let answer = json!({"approvalId": asked["id"], "decision": "accept"});
    assert_eq!(observer.refused("approval/respond", answer).await.0, -32020);
    let op = json!({"op": "answer_permission", "session": thread, "request_id": asked["id"], "option_id": "allow"});
    assert_eq!(observer.refused("op/submit", json!({"op": op})).await.0, -32020);
    observer.settle().await;
    assert_eq!(observer.ok("approval/list", json!({})).await["data"].as_array().unwrap().len(), 1);
    assert_eq!(observer.count("item/commandExecution/requestApproval"), 0);
    operator.respond(&asked, json!({"decision": "decline"})).await;
    let resolved = observer.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["decision"], "decline");
}
