//! How long former keys are valid.

use super::*;

#[test]
fn former_keys_stay_for_a_while() {
    let step = |runner: &str, live: &Rendered, now: i64| look(&with(runner), Some(live), now);
    let first = look(&with("one"), None, 0);
    assert_eq!(keys(&first), ["one"]);
    let second = step("two", &first, 100);
    assert_eq!(keys(&second), ["two", "one"]);
    assert_eq!(second.next, Some(at(3700)));
    // The same at every later look, until the end.
    let looked = step("two", &second, 2000);
    assert!(is_same(&looked.secret, &second.secret));
    let third = step("three", &looked, 2000);
    assert_eq!(keys(&third), ["three", "two", "one"]);
    assert_eq!(third.next, Some(at(3700)));
    let later = step("three", &third, 3700);
    assert_eq!(keys(&later), ["three", "two"]);
    assert_eq!(later.next, Some(at(5600)));
    assert_eq!(keys(&step("three", &later, 5600)), ["three"]);
    // Back to one that was still valid.
    assert_eq!(keys(&step("two", &third, 2100)), ["two", "three", "one"]);
}

#[test]
fn a_shorter_overlap_holds_for_keys_that_are_former_already() {
    let first = look(&with("one"), None, 0);
    let second = look(&with("two"), Some(&first), 100);
    let with_overlap = |seconds: u32| {
        let access = format!("access:\n    overlapSeconds: {seconds}");
        filestore_of(&SPEC.replace("access:\n    users", &format!("{access}\n    users")))
    };
    let same = root("root", "hush");
    let shorter = look_as(
        &with_overlap(60),
        same.clone(),
        &with("two"),
        Some(&second),
        200,
    );
    assert_eq!(shorter.next, Some(at(260)));
    let looked = look_as(
        &with_overlap(60),
        same.clone(),
        &with("two"),
        Some(&shorter),
        250,
    );
    assert!(is_same(&looked.secret, &shorter.secret));
    let none = look_as(&with_overlap(0), same, &with("two"), Some(&second), 200);
    assert_eq!(keys(&none), ["two"]);
    assert_eq!(none.next, None);
}

#[test]
fn root_is_rotated_like_anybody() {
    let step = |access: &str, secret: &str, live: &Rendered, now: i64| {
        look_as(
            &filestore(),
            root(access, secret),
            &with("one"),
            Some(live),
            now,
        )
    };
    let first = look(&with("one"), None, 0);
    // Another secret, then another access key, too.
    let second = step("root", "new", &first, 100);
    assert_eq!(roots(&second), ("root\nroot", "new\nhush"));
    assert_eq!(second.next, Some(at(3700)));
    let third = step("admin", "newer", &second, 200);
    assert_eq!(roots(&third), ("admin\nroot\nroot", "newer\nnew\nhush"));
    let last = step("admin", "newer", &third, 4000);
    assert_eq!(roots(&last), ("admin", "newer"));
}
