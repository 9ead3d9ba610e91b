use super::*;
use crate::manifest::Manifest;

const HEAD: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: root}
stringData: {root-user: ryax, root-password: Ab3dEf6hIj9k, 'no': ''}
---
apiVersion: filestore.ryax.tech/v1alpha1
kind: Filestore
metadata: {name: files, namespace: ns}
spec:
";

fn manifest(spec: &str) -> Manifest {
    let indented = spec.replace('\n', "\n  ");
    Manifest::parse("m.yaml", &format!("{HEAD}  {indented}")).unwrap()
}

fn check(spec: &str) -> Result<ValidatedFilestore> {
    let manifest = manifest(spec);
    validate(&manifest.filestore, &manifest.secrets)
}

const MINIMAL: &str = "credentials: {secretRef: {name: root}}\nstorage: {size: 20Gi}\n";

#[test]
fn fills_in_every_default() {
    let valid = check(MINIMAL).unwrap();

    assert_eq!(valid.server, Server::Bundled);
    assert!(valid.image.starts_with("docker.io/ryaxtech/filestore:"));
    assert_eq!(valid.region, "us-east-1");
    assert_eq!(valid.service_port, 9000);
    assert_eq!(
        valid.root,
        KeyPair {
            secret: "root".into(),
            access_key: "root-user".into(),
            secret_key: "root-password".into()
        }
    );
    assert_eq!(valid.storage.claim, "files");
    assert_eq!(valid.security.run_as_user, Some(1200));
    assert_eq!(valid.pod.grace_seconds, 60);
    assert_eq!(valid.migration, None);
}

#[test]
fn the_source_takes_the_keys_of_the_filestore_unless_it_names_its_own() {
    let spec = format!("{MINIMAL}migration: {{source: {{endpoint: 'http://minio:9000/'}}}}");
    let Some(Source::Online { endpoint, keys, .. }) =
        check(&spec).unwrap().migration.unwrap().source
    else {
        panic!("not online");
    };
    assert_eq!(endpoint, "http://minio:9000");
    assert_eq!(keys.secret, "root");
}

#[test]
fn openshift_sets_no_ids() {
    let valid = check(&format!("{MINIMAL}security: {{profile: openshift}}")).unwrap();
    assert_eq!(
        valid.security,
        Security {
            run_as_user: None,
            user_is_set: false,
            run_as_group: None,
            fs_group: None
        }
    );
}

