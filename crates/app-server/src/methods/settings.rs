//! Settings as existing clients send them: what becomes of policy, directory and model, and what has no meaning here.

use std::path::Path;

use signalbox_engine::convert as core;
use signalbox_engine::project::config_option;
use signalbox_facts::{Mode, Policy, Sandbox};
use signalbox_protocol::app::{
    AskForApproval, EmptyResult, NetworkAccess, SandboxMode, SandboxPolicy, ThreadConfigOptionSetParams,
    ThreadConfigOptionSetResult, ThreadSetNameParams, ThreadSettingsUpdateParams, TurnEnvironment, method,
};
use signalbox_protocol::ops::{self, Op, PolicyPatch, SettingsPatch};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use crate::app::{AppServer, hold, origin, session_id};
use crate::errors::{self, Error};
use crate::hub::Hub;
use crate::view::convert;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(method::THREAD_NAME_SET, Lane::Ordered, "Gives a thread a title that stays.")
                .role(Role::Operator),
            set_name,
        )
        .method(
            MethodSpec::new(
                method::THREAD_SETTINGS_UPDATE,
                Lane::Ordered,
                "Changes settings of a thread that hold from now on, in one step.",
            )
            .role(Role::Operator),
            update,
        )
        .method(
            MethodSpec::new(
                method::THREAD_CONFIG_OPTION_SET,
                Lane::Ordered,
                "Ext: sets one of the agent's options: in the running agent first, if there is one, and for later ones. The \
                 result is all options that are known by then.",
            )
            .role(Role::Operator),
            set_option,
        );
}

async fn set_name(ctx: Ctx<AppServer>, params: ThreadSetNameParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op = Op::Rename { session: params.thread_id, title: params.name, request_id: None };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    Ok(EmptyResult {})
}

async fn update(ctx: Ctx<AppServer>, params: ThreadSettingsUpdateParams) -> Result<EmptyResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let hub = ctx.app().hub(session).await?;
    only_local(params.environments.as_deref())?;
    let wishes = PolicyWishes {
        approval: params.approval_policy,
        sandbox: params.sandbox_policy.as_ref().map(convert::sandbox_policy_in),
        profile: params.permissions,
        policy: params.policy,
    };
    let change = wishes.change(&hub).await?;
    let settings = SettingsPatch {
        cwd: directory(ctx.app(), params.cwd.as_deref()),
        roots: params.runtime_workspace_roots,
        model: params.model,
        effort: params.effort,
        policy: change.patch,
        ..SettingsPatch::default()
    };
    if !settings.is_empty() {
        let op = Op::ThreadSettings { session: params.thread_id, settings, request_id: None };
        ctx.app().engine().submit(op, origin(&ctx)).await?;
    }
    change.apply(&hub);
    Ok(EmptyResult {})
}

async fn set_option(
    ctx: Ctx<AppServer>,
    params: ThreadConfigOptionSetParams,
) -> Result<ThreadConfigOptionSetResult, Error> {
    let session = session_id(&params.thread_id)?;
    hold(&ctx, session);
    let op =
        Op::SetConfigOption { session: params.thread_id, config_id: params.config_id, value: params.value };
    ctx.app().engine().submit(op, origin(&ctx)).await?;
    let snapshot = ctx.app().hub(session).await?.read(false).await?;
    Ok(ThreadConfigOptionSetResult { options: snapshot.options.iter().map(config_option).collect() })
}

/// What a client says about the policy, in any of its ways.
#[derive(Debug, Default)]
pub(super) struct PolicyWishes {
    pub(super) approval: Option<AskForApproval>,
    pub(super) sandbox: Option<Sandbox>,
    /// An id of `permissionProfile/list`.
    pub(super) profile: Option<String>,
    /// Ext: wins over the others.
    pub(super) policy: Option<PolicyPatch>,
}

/// A change of a thread's policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PolicyChange {
    pub(super) patch: Option<PolicyPatch>,
    /// Whether what would be asked is rejected from now on; `None` leaves it.
    pub(super) never_ask: Option<bool>,
}

impl PolicyWishes {
    /// What they make of this policy. `never_ask` tells whether the thread rejects what it would ask.
    pub(super) fn over(&self, now: Policy, never_ask: bool) -> Result<PolicyChange, Error> {
        if let Some(patch) = self.policy {
            return Ok(PolicyChange { patch: Some(patch), never_ask: Some(false) });
        }
        if let Some(profile) = &self.profile {
            let policy = policy_of_profile(profile)
                .ok_or_else(|| errors::invalid("permissions", format!("there is no profile {profile:?}")))?;
            return Ok(PolicyChange { patch: Some(policy.into()), never_ask: Some(false) });
        }
        if self.approval.is_none() && self.sandbox.is_none() {
            return Ok(PolicyChange::default());
        }
        // "Never ask" stays said when only the sandbox changes.
        let approval = self.approval.or(never_ask.then_some(AskForApproval::Never));
        let policy = convert::policy_in(approval, self.sandbox, now);
        // Between no ceiling and read-only there is no mode that allows edits and rejects the rest, so edits are
        // accepted and what would be asked beyond them is rejected by the hub.
        let never = approval
            .map(|approval| approval == AskForApproval::Never && policy.sandbox == Sandbox::WorkspaceWrite);
        Ok(PolicyChange { patch: Some(core::policy_out(policy).into()), never_ask: never })
    }

