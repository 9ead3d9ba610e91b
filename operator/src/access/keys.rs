//! Pairs of keys in force: the present one, and former ones until their end.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A pair of access key and secret key. Has no `Debug`: it must not get into a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pair {
    /// Access key.
    pub(crate) access_key: String,
    /// Secret key.
    pub(crate) secret_key: String,
}

/// A pair in force.
#[derive(Clone)]
pub(super) struct Held {
    /// The pair.
    pub(super) pair: Pair,
    /// Until when; `None` = the present pair.
    pub(super) end: Option<Timestamp>,
}

impl Held {
    /// Pairs with their ends, as far as these are known.
    pub(super) fn all(pairs: Vec<Pair>, ends: &[Option<Timestamp>]) -> Vec<Self> {
        let ends = ends.iter().copied().chain(std::iter::repeat(None));
        pairs
            .into_iter()
            .zip(ends)
            .map(|(pair, end)| Self { pair, end })
            .collect()
    }
}

/// What is in force when `had` was: the present pair first, then former ones.
///
/// `present` is the pair that the Secret has now; `None` = it has none that can be used, then the
/// one that was present stays so. A pair that was present until now is valid until `end`, and no
/// former one longer: an overlap that becomes shorter is so for all of them.
pub(super) fn after(
    had: &[Held],
    present: Option<Pair>,
    end: Timestamp,
    now: Timestamp,
) -> Vec<Held> {
    let stays = || had.iter().find(|held| held.end.is_none());
    let first = present.or_else(|| stays().map(|held| held.pair.clone()));
    let mut keys: Vec<Held> = first
        .into_iter()
        .map(|pair| Held { pair, end: None })
        .collect();
    for held in had {
        let end = held.end.unwrap_or(end).min(end);
        if end > now && !keys.iter().any(|known| known.pair == held.pair) {
            keys.push(Held {
                pair: held.pair.clone(),
                end: Some(end),
            });
        }
    }
    keys
}
