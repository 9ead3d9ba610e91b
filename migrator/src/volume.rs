//! A mounted volume through the store, as either side: the blocking calls wrapped for the
//! asynchronous engine.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use filestore_common::{BucketName, ETag, ObjectKey};
use filestore_store::{Access, Durability, ListEntry, ListQuery, Store, StoreOptions, UploadQuery};
use futures::{StreamExt, stream};
use tokio::sync::mpsc;

use crate::lanes::may_block;
use crate::scope::Keys;
use crate::source::{Body, Bucket, Entry, Left, Listed, Listing, Object, Reason, Tally};
use crate::{Error, Kind, Result};

/// Keys read from the store at a time.
const PAGE: usize = 1000;
/// Bytes read at a time.
pub(crate) const CHUNK_BYTES: usize = 512 << 10;
/// Chunks read ahead of the network.
const CHUNKS_AHEAD: usize = 2;

/// An error of the store as one of ours.
#[expect(clippy::needless_pass_by_value, reason = "stands in map_err")]
pub(crate) fn explain(
    operation: &'static str,
    object: impl Into<Box<str>>,
    error: filestore_store::Error,
) -> Error {
    use filestore_store::Error as Store;
    let kind = match &error {
        Store::NoSuchBucket | Store::NoSuchKey | Store::NoSuchUpload => Kind::NotFound,
        Store::PreconditionFailed | Store::Conflict => Kind::Conflict,
        Store::ReservedKey | Store::MetadataTooLarge(_) => Kind::Unnameable,
        Store::NoSpace { .. } => Kind::NoSpace,
        Store::Volume(_) => Kind::Refused,
        Store::Damaged(_) | Store::BadDigest(_) => Kind::Damaged,
        _ => Kind::Other,
    };
    let mut text = error.to_string();
    if let Store::Io { source, .. } = &error {
        text = format!("{text}: {source}");
    }
    Error::new(kind, operation, object, text)
}

/// Runs blocking work: here, on a thread that is there for it, else on one of the runtime's.
pub(crate) async fn blocking<T, F>(operation: &'static str, object: &str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    if may_block() {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::new(
            Kind::Other,
            operation,
            object,
            error.to_string(),
        )),
    }
}

/// Opens the volume at `path`.
pub(crate) async fn open_store(path: &Path, access: Access) -> Result<Arc<Store>> {
    let name = path.display().to_string();
    let path = path.to_owned();
    let object = name.clone();
    blocking("open", &name, move || {
        let options = StoreOptions {
            durability: Durability::Relaxed,
            access,
            ..StoreOptions::default()
        };
        let store = Store::open(&path, &options);
        store
            .map(Arc::new)
            .map_err(|error| explain("open", object, error))
    })
    .await
}

/// Buckets with their tags.
pub(crate) async fn buckets(store: &Arc<Store>) -> Result<Vec<Bucket>> {
    let store = store.clone();
    blocking("list buckets", "volume", move || {
        let failed = |error| explain("list buckets", store.path().display().to_string(), error);
        let mut buckets = Vec::new();
        for info in store.list_buckets().map_err(failed)? {
            let tags = store
                .bucket_tags(&info.name)
                .map_err(failed)?
                .unwrap_or_default();
            buckets.push(Bucket {
                name: info.name,
                created: info.created,
                tags,
            });
        }
        Ok(buckets)
    })
    .await
}

/// What of a bucket stays behind: its settings, and uploads of the keys that one of `keys` takes.
pub(crate) async fn survey(
    store: &Arc<Store>,
    bucket: &BucketName,
    keys: &[Keys],
) -> Result<Tally> {
    let (store, bucket, keys) = (store.clone(), bucket.clone(), keys.to_vec());
    blocking("read settings of", &bucket.to_string(), move || {
        let failed = |error| explain("read settings of", bucket.as_str(), error);
        let mut tally = Tally::default();
        for (setting, text) in store.bucket_settings(&bucket).map_err(failed)? {
            let left = Left::new(Reason::BucketSettings, format!("{bucket}: {setting}"), 1);
            tally.add(left.with_identity(text));
        }
        let mut query = UploadQuery {
            max_uploads: PAGE,
            ..UploadQuery::default()
        };
        loop {
            let page = store.list_uploads(&bucket, &query).map_err(failed)?;
            for upload in page.uploads {
                let key = upload.key.as_str();
                if keys.iter().any(|keys| keys.takes(key)) {
                    let left = Left::new(Reason::UnfinishedUploads, format!("{bucket}/{key}"), 1);
                    tally.add(left.with_identity(upload.upload_id.into_bytes()));
                }
            }
            let Some((key, id)) = page.next else {
                return Ok(tally);
            };
            (query.key_marker, query.upload_id_marker) = (Some(key), Some(id));
        }
    })
    .await
}