    /// What they make of a thread's policy.
    pub(super) async fn change(&self, hub: &Hub) -> Result<PolicyChange, Error> {
        if self.policy.is_some()
            || self.profile.is_some()
            || (self.approval.is_none() && self.sandbox.is_none())
        {
            return self.over(Policy::default(), false);
        }
        let now = hub.read(false).await?.row.policy;
        self.over(now, hub.never_ask())
    }
}

impl PolicyChange {
    /// Takes effect on who is asked.
    pub(super) fn apply(self, hub: &Hub) {
        if let Some(never) = self.never_ask {
            hub.set_never_ask(never);
        }
    }
}

/// The policies by name: the ids of `permissionProfile/list`.
pub(super) fn profiles() -> impl Iterator<Item = (String, ops::Policy)> {
    let modes = [Mode::Ask, Mode::AcceptEdits, Mode::Yolo];
    let sandboxes = [Sandbox::ReadOnly, Sandbox::WorkspaceWrite, Sandbox::DangerFullAccess];
    modes.into_iter().flat_map(move |mode| {
        sandboxes.into_iter().map(move |sandbox| {
            let mode_name = match mode {
                Mode::Ask => "ask",
                Mode::AcceptEdits => "accept_edits",
                Mode::Yolo => "yolo",
            };
            let sandbox_name = match sandbox {
                Sandbox::ReadOnly => "read_only",
                Sandbox::WorkspaceWrite => "workspace_write",
                Sandbox::DangerFullAccess => "danger_full_access",
            };
            (format!("{mode_name}:{sandbox_name}"), core::policy_out(Policy { mode, sandbox }))
        })
    })
}

fn policy_of_profile(id: &str) -> Option<ops::Policy> {
    profiles().find(|(profile, _)| profile == id).map(|(_, policy)| policy)
}

/// The sandbox that a thread begins with, by name.
pub(super) fn sandbox_of(mode: Option<SandboxMode>) -> Option<Sandbox> {
    mode.map(convert::sandbox_mode_in)
}

/// Whether a sandbox asks for limits that nothing here enforces: of the network, of single roots.
pub(super) fn is_finer_than_ours(sandbox: &SandboxPolicy) -> bool {
    match sandbox {
        SandboxPolicy::WorkspaceWrite { writable_roots, network_access, .. } => {
            !network_access || !writable_roots.is_empty()
        }
        SandboxPolicy::ReadOnly { network_access } => !network_access,
        SandboxPolicy::ExternalSandbox { network_access } => *network_access == NetworkAccess::Restricted,
        SandboxPolicy::DangerFullAccess => false,
    }
}

/// There is one environment, the machine the server runs on.
pub(super) fn only_local(environments: Option<&[TurnEnvironment]>) -> Result<(), Error> {
    let other = environments.unwrap_or_default().iter().find(|one| one.environment_id != "local");
    match other {
        None => Ok(()),
        Some(other) => {
            let message = format!("there is no environment {:?}, only \"local\"", other.environment_id);
            Err(errors::unsupported_field("environments", message))
        }
    }
}

/// A directory that a client names; a relative one begins at the server's base directory.
pub(super) fn directory(app: &AppServer, path: Option<&str>) -> Option<String> {
    let path = path.filter(|path| !path.trim().is_empty())?;
    Some(app.info().base_dir.join(Path::new(path)).display().to_string())
}

/// One sentence about fields that were given and have no meaning here.
pub(super) fn not_used(fields: &[(&str, bool)]) -> Option<String> {
    let given: Vec<&str> = fields.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    (!given.is_empty()).then(|| format!("Not used by this server: {}.", given.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(approval: AskForApproval, sandbox: Sandbox) -> (Policy, Option<bool>) {
        let wishes =
            PolicyWishes { approval: Some(approval), sandbox: Some(sandbox), ..PolicyWishes::default() };
        let change = wishes.over(Policy::default(), false).unwrap();
        let patch = change.patch.unwrap();
        (core::policy_patch_in(patch, Policy::default()), change.never_ask)
    }

    #[test]
    fn never_ask_rejects_what_the_mode_would_ask() {
        let (policy, never) = wish(AskForApproval::Never, Sandbox::WorkspaceWrite);
        assert_eq!((policy.mode, never), (Mode::AcceptEdits, Some(true)));
        let (policy, never) = wish(AskForApproval::Never, Sandbox::DangerFullAccess);
        assert_eq!((policy.mode, never), (Mode::Yolo, Some(false)));
        let (policy, never) = wish(AskForApproval::OnRequest, Sandbox::WorkspaceWrite);
        assert_eq!((policy.mode, never), (Mode::AcceptEdits, Some(false)));
    }

    #[test]
    fn never_stays_said_when_only_the_sandbox_changes() {
        let wishes = PolicyWishes { sandbox: Some(Sandbox::DangerFullAccess), ..PolicyWishes::default() };
        let now = Policy { mode: Mode::AcceptEdits, sandbox: Sandbox::WorkspaceWrite };
        let change = wishes.over(now, true).unwrap();
        let policy = core::policy_patch_in(change.patch.unwrap(), now);
        assert_eq!((policy.mode, change.never_ask), (Mode::Yolo, Some(false)));
    }

    #[test]
    fn every_profile_leads_back_to_its_policy() {
        assert_eq!(profiles().count(), 9);
        for (id, policy) in profiles() {
            assert_eq!(policy_of_profile(&id), Some(policy));
        }
        let wishes = PolicyWishes { profile: Some("no such".into()), ..PolicyWishes::default() };
        assert!(wishes.over(Policy::default(), false).is_err());
    }
}
