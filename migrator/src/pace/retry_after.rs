//! `Retry-After` (RFC 9110, 10.2.3): seconds, or an HTTP date.

use std::time::Duration;

use jiff::Timestamp;

/// Longer is not waited: a server that wants an hour is asked again before.
const MOST: Duration = Duration::from_mins(2);

/// How long to wait. A date is taken against the server's own clock, its `Date` header, where it
/// gave one.
pub(crate) fn parse(value: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
        // More digits than a number holds are a long time, too.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MOST));
    }
    let until = http_date(value)?;
    let now = date.and_then(http_date).unwrap_or(now);
    let seconds = until.as_second().saturating_sub(now.as_second()).max(0);
    Some(Duration::from_secs(seconds.unsigned_abs()).min(MOST))
}

/// A date of an HTTP header.
pub(crate) fn http_date(text: &str) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(date.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_bounded() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let skewed = Some("Mon, 30 Nov 2026 12:20:00 GMT");
        for (value, date, seconds) in [
            ("3", None, Some(3)),
            (" 0 ", None, Some(0)),
            ("86400", None, Some(120)),
            ("99999999999999999999999999", None, Some(120)),
            ("Mon, 30 Nov 2026 12:00:07 GMT", None, Some(7)),
            ("Mon, 30 Nov 2026 11:00:00 GMT", None, Some(0)),
            ("Mon, 30 Nov 2026 12:20:05 GMT", skewed, Some(5)),
            ("soon", None, None),
            ("-1", None, None),
            ("", None, None),
        ] {
            let parsed = parse(value, date, now);
            assert_eq!(parsed.map(|wait| wait.as_secs()), seconds, "{value:?}");
        }
    }
}
