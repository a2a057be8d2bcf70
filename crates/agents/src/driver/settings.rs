//! Mode, model, effort and options: what is on offer, how each is set with this agent, and what became of it.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value};
use signalbox_facts::{Choice, ConfigOption, ConfigValue, Model};
use tokio::time::Instant;

use super::conversation::{Call, Conversation};
use crate::decode::{self, RpcError};
use crate::event::{AgentEvent, AgentInfo, RefusedSetting};
use crate::handle::{Request, Token};
use crate::spec::Posture;
use crate::update::{AgentModes, Update};

/// Longest wait for the answer to one setting; the session goes on without it.
const SET_LONGEST: Duration = Duration::from_secs(30);

/// Choices that are named where another one was asked for.
const OFFERS_NAMED: usize = 12;

/// Who wants a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// The session was opened with it.
    Opening,
    /// A call on the handle.
    Asked(Token),
}

/// A setting.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Wanted {
    /// The mode that the policy wants: the first of these that is on offer. None given: nothing to do.
    PolicyMode {
        candidates: Vec<String>,
        /// Asking must be in force. Yolo need not be: then requests are allowed one by one.
        required: bool,
    },
    Mode(String),
    Model(String),
    Effort(String),
    Option(String, ConfigValue),
}

/// How a setting is made with this agent.
#[derive(Clone, PartialEq, Debug)]
enum Means {
    /// It is so already.
    Nothing,
    Option(String, ConfigValue),
    Mode(String),
    Model(String),
}

/// What is on offer. Config options come before the modes and models of older agents.
#[derive(Debug, Default)]
pub(super) struct Settings {
    config: Vec<ConfigOption>,
    modes: Option<AgentModes>,
    models: Option<(Vec<Model>, String)>,
    /// As last reported.
    told: Option<Told>,
}

#[derive(Clone, PartialEq, Debug)]
struct Told {
    options: Vec<ConfigOption>,
    modes: Option<AgentModes>,
    models: (Vec<Model>, String),
}

const MODE: &str = "mode";
const MODEL: &str = "model";
const EFFORT: &str = "thought_level";

impl Settings {
    /// Takes what the answer to the opening request offers.
    pub(super) fn opened(&mut self, result: &mut Map<String, Value>) {
        if let Some(Value::Array(list)) = result.remove("configOptions") {
            self.config = decode::config_options(list);
        }
        self.modes = result.remove("modes").and_then(decode::modes).or(self.modes.take());
        self.models = result.remove("models").and_then(decode::models).or(self.models.take());
    }

    fn category(&self, category: &str) -> Option<&ConfigOption> {
        self.config.iter().find(|option| option.category.as_deref() == Some(category))
    }

    /// All options; modes and models of older agents appear as options too, so that clients know one way only.
    fn options(&self) -> Vec<ConfigOption> {
        let mut all = self.config.clone();
        let taken = |all: &[ConfigOption], id: &str| all.iter().any(|option| option.id == id);
        if let Some(modes) = &self.modes
            && self.category(MODE).is_none()
            && !taken(&all, MODE)
        {
            all.push(select(MODE, "Mode", &modes.current, modes.available.clone()));
        }
        if let Some((models, current)) = &self.models
            && self.category(MODEL).is_none()
            && !taken(&all, MODEL)
        {
            let choices = models.iter().map(|model| Choice {
                id: model.id.clone(),
                name: model.name.clone(),
                description: model.description.clone(),
                group: None,
            });
            all.push(select(MODEL, "Model", current, choices.collect()));
        }
        all
    }

    fn all_models(&self) -> (Vec<Model>, String) {
        match self.category(MODEL) {
            Some(option) => {
                let models = option.choices.iter().map(|choice| Model {
                    id: choice.id.clone(),
                    name: choice.name.clone(),
                    description: choice.description.clone(),
                });
                (models.collect(), chosen(option).to_owned())
            }
            None => self.models.clone().unwrap_or_default(),
        }
    }

    fn all_modes(&self) -> Option<AgentModes> {
        match self.category(MODE) {
            Some(option) => {
                Some(AgentModes { available: option.choices.clone(), current: chosen(option).to_owned() })
            }
            None => self.modes.clone(),
        }
    }

