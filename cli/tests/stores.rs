//! `filestore migrate` against stores that misbehave: a scripted S3 server in this process.

// Helpers are test code to clippy only where they say so.
#![cfg(test)]

#[path = "stores/again.rs"]
mod again;
#[path = "stores/errors.rs"]
mod errors;
#[path = "stores/fidelity.rs"]
mod fidelity;
#[path = "stores/harness.rs"]
mod harness;
#[path = "stores/keys.rs"]
mod keys;
#[path = "stores/load.rs"]
mod load;
#[path = "stores/passes.rs"]
mod passes;
#[path = "stores/plan.rs"]
mod plan;
#[path = "stores/scale.rs"]
mod scale;
#[path = "stores/verify.rs"]
mod verify;
