//! Token counts from the three places where agents report them, and the context window.

use serde_json::Value;
use signalbox_facts::{ContextWindow, RateLimit};

use super::fields::{Object, count, object};
use crate::event::TokenUsage;

/// More limits than any account has.
const MAX_LIMITS: usize = 16;
const MAX_NAME_CHARS: usize = 64;

/// The tokens of a prompt, from its result: `usage`, else `_meta.quota.token_count`, else `_meta.usage`.
pub(crate) fn prompt_usage(result: &Object) -> Option<TokenUsage> {
    let meta = object(result, "_meta");
    let quota = || object(object(meta?, "quota")?, "token_count");
    [object(result, "usage"), quota(), meta.and_then(|meta| object(meta, "usage"))]
        .into_iter()
        .flatten()
        .find_map(tokens)
}

/// The tokens that an agent hangs on a chunk, one a model call.
pub(crate) fn chunk_usage(update: &Object) -> Option<TokenUsage> {
    tokens(object(object(update, "_meta")?, "usage")?)
}

fn tokens(counts: &Object) -> Option<TokenUsage> {
    let get = |keys: &[&str]| keys.iter().find_map(|key| count(counts, key));
    let input = get(&["inputTokens", "input_tokens", "promptTokens"])?;
    let output = get(&["outputTokens", "output_tokens", "completionTokens"]).unwrap_or_default();
    let cached = get(&["cachedReadTokens", "cachedInputTokens", "cached_read_tokens", "cached_input_tokens"]);
    let written =
        get(&["cachedWriteTokens", "cacheWriteInputTokens", "cached_write_tokens"]).unwrap_or_default();
    let reasoning = get(&["thoughtTokens", "reasoningOutputTokens", "thought_tokens"]).unwrap_or_default();
    let cached_input = cached.unwrap_or_default();
    let total = get(&["totalTokens", "total_tokens"]);
    let plain = input.saturating_add(output);
    let extra = total.unwrap_or(plain).saturating_sub(plain);
    // Agents differ in whether input holds the cached tokens and output the reasoning; their total tells.
    let caches = cached_input.saturating_add(written);
    let input = if caches > 0 && extra >= caches { input.saturating_add(caches) } else { input };
    let rest = total.unwrap_or_default().saturating_sub(input.saturating_add(output));
    let output = if reasoning > 0 && rest == reasoning { output.saturating_add(reasoning) } else { output };
    let total = total.unwrap_or_else(|| input.saturating_add(output));
    (total > 0).then_some(TokenUsage { input, output, cached_input, reasoning, total })
}

/// `usage_update`. A window of size zero says nothing.
pub(crate) fn context_window(update: &Object) -> Option<ContextWindow> {
    let size_tokens = count(update, "size").filter(|size| *size > 0)?;
    let cost = object(update, "cost").filter(|cost| {
        cost.get("currency")
            .and_then(Value::as_str)
            .is_none_or(|currency| currency.eq_ignore_ascii_case("usd"))
    });
    Some(ContextWindow {
        used_tokens: count(update, "used").unwrap_or_default(),
        size_tokens,
        cost_usd: cost.and_then(|cost| cost.get("amount")?.as_f64()),
    })
}

/// What an agent hangs on a `usage_update` about the limits of its account. `claude-agent-acp` tells one limit at a time,
/// or all its windows, with the used part as a fraction.
pub(crate) fn rate_limits(update: &Object) -> Vec<RateLimit> {
    let Some(info) = object(update, "_meta").and_then(|meta| object(meta, "_claude/rateLimit")) else {
        return Vec::new();
    };
    let name = info.get("rateLimitType").and_then(Value::as_str);
    let mut limits: Vec<RateLimit> = name.and_then(|name| rate_limit(name, info)).into_iter().collect();
    for (name, window) in object(info, "unifiedWindows").into_iter().flatten().take(MAX_LIMITS) {
        if let Some(limit) = window.as_object().and_then(|window| rate_limit(name, window))
            && limits.iter().all(|known| known.name != limit.name)
        {
            limits.push(limit);
        }
    }
    limits
}

