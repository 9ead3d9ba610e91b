//! What every migration command is told.

use std::path::PathBuf;
use std::time::Duration;

use crate::pass::Durability;
use crate::reconcile::Prefer;
use crate::source::Tally;
use crate::verify::Mode;
use crate::{Endpoint, Scope, Shard};

/// What to migrate and how.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches, as on the command line"
)]
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The legacy store; `None` = nothing is configured, nothing to migrate.
    pub from: Option<Endpoint>,
    /// The target.
    pub to: Endpoint,
    /// Which objects.
    pub scope: Scope,
    /// Which part of them, where several workers share the work (`copy`, `verify`).
    pub shard: Option<Shard>,
    /// Make buckets that the target does not have.
    pub create_buckets: bool,
    /// Names the run; `None` = the marker's, or a new one.
    pub run_id: Option<String>,
    /// Where marker and manifest go when the target is no volume.
    pub state_dir: Option<PathBuf>,
    /// Access key that becomes the owner of new buckets.
    pub owner: String,
    /// Objects in flight.
    pub parallel: usize,
    /// When what was copied is made to survive power loss.
    pub durability: Durability,
    /// Requests a second to each side; `None` = as many as it bears.
    pub rate: Option<u32>,
    /// Bytes of object bodies a second to read from the source.
    pub bandwidth: Option<u64>,
    /// When to stop although there is more to do; what was done stays.
    pub deadline: Option<Duration>,
    /// How long to wait for a store that does not answer.
    pub wait: Duration,
    /// Whether `run` also waits when its credentials are refused: in a cluster somebody may correct
    /// the Secret meanwhile. Other commands never do.
    pub wait_for_credentials: bool,
    /// How long a name must be unknown before the source counts as absent.
    pub absent_after: Duration,
    /// Bound of the comparison after cut-over.
    pub recheck: Duration,
    /// How closely `run` compares before it writes the marker.
    pub verify: Mode,
    /// Write `cutover` at the end (the caller starts a gateway next); else `verified`.
    pub cutover: bool,
    /// Go on although current objects cannot be carried (they are listed).
    pub accept_loss: bool,
    /// Go on although this list, by its hash, stays behind, and refuse when it is another one.
    pub accept: Option<String>,
    /// Who accepted that, for the marker.
    pub accepted_by: Option<String>,
    /// Refuse when versions or delete markers would stay behind.
    pub fail_on_versions: bool,
    /// How long `plan` may read objects to estimate the time of a copy; nothing else does.
    pub measure: Duration,
    /// Objects that were on the target before the migration may be deleted.
    pub delete_extraneous: bool,
    /// Most deletes.
    pub max_delete: Option<u64>,
    /// `final`: bring the target up to date, then wait until this file holds `go`.
    pub hold_file: Option<PathBuf>,
    /// A store that was rolled back may be taken over again.
    pub again: bool,
    /// Who wins where both stores changed a key after cut-over; `None` = it is listed.
    pub prefer: Option<Prefer>,
}

impl RunOptions {
    /// Options with every default.
    pub fn new(from: Option<Endpoint>, to: Endpoint) -> Self {
        Self {
            from,
            to,
            scope: Scope::default(),
            shard: None,
            create_buckets: true,
            run_id: None,
            state_dir: None,
            owner: "filestore".into(),
            parallel: 16,
            durability: Durability::Durable,
            rate: None,
            bandwidth: None,
            deadline: None,
            wait: Duration::from_mins(15),
            wait_for_credentials: true,
            absent_after: Duration::from_secs(10),
            recheck: Duration::from_secs(30),
            verify: Mode::Listing,
            cutover: true,
            accept_loss: false,
            accept: None,
            accepted_by: None,
            fail_on_versions: false,
            measure: Duration::from_secs(3),
            delete_extraneous: false,
            max_delete: None,
            hold_file: None,
            again: false,
            prefer: None,
        }
    }

    /// Whether all that stays behind may.
    pub fn accepts(&self, tally: &Tally) -> bool {
        self.accept_loss
            || self
                .accept
                .as_ref()
                .is_some_and(|hash| *hash == tally.hash())
    }

    /// Whether another list stays behind than the accepted one.
    pub(crate) fn is_another_list(&self, tally: &Tally) -> bool {
        let accepted = self.accept.as_deref();
        *tally != Tally::default() && accepted.is_some_and(|hash| hash != tally.hash())
    }

    /// Whether the plan has to be known before anything is written.
    pub(crate) fn needs_plan(&self) -> bool {
        self.accept.is_some() || self.fail_on_versions
    }

    /// What accepted the list, for the marker.
    pub(crate) fn acceptance(&self) -> Option<String> {
        let what = match &self.accept {
            Some(hash) => format!("--accept {hash}"),
            None if self.accept_loss => "--accept-loss".to_owned(),
            None => return None,
        };
        Some(match &self.accepted_by {
            Some(who) => format!("{what} by {who}"),
            None => what,
        })
    }
}
