//! S3 server over a Filestore volume.

mod body;
mod ingest;
mod io;

pub use body::file_body;
