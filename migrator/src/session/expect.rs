//! How much a pass will look at, where no plan has told it.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use filestore_common::BucketName;
use futures::TryStreamExt as _;
use futures::future::{Either, select};

use super::Session;
use crate::copy::Ends;
use crate::pass::Report;
use crate::policy::Pass;
use crate::scope::worker;
use crate::source::Listed;
use crate::{Event, Result};

impl Session<'_> {
    /// A bulk pass that no plan precedes. What it will compare is what the last one counted. The
    /// first time, when it takes a while, a second listing runs ahead of it, where that is cheap and
    /// can be remembered: an S3 target without a state directory would be counted for every time.
    pub(crate) async fn copy_pass(&self) -> Result<Report> {
        let known = self.expect()?;
        let pass = self.pass(Pass::Copy);
        if known || self.state.is_none() || !self.ends.source.lists_cheaply() {
            return pass.await;
        }
        beside(pass, count(&self.ends, &self.shown_buckets())).await
    }

    /// How many objects a pass will compare, where an earlier one counted them; whether one did.
    pub(crate) fn expect(&self) -> Result<bool> {
        let run_id = worker::checkpoint_id(&self.run_id(), self.options.shard);
        let known = self.state.as_ref().map(|state| state.checkpoint(&run_id));
        let mut objects = known.transpose()?.map_or(0, |known| known.objects);
        if let (0, Some(shard), Some(state)) = (objects, self.options.shard, &self.state) {
            // The first time it is known from where the objects were cut.
            let cuts = worker::known_cuts(state, &self.run_id(), shard.count)?;
            let index = usize::try_from(shard.index).unwrap_or(usize::MAX);
            let mine = cuts.and_then(|cuts| cuts.objects.get(index).copied());
            objects = mine.unwrap_or_default();
        }
        if objects > 0 {
            let bytes = None;
            let expected = Event::Expected { objects, bytes };
            self.ends.progress.event(&expected);
        }
        Ok(objects > 0)
    }

    /// The source's buckets as they show; known from its identity, so that nothing is asked again.
    fn shown_buckets(&self) -> Vec<BucketName> {
        let own = self.identity.buckets.iter();
        own.filter_map(|name| self.view.source_shown(name))
            .collect()
    }
}

/// A pass that ends sooner is not worth a second listing.
const COUNT_AFTER: Duration = Duration::from_secs(3);

/// Counts what the source lists, and tells it when all is counted. A failure is not told: whoever
/// copies meets it as well.
async fn count(ends: &Ends, buckets: &[BucketName]) {
    tokio::time::sleep(COUNT_AFTER).await;
    let (mut objects, mut bytes) = (0, 0);
    for bucket in buckets {
        let mut listing = ends.source.list(bucket);
        loop {
            match listing.try_next().await {
                Ok(Some(Listed::Object(entry))) => {
                    objects += 1;
                    bytes += entry.size;
                }
                Ok(Some(Listed::Outside(_) | Listed::Left(_))) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    let bytes = Some(bytes);
    ends.progress.event(&Event::Expected { objects, bytes });
}

/// Does `work` to its end; what is done beside it ends with it.
async fn beside<T>(work: impl Future<Output = T>, aside: impl Future<Output = ()>) -> T {
    match select(pin!(work), pin!(aside)).await {
        Either::Left((done, _)) => done,
        Either::Right(((), work)) => work.await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_runs_beside_neither_ends_nor_holds_the_work() {
        assert_eq!(beside(ready(7), pending()).await, 7);
        let (told, heard) = oneshot::channel();
        let aside = async { told.send(8).unwrap() };
        assert_eq!(beside(heard, aside).await, Ok(8));
    }
}
