//! Starts the agents that are installed, side by side, only to hear what they are.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use signalbox_agents::{AgentInfo, Limits, Supervisor, probe};
use signalbox_home::Config;
use signalbox_server::{Catalog, ProviderStatus};
use tokio::task::JoinSet;

use crate::details::last_lines;
use crate::setup::{self, complain};

/// How long all of them may take together.
const LONGEST: Duration = Duration::from_secs(20);

/// What each provider's agent said of itself, or how it failed.
pub(crate) type Probes = BTreeMap<String, Result<AgentInfo, String>>;

/// Starts every agent that is there without a download and stops it when it has introduced itself.
pub(crate) fn all(
    catalog: &Catalog,
    statuses: &[ProviderStatus],
    offered: &BTreeMap<String, String>,
    config: &Config,
) -> Probes {
    let cwd = std::env::temp_dir();
    let specs: Vec<_> = statuses
        .iter()
        .filter(|status| status.available && !status.downloads)
        .filter_map(|status| {
            Some((status.provider.to_string(), catalog.launch(&status.provider, &cwd, offered).ok()?))
        })
        .collect();
    if std::io::stderr().is_terminal() {
        let seconds = LONGEST.as_secs();
        complain(&format!("starting {} agents to see what they say, for at most {seconds} s …", specs.len()));
    }
    let runtime = match setup::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&setup::told(&error));
            return Probes::new();
        }
    };
    let limits = Limits {
        stop_grace: config.limits.stop,
        line_bytes: config.limits.agent_line_bytes,
        ..Limits::default()
    };
    let supervisor = Supervisor::default();
    let probes = runtime.block_on(async {
        let mut all = JoinSet::new();
        for (name, spec) in specs {
            let (limits, supervisor) = (limits.clone(), supervisor.clone());
            all.spawn(async move { (name, probe(spec, None, limits, LONGEST, &supervisor, None).await) });
        }
        let mut probes = Probes::new();
        while let Some(done) = all.join_next().await {
            let Ok((name, probed)) = done else { continue };
            let result = match (probed.info, probed.failure) {
                (Some(info), _) => Ok(info),
                (None, Some(failure)) => {
                    let wrote = [&failure.stderr_tail, &failure.stdout_tail];
                    let line = wrote.into_iter().find_map(|text| last_lines(text).pop());
                    let line = line.map(|line| format!(" ({})", line.trim())).unwrap_or_default();
                    Err(format!("{}{line}", failure.message))
                }
                (None, None) => Err("it said nothing".to_owned()),
            };
            probes.insert(name, result);
        }
        probes
    });
    runtime.shutdown_background();
    probes
}
