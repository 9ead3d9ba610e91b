//! What a pod's metrics tell about the volume and about a take-over at work. Pure; the metrics
//! are those of the gateway and of `filestore migrate --admin-addr`.

/// Numbers from a pod; `None` where its metrics do not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How full the volume is, in thousandths.
    pub used_permille: Option<i32>,
    /// How much of what the copy will move is moved, in percent.
    pub copied_percent: Option<i32>,
    /// Objects that the present phase is through with.
    pub objects: Option<i64>,
    /// Objects that the present phase will look at.
    pub objects_expected: Option<i64>,
    /// Bytes that the present phase is through with.
    pub bytes: Option<i64>,
    /// The bulk of the copy is done: a later phase is at work.
    pub past_copy: bool,
    /// The take-over cannot begin: it is still connecting, and something failed.
    pub connecting_fails: bool,
    /// Because a store refuses the keys.
    pub keys_refused: bool,
}

/// Phases after the copy (docs/reference/migrate-output.md).
const LATER: [&str; 7] = [
    "held", "final", "verify", "mark", "recheck", "merge", "reverse",
];

impl Told {
    /// Whether an attempt got further than one before it, which was through with so many objects.
    pub fn is_beyond(&self, through: u64) -> bool {
        let through = i64::try_from(through).unwrap_or(i64::MAX);
        self.past_copy || self.objects.is_some_and(|now| now > through)
    }
}

/// Reads OpenMetrics text.
pub fn read(text: &str) -> Told {
    let value = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(found, _)| *found == name)
            .and_then(|(_, value)| value.trim().parse::<f64>().ok())
    };
    let phase =
        |name: &str| value(&format!("filestore_migrate_phase{{phase=\"{name}\"}}")) == Some(1.0);
    let part = |part: Option<f64>, whole: Option<f64>| {
        let (part, whole) = (part?, whole?);
        (whole > 0.0).then(|| part / whole)
    };
    let size = value("filestore_store_size_bytes");
    let used = size.zip(value("filestore_store_available_bytes"));
    let bytes_expected = value("filestore_migrate_phase_bytes_expected");
    // What was counted before and not planned is known by objects alone, and they are counted when
    // they are listed: before they are copied.
    let ahead = match bytes_expected {
        None => value("filestore_migrate_in_flight").unwrap_or_default(),
        Some(_) => 0.0,
    };
    let objects = value("filestore_migrate_phase_objects_done");
    let objects = objects.map(|listed| (listed - ahead).max(0.0));
    let copied = part(value("filestore_migrate_phase_bytes_done"), bytes_expected)
        .or_else(|| part(objects, value("filestore_migrate_phase_objects_expected")));
    Told {
        used_permille: part(used.map(|(size, available)| size - available), size)
            .map(|used| down(used, 1000.0)),
        copied_percent: copied
            .filter(|_| phase("copy"))
            .map(|copied| down(copied, 100.0)),
        objects: objects.map(whole).filter(|_| phase("copy")),
        objects_expected: value("filestore_migrate_phase_objects_expected")
            .map(whole)
            .filter(|_| phase("copy")),
        bytes: value("filestore_migrate_phase_bytes_done")
            .map(whole)
            .filter(|_| phase("copy")),
        past_copy: LATER.iter().any(|name| phase(name)),
        connecting_fails: phase("connect")
            && value("filestore_migrate_last_error_timestamp_seconds").is_some(),
        keys_refused: phase("connect") && value("filestore_migrate_keys_refused") == Some(1.0),
    }
}

