//! A store that takes nothing over.

use crate::harness::{Workplace, example, status_of};

fn fresh() -> Workplace {
    let work = Workplace::new();
    work.write("m.yaml", &example("fresh.yaml"));
    work
}

#[test]
fn once_makes_the_volume_and_its_buckets() {
    let work = fresh();

    let text = work.up_once();

    assert!(
        text.contains("a fresh store") && text.contains("bucket my-bucket created"),
        "{text}"
    );
    assert!(work.path("data/fresh/s3/my-bucket").is_dir());
    assert!(
        !text.contains("change-me-please"),
        "the secret was shown: {text}"
    );
    // Again, and nothing is there to be done.
    assert!(!work.up_once().contains("created"));
}

/// Also: the greeting says how to reach it, Ctrl-C ends it in order, a second start works.
#[test]
fn serves_until_it_is_interrupted() {
    let work = fresh();

    for _ in 0..2 {
        let serving = work.serve();

        assert!(
            serving
                .greeting
                .contains("root-password of Secret fresh-keys in m.yaml"),
            "{}",
            serving.greeting
        );
        assert!(
            serving.greeting.contains("my-bucket"),
            "{}",
            serving.greeting
        );
        assert!(
            !serving.greeting.contains("change-me-please"),
            "{}",
            serving.greeting
        );
        assert_eq!(status_of(&serving.admin, "/readyz"), "HTTP/1.1 200 OK");
        // Not signed, so refused, by a server that speaks S3.
        assert_eq!(
            status_of(&serving.address, "/my-bucket"),
            "HTTP/1.1 403 Forbidden"
        );
        assert_eq!(serving.interrupt(), Some(0));
    }
}
