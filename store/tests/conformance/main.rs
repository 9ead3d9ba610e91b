//! What every store must do, whatever the metadata mode and the flush rule.
//!
//! Each case runs on a new volume per variant. Afterwards the volume is opened again and must
//! show the very same buckets, objects and uploads, and the temporary areas must be empty.

#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod concurrency;
mod conditions;
mod listing;
mod listing_hidden;
mod listing_model;
mod multipart;
mod multipart_checksums;
mod multipart_uploads;
mod multipart_versitygw;
mod objects;
mod odd_keys;
mod support;
