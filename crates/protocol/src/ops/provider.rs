//! The name of a provider on the wire: nine documented words, everything else as `{"custom": NAME}`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which agent runs a session. There is one name space: `codex` and `{"custom":"codex"}` are the same provider.
///
/// Read: the documented words, `open_code` and `z_code` (as some servers spell them), any other word, `{"custom": NAME}`.
/// Written: the documented words, and `{"custom": NAME}` for every provider outside the nine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    ClaudeCode,
    Codex,
    Grok,
    Cursor,
    Opencode,
    Opencode2,
    Pi,
    Kimi,
    Zcode,
    /// A provider by its configured name: built in beside the nine, or the user's own.
    Custom(String),
}

impl Provider {
    /// The nine of the published contract, in its order.
    pub const DOCUMENTED: [Self; 9] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Grok,
        Self::Cursor,
        Self::Opencode,
        Self::Opencode2,
        Self::Pi,
        Self::Kimi,
        Self::Zcode,
    ];

    /// The provider of this name. The empty name is no provider's.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "claude_code" => Self::ClaudeCode,
            "codex" => Self::Codex,
            "grok" => Self::Grok,
            "cursor" => Self::Cursor,
            "opencode" | "open_code" => Self::Opencode,
            "opencode2" => Self::Opencode2,
            "pi" => Self::Pi,
            "kimi" => Self::Kimi,
            "zcode" | "z_code" => Self::Zcode,
            other => Self::Custom(other.to_owned()),
        }
    }

    /// Its name: the key of the launch table and of `[providers.NAME]`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::ClaudeCode => "claude_code",
            Self::Codex => "codex",
            Self::Grok => "grok",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
            Self::Opencode2 => "opencode2",
            Self::Pi => "pi",
            Self::Kimi => "kimi",
            Self::Zcode => "zcode",
            Self::Custom(name) => name,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Custom(name) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("custom", name)?;
                map.end()
            }
            documented => serializer.serialize_str(documented.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProviderVisitor)
    }
}

struct ProviderVisitor;

impl<'de> Visitor<'de> for ProviderVisitor {
    type Value = Provider;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a provider name or {\"custom\": NAME}")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Provider, E> {
        if name.trim().is_empty() {
            return Err(E::invalid_value(de::Unexpected::Str(name), &self));
        }
        Ok(Provider::from_name(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Provider, A::Error> {
        let mut provider = None;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "custom" {
                let name = map.next_value::<Cow<'_, str>>()?;
                provider = Some(self.visit_custom(&name)?);
            } else {
                map.next_value::<de::IgnoredAny>()?;
            }
        }
        provider.ok_or_else(|| de::Error::missing_field("custom"))
    }
}

impl ProviderVisitor {
    fn visit_custom<E: de::Error>(&self, name: &str) -> Result<Provider, E> {
        Self.visit_str(name)
    }
}

impl JsonSchema for Provider {
    fn schema_name() -> Cow<'static, str> {
        "Provider".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let documented = Self::DOCUMENTED.map(|provider| provider.name().to_owned());
        json_schema!({
            "description": "One of the documented names, or {\"custom\": NAME} for any other provider. A bare unknown name is accepted too.",
            "x-untagged": true,
            "oneOf": [
                { "title": "ProviderName", "type": "string", "minLength": 1, "examples": documented },
                {
                    "title": "ProviderCustom",
                    "type": "object",
                    "properties": { "custom": { "type": "string", "minLength": 1 } },
                    "required": ["custom"],
                },
            ],
        })
    }
}
