//! What to do with a key after cut-over: three views of it, one table. Pure; used by `run`,
//! `merge` and `reverse` alike.
//!
//! The *legacy* store is where the objects came from, the *served* store is the one that clients
//! use since. Each side is first compared with what the manifest recorded ([`Change`]); together
//! that gives a [`Verdict`]:
//!
//! | legacy \ served | same | written | gone |
//! |---|---|---|---|
//! | same | unchanged | only served | only served |
//! | written | only legacy | agreed when equal, else conflict | conflict |
//! | gone | only legacy | conflict | agreed |
//!
//! [`Rules::action`] then says what that means for a command that writes to one of the two sides.

use serde::Serialize;

/// One of the two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// Where the objects came from.
    Legacy,
    /// Where clients are since the cut-over.
    Served,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Served,
            Self::Served => Self::Legacy,
        }
    }
}

/// What happened to a key on one side since the manifest was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Nothing: there as recorded, or absent and never recorded.
    Same,
    /// Added or replaced.
    Written,
    /// Recorded, and deleted since.
    Gone,
}

/// What both changes make together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Neither side changed.
    Unchanged,
    /// Both sides changed to the same.
    Agreed,
    /// Only this side changed.
    Only(Side, Change),
    /// Both changed, differently.
    Conflict,
}

/// The table above; `equal` says whether both sides hold the same object now.
pub fn verdict(legacy: Change, served: Change, equal: bool) -> Verdict {
    use Change::{Gone, Same, Written};
    match (legacy, served) {
        (Same, Same) => Verdict::Unchanged,
        (change, Same) => Verdict::Only(Side::Legacy, change),
        (Same, change) => Verdict::Only(Side::Served, change),
        (Gone, Gone) => Verdict::Agreed,
        (Written, Written) if equal => Verdict::Agreed,
        (Written, Written | Gone) | (Gone, Written) => Verdict::Conflict,
    }
}

/// Who wins a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prefer {
    /// The later Last-Modified in whole seconds; an object wins over a deletion, which has no
    /// date, and the served store wins a tie.
    Newest,
    /// What is read (`--from`).
    Source,
    /// What is written (`--to`).
    Target,
}

/// What happens to deletions on the side that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deletes {
    /// They are listed and stay undecided.
    List,
    /// They are carried out on the other side.
    Apply,
    /// The objects stay on the other side for good.
    Keep,
}

/// What a command may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The side that is written; the other one is only read.
    pub writes: Side,
    /// Who wins a conflict; `None` = nobody, it is listed.
    pub prefer: Option<Prefer>,
    /// Deletions.
    pub deletes: Deletes,
}

/// Why a key stays undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Open {
    /// Deleted on the side that is read, still on the other.
    DeletedOnSource,
    /// Changed on both sides, differently.
    ChangedOnBoth,
}

/// What to do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Both sides are as recorded.
    Nothing,
    /// Both sides are equal, or both deleted it: record that.
    Record,
    /// Only the written side changed: its business.
    Leave,
    /// Write what the read side has; `conflict` = over (or against the deletion of) another change.
    Write {
        /// Something that a client of the written side did is undone.
        conflict: bool,
    },
    /// Delete on the written side; `conflict` as above.
    Delete {
        /// Something that a client of the written side did is undone.
        conflict: bool,
    },
    /// Decided for the written side: record what the read side has as seen and not wanted.
    Settle,
    /// List it.
    Open(Open),
}

impl Rules {
    /// The action for a verdict. `newer` is the side with the later object when both have one,
    /// `None` on a tie; `legacy` and `served` say which sides have the object at all.
    pub fn action(self, verdict: Verdict, holds: Holds, newer: Option<Side>) -> Action {
        let reads = self.writes.other();
        match verdict {
            Verdict::Unchanged => Action::Nothing,
            Verdict::Agreed => Action::Record,
            Verdict::Only(side, _) if side == self.writes => Action::Leave,
            Verdict::Only(_, Change::Gone) => self.deletion(false),
            Verdict::Only(..) => Action::Write { conflict: false },
            Verdict::Conflict => {
                let winner = match self.prefer {
                    None => return Action::Open(Open::ChangedOnBoth),
                    Some(Prefer::Source) => reads,
                    Some(Prefer::Target) => self.writes,
                    Some(Prefer::Newest) => match (holds.legacy, holds.served) {
                        (true, false) => Side::Legacy,
                        (false, true) => Side::Served,
                        _ => newer.unwrap_or(Side::Served),
                    },
                };
                if winner == self.writes {
                    Action::Settle
                } else if holds.on(reads) {
                    Action::Write { conflict: true }
                } else {
                    self.deletion(true)
                }
            }
        }
    }

    /// [`Rules::action`] under a decision that was recorded for the side that is read: what the
    /// written side holds lost it, and may be nowhere else. Carried out it is kept like the loser
    /// of a new conflict; a command that was asked for nothing lists it.
    pub fn decided(self, action: Action) -> Action {
        let asked = self.prefer.is_some() || self.deletes == Deletes::Apply;
        match action {
            Action::Write { .. } if !asked => Action::Open(Open::ChangedOnBoth),
            Action::Write { .. } => Action::Write { conflict: true },
            Action::Delete { .. } => Action::Delete { conflict: true },
            other => other,
        }
    }

    fn deletion(self, conflict: bool) -> Action {
        match self.deletes {
            Deletes::Apply => Action::Delete { conflict },
            Deletes::Keep => Action::Settle,
            Deletes::List if conflict => Action::Open(Open::ChangedOnBoth),
            Deletes::List => Action::Open(Open::DeletedOnSource),
        }
    }
}

/// Which sides hold an object under the key now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holds {
    /// The legacy store does.
    pub legacy: bool,
    /// The served store does.
    pub served: bool,
}

impl Holds {
    /// Whether this side does.
    pub fn on(self, side: Side) -> bool {
        match side {
            Side::Legacy => self.legacy,
            Side::Served => self.served,
        }
    }
}

#[cfg(test)]
mod tests;