    fn now(&self) -> Told {
        Told { options: self.options(), modes: self.all_modes(), models: self.all_models() }
    }

    /// Writes it into what `Ready` says.
    pub(super) fn describe(&mut self, info: &mut AgentInfo) {
        let now = self.now();
        (info.models, info.current_model) = now.models.clone();
        info.options.clone_from(&now.options);
        info.modes.clone_from(&now.modes);
        self.told = Some(now);
    }

    /// How to make a setting, if it is on offer.
    fn means(&self, wanted: &Wanted) -> Result<Means, RefusedSetting> {
        match wanted {
            Wanted::PolicyMode { candidates, required } => {
                let modes = self.all_modes().map(|modes| modes.available).unwrap_or_default();
                match candidates.iter().find(|id| modes.iter().any(|mode| mode.id == **id)) {
                    Some(id) => self.means(&Wanted::Mode(id.clone())),
                    None if candidates.is_empty() || !required => Ok(Means::Nothing),
                    None => Err(RefusedSetting::NotOffered(format!("a mode of {}", candidates.join(", ")))),
                }
            }
            Wanted::Mode(id) => match (self.category(MODE), &self.modes) {
                (Some(option), _) => choose(option, id),
                (None, Some(modes)) if modes.current == *id => Ok(Means::Nothing),
                (None, Some(modes)) if modes.available.iter().any(|mode| mode.id == *id) => {
                    Ok(Means::Mode(id.clone()))
                }
                _ => Err(RefusedSetting::NotOffered(format!("the mode {id}"))),
            },
            Wanted::Model(id) => match (self.category(MODEL), &self.models) {
                (Some(option), _) => choose(option, id),
                // Some agents refuse the very id that they report as current.
                (None, Some((_, current))) if current == id => Ok(Means::Nothing),
                (None, Some((models, _))) if models.iter().any(|model| model.id == *id) => {
                    Ok(Means::Model(id.clone()))
                }
                _ => Err(RefusedSetting::NotOffered(format!("the model {id}"))),
            },
            Wanted::Effort(level) => match self.category(EFFORT) {
                Some(option) => choose(option, level),
                None => Err(RefusedSetting::NotOffered("a reasoning effort".to_owned())),
            },
            Wanted::Option(id, value) => match (self.config.iter().find(|option| option.id == *id), value) {
                (Some(option), _) if option.fixed => Err(RefusedSetting::NotOffered(format!(
                    "a choice for {}: it is an option of a type that signalbox cannot set",
                    option.name
                ))),
                (Some(option), value) => match (&option.current, flag_of(value)) {
                    (ConfigValue::Flag(now), Some(flag)) if *now == flag => Ok(Means::Nothing),
                    (ConfigValue::Flag(_), Some(flag)) => {
                        Ok(Means::Option(id.clone(), ConfigValue::Flag(flag)))
                    }
                    (ConfigValue::Flag(_), None) => Err(RefusedSetting::NotOffered(format!(
                        "anything but true and false as {}",
                        option.name
                    ))),
                    (ConfigValue::Choice(_), _) => choose(option, &text_of(value)),
                },
                (None, ConfigValue::Choice(choice)) if id == MODE && self.modes.is_some() => {
                    self.means(&Wanted::Mode(choice.clone()))
                }
                (None, ConfigValue::Choice(choice)) if id == MODEL && self.models.is_some() => {
                    self.means(&Wanted::Model(choice.clone()))
                }
                _ => Err(RefusedSetting::NotOffered(format!("the option {id} with that value"))),
            },
        }
    }

    /// The agent took a setting and says no more about it.
    fn took(&mut self, means: &Means) {
        match means {
            Means::Nothing => {}
            Means::Option(id, value) => {
                if let Some(option) = self.config.iter_mut().find(|option| option.id == *id) {
                    option.current = value.clone();
                }
            }
            Means::Mode(id) => self.mode_is(id),
            Means::Model(id) => {
                if let Some((_, current)) = &mut self.models {
                    current.clone_from(id);
                }
            }
        }
    }

    /// The agent reports its mode.
    pub(super) fn mode_is(&mut self, id: &str) {
        if let Some(modes) = &mut self.modes {
            id.clone_into(&mut modes.current);
        }
        let option = self.config.iter_mut().find(|option| option.category.as_deref() == Some(MODE));
        if let Some(option) = option {
            option.current = ConfigValue::Choice(id.to_owned());
        }
    }

