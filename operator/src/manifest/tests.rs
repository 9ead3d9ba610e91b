use super::*;

const GOOD: &str = "\
# a comment
---
apiVersion: v1
kind: Secret
metadata: {name: root}
data: {root-user: cnlheA==}
stringData:
  root-password: Ab3dEf6hIj9k
---
apiVersion: filestore.ryax.tech/v1alpha1
kind: Filestore
metadata:
  name: files
spec:
  credentials: {secretRef: {name: root}}
  storage: {size: 20Gi}
";

fn refuse(text: &str) -> String {
    let error = Manifest::parse("m.yaml", text).unwrap_err().to_string();
    assert!(!error.contains('\n'), "more than one line: {error}");
    error
}

#[test]
fn reads_a_filestore_and_its_secrets() {
    let manifest = Manifest::parse("m.yaml", GOOD).unwrap();

    assert_eq!(manifest.filestore.metadata.name.as_deref(), Some("files"));
    assert_eq!(
        manifest.filestore.spec.storage.size.as_deref(),
        Some("20Gi")
    );
    assert_eq!(manifest.secrets.value("root", "root-user"), Ok("ryax"));
    assert_eq!(
        manifest.secrets.value("root", "root-password"),
        Ok("Ab3dEf6hIj9k")
    );
}

#[test]
fn refuses_with_file_line_and_field() {
    let cases = [
        (
            "  storage: {size: 20Gi}",
            "  storage: {sise: 20Gi}",
            "m.yaml:16: spec.storage.sise: ",
        ),
        (
            "  storage: {size: 20Gi}",
            "  storage: 20Gi",
            "m.yaml:16: spec.storage: ",
        ),
        (
            "  storage: {size: 20Gi}",
            "  storage: {size: 20Gi}\n  suspend: maybe",
            "m.yaml:17: spec.suspend: ",
        ),
        (
            "  storage: {size: 20Gi}",
            "  storage: {size: 20Gi}\n  engine: minio",
            "m.yaml:17: spec.engine: ",
        ),
        (
            "  storage: {size: 20Gi}",
            "  storage: {size: [1]}",
            "m.yaml:16: spec.storage.size: ",
        ),
        (
            "  name: files",
            "  nmae: files",
            "m.yaml:13: metadata.nmae: ",
        ),
        ("  root-password:", "  root-user: [", "m.yaml:"),
        ("cnlheA==", "!!", "m.yaml:6: "),
        (
            "kind: Secret\n",
            "kind: Secret\nkid: x\n",
            "m.yaml:5: kid: ",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = refuse(&GOOD.replacen(from, to, 1));
        assert!(error.starts_with(expected), "{to}: {error}");
    }
}

#[test]
fn refuses_what_does_not_belong_in_the_file() {
    let pod = format!("{GOOD}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\n");
    assert!(
        refuse(&pod).starts_with("m.yaml:18: Pod of v1 does not belong here"),
        "{}",
        refuse(&pod)
    );

    let twice = format!("{GOOD}---\n{}", GOOD.rsplit_once("---\n").unwrap().1);
    assert!(
        refuse(&twice).contains("a second Filestore"),
        "{}",
        refuse(&twice)
    );

    let version = GOOD.replace("v1alpha1", "v9");
    assert!(
        refuse(&version).contains("\"filestore.ryax.tech/v9\" is not known"),
        "{}",
        refuse(&version)
    );

    let namespace = GOOD
        .replace("{name: root}\ndata", "{name: root, namespace: a}\ndata")
        .replace("  name: files", "  name: files\n  namespace: b");
    assert!(
        refuse(&namespace).contains("put both in one namespace"),
        "{}",
        refuse(&namespace)
    );

    assert!(refuse("").contains("no Filestore in the file"));
    assert!(refuse("just text").starts_with("m.yaml:1: "));
}
