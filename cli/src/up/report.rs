//! What `up` tells people: what it is about to do, and how to reach what it serves.

use std::net::SocketAddr;
use std::path::Path;

use filestore_common::marker::{MARKER_FILE, Marker, MarkerState};
use filestore_operator::ValidatedFilestore;
use filestore_operator::validate::Source;

use super::volumes::Claims;

/// The few lines before anything is done.
pub(super) fn plan(manifest: &Path, filestore: &ValidatedFilestore, claims: &Claims) -> String {
    let claim = &filestore.storage.claim;
    let migration = filestore.migration.as_ref();
    let source = match migration.and_then(|migration| migration.source.as_ref()) {
        None => "none: a fresh store".to_owned(),
        Some(Source::Online { endpoint, .. }) => format!("{endpoint} (S3 API, only read)"),
        Some(Source::Offline { claim, path }) => format!(
            "{} (claim {claim}, drive of a stopped MinIO, only read)",
            claims.path_in(claim, path).display()
        ),
    };
    [
        format!("Filestore {} ({})\n", filestore.name, manifest.display()),
        line(
            "volume",
            &format!("{} (claim {claim})", claims.path(claim).display()),
        ),
        line("source", &source),
    ]
    .concat()
}

/// Where the marker is and what it says; `directory` is the volume's `.filestore`.
pub(super) fn marker(directory: &Path, marker: &Marker) -> String {
    let state = match marker.state {
        MarkerState::Copying => "copying: not finished, a rerun resumes",
        MarkerState::Verified => "verified: equal to the source, not handed over",
        MarkerState::Cutover => {
            "cutover: the volume belongs to its clients, nothing is copied again"
        }
        MarkerState::RollingBack => "rolling back: changes are being taken to the source",
        MarkerState::RolledBack => "rolled back: the source serves again",
    };
    format!(
        "marker {} says {state}\n",
        directory.join(MARKER_FILE).display()
    )
}

/// What the greeting needs to know.
pub(super) struct Serving<'a> {
    pub(super) manifest: &'a Path,
    pub(super) filestore: &'a ValidatedFilestore,
    pub(super) access_key: &'a str,
    pub(super) endpoint: SocketAddr,
    pub(super) admin: Option<SocketAddr>,
    pub(super) buckets: &'a [String],
}

/// How to reach the store. The secret key is not shown, only where it is.
pub(super) fn serving(serving: &Serving<'_>) -> String {
    let root = &serving.filestore.root;
    let endpoint = reachable(serving.endpoint);
    let access = serving.access_key;
    let secret = format!(
        "{} of Secret {} in {}",
        root.secret_key,
        root.secret,
        serving.manifest.display()
    );
    let status = serving.admin.map(reachable).map(|admin| {
        line(
            "status",
            &format!("http://{admin}/readyz, http://{admin}/metrics"),
        )
    });
    [
        format!("Serving on http://{endpoint} (Ctrl-C stops it)\n"),
        line("access key", access),
        line("secret key", &secret),
        line("buckets", &bucket_list(serving.buckets)),
        status.unwrap_or_default(),
        "\nTry it, with the secret key in $SECRET:\n".to_owned(),
        format!(
            "  AWS_ACCESS_KEY_ID={access} AWS_SECRET_ACCESS_KEY=$SECRET aws --endpoint-url http://{endpoint} s3 ls\n"
        ),
        format!(
            "  python3 -c 'import sys; from minio import Minio; print(Minio(\"{endpoint}\", \"{access}\", sys.argv[1], secure=False).list_buckets())' $SECRET\n"
        ),
    ]
    .concat()
}

fn line(name: &str, value: &str) -> String {
    format!("  {name:<11} {value}\n")
}

fn bucket_list(buckets: &[String]) -> String {
    const SHOWN: usize = 8;
    match buckets.len() {
        0 => "none yet".to_owned(),
        count if count <= SHOWN => buckets.join(", "),
        count => format!("{}, … ({count} in all)", buckets[..SHOWN].join(", ")),
    }
}

/// An address that a client can connect to: of "all interfaces", this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::from(([127, 0, 0, 1], address.port()))
    } else {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filestore_operator::{Manifest, validate};

    const MANIFEST: &str = include_str!("../../../examples/takeover.yaml");

    fn filestore() -> ValidatedFilestore {
        let manifest = Manifest::parse("m", MANIFEST).unwrap();
        validate(&manifest.filestore, &manifest.secrets).unwrap()
    }

    #[test]
    fn plan_names_both_ends() {
        let claims = Claims::new(Path::new("data"), &[]);
        assert_eq!(
            plan(Path::new("m.yaml"), &filestore(), &claims),
            "Filestore ryax-filestore (m.yaml)\n\
             \x20 volume      data/ryax-filestore (claim ryax-filestore)\n\
             \x20 source      data/ryax-minio (claim ryax-minio, drive of a stopped MinIO, only read)\n"
        );
    }

    #[test]
    fn greeting_says_where_the_secret_is_and_never_what_it_is() {
        let filestore = filestore();
        let buckets: Vec<String> = (0..9).map(|n| format!("bucket-{n}")).collect();
        let text = serving(&Serving {
            manifest: Path::new("m.yaml"),
            filestore: &filestore,
            access_key: "ryax",
            endpoint: "[::]:9000".parse().unwrap(),
            admin: Some("127.0.0.1:9090".parse().unwrap()),
            buckets: &buckets,
        });

        assert!(
            text.starts_with("Serving on http://127.0.0.1:9000 "),
            "{text}"
        );
        assert!(
            text.contains("root-password of Secret ryax-minio-secret in m.yaml"),
            "{text}"
        );
        assert!(
            text.contains("bucket-7, … (9 in all)") && !text.contains("bucket-8"),
            "{text}"
        );
        assert!(text.contains("http://127.0.0.1:9090/readyz"), "{text}");
        assert!(!text.contains("Ab3dEf6hIj9k"), "{text}");
    }
}
