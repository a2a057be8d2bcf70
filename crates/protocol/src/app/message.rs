//! What all messages share: request ids, the place in a thread's stream, and the table that ties a method to its params.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A JSON-RPC request id: a string, or an integer in the signed 64-bit range.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a string or a 64-bit integer")]
#[schemars(extend("x-untagged" = true))]
pub enum RequestId {
    String(String),
    Integer(i64),
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self::String(id.to_owned())
    }
}

/// Ext: where a thread-scoped notification stands in its thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The highest fact it reflects.
    pub seq: u64,
    /// Its place in the thread's deliveries of this server life; strictly increasing.
    pub cursor: String,
}

/// A result that says no more than that it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EmptyResult {}

/// Declares a union of messages: one variant a method, each with its params type.
macro_rules! messages {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[$doc:meta])* $scope:ident $variant:ident($params:ty) = $method:path, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name {
            $( $(#[$doc])* $variant($params), )*
        }

        impl $name {
            /// All methods of this union, in the order of its declaration.
            pub const METHODS: &'static [&'static str] = &[$($method),*];

            /// The method's name.
            #[must_use]
            pub fn method(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $method, )*
                }
            }

            /// Reads the params of `method`; `None` if this union does not have it.
            #[must_use]
            pub fn decode(method: &str, params: serde_json::Value) -> Option<Result<Self, serde_json::Error>> {
                match method {
                    $( $method => Some(serde_json::from_value(params).map(Self::$variant)), )*
                    _ => None,
                }
            }
        }

        impl serde::Serialize for $name {
            /// Writes the params alone.
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$variant(params) => params.serialize(serializer), )*
                }
            }
        }

        $(
            impl From<$params> for $name {
                fn from(params: $params) -> Self {
                    Self::$variant(params)
                }
            }
        )*
    };
}

pub(crate) use messages;
