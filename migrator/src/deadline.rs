//! `--deadline`: a command that stops although there is more to do.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{Error, Kind, Result};

/// Does `work`, which is told to stop when `limit` is over or `cancel` says so.
///
/// # Errors
/// Those of `work`; [`Kind::Deadline`] when it stopped for the limit.
pub(crate) async fn keep<T>(
    limit: Option<Duration>,
    cancel: CancellationToken,
    work: impl AsyncFnOnce(CancellationToken) -> Result<T>,
) -> Result<T> {
    let inner = cancel.child_token();
    // What is done in the end is large.
    let mut work = Box::pin(work(inner.clone()));
    let result = tokio::select! {
        biased;
        result = &mut work => result,
        () = over(limit) => {
            inner.cancel();
            work.await
        }
    };
    let Some(limit) = limit else {
        return result;
    };
    match result {
        Err(error) if error.kind == Kind::Interrupted && !cancel.is_cancelled() => {
            let problem = format!("the deadline of {} s is over", limit.as_secs());
            Err(Error::new(Kind::Deadline, "migrate", "objects", problem)
                .with_cure("run again: what was copied stays"))
        }
        result => result,
    }
}

async fn over(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn until_stopped(token: CancellationToken) -> Result<()> {
        token.cancelled().await;
        Err(Error::new(
            Kind::Interrupted,
            "migrate",
            "objects",
            "stopped",
        ))
    }

    #[tokio::test]
    async fn work_that_stops_for_the_limit_says_so() {
        let limit = Some(Duration::from_millis(1));
        let error = keep(limit, CancellationToken::new(), until_stopped).await;
        assert_eq!(error.unwrap_err().kind, Kind::Deadline);
    }

    #[tokio::test]
    async fn a_signal_stays_a_signal() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let error = keep(Some(Duration::from_mins(1)), cancel, until_stopped).await;
        assert_eq!(error.unwrap_err().kind, Kind::Interrupted);
    }

    #[tokio::test]
    async fn work_that_is_done_in_time_is_not_touched() {
        let limit = Some(Duration::from_mins(1));
        let done = keep(limit, CancellationToken::new(), async |_| Ok(7)).await;
        assert_eq!(done.unwrap(), 7);
    }
}
