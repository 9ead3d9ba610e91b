//! Compares an object as it should be with the object in the cluster.
//!
//! Only fields of the desired object count: what the API server fills in and what others add
//! (labels, variables) stays as it is. Not so where an addition changes what ours says: in a
//! selector, in a security context.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::{Map, Value};

use crate::quantity;

/// One step from an object to a field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Entry of a list that is merged by key: the values of its key fields.
    Key(Map<String, Value>),
}

/// Where a field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// A path of plain fields.
    pub fn fields(names: &[&str]) -> Self {
        Self(
            names
                .iter()
                .map(|name| Step::Field((*name).to_owned()))
                .collect(),
        )
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

/// As people write it: `spec.template.spec.containers[gateway].image`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if index == 0 => f.write_str(name)?,
                Step::Field(name) if name.contains(['.', '/']) => write!(f, "[{name}]")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Key(keys) => {
                    let first = keys.values().next();
                    match first {
                        Some(Value::String(text)) => write!(f, "[{text}]")?,
                        Some(other) => write!(f, "[{other}]")?,
                        None => f.write_str("[]")?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fields whose values are meant as a whole: another label in a selector makes it select nothing,
/// another user id in a security context runs the process as that user.
const WHOLE: [&str; 4] = ["selector", "podSelector", "nodeSelector", "securityContext"];

fn is_whole(path: &Path) -> bool {
    path.0
        .iter()
        .any(|step| matches!(step, Step::Field(name) if WHOLE.contains(&name.as_str())))
}

/// Fields of `desired` that `live` does not hold or holds otherwise, and what `live` has beside
/// them where they are meant as a whole; in the order of the fields.
pub fn differences(desired: &Value, live: &Value) -> Vec<Path> {
    let mut found = Vec::new();
    walk(desired, Some(live), &Path(Vec::new()), &mut found);
    found
}

fn walk(desired: &Value, live: Option<&Value>, path: &Path, found: &mut Vec<Path>) {
    match (desired, live) {
        (Value::Object(desired), Some(Value::Object(live))) => {
            for (name, value) in desired {
                walk(
                    value,
                    live.get(name),
                    &path.with(Step::Field(name.clone())),
                    found,
                );
            }
            if is_whole(path) {
                let added = live.keys().filter(|name| !desired.contains_key(*name));
                found.extend(added.map(|name| path.with(Step::Field(name.clone()))));
            }
        }
        (Value::Array(desired), Some(Value::Array(live))) if merge_keys(path).is_some() => {
            let keys = merge_keys(path).unwrap_or_default();
            for entry in desired {
                let key = key_of(entry, keys);
                let twin = live.iter().find(|other| key_of(other, keys) == key);
                walk(entry, twin, &path.with(Step::Key(key)), found);
            }
        }
        (desired, Some(live)) if same(desired, live, path) => {}
        _ => found.push(path.clone()),
    }
}

fn same(desired: &Value, live: &Value, path: &Path) -> bool {
    if desired == live {
        return true;
    }
    let is_quantity = path.0.iter().rev().nth(1).is_some_and(
        |step| matches!(step, Step::Field(name) if name == "requests" || name == "limits"),
    );
    match (desired, live) {
        (Value::String(desired), Value::String(live)) if is_quantity => {
            quantity::compare(desired, live) == Some(std::cmp::Ordering::Equal)
        }
        _ => false,
    }
}

/// Fields by which the API server merges the list at `path` (`x-kubernetes-list-map-keys` of the
/// built-in types); `None` for lists that are one value.
fn merge_keys(path: &Path) -> Option<&'static [&'static str]> {
    let Some(Step::Field(name)) = path.0.last() else {
        return None;
    };
    match name.as_str() {
        "containers" | "initContainers" | "env" | "volumes" => Some(&["name"]),
        "volumeMounts" => Some(&["mountPath"]),
        "ownerReferences" => Some(&["uid"]),
        "ports" if path.0.iter().any(|step| matches!(step, Step::Key(_))) => {
            Some(&["containerPort", "protocol"])
        }
        "ports" => Some(&["port", "protocol"]),
        _ => None,
    }
}

fn key_of(entry: &Value, keys: &[&str]) -> Map<String, Value> {
    keys.iter()
        .filter_map(|key| Some(((*key).to_owned(), entry.get(*key)?.clone())))
        .collect()
}

/// Whether a difference is something that `desired` does not have at all.
pub fn is_addition(desired: &Value, path: &Path) -> bool {
    let mut value = Some(desired);
    for step in &path.0 {
        value = value.and_then(|value| match step {
            Step::Field(name) => value.get(name),
            Step::Key(keys) => {
                let names: Vec<&str> = keys.keys().map(String::as_str).collect();
                let mut entries = value.as_array()?.iter();
                entries.find(|entry| key_of(entry, &names) == *keys)
            }
        });
    }
    value.is_none()
}

/// A merge patch for `live` that sets the fields at `paths` as `desired` has them and takes away
/// what stands beside them.
///
/// Server-side apply only adds and changes. Where fields exclude each other (a variable's `value`
/// and `valueFrom`, the sources of a volume, `rollingUpdate` of a strategy) it cannot take away
/// the one that somebody else set, and is refused.
pub fn restore(desired: &Value, live: &Value, paths: &[Path]) -> Value {
    let mut restored = live.clone();
    for path in paths {
        // Near the root stand fields that have nothing to do with each other.
        let steps = match path.0.split_last() {
            Some((_, parent)) if parent.len() > 1 && !is_broad(parent) => parent,
            _ => &path.0,
        };
        set(&mut restored, desired, steps);
    }
    merge_patch(live, &restored)
}

/// Whether fields below are independent of each other: those of a pod, a container, labels.
fn is_broad(steps: &[Step]) -> bool {
    match steps.last() {
        Some(Step::Field(name)) => {
            matches!(
                name.as_str(),
                "spec" | "template" | "metadata" | "labels" | "annotations"
            )
        }
        Some(Step::Key(_)) => matches!(
            steps.iter().rev().nth(1),
            Some(Step::Field(name)) if name == "containers" || name == "initContainers"
        ),
        None => true,
    }
}

/// Makes the value at `steps` of `into` that of `from`.
fn set(into: &mut Value, from: &Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else {
        *into = from.clone();
        return;
    };
    match step {
        Step::Field(name) => {
            let Some(from) = from.get(name) else { return };
            if let Some(fields) = into.as_object_mut() {
                set(
                    fields.entry(name.clone()).or_insert(Value::Null),
                    from,
                    rest,
                );
            } else {
                *into = Value::Object(Map::from_iter([(name.clone(), from.clone())]));
            }
        }
        Step::Key(keys) => {
            let names: Vec<&str> = keys.keys().map(String::as_str).collect();
            let is = |entry: &&Value| key_of(entry, &names) == *keys;
            let Some(from) = from.as_array().and_then(|all| all.iter().find(is)) else {
                return;
            };
            if !into.is_array() {
                *into = Value::Array(Vec::new());
            }
            let Some(entries) = into.as_array_mut() else {
                return;
            };
            match entries.iter().position(|entry| is(&entry)) {
                Some(at) => set(&mut entries[at], from, rest),
                None => entries.push(from.clone()),
            }
        }
    }
}

/// What makes `to` of `from` (RFC 7386): lists are replaced as a whole.
fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to {
        match from.get(name) {
            Some(same) if same == value => {}
            Some(other) => drop(patch.insert(name.clone(), merge_patch(other, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

/// Who set the field at `path` last, other than `own`: the manager whose managed fields hold it,
/// else (the field was removed, which leaves no trace) the one that changed the object last, if
/// that was after us.
pub fn manager_of<'a>(
    path: &Path,
    managed: &'a [ManagedFieldsEntry],
    own: &[&str],
) -> Option<&'a str> {
    let is_own = |entry: &ManagedFieldsEntry| {
        let name = entry.manager.as_deref();
        name.is_some_and(|name| own.contains(&name))
    };
    let time = |entry: &ManagedFieldsEntry| entry.time.as_ref().map(|time| time.0);
    let ours = managed.iter().filter(|entry| is_own(entry));
    let ours = ours.filter_map(time).max();
    holder_of(path, managed, own).or_else(|| {
        managed
            .iter()
            .filter(|entry| !is_own(entry) && entry.subresource.as_deref() != Some("status"))
            .filter(|entry| time(entry) >= ours)
            .max_by_key(|entry| time(entry))
            .and_then(|entry| entry.manager.as_deref())
    })
}

/// The manager, other than `own`, whose managed fields hold the field at `path`.
pub fn holder_of<'a>(
    path: &Path,
    managed: &'a [ManagedFieldsEntry],
    own: &[&str],
) -> Option<&'a str> {
    managed
        .iter()
        .filter(|entry| {
            let fields = entry.fields_v1.as_ref();
            fields.is_some_and(|fields| holds(&fields.0, &path.0))
        })
        .filter_map(|entry| entry.manager.as_deref())
        .find(|name| !own.contains(name))
}

/// Whether a set of managed fields ("FieldsV1") holds the field at `path` or something below it.
fn holds(fields: &Value, path: &[Step]) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return true;
    };
    let Some(fields) = fields.as_object() else {
        return false;
    };
    if fields.is_empty() {
        // A value that is set as a whole, as a selector, with all that is in it.
        return true;
    }
    let inner = match step {
        Step::Field(name) => fields.get(&format!("f:{name}")),
        Step::Key(keys) => fields.iter().find_map(|(name, inner)| {
            let parsed: Value = serde_json::from_str(name.strip_prefix("k:")?).ok()?;
            (parsed.as_object() == Some(keys)).then_some(inner)
        }),
    };
    inner.is_some_and(|inner| holds(inner, rest))
}

#[cfg(test)]
mod tests;