struct Pages {
    store: Arc<Store>,
    bucket: BucketName,
    keys: Keys,
    after: Option<String>,
    ready: VecDeque<Listed>,
    ended: bool,
    /// With the metadata of every object.
    full: bool,
}

/// The objects of a bucket that `keys` takes; none when it does not exist.
pub(crate) fn list(store: Arc<Store>, bucket: BucketName, keys: Keys) -> Listing {
    let pages = Pages {
        store,
        bucket,
        after: keys.span.after.clone(),
        ready: VecDeque::new(),
        ended: false,
        full: keys.full,
        keys,
    };
    stream::try_unfold(pages, |mut pages| async move {
        loop {
            if let Some(item) = pages.ready.pop_front() {
                return Ok(Some((item, pages)));
            }
            if pages.ended {
                return Ok(None);
            }
            pages = blocking("list", "volume", move || pages.next()).await?;
        }
    })
    .boxed()
}

impl Pages {
    fn next(mut self) -> Result<Self> {
        let query = ListQuery {
            prefix: self.keys.span.prefix.clone(),
            after: self.after.take(),
            max_keys: PAGE,
            ..ListQuery::default()
        };
        let page = match self.store.list(&self.bucket, &query) {
            Ok(page) => page,
            Err(filestore_store::Error::NoSuchBucket) => {
                self.ended = true;
                return Ok(self);
            }
            Err(error) => return Err(explain("list", self.bucket.as_str(), error)),
        };
        self.ended = page.next.is_none();
        self.after = page.next;
        for entry in page.entries {
            let ListEntry::Object(object) = entry else {
                continue;
            };
            if self.keys.span.ends_before(&object.key) {
                self.ended = true;
                break;
            }
            if !self.keys.takes(&object.key) {
                continue;
            }
            let key = ObjectKey::new(object.key).map_err(|error| {
                Error::new(
                    Kind::Listing,
                    "list",
                    self.bucket.as_str(),
                    error.to_string(),
                )
            })?;
            if self.full {
                // One that went meanwhile is not listed.
                let found = read_head(&self.store, &self.bucket, key)?;
                self.ready.extend(found.map(Listed::Object));
                continue;
            }
            self.ready.push_back(Listed::Object(Entry {
                key,
                size: object.size,
                etag: known(object.etag),
                last_modified: object.last_modified,
                meta: None,
                hidden: false,
            }));
        }
        Ok(self)
    }
}

fn known(etag: ETag) -> Option<ETag> {
    (!etag.as_str().is_empty()).then_some(etag)
}

fn read_head(store: &Store, bucket: &BucketName, key: ObjectKey) -> Result<Option<Entry>> {
    match store.head_object(bucket, &key) {
        Ok(info) => Ok(Some(Entry {
            key,
            size: info.size,
            etag: known(info.meta.etag.clone()),
            last_modified: info.last_modified,
            meta: Some(Box::new(info.meta)),
            hidden: false,
        })),
        Err(filestore_store::Error::NoSuchKey | filestore_store::Error::NoSuchBucket) => Ok(None),
        Err(error) => Err(explain("head", format!("{bucket}/{key}"), error)),
    }
}

/// What the key holds now.
pub(crate) async fn head(
    store: &Arc<Store>,
    bucket: &BucketName,
    key: &ObjectKey,
) -> Result<Option<Entry>> {
    let (store, bucket, key) = (store.clone(), bucket.clone(), key.clone());
    let name = format!("{bucket}/{key}");
    blocking("head", &name, move || read_head(&store, &bucket, key)).await
}

/// Opens an object for reading.
pub(crate) async fn open(
    store: &Arc<Store>,
    bucket: &BucketName,
    key: &ObjectKey,
) -> Result<Object> {
    let (store, bucket, key) = (store.clone(), bucket.clone(), key.clone());
    let name = format!("{bucket}/{key}");
    let object = name.clone();
    let reader = blocking("get", &name, move || {
        store
            .open_object(&bucket, &key)
            .map_err(|error| explain("get", object, error))
    })
    .await?;
    let (info, file) = (reader.info, reader.file);
    let size = info.size;
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut offset = 0;
        while offset < size {
            let want = CHUNK_BYTES.min(usize::try_from(size - offset).unwrap_or(CHUNK_BYTES));
            let mut chunk = vec![0; want];
            let read = file
                .read_exact_at(&mut chunk, offset)
                .map(|()| Bytes::from(chunk))
                .map_err(|error| Error::new(Kind::Damaged, "read", &*name, error.to_string()));
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
            offset += want as u64;
        }
    });
    Ok(Object {
        info,
        body: received(receiver),
    })
}

fn received(receiver: mpsc::Receiver<Result<Bytes>>) -> Body {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    })
    .boxed()
}