    /// The agent reports its options, all of them.
    pub(super) fn options_are(&mut self, options: Vec<ConfigOption>) {
        self.config = options;
    }
}

fn select(id: &str, name: &str, current: &str, choices: Vec<Choice>) -> ConfigOption {
    ConfigOption {
        id: id.to_owned(),
        name: name.to_owned(),
        category: Some(id.to_owned()),
        description: None,
        current: ConfigValue::Choice(current.to_owned()),
        choices,
        fixed: false,
    }
}

/// A switch's value, which callers may have as text.
fn flag_of(value: &ConfigValue) -> Option<bool> {
    match value {
        ConfigValue::Flag(flag) => Some(*flag),
        ConfigValue::Choice(text) => text.parse().ok(),
    }
}

/// A choice's id; one may be called `true`.
fn text_of(value: &ConfigValue) -> String {
    match value {
        ConfigValue::Flag(flag) => flag.to_string(),
        ConfigValue::Choice(choice) => choice.clone(),
    }
}

fn chosen(option: &ConfigOption) -> &str {
    match &option.current {
        ConfigValue::Choice(choice) => choice,
        ConfigValue::Flag(_) => "",
    }
}

fn choose(option: &ConfigOption, choice: &str) -> Result<Means, RefusedSetting> {
    if matches!(option.current, ConfigValue::Flag(_))
        || !option.choices.iter().any(|offered| offered.id == choice)
    {
        let offered: Vec<_> =
            option.choices.iter().take(OFFERS_NAMED).map(|offered| offered.id.as_str()).collect();
        let more = if option.choices.len() > OFFERS_NAMED { ", …" } else { "" };
        let offers =
            if offered.is_empty() { String::new() } else { format!(", but {}{more}", offered.join(", ")) };
        return Err(RefusedSetting::NotOffered(format!("{choice} as {}{offers}", option.name)));
    }
    Ok(if chosen(option) == choice {
        Means::Nothing
    } else {
        Means::Option(option.id.clone(), ConfigValue::Choice(choice.to_owned()))
    })
}

impl Conversation {
    /// What to set right after a session is opened, in this order: the mode first, because it may be dangerous.
    pub(super) fn arrangement(&mut self) -> VecDeque<Wanted> {
        let mut all = VecDeque::from([self.policy_mode(self.open.posture)]);
        all.extend(self.open.model.clone().map(Wanted::Model));
        all.extend(self.open.effort.clone().map(Wanted::Effort));
        for (id, value) in &self.open.options {
            match value {
                Value::Bool(flag) => all.push_back(Wanted::Option(id.clone(), ConfigValue::Flag(*flag))),
                Value::String(choice) => {
                    all.push_back(Wanted::Option(id.clone(), ConfigValue::Choice(choice.clone())));
                }
                _ => tracing::debug!(option = %id, "an option's value is neither text nor flag"),
            }
        }
        all
    }

    fn policy_mode(&self, posture: Posture) -> Wanted {
        let candidates = match posture {
            Posture::Edits if !self.edit_modes.is_empty() => &self.edit_modes,
            Posture::Ask | Posture::Edits => &self.ask_modes,
            Posture::Loose => &self.yolo_modes,
        };
        Wanted::PolicyMode { candidates: candidates.clone(), required: posture != Posture::Loose }
    }

    /// Whether a setting waits for its answer.
    pub(super) fn is_setting(&self) -> bool {
        self.calls.values().any(|call| matches!(call, Call::Set { .. }))
    }

    pub(super) fn start_setting(&mut self, work: Request, now: Instant) {
        let (token, wanted) = match work {
            Request::Model(token, id) => (token, Wanted::Model(id)),
            Request::Effort(token, level) => (token, Wanted::Effort(level)),
            Request::Mode(token, id) => (token, Wanted::Mode(id)),
            Request::Posture(token, posture) => (token, self.policy_mode(posture)),
            Request::Option(token, id, value) => (token, Wanted::Option(id, value)),
            Request::Prompt(_)
            | Request::Fork(..)
            | Request::List(..)
            | Request::DeleteSession(..)
            | Request::Open(_)
            | Request::Cancel
            | Request::Permission(..)
            | Request::Elicitation(..)
            | Request::Dismiss(_) => {
                return;
            }
        };
        self.set(Origin::Asked(token), wanted, now);
    }

