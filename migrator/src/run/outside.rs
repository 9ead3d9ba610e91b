//! What a served store holds beside a scoped migration, and what the way back therefore leaves there.

use std::fmt;

use futures::TryStreamExt;

use crate::Result;
use crate::copy::Ends;
use crate::guard::is_probe;
use crate::scope::Scope;
use crate::source::{Listed, Source};

/// Names given as examples.
const EXAMPLES: usize = 10;

/// Objects and empty buckets outside of a scope. Whether clients of the migrated store made them or
/// others nobody can tell, so they are not carried unasked.
#[derive(Debug, Default)]
pub(super) struct Outside {
    pub(super) count: u64,
    examples: Vec<String>,
    scope: String,
}

impl Outside {
    /// Lists `served` as it is; nothing where everything was migrated.
    pub(super) async fn of(served: &dyn Source, scope: &Scope, ends: &Ends) -> Result<Self> {
        let mut outside = Self {
            scope: scope.to_string(),
            ..Self::default()
        };
        if scope.buckets.is_everything() && scope.keys.is_everything() {
            return Ok(outside);
        }
        for bucket in served.buckets().await? {
            let migrated = scope.buckets.source_name(&bucket.name).is_some();
            if migrated && scope.keys.is_everything() {
                continue;
            }
            let mut empty = true;
            let mut listing = served.list(&bucket.name);
            while let Some(item) = listing.try_next().await? {
                ends.go_on()?;
                let (Listed::Object(entry) | Listed::Outside(entry)) = item else {
                    continue;
                };
                if is_probe(&entry) {
                    continue;
                }
                empty = false;
                if !migrated || !scope.keys.takes(entry.key.as_str()) {
                    outside.add(|| format!("{}/{}", bucket.name, entry.key));
                }
            }
            if empty && !migrated {
                outside.add(|| bucket.name.to_string());
            }
        }
        Ok(outside)
    }

    fn add(&mut self, name: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(name());
        }
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "outside of what was migrated ({}), not taken back: {} objects and empty buckets: {}; \
             copy them by `filestore migrate copy`, or complete without them by --accept-loss",
            self.scope,
            self.count,
            self.examples.join(", ").escape_debug()
        )
    }
}
