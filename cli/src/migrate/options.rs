//! The flags of the work between the two sides.

use std::time::Duration;

use bytesize::ByteSize;
use filestore_migrator::RunOptions;
use filestore_migrator::pass::Durability;

/// `--durability`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum When {
    /// Every few seconds and at the end of every pass.
    Durable,
    /// Once at the end of the final pass.
    Relaxed,
}

impl From<When> for Durability {
    fn from(when: When) -> Self {
        match when {
            When::Durable => Self::Durable,
            When::Relaxed => Self::Relaxed,
        }
    }
}

/// `500k`, `10MiB`, with or without `/s`.
fn bytes_a_second(text: &str) -> Result<u64, String> {
    let text = text.trim_end_matches("/s");
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) | Err(_) => Err("give bytes a second, such as 500k or 10MiB".into()),
        Ok(ByteSize(bytes)) => Ok(bytes),
    }
}

/// `90s`, `1h30m`, or a number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let spelled = || Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok();
    seconds
        .or_else(spelled)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "give a time such as 90s or 1h30m".into())
}

/// A name that is a directory's as well.
pub(super) fn migration_id(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let whole = !text.is_empty() && text.len() <= 128 && !text.starts_with('.');
    if whole && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("give up to 128 letters, digits, `-`, `_` and `.`, no `.` in front".into())
}

/// How to go about it.
#[derive(Debug, clap::Args)]
pub(super) struct Tuning {
    /// Objects in flight.
    #[arg(
        long,
        env = "FILESTORE_PARALLEL",
        default_value_t = 16,
        value_name = "N"
    )]
    parallel: usize,
    /// When copied objects are flushed to the disk of a volume: every few seconds, or once at the
    /// end of the final pass.
    #[arg(
        long,
        env = "FILESTORE_DURABILITY",
        value_enum,
        default_value_t = When::Durable,
        value_name = "WHEN"
    )]
    durability: When,
    /// Requests a second to each side, at most.
    #[arg(
        long,
        env = "FILESTORE_RATE",
        value_parser = clap::value_parser!(u32).range(1..),
        value_name = "REQUESTS"
    )]
    rate: Option<u32>,
    /// Bytes of objects a second to read from the source, at most: 500k, 10MiB.
    #[arg(long, env = "FILESTORE_BANDWIDTH", value_parser = bytes_a_second, value_name = "BYTES")]
    bandwidth: Option<u64>,
    /// Stop after this time, 90s or 1h30m, although there is more to do; a rerun goes on.
    #[arg(long, env = "FILESTORE_DEADLINE", value_parser = duration, value_name = "DURATION")]
    deadline: Option<Duration>,
    /// Seconds to wait for a store that does not answer.
    #[arg(
        long,
        env = "FILESTORE_WAIT",
        default_value_t = 900,
        value_name = "SECONDS"
    )]
    wait: u64,
    /// Seconds that a name must be unknown before the source counts as absent (`run`).
    #[arg(
        long,
        env = "FILESTORE_ABSENT_AFTER",
        default_value_t = 10,
        value_name = "SECONDS"
    )]
    absent_after: u64,
    /// Seconds that the comparison after cut-over may take (`run`).
    #[arg(
        long,
        env = "FILESTORE_RECHECK",
        default_value_t = 30,
        value_name = "SECONDS"
    )]
    recheck: u64,
    /// Names the migration; chosen by the program otherwise.
    #[arg(long, env = "FILESTORE_MIGRATION_ID", value_parser = migration_id, value_name = "ID")]
    id: Option<String>,
    /// Access key that owns new buckets.
    #[arg(long, env = "FILESTORE_OWNER", value_name = "ACCESS_KEY")]
    owner: Option<String>,
    /// Succeed although current objects cannot be carried; they are listed.
    #[arg(long, env = "FILESTORE_ACCEPT_LOSS")]
    accept_loss: bool,
    /// Succeed although the list of what stays behind is the one with this hash, which `plan`
    /// prints; refuse when it is another list.
    #[arg(long, env = "FILESTORE_ACCEPT", value_name = "HASH")]
    accept: Option<String>,
    /// Who accepted that; recorded in the marker.
    #[arg(long, env = "FILESTORE_ACCEPTED_BY", value_name = "NAME")]
    accepted_by: Option<String>,
    /// Refuse when versions or delete markers would stay behind, or nobody may look whether there are any.
    #[arg(long, env = "FILESTORE_FAIL_ON_VERSIONS")]
    fail_on_versions: bool,
    /// Let `final` delete objects that were on the target before the migration.
    #[arg(long)]
    delete_extraneous: bool,
    /// Refuse to delete more objects than this.
    #[arg(long, value_name = "N")]
    max_delete: Option<u64>,
}

impl Tuning {
    pub(super) fn apply(self, options: RunOptions) -> RunOptions {
        RunOptions {
            run_id: self.id,
            owner: self.owner.unwrap_or(options.owner),
            parallel: self.parallel,
            durability: self.durability.into(),
            rate: self.rate,
            bandwidth: self.bandwidth,
            deadline: self.deadline,
            wait: Duration::from_secs(self.wait),
            absent_after: Duration::from_secs(self.absent_after),
            recheck: Duration::from_secs(self.recheck),
            accept_loss: self.accept_loss,
            accept: self.accept,
            accepted_by: self.accepted_by,
            fail_on_versions: self.fail_on_versions,
            delete_extraneous: self.delete_extraneous,
            max_delete: self.max_delete,
            ..options
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("10MiB", Some(10 << 20)),
            ("10MiB/s", Some(10 << 20)),
            // As in Kubernetes.
            ("10Mi", Some(10 << 20)),
            ("20G", Some(20_000_000_000)),
            ("500k", Some(500_000)),
            ("1.5 GB", Some(1_500_000_000)),
            ("4096", Some(4096)),
            ("0", None),
            ("fast", None),
            ("-1", None),
        ] {
            assert_eq!(bytes_a_second(text).ok(), bytes, "{text}");
        }
    }

    #[test]
    fn ids_are_names_of_directories() {
        for id in ["files-1", "run-20261130T174015Z", "a.b_c", "7"] {
            assert_eq!(migration_id(id).as_deref(), Ok(id));
        }
        for text in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a b",
            "é",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(migration_id(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("1h30m", Some(5400)),
            ("PT2H", Some(7200)),
            ("0s", None),
            ("-5s", None),
            ("soon", None),
        ] {
            let read = duration(text).ok();
            assert_eq!(read.map(|read| read.as_secs()), seconds, "{text}");
        }
    }
}
