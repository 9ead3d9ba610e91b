//! Copies of what a decided conflict overwrites or deletes, so that no decision is final.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use filestore_common::BucketName;
use futures::TryStreamExt;
use sha2::{Digest, Sha256};

use crate::manifest::{meta_digest, sync_parent, temporary, unix};
use crate::source::Entry;
use crate::target::Target;
use crate::{Error, Kind, Result, body};

/// Directory below `runs/<id>/`.
pub const LOST_DIR: &str = "lost";

fn failed(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Other,
        "save the overwritten object to",
        path.display().to_string(),
        error.to_string(),
    )
}

/// The same for the same version of the same object, so that a rerun saves it once.
fn name(bucket: &BucketName, entry: &Entry) -> String {
    let mut sha = Sha256::new();
    let etag = entry.etag.as_ref().map_or("", |etag| etag.as_str());
    let modified = unix(entry.last_modified).to_string();
    let meta = entry.meta.as_deref().map(meta_digest).unwrap_or_default();
    for field in [bucket.as_str(), entry.key.as_str(), etag, &modified, &meta] {
        sha.update(field.as_bytes());
        sha.update([0]);
    }
    hex::encode(&sha.finalize()[..16])
}

/// Saves what `target` holds under the key: `lost/<name>` has the bytes, `lost/<name>.json` says
/// what they are. Returns the name below `run_dir`.
///
/// # Errors
/// [`Kind::Conflict`] when the target holds another version by now.
pub(super) async fn save(
    target: &dyn Target,
    bucket: &BucketName,
    entry: &Entry,
    run_dir: &Path,
) -> Result<String> {
    let id = name(bucket, entry);
    let relative = format!("{LOST_DIR}/{id}");
    let path = run_dir.join(&relative);
    let described = with_json(&path);
    if path.exists() && described.exists() {
        return Ok(relative);
    }
    let object_name = format!("{bucket}/{}", entry.key);
    let object = target.open(bucket, &entry.key).await?;
    let found = &object.info;
    if found.size != entry.size
        || entry
            .etag
            .as_ref()
            .is_some_and(|etag| *etag != found.meta.etag)
    {
        let problem = "the object on the target is another one now";
        return Err(Error::new(Kind::Conflict, "save", object_name, problem));
    }
    let about = serde_json::json!({
        "bucket": bucket, "key": entry.key, "size": found.size,
        "lastModified": crate::state::rfc3339(found.last_modified), "meta": found.meta,
    });
    let mut object = body::checked(object, &object_name);
    std::fs::create_dir_all(run_dir.join(LOST_DIR)).map_err(|error| failed(&path, error))?;
    let new = temporary(&path);
    let mut file = File::create(&new).map_err(|error| failed(&path, error))?;
    while let Some(chunk) = object.body.try_next().await? {
        // Bodies of conflicts are few; a blocked disk holds up nothing but this run.
        file.write_all(&chunk)
            .map_err(|error| failed(&path, error))?;
    }
    file.sync_all().map_err(|error| failed(&path, error))?;
    let text = serde_json::to_vec_pretty(&about).map_err(|error| failed(&path, error))?;
    let mut json = File::create(&described).map_err(|error| failed(&path, error))?;
    json.write_all(&text)
        .and_then(|()| json.sync_all())
        .map_err(|error| failed(&path, error))?;
    std::fs::rename(&new, &path).map_err(|error| failed(&path, error))?;
    sync_parent(&path)?;
    sync_parent(&run_dir.join(LOST_DIR))?;
    Ok(relative)
}

fn with_json(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}
