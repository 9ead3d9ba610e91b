//! An API server in memory: objects by path, server-side apply as far as the operator relies on
//! it, and the power to fail after the n-th write.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};

#[derive(Default)]
pub(crate) struct State {
    /// By path.
    pub(crate) objects: BTreeMap<String, Value>,
    /// `METHOD path` of each write, events apart.
    pub(crate) writes: Vec<String>,
    /// Reasons of events, in order.
    pub(crate) events: Vec<String>,
    /// Writes that are still let through, events among them; then nothing answers any more.
    pub(crate) left: Option<usize>,
    /// Answer for requests of this method whose path ends so: status and message.
    pub(crate) refused: Vec<(Method, &'static str, u16, &'static str)>,
    applied: HashMap<(String, String), Value>,
    version: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

type Reply = Response<Full<Bytes>>;

impl Server {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                Ok::<_, Infallible>(server.state().answer(&head, &body))
            }
        });
        Client::new(service, "ns")
    }

    /// Puts an object there as somebody else would.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.state().store(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path).cloned()
    }
}

impl State {
    fn answer(&mut self, head: &http::request::Parts, body: &[u8]) -> Reply {
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        if self.left == Some(0) {
            return refuse(503, "the server is gone");
        }
        let refused = self
            .refused
            .iter()
            .find(|(method, end, _, _)| *method == head.method && path.ends_with(end));
        if let Some((_, _, status, message)) = refused {
            return refuse(*status, message);
        }
        if head.method == Method::GET {
            return self.read(&path, &query);
        }
        let body: Value = serde_json::from_slice(body).unwrap();
        let reply = self.write(&head.method, &path, &query, head, &body);
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                // Done, but nobody hears of it.
                return refuse(503, "the server is gone");
            }
        }
        reply
    }

    fn read(&self, path: &str, query: &str) -> Reply {
        if let Some(object) = self.objects.get(path) {
            return reply(object);
        }
        let selector = query
            .split('&')
            .find_map(|part| part.strip_prefix("labelSelector="));
        let name = path.rsplit('/').next().unwrap();
        if !PLURALS.contains(&name) {
            return refuse(404, "not found");
        }
        let prefix = format!("{path}/");
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(at, _)| at.starts_with(&prefix))
            .map(|(_, object)| object)
            .filter(|object| selector.is_none_or(|selector| selects(selector, object)))
            .collect();
        reply(&json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
    }

    fn write(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        head: &http::request::Parts,
        body: &Value,
    ) -> Reply {
        if path.contains("/events") {
            let reason = body["reason"].as_str().unwrap_or_default().to_owned();
            self.events.push(reason);
            return reply(body);
        }
        self.writes.push(format!("{method} {path}"));
        let kind = head
            .headers
            .get("content-type")
            .map_or("", |value| value.to_str().unwrap());
        match *method {
            Method::POST => {
                let at = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
                if self.objects.contains_key(&at) {
                    return refuse(409, "exists");
                }
                self.store(&at, body.clone());
                reply(&self.objects[&at])
            }
            Method::PATCH if kind.contains("apply") => {
                let manager = query
                    .split('&')
                    .find_map(|part| part.strip_prefix("fieldManager="))
                    .unwrap()
                    .to_owned();
                assert!(query.contains("force=true"), "{query}");
                let at = path.strip_suffix("/status").unwrap_or(path).to_owned();
                let mut live = self.objects.get(&at).cloned().unwrap_or_else(|| json!({}));
                let before = self.applied.insert((at.clone(), manager), body.clone());
                if let Some(before) = before {
                    prune(&mut live, &before, body);
                }
                merge(&mut live, body, false);
                self.store(&at, live);
                reply(&self.objects[&at])
            }
            Method::PATCH => {
                let Some(mut live) = self.objects.get(path).cloned() else {
                    return refuse(404, "not found");
                };
                merge(&mut live, body, true);
                self.store(path, live);
                reply(&self.objects[path])
            }
            Method::DELETE => match self.objects.remove(path) {
                Some(object) if body["preconditions"]["uid"] == object["metadata"]["uid"] => {
                    reply(&object)
                }
                Some(object) => {
                    self.objects.insert(path.to_owned(), object);
                    refuse(409, "another uid")
                }
                None => refuse(404, "not found"),
            },
            _ => refuse(405, "not here"),
        }
    }

    fn store(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("resourceVersion".into(), json!(self.version.to_string()));
        metadata
            .entry("uid")
            .or_insert_with(|| json!(format!("uid-{path}")));
        metadata.entry("namespace").or_insert_with(|| json!("ns"));
        self.objects.insert(path.to_owned(), object);
    }
}

const PLURALS: [&str; 14] = [
    "pods",
    "deployments",
    "statefulsets",
    "filestores",
    "services",
    "persistentvolumeclaims",
    "storageclasses",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "configmaps",
    "networkpolicies",
    "servicemonitors",
    "prometheusrules",
    "jobs",
];

fn selects(selector: &str, object: &Value) -> bool {
    selector.split("%2C").all(|part| {
        let (key, value) = part.split_once("%3D").unwrap();
        let key = key.replace("%2F", "/");
        object["metadata"]["labels"][key] == json!(value)
    })
}

/// Takes away what this manager applied before and does not any more.
fn prune(live: &mut Value, before: &Value, now: &Value) {
    let (Some(live), Some(before)) = (live.as_object_mut(), before.as_object()) else {
        return;
    };
    for (name, old) in before {
        match (now.get(name), live.get_mut(name)) {
            (None, _) => drop(live.remove(name)),
            (Some(new), Some(live)) => prune(live, old, new),
            (Some(_), None) => {}
        }
    }
}

/// Lists are replaced; a null takes away in a merge patch (RFC 7386).
fn merge(live: &mut Value, patch: &Value, null_removes: bool) {
    let Some(patch) = patch.as_object() else {
        *live = patch.clone();
        return;
    };
    if !live.is_object() {
        *live = Value::Object(Map::new());
    }
    let live = live.as_object_mut().unwrap();
    for (name, value) in patch {
        if null_removes && value.is_null() {
            live.remove(name);
        } else {
            merge(live.entry(name).or_insert(Value::Null), value, null_removes);
        }
    }
}

fn reply(object: &Value) -> Reply {
    Response::new(Full::new(object.to_string().into()))
}

fn refuse(code: u16, message: &str) -> Reply {
    // Clients go by the reason, not by the code.
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "AlreadyExists",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let mut reply = reply(&status);
    *reply.status_mut() = StatusCode::from_u16(code).unwrap();
    reply
}
