//! The configuration: defaults, what can be set, and what each mistake is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::{Expect, expect};
use signalbox_home::{Config, EXAMPLE, McpTransport, Unattended};

fn error(text: &str, expected: Expect) {
    expected.assert_eq(&Config::parse(text, "config.toml").unwrap_err().to_string());
}

#[test]
fn the_example_says_the_defaults() {
    assert_eq!(Config::parse(EXAMPLE, "example").unwrap(), Config::default());
    assert_eq!(Config::load(Path::new("/no/such/file")).unwrap(), Config::default());
}

#[test]
fn the_example_shows_a_provider_with_every_key() {
    let config = shown_at("# [providers");
    let provider = &config.providers["my_agent"];
    assert_eq!(provider.title.as_deref(), Some("My agent"));
    assert_eq!(
        (provider.enabled, provider.mediated, provider.download),
        (Some(true), Some(true), Some(false))
    );
    assert_eq!(provider.pass_env, ["MY_AGENT_KEY"]);
    assert_eq!(provider.login_hint.as_deref(), Some("run `my-agent login`"));
    assert_eq!(provider.command.as_deref(), Some("my-agent"));
    assert_eq!(provider.args.as_deref(), Some(&["acp".to_owned()][..]));
    assert_eq!(provider.env["MY_AGENT_LOG"], "warn");
    assert_eq!(provider.cwd, Some(PathBuf::from("/somewhere")));
    assert_eq!(provider.ask_mode.as_deref(), Some("default"));
    assert_eq!(provider.yolo_mode.as_deref(), Some("bypass"));
    assert_eq!(provider.protocol, Some(1));
    assert_eq!(provider.reads_rules, Some(false));
    assert!(!format!("{provider:?}").contains("warn"), "values of variables are not shown");
}

/// The commented part of the example that begins so, as configuration.
fn shown_at(beginning: &str) -> Config {
    let text: String = EXAMPLE
        .lines()
        .skip_while(|line| !line.starts_with(beginning))
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{}\n", line.trim_start_matches('#').trim_start()))
        .collect();
    Config::parse(&text, "example").unwrap()
}

#[test]
fn the_example_shows_mcp_servers_with_every_key() {
    let config = shown_at("# [mcp_servers");
    let files = &config.mcp_servers["files"];
    assert_eq!(files.command.as_deref(), Some("mcp-files"));
    assert_eq!((files.args.len(), files.env["LEVEL"].as_str()), (2, "warn"));
    assert_eq!(files.providers, ["opencode", "my_agent"]);
    assert!(files.enabled && files.variables().contains("FILES_TOKEN"));
    let tracker = &config.mcp_servers["tracker"];
    assert_eq!(tracker.url.as_deref(), Some("https://tracker.example/mcp"));
    assert_eq!(tracker.transport, McpTransport::Http);
    assert_eq!(tracker.variables().into_iter().collect::<Vec<_>>(), ["TRACKER_KEY", "TRACKER_TOKEN"]);
    let shown = format!("{config:?}");
    assert!(shown.contains("X-Team") && !shown.contains("red\""), "values of headers are not shown");
}