/// What workers of one round tell together: those that run, objects and bytes of those that ended,
/// and how many there are. Shares are about equal: one that nobody heard of yet counts like the
/// others.
pub fn together(running: &[Told], ended: &[(u64, u64)], count: usize) -> Told {
    let small = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let copying: Vec<(i64, i64, i64)> = running
        .iter()
        .filter_map(|told| Some((told.objects?, told.objects_expected?, told.bytes?)))
        .collect();
    let heard = copying.len() + ended.len();
    let connecting_fails = copying.is_empty() && running.iter().any(|told| told.connecting_fails);
    if heard == 0 {
        return Told {
            connecting_fails,
            ..Told::default()
        };
    }
    let over: i64 = ended.iter().map(|(objects, _)| small(*objects)).sum();
    let objects = copying.iter().map(|(objects, ..)| objects).sum::<i64>() + over;
    let known = copying
        .iter()
        .map(|(objects, expected, _)| (*objects).max(*expected))
        .sum::<i64>()
        + over;
    let bytes = copying.iter().map(|(.., bytes)| bytes).sum::<i64>()
        + ended.iter().map(|(_, bytes)| small(*bytes)).sum::<i64>();
    let part = |number: i64, of: usize| number.saturating_mul(small(of as u64));
    let done = part(objects, heard).saturating_mul(100);
    let percent = done.checked_div(part(known, count.max(heard)));
    Told {
        copied_percent: percent.and_then(|percent| i32::try_from(percent.min(100)).ok()),
        objects: Some(objects),
        bytes: Some(bytes),
        connecting_fails,
        ..Told::default()
    }
}

fn whole(value: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "counts of objects and bytes"
    )]
    let whole = value as i64;
    whole
}

/// So many parts of a whole, rounded down: all of them is when everything is done.
fn down(part: f64, whole: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "between 0 and `whole`")]
    let parts = (part.clamp(0.0, 1.0) * whole) as i32;
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_tells_how_full_the_volume_is() {
        let text = "# HELP filestore_store_size_bytes Size.\n\
            filestore_store_size_bytes 1000\nfilestore_store_available_bytes 251\n# EOF\n";
        assert_eq!(read(text).used_permille, Some(749));
        assert_eq!(
            read("filestore_store_size_bytes 0\nfilestore_store_available_bytes 0\n"),
            Told::default()
        );
    }

    #[test]
    fn a_take_over_tells_how_far_it_is() {
        let text = "filestore_migrate_phase{phase=\"copy\"} 1\n\
            filestore_migrate_phase_bytes_done 199\nfilestore_migrate_phase_bytes_expected 200\n";
        assert_eq!(read(text).copied_percent, Some(99));
        let verifying = text.replace("\"copy\"", "\"verify\"");
        assert_eq!(read(&verifying).copied_percent, None);
        // Nobody planned what is compared.
        let text = "filestore_migrate_phase{phase=\"copy\"} 1\n\
            filestore_migrate_phase_bytes_done 7\nfilestore_migrate_phase_objects_done 4\n\
            filestore_migrate_in_flight 1\nfilestore_migrate_phase_objects_expected 4\n";
        let told = read(text);
        assert_eq!(
            (told.copied_percent, told.objects_expected),
            (Some(75), Some(4))
        );
        let text = "filestore_migrate_phase{phase=\"connect\"} 1\n";
        assert!(!read(text).connecting_fails);
        let failing = format!("{text}filestore_migrate_last_error_timestamp_seconds 1796000000\n");
        assert!(read(&failing).connecting_fails);
        assert!(!read(&failing).keys_refused);
        let refused = format!("{failing}filestore_migrate_keys_refused 1\n");
        assert!(read(&refused).connecting_fails && read(&refused).keys_refused);
    }

    #[test]
    fn workers_tell_together() {
        let at = |objects, expected| Told {
            objects: Some(objects),
            objects_expected: Some(expected),
            bytes: Some(objects * 10),
            copied_percent: Some(1),
            ..Told::default()
        };
        let connecting = Told {
            connecting_fails: true,
            ..Told::default()
        };
        // 10 of 100, 50 of 100, and one that ended after 100.
        let told = together(&[at(10, 100), at(50, 100)], &[(100, 5000)], 3);
        assert_eq!(told.copied_percent, Some(53));
        assert_eq!((told.objects, told.bytes), (Some(160), Some(5600)));
        // One that does not tell yet has as much to do as the others.
        let told = together(&[at(50, 100), connecting], &[], 2);
        assert_eq!(
            (told.copied_percent, told.connecting_fails),
            (Some(25), false)
        );
        let told = together(&[connecting, connecting], &[], 2);
        assert_eq!((told.copied_percent, told.connecting_fails), (None, true));
        assert_eq!(together(&[], &[], 2), Told::default());
        // What clients added meanwhile is more than was counted.
        assert_eq!(
            together(&[at(120, 100)], &[(100, 1)], 2).copied_percent,
            Some(100)
        );
        assert_eq!(together(&[], &[(0, 0), (0, 0)], 2).copied_percent, None);
    }
}
