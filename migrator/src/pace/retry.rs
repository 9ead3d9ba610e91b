//! Whether a request that failed is sent again, and after which pause.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::{Error, Kind};

/// Attempts of one request that the server itself answers with a failure (500): it is up, and asking
/// for ever would not change what it says of this object.
const ANSWERED_ATTEMPTS: u32 = 5;
/// Attempts of one request that always meets "too busy", "bad gateway" or a lost connection,
/// although the store answers others meanwhile.
const LOST_ATTEMPTS: u32 = 20;
/// So often at least, however short the patience: a single lost connection says nothing.
const LEAST_ATTEMPTS: u32 = 3;
/// First and longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send it again after this pause.
    Again(Duration),
    /// This request fails; others may not.
    GiveUp,
    /// The whole store did not answer for as long as anybody wanted to wait.
    StoreIsDown,
}

/// How a request has fared so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tried {
    /// Attempts made, the failed one included.
    pub(crate) attempts: u32,
    /// Requests to the store that failed for lack of an answer, since anybody had one.
    pub(crate) unanswered: u32,
    /// Time since the first attempt.
    pub(crate) waited: Duration,
    /// For how long the store has answered nobody; `None` when it answered since.
    pub(crate) down_for: Option<Duration>,
    /// How long a store that does not answer is waited for.
    pub(crate) patience: Duration,
}

/// Decides. Only [`Kind::Down`] is worth another try of the same request.
pub(crate) fn next(error: &Error, tried: Tried) -> Next {
    if error.kind != Kind::Down || error.exhausted {
        return Next::GiveUp;
    }
    let most = if store_is_up(error.status) {
        ANSWERED_ATTEMPTS
    } else if tried.attempts.max(tried.unanswered) < LEAST_ATTEMPTS {
        u32::MAX
    } else if tried.down_for.is_some_and(|down| down >= tried.patience) {
        return Next::StoreIsDown;
    } else if tried.waited >= tried.patience {
        return Next::GiveUp;
    } else if tried.down_for.is_some() {
        u32::MAX
    } else {
        LOST_ATTEMPTS
    };
    if tried.attempts >= most {
        return Next::GiveUp;
    }
    let pause = pause(&error.object, tried.attempts);
    let left = tried
        .patience
        .saturating_sub(tried.down_for.unwrap_or(tried.waited));
    Next::Again(pause.min(left.max(PAUSES.0 / 2)))
}

/// Whether a failure is the store's own word on this request. Not so 429 and 503, by which it says
/// that it cannot look now, 502 and 504, which come from something in front of it, and silence.
fn store_is_up(status: Option<u16>) -> bool {
    !matches!(status, None | Some(408 | 429 | 502 | 503 | 504))
}

/// Growing pauses, spread so that what failed together does not come back together: the same for
/// the same object and attempt, different for others.
pub(crate) fn pause(object: &str, attempt: u32) -> Duration {
    let doubled = PAUSES.0 * 2_u32.saturating_pow(attempt.saturating_sub(1).min(16));
    let mut hasher = DefaultHasher::new();
    (object, attempt).hash(&mut hasher);
    let spread = u32::try_from(hasher.finish() % 500).unwrap_or(0);
    doubled.min(PAUSES.1) * (500 + spread) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: Option<u16>) -> Error {
        let mut error = Error::new(Kind::Down, "get", "b/k", "x");
        error.status = status;
        error
    }

    fn tried(attempts: u32, waited: u64, down_for: Option<u64>) -> Tried {
        Tried {
            attempts,
            unanswered: 0,
            waited: Duration::from_secs(waited),
            down_for: down_for.map(Duration::from_secs),
            patience: Duration::from_mins(10),
        }
    }

    #[test]
    fn the_stores_own_word_on_an_object_is_taken_after_a_few_attempts() {
        let error = failure(Some(500));
        assert!(matches!(next(&error, tried(4, 5, None)), Next::Again(_)));
        assert_eq!(next(&error, tried(5, 5, None)), Next::GiveUp);
        // Even while others meet a store that is down.
        assert_eq!(next(&error, tried(5, 5, Some(900))), Next::GiveUp);
    }

    #[test]
    fn a_restart_of_ten_minutes_is_outlived_and_a_longer_one_ends_everything() {
        for status in [None, Some(502), Some(503), Some(504), Some(429)] {
            let error = failure(status);
            let again = next(&error, tried(300, 599, Some(599)));
            assert!(matches!(again, Next::Again(_)), "{status:?}");
            assert_eq!(
                next(&error, tried(300, 600, Some(600))),
                Next::StoreIsDown,
                "{status:?}"
            );
        }
    }

    #[test]
    fn one_object_does_not_hold_a_store_up_that_answers_others() {
        for status in [None, Some(503)] {
            let error = failure(status);
            assert!(matches!(next(&error, tried(19, 100, None)), Next::Again(_)));
            assert_eq!(next(&error, tried(20, 100, None)), Next::GiveUp);
        }
    }

    #[test]
    fn without_patience_a_lost_connection_is_still_no_outage() {
        let tried = |attempts| Tried {
            patience: Duration::ZERO,
            ..tried(attempts, 0, Some(0))
        };
        assert!(matches!(next(&failure(None), tried(2)), Next::Again(_)));
        assert_eq!(next(&failure(None), tried(3)), Next::StoreIsDown);
        let others_tried = Tried {
            unanswered: 3,
            ..tried(1)
        };
        assert_eq!(next(&failure(None), others_tried), Next::StoreIsDown);
    }

    #[test]
    fn the_last_attempt_comes_when_the_patience_is_over() {
        let tried = |waited, down_for: Option<u64>| Tried {
            patience: Duration::from_secs(2),
            ..tried(12, waited, down_for)
        };
        let pause = |tried| match next(&failure(Some(503)), tried) {
            Next::Again(pause) => pause,
            other => panic!("{other:?}"),
        };
        assert!(pause(tried(1, Some(1))) <= Duration::from_secs(1));
        assert!(pause(tried(1, None)) <= Duration::from_secs(1));
        assert_eq!(
            next(&failure(Some(503)), tried(2, Some(2))),
            Next::StoreIsDown
        );
    }

    #[test]
    fn nothing_else_is_sent_again() {
        for kind in [Kind::Auth, Kind::NotFound, Kind::Unsupported, Kind::Changed] {
            let error = Error::new(kind, "get", "b/k", "x");
            assert_eq!(next(&error, tried(1, 0, None)), Next::GiveUp, "{kind:?}");
        }
    }

    #[test]
    fn pauses_grow_to_a_bound_and_differ_between_objects() {
        let pauses: Vec<_> = (1..30).map(|attempt| pause("b/k", attempt)).collect();
        assert!(pauses[0] >= Duration::from_millis(100) && pauses[0] < Duration::from_millis(200));
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(10)));
        assert!(pauses[28] >= Duration::from_secs(5));
        let others: std::collections::BTreeSet<_> =
            (0..100).map(|n| pause(&format!("b/{n}"), 3)).collect();
        assert!(others.len() > 80, "{}", others.len());
    }
}
