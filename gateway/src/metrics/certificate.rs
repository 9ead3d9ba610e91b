//! What is told of the certificate of the S3 port.

use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Registered where the port speaks TLS only: a certificate that is not there never ends.
#[derive(Debug, Default)]
pub(crate) struct CertificateMetrics {
    not_after: Gauge<u64, AtomicU64>,
    failures: Counter,
    current: Gauge,
}

impl CertificateMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let tls = registry.sub_registry_with_prefix("tls");
        tls.register(
            "certificate_not_after_timestamp_seconds",
            "When the certificate of the S3 port ends, in seconds since 1970",
            self.not_after.clone(),
        );
        tls.register(
            "reload_failures",
            "Looks at the certificate's files that found them unusable",
            self.failures.clone(),
        );
        tls.register(
            "last_reload_successful",
            "0 while the certificate's files are unusable and an older pair is in force",
            self.current.clone(),
        );
    }

    /// The files were read.
    pub(crate) fn read(&self, not_after: SystemTime) {
        let seconds = not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.not_after.set(seconds.as_secs());
        self.current.set(1);
    }

    /// They could not.
    pub(crate) fn unreadable(&self) {
        self.failures.inc();
        self.current.set(0);
    }
}
