//! What all messages share: request ids, the place in a thread's stream, and the table that ties a method to its params.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON-RPC request id: a string, or an integer in the signed 64-bit range.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "a string or a 64-bit integer")]
pub enum RequestId {
    String(String),
    Integer(i64),
}

impl JsonSchema for RequestId {
    fn schema_name() -> Cow<'static, str> {
        "RequestId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A string, or an integer in the signed 64-bit range.",
            "x-untagged": true,
            "oneOf": [
                { "title": "RequestIdString", "type": "string" },
                { "title": "RequestIdInteger", "type": "integer" },
            ],
        })
    }
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

/// The span a request belongs to, beside its method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceContext {
    /// As the W3C recommendation has it.
    pub traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

/// The error of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorObject {
    pub code: i32,
    /// For people; may change, except where existing clients match its beginning.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

/// What a program needs to know of an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorData {
    /// A stable word; never missing in what this server writes.
    #[serde(default)]
    pub reason: String,
    /// Whether the same request may work later.
    #[serde(default)]
    pub retryable: bool,
    /// Details by reason.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// Declares a union of messages of the server: one variant a method, each with its params type, and for requests the type
/// of the answer. `thread` marks those that carry a place in their thread.
macro_rules! messages {
    (
        $(#[$meta:meta])*
        $name:ident as $kind:ident {
            $( $(#[$doc:meta])* $scope:ident $variant:ident($params:ty) $(-> $answer:ty)? = $method:path, )*
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

            /// What the schema bundle has to know about each method of this union.
            #[must_use]
            pub fn entries() -> Vec<crate::schema::Entry> {
                vec![$(
                    crate::schema::Entry::$kind::<$params>($method)
                        $( .answered_with::<$answer>() )?
                        .scope(crate::schema::Scope::$scope),
                )*]
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
