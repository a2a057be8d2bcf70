//! Items and turns within a bound: the longest texts are cut, marked, and named. Pure.

use serde::Serialize;
use serde_json::Value;
use signalbox_protocol::app::{CutText, ItemBody, ThreadItem, Turn};

use super::long;

/// Most bytes of one item where a client reads pages; the rest is to be had by `item/output/read`.
pub const ITEM_BYTES: usize = 128 * 1024;
/// Most bytes of a turn's plan where a client reads pages.
const PLAN_BYTES: usize = 64 * 1024;
/// What an item takes to say what was cut of it.
const SAYING: usize = 1024;
/// No text is cut shorter than this. What has so many texts that they do not fit all the same is bounded by the core.
const SHORTEST: usize = 256;

/// Bytes of a value as JSON.
#[must_use]
pub fn json_size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written is found, and told, when the result is.
    drop(serde_json::to_writer(&mut count, value));
    count.0
}

/// The item in at most about `max` bytes, and how many it takes.
#[must_use]
pub fn item(item: ThreadItem, max: usize) -> (ThreadItem, usize) {
    let size = json_size(&item);
    if size <= max {
        return (item, size);
    }
    let Ok(mut value) = serde_json::to_value(&item) else { return (item, size) };
    // What says that it was cut takes some room too.
    let cut = texts(&mut value, size.saturating_sub(max.saturating_sub(SAYING)));
    match serde_json::from_value::<ThreadItem>(value) {
        Ok(mut shorter) => {
            shorter.output_truncated = true;
            shorter.cut_texts.extend(cut);
            let size = json_size(&shorter);
            (shorter, size)
        }
        // The same type was written a moment ago.
        Err(_) => (item, size),
    }
}

/// The item without what commands wrote and tools returned.
#[must_use]
pub fn without_output(mut item: ThreadItem) -> ThreadItem {
    let mut left_out = Vec::new();
    let mut note = |field: String, text: &str| {
        let total_bytes = text.len() as u64;
        left_out.push(CutText { field, total_bytes });
    };
    match &mut item.body {
        ItemBody::CommandExecution { aggregated_output, .. } => {
            if let Some(output) = aggregated_output.take() {
                note("/aggregatedOutput".to_owned(), &output);
            }
        }
        ItemBody::McpToolCall { result, .. } => {
            for (place, block) in result.take().into_iter().flat_map(|result| result.content).enumerate() {
                if let Some(text) = block.get("text").and_then(Value::as_str) {
                    note(format!("/result/content/{place}/text"), text);
                }
            }
        }
        ItemBody::DynamicToolCall { content_items, .. } => {
            use signalbox_protocol::app::DynamicToolCallOutputContentItem as Piece;
            for (place, piece) in content_items.take().into_iter().flatten().enumerate() {
                let (member, text) = match &piece {
                    Piece::InputText { text } => ("text", text),
                    Piece::InputImage { image_url } => ("imageUrl", image_url),
                    Piece::InputAudio { audio_url } => ("audioUrl", audio_url),
                };
                note(format!("/contentItems/{place}/{member}"), text);
            }
        }
        _ => {}
    }
    item.output_truncated |= !left_out.is_empty();
    // What was cut before has its whole length already.
    left_out.retain(|text| item.cut_texts.iter().all(|known| known.field != text.field));
    item.cut_texts.extend(left_out);
    item
}

/// The turn with its diff and plan within the bounds of a page. Items are not touched.
#[must_use]
pub fn outline(mut turn: Turn) -> Turn {
    if let Some(shorter) = turn.diff.as_deref().and_then(|diff| long::cut(diff, ITEM_BYTES)) {
        turn.diff = Some(shorter);
        turn.diff_truncated = true;
    }
    for approval in &mut turn.approvals {
        if let Some(shorter) = approval.message.as_deref().and_then(|text| long::cut(text, SHORTEST)) {
            approval.message = Some(shorter);
        }
    }
    if let Some(plan) = &mut turn.plan
        && json_size(plan) > PLAN_BYTES
    {
        let each = (PLAN_BYTES / plan.len().max(1)).max(SHORTEST);
        for step in plan {
            if let Some(shorter) = long::cut(&step.step, each) {
                step.step = shorter;
            }
        }
    }
    turn
}

/// Cuts the longest texts of a value by about `excess` bytes of JSON. Gives the places and whole lengths of what was cut.
#[must_use]
pub fn texts(value: &mut Value, excess: usize) -> Vec<CutText> {
    let mut lengths = Vec::new();
    collect(value, &mut lengths);
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let longest = longest_allowed(&lengths, excess);
    let mut cut = Vec::new();
    shorten(value, longest, &mut String::new(), &mut cut);
    cut
}

