//! The `filestore` binary.

fn main() {}
