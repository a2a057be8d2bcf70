//! Reading what existing clients send: `null` where this server writes nothing at all.

use serde::{Deserialize, Deserializer};

/// Reads `null` as the type's default, as an absent field with `#[serde(default)]` already is.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
