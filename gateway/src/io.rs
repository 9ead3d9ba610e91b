//! Where file work runs: on the runtime's own thread when it is short, on its blocking pool when
//! it is long or when the file system is known to be slow (`--blocking-io`).

use crate::context::RequestContext;

/// Up to this many bytes a body is read or written on the runtime's thread: below it the hand-over
/// to another thread costs more than the work.
pub(crate) const INLINE_BYTES: u64 = 256 * 1024;

/// Whether even short file work of the request being served goes to the pool.
pub(crate) fn all_on_pool() -> bool {
    RequestContext::with(|context| context.all_on_pool) == Some(true)
}

/// Runs short file work (HEAD, DELETE, opening, publishing a small body).
pub(crate) async fn short<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if all_on_pool() {
        long(work).await
    } else {
        work()
    }
}

/// Runs long file work (listings, completing uploads, copies, large bodies) on the pool.
///
/// The work runs to its end even when the caller goes away.
pub(crate) async fn long<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Blocking tasks are cancelled only while the runtime shuts down.
            Err(_) => std::future::pending().await,
        },
    }
}
