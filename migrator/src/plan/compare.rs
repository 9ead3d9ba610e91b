//! Both sides walked side by side, everything counted.

use filestore_common::BucketName;
use futures::StreamExt;

use super::measure::Sample;
use super::{BucketPlan, EXAMPLES, Named, Plan, Setting};
use crate::casefold::Pairs;
use crate::copy::Ends;
use crate::merge::{Merge, Merged, Ordered, Pair};
use crate::naming::{Naming, Tree};
use crate::policy::{Action, Pass, decide};
use crate::source::{Bucket, Entry, Reason, Tally};
use crate::target::Traits;
use crate::{Event, Result};

/// The walk and what it remembers.
pub(super) struct Walk<'a> {
    ends: &'a Ends,
    traits: Traits,
    tally: Tally,
    sample: Sample,
    /// Pairs that differ by case only; `None` where the target tells them apart.
    pairs: Option<Pairs>,
    attribute_limit: Option<u64>,
    /// Directories that new keys need.
    pub(super) directories: u64,
}

impl<'a> Walk<'a> {
    pub(super) async fn new(ends: &'a Ends) -> Result<Self> {
        let folds = ends.target.folds_case().await?;
        Ok(Self {
            ends,
            traits: ends.target.traits(),
            tally: Tally::default(),
            sample: Sample::default(),
            pairs: folds.then(Pairs::default),
            attribute_limit: ends.target.attribute_limit(),
            directories: 0,
        })
    }

    /// Walks over all buckets of both sides.
    pub(super) async fn run(&mut self, plan: &mut Plan) -> Result<Tally> {
        self.tally = self.ends.source.survey_store().await?;
        let mut on_target: Vec<BucketName> = self
            .ends
            .target
            .buckets()
            .await?
            .into_iter()
            .map(|bucket| bucket.name)
            .collect();
        for bucket in self.ends.source.buckets().await? {
            self.settings(plan, &bucket).await?;
            let exists = on_target.contains(&bucket.name);
            on_target.retain(|name| *name != bucket.name);
            self.directories += u64::from(!exists);
            self.bucket(plan, &bucket.name, true, exists).await?;
        }
        for name in on_target {
            self.bucket(plan, &name, false, true).await?;
        }
        Ok(std::mem::take(&mut self.tally))
    }

    /// Every setting found, whether or not it travels.
    async fn settings(&mut self, plan: &mut Plan, bucket: &Bucket) -> Result<()> {
        let name = bucket.name.as_str();
        let mut add = |setting: &str, carried| {
            plan.settings.push(Setting {
                bucket: name.to_owned(),
                setting: setting.to_owned(),
                carried,
            });
        };
        if !bucket.tags.is_empty() {
            add("tags", true);
        }
        let found = self.ends.source.survey(&bucket.name).await?;
        if let Some(settings) = found.get(Reason::BucketSettings) {
            for setting in &settings.examples {
                add(setting.split_once(": ").map_or(setting, |(_, s)| s), false);
            }
        }
        self.tally.merge(found);
        Ok(())
    }

