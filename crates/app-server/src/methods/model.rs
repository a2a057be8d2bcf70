//! Models on offer, as the agents told them last.

use signalbox_facts::{Model as CoreModel, Provider};
use signalbox_protocol::app::{Model, ModelListParams, ModelListResult, method};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry};

use crate::app::AppServer;
use crate::errors::{self, Error};
use crate::view::convert;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method_sync(
        MethodSpec::new(
            method::MODEL_LIST,
            Lane::Inline,
            "The models of a provider as its agent told them last; until then one entry `default`. Never starts an \
             agent, and is never empty.",
        ),
        list,
    );
}

fn list(ctx: Ctx<AppServer>, params: ModelListParams) -> Result<ModelListResult, Error> {
    let app = ctx.app();
    let catalog = app.engine().catalog();
    let named = params.model_provider.as_deref().map(Provider::new);
    let provider = named.as_ref().unwrap_or_else(|| catalog.default_provider());
    catalog.entry(provider)?;
    let mut models = app.hubs().models(provider).unwrap_or_else(|| vec![unknown(provider)]);
    if !models.iter().any(|model| model.is_default)
        && let Some(first) = models.first_mut()
    {
        // Existing clients choose the default one.
        first.is_default = true;
    }
    let from = match &params.cursor {
        Some(cursor) => {
            let from = cursor.parse::<usize>().ok();
            // Fewer than before: an empty page would be taken for no models at all.
            from.filter(|from| *from < models.len()).ok_or_else(errors::stale_cursor)?
        }
        None => 0,
    };
    let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let through = from.saturating_add(limit);
    let next_cursor = (through < models.len()).then(|| through.to_string());
    Ok(ModelListResult { data: models.into_iter().skip(from).take(limit).collect(), next_cursor })
}

/// What stands for "the agent's own choice" until its models are known.
fn unknown(provider: &Provider) -> Model {
    let model = CoreModel {
        id: convert::DEFAULT_MODEL.to_owned(),
        name: "Default".to_owned(),
        description: Some("The agent's own choice".to_owned()),
    };
    convert::model_out(&model, convert::DEFAULT_MODEL, provider)
}
