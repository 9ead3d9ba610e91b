//! S3 server over a Filestore volume.

mod body;
mod ingest;
mod io;
mod s3;

pub use body::file_body;
