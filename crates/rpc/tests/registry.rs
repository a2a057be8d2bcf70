//! The table as data: what it says about itself, the schemas behind it, and the mistakes it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use signalbox_rpc::{
    Contract, Ctx, EntryKind, Lane, MessageSpec, MethodSpec, NoParams, Registry, RegistryError, Role,
    RpcError, Stability,
};

/// What the client chooses.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Choice {
    /// How many at most.
    #[serde(default)]
    page_size: u32,
}

fn table() -> Registry<()> {
    let mut r = Registry::new();
    r.method_sync(
        MethodSpec::new("list", Lane::Inline, "Lists.").role(Role::Operator).experimental(),
        |_: Ctx<()>, p: Choice| Ok::<_, RpcError>(p),
    )
    .on_notification(MessageSpec::new("initialized", "Says that."), |_: Ctx<()>, _: NoParams| async {
        Ok::<_, RpcError>(())
    })
    .server_notification::<Choice>(MessageSpec::new("changed", "Something changed."))
    .server_request::<Choice, NoParams>(MessageSpec::new("choose", "Asks for a choice."));
    r
}

#[test]
fn the_table_describes_itself_in_order() {
    let registry = table();
    let lines: Vec<_> = registry.describe().iter().map(|entry| (entry.kind, entry.name)).collect();
    assert_eq!(
        lines,
        [
            (EntryKind::ClientNotification, "$/cancelRequest"),
            (EntryKind::Method, "list"),
            (EntryKind::ClientNotification, "initialized"),
            (EntryKind::ServerNotification, "changed"),
            (EntryKind::ServerRequest, "choose"),
        ]
    );
    let list = &registry.describe()[1];
    assert_eq!((list.doc, list.lane, list.role), ("Lists.", Lane::Inline, Role::Operator));
    assert_eq!((list.stability, list.before_initialize), (Stability::Experimental, false));
    assert_eq!(registry.build(()).unwrap().describe().len(), 5);
}

#[test]
fn each_type_has_the_schema_of_the_side_that_sends_it() {
    let registry = table();
    let of = |name: &str| registry.describe().iter().find(|entry| entry.name == name).unwrap();
    let schema = |ty: &signalbox_rpc::WireType| {
        let mut generator = ty.contract.generator();
        let reference = (ty.schema)(&mut generator);
        let name = (ty.schema_name)();
        assert_eq!(reference.to_value()["$ref"], json!(format!("#/$defs/{name}")));
        generator.take_definitions(true)[&*name].clone()
    };
    let sent_by_clients = schema(&of("list").params);
    assert_eq!(sent_by_clients["description"], "What the client chooses.");
    assert!(sent_by_clients.get("required").is_none(), "a default may be left out");
    let sent_by_us = schema(of("list").result.as_ref().unwrap());
    assert_eq!(sent_by_us["required"], json!(["pageSize"]), "but is always sent");
    assert_eq!(schema(&of("choose").params)["required"], json!(["pageSize"]));
    assert_eq!(of("choose").result.as_ref().unwrap().contract, Contract::Deserialize);
    assert_eq!(of("changed").params.contract, Contract::Serialize);
    assert!(of("changed").result.is_none());
}

#[test]
fn mistakes_in_the_table_are_found_when_it_is_closed() {
    let mut twice = table();
    twice.method_sync(MethodSpec::new("list", Lane::Ordered, "Again."), |_: Ctx<()>, _: NoParams| {
        Ok::<_, RpcError>(1)
    });
    assert_eq!(twice.build(()).unwrap_err(), RegistryError::Duplicate("list"));

    let mut twice = table();
    twice.server_notification::<NoParams>(MessageSpec::new("changed", "Again."));
    assert_eq!(twice.build(()).unwrap_err(), RegistryError::Duplicate("changed"));

    let mut waiting = table();
    waiting.method(MethodSpec::new("slow", Lane::Inline, "Waits."), |_: Ctx<()>, _: NoParams| async {
        Ok::<_, RpcError>(1)
    });
    assert_eq!(waiting.build(()).unwrap_err(), RegistryError::AsyncInline("slow"));
}
