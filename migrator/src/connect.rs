//! Opening both sides, and telling a source that does not exist from one that is down.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::s3::Patience;
use crate::source::Source;
use crate::source::drive::DriveSource;
use crate::source::s3::S3Source;
use crate::source::volume::VolumeSource;
use crate::target::Target;
use crate::target::s3::S3Target;
use crate::target::volume::VolumeTarget;
use crate::{Endpoint, Error, Event, Kind, Location, Result};

/// Pause between two looks at a source that does not answer.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Whether there is a source.
#[derive(Debug, Clone)]
pub enum Presence {
    /// It answers.
    Present(Arc<dyn Source>),
    /// It does not exist.
    Absent(String),
}

/// Opens the source and looks whether it answers, once.
///
/// # Errors
/// [`Kind::Absent`], [`Kind::Down`], [`Kind::Auth`], [`Kind::Refused`], [`Kind::Usage`].
pub async fn source(endpoint: &Endpoint, patience: &Patience) -> Result<Arc<dyn Source>> {
    let source: Arc<dyn Source> = match &endpoint.location {
        Location::Http { .. } => Arc::new(S3Source::new(endpoint, patience.clone())?),
        Location::MinioDrive(path) => {
            present(path)?;
            let drive = DriveSource::open(path).await?;
            Arc::new(if endpoint.stopped {
                drive.of_stopped_server()
            } else {
                drive
            })
        }
        Location::Volume(path) => {
            present(path)?;
            Arc::new(VolumeSource::open(path).await?)
        }
    };
    source.check().await?;
    Ok(source)
}

fn present(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let object = path.display().to_string();
    Err(Error::new(Kind::Absent, "open", object, "does not exist").with_cure("mount it there"))
}

/// Opens the source, waiting for one that is down. `absent_after` is for how long it must look
/// absent to count as absent; `patient_with_auth` waits for credentials as well (a Secret that is
/// about to be filled).
///
/// # Errors
/// What it answered last when `patience.wait` is over; at once what waiting cannot change.
pub async fn wait_for_source(
    endpoint: &Endpoint,
    patience: &Patience,
    absent_after: Duration,
    patient_with_auth: bool,
) -> Result<Presence> {
    let begin = Instant::now();
    let mut absent_since: Option<Instant> = None;
    loop {
        let error = match source(endpoint, patience).await {
            Ok(source) => return Ok(Presence::Present(source)),
            Err(error) => error,
        };
        match error.kind {
            Kind::Absent => {
                let since = *absent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= absent_after {
                    return Ok(Presence::Absent(error.to_string()));
                }
            }
            Kind::Down => absent_since = None,
            Kind::Auth if patient_with_auth => absent_since = None,
            _ => return Err(error),
        }
        if begin.elapsed() >= patience.wait && error.kind != Kind::Absent {
            let cure = error.cure.clone();
            let cure =
                cure.unwrap_or_else(|| "nothing was started beside a store that exists".into());
            return Err(error.with_cure(cure));
        }
        let next = LOOK_EVERY
            .min(patience.wait)
            .max(Duration::from_millis(100));
        patience.progress.event(&Event::Waiting {
            error: &error,
            next,
        });
        tokio::select! {
            () = patience.cancel.cancelled() => {
                return Err(Error::new(Kind::Interrupted, "wait for", endpoint.location.to_string(), "stopped"));
            }
            () = tokio::time::sleep(next) => {}
        }
    }
}

/// What a target is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// To look: nothing is created, others may have it open.
    Look,
    /// To write, alone.
    Write,
    /// To write beside other workers of the same migration.
    WriteBeside,
}

/// Opens the target.
///
/// # Errors
/// [`Kind::Refused`], [`Kind::Down`], [`Kind::Auth`], [`Kind::Usage`].
pub async fn target(
    endpoint: &Endpoint,
    owner: &str,
    purpose: Use,
    patience: &Patience,
) -> Result<Arc<dyn Target>> {
    let target: Arc<dyn Target> = match &endpoint.location {
        Location::Http { .. } => Arc::new(S3Target::connect(endpoint, patience.clone()).await?),
        Location::Volume(path) => Arc::new(VolumeTarget::open(path, owner, purpose).await?),
        Location::MinioDrive(path) => {
            let object = path.display().to_string();
            return Err(
                Error::new(Kind::Usage, "open", object, "a MinIO drive is only read")
                    .with_cure("start MinIO on it and give its URL"),
            );
        }
    };
    if purpose != Use::Look {
        target.check().await?;
    }
    Ok(target)
}
