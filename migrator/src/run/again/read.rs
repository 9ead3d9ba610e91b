//! The last look at a store that is taken over again, where more is asked for than listings tell.

use std::fmt::Write as _;

use crate::session::{Session, phase};
use crate::verify::{Depth, Outputs, verify};
use crate::{ExitCode, Phase, Result};

/// Reads the objects that both sides hold with one ETag and size, as closely as
/// [`RunOptions::verify`](crate::RunOptions) says. All other keys were compared key by key before.
pub(super) async fn agreed(
    session: &Session<'_>,
    objects: u64,
    summary: &mut String,
) -> Result<ExitCode> {
    let depth = Depth {
        agreed: true,
        ..session.options.verify.into()
    };
    phase(&*session.ends.progress, Phase::Verify, Some(objects), None);
    let found = verify(&session.ends, depth, &Outputs::default()).await?;
    let (read, differ, failed) = (found.read, found.different, found.failed);
    writeln!(
        summary,
        "read {read} objects that both sides hold: {differ} differ, {failed} unreadable"
    )
    .ok();
    for example in &found.examples {
        writeln!(summary, "  {}", example.escape_debug()).ok();
    }
    let exit = match (differ, failed) {
        (0, 0) => return Ok(ExitCode::Ok),
        (0, _) => ExitCode::Failures,
        _ => ExitCode::Differences,
    };
    summary.push_str(
        "write them to the legacy store once more (a copy onto themselves will do), and run this again\n",
    );
    Ok(exit)
}
