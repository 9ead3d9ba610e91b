//! Applying an object of which somebody else changed fields.

use std::fmt::Debug;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::api::Error;
use super::metrics::Metrics;
use crate::plan::{Apply, FIELD_MANAGER};

/// Server-side apply with force. What somebody else added on `live` to values that are meant as a
/// whole, or what excludes our fields, is taken away first.
pub(super) async fn put_back<K>(
    api: &Api<K>,
    metrics: &Metrics,
    apply: &Apply,
    live: Option<&K>,
) -> Result<K, Error>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let forced = PatchParams::apply(FIELD_MANAGER).force();
    let ours = Patch::Apply(&apply.object);
    let Some(live) = live.filter(|_| !apply.drift.is_empty()) else {
        return send(api, metrics, apply, "apply", &forced, &ours).await;
    };
    if !apply.has_additions() {
        match send(api, metrics, apply, "apply", &forced, &ours).await {
            Err(error) if error.is_invalid() => {}
            other => return other,
        }
    }
    let live = serde_json::to_value(live).map_err(|error| Error::Json("live", error))?;
    let plain = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let clearance = Patch::Merge(apply.clearance(&live));
    send(api, metrics, apply, "patch", &plain, &clearance).await?;
    send(api, metrics, apply, "apply", &forced, &ours).await
}

async fn send<K, P>(
    api: &Api<K>,
    metrics: &Metrics,
    apply: &Apply,
    verb: &'static str,
    params: &PatchParams,
    patch: &Patch<P>,
) -> Result<K, Error>
where
    K: Clone + Debug + DeserializeOwned,
    P: Serialize + Debug,
{
    metrics.write(apply.kind.as_str(), verb);
    let answer = api.patch(&apply.name, params, patch).await;
    answer.map_err(|source| Error::Request {
        verb,
        kind: apply.kind.as_str().to_owned(),
        name: apply.name.clone(),
        source: Box::new(source),
    })
}
