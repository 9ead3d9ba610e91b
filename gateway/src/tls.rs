//! TLS of the S3 port: certificate and key, read at start and followed while the gateway runs.
//!
//! ```text
//! files ─▶ loaded (parsed, matched) ─▶ Tls (in force, followed) ─▶ handshake of a connection
//! ```

mod handshake;
mod loaded;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use loaded::Loaded;

/// Where the certificate of the S3 port and its key are, both in PEM form (RFC 7468).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and after it those that lead to a known authority.
    pub certificate: PathBuf,
    /// Its private key (PKCS #8, PKCS #1 or SEC 1), without a passphrase.
    pub key: PathBuf,
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A file is no PEM, or holds something else.
    #[error("{}: no {wanted} in PEM form found: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        wanted: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key in {} is not that of the first certificate in {}: give the pair that was made together, the server's certificate before those of its authorities",
        .0.key.display(), .0.certificate.display()
    )]
    Mismatch(TlsFiles),
    /// The certificate or its key is of a kind that is not known, or damaged.
    #[error("{} with the key in {} cannot be used: {reason}", files.certificate.display(), files.key.display())]
    Unusable {
        /// Both.
        files: TlsFiles,
        /// Cause.
        reason: String,
    },
}

/// The certificate in force.
pub(crate) struct Tls {
    files: TlsFiles,
    loaded: RwLock<Arc<Loaded>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files for the first time. Blocks.
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let loaded = Loaded::read(&files)?;
        Ok(Self {
            files,
            loaded: RwLock::new(Arc::new(loaded)),
        })
    }

    /// Reads the files again; returns whether they changed. What is in force stays when that
    /// fails; connections that are open keep what they began with. Blocks.
    pub(crate) fn reload(&self) -> Result<bool, TlsError> {
        let new = Loaded::read(&self.files)?;
        if self.current().same_files(&new) {
            return Ok(false);
        }
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(true)
    }

    /// When the certificate in force ends.
    pub(crate) fn not_after(&self) -> SystemTime {
        self.current().not_after
    }

    fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
