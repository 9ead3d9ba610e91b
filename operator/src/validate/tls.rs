//! The certificate that clients are answered with.

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use sha2::{Digest as _, Sha256};

use super::check::dns_subdomain;
use super::{Result, Tls, ValidationError};
use crate::api::TlsSpec;
use crate::secret::{SecretError, Secrets};

/// Key of the Secret with the certificate (Kubernetes, "TLS Secrets").
pub const CERTIFICATE: &str = "tls.crt";

/// Key of the Secret with the private key.
pub const PRIVATE_KEY: &str = "tls.key";

const FIELD: &str = "spec.tls.secretRef";

/// Checks what the gateway would refuse to start with: it would go on with the former certificate,
/// and nobody would know before its next start. Times and names are for clients to judge.
pub(super) fn tls(spec: Option<&TlsSpec>, secrets: &Secrets) -> Result<Option<Tls>> {
    let Some(spec) = spec else { return Ok(None) };
    let secret = &spec.secret_ref.name;
    dns_subdomain(format!("{FIELD}.name"), secret)?;
    let found = read(secret, secrets);
    found
        .map(Some)
        .map_err(|error| ValidationError::secret(FIELD, &error))
}

fn read(secret: &str, secrets: &Secrets) -> std::result::Result<Tls, SecretError> {
    let [certificate, key] = [CERTIFICATE, PRIVATE_KEY].map(|key| secrets.bytes(secret, key));
    let (certificate, key) = (certificate?, key?);
    let wrong = |what: String| SecretError::Certificate {
        secret: secret.to_owned(),
        what,
    };
    let not_pem = |key: &str, error: &pem::Error| {
        wrong(match error {
            pem::Error::NoItemsFound => format!("{key} holds no PEM of its kind"),
            error => format!("{key} is no PEM: {error}"),
        })
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| not_pem(CERTIFICATE, &error))?;
    let Some(leaf) = chain.first().map(|leaf| leaf.to_vec()) else {
        return Err(not_pem(CERTIFICATE, &pem::Error::NoItemsFound));
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| not_pem(PRIVATE_KEY, &error))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        wrong(match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("{PRIVATE_KEY} is not the key of the first certificate in {CERTIFICATE}")
            }
            error => format!("{CERTIFICATE} and {PRIVATE_KEY} cannot be used: {error}"),
        })
    })?;
    let digest = Sha256::digest(certificate);
    Ok(Tls {
        secret: secret.to_owned(),
        certificate: leaf,
        hash: hex::encode(digest.get(..8).unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests;
