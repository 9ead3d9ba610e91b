//! What the plan says of a store that hides something, or tells it without end.

use filestore_s3_stub::{Act, Object, Op, Trouble, World};
use serde_json::Value;

use crate::harness::Migration;

fn store() -> Migration {
    let mut world = World::new();
    world.bucket("abc").put("k", Object::new("of k"));
    Migration::from(world)
}

/// Answers a request for a sub-resource of the bucket.
fn answers(migration: &Migration, query: &str, act: Act) {
    let trouble = Trouble::new(act).on(Op::Other).query(query);
    migration.stub.change(|world| world.trouble(trouble));
}

fn xml(text: &str) -> Act {
    Act::Xml(text.into())
}

const ENABLED: &str = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";

/// Nobody may look whether there are versions: that is not "none".
#[test]
fn versions_that_may_not_be_listed_are_unknown() {
    let denied = || Act::refuse(403, "AccessDenied");
    for (versioning, versions) in [(denied(), denied()), (xml(ENABLED), denied())] {
        let migration = store();
        answers(&migration, "versioning", versioning);
        answers(&migration, "versions", versions);

        let plan = migration.run("plan", &["--json"]).ends_with(0);
        let plan: Value = serde_json::from_str(&plan.out).unwrap();
        let unknown = &plan["notCarried"]["unknownVersions"];
        assert_eq!(unknown["count"], 1, "{plan}");
        let text = migration.run("plan", &[]).ends_with(0).out;
        assert!(
            text.contains("UNKNOWN unknownVersions: 1 (abc (not readable"),
            "{text}"
        );

        for verb in ["plan", "copy", "final", "run"] {
            let refused = migration.run(verb, &["--fail-on-versions"]).ends_with(5);
            let told = refused.out + &refused.err;
            assert!(told.contains("nobody can tell whether versions"), "{told}");
        }
        assert!(migration.held().is_empty());
        migration.run("run", &[]).ends_with(0);
    }
}

/// Bucket tags that may not be read are not carried, and not nothing.
#[test]
fn tags_that_may_not_be_read_are_named() {
    let migration = store();
    answers(&migration, "tagging", Act::refuse(403, "AccessDenied"));
    let text = migration.run("plan", &[]).ends_with(0).out;
    assert!(
        text.contains("abc: tags (not readable with these credentials)"),
        "{text}"
    );
}

/// More is said to follow, and no way to ask for it.
#[test]
fn listings_of_versions_and_uploads_without_end_are_refused() {
    for (query, list, told) in [
        (
            "versions",
            "ListVersionsResult",
            "more versions follow but there is no new marker",
        ),
        (
            "uploads",
            "ListMultipartUploadsResult",
            "more uploads follow but there is no new marker",
        ),
    ] {
        let migration = store();
        if query == "versions" {
            answers(&migration, "versioning", xml(ENABLED));
        }
        let page = format!("<{list}><IsTruncated>true</IsTruncated></{list}>");
        answers(&migration, query, xml(&page));
        let refused = migration.run("plan", &[]).ends_with(5);
        assert!(refused.err.contains(told), "{}", refused.err);
    }
}

/// Another version of the same name and size is another list.
#[test]
fn what_was_accepted_is_those_versions_and_no_others() {
    let migration = store();
    answers(&migration, "versioning", xml(ENABLED));
    let list = |id: &str| {
        xml(&format!(
            "<ListVersionsResult><IsTruncated>false</IsTruncated><Version><Key>k</Key>\
             <VersionId>{id}</VersionId><IsLatest>false</IsLatest><Size>5</Size></Version>\
             </ListVersionsResult>"
        ))
    };
    let hash = || {
        let plan = migration.run("plan", &["--json"]).ends_with(0);
        let plan: Value = serde_json::from_str(&plan.out).unwrap();
        plan["notCarriedHash"].as_str().unwrap().to_owned()
    };
    answers(&migration, "versions", list("v1"));
    let accepted = hash();
    assert_eq!(hash(), accepted);
    migration.stub.change(|world| drop(world.troubles.pop()));
    answers(&migration, "versions", list("v2"));
    assert_ne!(hash(), accepted);
    migration.run("run", &["--accept", &accepted]).ends_with(5);
    assert!(migration.held().is_empty());
}
