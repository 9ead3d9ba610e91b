//! What a `stat` says, and times as nanoseconds.

use rustix::fs::{FileType, Stat};

/// File type of a `stat`.
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Size of a `stat` in bytes.
pub(crate) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Modification time of a `stat`, nanoseconds since 1970.
pub(crate) fn mtime_ns(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// Modification time of a `stat`.
pub(crate) fn mtime(stat: &Stat) -> std::time::SystemTime {
    time_from_ns(mtime_ns(stat))
}

/// Time from nanoseconds since 1970; times out of range become 1970.
pub(crate) fn time_from_ns(ns: i128) -> std::time::SystemTime {
    let magnitude = u64::try_from(ns.unsigned_abs()).unwrap_or(0);
    let offset = std::time::Duration::from_nanos(magnitude);
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    if ns < 0 {
        epoch.checked_sub(offset).unwrap_or(epoch)
    } else {
        epoch.checked_add(offset).unwrap_or(epoch)
    }
}

/// Nanoseconds since 1970 of a time.
pub(crate) fn ns_of(time: std::time::SystemTime) -> i128 {
    let signed = |d: std::time::Duration| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(std::time::SystemTime::UNIX_EPOCH) {
        Ok(after) => signed(after),
        Err(before) => -signed(before.duration()),
    }
}
