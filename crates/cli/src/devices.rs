//! `signalbox pair` and `signalbox devices`: who may come in from elsewhere. The home's server does it; this asks and prints.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use signalbox_client::{CallError, Client};
use signalbox_home::{Home, HomeError};
use signalbox_protocol::app::{
    ConnectionRole, Device, DeviceListParams, DeviceListResult, DeviceRevokeParams, DeviceRevokeResult,
    PairingCreateParams, PairingCreateResult, method,
};
use signalbox_protocol::greeting::{GREETING_PROTOCOL, Greeting};
use signalbox_server::life::{ANSWER, ConnectError, Connected, Launch, connect_home, for_server};

use crate::args::{DevicesArgs, DevicesCommand, Global, PairArgs};
use crate::setup::{self, SetupError, complain, told};
use crate::{EXIT_USAGE, logs, qr};

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("this program cannot find itself")]
    Launch(#[source] io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
    #[error("the output cannot be written")]
    Json(#[from] serde_json::Error),
}

/// Runs `signalbox pair`.
pub(crate) fn pair(global: &Global, args: PairArgs) -> ExitCode {
    let PairArgs { role, name, url, json } = args;
    let params = PairingCreateParams { role: role.map(Into::into), device_name: name, base_url: url };
    run(async || {
        // A code that nobody has seen lets nobody in: another one may be asked for.
        let made: PairingCreateResult = ask(global, method::PAIRING_CREATE, &params, true).await?;
        if json { print_json(&made) } else { show_pairing(&made) }
    })
}

/// Runs `signalbox devices`.
pub(crate) fn devices(global: &Global, args: DevicesArgs) -> ExitCode {
    let DevicesArgs { command, json } = args;
    run(async || match command.unwrap_or(DevicesCommand::List) {
        DevicesCommand::List => {
            let found: DeviceListResult =
                ask(global, method::DEVICE_LIST, &DeviceListParams {}, true).await?;
            if json { print_json(&found) } else { show_devices(&found.data, now()) }
        }
        DevicesCommand::Revoke { id } => {
            let params = DeviceRevokeParams { device_id: id };
            let done: DeviceRevokeResult = ask(global, method::DEVICE_REVOKE, &params, false).await?;
            if json { print_json(&done) } else { show_revoked(&done) }
        }
    })
}

fn run(work: impl AsyncFnOnce() -> Result<(), Trouble>) -> ExitCode {
    logs::init("off");
    let done = setup::runtime().map_err(Trouble::from).and_then(|runtime| {
        let done = runtime.block_on(work());
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&told(&error));
            match error {
                Trouble::Call(_) | Trouble::Output(_) | Trouble::Json(_) => ExitCode::FAILURE,
                _ => ExitCode::from(EXIT_USAGE),
            }
        }
    }
}

/// Asks the home's server, which is started if none runs. One that has ended before it answered is followed by another one:
/// if the call is one that may be made twice it is made once more.
async fn ask<P: Serialize + Sync, R: DeserializeOwned>(
    global: &Global,
    method: &str,
    params: &P,
    may_repeat: bool,
) -> Result<R, Trouble> {
    match ask_once(global, method, params).await {
        Err((Trouble::Call(CallError::Closed), made)) if may_repeat || !made => {}
        asked => return asked.map_err(|(trouble, _)| trouble),
    }
    ask_once(global, method, params).await.map_err(|(trouble, _)| trouble)
}

/// With an error: whether the call may have been made.
async fn ask_once<P: Serialize + Sync, R: DeserializeOwned>(
    global: &Global,
    method: &str,
    params: &P,
) -> Result<R, (Trouble, bool)> {
    let connected = connected(global).await.map_err(|trouble| (trouble, false))?;
    let pid = connected.welcome.pid;
    let (reader, writer) = connected.stream.into_split();
    let (client, events) = Client::over_lines(reader, writer);
    // Nothing that is told matters here.
    drop(events);
    let hello = client.initialize("signalbox", env!("CARGO_PKG_VERSION"));
    answered(pid, hello).await.map_err(|trouble| (trouble, false))?;
    answered(pid, client.call(method, params)).await.map_err(|trouble| (trouble, true))
}

/// What the server answers, in a time that it may take.
async fn answered<R>(pid: u32, call: impl Future<Output = Result<R, CallError>>) -> Result<R, Trouble> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(ConnectError::Silent { pid: Some(pid) }.into()),
    }
}

/// A connection to the home's server, which is started if none runs.
async fn connected(global: &Global) -> Result<Connected, Trouble> {
    let home = Home::locate(global.home.clone(), &|name| std::env::var_os(name))?;
    let greeting = Greeting {
        protocol: GREETING_PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        client: "signalbox".to_owned(),
        base_dir: None,
        env: None,
        config: Vec::new(),
        upgrade: false,
    };
    let launch = Launch::this_program(for_server(&global.config)).map_err(Trouble::Launch)?;
    Ok(connect_home(&home, greeting, &launch).await?)
}

