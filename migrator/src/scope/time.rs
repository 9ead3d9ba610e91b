//! A window of Last-Modified.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::{Error, Kind, Result};

/// Objects modified at or after `newer` and before `older`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// At or after.
    pub newer: Option<SystemTime>,
    /// Before.
    pub older: Option<SystemTime>,
}

impl Window {
    /// Whether a time lies in it.
    pub fn contains(&self, time: SystemTime) -> bool {
        self.newer.is_none_or(|newer| time >= newer) && self.older.is_none_or(|older| time < older)
    }

    /// Whether it holds every time that `other` holds.
    pub fn covers(&self, other: &Self) -> bool {
        let begins = self
            .newer
            .is_none_or(|ours| other.newer.is_some_and(|theirs| ours <= theirs));
        let ends = self
            .older
            .is_none_or(|ours| other.older.is_some_and(|theirs| ours >= theirs));
        begins && ends
    }

    /// Whether every time lies in it.
    pub fn is_everything(&self) -> bool {
        self.newer.is_none() && self.older.is_none()
    }
}

/// Reads an instant: RFC 3339, a date (its begin in UTC), or an age before `now` (`90s`, `15m`,
/// `12h`, `7d`, `2w`). Without `now` an age is refused: it would be another instant at every start.
///
/// # Errors
/// [`Kind::Usage`].
pub(super) fn instant(text: &str, now: Option<SystemTime>) -> Result<SystemTime> {
    let refused = |message: &str| Error::new(Kind::Usage, "read", text, message);
    let form = || {
        refused("is no time").with_cure("use 2026-11-30T12:00:00Z, 2026-11-30 or an age like 7d")
    };
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant.into());
    }
    if let Ok(date) = text.parse::<Date>() {
        let begin = date.to_zoned(TimeZone::UTC).map_err(|_| form())?;
        return Ok(begin.timestamp().into());
    }
    let seconds: u64 = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        Some('w') => 7 * 86_400,
        _ => return Err(form()),
    };
    let count: u64 = text
        .get(..text.len() - 1)
        .and_then(|count| count.parse().ok())
        .ok_or_else(form)?;
    let Some(now) = now else {
        return Err(refused("an age is another instant at every start")
            .with_cure("give the instant itself"));
    };
    count
        .checked_mul(seconds)
        .and_then(|age| now.checked_sub(Duration::from_secs(age)))
        .ok_or_else(form)
}

/// The instant in RFC 3339, to the nanosecond.
pub(super) fn text(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_instants_dates_or_ages() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // 2026-11-30T00:00:00Z
        let day = 1_795_996_800;
        for (given, expected) in [
            ("2026-11-30T00:00:00Z", day),
            ("2026-11-30T01:00:00+01:00", day),
            ("2026-11-30", day),
            ("7d", day - 7 * 86_400),
            ("2w", day - 14 * 86_400),
            ("36h", day - 36 * 3600),
            ("15m", day - 900),
            ("90s", day - 90),
        ] {
            assert_eq!(
                instant(given, Some(at(day))).unwrap(),
                at(expected),
                "{given}"
            );
        }
        for bad in [
            "",
            "7",
            "d",
            "-7d",
            "7y",
            "yesterday",
            "é",
            "99999999999999w",
        ] {
            let error = instant(bad, Some(at(day))).unwrap_err();
            assert_eq!(error.kind, Kind::Usage, "{bad}");
        }
        assert!(instant("7d", None).is_err());
        assert_eq!(instant(&text(at(day)), None).unwrap(), at(day));
    }

    #[test]
    fn two_windows_meet_without_gap_or_overlap() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let newer = Window {
            newer: Some(at(5)),
            older: None,
        };
        let older = Window {
            newer: None,
            older: Some(at(5)),
        };
        for seconds in 4..7 {
            assert_ne!(newer.contains(at(seconds)), older.contains(at(seconds)));
        }
        assert!(Window::default().covers(&newer) && !newer.covers(&Window::default()));
        assert!(newer.covers(&Window {
            newer: Some(at(6)),
            older: None
        }));
        assert!(!newer.covers(&older));
    }
}
