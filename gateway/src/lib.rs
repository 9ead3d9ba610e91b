//! S3 server over a Filestore volume.
//!
//! ```text
//! client ─▶ server (accept, threads) ─▶ http (ids, auth guard, metrics) ─▶ s3 ─▶ store
//!                                        body ◀── files ──▶ ingest
//! operator, Prometheus ─▶ admin (/readyz, /metrics)
//! ```

mod access;
mod admin;
mod auth;
mod body;
mod config;
mod context;
mod credentials;
mod host;
mod http;
mod ingest;
mod io;
mod metrics;
mod operations;
pub mod pages;
mod s3;
mod server;
mod tls;

pub use access::{AccessError, AccessSources};
pub use body::file_body;
pub use config::{Config, DEFAULT_REGION, Listen, ListenError};
pub use credentials::{
    CredentialDir, CredentialError, CredentialSources, DEFAULT_KEY_NAMES, KeyPair, Secret,
};
pub use server::{Error, Gateway, serve};
pub use tls::{TlsError, TlsFiles};
