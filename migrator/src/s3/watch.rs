//! Looking whether a store that wants to be left alone is still there.
//!
//! MinIO answers what it still reads while it shuts down with 503 and `Retry-After: 60`, and is back
//! after seconds. No request is sent before the time is over; but as soon as nobody takes connections
//! any more, the process that wished for it is gone, and its wish with it.

use std::io::ErrorKind;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::pace::Gate;

/// Shorter wishes are not worth a look.
const LEAST: Duration = Duration::from_secs(2);
/// Time between two looks.
const EVERY: Duration = Duration::from_millis(500);

/// Begins to look, where the store wants to be left alone for long and nobody looks yet.
pub(super) fn watch(gate: &Arc<Gate>, host: &str, port: u16) {
    if gate.watch(LEAST) {
        tokio::spawn(look(Arc::downgrade(gate), host.to_owned(), port));
    }
}

/// Looks until the time is over or the store is gone.
async fn look(gate: Weak<Gate>, host: String, port: u16) {
    loop {
        let left = gate.upgrade().map(|gate| gate.ready_in());
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            break;
        };
        tokio::time::sleep(EVERY.min(left)).await;
        let look = TcpStream::connect((host.as_str(), port));
        // One that takes long to take a connection is busy, and that it said.
        if let Ok(Err(error)) = tokio::time::timeout(LEAST, look).await
            && matches!(
                error.kind(),
                ErrorKind::ConnectionRefused
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable
            )
        {
            tracing::debug!(host, port, "The store that asked for patience is gone");
            end(&gate, true);
            return;
        }
    }
    end(&gate, false);
}

fn end(gate: &Weak<Gate>, gone: bool) {
    if let Some(gate) = gate.upgrade() {
        gate.unwatch(gone);
    }
}
