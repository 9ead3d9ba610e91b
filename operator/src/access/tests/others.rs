//! What others do to the gateway's Secret.

use super::*;

#[test]
fn what_others_changed_is_seen() {
    let rendered = look(&with("one"), None, 0);
    let same = |change: &dyn Fn(&mut Secret)| {
        let mut live = rendered.secret.clone();
        change(&mut live);
        is_same(&rendered.secret, &live)
    };
    // What they add stays.
    assert!(same(&|live| {
        let labels = live.metadata.labels.get_or_insert_default();
        labels.insert("team".to_owned(), "x".to_owned());
        let data = live.data.get_or_insert_default();
        data.insert("more".to_owned(), ByteString(Vec::new()));
    }));
    assert!(!same(&|live| live.metadata.owner_references = None));
    assert!(!same(&|live| live.metadata.labels = None));
    assert!(!same(&|live| live.metadata.annotations = None));
    assert!(!same(&|live| {
        let annotations = live.metadata.annotations.get_or_insert_default();
        annotations.insert(CHANGED_ANNOTATION.to_owned(), "x".to_owned());
    }));
    assert!(!same(&|live| {
        let owners = live.metadata.owner_references.iter_mut().flatten();
        owners.for_each(|owner| owner.name = "other".to_owned());
    }));
    assert!(!same(&|live| {
        let data = live.data.get_or_insert_default();
        data.insert("root-user".to_owned(), ByteString(Vec::new()));
    }));
}

#[test]
fn who_changed_a_label_is_told() {
    let rendered = look(&with("one"), None, 0);
    let mut live = rendered.secret.clone();
    let labels = live.metadata.labels.get_or_insert_default();
    labels.insert(NAME_LABEL.to_owned(), "other".to_owned());
    live.metadata.managed_fields = serde_json::from_value(json!([{
        "manager": "kubectl-label",
        "fieldsV1": {"f:metadata": {"f:labels": {(format!("f:{NAME_LABEL}")): {}}}},
    }]))
    .unwrap();
    let told = drift(&rendered.secret, &live);
    let told: Vec<_> = told
        .iter()
        .map(|drift| (drift.path.to_string(), drift.manager.as_deref()))
        .collect();
    let path = format!("metadata.labels[{NAME_LABEL}]");
    assert_eq!(told, [(path, Some("kubectl-label"))]);
}

#[test]
fn a_secret_of_somebody_else_is_not_ours() {
    let rendered = look(&with("one"), None, 0);
    assert_eq!(name_taken(&rendered.secret, "files-access", &owner()), None);
    let mut other = rendered.secret;
    other.metadata.labels = None;
    assert_eq!(name_taken(&other, "files-access", &owner()), None);
    other.metadata.owner_references = None;
    let problem = name_taken(&other, "files-access", &owner()).unwrap();
    assert_eq!(problem.reason, "NameTaken");
    assert!(problem.message.contains("Secret \"files-access\" exists"));
}

/// Who may write the Secret once does not stay root for the overlap.
#[test]
fn what_somebody_else_wrote_into_the_secret_is_no_former_key() {
    let first = look(&with("one"), None, 0);
    let rotated = look(&with("two"), Some(&first), 10);
    assert_eq!(keys(&rotated), ["two", "one"]);
    let tampered = |name: &str, value: &str| {
        let mut live = rotated.secret.clone();
        let data = live.data.get_or_insert_default();
        data.insert(name.to_owned(), ByteString(value.as_bytes().to_vec()));
        live.metadata.managed_fields = serde_json::from_value(json!([
            {"manager": FIELD_MANAGER, "fieldsV1": {"f:data": {"f:more": {}}}},
            {"manager": "kubectl-edit", "fieldsV1": {"f:data": {(format!("f:{name}")): {}}}},
        ]))
        .unwrap();
        live
    };
    let after = |live: &Secret| {
        let root = root("root", "hush");
        render(
            &filestore(),
            &owner(),
            root,
            &with("two"),
            Some(live),
            at(20),
        )
    };
    for (name, value) in [
        ("root-user", "intruder"),
        ("root-password", "known"),
        (
            "former.json",
            r#"{"root":[null],"users":{"runner":[null,null]}}"#,
        ),
        (
            "access.json",
            r#"{"users":[{"name":"runner","keys":[{"accessKey":"intruder","secretKey":"x"}],"grants":[]}],"buckets":[]}"#,
        ),
    ] {
        let found = after(&tampered(name, value));
        assert_eq!(roots(&found), ("root", "hush"), "{name}");
        assert_eq!(keys(&found), ["two"], "{name}");
        assert_eq!(found.next, None, "{name}");
    }
    // Taken away, which leaves no trace of who it was.
    let mut live = rotated.secret.clone();
    live.data.get_or_insert_default().remove("former.json");
    assert_eq!(keys(&after(&live)), ["two"]);
    // What others add beside ours is their affair.
    let live = tampered("more", "x");
    assert_eq!(keys(&after(&live)), ["two", "one"]);
}
