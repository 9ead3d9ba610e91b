//! Which buckets, and what they are called on the target.

use std::collections::{BTreeMap, BTreeSet};

use filestore_common::BucketName;

use crate::{Error, Kind, Location, Result};

/// A selection of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buckets {
    /// All but these, under their own names. The excluded need not be valid names.
    AllBut(BTreeSet<String>),
    /// These, each with its name on the target; no two have the same.
    Only(BTreeMap<BucketName, BucketName>),
}

impl Default for Buckets {
    fn default() -> Self {
        Self::AllBut(BTreeSet::new())
    }
}

impl Buckets {
    /// Reads `--bucket NAME[=NEW]` and `--exclude-bucket NAME`.
    ///
    /// # Errors
    /// [`Kind::Usage`] for names that are none, for two buckets under one name, and for a bucket
    /// that is chosen and excluded.
    pub fn new(chosen: &[String], excluded: &[String]) -> Result<Self> {
        if chosen.is_empty() {
            return Ok(Self::AllBut(excluded.iter().cloned().collect()));
        }
        let mut buckets = Self::Only(BTreeMap::new());
        for text in chosen {
            let (old, new) = text.split_once('=').unwrap_or((text, text));
            if excluded.iter().any(|name| name == old) {
                return Err(refused(text, "is chosen and excluded"));
            }
            let name = |name: &str| {
                BucketName::new(name).map_err(|error| refused(text, &error.to_string()))
            };
            buckets.choose(name(old)?, name(new)?)?;
        }
        Ok(buckets)
    }

    fn choose(&mut self, old: BucketName, new: BucketName) -> Result<()> {
        let Self::Only(chosen) = self else {
            *self = Self::Only(BTreeMap::from([(old, new)]));
            return Ok(());
        };
        let text = format!("{old}={new}");
        if let Some(other) = chosen.get(&old).filter(|other| **other != new) {
            return Err(refused(
                &text,
                &format!("{old} is to become {other} as well"),
            ));
        }
        let same = chosen
            .iter()
            .find(|(other, name)| **other != old && **name == new);
        if let Some((other, _)) = same {
            let problem = format!("{other} is to become {new} as well");
            return Err(refused(&text, &problem).with_cure("give each bucket a name of its own"));
        }
        chosen.insert(old, new);
        Ok(())
    }

    /// Narrows the selection to the buckets that the URLs of both sides name.
    ///
    /// # Errors
    /// [`Kind::Usage`] when they contradict the selection.
    pub fn with_locations(self, from: Option<&Location>, to: &Location) -> Result<Self> {
        let named = |location: Option<&Location>| location.and_then(Location::bucket).cloned();
        let (source, target) = (named(from), named(Some(to)));
        let mut buckets = self;
        if let Some(name) = source {
            let new = match &buckets {
                Self::AllBut(excluded) if excluded.contains(name.as_str()) => {
                    return Err(refused(name.as_str(), "is the source's URL's and excluded"));
                }
                Self::AllBut(_) => name.clone(),
                Self::Only(chosen) => {
                    let new = chosen.get(&name).filter(|_| chosen.len() == 1);
                    new.cloned().ok_or_else(|| {
                        let problem = "the source's URL names another bucket than --bucket";
                        refused(name.as_str(), problem)
                            .with_cure("give the URL without a bucket to choose several")
                    })?
                }
            };
            buckets = Self::Only(BTreeMap::from([(name, new)]));
        }
        let Some(target) = target else {
            return Ok(buckets);
        };
        // The target alone is looked at where there is no source.
        if from.is_none() {
            return Ok(Self::Only(BTreeMap::from([(target.clone(), target)])));
        }
        let one = match &buckets {
            Self::Only(chosen) if chosen.len() == 1 => chosen.iter().next(),
            _ => None,
        };
        let Some((old, new)) = one else {
            let problem = "the target's URL names one bucket, the source has several";
            return Err(refused(target.as_str(), problem)
                .with_cure("choose one with --bucket, or in the source's URL"));
        };
        if new != old && *new != target {
            let problem = format!("{old} is to become {new} as well");
            return Err(refused(target.as_str(), &problem)
                .with_cure("give the new name by --bucket or by the target's URL, not by both"));
        }
        Ok(Self::Only(BTreeMap::from([(old.clone(), target)])))
    }

    /// What a bucket of the source is called on the target; `None` when it is not selected.
    pub fn target_name(&self, own: &str) -> Option<BucketName> {
        match self {
            Self::AllBut(excluded) => (!excluded.contains(own))
                .then(|| BucketName::new(own).ok())
                .flatten(),
            Self::Only(chosen) => {
                let own = BucketName::new(own).ok()?;
                chosen.get(&own).cloned()
            }
        }
    }

    /// The bucket of the source that is called `name` on the target; `None` when none is.
    pub fn source_name(&self, name: &BucketName) -> Option<BucketName> {
        match self {
            Self::AllBut(excluded) => (!excluded.contains(name.as_str())).then(|| name.clone()),
            Self::Only(chosen) => {
                let pair = chosen.iter().find(|(_, new)| *new == name);
                pair.map(|(old, _)| old.clone())
            }
        }
    }

    /// Whether every bucket is selected under its own name.
    pub fn is_everything(&self) -> bool {
        matches!(self, Self::AllBut(excluded) if excluded.is_empty())
    }

