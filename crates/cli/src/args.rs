//! The command line: what there is and what `--help` says about it.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use signalbox_home::Unattended;
use signalbox_protocol::app::ConnectionRole;
use signalbox_protocol::ops::PermissionMode;
use signalbox_server::Listen;

use crate::listeners::ListenerArgs;

#[derive(Debug, Parser)]
#[command(
    name = "signalbox",
    version,
    about = "A JSON-RPC 2.0 app-server for coding agents.",
    long_about = "signalbox runs coding agents that speak the Agent Client Protocol and gives every client the same \
                  view of them: turns streamed live, approvals that any client may answer, history that survives \
                  restarts.",
    after_help = "Examples:\n  \
        signalbox run \"Look around\"              one turn with the built-in agent, here and now\n  \
        signalbox run -p opencode \"Fix the test\" the same with an agent that is installed\n  \
        signalbox app-server --listen unix://    a server that clients connect to\n  \
        signalbox serve                          clients on WebSocket and HTTP\n  \
        signalbox login claude_code              logs in with an agent\n  \
        signalbox stop                           ends the server that the others start\n  \
        signalbox doctor                         what is there, what is missing, what would help",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const HEADING: &str = "Options of every command";

/// What every subcommand takes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Global {
    /// Set a key of config.toml for this command, e.g. -c limits.stall_seconds=30; unknown keys only warn
    #[arg(short = 'c', long = "config", value_name = "KEY=VALUE", global = true, help_heading = HEADING)]
    pub(crate) config: Vec<String>,

    /// Where sessions, configuration and lock lie [default: $SIGNALBOX_HOME or ~/.signalbox]
    #[arg(long, value_name = "DIR", global = true, help_heading = HEADING)]
    pub(crate) home: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // What they are for is said at their arguments: documentation here would take the place of the long form there.
    Run(RunArgs),
    Import(ImportArgs),
    AppServer(AppServerArgs),
    Serve(ServeArgs),
    Stop(StopArgs),
    Pair(PairArgs),
    Devices(DevicesArgs),
    Login(LoginArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Schema(SchemaArgs),
    /// The built-in agent, on stdin and stdout
    #[command(hide = true)]
    Rehearsal,
    /// What cleans up behind a server that was killed, as that server starts it
    #[command(hide = true)]
    Guard,
    /// The server of a home, as the other commands start it
    #[command(hide = true)]
    Server,
}

/// Run one prompt in a directory and watch it
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Runs one prompt in a directory and shows the turn as it happens: text, thoughts, plan, commands with \
                  their output, changes of files.\n\n\
                  What the agent asks for is put to you: y allows it once, a for the rest of this session, n declines \
                  it, c declines it and interrupts the turn. Ctrl-C interrupts the turn, a second one leaves. Without \
                  a terminal nobody can be asked: what would ask is declined, visibly, and the turn goes on.\n\n\
                  The turn runs in the home's server, which is started if it does not run and leaves when it has had \
                  nothing to do for a while (server.idle_exit_seconds, 10 minutes). Other clients see the thread there.",
    after_help = "Examples:\n  \
        signalbox run \"Look around\"\n  \
        signalbox run --provider claude_code --cwd ~/src/app \"Why does the build fail?\"\n  \
        signalbox run --last \"And now the tests\"           goes on where the last turn of this directory ended\n  \
        git diff | signalbox run --policy accept_edits -    the prompt is read from stdin\n  \
        signalbox run --json \"run make\" | jq -r .method     every notification as one line of JSON\n\n\
        Exit codes:\n  \
        0    the turn completed\n  \
        1    the turn failed\n  \
        2    wrong usage, or nothing could be started\n  \
        130  the turn was interrupted (Ctrl-C, c, a signal, or nobody reads the output any more)"
)]
pub(crate) struct RunArgs {
    /// What the agent is asked; - reads it from stdin (put -- before one that begins with a hyphen)
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,

    /// The agent, by its provider's name; `signalbox doctor` lists them [default: the configuration's, else rehearsal]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) provider: Option<String>,

    /// Go on with a thread instead of starting one; the policy is that of this command from here on
    #[arg(long, value_name = "ID", conflicts_with_all = ["provider", "cwd", "standalone"])]
    pub(crate) thread: Option<String>,

    /// Go on with the thread of this directory that was used last
    #[arg(long, conflicts_with_all = ["provider", "thread", "standalone"])]
    pub(crate) last: bool,

    /// The directory it works in [default: the current one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// What it may do without asking
    #[arg(long, value_enum, default_value_t = PolicyArg::Ask)]
    pub(crate) policy: PolicyArg,

