//! Settings: policy, model, effort, options, directory, title, archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use signalbox_agents::RefusedSetting;
use signalbox_facts::{
    ConfigOption, ConfigValue, FactBody, Policy, PolicyChanged, SettingsChanged, SignalBody, TitleChanged,
    TitleOrigin,
};
use signalbox_protocol::ops::{self, SettingsPatch};

use super::actor::{Actor, Settling};
use super::turns::not_stored;
use crate::batch::Item;
use crate::convert;
use crate::submission::{Accepted, OpError, Reply};

/// The longest title that is kept.
const MAX_TITLE_SCALARS: usize = 200;

/// Settings that the batch in the making changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Coming {
    pub(super) policy: Option<Policy>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) roots: Option<Vec<PathBuf>>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
}

impl Actor {
    /// Puts a change of settings into the batch and tells the running agent; a refusal comes back as a warning. A policy is in
    /// force after [`Actor::policy_in_force`], a directory from the next turn on.
    pub(super) fn apply_settings(
        &mut self,
        patch: SettingsPatch,
        request_id: Option<String>,
    ) -> Result<(), OpError> {
        // Whoever waits for a word of his own gets one, even if nothing changes.
        let answered = request_id.is_some();
        let policy = patch.policy.map(|patch| convert::policy_patch_in(patch, self.row.policy));
        policy.map_or(Ok(()), |policy| self.core.catalog.suits(&self.row.provider, policy))?;
        if let Some(policy) = policy.filter(|policy| answered || *policy != self.row.policy) {
            let changed = PolicyChanged { policy, request_id: request_id.clone() };
            self.batch().push(None, Item::None, FactBody::PolicyChanged(changed));
        }
        let cwd = patch.cwd.map(|cwd| existing_directory(&self.row.cwd, &cwd, "cwd")).transpose()?;
        cwd.as_deref().map_or(Ok(()), |cwd| self.inside_checkout(cwd))?;
        let roots =
            patch.roots.map(|roots| existing_directories(&self.row.cwd, &roots, "roots")).transpose()?;
        let options: BTreeMap<_, _> = patch
            .config_options
            .into_iter()
            .map(|(id, value)| (id, serde_json::Value::from(value)))
            .collect();
        let changed = SettingsChanged {
            model: patch.model.filter(|model| is_choice(model) && self.row.model.as_ref() != Some(model)),
            effort: patch.effort.filter(|effort| self.row.effort.as_ref() != Some(effort)),
            cwd: cwd.filter(|cwd| *cwd != self.row.cwd),
            roots: roots.filter(|roots: &Vec<PathBuf>| *roots != self.row.roots),
            options,
            request_id,
        };
        if answered || changed != SettingsChanged::default() {
            self.tell_agent(&changed);
            self.batch().push(None, Item::None, FactBody::SettingsChanged(Box::new(changed)));
        }
        Ok(())
    }

    /// Settings that hold from the next prompt on; refusals come back as warnings.
    fn tell_agent(&mut self, changed: &SettingsChanged) {
        let tokens = (self.token(), self.token());
        let Some(live) = self.agent.as_ref().filter(|live| live.ready) else { return };
        let mut told = Ok(());
        if let Some(model) = &changed.model {
            told = told.and(live.agent.set_model(tokens.0, model.clone()));
        }
        if let Some(effort) = &changed.effort {
            told = told.and(live.agent.set_effort(tokens.1, effort.clone()));
        }
        for (id, value) in &changed.options {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            told = told.and(live.agent.set_option(tokens.1, id.clone(), config_value(&value)));
        }
        if let Err(error) = told {
            tracing::debug!(session = %self.row.id, %error, "settings for an ending agent");
        }
    }

    /// What the batch will have changed.
    pub(super) fn coming_settings(&self) -> Option<Coming> {
        let batch = self.batch.as_ref()?;
        let mut coming = Coming::default();
        for body in batch.bodies() {
            match body {
                FactBody::PolicyChanged(changed) => coming.policy = Some(changed.policy),
                FactBody::SettingsChanged(changed) => {
                    coming.cwd.clone_from(&changed.cwd);
                    coming.roots.clone_from(&changed.roots);
                    coming.model.clone_from(&changed.model);
                    coming.effort.clone_from(&changed.effort);
                }
                _ => {}
            }
        }
        Some(coming)
    }

