//! `filestore up` from outside: the binary, its exit code, its lines and what is on the disk.

#[cfg(test)]
#[path = "up/harness.rs"]
mod harness;

#[cfg(test)]
#[path = "up/bad_input.rs"]
mod bad_input;
#[cfg(test)]
#[path = "up/fresh.rs"]
mod fresh;
#[cfg(test)]
#[path = "up/online.rs"]
mod online;
#[cfg(test)]
#[path = "up/takeover.rs"]
mod takeover;
