mod others;
mod rotation;
mod user;

use super::before::{file, text};
use super::*;
use crate::api::Filestore;
use crate::validate::validate;

const SPEC: &str = r"
apiVersion: filestore.ryax.tech/v1alpha1
kind: Filestore
metadata: {name: files, namespace: ns}
spec:
  credentials: {secretRef: {name: keys}}
  storage: {size: 20Gi}
  buckets: [{name: data, quota: 1Gi}]
  access:
    users:
    - name: runner
      grants: [{bucket: data, prefix: runs/, access: readwrite}]
      keys: {accessKey: id, secretKey: key, endpoint: url, bucket: name}
    - name: backup
      grants: [{bucket: '*', access: read}]
";

fn filestore_of(spec: &str) -> ValidatedFilestore {
    let filestore: Filestore = serde_saphyr::from_str(spec).unwrap();
    let mut secrets = Secrets::default();
    let values = [("root-user", "root"), ("root-password", "hush")];
    secrets.insert("keys".to_owned(), bytes(&values));
    validate(&filestore, &secrets).unwrap()
}

fn filestore() -> ValidatedFilestore {
    filestore_of(SPEC)
}

fn bytes(values: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let values = values.iter();
    values
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

fn data(values: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
    let values = bytes(values).into_iter();
    values
        .map(|(key, value)| (key, ByteString(value)))
        .collect()
}

/// Access keys in the Secrets of both users; an empty one stands for a Secret without keys.
fn with_both(runner: &str, backup: &str) -> Secrets {
    let mut secrets = Secrets::default();
    if !runner.is_empty() {
        let values = [("id", runner), ("key", "secret-1")];
        secrets.insert("files-runner".to_owned(), bytes(&values));
    }
    let values = [("access-key", backup), ("secret-key", "secret-2")];
    secrets.insert("files-backup".to_owned(), bytes(&values));
    secrets
}

fn with(runner: &str) -> Secrets {
    with_both(runner, "backup")
}

fn owner() -> OwnerReference {
    OwnerReference {
        name: "files".to_owned(),
        uid: "uid-files".to_owned(),
        ..OwnerReference::default()
    }
}

fn root(access_key: &str, secret_key: &str) -> Pair {
    Pair {
        access_key: access_key.to_owned(),
        secret_key: secret_key.to_owned(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn look(secrets: &Secrets, live: Option<&Rendered>, now: i64) -> Rendered {
    look_as(&filestore(), root("root", "hush"), secrets, live, now)
}

fn look_as(
    filestore: &ValidatedFilestore,
    root: Pair,
    secrets: &Secrets,
    live: Option<&Rendered>,
    now: i64,
) -> Rendered {
    let live = live.map(|live| &live.secret);
    render(filestore, &owner(), root, secrets, live, at(now))
}

/// Access keys of a user, in order.
fn keys_of(rendered: &Rendered, user: usize) -> Vec<String> {
    let document: Document = file(Some(&rendered.secret), ACCESS_FILE).unwrap();
    let keys = document.users[user].keys.iter();
    keys.map(|pair| pair.access_key.clone()).collect()
}

fn keys(rendered: &Rendered) -> Vec<String> {
    keys_of(rendered, 0)
}

fn roots(rendered: &Rendered) -> (&str, &str) {
    let secret = Some(&rendered.secret);
    (
        text(secret, "root-user").unwrap(),
        text(secret, "root-password").unwrap(),
    )
}

#[test]
fn the_gateway_is_told_of_root_users_grants_and_quotas() {
    let rendered = look(&with("runner"), None, 0);
    assert!(rendered.problems.is_empty());
    assert_eq!(rendered.next, None);
    assert_eq!(roots(&rendered), ("root", "hush"));
    let document: Value = file(Some(&rendered.secret), ACCESS_FILE).unwrap();
    assert_eq!(
        document,
        json!({
            "users": [
                {
                    "name": "runner",
                    "keys": [{"accessKey": "runner", "secretKey": "secret-1"}],
                    "grants": [{"bucket": "data", "prefix": "runs/", "access": "readwrite"}],
                },
                {
                    "name": "backup",
                    "keys": [{"accessKey": "backup", "secretKey": "secret-2"}],
                    "grants": [{"bucket": "*", "prefix": "", "access": "read"}],
                },
            ],
            "buckets": [{"name": "data", "quota": 1_073_741_824}],
        })
    );
    let again = look(&with("runner"), Some(&rendered), 100);
    assert!(is_same(&again.secret, &rendered.secret));
}

#[test]
fn an_access_key_belongs_to_one_alone() {
    let first = look(&with_both("one", "two"), None, 0);
    assert!(first.problems.is_empty());
    // What another user has, now or from before, is not to be taken; nor what is root's.
    for (taken, by) in [("one", "user \"runner\""), ("root", "root")] {
        let second = look(&with_both("one", taken), Some(&first), 100);
        assert_eq!(keys(&second), ["one"]);
        assert_eq!(keys_of(&second, 1), ["two"]);
        let problem = &second.problems[0];
        assert_eq!(problem.reason, "AccessKeyTaken");
        assert!(
            problem.message.contains("access.users[1]") && problem.message.contains(by),
            "{}",
            problem.message
        );
        assert!(is_same(&second.secret, &first.secret));
    }
    let former = look(&with_both("three", "two"), Some(&first), 100);
    let second = look(&with_both("three", "one"), Some(&former), 200);
    assert_eq!(keys(&second), ["three", "one"]);
    assert_eq!(keys_of(&second, 1), ["two"]);
    // The first one has it when both come at once, and whoever had it before.
    let both = look(&with_both("same", "same"), None, 0);
    assert_eq!(keys(&both), ["same"]);
    assert_eq!(keys_of(&both, 1), [""; 0]);
    let later = look(&with_both("two", "two"), Some(&first), 100);
    assert_eq!(keys(&later), ["one"]);
    // Root takes an access key that a user has.
    let rooted = look_as(
        &filestore(),
        root("one", "hush"),
        &with_both("one", "two"),
        Some(&first),
        100,
    );
    assert_eq!(keys(&rooted), [""; 0]);
    assert_eq!(rooted.problems[0].reason, "AccessKeyTaken");
}

#[test]
fn a_user_that_is_removed_is_gone_at_once_and_for_good() {
    let first = look(&with("one"), None, 0);
    let second = look(&with("two"), Some(&first), 100);
    let from = SPEC.find("    - name: runner").unwrap();
    let to = SPEC.find("    - name: backup").unwrap();
    let without = filestore_of(&[&SPEC[..from], &SPEC[to..]].concat());
    let same = root("root", "hush");
    let removed = look_as(&without, same, &with("two"), Some(&second), 200);
    assert_eq!(keys(&removed), ["backup"]);
    assert_eq!(removed.next, None);
    // Back again: its Secret counts, its former keys are over.
    assert_eq!(keys(&look(&with("two"), Some(&removed), 300)), ["two"]);
}

#[test]
fn a_secret_that_is_gone_or_broken_takes_no_key_away() {
    let first = look(&with("one"), None, 0);
    let broken = look(&with(""), Some(&first), 10_000);
    assert_eq!(keys(&broken), ["one"]);
    let message = &broken.problems[0].message;
    assert!(
        message.contains("spec.access.users[0].secretRef"),
        "{message}"
    );
    assert!(is_same(&broken.secret, &first.secret));
    let shown = format!("{broken:?}");
    assert!(
        !shown.contains("secret-1") && !shown.contains("hush"),
        "{shown}"
    );
}

#[test]
fn pods_from_before_a_change_are_reminded_once() {
    let rendered = look(&with("one"), None, 100);
    let pod = |created: i64, told: Option<&str>| -> Pod {
        let annotations = told.map(|told| json!({CHANGED_ANNOTATION: told}));
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": at(created), "annotations": annotations},
        }))
        .unwrap()
    };
    let changed = at(100).to_string();
    let due = |pod: &Pod| reminder(&rendered.secret, pod).is_some();
    assert!(due(&pod(99, None)));
    assert!(due(&pod(99, Some("earlier"))));
    assert!(!due(&pod(99, Some(&changed))));
    assert!(!due(&pod(100, None)));
}