    async fn bucket(
        &mut self,
        plan: &mut Plan,
        bucket: &BucketName,
        on_source: bool,
        on_target: bool,
    ) -> Result<()> {
        let empty = || futures::stream::empty().boxed();
        let compares = Pass::Final.compares(self.ends.source.tells());
        let ours = if on_source {
            self.ends.list_source(bucket, compares)
        } else {
            empty()
        };
        let theirs = if on_target {
            self.ends.list_target(bucket, compares)
        } else {
            empty()
        };
        let mut merge = Merge::new(
            Ordered::new(format!("{bucket} on the source"), ours),
            Ordered::new(format!("{bucket} on {}", self.traits.location), theirs),
        );
        let mut here = BucketPlan::default();
        let mut keys = Keys::default();
        while let Some(item) = merge.next().await? {
            self.ends.go_on()?;
            let pair = match item {
                Merged::Left(left) => {
                    self.tally.add(left);
                    continue;
                }
                Merged::Pair(pair) => pair,
            };
            let action = decide(&pair, Pass::Final, &self.traits, compares);
            match &pair {
                Pair::Source(ours) | Pair::Both(ours, _) => {
                    self.entry(plan, bucket, ours, action, &mut here, &mut keys);
                }
                Pair::Target(theirs) => {
                    plan.delete += 1;
                    if plan.delete_examples.len() < EXAMPLES {
                        plan.delete_examples
                            .push(format!("{bucket}/{}", theirs.key));
                    }
                }
            }
        }
        if on_source {
            plan.objects += here.objects;
            plan.bytes += here.bytes;
            plan.buckets.insert(bucket.to_string(), here);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        plan: &mut Plan,
        bucket: &BucketName,
        entry: &Entry,
        action: Action,
        here: &mut BucketPlan,
        keys: &mut Keys,
    ) {
        let bytes = entry.size;
        self.ends.progress.event(&Event::Listed { bytes });
        let key = entry.key.as_str();
        here.objects += 1;
        here.bytes += bytes;
        if entry.hidden {
            plan.hidden += 1;
            if plan.hidden_examples.len() < EXAMPLES {
                plan.hidden_examples.push(format!("{bucket}/{key}"));
            }
        }
        if self.ends.target.naming() == Naming::Overflow
            && let Some(obstacle) = keys.tree.obstacle(key, bytes)
        {
            plan.apart.add(|| format!("{bucket}/{key} ({obstacle})"));
        }
        if let (Some(limit), Some(meta)) = (self.attribute_limit, &entry.meta) {
            let needed = filestore_store::attribute_bytes(meta);
            if needed > limit {
                let name = || format!("{bucket}/{key} ({needed} bytes of {limit})");
                plan.oversized.add(name);
            }
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.add(&format!("{bucket}/{key}"));
        }
        match action {
            Action::Create => {
                plan.create += 1;
                self.directories += keys.new_directories(key);
            }
            Action::Replace => plan.replace += 1,
            Action::Skip | Action::SkipUnproven | Action::Delete | Action::Leave => {}
        }
        if entry.etag.is_none() || action == Action::SkipUnproven {
            plan.etag_unknown += 1;
        }
        if matches!(action, Action::Create | Action::Replace) {
            here.copy += 1;
            plan.copy_bytes += bytes;
            self.sample.offer(bucket, entry);
        } else {
            plan.skip += 1;
        }
    }

    /// Objects to read for an estimate.
    pub(super) fn sample(&mut self) -> Sample {
        std::mem::take(&mut self.sample)
    }

    /// Keys that the target takes for one.
    pub(super) fn same_but_case(&mut self) -> Option<Named> {
        let pairs = self.pairs.take()?;
        Some(Named {
            count: pairs.count,
            examples: pairs.examples,
        })
    }
}

/// What the keys of one bucket, in their order, say beyond themselves.
#[derive(Debug, Default)]
struct Keys {
    tree: Tree,
    /// Directory of the last key that needed one.
    last: String,
}

impl Keys {
    /// How many directories `key` needs that no key before it did. All keys below a directory
    /// follow each other, so that comparing with the last one is enough.
    fn new_directories(&mut self, key: &str) -> u64 {
        let directory = key.rfind('/').map_or("", |end| &key[..=end]);
        let shared = self
            .last
            .bytes()
            .zip(directory.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        let new = directory.bytes().skip(shared).filter(|b| *b == b'/');
        let new = new.count() as u64;
        directory.clone_into(&mut self.last);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_counts_once() {
        let mut keys = Keys::default();
        let counts: Vec<u64> = ["a", "a-b/x", "a/b/c", "a/b/d", "a/c/d/e", "a/z", "b/"]
            .map(|key| keys.new_directories(key))
            .into();
        assert_eq!(counts, [0, 1, 2, 0, 2, 0, 1]);
    }
}
