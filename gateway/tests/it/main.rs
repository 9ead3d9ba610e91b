//! The gateway from outside: raw sockets, hand-made signatures.

mod admin;
mod auth;
mod cut;
mod files;
mod harness;
mod http;
mod sigv4;
