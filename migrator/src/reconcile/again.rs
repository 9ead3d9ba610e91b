//! What an earlier process did and a power loss may have undone: proved or done again before anything
//! is concluded from it.

use super::apply::Applier;
use super::decide::{Action, Change};
use super::done::Doubt;
use super::join::Place;
use super::step::{Came, Missed, Step};
use crate::source::Entry;
use crate::{Error, Kind, Result};

/// How often a key is looked at that keeps moving on the written side.
const LOOKS: u32 = 2;

impl Applier<'_> {
    /// Whether what the key holds on the written side can be gone by; [`Place::base`] is then what
    /// an undisturbed process would have recorded. Not so when it is ours and damaged.
    ///
    /// # Errors
    /// Of either side.
    pub(super) async fn undoubted(&self, place: &mut Place) -> Result<bool> {
        let Some(done) = place.doubtful.take() else {
            return Ok(true);
        };
        let there = self.ends.target.head(&place.bucket, &place.key).await?;
        let as_before = self.on_written(place.base.as_ref(), there.as_ref());
        if as_before && place.base != done.line {
            // It did not survive.
            return Ok(true);
        }
        place.base = done.line;
        let as_done = self.on_written(place.base.as_ref(), there.as_ref());
        match there.filter(|_| as_done) {
            Some(_) if done.doubt == Doubt::Unflushed => Ok(false),
            Some(_) => self.proves_itself(place).await,
            // Gone, or a client's by now.
            None => Ok(true),
        }
    }

    fn on_written(&self, base: Option<&crate::manifest::Line>, there: Option<&Entry>) -> bool {
        self.change(self.task.rules.writes, base, there) == Change::Same
    }

    async fn proves_itself(&self, place: &Place) -> Result<bool> {
        let read = self.ends.proves_itself(&place.bucket, &place.key).await;
        match read {
            Ok(proved) => Ok(proved == Some(true)),
            Err(error) if error.kind == Kind::Damaged => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether an object that both sides show alike has all its bytes on the written side.
    ///
    /// # Errors
    /// Of reading it.
    pub(super) async fn is_whole(&self, place: &Place, there: Option<&Entry>) -> Result<bool> {
        match (self.doubt, there) {
            (Doubt::None, _) | (_, None) => Ok(true),
            (Doubt::Unread, Some(_)) => self.proves_itself(place).await,
            (Doubt::Unflushed, Some(_)) => Ok(false),
        }
    }

    /// Writes what the read side has over what is ours and damaged.
    pub(super) async fn write_again(&self, place: &Place) -> Step {
        let base = place.base.clone();
        let mut step = Step::new(place.bucket.clone(), place.key.clone(), base);
        for _ in 0..LOOKS {
            let look = match self.look(place).await {
                Ok(look) => look,
                Err(error) => return self.failed(step, error),
            };
            if look.reading.is_none() {
                let name = format!("{}/{}", place.bucket, place.key);
                let problem = "was written before a power loss and did not survive it whole, and \
                               the other side does not hold it any more";
                let error = Error::new(Kind::Damaged, "read back", name, problem);
                return self.failed(step, error);
            }
            let action = Action::Write { conflict: false };
            match self.act(place, &look, action, &mut step).await {
                Ok(()) => return step,
                Err(Missed::Moved) => {}
                Err(Missed::Failed(error)) => return self.failed(step, error),
            }
        }
        // A client's by now: the next run sees it as one.
        step.came = Came::Left;
        step
    }
}
