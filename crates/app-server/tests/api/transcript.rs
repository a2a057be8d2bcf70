//! Pages of a thread's transcript over the API.

use serde_json::json;

use crate::stage::{Stage, input};

#[tokio::test]
async fn pages_follow_one_another_and_join_the_live_stream_without_a_gap() {
    let stage = Stage::new().await;
    let mut client = stage.client("reader").await;
    let thread = client.thread(json!({})).await;
    for text in ["say one", "say two", "say three"] {
        client.ok("turn/start", input(&thread, text)).await;
        client.until("turn/completed").await;
    }
    let read = json!({"threadId": thread, "limit": 2});
    let newest = client.ok("thread/transcript/read", read).await;
    let texts = |page: &serde_json::Value| -> Vec<String> {
        let entries = page["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["part"]["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&newest), ["say two", "two", "say three", "three"]);
    assert_eq!(newest["nextBefore"], newest["entries"][0]["seq"]);
    let older = json!({"threadId": thread, "before": newest["nextBefore"]});
    let oldest = client.ok("thread/transcript/read", older).await;
    assert_eq!(texts(&oldest), ["say one", "one"]);
    assert!(oldest["nextBefore"].is_null());

    // Nothing that was told is beyond the page's moment, and what comes is.
    let through = newest["snapshotThrough"].as_u64().unwrap();
    let told = client.log.iter().filter_map(|frame| frame["params"]["seq"].as_u64()).max().unwrap();
    assert_eq!(told, through);
    let place = client.log.len();
    client.ok("turn/start", input(&thread, "say four")).await;
    client.until("turn/completed").await;
    let later = client.log[place..].iter().filter_map(|frame| frame["params"]["seq"].as_u64());
    assert!(later.min().unwrap() > through);

    let cursor = json!({"threadId": thread, "before": through});
    assert_eq!(client.refused("thread/transcript/read", cursor).await.0, -32602);
    let nobody = json!({"threadId": "01890000-0000-7000-8000-000000000000"});
    assert_eq!(client.refused("thread/transcript/read", nobody).await.0, -32600);
}
