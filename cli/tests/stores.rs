//! `filestore migrate` against stores that misbehave: a scripted S3 server in this process.

// Helpers are test code to clippy only where they say so.
#![cfg(test)]

#[path = "stores/harness.rs"]
mod harness;
#[path = "stores/keys.rs"]
mod keys;