    /// The agent's own name of a model [default: the agent's choice]
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Print every notification of the server as one line of JSON, and nothing else
    #[arg(long)]
    pub(crate) json: bool,

    /// Run everything in this process instead of asking the home's server
    #[arg(long)]
    pub(crate) standalone: bool,
}

/// List an agent's own sessions, or adopt one as a thread
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Agents keep sessions of their own, also those that they had with other programs. Without an id this lists \
                  those of the current directory; with one, or with --last, it adopts a session as a thread: what was said \
                  in it is shown like in any other thread, and the next prompt goes on with the agent's own conversation.\n\n\
                  The agent is started for this and stopped again. Nothing in its session changes.",
    after_help = "Examples:\n  \
        signalbox import --provider opencode                  the sessions of this directory\n  \
        signalbox import --provider opencode --all            those of every directory\n  \
        signalbox import --provider opencode --last           adopts the one that was used last\n  \
        signalbox import --provider gemini ID --cwd ~/src/app an agent that cannot list, by id and directory\n\n\
        Exit codes:\n  \
        0  listed or adopted\n  \
        1  the agent or the server has refused, for example because a login is needed\n  \
        2  wrong usage, or no server could be reached"
)]
pub(crate) struct ImportArgs {
    /// The agent's own id of the session to adopt, as the list shows it
    #[arg(value_name = "SESSION_ID")]
    pub(crate) session: Option<String>,

    /// The agent, by its provider's name; `signalbox doctor` lists them
    #[arg(short, long, value_name = "NAME")]
    pub(crate) provider: String,

    /// Adopt the session that was used last and is no thread yet
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,

    /// The directory of the sessions [default: the current one; for an id, the one that the agent names]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Sessions of every directory
    #[arg(long, conflicts_with_all = ["cwd", "session"])]
    pub(crate) all: bool,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// How permission requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum PolicyArg {
    /// Asks before each command and change
    Ask,
    /// Changes files in the directory, asks for the rest
    #[value(alias = "accept-edits")]
    AcceptEdits,
    /// Asks nothing; files outside the directory stay out of reach
    Yolo,
}

impl From<PolicyArg> for PermissionMode {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Ask => Self::Ask,
            PolicyArg::AcceptEdits => Self::AcceptEdits,
            PolicyArg::Yolo => Self::Yolo,
        }
    }
}

/// Serve the app-server API to clients
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Serves the app-server API (JSON-RPC 2.0) on stdin and stdout, or on a unix socket or an address of this \
                  machine to any number of clients.\n\n\
                  A client on stdio is carried to the home's server, which is started if it does not run, is shared by \
                  all programs of the home, and goes on when this one ends. If that server dies, another is started and \
                  the client is told what was interrupted. On a socket or an address that same server listens as long as \
                  this command runs. SIGTERM or Ctrl-C ends the command; the server and what runs in it go on \
                  (`signalbox stop` ends them).\n\n\
                  With --standalone this process is the server itself: it holds its home alone, and ends with its \
                  client (stdio) or with a signal. The first one ends it in order: running turns end as interrupted \
                  and every client is told; a second one ends it at once.",
    after_help = "Examples:\n  \
        signalbox app-server                                 one client on stdin and stdout\n  \
        signalbox app-server --listen unix://                the home's socket, signalbox.sock\n  \
        signalbox app-server --listen unix:///tmp/box.sock   a socket elsewhere\n  \
        signalbox app-server --listen ws://127.0.0.1:4500    WebSocket and HTTP, open to programs of this machine\n  \
        signalbox --home /tmp/box app-server -c default_provider=opencode\n\n\
        The first message of a client is `initialize`; `signalbox schema --print` has all the others."
)]
pub(crate) struct AppServerArgs {
    /// Where to listen: stdio://, unix:// (the home's socket), unix://PATH, ws://IP:PORT or wss://IP:PORT
    #[arg(long, value_name = "URL", default_value = "stdio://")]
    pub(crate) listen: Listen,

    #[command(flatten)]
    pub(crate) listener: ListenerArgs,

    /// The same as --listen stdio://
    #[arg(long, conflicts_with = "listen")]
    pub(crate) stdio: bool,

    /// What happens to approvals that nobody is there to answer: wait, reject or wait:SECONDS [default: the
    /// configuration's, else wait]. An approval that every client there has answered with an error or nonsense is rejected
    #[arg(long, value_name = "WHAT")]
    pub(crate) unattended: Option<Unattended>,

    /// Run everything in this process: no other may serve the home, and what runs ends with it
    #[arg(long)]
    pub(crate) standalone: bool,
}

