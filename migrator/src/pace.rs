//! How fast a store is asked: how many requests at once, how many a second, how many bytes a
//! second, and what to do when one fails.
//!
//! ```text
//! request ──▶ gate (async) ──▶ store ──▶ what it answered
//!               │    ▲                       │
//!               ▼    │ limit                 ▼
//!             tokens aimd ◀────────────── signal        retry: again? after which pause?
//! ```
//!
//! Everything but the gate is pure: time comes in as a [`std::time::Duration`] since some beginning.

pub(crate) mod aimd;
pub(crate) mod gate;
pub(crate) mod retry;
pub(crate) mod retry_after;
pub(crate) mod tokens;

pub use tokens::Bandwidth;

pub(crate) use gate::{Gate, Permit};