    pub(super) async fn thread_settings(
        &mut self,
        patch: SettingsPatch,
        request_id: Option<String>,
    ) -> Result<Accepted, OpError> {
        let before = self.row.policy;
        let applied = self.apply_settings(patch, request_id);
        if applied.is_err() {
            self.batch = None;
        }
        applied?;
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        if self.row.policy != before {
            self.policy_in_force().await;
        }
        Ok(Accepted::Applied)
    }

    /// Sets the model: in the running agent first, if there is one, then in the row.
    pub(super) async fn set_model(&mut self, model: String, sender: Reply) {
        let then = FactBody::SettingsChanged(Box::new(SettingsChanged {
            model: Some(model.clone()),
            ..Default::default()
        }));
        self.settle(then, sender, |live, token| live.set_model(token, model)).await;
    }

    /// Sets an agent option: in the running agent first, if there is one, then in the row.
    pub(super) async fn set_option(&mut self, id: String, value: String, sender: Reply) {
        let options = BTreeMap::from([(id.clone(), serde_json::Value::from(value.clone()))]);
        let then = FactBody::SettingsChanged(Box::new(SettingsChanged { options, ..Default::default() }));
        self.settle(then, sender, |live, token| live.set_option(token, id, config_value(&value))).await;
    }

    async fn settle(
        &mut self,
        then: FactBody,
        sender: Reply,
        ask: impl FnOnce(
            &signalbox_agents::Agent,
            signalbox_agents::Token,
        ) -> Result<(), signalbox_agents::SendError>,
    ) {
        let token = self.token();
        if let Some(live) = self.agent.as_ref().filter(|live| live.ready) {
            match ask(&live.agent, token) {
                Ok(()) => {
                    let since_ms = (self.core.now_ms)();
                    self.settling =
                        Some(Settling { token, then, reply: sender, since_ms, models_told: false });
                }
                Err(error) => {
                    sender.send(Err(OpError::Agent { reason: "agent_failed", message: error.to_string() }));
                }
            }
            return;
        }
        let decision = self.store_choice(then, false).await;
        self.decided(sender, decision);
    }

    async fn store_setting(&mut self, then: FactBody) -> Result<Accepted, OpError> {
        self.batch().push(None, Item::None, then);
        self.try_commit().await.map_err(|error| not_stored(&error))?;
        Ok(Accepted::Applied)
    }

    /// Stores a model or an option, and tells what now holds as the agent would, unless the agent has just told it: whoever
    /// set it waits for that.
    async fn store_choice(&mut self, then: FactBody, told: bool) -> Result<Accepted, OpError> {
        let FactBody::SettingsChanged(changed) = &then else { return self.store_setting(then).await };
        let (model, options) = (changed.model.clone(), changed.options.clone());
        self.store_setting(then).await?;
        if let Some(current) = model.filter(|_| !told) {
            let available = self.live.models.take().map(|(available, _)| available).unwrap_or_default();
            self.signal(SignalBody::Models { available, current });
        }
        if !options.is_empty() {
            let known = self.live.config_options.take().unwrap_or_default();
            self.signal(SignalBody::ConfigOptions(chosen(known, &options)));
        }
        self.commit().await;
        Ok(Accepted::Applied)
    }

    /// Takes back a rule that an answer has left.
    pub(super) async fn remove_rule(&mut self, rule: ops::SessionRule) -> Result<Accepted, OpError> {
        let rule = convert::rule_in(rule);
        if !self.row.rules.contains(&rule) {
            let message = "the thread has no such rule; its snapshot lists those it has".to_owned();
            return Err(OpError::InvalidParams { path: "rule", message });
        }
        self.store_setting(FactBody::RuleRemoved { rule }).await
    }

