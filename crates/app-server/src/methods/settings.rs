//! Settings as existing clients send them: what becomes of policy, directory and model, and what has no meaning here.

use std::path::Path;

use signalbox_engine::convert as core;
use signalbox_engine::project::config_option;
use signalbox_facts::{Mode, Policy, Sandbox};
use signalbox_protocol::app::{
    AskForApproval, EmptyResult, NetworkAccess, SandboxMode, SandboxPolicy, ThreadCommandListParams,
    ThreadCommandListResult, ThreadConfigOptionListParams, ThreadConfigOptionListResult,
    ThreadConfigOptionSetParams, ThreadConfigOptionSetResult, ThreadSetNameParams,
    ThreadSettingsUpdateParams, TurnEnvironment, method,
};
use signalbox_protocol::ops::{self, Op, PolicyPatch, SettingsPatch};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use crate::app::{AppServer, base_dir, hold, origin, session_id};
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
        )
        .method(
            MethodSpec::new(
                method::THREAD_CONFIG_OPTION_LIST,
                Lane::Concurrent,
                "Ext: the options that a thread's agent has told, with what holds. Never starts an agent.",
            ),
            list_options,
        )
        .method(
            MethodSpec::new(
                method::THREAD_COMMAND_LIST,
                Lane::Concurrent,
                "Ext: the slash commands that a thread's agent has told. Never starts an agent.",
            ),
            list_commands,
        );
}

async fn list_options(
    ctx: Ctx<AppServer>,
    params: ThreadConfigOptionListParams,
) -> Result<ThreadConfigOptionListResult, Error> {
    let snapshot = ctx.app().hub(session_id(&params.thread_id)?).await?.read(false).await?;
    Ok(ThreadConfigOptionListResult { options: snapshot.options.iter().map(config_option).collect() })
}

async fn list_commands(
    ctx: Ctx<AppServer>,
    params: ThreadCommandListParams,
) -> Result<ThreadCommandListResult, Error> {
    let snapshot = ctx.app().hub(session_id(&params.thread_id)?).await?.read(false).await?;
    Ok(ThreadCommandListResult { data: snapshot.commands.iter().map(convert::command_out).collect() })
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
    let settings = SettingsPatch {
        cwd: directory(&ctx, params.cwd.as_deref()),
        roots: params.runtime_workspace_roots,
        model: params.model,
        effort: params.effort,
        policy: wishes.change(&hub).await?,
        ..SettingsPatch::default()
    };
    if !settings.is_empty() {
        let op = Op::ThreadSettings { session: params.thread_id, settings, request_id: None };
        ctx.app().engine().submit(op, origin(&ctx)).await?;
    }
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

impl PolicyWishes {
    /// The change of this policy that they ask for, if any.
    pub(super) fn over(&self, now: Policy) -> Result<Option<PolicyPatch>, Error> {
        if let Some(patch) = self.policy {
            return Ok(Some(patch));
        }
        if let Some(profile) = &self.profile {
            let policy = policy_of_profile(profile)
                .ok_or_else(|| errors::invalid("permissions", format!("there is no profile {profile:?}")))?;
            return Ok(Some(policy.into()));
        }
        if self.approval.is_none() && self.sandbox.is_none() {
            return Ok(None);
        }
        Ok(Some(core::policy_out(convert::policy_in(self.approval, self.sandbox, now)).into()))
    }

    /// The change of a thread's policy that they ask for, if any.
    pub(super) async fn change(&self, hub: &Hub) -> Result<Option<PolicyPatch>, Error> {
        let is_whole = self.policy.is_some() || self.profile.is_some();
        if is_whole || (self.approval.is_none() && self.sandbox.is_none()) {
            return self.over(Policy::default());
        }
        self.over(hub.read(false).await?.row.policy)
    }
}

/// The policies by name: the ids of `permissionProfile/list`.
pub(super) fn profiles() -> impl Iterator<Item = (String, ops::Policy)> {
    let modes = [Mode::Ask, Mode::AcceptEdits, Mode::Yolo, Mode::NeverAsk];
    let sandboxes = [Sandbox::ReadOnly, Sandbox::WorkspaceWrite, Sandbox::DangerFullAccess];
    modes.into_iter().flat_map(move |mode| {
        sandboxes.into_iter().map(move |sandbox| {
            let mode_name = match mode {
                Mode::Ask => "ask",
                Mode::AcceptEdits => "accept_edits",
                Mode::Yolo => "yolo",
                Mode::NeverAsk => "never_ask",
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

/// A directory that a client names; a relative one begins at its connection's base directory.
pub(super) fn directory(ctx: &Ctx<AppServer>, path: Option<&str>) -> Option<String> {
    let path = path.filter(|path| !path.trim().is_empty())?;
    Some(base_dir(ctx).join(Path::new(path)).display().to_string())
}

/// One sentence about fields that were given and have no meaning here.
pub(super) fn not_used(fields: &[(&str, bool)]) -> Option<String> {
    let given: Vec<&str> = fields.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    (!given.is_empty()).then(|| format!("Not used by this server: {}.", given.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_stays_said_when_only_the_sandbox_changes() {
        let never = PolicyWishes { approval: Some(AskForApproval::Never), ..PolicyWishes::default() };
        let patch = never.over(Policy::default()).unwrap().unwrap();
        let now = core::policy_patch_in(patch, Policy::default());
        assert_eq!((now.mode, now.sandbox), (Mode::NeverAsk, Sandbox::WorkspaceWrite));
        let full = PolicyWishes { sandbox: Some(Sandbox::DangerFullAccess), ..PolicyWishes::default() };
        let now = core::policy_patch_in(full.over(now).unwrap().unwrap(), now);
        assert_eq!((now.mode, now.sandbox), (Mode::NeverAsk, Sandbox::DangerFullAccess));
        let asks = PolicyWishes { approval: Some(AskForApproval::OnRequest), ..PolicyWishes::default() };
        let now = core::policy_patch_in(asks.over(now).unwrap().unwrap(), now);
        assert_eq!((now.mode, now.sandbox), (Mode::AcceptEdits, Sandbox::DangerFullAccess));
    }

    #[test]
    fn every_profile_leads_back_to_its_policy() {
        assert_eq!(profiles().count(), 12);
        for (id, policy) in profiles() {
            assert_eq!(policy_of_profile(&id), Some(policy));
        }
        let wishes = PolicyWishes { profile: Some("no such".into()), ..PolicyWishes::default() };
        assert!(wishes.over(Policy::default()).is_err());
    }
}
