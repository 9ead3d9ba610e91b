//! What both sides of a scoped migration show: shared by [`super::ScopedSource`] and
//! [`super::ScopedTarget`].

use std::sync::atomic::{AtomicBool, Ordering};

use filestore_common::BucketName;

use super::{Keys, Range, Scope, span};

/// A scope, the range of it that this process does, and which patterns fitted something.
#[derive(Debug)]
pub struct View {
    /// What the migration is about.
    pub scope: Scope,
    /// What of it is looked at here.
    pub range: Range,
    /// The store that was taken over is written, the one that took over is read.
    backwards: bool,
    /// For each include, whether an object of the source fitted it.
    fitted: Vec<AtomicBool>,
}

impl View {
    /// A view of `range` of `scope`.
    pub fn new(scope: Scope, range: Range) -> Self {
        let fitted = scope.keys.include.iter().map(|_| AtomicBool::new(false));
        Self {
            fitted: fitted.collect(),
            scope,
            range,
            backwards: false,
        }
    }

    /// A view for the way back: all of `scope` but its window of time, which says nothing of what
    /// clients did since.
    pub fn backwards(scope: Scope) -> Self {
        let scope = Scope {
            window: super::Window::default(),
            ..scope
        };
        Self {
            backwards: true,
            ..Self::new(scope, Range::default())
        }
    }

    /// What a bucket of the source is shown as; `None` when it is not.
    pub(crate) fn source_shown(&self, own: &str) -> Option<BucketName> {
        let name = if self.backwards {
            BucketName::new(own).ok()?
        } else {
            self.scope.buckets.target_name(own)?
        };
        self.shows(&name).then_some(name)
    }

    /// The source's own name of a bucket that is shown as `name`; `None` when none is.
    pub(super) fn source_own(&self, name: &BucketName) -> Option<BucketName> {
        let own = self.scope.buckets.source_name(name)?;
        Some(if self.backwards { name.clone() } else { own })
    }

    /// What a bucket of the target is shown as; `None` when it is not.
    pub(super) fn target_shown(&self, own: &BucketName) -> Option<BucketName> {
        let name = if self.backwards {
            self.scope.buckets.target_name(own.as_str())?
        } else {
            own.clone()
        };
        self.shows(&name).then_some(name)
    }

    /// The target's own name of a bucket that is shown as `name`.
    pub(super) fn target_own(&self, name: &BucketName) -> BucketName {
        let own = self.scope.buckets.source_name(name);
        own.filter(|_| self.backwards)
            .unwrap_or_else(|| name.clone())
    }

    /// Whether both sides are shown as they are.
    pub fn is_everything(&self) -> bool {
        self.scope.is_everything() && self.range.is_everything()
    }

    /// Whether a bucket, by its name on the target, is looked at.
    pub fn shows(&self, bucket: &BucketName) -> bool {
        self.scope.buckets.source_name(bucket).is_some() && self.range.within(bucket).is_some()
    }

    /// The wanted keys of a bucket by its name on the target, in order.
    pub fn keys(&self, bucket: &BucketName) -> Vec<Keys> {
        let Some((after, end)) = self.range.within(bucket).filter(|_| self.shows(bucket)) else {
            return Vec::new();
        };
        let spans = span::spans(&self.scope.keys).into_iter();
        let within = spans.filter_map(|span| span.within(after, end));
        within
            .map(|span| Keys {
                span,
                filter: self.scope.keys.clone(),
                full: false,
            })
            .collect()
    }

    /// Notes that the source has this key.
    pub(super) fn saw(&self, key: &str) {
        for (pattern, fitted) in self.scope.keys.include.iter().zip(&self.fitted) {
            if !fitted.load(Ordering::Relaxed) && pattern.fits(key) {
                fitted.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Includes that no object seen so far fitted, a line each.
    pub fn unfitted(&self) -> String {
        let mut lines = String::new();
        // A worker sees a part of the keys and cannot tell.
        if self.range.is_everything() {
            for (pattern, fitted) in self.scope.keys.include.iter().zip(&self.fitted) {
                if !fitted.load(Ordering::Relaxed) {
                    lines.extend(["--include ", &pattern.to_string(), " fits no object\n"]);
                }
            }
        }
        lines
    }
}