    /// Whether this provably selects every bucket that `other` selects, under whatever names.
    pub fn selects_all_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AllBut(excluded), Self::Only(chosen)) => {
                chosen.keys().all(|old| !excluded.contains(old.as_str()))
            }
            (Self::Only(ours), Self::Only(theirs)) => {
                theirs.keys().all(|old| ours.contains_key(old))
            }
            _ => self.covers(other),
        }
    }

    /// Whether this provably selects every bucket that `other` selects, under the same names.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AllBut(ours), Self::AllBut(theirs)) => ours.is_subset(theirs),
            (Self::AllBut(excluded), Self::Only(chosen)) => chosen
                .iter()
                .all(|(old, new)| old == new && !excluded.contains(old.as_str())),
            (Self::Only(_), Self::AllBut(_)) => false,
            (Self::Only(ours), Self::Only(theirs)) => theirs
                .iter()
                .all(|(old, new)| ours.get(old).is_some_and(|name| name == new)),
        }
    }
}

fn refused(text: &str, message: &str) -> Error {
    Error::new(Kind::Usage, "choose bucket", text, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn buckets(chosen: &[&str], excluded: &[&str]) -> Result<Buckets> {
        Buckets::new(&texts(chosen), &texts(excluded))
    }

    fn at(url: &str) -> Location {
        url.parse().unwrap()
    }

    fn name(name: &str) -> BucketName {
        BucketName::new(name).unwrap()
    }

    #[test]
    fn buckets_are_chosen_renamed_and_excluded() {
        let all = buckets(&[], &["old-junk", "Not_A_Name"]).unwrap();
        assert_eq!(all.target_name("abc"), Some(name("abc")));
        assert_eq!(all.target_name("old-junk"), None);
        assert_eq!(all.source_name(&name("old-junk")), None);
        let some = buckets(&["abc", "old=new"], &["xyz"]).unwrap();
        assert_eq!(some.target_name("abc"), Some(name("abc")));
        assert_eq!(some.target_name("old"), Some(name("new")));
        assert_eq!(some.target_name("new"), None);
        assert_eq!(some.source_name(&name("new")), Some(name("old")));
        assert_eq!(some.source_name(&name("old")), None);
    }

    #[test]
    fn contradictions_are_refused() {
        for (chosen, excluded) in [
            (&["abc=x"][..], &[][..]),
            (&["abc=UPPER"], &[]),
            (&["no_name"], &[]),
            (&["abc="], &[]),
            (&["abc=same", "def=same"], &[]),
            (&["abc", "def=abc"], &[]),
            (&["abc=one", "abc=two"], &[]),
            (&["abc"], &["abc"]),
        ] {
            let error = buckets(chosen, excluded).unwrap_err();
            assert_eq!(error.kind, Kind::Usage, "{chosen:?}");
        }
        // Each other's names, all at once, is a swap and no clash.
        assert!(buckets(&["abc=def", "def=abc"], &[]).is_ok());
    }

    #[test]
    fn urls_choose_and_rename() {
        let only = |pairs: &[(&str, &str)]| {
            Buckets::Only(pairs.iter().map(|(o, n)| (name(o), name(n))).collect())
        };
        let all = || buckets(&[], &[]).unwrap();
        let with = |buckets: Buckets, from: &str, to: &str| {
            buckets.with_locations(Some(&at(from)), &at(to))
        };
        assert_eq!(with(all(), "http://a", "http://b").unwrap(), all());
        assert_eq!(
            with(all(), "http://a/old", "volume:/v").unwrap(),
            only(&[("old", "old")])
        );
        assert_eq!(
            with(all(), "http://a/old", "http://b/new").unwrap(),
            only(&[("old", "new")])
        );
        let one = || buckets(&["old"], &[]).unwrap();
        assert_eq!(
            with(one(), "http://a", "http://b/new").unwrap(),
            only(&[("old", "new")])
        );
        let renamed = || buckets(&["old=new"], &[]).unwrap();
        assert_eq!(
            with(renamed(), "http://a/old", "http://b/new").unwrap(),
            only(&[("old", "new")])
        );
        for (buckets, from, to) in [
            (all(), "http://a", "http://b/new"),
            (one(), "http://a/other", "http://b"),
            (renamed(), "http://a", "http://b/newer"),
            (
                buckets(&["abc", "def"], &[]).unwrap(),
                "http://a",
                "http://b/new",
            ),
            (buckets(&[], &["old"]).unwrap(), "http://a/old", "http://b"),
        ] {
            let error = with(buckets, from, to).unwrap_err();
            assert_eq!(error.kind, Kind::Usage, "{from} {to}");
        }
    }

    #[test]
    fn a_selection_of_the_same_buckets_is_known_under_other_names() {
        for (ours, theirs, all) in [
            (buckets(&[], &[]), buckets(&["abc=def"], &[]), true),
            (buckets(&["abc"], &[]), buckets(&["abc=def"], &[]), true),
            (buckets(&[], &["abc"]), buckets(&["abc=def"], &[]), false),
            (buckets(&["abc"], &[]), buckets(&[], &[]), false),
            (buckets(&["def"], &[]), buckets(&["abc=def"], &[]), false),
        ] {
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert_eq!(ours.selects_all_of(&theirs), all, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn a_wider_selection_is_known_as_such() {
        for (wide, narrow, covers) in [
            (buckets(&[], &[]), buckets(&["abc"], &[]), true),
            (buckets(&[], &[]), buckets(&["abc=def"], &[]), false),
            (buckets(&[], &["abc"]), buckets(&["abc"], &[]), false),
            (buckets(&[], &["abc"]), buckets(&[], &[]), false),
            (buckets(&[], &["abc"]), buckets(&[], &["abc", "x"]), true),
            (buckets(&["abc", "def"], &[]), buckets(&["abc"], &[]), true),
            (buckets(&["abc=x12"], &[]), buckets(&["abc"], &[]), false),
        ] {
            let (wide, narrow) = (wide.unwrap(), narrow.unwrap());
            assert_eq!(wide.covers(&narrow), covers, "{wide:?} {narrow:?}");
            assert!(wide.covers(&wide));
        }
    }
}
