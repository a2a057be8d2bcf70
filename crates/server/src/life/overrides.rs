//! What `-c KEY=VALUE` of a command means for a server that outlives it: some is the connection's, the rest the server's.

use signalbox_home::Config;

/// The key that each connection may have its own value of.
const OF_CONNECTION: &str = "default_provider";

/// What the `KEY=VALUE` of one connection come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    pub(super) default_provider: Option<String>,
    /// Those that are the server's, which runs with another value.
    pub(super) ignored: Vec<String>,
}

/// What a server with this configuration makes of a connection's `KEY=VALUE`.
pub(super) fn of_connection(config: &Config, sets: &[String]) -> Overrides {
    let mut overrides = Overrides::default();
    for set in sets {
        let mut wanted = config.clone();
        // Keys that are not known are for others; whoever sent them has been warned.
        if wanted.apply_overrides(std::slice::from_ref(set)).is_err() {
            overrides.ignored.push(set.clone());
            continue;
        }
        if wanted.default_provider != config.default_provider {
            overrides.default_provider =
                Some(std::mem::replace(&mut wanted.default_provider, config.default_provider.clone()));
        }
        if wanted != *config {
            overrides.ignored.push(set.clone());
        }
    }
    overrides
}

/// Those of a command's `KEY=VALUE` with which it starts a server, if it starts one: all that are not its connection's.
#[must_use]
pub fn for_server(sets: &[String]) -> Vec<String> {
    let is_of_connection =
        |set: &&String| set.split('=').next().is_some_and(|key| key.trim() == OF_CONNECTION);
    sets.iter().filter(|set| !is_of_connection(set)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(sets: &[&str]) -> Vec<String> {
        sets.iter().map(|set| (*set).to_owned()).collect()
    }

    #[test]
    fn the_provider_is_the_connections_and_limits_are_the_servers() {
        let config = Config::default();
        let said = sets(&["default_provider=codex", "limits.stall_seconds=7", "features.x=true"]);
        let overrides = of_connection(&config, &said);
        assert_eq!(overrides.default_provider.as_deref(), Some("codex"));
        assert_eq!(overrides.ignored, ["limits.stall_seconds=7"]);
        assert_eq!(for_server(&said), ["limits.stall_seconds=7", "features.x=true"]);
    }

    #[test]
    fn what_the_server_does_anyway_is_not_ignored() {
        let mut config = Config::default();
        let said = sets(&["limits.stall_seconds=7"]);
        config.apply_overrides(&said).unwrap();
        assert_eq!(of_connection(&config, &said), Overrides::default());
    }
}
