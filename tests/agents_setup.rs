//! `signalbox config`, `login` and `doctor` as a user runs them who sets an agent up.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "runs the program under test"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A home with this configuration, in which an agent `gate` wants a login.
struct Setup {
    root: TempDir,
}

impl Setup {
    fn new(config: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let this = Self { root };
        std::fs::create_dir(this.home()).unwrap();
        std::fs::write(this.file(), config).unwrap();
        this
    }

    fn with_gate() -> Self {
        let this = Self::new("");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../app-server/tests/login-agent.sh");
        let logged_in = this.root.path().join("logged-in");
        let config = format!(
            "[providers.gate]\ncommand = {script:?}\nlogin_hint = \"ask Jo\"\nenv = {{ LOGIN_FILE = {:?}, SECRET = \
             \"s3cret\" }}\n",
            logged_in.display().to_string()
        );
        std::fs::write(this.file(), config).unwrap();
        this
    }

    fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    fn file(&self) -> PathBuf {
        self.home().join("config.toml")
    }

    fn runs(&self, args: &[&str]) -> (Option<i32>, String, String) {
        self.runs_with(args, "")
    }

    fn runs_with(&self, args: &[&str], input: &str) -> (Option<i32>, String, String) {
        let file = self.root.path().join("input");
        std::fs::write(&file, input).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        command.args(args).stdin(std::fs::File::open(file).unwrap());
        command.env("SIGNALBOX_HOME", self.home()).env_remove("RUST_LOG");
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.runs(&["stop", "--force"]);
    }
}

#[test]
fn everything_that_is_wrong_with_a_configuration_is_said_at_once() {
    let home = Setup::new(
        "default_provider = \"nobody\"\n[agents]\ndownload = true\n[providers.mine]\nargs = []\n[mcp_servers.m]\n\
         command = \"no-such-server\"\n",
    );
    let (code, said, _) = home.runs(&["config", "check", "--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &report["ok"]), (Some(1), &Value::Bool(false)));
    let errors: Vec<_> =
        report["errors"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(
        errors[0].ends_with("config.toml:3: unknown key `agents.download`; did you mean `downloads`?"),
        "{errors:?}"
    );
    assert_eq!(
        errors[1..],
        [
            "[providers.mine] in config.toml needs a `command`: signalbox knows no agent of this name",
            "`default_provider`: there is no provider nobody",
        ]
    );
    let (code, said, _) = home.runs(&["config", "path"]);
    assert_eq!((code, said.trim()), (Some(0), home.file().to_str().unwrap()));
}

#[test]
fn what_may_be_wrong_is_a_warning_and_what_holds_is_shown_without_secrets() {
    let home = Setup::new(
        "[providers.mine]\ncommand = \"no-such-agent\"\nenv = { KEY = \"s3cret\" }\n[mcp_servers.m]\n\
         command = \"no-such-server\"\n[mcp_servers.w]\nurl = \"https://u:s3cret@h/mcp?k=s3cret\"\n\
         http_headers = { K = \"s3cret\" }\n",
    );
    let (code, said, _) = home.runs(&["config", "check"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("warning: provider mine: the command \"no-such-agent\" was not found"), "{said}");
    assert!(said.contains("warning: mcp_servers.m: its command \"no-such-server\" was not found"), "{said}");
    let (code, said, _) = home.runs(&["config", "show"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("[providers.mine.env]\nKEY = \"***\"") && !said.contains("s3cret"), "{said}");
    assert!(
        said.contains("url = \"https://***@h/mcp?***\"") && said.contains("stall_seconds = 60"),
        "{said}"
    );
}

#[test]
fn what_is_shown_is_a_configuration_with_every_key() {
    let home = Setup::new("[mcp_servers.m]\ncommand = \"sh\"\n[mcp_servers.w]\nurl = \"https://h\"\n");
    let (_, shown, _) = home.runs(&["config", "show"]);
    std::fs::write(home.file(), &shown).unwrap();
    let (code, said, _) = home.runs(&["config", "check"]);
    assert_eq!(code, Some(0), "{said}\n{shown}");
    let example = include_str!("../crates/home/config.example.toml");
    // Those without a default are in the example as comments.
    for line in example.lines().filter(|line| !line.starts_with('#')) {
        let Some((key, _)) = line.split_once(" = ") else { continue };
        assert!(shown.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key} is not shown");
    }
}

#[test]
fn a_login_in_the_terminal_is_run_and_seen_to_work() {
    let home = Setup::with_gate();
    let (code, _, said) = home.runs(&["login", "gate"]);
    assert_eq!(code, Some(2), "without a terminal nobody can choose: {said}");
    assert!(said.contains("--method: tty, web"), "{said}");
    let (_, report, _) = home.runs(&["doctor", "--json", "--quick"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let gate = report["findings"].as_array().unwrap().iter().find(|one| one["name"] == "gate").unwrap();
    assert_eq!(
        (&gate["agent"]["version"], &gate["agent"]["login"]),
        (&"1.2.3".into(), &"required".into()),
        "{gate}"
    );
    assert_eq!(gate["hint"], "signalbox login gate");

    let (code, _, said) = home.runs(&["login", "gate", "--method", "tty"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("--login") && said.contains("Gate opens sessions."), "{said}");
    let (code, _, said) = home.runs(&["login", "gate"]);
    assert_eq!((code, said.contains("nothing is missing")), (Some(0), true), "{said}");
}

#[test]
fn an_agent_that_logs_in_by_itself_is_waited_for() {
    let home = Setup::with_gate();
    let (code, _, said) = home.runs(&["login", "gate", "--method", "web"]);
    assert_eq!(code, Some(0), "{said}");
    let log = std::fs::read_to_string(home.home().join("logs/server.log")).unwrap_or_default();
    let kept = std::fs::read_to_string(home.home().join("agents.json")).unwrap();
    assert!(!log.contains("s3cret") && !kept.contains("s3cret"), "secrets are nowhere");
}

#[test]
fn what_an_agent_says_while_it_logs_in_is_shown_and_its_address_is_the_users_to_open() {
    let home = Setup::with_gate();
    let (code, _, said) = home.runs_with(&["login", "gate", "--method", "code"], "n\n");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("gate | Your code: AB-12\ngate | Waiting"), "{said}");
    assert!(said.contains("Open this and type the code\n\n  https://login.example/device\n"), "{said}");
    assert!(said.contains("in vain"), "{said}");
    let (code, _, said) = home.runs_with(&["login", "gate", "--method", "code"], "\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Gate opens sessions."), "{said}");
}

#[test]
fn what_cannot_be_logged_in_with_says_why() {
    let home = Setup::new("");
    let (code, _, said) = home.runs(&["login", "nobody"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("there is no provider \"nobody\""), "{said}");
    let (code, _, said) = home.runs(&["login", "rehearsal"]);
    assert_eq!((code, said.contains("nothing is missing")), (Some(0), true), "{said}");
}

#[test]
fn doctor_asks_the_agents_that_are_there() {
    let home = Setup::with_gate();
    let (_, report, _) = home.runs(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let find =
        |name: &str| report["findings"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(find("gate")["agent"]["version"], "1.2.3");
    assert_eq!(find("gate")["agent"]["loginMethods"], serde_json::json!(["tty", "web", "code"]));
    assert_eq!(find("rehearsal")["agent"]["answered"], true);
}