    /// Makes a setting; tells whether its answer is awaited.
    pub(super) fn set(&mut self, origin: Origin, wanted: Wanted, now: Instant) -> bool {
        let session = self.session.clone().unwrap_or_default();
        let until = now + SET_LONGEST.min(self.limits.session);
        let means = match self.settings.means(&wanted) {
            Ok(Means::Nothing) => {
                self.settled(origin, &wanted, Ok(()));
                return false;
            }
            Ok(means) => means,
            Err(refused) => {
                self.settled(origin, &wanted, Err(refused));
                return false;
            }
        };
        self.call(Call::Set { origin, wanted, until }, |wire, id| match &means {
            Means::Option(option, value) => wire.set_option(id, &session, option, value),
            Means::Mode(mode) => wire.set_mode(id, &session, mode),
            Means::Model(model) => wire.set_model(id, &session, model),
            Means::Nothing => Ok(()),
        });
        true
    }

    pub(super) fn setting_answered(
        &mut self,
        origin: Origin,
        wanted: Wanted,
        result: Result<Value, RpcError>,
        now: Instant,
    ) {
        let result = match result {
            Ok(result) => {
                match result.get("configOptions") {
                    Some(Value::Array(list)) => {
                        self.settings.options_are(decode::config_options(list.clone()))
                    }
                    _ => {
                        if let Ok(means) = self.settings.means(&wanted) {
                            self.settings.took(&means);
                        }
                    }
                }
                Ok(())
            }
            Err(error) => Err(RefusedSetting::Refused(error.message)),
        };
        self.tell_settings();
        self.settled(origin, &wanted, result);
        self.arrange(now);
        self.pump(now);
    }

    fn settled(&mut self, origin: Origin, wanted: &Wanted, result: Result<(), RefusedSetting>) {
        if matches!(wanted, Wanted::PolicyMode { .. }) {
            self.info.mode_in_force = result.is_ok();
        }
        match (origin, result) {
            (Origin::Asked(token), result) => self.option_set(token, result),
            (Origin::Opening, Ok(())) => {}
            (Origin::Opening, Err(refused)) => match wanted {
                Wanted::PolicyMode { required: true, .. } => {
                    let message = format!("{} may act without asking: {refused}", self.info.name);
                    self.warn("mode_not_set", message);
                }
                _ => self.warn("setting_refused", format!("a setting has no effect: {refused}")),
            },
        }
    }

    pub(super) fn option_set(&mut self, token: Token, result: Result<(), RefusedSetting>) {
        self.out.push((AgentEvent::OptionSet { token, result }, 0));
    }

    /// Gives up settings that the agent does not answer.
    pub(super) fn expire_settings(&mut self, now: Instant) {
        let over = |call: &Call| matches!(call, Call::Set { until, .. } if now >= *until);
        let ids: Vec<u64> = self.calls.iter().filter(|(_, call)| over(call)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(Call::Set { origin, wanted, .. }) = self.calls.remove(&id) {
                // So that it does not take effect later, behind everybody's back.
                if let Err(error) = self.wire.give_up(id) {
                    tracing::debug!(%error, "a setting is given up without a word");
                }
                self.settled(origin, &wanted, Err(RefusedSetting::NoAnswer));
                self.arrange(now);
                self.pump(now);
            }
        }
    }

    /// Reports what has changed of modes, models and options.
    pub(super) fn tell_settings(&mut self) {
        if !self.is_ready() {
            return;
        }
        let now = self.settings.now();
        let told = self.settings.told.replace(now.clone());
        if told.as_ref().is_none_or(|told| told.models != now.models) {
            let (available, current) = now.models;
            self.emit(AgentEvent::Update(Update::Models { available, current }), 1024);
        }
        if let Some(modes) = now.modes
            && told.as_ref().is_none_or(|told| told.modes.as_ref() != Some(&modes))
        {
            self.emit(AgentEvent::Update(Update::Modes(modes)), 512);
        }
        if told.is_none_or(|told| told.options != now.options) {
            self.emit(AgentEvent::Update(Update::ConfigOptions(now.options)), 4096);
        }
    }
}
