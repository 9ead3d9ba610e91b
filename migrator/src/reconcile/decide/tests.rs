use Change::{Gone, Same, Written};

use super::*;

/// The table of the module's head, whole.
#[test]
fn verdict_truth_table() {
    for (legacy, served, equal, expected) in [
        (Same, Same, true, Verdict::Unchanged),
        (Same, Written, false, Verdict::Only(Side::Served, Written)),
        (Same, Gone, false, Verdict::Only(Side::Served, Gone)),
        (Written, Same, false, Verdict::Only(Side::Legacy, Written)),
        (Written, Written, true, Verdict::Agreed),
        (Written, Written, false, Verdict::Conflict),
        (Written, Gone, false, Verdict::Conflict),
        (Gone, Same, false, Verdict::Only(Side::Legacy, Gone)),
        (Gone, Written, false, Verdict::Conflict),
        (Gone, Gone, true, Verdict::Agreed),
    ] {
        assert_eq!(
            verdict(legacy, served, equal),
            expected,
            "{legacy:?} {served:?} equal={equal}"
        );
    }
}

/// `merge` writes the served side: a row per verdict that is no agreement, a column per
/// preference (none, newest, source = legacy, target = served).
#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn merge_truth_table() {
    const WRITE: Action = Action::Write { conflict: false };
    const OVER: Action = Action::Write { conflict: true };
    const OPEN: Action = Action::Open(Open::ChangedOnBoth);
    const DELETED: Action = Action::Open(Open::DeletedOnSource);
    const DELETE: Action = Action::Delete { conflict: false };
    const SETTLE: Action = Action::Settle;
    const LEAVE: Action = Action::Leave;
    let prefers = [
        None,
        Some(Prefer::Newest),
        Some(Prefer::Source),
        Some(Prefer::Target),
    ];
    let (legacy_newer, served_newer) = (Some(Side::Legacy), Some(Side::Served));
    for (legacy, served, newer, deletes, expected) in [
        (Written, Same, None, Deletes::List, [WRITE; 4]),
        (Same, Written, None, Deletes::Apply, [LEAVE; 4]),
        (Same, Gone, None, Deletes::Apply, [LEAVE; 4]),
        (Gone, Same, None, Deletes::List, [DELETED; 4]),
        (Gone, Same, None, Deletes::Apply, [DELETE; 4]),
        (Gone, Same, None, Deletes::Keep, [SETTLE; 4]),
        (
            Written,
            Written,
            legacy_newer,
            Deletes::List,
            [OPEN, OVER, OVER, SETTLE],
        ),
        (
            Written,
            Written,
            served_newer,
            Deletes::List,
            [OPEN, SETTLE, OVER, SETTLE],
        ),
        // A tie: the store that clients use.
        (
            Written,
            Written,
            None,
            Deletes::List,
            [OPEN, SETTLE, OVER, SETTLE],
        ),
        // A deletion has no date: the object wins.
        (
            Written,
            Gone,
            None,
            Deletes::List,
            [OPEN, OVER, OVER, SETTLE],
        ),
        (
            Gone,
            Written,
            None,
            Deletes::List,
            [OPEN, SETTLE, OPEN, SETTLE],
        ),
        (
            Gone,
            Written,
            None,
            Deletes::Keep,
            [OPEN, SETTLE, SETTLE, SETTLE],
        ),
        (
            Gone,
            Written,
            None,
            Deletes::Apply,
            [OPEN, SETTLE, Action::Delete { conflict: true }, SETTLE],
        ),
    ] {
        let holds = Holds {
            legacy: legacy != Gone,
            served: served != Gone,
        };
        for (prefer, expected) in prefers.into_iter().zip(expected) {
            let rules = Rules {
                writes: Side::Served,
                prefer,
                deletes,
            };
            let found = rules.action(verdict(legacy, served, false), holds, newer);
            assert_eq!(
                found, expected,
                "{legacy:?} {served:?} newer={newer:?} {rules:?}"
            );
        }
    }
}

#[test]
fn a_recorded_decision_is_carried_out_as_a_conflict_and_by_request_only() {
    let (write, delete) = (
        Action::Write { conflict: false },
        Action::Delete { conflict: false },
    );
    let open = Action::Open(Open::ChangedOnBoth);
    for (prefer, deletes, written) in [
        (None, Deletes::List, open),
        (None, Deletes::Apply, Action::Write { conflict: true }),
        (
            Some(Prefer::Newest),
            Deletes::List,
            Action::Write { conflict: true },
        ),
    ] {
        let rules = Rules {
            writes: Side::Served,
            prefer,
            deletes,
        };
        assert_eq!(rules.decided(write), written, "{rules:?}");
        assert_eq!(rules.decided(delete), Action::Delete { conflict: true });
        for other in [
            Action::Nothing,
            Action::Record,
            Action::Leave,
            Action::Settle,
        ] {
            assert_eq!(rules.decided(other), other);
        }
    }
}

/// `reverse` is the same table seen from the other side, except for the tie.
#[test]
fn reverse_mirrors_merge() {
    let changes = [Same, Written, Gone];
    for (legacy, served) in changes
        .iter()
        .flat_map(|one| changes.iter().map(move |other| (*one, *other)))
    {
        for prefer in [None, Some(Prefer::Source), Some(Prefer::Target)] {
            for deletes in [Deletes::List, Deletes::Apply, Deletes::Keep] {
                let holds = Holds {
                    legacy: legacy != Gone,
                    served: served != Gone,
                };
                let mirrored = Holds {
                    legacy: holds.served,
                    served: holds.legacy,
                };
                let rules = |writes| Rules {
                    writes,
                    prefer,
                    deletes,
                };
                assert_eq!(
                    rules(Side::Legacy).action(verdict(legacy, served, false), holds, None),
                    rules(Side::Served).action(verdict(served, legacy, false), mirrored, None),
                    "{legacy:?} {served:?} {prefer:?} {deletes:?}"
                );
            }
        }
    }
    let newest = Rules {
        writes: Side::Legacy,
        prefer: Some(Prefer::Newest),
        deletes: Deletes::Apply,
    };
    let both = Holds {
        legacy: true,
        served: true,
    };
    assert_eq!(
        newest.action(Verdict::Conflict, both, None),
        Action::Write { conflict: true },
        "a tie goes to the store that clients use"
    );
}
