//! Skills that prompts can name.

use std::path::PathBuf;

use signalbox_engine::prompt::{Scope, Skill, SkillError};
use signalbox_protocol::app::{
    SkillErrorInfo, SkillInterface, SkillMetadata, SkillScope, SkillsListEntry, SkillsListParams,
    SkillsListResult, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use super::settings::directory;
use crate::app::{AppServer, base_dir};
use crate::errors::{self, Error};

/// Most directories of one call: each is looked through.
const MAX_CWDS: usize = 64;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::SKILLS_LIST,
            Lane::Concurrent,
            "The skills that prompts of threads in these directories can name, and what looks like one and cannot be used.",
        )
        .role(Role::Operator),
        list,
    );
}

async fn list(ctx: Ctx<AppServer>, params: SkillsListParams) -> Result<SkillsListResult, Error> {
    let app = ctx.app();
    if params.cwds.len() > MAX_CWDS {
        return Err(errors::invalid(
            "cwds",
            format!("at most {MAX_CWDS} directories; ask again for the rest"),
        ));
    }
    let mut cwds = params.cwds;
    if cwds.is_empty() {
        cwds.push(base_dir(&ctx).display().to_string());
    }
    let mut data = Vec::with_capacity(cwds.len());
    for cwd in cwds {
        let folder = directory(&ctx, Some(&cwd)).map_or_else(|| base_dir(&ctx), PathBuf::from);
        data.push(entry(app, cwd, folder).await);
    }
    Ok(SkillsListResult { data })
}

async fn entry(app: &AppServer, cwd: String, folder: PathBuf) -> SkillsListEntry {
    let failed = |cwd: String, message: String| {
        let errors = vec![SkillErrorInfo { path: cwd.clone(), message }];
        SkillsListEntry { cwd, skills: Vec::new(), errors }
    };
    if let Err(error) = tokio::fs::read_dir(&folder).await {
        return failed(cwd, error.to_string());
    }
    match app.engine().skills(vec![folder]).await {
        Ok(found) => SkillsListEntry {
            cwd,
            skills: found.skills.into_iter().map(skill).collect(),
            errors: found.errors.into_iter().map(error).collect(),
        },
        Err(error) => failed(cwd, error.to_string()),
    }
}

fn skill(skill: Skill) -> SkillMetadata {
    SkillMetadata {
        interface: (skill.name != skill.id)
            .then(|| SkillInterface { display_name: Some(skill.name.clone()) }),
        name: skill.id,
        description: skill.description,
        short_description: None,
        path: skill.path.display().to_string(),
        scope: match skill.scope {
            Scope::Project => SkillScope::Repo,
            Scope::User => SkillScope::User,
            Scope::Configured => SkillScope::Admin,
        },
        enabled: true,
    }
}

fn error(error: SkillError) -> SkillErrorInfo {
    SkillErrorInfo { path: error.path.display().to_string(), message: error.message }
}
