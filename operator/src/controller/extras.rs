//! Reads, writes and removes optional objects.

use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions, TypeMeta};
use kube::{Api, Client, ResourceExt as _};

use super::api::{Error, Requests};
use super::put_back::put_back;
use crate::extras::{Extra, Found, PURPOSE_LABEL, Purpose};
use crate::plan::{Apply, Removal};
use crate::render::{self, NAME_LABEL};
use crate::validate::ValidatedFilestore;

fn api(requests: &Requests<'_>, resource: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(requests.client.clone(), requests.namespace, resource)
}

fn failed(verb: &'static str, purpose: Purpose, name: &str) -> impl FnOnce(kube::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Request {
        verb,
        kind: purpose.kind().to_owned(),
        name,
        source: Box::new(source),
    }
}

/// Kinds of other makers (the Prometheus operator's) that the cluster knows.
pub(super) async fn served(client: &Client, namespace: Option<&str>) -> Vec<ApiResource> {
    let mut served = Vec::new();
    for purpose in [Purpose::ServiceMonitor, Purpose::PrometheusRule] {
        let kind = purpose.resource();
        let one = ListParams::default().limit(1);
        match all(client, namespace, &kind).list_metadata(&one).await {
            Ok(_) => served.push(kind),
            Err(error) => {
                tracing::info!(kind = purpose.kind(), %error, "Objects of this kind are not watched");
            }
        }
    }
    served
}

/// Objects of a kind, of one namespace or of all.
pub(super) fn all(
    client: &Client,
    namespace: Option<&str>,
    kind: &ApiResource,
) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
        None => Api::all_with(client.clone(), kind),
    }
}

/// Lists leave the kind of their items out.
fn with_kind(mut object: DynamicObject, purpose: Purpose) -> DynamicObject {
    object.types = Some(TypeMeta {
        api_version: purpose.api_version().to_owned(),
        kind: purpose.kind().to_owned(),
    });
    object
}

/// What the cluster has of the optional objects of `filestore`. A kind that it does not know, or
/// that we may not look at, is no error.
pub(super) async fn observe(
    requests: &Requests<'_>,
    filestore: &ValidatedFilestore,
) -> Result<Found, Error> {
    let mut found = Found::default();
    let mut listed: Vec<(&str, Vec<DynamicObject>)> = Vec::new();
    for purpose in Purpose::ALL {
        let known = listed.iter().any(|(kind, _)| *kind == purpose.kind());
        if !known {
            match list(requests, purpose, &filestore.name).await {
                Ok(objects) => listed.push((purpose.kind(), objects)),
                Err(error) if error.is_unknown() => found.unserved.push(purpose),
                Err(error) if error.is_refusal() => {
                    found.refused.push((purpose, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        let objects = listed.iter().find(|(kind, _)| *kind == purpose.kind());
        let ours = objects.into_iter().flat_map(|(_, objects)| objects);
        let ours = ours.filter(|object| {
            let label = object.labels().get(PURPOSE_LABEL);
            label.is_some_and(|label| label == purpose.as_str())
        });
        found.live.extend(ours.map(|object| Extra {
            purpose,
            object: with_kind(object.clone(), purpose),
        }));
    }
    // Objects under the names that are wanted which do not carry our labels.
    for Extra { purpose, object } in render::extras(filestore) {
        let name = object.name_any();
        let refused = found.refused.iter().any(|(kind, _)| *kind == purpose);
        if refused || found.unserved.contains(&purpose) || found.get(purpose, &name).is_some() {
            continue;
        }
        let api = api(requests, &purpose.resource());
        let live = api.get_opt(&name).await;
        if let Some(object) = live.map_err(failed("get", purpose, &name))? {
            let object = with_kind(object, purpose);
            found.live.push(Extra { purpose, object });
        }
    }
    Ok(found)
}

async fn list(
    requests: &Requests<'_>,
    purpose: Purpose,
    name: &str,
) -> Result<Vec<DynamicObject>, Error> {
    let selector = format!("{NAME_LABEL}={name}");
    let params = ListParams::default().labels(&selector);
    let found = api(requests, &purpose.resource()).list(&params).await;
    let found = found.map_err(failed("list", purpose, &selector))?;
    Ok(found.items)
}

/// Server-side apply with force, as for everything that is ours.
pub(super) async fn apply(
    requests: &Requests<'_>,
    purpose: Purpose,
    apply: &Apply,
    live: Option<&DynamicObject>,
) -> Result<Extra, Error> {
    let api = api(requests, &purpose.resource());
    let object = put_back(&api, requests.metrics, apply, live).await?;
    Ok(Extra { purpose, object })
}

/// Removes exactly the object that was seen; one that is gone or another by now is left.
pub(super) async fn remove(requests: &Requests<'_>, removal: &Removal) -> Result<(), Error> {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(removal.uid.clone()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    requests.metrics.write(removal.purpose.kind(), "delete");
    let removed = api(requests, &removal.purpose.resource())
        .delete(&removal.name, &params)
        .await;
    match removed {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(failed("delete", removal.purpose, &removal.name)(error)),
    }
}
