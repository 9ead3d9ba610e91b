//! What stays behind of a store that is taken over again.

use crate::plan::loss_names;
use crate::reconcile::Found;
use crate::session::Session;
use crate::source::Tally;
use crate::{ExitCode, Result, RunOptions};

/// All that stays behind, as a plan counts it.
pub(super) async fn behind(session: &Session<'_>, found: &Found) -> Result<Tally> {
    let source = &session.ends.source;
    let mut tally = found.tally.clone();
    for bucket in source.buckets().await? {
        tally.merge(source.survey(&bucket.name).await?);
    }
    tally.merge(source.survey_store().await?);
    Ok(tally)
}

/// Whether what stays behind may.
pub(super) fn judge(options: &RunOptions, tally: &Tally, summary: &mut String) -> ExitCode {
    let hash = tally.hash();
    if tally.losses() > 0 && !options.accepts(tally) {
        let names = loss_names(&tally.clone().into_marker());
        summary.extend([
            "not carried: ",
            &names,
            "; go on without them by --accept ",
            &hash,
            ", or whatever they are by --accept-loss\n",
        ]);
        ExitCode::Failures
    } else if options.is_another_list(tally) {
        let text = "another list stays behind than the accepted one: ";
        summary.extend([text, &hash, "\n"]);
        ExitCode::Refused
    } else {
        ExitCode::Ok
    }
}