/// Serve clients on other programs, pages and machines
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Has the home's server, which is started if it does not run, listen on TCP for WebSocket and HTTP, as long as \
                  this command runs. On TCP everybody needs a token: the home's own, which is written to the file `token` \
                  in it, that of a paired device, or one of --tokens or --ws-auth. --allow-local lets programs of this \
                  machine in without one.\n\n\
                  SIGTERM or Ctrl-C closes the addresses; the server and what runs in it go on. With --standalone \
                  everything runs in this process, and the first signal ends it in order (running turns end as \
                  interrupted and every client is told), a second one at once.",
    after_help = "Examples:\n  \
        signalbox serve                                    ws://127.0.0.1:4517 and the home's socket\n  \
        signalbox serve --listen 127.0.0.1:0 --allow-local a free port, open to this machine\n  \
        signalbox serve --listen 0.0.0.0:4517 --tls-cert c.pem --tls-key k.pem --allow-host box.example\n\n\
        On one address: JSON-RPC as WebSocket on / and as POST on /rpc, events of a thread on /threads/ID/events, \
        the Op/Event protocol on /ws?ticket=…, and /healthz, /readyz, /metrics.\n\n\
        Exit codes:\n  \
        0  ended by a signal\n  \
        1  the server was stopped, or died and no other could be started\n  \
        2  wrong usage, or an address cannot be opened"
)]
pub(crate) struct ServeArgs {
    /// Where to listen: IP:PORT, ws://IP:PORT, wss://IP:PORT, unix:// or unix://PATH. May be repeated
    #[arg(long, value_name = "ADDR", default_values = ["127.0.0.1:4517", "unix://"])]
    pub(crate) listen: Vec<Listen>,

    /// Let every program of this machine in without a token, as operator
    #[arg(long)]
    pub(crate) allow_local: bool,

    #[command(flatten)]
    pub(crate) listener: ListenerArgs,

    /// Run everything in this process; refused while another one serves the home
    #[arg(long)]
    pub(crate) standalone: bool,
}

/// End the home's server
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Ends the server of the home, however it was started: running turns end as interrupted, every client is told, \
                  and the command waits until the process has gone. Says what it ended; without a server it says so.",
    after_help = "Exit codes:\n  0  no server runs any more\n  1  it does not end; --force kills it"
)]
pub(crate) struct StopArgs {
    /// Kill it if it has not ended within five seconds
    #[arg(long)]
    pub(crate) force: bool,
}

/// Let a device in: prints a URL, a code and a QR code
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Makes a code with which one device can be paired, once, within 15 minutes, and prints it as a URL, as \
                  text and as a QR code.\n\n\
                  The device sends the code to POST /api/pair and gets a bearer token of its own, which is good for 90 \
                  days from its last use. The server keeps hashes only.",
    after_help = "Examples:\n  \
        signalbox pair                                    a device that may prompt and answer\n  \
        signalbox pair --role observer --name Wall        one that may look\n  \
        signalbox pair --url https://box.example          behind a tunnel or a proxy\n  \
        curl -d '{\"token\":\"CODE\",\"device_name\":\"curl\"}' http://127.0.0.1:4517/api/pair\n\n\
        Exit codes:\n  \
        0  the code was made\n  \
        1  the server has refused\n  \
        2  wrong usage, or no server could be reached"
)]
pub(crate) struct PairArgs {
    /// What the device may do [default: operator]
    #[arg(long, value_enum)]
    pub(crate) role: Option<RoleArg>,

    /// What it is called in lists, whatever it calls itself
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Where the device reaches the server [default: the listener that was opened last]
    #[arg(long, value_name = "BASE")]
    pub(crate) url: Option<String>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What somebody may do; each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Reads
    Observer,
    /// Also prompts and answers
    Operator,
    /// Also pairs, revokes and configures
    Owner,
}

impl From<RoleArg> for ConnectionRole {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Observer => Self::Observer,
            RoleArg::Operator => Self::Operator,
            RoleArg::Owner => Self::Owner,
        }
    }
}

/// List the paired devices, or take one back
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        signalbox devices\n  \
        signalbox devices revoke 0199f0c2-7c1e-7d3a-9b1e-2f6f0a4f7d11\n\n\
        Exit codes:\n  \
        0  done\n  \
        1  the server has refused, for example because there is no such device\n  \
        2  wrong usage, or no server could be reached")]
pub(crate) struct DevicesArgs {
    /// What to do with them [default: list]
    #[command(subcommand)]
    pub(crate) command: Option<DevicesCommand>,

