//! What certificate and key files say.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use der::asn1::{GeneralizedTime, UtcTime};
use der::{Decode as _, Reader as _, SliceReader, Tag};
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InconsistentKeys, ServerConfig};
use sha2::{Digest as _, Sha256};

use super::{TlsError, TlsFiles};

/// The one protocol that is spoken (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// A certificate that can be served. Each has its own sessions to resume: none outlives it.
pub(super) struct Loaded {
    pub(super) config: Arc<ServerConfig>,
    pub(super) not_after: SystemTime,
    /// Of both files, to notice changes.
    hash: [u8; 32],
}

impl Loaded {
    pub(super) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let certificate = read(&files.certificate)?;
        let key = read(&files.key)?;
        let hash = Sha256::new()
            .chain_update(certificate.len().to_le_bytes())
            .chain_update(&certificate)
            .chain_update(&key)
            .finalize()
            .into();
        let chain = chain(&files.certificate, &certificate)?;
        let key = private_key(&files.key, &key)?;
        let unusable = |reason: String| TlsError::Unusable {
            files: files.clone(),
            reason,
        };
        let not_after = not_after(&chain).map_err(unusable)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::Mismatch(files.clone())
            }
            error => unusable(error.to_string()),
        })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self {
            config: Arc::new(config),
            not_after,
            hash,
        })
    }

    pub(super) fn same_files(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

fn chain(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |error: &PemError| pem(path, "certificate (BEGIN CERTIFICATE)", error);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let chain = chain.map_err(|error| refused(&error))?;
    if chain.is_empty() {
        return Err(refused(&PemError::NoItemsFound));
    }
    Ok(chain)
}

fn private_key(path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| {
        if contains(bytes, b"BEGIN ENCRYPTED PRIVATE KEY") {
            return TlsError::Pem {
                path: path.to_owned(),
                wanted: "private key without a passphrase",
                reason: "this one is encrypted (openssl pkey takes a passphrase away)".to_owned(),
            };
        }
        pem(path, "private key (BEGIN PRIVATE KEY)", &error)
    })
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn pem(path: &Path, wanted: &'static str, error: &PemError) -> TlsError {
    let reason = match error {
        PemError::NoItemsFound => "nothing of the kind is in the file".to_owned(),
        error => error.to_string(),
    };
    TlsError::Pem {
        path: path.to_owned(),
        wanted,
        reason,
    }
}

/// `notAfter` of the first certificate (RFC 5280, 4.1).
fn not_after(chain: &[CertificateDer<'_>]) -> Result<SystemTime, String> {
    let first = chain.first().map(AsRef::as_ref).unwrap_or_default();
    let parsed = SliceReader::new(first).and_then(|mut reader| reader.sequence(read_not_after));
    parsed.map_err(|error| format!("the certificate cannot be read: {error}"))
}

fn read_not_after(certificate: &mut SliceReader<'_>) -> der::Result<SystemTime> {
    let not_after = certificate.sequence(|to_be_signed| {
        // The version is left out of certificates of version 1.
        if Tag::peek(to_be_signed)?.is_context_specific() {
            skip(to_be_signed)?;
        }
        for _serial_signature_issuer in 0..3 {
            skip(to_be_signed)?;
        }
        let not_after = to_be_signed.sequence(|validity| {
            skip(validity)?;
            if Tag::peek(validity)? == Tag::UtcTime {
                UtcTime::decode(validity).map(|time| time.to_system_time())
            } else {
                GeneralizedTime::decode(validity).map(|time| time.to_system_time())
            }
        })?;
        skip_all(to_be_signed)?;
        Ok::<_, der::Error>(not_after)
    })?;
    skip_all(certificate)?;
    Ok(not_after)
}

fn skip(reader: &mut SliceReader<'_>) -> der::Result<()> {
    reader.tlv_bytes().map(drop)
}

fn skip_all(reader: &mut SliceReader<'_>) -> der::Result<()> {
    while !reader.is_finished() {
        skip(reader)?;
    }
    Ok(())
}
