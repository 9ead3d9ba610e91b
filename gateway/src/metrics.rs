//! Every metric of the gateway: names, help and buckets. No label holds a key or text of a
//! client; only what is counted for each bucket has the bucket's name.

mod certificate;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use filestore_store::{BucketUsage, Space};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use certificate::CertificateMetrics;

/// Media type of [`Metrics::encode`]'s text.
pub(crate) const CONTENT_TYPE: &str = crate::pages::OPEN_METRICS;

/// Upper bounds in seconds: small operations take tens of microseconds, large bodies minutes.
const DURATION_BUCKETS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
    30.0, 120.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    code: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BucketLabel {
    bucket: String,
}

type Histograms = Family<OperationLabel, Histogram, fn() -> Histogram>;
type UnsignedGauge = Gauge<u64, AtomicU64>;

fn histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS)
}

/// The gateway's registry and the metrics in it.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Histograms,
    first_bytes: Histograms,
    in_flight: Gauge,
    received: Counter,
    sent: Counter,
    errors: Family<KindLabel, Counter>,
    size: UnsignedGauge,
    available: UnsignedGauge,
    inodes: UnsignedGauge,
    available_inodes: UnsignedGauge,
    users: Gauge,
    access_failures: Counter,
    access_current: Gauge,
    certificate: CertificateMetrics,
    buckets: Buckets,
}

/// What is counted for each bucket.
#[derive(Debug, Default)]
struct Buckets {
    counted: Family<BucketLabel, UnsignedGauge>,
    objects: Family<BucketLabel, UnsignedGauge>,
    size: Family<BucketLabel, UnsignedGauge>,
    quota: Family<BucketLabel, UnsignedGauge>,
    quota_objects: Family<BucketLabel, UnsignedGauge>,
}

/// Everything that [`Metrics::store_error`] is called with.
const ERROR_KINDS: [&str; 5] = ["io", "no_space", "damaged", "volume", "internal"];