/// Spec and the beginning of the one error it must give.
const REFUSED: &[(&str, &str)] = &[
    (
        "credentials: {secretRef: {name: other}}\nstorage: {size: 1Gi}",
        "spec.credentials: Secret \"other\" is missing; add it",
    ),
    (
        "credentials: {secretRef: {name: root}, keys: {accessKey: user}}\nstorage: {size: 1Gi}",
        "spec.credentials: Secret \"root\" has no key \"user\" (it has no, root-password, root-user)",
    ),
    (
        "credentials: {secretRef: {name: root}, keys: {secretKey: 'no'}}\nstorage: {size: 1Gi}",
        "spec.credentials: key \"no\" of Secret \"root\" must be non-empty",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {}",
        "spec.storage: set exactly one of size",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {size: 1Gi, existingClaim: c}",
        "spec.storage: set exactly one of size",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {size: lots}",
        "spec.storage.size: \"lots\" is no size; write",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {size: 0Gi}",
        "spec.storage.size: \"0Gi\" is no size",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {existingClaim: c, accessModes: [ReadWriteOnce]}",
        "spec.storage: storageClassName and accessModes belong to a new claim",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {existingClaim: UPPER}",
        "spec.storage.existingClaim: \"UPPER\" is no name",
    ),
    (
        "MINIMALimage: filestore:latest",
        "spec.image: \"filestore:latest\" does not say which version",
    ),
    (
        "MINIMALengine: versitygw",
        "spec.versitygw: engine versitygw needs its image",
    ),
    (
        "MINIMALversitygw: {image: 'versity/versitygw:v1.8.0'}",
        "spec.versitygw: belongs to engine versitygw",
    ),
    ("MINIMALregion: EU", "spec.region: \"EU\" is no region"),
    (
        "MINIMALbuckets: [{name: UP}]",
        "spec.buckets[0].name: bucket name \"UP\" is not valid",
    ),
    (
        "MINIMALmigration: {mode: online}",
        "spec.migration.mode: online needs source.endpoint",
    ),
    (
        "MINIMALmigration: {mode: offline, source: {endpoint: 'http://a:1'}}",
        "spec.migration.mode: offline needs source.existingClaim",
    ),
    (
        "MINIMALmigration: {source: {service: a, workload: {kind: Deployment, name: b}}}",
        "spec.migration.source: set at most one of endpoint, existingClaim, service and workload",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'http://a', service: b}}",
        "spec.migration.source: set at most one of endpoint, existingClaim, service and workload",
    ),
    (
        "MINIMALmigration: {bandwidth: 0Mi}",
        "spec.migration.bandwidth: \"0Mi\" is no number of bytes a second; write",
    ),
    (
        "MINIMALmigration: {bandwidth: 20MiB/s}",
        "spec.migration.bandwidth: \"20MiB/s\" is no number of bytes a second",
    ),
    (
        "MINIMALmigration: {deadline: 2d}",
        "spec.migration.deadline: \"2d\" is no time; write for example",
    ),
    (
        "MINIMALmigration: {deadline: 30m1h}",
        "spec.migration.deadline: \"30m1h\" is no time",
    ),
    (
        "MINIMALmigration: {deadline: 0s}",
        "spec.migration.deadline: \"0s\" is no time",
    ),
    (
        "MINIMALmigration: {shards: 17}",
        "spec.migration.shards: must be from 1 to 16",
    ),
    (
        "MINIMALmigration: {shards: 2, source: {endpoint: 'http://a'}}",
        "spec.migration.shards: go with a legacy store in the cluster",
    ),
    (
        "credentials: {secretRef: {name: root}}\nstorage: {size: 1Gi, accessModes: [ReadWriteOncePod]}\nmigration: {shards: 2}",
        "spec.migration.shards: need a volume that several pods can mount",
    ),
    (
        "MINIMALmigration: {buckets: [{name: one}, {name: one, target: two}]}",
        "spec.migration.buckets[1]: names \"one\" a second time",
    ),
    (
        "MINIMALmigration: {buckets: [{name: one}, {name: two, target: one}]}",
        "spec.migration.buckets[1]: one would be called one as well",
    ),
    (
        "MINIMALmigration: {buckets: [{name: one, target: Two}]}",
        "spec.migration.buckets[0].target: bucket name \"Two\" is not valid",
    ),
    (
        "MINIMALmigration: {source: {path: a}}",
        "spec.migration.source.path: belongs to existingClaim",
    ),
    (
        "MINIMALmigration: {cutover: manual, source: {existingClaim: c}}",
        "spec.migration: cutover, approve and rollback go with a legacy store in the cluster",
    ),
    (
        "MINIMALmigration: {rollback: {requestID: other}}",
        "spec.migration.rollback.requestID: is \"other\", the migration is \"files\"",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'http://a', existingClaim: c}}",
        "spec.migration.source: set only one of endpoint",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'minio:9000'}}",
        "spec.migration.source.endpoint: \"minio:9000\" is no endpoint; write http://",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'http://u:p@minio'}}",
        "spec.migration.source.endpoint: holds credentials",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'http://minio/bucket'}}",
        "spec.migration.source.endpoint: \"http://minio/bucket\" is no endpoint",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'http://a', path: x}}",
        "spec.migration.source.path: belongs to existingClaim",
    ),
    (
        "MINIMALmigration: {source: {existingClaim: files}}",
        "spec.migration.source.existingClaim: \"files\" is also the target",
    ),
    (
        "MINIMALmigration: {source: {existingClaim: c, credentials: {secretRef: {name: root}}}}",
        "spec.migration.source: a drive needs no credentials",
    ),
    (
        "MINIMALmigration: {source: {existingClaim: c, path: a/../..}}",
        "spec.migration.source.path: must stay inside",
    ),
    (
        "MINIMALmigration: {source: {endpoint: 'http://a', credentials: {secretRef: {name: x}}}}",
        "spec.migration.source.credentials: Secret \"x\" is missing",
    ),
    (
        "MINIMALmigration: {parallelism: 0}",
        "spec.migration.parallelism: must be from 1 to 64",
    ),
    (
        "MINIMALmigration: {id: Not_A_Name}",
        "spec.migration.id: \"Not_A_Name\" is no name",
    ),
    (
        "MINIMALsecurity: {runAsUser: 0}",
        "spec.security: ids must be 1 or more",
    ),
    (
        "MINIMALsecurity: {profile: openshift, fsGroup: 5}",
        "spec.security: profile openshift takes the ids",
    ),
    (
        "MINIMALpod: {terminationGracePeriodSeconds: 0}",
        "spec.pod.terminationGracePeriodSeconds: ",
    ),
    (
        "MINIMALservice: {compatibility: [{name: files}]}",
        "spec.service.compatibility[0].name: \"files\" is there already",
    ),
    (
        "MINIMALservice: {compatibility: [{name: old}, {name: old, port: 80}]}",
        "spec.service.compatibility[1].name: \"old\" is there already",
    ),
    (
        "MINIMALmonitoring: {serviceMonitor: {enabled: true, interval: soon}}",
        "spec.monitoring.serviceMonitor.interval: \"soon\" is no time",
    ),
    (
        "MINIMALmonitoring: {prometheusRule: {enabled: true, capacityWarnPercent: 95}}",
        "spec.monitoring.prometheusRule.capacityWarnPercent: must be from 1 to 94",
    ),
    (
        "MINIMALsite: {name: 'Lyon 2'}",
        "spec.site.name: \"Lyon 2\" is no name of a site",
    ),
    (
        "MINIMALsite: {name: lyon, endpoint: 'https://u:p@files.example'}",
        "spec.site.endpoint: holds credentials",
    ),
    (
        "MINIMALplacement: {priorityClassName: Very_High}",
        "spec.placement.priorityClassName: ",
    ),
    (
        "MINIMALpod: {imagePullSecrets: [{name: 'a b'}]}",
        "spec.pod.imagePullSecrets[0].name: ",
    ),
];

#[test]
fn refuses_contradictions_in_one_line_that_names_the_cure() {
    for (spec, expected) in REFUSED {
        let error = check(&spec.replace("MINIMAL", MINIMAL))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(expected),
            "{spec}\n  got:  {error}\n  want: {expected}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn names_must_leave_room_for_what_is_appended() {
    for bad in ["", "Upper", "a.b", &"x".repeat(41)] {
        let mut filestore = manifest(MINIMAL).filestore;
        filestore.metadata.name = Some(bad.to_owned());
        let error = validate(&filestore, &Secrets::default()).unwrap_err();
        assert_eq!(&*error.field, "metadata.name", "{bad}");
    }
}
