//! The flags of the work between the two sides.

use std::time::Duration;

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
    /// Seconds to wait for a store that does not answer.
    #[arg(
        long,
        env = "FILESTORE_WAIT",
        default_value_t = 600,
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
    #[arg(long, env = "FILESTORE_MIGRATION_ID", value_name = "ID")]
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
    /// Refuse when versions or delete markers would stay behind.
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
