//! The Secrets of users.

use super::*;

#[test]
fn a_new_secret_has_what_a_program_needs_under_the_names_asked_for() {
    let filestore = filestore();
    let random = "0123456789ab".to_owned() + &"f".repeat(52);
    let of = |user: usize| {
        let user = &filestore.access.users[user];
        user_secret(&filestore, user, &new_pair(user, &random))
    };
    let secret = of(0);
    assert_eq!(secret.metadata.name.as_deref(), Some("files-runner"));
    assert!(secret.metadata.owner_references.is_none());
    assert_eq!(
        secret.data.unwrap(),
        data(&[
            ("id", "runner-0123456789ab"),
            ("key", "f".repeat(40).as_str()),
            ("url", "http://files.ns:9000"),
            ("name", "data"),
        ])
    );
    // Of every bucket there is no name.
    let values = of(1).data.unwrap();
    let names: Vec<_> = values.keys().map(String::as_str).collect();
    assert_eq!(names, ["access-key", "endpoint", "secret-key"]);
}

#[test]
fn a_secret_that_we_made_is_completed_and_its_keys_are_never_changed() {
    let filestore = filestore();
    let user = &filestore.access.users[0];
    let mut live = user_secret(&filestore, user, &root("runner-1", "secret-1"));
    assert!(is_made_by_us(&filestore, &live.metadata));
    let known = root("runner-1", "secret-1");
    let lacks = |values: &[(&str, &str)], known: Option<&Pair>| {
        let live = Secret {
            data: Some(data(values)),
            ..Secret::default()
        };
        missing(&filestore, user, &live, known)
    };
    assert_eq!(missing(&filestore, user, &live, Some(&known)), data(&[]));
    // The names that are asked for are others now, and so is the bucket.
    assert_eq!(
        lacks(
            &[
                ("access-key", "runner-1"),
                ("url", "http://files.ns:9000"),
                ("name", "old")
            ],
            Some(&known)
        ),
        data(&[("id", "runner-1"), ("key", "secret-1"), ("name", "data")])
    );
    let told = [("url", "http://files.ns:9000"), ("name", "data")];
    let with_half = [told.as_slice(), &[("id", "runner-1")]].concat();
    assert_eq!(
        lacks(&with_half, Some(&known)),
        data(&[("key", "secret-1")])
    );
    // Half of another pair: only a person knows the other half.
    let other = [told.as_slice(), &[("id", "other")]].concat();
    assert_eq!(lacks(&other, Some(&known)), data(&[]));
    assert_eq!(lacks(&told, None), data(&[]));

    live.metadata.labels = Some(BTreeMap::from([(
        NAME_LABEL.to_owned(),
        "files".to_owned(),
    )]));
    assert!(!is_made_by_us(&filestore, &live.metadata));
}