fn rate_limit(name: &str, info: &Object) -> Option<RateLimit> {
    let used = match info.get("utilization").and_then(Value::as_f64) {
        Some(part) => part * 100.0,
        None if info.get("status").and_then(Value::as_str) == Some("rejected") => 100.0,
        // How much is used is all that there is to tell.
        None => return None,
    };
    Some(RateLimit {
        name: name.chars().take(MAX_NAME_CHARS).collect(),
        used_percent: used.clamp(0.0, 100.0),
        window_minutes: match name {
            "five_hour" => Some(5 * 60),
            _ if name.starts_with("seven_day") => Some(7 * 24 * 60),
            _ => None,
        },
        resets_at: info.get("resetsAt").and_then(Value::as_i64),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Option<TokenUsage> {
        let Value::Object(result) = value else { panic!() };
        prompt_usage(&result)
    }

    #[test]
    fn cached_and_reasoning_tokens_are_counted_once_whatever_the_agent_means() {
        let whole = TokenUsage { input: 1200, output: 34, cached_input: 200, reasoning: 5, total: 1234 };
        // Neither is part of input and output.
        assert_eq!(
            of(
                json!({"usage":{"inputTokens":1000,"outputTokens":29,"totalTokens":1234,"thoughtTokens":5,"cachedReadTokens":200}})
            ),
            Some(whole)
        );
        // Reasoning is part of the output.
        assert_eq!(
            of(
                json!({"usage":{"inputTokens":1000,"outputTokens":34,"totalTokens":1234,"thoughtTokens":5,"cachedReadTokens":200,"cachedWriteTokens":0}})
            ),
            Some(whole)
        );
        // Both are.
        assert_eq!(
            of(
                json!({"usage":{"inputTokens":1200,"outputTokens":34,"totalTokens":1234,"thoughtTokens":5,"cachedReadTokens":200}})
            ),
            Some(whole)
        );
    }

    #[test]
    fn limits_of_the_account_are_read_where_they_say_how_much_is_used() {
        let limits = |info: Value| {
            let update = json!({"used":1,"size":2,"_meta":{"_claude/rateLimit":info}});
            rate_limits(update.as_object().unwrap())
        };
        let five =
            json!({"status":"allowed_warning","rateLimitType":"five_hour","utilization":0.5,"resetsAt":1700});
        let five = limits(five);
        let expected = RateLimit {
            name: "five_hour".to_owned(),
            used_percent: 50.0,
            window_minutes: Some(300),
            resets_at: Some(1700),
        };
        assert_eq!(five, [expected]);
        let spent = limits(json!({"status":"rejected","rateLimitType":"seven_day_opus"}));
        assert_eq!((spent[0].used_percent, spent[0].window_minutes), (100.0, Some(10_080)));
        assert_eq!(limits(json!({"status":"allowed","rateLimitType":"five_hour"})), []);
        let all = limits(json!({
            "rateLimitType": "five_hour", "utilization": 0.1,
            "unifiedWindows": {"five_hour": {"utilization": 0.2}, "seven_day": {"utilization": 2.0}, "odd": 7},
        }));
        let all: Vec<_> = all.iter().map(|limit| (limit.name.as_str(), limit.used_percent)).collect();
        assert_eq!(all, [("five_hour", 10.0), ("seven_day", 100.0)]);
        assert_eq!(rate_limits(&Object::new()), []);
    }

    #[test]
    fn the_other_places_count_where_usage_is_missing_or_null() {
        let got =
            of(json!({"usage":null,"_meta":{"quota":{"token_count":{"input_tokens":7,"output_tokens":3}}}}));
        assert_eq!(got, Some(TokenUsage { input: 7, output: 3, total: 10, ..TokenUsage::default() }));
        assert_eq!(of(json!({"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}})), None);
        assert_eq!(of(json!({"stopReason":"end_turn"})), None);
    }

    #[test]
    fn a_context_window_survives_fractions() {
        let Value::Object(update) = json!({"used":12.7,"size":100,"cost":{"amount":0.5,"currency":"USD"}})
        else {
            panic!()
        };
        let window = context_window(&update).unwrap();
        assert_eq!((window.used_tokens, window.size_tokens, window.cost_usd), (12, 100, Some(0.5)));
    }
}