#[test]
fn an_mcp_server_is_a_command_or_a_url() {
    error(
        "[mcp_servers.a]\nenabled = true",
        expect![[r#"config.toml:1: `mcp_servers.a` needs a `command` or a `url`"#]],
    );
    error(
        "\n[mcp_servers.a]\ncommand = 'x'\nurl = 'http://h'",
        expect![[r#"config.toml:2: `mcp_servers.a` has both a `command` and a `url`; leave one out"#]],
    );
    error(
        "[mcp_servers.a]\nurl = 'http://h'\nargs = ['x']",
        expect![[
            r#"config.toml:1: `mcp_servers.a` has a `url`, so it takes no `args`, `env` or `env_vars`"#
        ]],
    );
    error(
        "[mcp_servers.a]\ncommand = 'x'\nhttp_headers = { A = 'b' }",
        expect![[
            r#"config.toml:1: `mcp_servers.a` has a `command`, so it takes no headers, token or `transport`"#
        ]],
    );
    error(
        "[mcp_servers.a]\nurl = 'h'",
        expect![[r#"config.toml:2: `mcp_servers.a.url`: must begin with http:// or https://"#]],
    );
    error(
        "[mcp_servers.a]\nurl = 'http://h'\nhttp_headers = { 'A b' = 'secret' }",
        expect![[r#"config.toml:3: `mcp_servers.a.http_headers`: "A b" cannot be a header's name"#]],
    );
    error(
        "[mcp_servers.a]\nurl = 'http://h'\ntransport = 'ws'",
        expect![[r#"config.toml:3: `mcp_servers.a.transport`: "ws" is neither "http" nor "sse""#]],
    );
}

#[test]
fn everything_that_is_wrong_is_found_at_once() {
    let text = "[agents]\ndownloads = 'no'\npass_env = ['A=B']\n[mcp_servers.a]\ncomand = 'x'\n[limits]\n\
                stall_seconds = 7\n[mcp_servers.b]\n";
    let (config, faults) = Config::examine(text, "config.toml").unwrap();
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    expect![[r#"
        config.toml:2: `agents.downloads` must be true or false, not a string
        config.toml:3: `agents.pass_env`: "A=B" cannot be an environment variable
        config.toml:5: unknown key `mcp_servers.a.comand`; did you mean `command`?
        config.toml:8: `mcp_servers.b` needs a `command` or a `url`"#]]
    .assert_eq(&faults.join("\n"));
    assert_eq!(config.limits.stall, Duration::from_secs(7), "the rest holds");
}

#[test]
fn values_are_set() {
    let text = "default_provider = 'codex'\nlimits.stall_seconds = 7\n[server]\nunattended = 'wait:30'";
    let config = Config::parse(text, "config.toml").unwrap();
    assert_eq!(config.default_provider, "codex");
    assert_eq!(config.limits.stall, Duration::from_secs(7));
    assert_eq!(config.limits.cancel, Duration::from_secs(10));
    assert_eq!(config.server.unattended, Unattended::WaitFor(Duration::from_secs(30)));
}

#[test]
fn skills_and_rules_are_absolute_paths() {
    let text = "skills.roots = ['/srv/skills']\n[rules]\nfiles = ['/srv/RULES.md', '/srv/more.md']";
    let config = Config::parse(text, "config.toml").unwrap();
    assert_eq!(config.skills.roots, [PathBuf::from("/srv/skills")]);
    assert_eq!(config.rules.files.len(), 2);
    error(
        "[skills]\nroots = ['skills']",
        expect![[r#"config.toml:2: `skills.roots`: skills is not an absolute path"#]],
    );
    error(
        "[rules]\nfiles = 'RULES.md'",
        expect![[r#"config.toml:2: `rules.files` must be an array of absolute paths, not a string"#]],
    );
    error(
        "[skills]\nroot = []",
        expect![[r#"config.toml:2: unknown key `skills.root`; did you mean `roots`?"#]],
    );
    error(
        "[providers.a]\nreads_rules = 'yes'",
        expect![[r#"config.toml:2: `providers.a.reads_rules` must be true or false, not a string"#]],
    );
}

#[test]
fn mistakes_name_key_line_and_expectation() {
    error(
        "\n[limits]\nframe_byte = 1",
        expect![[r#"config.toml:3: unknown key `limits.frame_byte`; did you mean `frame_bytes`?"#]],
    );
    error(
        "[limts]\nframe_bytes = 1",
        expect![[r#"config.toml:1: unknown key `limts`; did you mean `limits`?"#]],
    );
    error(
        "unattended = 'wait'",
        expect![[r#"config.toml:1: unknown key `unattended`; did you mean `server.unattended`?"#]],
    );
    error(
        "[limits]\ndefault_provider = \"a\"",
        expect![[
            r#"config.toml:2: unknown key `limits.default_provider`; `default_provider` belongs before the first [table]"#
        ]],
    );
    error("something_else = 1", expect![[r#"config.toml:1: unknown key `something_else`"#]]);
    error(
        "[providers.a]\ncomand = 'x'",
        expect![[r#"config.toml:2: unknown key `providers.a.comand`; did you mean `command`?"#]],
    );
    error(
        "[providers.a]\n\nargs = 'x'",
        expect![[r#"config.toml:3: `providers.a.args` must be an array of strings, not a string"#]],
    );
    error(
        "[providers.a]\nenv = { A = 1 }",
        expect![[
            r#"config.toml:2: `providers.a.env` must be a table of strings, such as { KEY = "value" }, not a table"#
        ]],
    );
    error(
        "[providers.'A B']\ncommand = 'x'",
        expect![[
            r#"config.toml:1: `providers.A B`: "A B" cannot be a provider's name: 1 to 64 of the letters a-z, digits, '_' and '-'"#
        ]],
    );
    error(
        "providers.a.command = ' '",
        expect![[r#"config.toml:1: `providers.a.command`: a program must be named"#]],
    );
    error(
        "providers.a.cwd = 'x'",
        expect![[r#"config.toml:1: `providers.a.cwd`: x is not an absolute path"#]],
    );
    error(
        "providers.a.protocol = 3",
        expect![[r#"config.toml:1: `providers.a.protocol`: 3 is not between 1 and 2"#]],
    );
    error("limits = 3", expect![[r#"config.toml:1: `limits` must be a table, not an integer"#]]);
    error(
        "[limits]\nstall_seconds = 1.5",
        expect![[
            r#"config.toml:2: `limits.stall_seconds` must be a whole number of seconds, not a number with a fraction"#
        ]],
    );
    error(
        "[limits]\nstall_seconds = -1",
        expect![[r#"config.toml:2: `limits.stall_seconds`: -1 is not between 1 and 31622400"#]],
    );
    error(
        "[limits]\nframe_bytes = 10",
        expect![[r#"config.toml:2: `limits.frame_bytes`: 10 is not between 1048576 and 1073741824"#]],
    );
    error(
        "[server]\nunattended = 'later'",
        expect![[
            r#"config.toml:2: `server.unattended`: "later" is neither "wait" nor "reject" nor "wait:SECONDS""#
        ]],
    );
    error("a = 1\nb = = 2", expect!["config.toml:2 is not TOML: extra `=`, expected nothing"]);
    error(
        "default_provider = ''",
        expect![[
            r#"config.toml:1: `default_provider`: "" cannot be a provider's name: 1 to 64 of the letters a-z, digits, '_' and '-'"#
        ]],
    );
}

fn overridden(arguments: &[&str]) -> (Config, Vec<String>) {
    let mut config = Config::default();
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let warnings = config.apply_overrides(&arguments).unwrap().warnings;
    (config, warnings)
}

#[test]
fn arguments_take_toml_values_and_bare_words() {
    let (config, warnings) = overridden(&[
        "default_provider=codex",
        "limits.stall_seconds = 5",
        "limits.stall_seconds=6",
        "providers.a.command=opencode",
        "providers.a.args=[\"acp\"]",
        "providers.a.env={ A = \"b\" }",
        "providers.a.ask_mode=1",
        "server.unattended=\"reject\"",
    ]);
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.default_provider, "codex");
    assert_eq!(config.limits.stall, Duration::from_secs(6));
    assert_eq!(config.server.unattended, Unattended::Reject);
    let provider = &config.providers["a"];
    assert_eq!(provider.command.as_deref(), Some("opencode"));
    assert_eq!(provider.args.as_deref(), Some(&["acp".to_owned()][..]));
    assert_eq!(provider.env["A"], "b");
    assert_eq!(provider.ask_mode.as_deref(), Some("1"), "text that looks like a number stays text");
}

#[test]
fn unknown_keys_of_arguments_only_warn() {
    let (config, warnings) = overridden(&[
        "model=\"gpt-5\"",
        "features.web_search=true",
        "limits.stall_second=5",
        "limits.cancel_seconds=3",
    ]);
    let shown = warnings.join("\n");
    expect![[r#"
        -c model: unknown key, ignored
        -c features.web_search: unknown key, ignored
        -c limits.stall_second: unknown key, ignored; did you mean `stall_seconds`?"#]]
    .assert_eq(&shown);
    assert_eq!(config.limits.cancel, Duration::from_secs(3), "the others still count");
}

#[test]
fn arguments_that_cannot_be_are_errors() {
    let error =
        |argument: &str| Config::default().apply_overrides(&[argument.to_owned()]).unwrap_err().to_string();
    expect!["-c limits: must be KEY=VALUE"].assert_eq(&error("limits"));
    expect!["-c =1: must be KEY=VALUE"].assert_eq(&error("=1"));
    expect!["-c a..b=1: must be KEY=VALUE"].assert_eq(&error("a..b=1"));
    expect![
        "-c limits.stall_seconds: `limits.stall_seconds` must be a whole number of seconds, not a string"
    ]
    .assert_eq(&error("limits.stall_seconds=soon"));
}

#[test]
fn unattended_is_said_as_it_is_read() {
    for text in ["wait", "reject", "wait:90"] {
        assert_eq!(text.parse::<Unattended>().unwrap().to_string(), text);
    }
    for text in ["wait:", "wait:x", "wait:-1", "no", ""] {
        assert!(text.parse::<Unattended>().is_err(), "{text}");
    }
}
