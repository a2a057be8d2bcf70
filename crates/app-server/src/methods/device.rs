//! Pairing and devices: asked of the doors, which are not this crate's.

use signalbox_protocol::app::{
    DeviceListParams, DeviceListResult, DeviceRevokeParams, DeviceRevokeResult, PairingCreateParams,
    PairingCreateResult, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use crate::app::AppServer;
use crate::doors::DoorCaller;
use crate::errors::Error;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::PAIRING_CREATE,
                Lane::Concurrent,
                "Ext: makes a code with which one device can be paired, once, within 15 minutes. The device sends it to \
                 `POST /api/pair` and gets a bearer token of its own.",
            )
            .role(Role::Owner),
            pairing_create,
        )
        .method(
            MethodSpec::new(method::DEVICE_LIST, Lane::Concurrent, "Ext: the devices that are paired.")
                .role(Role::Owner),
            device_list,
        )
        .method(
            MethodSpec::new(
                method::DEVICE_REVOKE,
                Lane::Concurrent,
                "Ext: takes back what a device was allowed. Its bearer and tickets are worth nothing from now on, and its \
                 open connections end.",
            )
            .role(Role::Owner),
            device_revoke,
        );
}

async fn pairing_create(
    ctx: Ctx<AppServer>,
    params: PairingCreateParams,
) -> Result<PairingCreateResult, Error> {
    let making = ctx.app().doors()?.pairing_create(DoorCaller::of(&ctx), params);
    Ok(making.await?)
}

async fn device_list(ctx: Ctx<AppServer>, _: DeviceListParams) -> Result<DeviceListResult, Error> {
    let listing = ctx.app().doors()?.device_list(DoorCaller::of(&ctx));
    Ok(listing.await?)
}

async fn device_revoke(ctx: Ctx<AppServer>, params: DeviceRevokeParams) -> Result<DeviceRevokeResult, Error> {
    let revoking = ctx.app().doors()?.device_revoke(DoorCaller::of(&ctx), params);
    Ok(revoking.await?)
}
