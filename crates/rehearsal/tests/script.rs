//! Every directive, end to end, as a client sees it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and starts real processes"
)]

mod support;

use std::fs;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use support::{Client, Life, allow, always, dismiss, never, reject};

/// Plays a script in an empty folder and compares the whole story.
async fn check(prompt: &str, decide: impl Fn(&Value) -> Value, story: Expect) {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play(prompt, decide).await;
    story.assert_eq(&played.story);
}

#[tokio::test]
async fn say_and_think_come_in_chunks_with_an_id_a_message() {
    check(
        "think One thought.\nsay A line\\nand a second one, long enough.\nsay Bye.",
        never,
        expect![[r#"
            ← agent_thought_chunk thought-1-1 "One thought."
            ← agent_message_chunk msg-1-2 "A line\nand a second"
            ← agent_message_chunk msg-1-2 " one, long enough."
            ← agent_message_chunk msg-1-3 "Bye."
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_script_in_what_only_goes_along_is_not_played() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let block = |text: &str, audience: Value| json!({"type": "text", "text": text, "annotations": audience});
    let prompt = json!([
        block("User:\nsay old\nhang", json!({"audience": ["assistant"]})),
        block("say new", json!({"audience": ["user", "assistant"]})),
        block("say too", json!(null)),
        block("say old", json!({"audience": ["assistant"]})),
    ]);
    let params = json!({"sessionId": client.session, "prompt": prompt});
    client.story.clear();
    let id = client.request("session/prompt", params).await;
    let played = client.finish(&id, never).await;
    expect![[r#"
        ← agent_message_chunk msg-1-1 "new"
        ← agent_message_chunk msg-1-2 "too"
        ← answer end_turn
    "#]]
    .assert_eq(&played.story);
}

#[tokio::test]
async fn a_plan_has_statuses() {
    check("plan done: look | doing: think | todo: act", never, expect![[r#"
        ← plan entries=[{"content":"look","priority":"medium","status":"completed"},{"content":"think","priority":"medium","status":"in_progress"},{"content":"act","priority":"medium","status":"pending"}]
        ← answer end_turn
    "#]]).await;
}

#[tokio::test]
async fn a_command_is_announced_allowed_run_and_closed() {
    check("run printf 'one\\n'; exit 0", allow, expect![[r#"
        ← tool_call call-1-1 execute pending "printf 'one\\n'; exit 0"
        ← permission? call-1-1 allow|always|reject "execute" "printf 'one\\n'; exit 0"
        → allow
        ← tool_call_update call-1-1 in_progress terminal terminal_info
        ← tool_call_update call-1-1 +"one\n"
        ← tool_call_update call-1-1 completed rawOutput={"exitCode":0,"signal":null,"bytes":4,"omittedBytes":0} ["one\n"] exit=0 signal=null
        ← answer end_turn
    "#]]).await;
}

#[tokio::test]
async fn a_failing_command_says_its_exit_code() {
    check("run echo oops >&2; exit 3", allow, expect![[r#"
        ← tool_call call-1-1 execute pending "echo oops >&2; exit 3"
        ← permission? call-1-1 allow|always|reject "execute" "echo oops >&2; exit 3"
        → allow
        ← tool_call_update call-1-1 in_progress terminal terminal_info
        ← tool_call_update call-1-1 +"oops\n"
        ← tool_call_update call-1-1 failed rawOutput={"exitCode":3,"signal":null,"bytes":5,"omittedBytes":0} ["oops\n"] exit=3 signal=null
        ← answer end_turn
    "#]]).await;
}

#[tokio::test]
async fn a_command_ended_by_a_signal_says_so() {
    check("run kill -TERM $$", allow, expect![[r#"
        ← tool_call call-1-1 execute pending "kill -TERM $$"
        ← permission? call-1-1 allow|always|reject "execute" "kill -TERM $$"
        → allow
        ← tool_call_update call-1-1 in_progress terminal terminal_info
        ← tool_call_update call-1-1 failed rawOutput={"exitCode":null,"signal":"SIGTERM","bytes":0,"omittedBytes":0} exit=null signal="SIGTERM"
        ← answer end_turn
    "#]]).await;
}

#[tokio::test]
async fn a_rejected_command_does_not_run_and_the_script_goes_on() {
    check(
        "run touch made\nrun touch made\nread made",
        reject,
        expect![[r#"
            ← tool_call call-1-1 execute pending "touch made"
            ← permission? call-1-1 allow|always|reject "execute" "touch made"
            → reject
            ← tool_call_update call-1-1 failed rawOutput={"declined":true} ["Declined by the client."]
            ← tool_call call-1-2 execute pending "touch made"
            ← permission? call-1-2 allow|always|reject "execute" "touch made"
            → reject
            ← tool_call_update call-1-2 failed rawOutput={"declined":true} ["Declined by the client."]
            ← tool_call call-1-3 read in_progress "Read made"
            ← tool_call_update call-1-3 failed ["Cannot be read: No such file or directory (os error 2)"]
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_answer_without_a_choice_is_no_permission() {
    check("run touch made", dismiss, expect![[r#"
        ← tool_call call-1-1 execute pending "touch made"
        ← permission? call-1-1 allow|always|reject "execute" "touch made"
        → cancelled
        ← tool_call_update call-1-1 failed rawOutput={"declined":true} ["Not allowed: the client answered without choosing an option."]
        ← answer end_turn
    "#]]).await;
}

#[tokio::test]
async fn a_command_always_allowed_is_not_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let first = client.play("run echo a\nrun echo a\nrun echo b", always).await;
    assert_eq!(first.requests.len(), 2);
    let second = client.play("run echo a", never).await;
    assert_eq!(second.output(), "a\n");
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::in_folder(folder.path());
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("run exec 3>life; sleep 1000 & echo up", allow).await;
    assert_eq!((played.stop_reason(), played.output().as_str()), ("end_turn", "up\n"));
    life.ends().await;
}

#[tokio::test]
async fn output_comes_while_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    // The command goes on only when the test has seen its first line.
    let id = client.prompt("run mkfifo go; echo first; read line < go; echo second").await;
    let request = client.until(|frame| frame["method"] == "session/request_permission").await;
    client.reply(&request, allow(&request)).await;
    client
        .until(|frame| frame["params"]["update"]["_meta"]["terminal_output_delta"]["data"] == "first\n")
        .await;
    fs::write(folder.path().join("go"), "on\n").unwrap();
    let rest = client.finish(&id, never).await;
    assert_eq!(rest.output(), "second\n");
    assert_eq!(rest.last("tool_call_update")["content"][0]["content"]["text"], "first\nsecond\n");
}

#[tokio::test]
async fn big_output_streams_whole_and_ends_with_both_its_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("big 3000001", allow).await;
    let output = played.output();
    assert_eq!(output.len(), 3_000_001);
    assert!(output.lines().take(187_500).enumerate().all(|(n, line)| line == format!("{:015}", n + 1)));
    let last = played.last("tool_call_update");
    let shown = last["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.len() < 1_100_000 && shown.contains("bytes left out"));
    assert!(output.ends_with(&shown[shown.len() - 1000..]));
    assert_eq!(last["rawOutput"]["omittedBytes"], 3_000_001 - 1024 * 1024);
}

#[tokio::test]
async fn a_write_shows_its_diff_and_is_made_after_permission() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("write a/b.txt <<END\none\ntwo\nEND\nsay done", allow).await;
    expect![[r#"
        ← tool_call call-1-1 edit pending "Write a/b.txt" diff("CWD/a/b.txt" null → "one\ntwo\n")
        ← permission? call-1-1 allow|always|reject "edit" "Write a/b.txt"
        → allow
        ← tool_call_update call-1-1 in_progress
        ← tool_call_update call-1-1 completed rawOutput={"bytes":8}
        ← agent_message_chunk msg-1-2 "done"
        ← answer end_turn
    "#]]
    .assert_eq(&played.story);
    let path = folder.path().join("a/b.txt");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");

    let played = client.play("write a/b.txt <<\nthree\n<<", allow).await;
    let diff = &played.requests[0]["params"]["toolCall"]["content"][0];
    assert_eq!(*diff, json!({"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "three\n"}));

    let played = client.play("write a/b.txt <<\nthree\n<<", never).await;
    assert!(played.said().contains("already has this text"));
}

#[tokio::test]
async fn a_rejected_write_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kept"), "old").unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("write kept <<\nnew\n<<\ndelete kept", reject).await;
    assert_eq!(played.requests.len(), 2);
    assert_eq!(fs::read_to_string(folder.path().join("kept")).unwrap(), "old");
}

#[tokio::test]
async fn a_file_that_changed_while_the_permission_was_open_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared");
    fs::write(&path, "old").unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client
        .play("write shared <<\nnew\n<<", |request| {
            fs::write(&path, "somebody else's").unwrap();
            allow(request)
        })
        .await;
    assert_eq!(played.last("tool_call_update")["status"], "failed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody else's");
}

#[tokio::test]
async fn read_and_delete_work_on_files_and_say_when_they_cannot() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "hello\n").unwrap();
    fs::write(folder.path().join("bytes"), b"\xff\x00").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played =
        client.play("read text\nread bytes\nread none\ndelete text\ndelete none\ndelete folder", allow).await;
    expect![[r#"
        ← tool_call call-1-1 read in_progress "Read text"
        ← tool_call_update call-1-1 completed rawOutput={"bytes":6,"truncated":false} ["hello\n"]
        ← tool_call call-1-2 read in_progress "Read bytes"
        ← tool_call_update call-1-2 completed rawOutput={"bytes":2} ["2 bytes that are not text."]
        ← tool_call call-1-3 read in_progress "Read none"
        ← tool_call_update call-1-3 failed ["Cannot be read: No such file or directory (os error 2)"]
        ← tool_call call-1-4 delete pending "Delete text" diff("CWD/text" "hello\n" → "")
        ← permission? call-1-4 allow|always|reject "delete" "Delete text"
        → allow
        ← tool_call_update call-1-4 in_progress
        ← tool_call_update call-1-4 completed
        ← tool_call call-1-5 delete pending "Delete none"
        ← tool_call_update call-1-5 failed ["There is no such file."]
        ← tool_call call-1-6 delete pending "Delete folder"
        ← tool_call_update call-1-6 failed ["Not a regular file."]
        ← answer end_turn
    "#]]
    .assert_eq(&played.story);
    assert!(!folder.path().join("text").exists() && folder.path().join("folder").exists());
}

#[tokio::test]
async fn ask_is_a_form_where_the_client_shows_forms() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::connect(Default::default());
    client.initialize(json!({"elicitation": {"form": {}}})).await;
    client.open(folder.path()).await;
    let played = client
        .play("ask Which colour? | red | blue", |request| {
            assert_eq!(request["method"], "elicitation/create");
            json!({"action": "accept", "content": {"answer": "blue"}})
        })
        .await;
    assert_eq!(played.said(), "The answer to `Which colour?` is: blue");
    let played = client.play("ask Which? | red | blue", |_| json!({"action": "decline"})).await;
    assert_eq!(played.said(), "There was no answer to `Which?`.");
}

#[tokio::test]
async fn ask_is_a_permission_request_elsewhere() {
    let choose_second = |_: &Value| json!({"outcome": {"outcome": "selected", "optionId": "option-2"}});
    check(
        "ask Which colour? | red | blue",
        choose_second,
        expect![[r#"
            ← tool_call call-1-1 other pending "Which colour?"
            ← permission? call-1-1 option-1|option-2 "other" "Which colour?"
            → option-2
            ← tool_call_update call-1-1 completed rawOutput={"answer":"blue"} ["blue"]
            ← agent_message_chunk msg-1-2 "The answer to `Which"
            ← agent_message_chunk msg-1-2 " colour?` is: blue"
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn streamed_chunks_are_numbered_and_exactly_as_long_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("stream 20000 8 0", never).await;
    let chunks = played.chunks("agent_message_chunk");
    assert_eq!(chunks.len(), 20_000);
    assert!(chunks.iter().enumerate().all(|(n, chunk)| *chunk == format!("{n:08}")));

    let played = client.play("stream 3 12 1\nstream 2 3 0", never).await;
    let wanted = ["00000000...\n", "00000001...\n", "00000002...\n", "000", "001"];
    assert_eq!(played.chunks("agent_message_chunk"), wanted);

    let played = client.play("stamp 3 0", never).await;
    let times: Vec<u64> = played.said().split_whitespace().map(|time| time.parse().unwrap()).collect();
    assert!(times.len() == 3 && times.is_sorted());
}

#[tokio::test]
async fn usage_title_sleep_environment_and_mcp() {
    check(
        "usage 1200 100000\ntitle A new title\nsleep 1\necho-env REHEARSAL_NO_SUCH\nmcp files list",
        never,
        expect![[r#"
            ← usage_update used=1200 size=100000
            ← session_info_update "A new title"
            ← agent_message_chunk msg-1-1 "REHEARSAL_NO_SUCH"
            ← agent_message_chunk msg-1-1 " is not set"
            ← tool_call call-1-2 other in_progress "mcp__files__list" name="mcp__files__list"
            ← tool_call_update call-1-2 completed ["A rehearsal of `list` of the MCP server `files`: nothing was called."]
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_prompt_can_fail() {
    check(
        "say so far\nfail Out of coal\nsay never",
        never,
        expect![[r#"
            ← agent_message_chunk msg-1-1 "so far"
            ← error -32603 "Out of coal"
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_tokens_of_a_turn_are_an_estimate_from_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let played = client.play("say 12345678", never).await;
    let usage = json!({"inputTokens": 3, "outputTokens": 2, "totalTokens": 5});
    assert_eq!(played.answer["result"]["usage"], usage);
}

#[tokio::test]
async fn garbage_goes_out_between_good_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    client.prompt("garble").await;
    assert_eq!(client.line().await.unwrap(), b"this line is not JSON");
    let (mut scalars, mut broken) = (0, 0);
    loop {
        match serde_json::from_slice::<Value>(&client.line().await.unwrap()) {
            Ok(value) if value["result"]["stopReason"] == "end_turn" => break,
            Ok(value) => scalars += u32::from(!value.is_object()),
            Err(_) => broken += 1,
        }
    }
    assert_eq!((scalars, broken), (5, 3));
}

#[tokio::test]
async fn late_work_comes_after_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("late One more thing.").await;
    client.until(|frame| frame["id"] == id).await;
    client.frame().await;
    client.frame().await;
    expect![[r#"
        ← tool_call call-1-1 other in_progress "Late work"
        ← answer end_turn
        ← agent_message_chunk msg-1-2 "One more thing."
        ← tool_call_update call-1-1 completed ["One more thing."]
    "#]]
    .assert_eq(&client.take_story());
}

#[tokio::test]
async fn a_call_can_stay_open() {
    check(
        "no-close\nno-close With a title",
        never,
        expect![[r#"
            ← tool_call call-1-1 other in_progress "A call that is never closed"
            ← tool_call call-1-2 other in_progress "With a title"
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn calls_without_a_kind_and_calls_asked_for_before_they_are_announced() {
    check("unkinded echo a\npermit-first echo b\nunannounced echo c", allow, expect![[r#"
        ← tool_call call-1-1 pending "echo a"
        ← permission? call-1-1 allow|always|reject null "echo a"
        → allow
        ← tool_call_update call-1-1 in_progress terminal terminal_info
        ← tool_call_update call-1-1 +"a\n"
        ← tool_call_update call-1-1 completed rawOutput={"exitCode":0,"signal":null,"bytes":2,"omittedBytes":0} ["a\n"] exit=0 signal=null
        ← permission? call-1-2 allow|always|reject "execute" "echo b"
        → allow
        ← tool_call call-1-2 execute pending "echo b"
        ← tool_call_update call-1-2 in_progress terminal terminal_info
        ← tool_call_update call-1-2 +"b\n"
        ← tool_call_update call-1-2 completed rawOutput={"exitCode":0,"signal":null,"bytes":2,"omittedBytes":0} ["b\n"] exit=0 signal=null
        ← permission? call-1-3 allow|always|reject "execute" "echo c"
        → allow
        ← tool_call_update call-1-3 in_progress terminal terminal_info
        ← tool_call_update call-1-3 +"c\n"
        ← tool_call_update call-1-3 completed rawOutput={"exitCode":0,"signal":null,"bytes":2,"omittedBytes":0} ["c\n"] exit=0 signal=null
        ← answer end_turn
    "#]]).await;
    check(
        "permit-first echo b\nunannounced echo c",
        reject,
        expect![[r#"
            ← permission? call-1-1 allow|always|reject "execute" "echo b"
            → reject
            ← permission? call-1-2 allow|always|reject "execute" "echo c"
            → reject
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_id_can_be_used_by_two_turns() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    for n in 1..3 {
        let played = client.play("same-id", never).await;
        assert_eq!(played.updates[0]["toolCallId"], "call-same");
        assert_eq!(played.updates[0]["title"], format!("The same call in turn {n}"));
    }
}

#[tokio::test]
async fn parallel_commands_have_their_permissions_open_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let id = client.prompt("parallel echo left || echo right").await;
    let asks = |frame: &Value| frame["method"] == "session/request_permission";
    let first = client.until(asks).await;
    let second = client.until(asks).await;
    // The second is answered first, and differently.
    client.reply(&second, allow(&second)).await;
    client.until(|frame| frame["params"]["update"]["status"] == "completed").await;
    client.reply(&first, reject(&first)).await;
    let rest = client.finish(&id, never).await;
    assert_eq!(rest.last("tool_call_update")["toolCallId"], first["params"]["toolCall"]["toolCallId"]);
    assert_eq!(rest.last("tool_call_update")["status"], "failed");
    assert_eq!(rest.stop_reason(), "end_turn");
}

#[tokio::test]
async fn a_misspelt_directive_is_told_and_other_lines_are_comments() {
    check(
        "Here comes a script.\nsleep soon\nsay hi",
        never,
        expect![[r#"
            ← agent_message_chunk msg-1-1 "Not understood, so"
            ← agent_message_chunk msg-1-1 " skipped: `sleep"
            ← agent_message_chunk msg-1-1 " soon`. The form"
            ← agent_message_chunk msg-1-1 " is `sleep MS`."
            ← agent_message_chunk msg-1-2 "hi"
            ← answer end_turn
        "#]],
    )
    .await;
}

#[tokio::test]
async fn the_mode_look_runs_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let params = json!({"sessionId": client.session, "configId": "mode", "value": "look"});
    client.call("session/set_config_option", params).await;
    client.until(|frame| frame["params"]["update"]["currentModeId"] == "look").await;
    let played = client.play("run touch made\nwrite made <<\nx\n<<", never).await;
    assert_eq!(played.last("tool_call_update")["status"], "failed");
    assert!(!folder.path().join("made").exists());
}

#[tokio::test]
async fn messages_are_sent_word_for_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::in_folder(folder.path()).await;
    let script = "send-update {\"sessionUpdate\":\"plan\",\"entries\":[]}\n\
        send-request session/request_permission [{\"toolCall\":{\"toolCallId\":\"a\"},\"options\":[]},{\"toolCall\":{\"toolCallId\":\"b\"},\"options\":[]}]\n\
        end-with refusal\nsay never";
    let played = client.play(script, dismiss).await;
    assert_eq!(played.requests.len(), 2, "both at once");
    assert!(played.requests.iter().all(|request| request["params"]["sessionId"] == client.session.as_str()));
    assert_eq!(played.answer["result"]["stopReason"], "refusal");
    let texts: Vec<_> =
        played.updates.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(texts, ["session/request_permission got {\"outcome\":{\"outcome\":\"cancelled\"}}"; 2]);
    assert_eq!(played.updates[0]["sessionUpdate"], "plan");
}
