//! The session's two choices, mode and model, and how ACP shows them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::peer::RpcError;

/// What the agent may try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Asks before each command and change.
    #[default]
    Ask,
    /// Runs and changes nothing, and so never asks.
    Look,
}

/// How much the agent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Model {
    /// Thoughts and whole sentences.
    #[default]
    Rehearsal,
    /// The result alone.
    RehearsalTerse,
}

const MODES: [(Mode, &str, &str, &str); 2] = [
    (Mode::Ask, "ask", "Ask", "Asks before each command and change"),
    (Mode::Look, "look", "Look", "Looks only: runs nothing, changes nothing, asks nothing"),
];

const MODELS: [(Model, &str, &str, &str); 2] = [
    (Model::Rehearsal, "rehearsal", "Rehearsal", "No model: a fixed script with whole sentences"),
    (Model::RehearsalTerse, "rehearsal-terse", "Rehearsal, terse", "The same script with few words"),
];

/// Mode and model of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Config {
    pub(crate) mode: Mode,
    pub(crate) model: Model,
}

impl Config {
    /// Sets one option by its ids.
    pub(crate) fn set(&mut self, option: &str, value: &str) -> Result<(), RpcError> {
        match option {
            "mode" => self.set_mode(value),
            "model" => {
                let (model, ..) = MODELS
                    .iter()
                    .find(|(_, id, ..)| *id == value)
                    .ok_or_else(|| RpcError::params(format!("unknown model `{value}`")))?;
                self.model = *model;
                Ok(())
            }
            _ => Err(RpcError::params(format!("unknown config option `{option}`"))),
        }
    }

    pub(crate) fn set_mode(&mut self, value: &str) -> Result<(), RpcError> {
        let (mode, ..) = MODES
            .iter()
            .find(|(_, id, ..)| *id == value)
            .ok_or_else(|| RpcError::params(format!("unknown mode `{value}`")))?;
        self.mode = *mode;
        Ok(())
    }

    pub(crate) fn mode_id(self) -> &'static str {
        MODES.iter().find(|(mode, ..)| *mode == self.mode).map_or("ask", |(_, id, ..)| id)
    }

    fn model_id(self) -> &'static str {
        MODELS.iter().find(|(model, ..)| *model == self.model).map_or("rehearsal", |(_, id, ..)| id)
    }

    /// `configOptions`, complete.
    pub(crate) fn options(self) -> Value {
        json!([
            {
                "id": "mode", "name": "Mode", "category": "mode", "type": "select",
                "currentValue": self.mode_id(), "options": choices(&MODES, "value"),
            },
            {
                "id": "model", "name": "Model", "category": "model", "type": "select",
                "currentValue": self.model_id(), "options": choices(&MODELS, "value"),
            },
        ])
    }

    /// `modes`, the older form of the same, for clients that do not know config options.
    pub(crate) fn modes(self) -> Value {
        json!({"currentModeId": self.mode_id(), "availableModes": choices(&MODES, "id")})
    }
}

fn choices<T>(table: &[(T, &str, &str, &str)], key: &str) -> Vec<Value> {
    table
        .iter()
        .map(|(_, id, name, description)| json!({key: id, "name": name, "description": description}))
        .collect()
}