fn print_json(value: &impl Serialize) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    Ok(out.flush()?)
}

fn show_pairing(made: &PairingCreateResult) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    let minutes = made.expires_in / 60;
    let role = word(made.role);
    match &made.url {
        Some(url) => {
            writeln!(out, "Open this on the device, once, within {minutes} minutes:\n\n  {url}\n")?;
            // Into a pipe or a file it would be noise.
            if io::stdout().is_terminal()
                && let Some(lines) = qr::lines(url)
            {
                for line in lines {
                    writeln!(out, "  {line}")?;
                }
                writeln!(out)?;
            }
            if is_of_this_machine(url) {
                writeln!(
                    out,
                    "No other machine reaches that address. For one that does, open a listener there\n\
                     (signalbox serve --listen IP:PORT --allow-host NAME --tls-cert … --tls-key …), or\n\
                     say with --url where a tunnel or proxy ends.\n"
                )?;
            }
        }
        None => writeln!(
            out,
            "No listener is open, so there is no address to show. `signalbox serve` opens one, or give\n\
             the address with --url. Until then the code alone, good once, for {minutes} minutes:\n"
        )?,
    }
    writeln!(out, "  code  {}\n  role  {role}\n", made.code)?;
    writeln!(out, "Whoever has the code first becomes the device: show it to nobody else.")?;
    writeln!(out, "`signalbox devices` lists devices, `signalbox devices revoke ID` takes one back.")?;
    Ok(out.flush()?)
}

fn show_devices(devices: &[Device], now: i64) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    if devices.is_empty() {
        writeln!(out, "No devices are paired. `signalbox pair` makes a code for one.")?;
        return Ok(out.flush()?);
    }
    let rows: Vec<[String; 5]> = devices.iter().map(|device| row(device, now)).collect();
    let head = ["NAME", "ROLE", "LAST USED", "EXPIRES", "ID"].map(str::to_owned);
    let widths: Vec<usize> = (0..5)
        .map(|column| {
            std::iter::once(&head).chain(&rows).map(|row| row[column].chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in std::iter::once(&head).chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(out.flush()?)
}

fn row(device: &Device, now: i64) -> [String; 5] {
    let used = match (device.connections, device.last_seen_at) {
        (1.., _) => "connected".to_owned(),
        (0, Some(at)) => format!("{} ago", span(now - at)),
        (0, None) => "never".to_owned(),
    };
    let expires =
        if device.expired { "expired".to_owned() } else { format!("in {}", span(device.expires_at - now)) };
    [device.name.clone(), word(device.role).to_owned(), used, expires, device.id.clone()]
}

fn show_revoked(done: &DeviceRevokeResult) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    match done.closed_connections {
        0 => writeln!(out, "The device is revoked.")?,
        1 => writeln!(out, "The device is revoked; its open connection ends.")?,
        many => writeln!(out, "The device is revoked; its {many} open connections end.")?,
    }
    Ok(out.flush()?)
}

fn word(role: ConnectionRole) -> &'static str {
    match role {
        ConnectionRole::Observer => "observer",
        ConnectionRole::Operator => "operator",
        ConnectionRole::Owner => "owner",
    }
}

fn is_of_this_machine(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    ["127.", "localhost", "[::1]", "0.0.0.0", "[::]"].iter().any(|start| rest.starts_with(start))
}

/// A length of time, in the largest unit of which there is one.
pub(crate) fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => "less than a minute".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        86_400..172_800 => "1 day".to_owned(),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_would() {
        let told = [
            (-5, "less than a minute"),
            (59, "less than a minute"),
            (60, "1 min"),
            (7199, "1 h"),
            (86_400, "1 day"),
            (90 * 86_400, "90 days"),
        ];
        for (seconds, words) in told {
            assert_eq!(span(seconds), words);
        }
    }

    #[test]
    fn a_device_is_a_row() {
        let device = Device {
            id: "0".into(),
            name: "Phone".into(),
            role: ConnectionRole::Operator,
            created_at: 0,
            expires_at: 90 * 86_400,
            expired: false,
            last_seen_at: None,
            connections: 0,
        };
        assert_eq!(row(&device, 0), ["Phone", "operator", "never", "in 90 days", "0"]);
        let here = Device { connections: 2, last_seen_at: Some(5), ..device.clone() };
        assert_eq!(row(&here, 0)[2], "connected");
        let old = Device { expired: true, last_seen_at: Some(0), ..device };
        assert_eq!(row(&old, 7200), ["Phone", "operator", "2 h ago", "expired", "0"]);
    }

    #[test]
    fn an_address_that_no_other_machine_reaches_is_known() {
        for (url, local) in [
            ("http://127.0.0.1:4517/pair#x", true),
            ("http://[::1]:1/", true),
            ("http://0.0.0.0:1/", true),
            ("https://box.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_of_this_machine(url), local, "{url}");
        }
    }
}
