//! Pages of uploads in progress, versitygw's included.

use std::collections::HashSet;
use std::time::SystemTime;

use filestore_common::{BucketName, ObjectKey};
use rustix::fs::FileType;

use super::area::{Upload, area_path, directory_born, upload_id_of};
use crate::attributes::{self, xattr};
use crate::dir::{Dir, is_absent};
use crate::layout::attribute;
use crate::path::hash_name;
use crate::query::{MetadataMode, UploadInfo, UploadPage, UploadQuery};
use crate::volume::Volume;
use crate::{Error, Result};

/// An upload found, in the order of the list: by key, then initiation, then id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    key: ObjectKey,
    initiated: SystemTime,
    id: String,
}

impl Volume {
    /// See [`crate::Store::list_uploads`].
    pub(crate) fn list_uploads(
        &self,
        bucket: &BucketName,
        query: &UploadQuery,
    ) -> Result<UploadPage> {
        self.bucket_dir(bucket)?;
        if query.max_uploads == 0 {
            return Ok(UploadPage::default());
        }
        let found = self.find_uploads(bucket, query)?;
        let (selected, next) = select(found, query);
        let mut page = UploadPage {
            next,
            ..UploadPage::default()
        };
        for entry in selected {
            match entry {
                Entry::Prefix(prefix) => page.prefixes.push(prefix),
                Entry::Upload(found) => match Upload::open(self, bucket, &found.key, &found.id) {
                    Ok(upload) => page.uploads.push(UploadInfo {
                        spec: upload.describe(self.mode)?.0,
                        key: found.key,
                        upload_id: found.id,
                        initiated: found.initiated,
                    }),
                    // Completed or aborted since.
                    Err(Error::NoSuchUpload) => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(page)
    }

    /// All uploads with the prefix whose key is not below the marker, sorted.
    fn find_uploads(&self, bucket: &BucketName, query: &UploadQuery) -> Result<Vec<Found>> {
        let io = |error| Error::io("list uploads", error);
        let area = match self.root.open_dir(&area_path(bucket)) {
            Ok(area) => area,
            Err(error) if is_absent(error) => return Ok(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        let mut found = Vec::new();
        for (name, _) in area.entries().map_err(io)? {
            let parent = match area.open_dir(&name) {
                Ok(parent) => parent,
                Err(error) if is_absent(error) => continue,
                Err(error) => return Err(io(error)),
            };
            let known = key_on_directory(self.mode, &parent)?;
            if known.as_ref().is_some_and(|key| !is_wanted(key, query)) {
                continue;
            }
            let entries = match parent.entries() {
                Ok(entries) => entries,
                Err(error) if is_absent(error) => continue,
                Err(error) => return Err(io(error)),
            };
            let ids: HashSet<String> = entries
                .iter()
                .filter(|(_, kind)| *kind == FileType::Directory)
                .filter_map(|(name, _)| upload_id_of(name).map(str::to_owned))
                .collect();
            for id in ids {
                let one = self.look_at(&parent, &name, known.as_ref(), id)?;
                found.extend(one.filter(|found| is_wanted(&found.key, query)));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn look_at(
        &self,
        parent: &Dir,
        hash: &str,
        known: Option<&ObjectKey>,
        id: String,
    ) -> Result<Option<Found>> {
        let dir = match parent.open_dir(&id) {
            Ok(dir) => dir,
            // Claimed by versitygw and left so, or gone.
            Err(error) if is_absent(error) => {
                let key = known.cloned();
                return Ok(match key {
                    Some(key) => Some(Found {
                        key,
                        initiated: directory_born(parent)?,
                        id,
                    }),
                    None => None,
                });
            }
            Err(error) => return Err(Error::io("open an upload", error)),
        };
        let upload = attributes::read_directory(self.mode, &dir)?;
        let key = match known {
            Some(key) => Some(key.clone()),
            None => upload
                .text(attribute::UPLOAD_KEY)
                .and_then(|key| ObjectKey::new(key).ok())
                .filter(|key| hash_name(key.as_str()) == hash),
        };
        let Some(key) = key else {
            return Ok(None);
        };
        Ok(Some(Found {
            key,
            initiated: super::area::initiated(&dir, &upload)?,
            id,
        }))
    }
}

fn key_on_directory(mode: MetadataMode, parent: &Dir) -> Result<Option<ObjectKey>> {
    if mode == MetadataMode::Sidecar {
        return Ok(None);
    }
    let key = xattr::get(parent, attribute::UPLOAD_KEY)?;
    Ok(key
        .and_then(|key| String::from_utf8(key).ok())
        .and_then(|key| ObjectKey::new(key).ok()))
}

fn is_wanted(key: &ObjectKey, query: &UploadQuery) -> bool {
    let marker = query.key_marker.as_deref().unwrap_or_default();
    key.as_str().starts_with(&query.prefix) && key.as_str() >= marker
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Upload(Found),
    Prefix(String),
}

/// Groups, drops what the markers leave behind, and cuts the page. `found` is sorted.
fn select(found: Vec<Found>, query: &UploadQuery) -> (Vec<Entry>, Option<(String, String)>) {
    let marker = query.key_marker.as_deref().unwrap_or_default();
    let id_marker = query.upload_id_marker.as_deref().unwrap_or_default();
    // Where the marker's upload stands in the order of its key. When it is gone, ours still say
    // when they were initiated: their ids begin with the time.
    let position = (!id_marker.is_empty()).then(|| {
        found
            .iter()
            .find(|one| one.key.as_str() == marker && one.id == id_marker)
            .map(|one| one.initiated)
            .or_else(|| super::time_of_id(id_marker))
    });
    let mut entries: Vec<Entry> = Vec::new();
    let mut more = false;
    for one in found {
        let entry = match group(one.key.as_str(), query) {
            Some(prefix) if prefix.as_str() <= marker => continue,
            Some(prefix) => Entry::Prefix(prefix),
            None if one.key.as_str() > marker || marker.is_empty() => Entry::Upload(one),
            None => match position {
                Some(Some(time)) if (one.initiated, one.id.as_str()) > (time, id_marker) => {
                    Entry::Upload(one)
                }
                Some(None) if one.id.as_str() > id_marker => Entry::Upload(one),
                _ => continue,
            },
        };
        if entries.last() == Some(&entry) {
            continue;
        }
        if entries.len() == query.max_uploads {
            more = true;
            break;
        }
        entries.push(entry);
    }
    let next = entries.last().filter(|_| more).map(|entry| match entry {
        Entry::Upload(one) => (one.key.to_string(), one.id.clone()),
        Entry::Prefix(prefix) => (prefix.clone(), String::new()),
    });
    (entries, next)
}

fn group(key: &str, query: &UploadQuery) -> Option<String> {
    let delimiter = query.delimiter.as_deref().filter(|text| !text.is_empty())?;
    let rest = key.strip_prefix(&query.prefix)?;
    let end = rest.find(delimiter)? + delimiter.len();
    Some(format!("{}{}", query.prefix, rest.get(..end)?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn found(key: &str, seconds: u64, id: &str) -> Found {
        Found {
            key: ObjectKey::new(key).unwrap(),
            initiated: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            id: id.to_owned(),
        }
    }

    /// All pages of one entry: keys with ids, and prefixes.
    fn walk(all: &[Found], mut query: UploadQuery) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let wanted = all.iter().filter(|one| is_wanted(&one.key, &query));
            let (entries, next) = select(wanted.cloned().collect(), &query);
            seen.extend(entries.iter().map(|entry| match entry {
                Entry::Upload(one) => format!("{} {}", one.key, one.id),
                Entry::Prefix(prefix) => prefix.clone(),
            }));
            let Some((key, id)) = next else {
                return seen;
            };
            query.key_marker = Some(key);
            query.upload_id_marker = Some(id);
        }
    }

    #[test]
    fn uploads_of_one_key_come_in_order_of_initiation_each_once() {
        // versitygw issue 2149; ids sort against the times on purpose.
        let all = [
            found("a", 1, "z"),
            found("a", 2, "y"),
            found("a", 3, "x"),
            found("b", 0, "w"),
        ];
        let query = UploadQuery {
            max_uploads: 1,
            ..UploadQuery::default()
        };

        assert_eq!(walk(&all, query), ["a z", "a y", "a x", "b w"]);
    }

    #[test]
    fn common_prefixes_count_and_are_not_repeated() {
        let all = [
            found("p/a/1", 1, "1"),
            found("p/a/2", 1, "2"),
            found("p/b", 1, "3"),
            found("p/c/1", 1, "4"),
            found("q", 1, "5"),
        ];
        let query = UploadQuery {
            prefix: "p/".into(),
            delimiter: Some("/".into()),
            max_uploads: 1,
            ..UploadQuery::default()
        };

        assert_eq!(walk(&all, query), ["p/a/", "p/b 3", "p/c/"]);
    }

    #[test]
    fn a_marker_alone_passes_over_its_key() {
        let all = [found("a", 1, "1"), found("a", 2, "2"), found("b", 1, "3")];
        let query = UploadQuery {
            key_marker: Some("a".into()),
            max_uploads: 10,
            ..UploadQuery::default()
        };

        assert_eq!(walk(&all, query), ["b 3"]);
    }

    #[test]
    fn a_marker_that_is_gone_still_says_where_to_go_on() {
        let id = super::super::new_upload_id(SystemTime::UNIX_EPOCH + Duration::from_secs(2));
        let all = [found("a", 1, "z"), found("a", 3, "0")];
        let query = UploadQuery {
            key_marker: Some("a".into()),
            upload_id_marker: Some(id),
            max_uploads: 10,
            ..UploadQuery::default()
        };

        assert_eq!(walk(&all, query), ["a 0"]);
    }
}