/// The length to which the longest texts are cut so that `excess` bytes go.
fn longest_allowed(lengths: &[usize], excess: usize) -> usize {
    let mut sum = 0;
    for (place, length) in lengths.iter().enumerate() {
        sum += length;
        let next = lengths.get(place + 1).copied().unwrap_or(0);
        let count = place + 1;
        if sum.saturating_sub(count * next) >= excess {
            return ((sum - excess) / count).max(SHORTEST);
        }
    }
    SHORTEST
}

fn collect(value: &Value, lengths: &mut Vec<usize>) {
    match value {
        Value::String(text) if text.len() > SHORTEST => lengths.push(long::json_len(text)),
        Value::Array(list) => list.iter().for_each(|value| collect(value, lengths)),
        Value::Object(object) => object.values().for_each(|value| collect(value, lengths)),
        _ => {}
    }
}

fn shorten(value: &mut Value, longest: usize, path: &mut String, cut: &mut Vec<CutText>) {
    let at = path.len();
    match value {
        Value::String(text) => {
            let shorter = if text.starts_with("data:") && text.len() > longest {
                Some(long::image_mark(text.len()))
            } else {
                long::cut(text, longest)
            };
            if let Some(shorter) = shorter {
                cut.push(CutText { field: path.clone(), total_bytes: text.len() as u64 });
                *text = shorter;
            }
        }
        Value::Array(list) => {
            for (place, value) in list.iter_mut().enumerate() {
                path.push_str(&format!("/{place}"));
                shorten(value, longest, path, cut);
                path.truncate(at);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                shorten(value, longest, path, cut);
                path.truncate(at);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> ThreadItem {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_longest_texts_of_an_item_are_cut_and_named_and_the_short_ones_stay() {
        let changes: Vec<Value> = [300_000, 200_000, 40, 90_000]
            .iter()
            .map(|length| json!({"path": "/a.rs", "kind": {"type": "add"}, "diff": "\"x\n".repeat(length / 3)}))
            .collect();
        let whole = of(json!({"id": "i1", "type": "fileChange", "status": "completed", "changes": changes}));
        let (cut, size) = item(whole.clone(), ITEM_BYTES);
        assert!(size <= ITEM_BYTES && size > ITEM_BYTES / 2, "{size}");
        let fields: Vec<&str> = cut.cut_texts.iter().map(|text| text.field.as_str()).collect();
        assert_eq!(fields, ["/changes/0/diff", "/changes/1/diff", "/changes/3/diff"]);
        assert_eq!(cut.cut_texts[0].total_bytes, 300_000);
        assert!(cut.output_truncated);
        let value = serde_json::to_value(&cut).unwrap();
        assert!(value["changes"][1]["diff"].as_str().unwrap().contains("bytes left out"));
        assert_eq!(value["changes"][2], serde_json::to_value(&whole).unwrap()["changes"][2]);
        assert_eq!(item(cut.clone(), ITEM_BYTES).0, cut);
    }

    #[test]
    fn half_an_image_is_no_image() {
        let url = format!("data:image/png;base64,{}", "A".repeat(400_000));
        let content = json!([{"type": "text", "text": "look"}, {"type": "image", "url": url}]);
        let (cut, _) = item(of(json!({"id": "i1", "type": "userMessage", "content": content})), ITEM_BYTES);
        let value = serde_json::to_value(&cut).unwrap();
        let shown = value["content"][1]["url"].as_str().unwrap();
        assert!(shown.starts_with("data:text/plain;") && shown.contains("%20bytes%20left%20out"), "{shown}");
        assert_eq!(cut.cut_texts[0].field, "/content/1/url");
        assert_eq!(value["content"][0]["text"], "look");
    }

    #[test]
    fn deferred_output_is_named() {
        let content = json!([{"type": "text", "text": "abc"}, {"type": "image", "data": "x"}]);
        let call = json!({"id": "i1", "type": "mcpToolCall", "server": "s", "tool": "t", "status": "completed",
            "arguments": {}, "result": {"content": content}});
        let cut = without_output(of(call));
        let value = serde_json::to_value(&cut).unwrap();
        assert_eq!(value["result"], Value::Null);
        assert_eq!(value["cutTexts"], json!([{"field": "/result/content/0/text", "totalBytes": 3}]));
        let output = "line\n".repeat(60_000);
        let command = of(
            json!({"id": "i3", "type": "commandExecution", "command": "make", "cwd": "/", "status": "completed",
            "commandActions": [], "source": "agent", "aggregatedOutput": output}),
        );
        let cut = without_output(item(command, ITEM_BYTES).0);
        let named: Vec<u64> = cut.cut_texts.iter().map(|text| text.total_bytes).collect();
        assert_eq!(named, [output.len() as u64], "once, with its whole length");
        let bare = of(json!({"id": "i2", "type": "contextCompaction"}));
        assert_eq!(without_output(bare.clone()), bare);
    }
}
