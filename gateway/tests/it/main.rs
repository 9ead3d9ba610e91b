//! The gateway from outside: raw sockets, hand-made signatures.

#[cfg(test)]
mod access;
mod admin;
mod auth;
// Helpers are test code to clippy only where they say so.
#[cfg(test)]
mod client;
mod cut;
mod files;
#[cfg(test)]
mod hand_over;
#[cfg(test)]
mod harness;
mod http;
mod quota;
#[cfg(test)]
mod sigv4;