    /// The agent has taken or refused a setting.
    pub(super) async fn option_set(
        &mut self,
        token: signalbox_agents::Token,
        result: Result<(), RefusedSetting>,
    ) {
        match self.settling.take_if(|settling| settling.token == token) {
            Some(Settling { then, reply: sender, models_told, .. }) => {
                let decision = match result {
                    Ok(()) => self.store_choice(then, models_told).await,
                    Err(refused) => {
                        Err(OpError::Agent { reason: "unsupported_by_agent", message: refused.to_string() })
                    }
                };
                sender.send(decision);
            }
            None => {
                if let Err(refused) = result {
                    self.warn("setting_refused", format!("A setting was not taken: {refused}."), None);
                }
            }
        }
    }

    /// The agent went away while somebody waits for a setting.
    pub(super) fn give_up_settling(&mut self) {
        if let Some(settling) = self.settling.take() {
            let message = RefusedSetting::AgentGone.to_string();
            settling.reply.send(Err(OpError::Agent { reason: "agent_failed", message }));
        }
    }

    pub(super) async fn rename(&mut self, title: String) -> Result<Accepted, OpError> {
        let title: String = title.trim().chars().take(MAX_TITLE_SCALARS).collect();
        if title.is_empty() {
            let message = "the title is empty; give it at least one visible character".to_owned();
            return Err(OpError::InvalidParams { path: "title", message });
        }
        self.store_setting(FactBody::TitleChanged(TitleChanged { title, origin: TitleOrigin::Manual })).await
    }

    pub(super) async fn archive(&mut self, archived: bool) -> Result<Accepted, OpError> {
        if let Some(open) = self.turn.as_ref().filter(|_| archived) {
            return Err(OpError::TurnActive(open.id));
        }
        self.store_setting(FactBody::Archived { archived }).await
    }

    pub(super) fn models(&mut self, available: Vec<signalbox_facts::Model>, current: String) {
        let same =
            self.live.models.as_ref().is_some_and(|(known, now)| *known == available && *now == current);
        if !same {
            if let Some(settling) = &mut self.settling {
                settling.models_told = true;
            }
            self.signal(SignalBody::Models { available, current });
        }
    }
}

/// `default` stands for "leave the agent's choice".
pub(crate) fn is_choice(model: &str) -> bool {
    model != "default" && !model.is_empty()
}

/// The options as they are after a choice. One that the agent has not told of yet is shown with what is known of it.
fn chosen(
    mut options: Vec<ConfigOption>,
    choices: &BTreeMap<String, serde_json::Value>,
) -> Vec<ConfigOption> {
    for (id, value) in choices {
        let current = config_value(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        match options.iter_mut().find(|option| option.id == *id) {
            Some(option) => {
                option.current = match (&option.current, current) {
                    // A choice may be called `true`.
                    (ConfigValue::Choice(_), ConfigValue::Flag(flag)) => {
                        ConfigValue::Choice(flag.to_string())
                    }
                    (_, current) => current,
                };
            }
            None => options.push(ConfigOption {
                id: id.clone(),
                name: id.clone(),
                category: None,
                description: None,
                current,
                choices: Vec::new(),
                fixed: false,
            }),
        }
    }
    options
}

fn config_value(value: &str) -> ConfigValue {
    match value {
        "true" => ConfigValue::Flag(true),
        "false" => ConfigValue::Flag(false),
        other => ConfigValue::Choice(other.to_owned()),
    }
}

/// Directories that exist, as [`existing_directory`].
pub(crate) fn existing_directories(
    base: &Path,
    paths: &[String],
    field: &'static str,
) -> Result<Vec<PathBuf>, OpError> {
    paths.iter().map(|path| existing_directory(base, path, field)).collect()
}

/// A directory that exists, absolute and without symbolic links; a relative one starts from `base`.
pub(crate) fn existing_directory(base: &Path, path: &str, field: &'static str) -> Result<PathBuf, OpError> {
    let joined = base.join(if path.trim().is_empty() { "." } else { path });
    let invalid =
        |why: String| OpError::InvalidParams { path: field, message: format!("{}: {why}", joined.display()) };
    let real = joined.canonicalize().map_err(|error| invalid(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(invalid("is not a directory".to_owned())) }
}
