use super::*;

const WHOLE: &str = r#"
users:
- name: runner
  keys:
  - {accessKey: runner-2, secretKey: new}
  - {accessKey: runner-1, secretKey: old}
  grants:
  - {bucket: ryax, prefix: runs/, access: readwrite}
  - {bucket: "*", access: read}
buckets:
- {name: ryax, quota: 18Gi, maxObjects: 1000}
- {name: logs, quota: 1048576}
"#;

fn read(text: &str) -> Result<Policy, AccessError> {
    let path = Path::new("access.yaml");
    let mut policy = Policy::default();
    policy.add(path, parse(path, text)?, |key| key == "root")?;
    Ok(policy)
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn a_whole_file_is_read() {
    let policy = read(WHOLE).unwrap();

    let [(user, keys)] = policy.users.as_slice() else {
        panic!("{policy:?}");
    };
    assert_eq!(user.name, "runner");
    let keys: Vec<_> = keys
        .iter()
        .map(|(key, secret)| (key.as_str(), secret.expose()))
        .collect();
    assert_eq!(keys, [("runner-2", "new"), ("runner-1", "old")]);
    assert_eq!(
        user.grants,
        [
            Grant {
                bucket: Some("ryax".to_owned()),
                prefix: "runs/".to_owned(),
                access: Access::ReadWrite,
            },
            Grant {
                bucket: None,
                prefix: String::new(),
                access: Access::Read,
            },
        ]
    );
    let quotas: Vec<_> = policy.quotas.into_iter().collect();
    assert_eq!(quotas[0].1.bytes, Some(1_048_576));
    assert_eq!(quotas[1].1.bytes, Some(18 * 1024 * 1024 * 1024));
    assert_eq!(quotas[1].1.objects, Some(1000));
}

#[test]
fn json_is_read_too() {
    let text = r#"{"users": [{"name": "a", "keys": [{"accessKey": "k", "secretKey": "s"}], "grants": []}]}"#;
    assert_eq!(read(text).unwrap().users.len(), 1);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let user = |more: &str| format!("users:\n- name: a\n  grants: []\n  {more}");
    for (text, expected) in [
        (String::new(), "access.yaml: line 1: the file is empty"),
        ("users:\n- nam: a\n".to_owned(), "line 2: users[0].nam: unknown field"),
        (user("keys: [{accessKey: k}]"), "missing field"),
        (user("keys: [{accessKey: root, secretKey: s}]"), "access key root is the root's"),
        (user("keys: [{accessKey: k, secretKey: ''}]"), "user a: keys[0] has an empty half"),
        (
            "users: [{name: a, keys: [], grants: [{bucket: A_b, access: read}]}]".to_owned(),
            "user a: bucket name \"A_b\" is not valid",
        ),
        (
            "users: [{name: a, keys: [], grants: [{bucket: abc, prefix: 'x/*', access: read}]}]".to_owned(),
            "there are no wildcards, write \"x/\"",
        ),
        (
            "users: [{name: a, keys: [], grants: [{bucket: abc, access: admin}]}]".to_owned(),
            "users[0].grants[0].access: unknown variant",
        ),
        (
            "users: [{name: a, keys: [], grants: []}, {name: a, keys: [], grants: []}]".to_owned(),
            "user a is there twice",
        ),
        (
            "users: [{name: a, keys: [{accessKey: k, secretKey: s}], grants: []}, {name: b, keys: [{accessKey: k, secretKey: s}], grants: []}]".to_owned(),
            "user b: access key k belongs to another user",
        ),
        ("buckets: [{name: abc, quota: lots}]".to_owned(), "\"lots\" is no size"),
        ("buckets: [{name: abc}, {name: abc}]".to_owned(), "bucket abc is there twice"),
        ("buckets: [{name: '*', quota: 1}]".to_owned(), "bucket name \"*\" is not valid"),
    ] {
        let message = refused(&text);
        assert!(message.contains(expected), "{text}\n{message}");
    }
}

#[test]
fn no_error_and_no_debug_text_shows_a_secret() {
    for text in [
        "users: [{name: a, grants: [], keys: [{accessKey: k, secretKey: [hush]}]}]",
        "users: [{name: a, grants: [], keys: [{accessKey: k, secretKey: {hush: hush}}]}]",
        "users: [{name: a, grants: [], keys: [{accessKey: k, secretKey: hush, more: 1}]}]",
        "users: [{name: a, grants: [], keys: [{accessKey: k, secretKey: hush",
        "users: [{name: a, grants: [], keys: [{accessKey: k, secretKey: \"hush}]}]",
        "users: [{name: a, grants: [], keys: [{accessKey: root, secretKey: hush}]}]",
    ] {
        let message = refused(text);
        assert!(!message.contains("hush"), "{message}");
    }
    let shown = format!("{:?}", read(WHOLE).unwrap());
    assert!(!shown.contains("old") && !shown.contains("new"), "{shown}");
}
