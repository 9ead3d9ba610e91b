use super::*;

/// Grants as (bucket, prefix, access); a bucket and a key or prefix in it; what is allowed.
type Case<'a> = (&'a [(&'a str, &'a str, Access)], &'a str, &'a str, &'a str);

fn user(grants: &[(&str, &str, Access)]) -> Principal {
    let grants = grants.iter().map(|(bucket, prefix, access)| Grant {
        bucket: (*bucket != "*").then(|| (*bucket).to_owned()),
        prefix: (*prefix).to_owned(),
        access: *access,
    });
    Principal::User(Arc::new(User {
        name: "somebody".to_owned(),
        grants: grants.collect(),
    }))
}

/// `S`ee, `R`ead, `W`rite, `A`dminister: the letters of what is allowed.
fn allowed(principal: &Principal, bucket: &str, name: &str) -> String {
    [
        ('S', Action::See),
        ('R', Action::Read),
        ('W', Action::Write),
        ('A', Action::Administer),
    ]
    .into_iter()
    .filter(|(_, action)| principal.may(*action, bucket, name))
    .map(|(letter, _)| letter)
    .collect()
}

#[test]
fn grants_allow_this_and_nothing_else() {
    use Access::{Read, ReadWrite, Write};
    let table: &[Case<'_>] = &[
        (&[], "data", "k", ""),
        (&[], "data", "", ""),
        (&[("data", "", Read)], "data", "k", "SR"),
        (&[("data", "", Read)], "data", "", "SR"),
        (&[("data", "", Read)], "data2", "k", ""),
        (&[("data", "", Read)], "dat", "k", ""),
        (&[("data", "", Write)], "data", "k", "SW"),
        (&[("data", "", ReadWrite)], "data", "k", "SRW"),
        (&[("data", "", ReadWrite)], "data", "", "SRW"),
        (&[("*", "", ReadWrite)], "any", "k", "SRW"),
        (&[("*", "", Read)], "any", "k", "SR"),
        (&[("*", "a/", Read)], "any", "b/k", "S"),
        (&[("data", "a/", ReadWrite)], "data", "a/k", "SRW"),
        (&[("data", "a/", ReadWrite)], "data", "a/", "SRW"),
        (&[("data", "a/", ReadWrite)], "data", "a", "S"),
        (&[("data", "a/", ReadWrite)], "data", "ab/k", "S"),
        (&[("data", "a/", ReadWrite)], "data", "A/k", "S"),
        (&[("data", "a/", ReadWrite)], "data", "/a/k", "S"),
        (&[("data", "a/", ReadWrite)], "data", "", "S"),
        (&[("data", "a/", ReadWrite)], "other", "a/k", ""),
        // A key is what it says: the store never resolves dots, so neither does the grant.
        (&[("data", "a/", Read)], "data", "a/../b", "SR"),
        (&[("data", "a/", Read)], "data", "b/../a/k", "S"),
        // A prefix without a slash is one too.
        (&[("data", "a", Read)], "data", "ab/k", "SR"),
        // Grants add up, each for its own names.
        (
            &[("data", "in/", Write), ("data", "", Read)],
            "data",
            "in/k",
            "SRW",
        ),
        (
            &[("data", "in/", Write), ("data", "", Read)],
            "data",
            "k",
            "SR",
        ),
        (
            &[("data", "in/", Write), ("log", "", Read)],
            "log",
            "in/k",
            "SR",
        ),
        (&[("data", "ä/", Read)], "data", "ä/k", "SR"),
        (&[("data", "ä/", Read)], "data", "a\u{308}/k", "S"),
    ];
    for (grants, bucket, name, expected) in table {
        assert_eq!(
            allowed(&user(grants), bucket, name),
            *expected,
            "{grants:?} on {bucket}/{name}"
        );
    }
    assert_eq!(allowed(&Principal::Root, "any", "k"), "SRWA");
    assert_eq!(allowed(&Principal::Root, "any", ""), "SRWA");
}