    /// Print the result as one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What can be done with devices.
#[derive(Debug, Subcommand)]
pub(crate) enum DevicesCommand {
    /// List them
    List,
    /// Take back what a device was allowed; its connections end at once
    Revoke {
        /// Its id, as the list shows it
        id: String,
    },
}

/// Look at home, providers, git and terminal, and say what would help
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes:\n  0  all that is needed is there (a provider that is not installed is no fault)\n  1  something is broken"
)]
pub(crate) struct DoctorArgs {
    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Start no agent: only look whether their commands are there
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Log in with an agent
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Logs you in with an agent, by one of the ways that the agent offers: it runs the agent's own command in this \
                  terminal, or asks the agent to do it (which may open a browser) and waits. Afterwards the agent is \
                  started once more and opens a session. Many agents do that without a login too and refuse only at a prompt: \
                  the first turn shows whether the login holds.",
    after_help = "Examples:\n  \
        signalbox login claude_code\n  \
        signalbox login codex --method chat-gpt\n\n\
        Exit codes:\n  \
        0    the agent opens sessions\n  \
        1    the login has failed, or there is no way to log in from here\n  \
        2    wrong usage, no such provider, or the agent cannot be started\n  \
        130  ended with Ctrl-C"
)]
pub(crate) struct LoginArgs {
    /// The agent, by its provider's name; `signalbox doctor` lists them
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: String,

    /// The agent's own id of a way to log in [default: the only one, or a choice]
    #[arg(long, value_name = "ID")]
    pub(crate) method: Option<String>,
}

/// Look at the configuration
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        signalbox config check\n  \
        signalbox config show | less\n\n\
        Exit codes:\n  \
        0  nothing is wrong\n  \
        1  something is wrong with it")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What can be asked of the configuration.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say everything that is wrong with it, and what may be
    Check {
        /// Print the findings as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print what holds, as TOML, with secret values masked
    Show {
        /// Print it as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print where the file lies, or would lie
    Path,
}

/// Write the JSON Schema of all messages
#[derive(Debug, clap::Args)]
#[command(
    long_about = "Writes one JSON Schema document (2020-12) with every request, notification and server request of the \
                  app-server API, and the Op and Event of the Op/Event protocol. Each message says which method it is \
                  (x-method), who sends it (x-side), what answers it (x-result), and for requests of clients where it \
                  runs (x-lane), which role it needs (x-role) and how far one may rely on it (x-stability).",
    after_help = "Examples:\n  \
        signalbox schema --out schema/     writes signalbox.schema.json and openrpc.json there\n  \
        signalbox schema --print | less"
)]
pub(crate) struct SchemaArgs {
    /// The folder in which to write signalbox.schema.json and openrpc.json (or --print)
    #[arg(long, value_name = "DIR", required_unless_present = "print")]
    pub(crate) out: Option<PathBuf>,

    /// Print it to stdout
    #[arg(long)]
    pub(crate) print: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Args {
        Args::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn configuration_is_taken_before_and_after_the_subcommand() {
        // Existing clients put it before.
        let args = parse("signalbox --config features.x=true app-server --listen stdio://");
        assert_eq!(args.global.config, ["features.x=true"]);
        assert!(matches!(args.command, Command::AppServer(AppServerArgs { listen: Listen::Stdio, .. })));
        let args = parse("signalbox app-server -c a=1 --config b=2 --home /h");
        assert_eq!(args.global.config, ["a=1", "b=2"]);
        assert_eq!(args.global.home.as_deref(), Some(std::path::Path::new("/h")));
    }

    #[test]
    fn configuration_and_login_are_commands() {
        let args = parse("signalbox -c a=1 config check --json").command;
        assert!(matches!(args, Command::Config(ConfigArgs { command: ConfigCommand::Check { json: true } })));
        let Command::Login(args) = parse("signalbox login codex --method chat-gpt").command else {
            panic!("login")
        };
        assert_eq!((args.provider.as_str(), args.method.as_deref()), ("codex", Some("chat-gpt")));
    }

    #[test]
    fn a_prompt_may_begin_with_a_dash() {
        let Command::Run(args) = parse("signalbox run -").command else { panic!("run") };
        assert_eq!((args.prompt.as_str(), args.policy), ("-", PolicyArg::Ask));
        let Command::Run(args) = parse("signalbox run --policy yolo x").command else { panic!("run") };
        assert_eq!(args.policy, PolicyArg::Yolo);
        assert!(Args::try_parse_from(["signalbox", "app-server", "--listen", "carrier-pigeon://"]).is_err());
    }
}
