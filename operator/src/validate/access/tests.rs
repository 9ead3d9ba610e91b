use super::*;
use crate::api::{AccessLevel, SecretReference, UserKeys};

fn grant(bucket: &str, prefix: Option<&str>) -> GrantSpec {
    GrantSpec {
        bucket: bucket.to_owned(),
        prefix: prefix.map(str::to_owned),
        access: AccessLevel::ReadWrite,
    }
}

fn user(name: &str) -> UserSpec {
    UserSpec {
        name: name.to_owned(),
        grants: vec![grant("data", None)],
        secret_ref: None,
        keys: None,
    }
}

fn bucket(quota: &str) -> BucketSpec {
    BucketSpec {
        name: "data".to_owned(),
        quota: Some(quota.to_owned()),
    }
}

fn check(users: Vec<UserSpec>, quota: &str, bundled: bool) -> Result<Access> {
    let spec = AccessSpec {
        users,
        overlap_seconds: None,
    };
    let buckets: Vec<_> = [quota]
        .into_iter()
        .filter(|quota| !quota.is_empty())
        .map(bucket)
        .collect();
    access("files", "root", Some(&spec), &buckets, bundled)
}

#[test]
fn defaults_are_filled_in() {
    let found = check(vec![user("runner")], "18Gi", true).unwrap();
    assert_eq!(found.users[0].secret, "files-runner");
    assert_eq!(found.users[0].keys.access_key, "access-key");
    assert_eq!(found.users[0].keys.endpoint, "endpoint");
    assert_eq!(found.overlap_seconds, 3600);
    assert_eq!(
        found.quotas,
        BTreeMap::from([("data".to_owned(), 18 * 1024 * 1024 * 1024)])
    );
    assert!(
        access("files", "root", None, &[], false)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn what_is_wrong_is_named() {
    let with = |change: &dyn Fn(&mut UserSpec)| {
        let mut one = user("runner");
        change(&mut one);
        vec![one]
    };
    let named = |name: &str| SecretReference {
        name: name.to_owned(),
    };
    for (users, quota, expected) in [
        (
            vec![user("a"), user("a")],
            "",
            "spec.access.users[1].name: \"a\" is there twice",
        ),
        (
            with(&|user| user.grants.clear()),
            "",
            "users[0].grants: a user without a grant",
        ),
        (
            with(&|user| user.grants = vec![grant("A_B", None)]),
            "",
            "users[0].grants[0].bucket: \"A_B\" is no bucket name",
        ),
        (
            with(&|user| user.grants = vec![grant("*", Some("runs/*"))]),
            "",
            "there are no wildcards; write \"runs/\"",
        ),
        (
            with(&|user| user.secret_ref = Some(named("root"))),
            "",
            "users[0].secretRef.name: Secret \"root\" belongs to root",
        ),
        (
            with(&|user| user.secret_ref = Some(named("files-access"))),
            "",
            "Secret \"files-access\" belongs to root, to another user or to the operator",
        ),
        (
            with(&|user| {
                user.keys = Some(UserKeys {
                    bucket: Some("endpoint".to_owned()),
                    ..UserKeys::default()
                });
            }),
            "",
            "users[0].keys: two values cannot have the same key",
        ),
        (vec![], "lots", "spec.buckets[0].quota: \"lots\" is no size"),
        (vec![], "0", "spec.buckets[0].quota: \"0\" is no size"),
        (vec![], "-1Gi", "is no size"),
    ] {
        let error = check(users, quota, true).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.engine_lacks, "{error}");
    }
}

#[test]
fn versitygw_has_neither_users_nor_quotas() {
    for (users, quota, field) in [
        (vec![user("a")], "", "spec.access.users"),
        (vec![], "1Gi", "spec.buckets[0].quota"),
    ] {
        let error = check(users, quota, false).unwrap_err();
        assert_eq!(&*error.field, field);
        assert!(error.engine_lacks);
        assert!(error.to_string().contains("use engine bundled"), "{error}");
    }
}
