//! Turning SIGTERM and SIGINT into one cancellation.

use std::io;
use std::sync::mpsc;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};
pub use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT. The handlers are in place when this
/// returns. Later signals are ignored: whoever drains bounds it by a grace period.
///
/// # Errors
/// The handlers or the thread that waits for them could not be set up.
pub fn on_signal() -> io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let (ready, installed) = mpsc::sync_channel(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let signals = signal(SignalKind::terminate())
                    .and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
                let (mut term, mut interrupt) = match signals {
                    Ok(signals) => signals,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                if ready.send(Ok(())).is_err() {
                    return;
                }
                let name = tokio::select! {
                    _ = term.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                tracing::info!(signal = name, "Shutting down");
                cancelled.cancel();
            });
        })?;
    installed.recv().map_err(io::Error::other)??;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_cancels() {
        let token = on_signal().unwrap();
        assert!(!token.is_cancelled());

        // The process has a handler now, so it survives its own SIGTERM.
        let own = std::process::id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-TERM", &own])
            .status()
            .unwrap();

        assert!(sent.success());
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(token.cancelled());
    }
}
