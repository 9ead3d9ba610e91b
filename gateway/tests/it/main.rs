//! The gateway from outside: raw sockets, hand-made signatures.

mod admin;
mod auth;
mod cut;
mod files;
// Helpers are test code to clippy only where they say so.
#[cfg(test)]
mod harness;
mod http;
#[cfg(test)]
mod sigv4;
