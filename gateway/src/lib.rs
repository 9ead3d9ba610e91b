//! S3 server over a Filestore volume.
