//! What belongs to one request and has to cross s3s: carried beside the task, not through it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::access::Principal;
use crate::operations;

tokio::task_local! {
    static CURRENT: Arc<RequestContext>;
}

/// How files are read and written for a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Files {
    /// The connection and the configuration allow sendfile.
    pub(crate) sendfile: bool,
    /// `--blocking-io`.
    pub(crate) all_on_pool: bool,
}

/// The request being served.
#[derive(Debug)]
pub(crate) struct RequestContext {
    /// `x-amz-request-id`.
    pub(crate) request_id: String,
    /// Whether the connection can send files itself.
    pub(crate) sendfile: bool,
    /// Whether even short file work goes to the blocking pool.
    pub(crate) all_on_pool: bool,
    operation: OnceLock<&'static str>,
    attempt: AtomicUsize,
    more_secrets: AtomicBool,
    failure: OnceLock<&'static str>,
    claimed: Mutex<Option<Principal>>,
    principal: OnceLock<Principal>,
}

impl RequestContext {
    pub(crate) fn new(request_id: String, files: Files) -> Arc<Self> {
        Arc::new(Self {
            request_id,
            sendfile: files.sendfile && !files.all_on_pool,
            all_on_pool: files.all_on_pool,
            operation: OnceLock::new(),
            attempt: AtomicUsize::new(0),
            more_secrets: AtomicBool::new(false),
            failure: OnceLock::new(),
            claimed: Mutex::new(None),
            principal: OnceLock::new(),
        })
    }

    /// Runs `work` as part of this request.
    pub(crate) async fn scope<F: Future>(self: Arc<Self>, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Asks the request that the calling task serves, if it serves one.
    pub(crate) fn with<T>(ask: impl FnOnce(&Self) -> T) -> Option<T> {
        CURRENT.try_with(|context| ask(context)).ok()
    }

    /// Notes and logs a failure on the server's side: its kind, for metrics, and its causes. The
    /// answer says neither.
    pub(crate) fn failed(kind: &'static str, error: &(dyn std::error::Error + 'static)) {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let causes: Vec<String> = causes.map(ToString::to_string).collect();
        let error = causes.join(": ");
        Self::with(|context| {
            context.failure.get_or_init(|| kind);
            tracing::error!(
                request_id = context.request_id,
                operation = context.operation(),
                kind,
                error,
                "Request failed"
            );
        });
    }

    /// Kind of the failure, if there was one.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        self.failure.get().copied()
    }

    /// S3's name of the operation; [`operations::UNKNOWN`] when the request was refused before
    /// that was known.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation.get().copied().unwrap_or(operations::UNKNOWN)
    }

    pub(crate) fn set_operation(&self, name: &str) {
        self.operation.get_or_init(|| operations::label(name));
    }

    /// Which secret of the access key is being tried, from 0.
    pub(crate) fn attempt(&self) -> usize {
        self.attempt.load(Ordering::Relaxed)
    }

    pub(crate) fn set_more_secrets(&self, more: bool) {
        self.more_secrets.store(more, Ordering::Relaxed);
    }

    /// Who the request's access key belongs to; nobody has verified the signature yet.
    pub(crate) fn set_claimed(&self, principal: Principal) {
        *self.claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some(principal);
    }

    /// The signature is that of the access key.
    pub(crate) fn set_principal_as_claimed(&self) {
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(principal) = &*claimed {
            self.principal.get_or_init(|| principal.clone());
        }
    }

    /// Who signed the request, once that is verified.
    pub(crate) fn principal(&self) -> Option<Principal> {
        self.principal.get().cloned()
    }

    /// Goes to the access key's next secret; `false` when there is none.
    pub(crate) fn next_secret(&self) -> bool {
        let more = self.more_secrets.swap(false, Ordering::Relaxed);
        if more {
            self.attempt.fetch_add(1, Ordering::Relaxed);
        }
        more
    }
}

/// Request ids: 16 upper-case hex digits as S3's, unique while the process lives and random
/// between processes.
#[derive(Debug)]
pub(crate) struct RequestIds {
    seed: u64,
    count: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new() -> Self {
        let (seed, _) = uuid::Uuid::new_v4().as_u64_pair();
        Self {
            seed,
            count: AtomicU64::new(0),
        }
    }

    pub(crate) fn next(&self) -> String {
        // Odd multiplier: a permutation of the counter's 64 bits, so ids do not repeat.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let id = count.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.seed;
        format!("{id:016X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_look_like_those_of_s3_and_differ() {
        let ids = RequestIds::new();
        let some: std::collections::HashSet<String> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(some.len(), 1000);
        for id in some {
            assert!(
                id.len() == 16
                    && id
                        .bytes()
                        .all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
            );
        }
    }

    #[tokio::test]
    async fn secrets_are_tried_in_turn() {
        let context = RequestContext::new("id".to_owned(), Files::default());
        assert!(!context.next_secret());

        let inner = Arc::clone(&context);
        inner
            .scope(async { RequestContext::with(|context| context.set_more_secrets(true)) })
            .await
            .unwrap();

        assert!(context.next_secret());
        assert_eq!(context.attempt(), 1);
        assert!(!context.next_secret());
        assert!(RequestContext::with(|_| ()).is_none());
    }
}
