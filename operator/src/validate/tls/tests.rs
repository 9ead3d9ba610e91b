use std::collections::BTreeMap;

use crate::manifest::Manifest;
use crate::secret::Secrets;
use crate::validate::{CERTIFICATE, PRIVATE_KEY, Tls, validate};

const BUNDLED: &str = include_str!("../../../tests/golden/tls.yaml");
const OTHER: &str = include_str!("../../../tests/golden/tls-versitygw.yaml");

/// Keys of the Secret and what they hold.
type Values<'a> = &'a [(&'a str, Vec<u8>)];

fn manifest() -> Manifest {
    Manifest::parse("tls.yaml", BUNDLED).unwrap()
}

/// A value of the other certificate's Secret.
fn other(key: &str) -> Vec<u8> {
    let secrets = Manifest::parse("o", OTHER).unwrap().secrets;
    secrets.bytes("old-tls", key).unwrap().to_vec()
}

fn own(key: &str) -> Vec<u8> {
    manifest().secrets.bytes("files-tls", key).unwrap().to_vec()
}

/// What is made of this Secret.
fn check(values: Values<'_>) -> Result<Tls, String> {
    let mut manifest = manifest();
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    manifest
        .secrets
        .insert("files-tls".into(), values.collect::<BTreeMap<_, _>>());
    let checked = validate(&manifest.filestore, &manifest.secrets);
    checked
        .map(|filestore| filestore.tls.unwrap())
        .map_err(|error| error.to_string())
}

#[test]
fn a_certificate_with_its_key_is_taken_and_named_by_its_content() {
    let pair = [
        (CERTIFICATE, own(CERTIFICATE)),
        (PRIVATE_KEY, own(PRIVATE_KEY)),
    ];
    let tls = check(&pair).unwrap();
    assert_eq!(tls.secret, "files-tls");
    // DER: a sequence of more than 255 bytes (X.690, 8.1.3.5).
    assert_eq!(tls.certificate.get(..2), Some(&[0x30, 0x82][..]));
    // What is behind the first certificate leads to the authority, and counts for the name alone.
    let chain = [own(CERTIFICATE), other(CERTIFICATE)].concat();
    let longer = check(&[(CERTIFICATE, chain), (PRIVATE_KEY, own(PRIVATE_KEY))]).unwrap();
    assert_eq!(longer.certificate, tls.certificate);
    assert_ne!(longer.hash, tls.hash);
    let another = [
        (CERTIFICATE, other(CERTIFICATE)),
        (PRIVATE_KEY, other(PRIVATE_KEY)),
    ];
    assert_ne!(check(&another).unwrap().certificate, tls.certificate);
}

#[test]
fn what_the_gateway_would_refuse_is_refused_with_its_key() {
    let cases: [(Values<'_>, &str); 7] = [
        (
            &[(PRIVATE_KEY, own(PRIVATE_KEY))],
            "Secret \"files-tls\" has no key \"tls.crt\" (it has tls.key)",
        ),
        (
            &[(CERTIFICATE, own(CERTIFICATE))],
            "Secret \"files-tls\" has no key \"tls.key\" (it has tls.crt)",
        ),
        (
            &[
                (CERTIFICATE, b"changeit".to_vec()),
                (PRIVATE_KEY, own(PRIVATE_KEY)),
            ],
            "Secret \"files-tls\": tls.crt holds no PEM of its kind; renew it",
        ),
        (
            &[
                (CERTIFICATE, own(CERTIFICATE)),
                (PRIVATE_KEY, own(CERTIFICATE)),
            ],
            "Secret \"files-tls\": tls.key holds no PEM of its kind",
        ),
        (
            &[
                (
                    CERTIFICATE,
                    b"-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n".to_vec(),
                ),
                (PRIVATE_KEY, own(PRIVATE_KEY)),
            ],
            "Secret \"files-tls\": tls.crt is no PEM: ",
        ),
        (
            &[
                (
                    CERTIFICATE,
                    b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec(),
                ),
                (PRIVATE_KEY, own(PRIVATE_KEY)),
            ],
            "Secret \"files-tls\": tls.crt and tls.key cannot be used: ",
        ),
        (
            &[
                (CERTIFICATE, own(CERTIFICATE)),
                (PRIVATE_KEY, other(PRIVATE_KEY)),
            ],
            "Secret \"files-tls\": tls.key is not the key of the first certificate in tls.crt",
        ),
    ];
    for (values, words) in cases {
        let error = check(values).unwrap_err();
        assert!(
            error.starts_with(&format!("spec.tls.secretRef: {words}")),
            "{error}"
        );
        assert!(!error.contains("MIG"), "{error}");
    }
    let mut manifest = manifest();
    manifest.secrets = Secrets::default();
    let values = [("root-user", "ryax"), ("root-password", "Ab3dEf6hIj9k")];
    let values = values.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
    manifest.secrets.insert("root-keys".into(), values.into());
    let error = validate(&manifest.filestore, &manifest.secrets).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("spec.tls.secretRef: Secret \"files-tls\" is missing"),
        "{error}"
    );
}