impl Metrics {
    /// Registers everything once.
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("filestore"),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            first_bytes: Family::new_with_constructor(histogram),
            in_flight: Gauge::default(),
            received: Counter::default(),
            sent: Counter::default(),
            errors: Family::default(),
            size: UnsignedGauge::default(),
            available: UnsignedGauge::default(),
            inodes: UnsignedGauge::default(),
            available_inodes: UnsignedGauge::default(),
            users: Gauge::default(),
            access_failures: Counter::default(),
            access_current: Gauge::default(),
            certificate: CertificateMetrics::default(),
            buckets: Buckets::default(),
        };
        metrics.register_buckets();
        metrics.register_access();
        metrics.register_requests();
        metrics.register_store();
        metrics.registry.register(
            "build",
            "Version of this binary",
            Info::new([
                ("version", env!("CARGO_PKG_VERSION")),
                (
                    "revision",
                    option_env!("FILESTORE_REVISION").unwrap_or("unknown"),
                ),
            ]),
        );
        metrics
    }

    /// Tells of the certificate, too.
    pub(crate) fn register_certificate(&mut self) {
        self.certificate.register(&mut self.registry);
    }

    /// The certificate of the S3 port.
    pub(crate) fn certificate(&self) -> &CertificateMetrics {
        &self.certificate
    }

    fn register_requests(&mut self) {
        let s3 = self.registry.sub_registry_with_prefix("s3");
        s3.register(
            "requests",
            "S3 requests by operation and HTTP status (499: the client went away before the answer)",
            self.requests.clone(),
        );
        s3.register_with_unit(
            "request_duration",
            "From the request's head to the last byte of the answer",
            Unit::Seconds,
            self.durations.clone(),
        );
        s3.register_with_unit(
            "time_to_first_byte",
            "From the request's head to the answer's head",
            Unit::Seconds,
            self.first_bytes.clone(),
        );
        s3.register(
            "requests_in_flight",
            "Requests whose answer is not complete",
            self.in_flight.clone(),
        );
        s3.register_with_unit(
            "received",
            "Bytes of request bodies",
            Unit::Bytes,
            self.received.clone(),
        );
        s3.register_with_unit(
            "sent",
            "Bytes of response bodies",
            Unit::Bytes,
            self.sent.clone(),
        );
    }

    fn register_access(&mut self) {
        let access = self.registry.sub_registry_with_prefix("access");
        access.register("users", "Users beside root", self.users.clone());
        access.register(
            "reload_failures",
            "Looks at the access files that found them unusable",
            self.access_failures.clone(),
        );
        self.access_current.set(1);
        access.register(
            "last_reload_successful",
            "0 while the access files are unusable and older ones are in force",
            self.access_current.clone(),
        );
    }

    fn register_buckets(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("bucket");
        registry.register(
            "counted",
            "0 until the first count is complete: nothing is refused for a quota before",
            self.buckets.counted.clone(),
        );
        registry.register(
            "objects",
            "Objects in the bucket",
            self.buckets.objects.clone(),
        );
        registry.register_with_unit(
            "size",
            "Size of all objects in the bucket",
            Unit::Bytes,
            self.buckets.size.clone(),
        );
        registry.register_with_unit(
            "quota",
            "What the bucket may hold",
            Unit::Bytes,
            self.buckets.quota.clone(),
        );
        registry.register(
            "quota_objects",
            "Number of objects that the bucket may hold",
            self.buckets.quota_objects.clone(),
        );
    }

    fn register_store(&mut self) {
        // From the start: the first error of a series that was not there yet is no increase, so an
        // alert would miss it.
        for kind in ERROR_KINDS {
            drop(self.errors.get_or_create(&KindLabel { kind }));
        }
        let store = self.registry.sub_registry_with_prefix("store");
        store.register(
            "errors",
            "Requests that failed on the server's side (io, no_space, damaged, volume, internal)",
            self.errors.clone(),
        );
        store.register_with_unit("size", "Size of the volume", Unit::Bytes, self.size.clone());
        store.register_with_unit(
            "available",
            "What may still be written to the volume",
            Unit::Bytes,
            self.available.clone(),
        );
        store.register(
            "inodes",
            "Inodes of the volume, 0 where it does not count them",
            self.inodes.clone(),
        );
        store.register(
            "available_inodes",
            "Inodes left on the volume",
            self.available_inodes.clone(),
        );
    }

    pub(crate) fn begin(&self) {
        self.in_flight.inc();
    }

    pub(crate) fn answered(&self, operation: &'static str, elapsed: Duration) {
        self.first_bytes
            .get_or_create(&OperationLabel { operation })
            .observe(elapsed.as_secs_f64());
    }

    pub(crate) fn end(&self, operation: &'static str, code: u16, elapsed: Duration, sent: u64) {
        self.in_flight.dec();
        self.sent.inc_by(sent);
        let code = u32::from(code);
        self.requests
            .get_or_create(&RequestLabels { operation, code })
            .inc();
        self.durations
            .get_or_create(&OperationLabel { operation })
            .observe(elapsed.as_secs_f64());
    }

    pub(crate) fn store_error(&self, kind: &'static str) {
        self.errors.get_or_create(&KindLabel { kind }).inc();
    }

    pub(crate) fn set_users(&self, users: usize) {
        self.users.set(i64::try_from(users).unwrap_or(i64::MAX));
    }

    /// The access files could be used.
    pub(crate) fn access_read(&self) {
        self.access_current.set(1);
    }

    /// They could not.
    pub(crate) fn access_unreadable(&self) {
        self.access_failures.inc();
        self.access_current.set(0);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.received.inc_by(bytes);
    }

    pub(crate) fn set_space(&self, space: &Space) {
        self.size.set(space.total_bytes);
        self.available.set(space.available_bytes);
        self.inodes.set(space.total_inodes);
        self.available_inodes.set(space.available_inodes);
    }

    /// Takes what is known of each bucket, and forgets buckets that are gone.
    pub(crate) fn set_usage(&self, usage: &[BucketUsage]) {
        let buckets = &self.buckets;
        for family in [
            &buckets.counted,
            &buckets.objects,
            &buckets.size,
            &buckets.quota,
            &buckets.quota_objects,
        ] {
            family.clear();
        }
        for one in usage {
            let set = |family: &Family<BucketLabel, UnsignedGauge>, value: Option<u64>| {
                if let Some(value) = value {
                    let bucket = one.bucket.clone();
                    family.get_or_create(&BucketLabel { bucket }).set(value);
                }
            };
            set(&buckets.counted, Some(u64::from(one.usage.is_some())));
            set(&buckets.objects, one.usage.map(|usage| usage.objects));
            set(&buckets.size, one.usage.map(|usage| usage.bytes));
            set(&buckets.quota, one.quota.bytes);
            set(&buckets.quota_objects, one.quota.objects);
        }
    }

    /// All metrics as text.
    pub(crate) fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use filestore_store::{Quota, Usage};

    use super::*;

    #[test]
    fn names_are_those_of_the_documentation() {
        let metrics = Metrics::new();
        metrics.begin();
        metrics.received(5);
        metrics.answered("PutObject", Duration::from_micros(200));
        metrics.end("PutObject", 200, Duration::from_millis(3), 7);
        metrics.begin();
        metrics.store_error("no_space");
        metrics.set_space(&Space {
            total_bytes: 100,
            available_bytes: 40,
            total_inodes: 10,
            available_inodes: 4,
        });
        metrics.set_usage(&[BucketUsage {
            bucket: "gone".to_owned(),
            usage: None,
            quota: Quota::default(),
        }]);
        metrics.set_usage(&[
            BucketUsage {
                bucket: "a".to_owned(),
                usage: Some(Usage {
                    objects: 2,
                    bytes: 30,
                }),
                quota: Quota {
                    bytes: Some(100),
                    objects: Some(5),
                },
            },
            BucketUsage {
                bucket: "b".to_owned(),
                usage: None,
                quota: Quota::default(),
            },
        ]);

        let text = metrics.encode().unwrap();

        for line in [
            r#"filestore_s3_requests_total{operation="PutObject",code="200"} 1"#,
            r#"filestore_s3_request_duration_seconds_bucket{le="0.0025",operation="PutObject"} 0"#,
            r#"filestore_s3_request_duration_seconds_bucket{le="0.005",operation="PutObject"} 1"#,
            r#"filestore_s3_time_to_first_byte_seconds_count{operation="PutObject"} 1"#,
            "filestore_s3_requests_in_flight 1",
            "filestore_s3_received_bytes_total 5",
            "filestore_s3_sent_bytes_total 7",
            r#"filestore_store_errors_total{kind="no_space"} 1"#,
            r#"filestore_store_errors_total{kind="damaged"} 0"#,
            "filestore_store_size_bytes 100",
            "filestore_store_available_bytes 40",
            "filestore_store_inodes 10",
            "filestore_store_available_inodes 4",
            r#"filestore_bucket_counted{bucket="a"} 1"#,
            r#"filestore_bucket_objects{bucket="a"} 2"#,
            r#"filestore_bucket_size_bytes{bucket="a"} 30"#,
            r#"filestore_bucket_quota_bytes{bucket="a"} 100"#,
            r#"filestore_bucket_quota_objects{bucket="a"} 5"#,
            r#"filestore_bucket_counted{bucket="b"} 0"#,
        ] {
            assert!(text.lines().any(|had| had == line), "{line}\n{text}");
        }
        assert!(text.contains(r#"filestore_build_info{version=""#), "{text}");
        assert!(!text.contains("gone"), "{text}");
        assert!(!text.contains(r#"objects{bucket="b"}"#), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
