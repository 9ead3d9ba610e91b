//! Changing where a volume keeps its metadata, and taking over what versitygw kept beside it.
//! Nobody else has the volume open meanwhile.
//!
//! ```text
//! prove     every attribute fits, there is room          nothing is changed   [survey]
//! write     the new form, beside the old one, flushed    the old one counts   [form]
//! switch    volume.json                                  atomic
//! clear     the old form, which nobody reads any more    can be taken up again
//! ```
//! Killed before the switch the volume is what it was: what was written of the new form is not
//! read, and is written again or removed by the next conversion. Killed after it the volume is
//! converted; running the conversion again removes the rest of the old form.

mod form;
mod import;
mod survey;
mod walk;

use std::path::Path;

use crate::multipart::forms::Claimed;
use crate::query::{Access, Durability, MetadataMode, StoreOptions};
use crate::volume::Volume;
use crate::{Error, Result};

pub use import::{ImportOptions, import_sidecar};
pub use survey::{Counts, Unfit};

/// What a conversion is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading all metadata, to prove that the new form can hold it.
    Surveying,
    /// Writing the new form.
    Writing,
    /// The new form counts from here on.
    Switched,
    /// Removing the old form.
    Clearing,
}

/// Hears of every object, bucket, upload and part that a phase is done with.
pub type Progress<'a> = dyn FnMut(Phase) + 'a;

/// What to convert to, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvertOptions {
    /// The mode that the volume is to have.
    pub to: MetadataMode,
    /// Only look.
    pub dry_run: bool,
}

/// What became of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// What the volume was.
    pub from: MetadataMode,
    /// What there is to convert.
    pub counts: Counts,
    /// What the new form cannot hold. If there is anything, nothing was changed.
    pub unfit: Vec<Unfit>,
    /// The end.
    pub outcome: Outcome,
}

/// How a conversion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The volume has the new mode.
    Converted,
    /// It had it before; what was left of the other one is removed now.
    Finished,
    /// It had it before, and nothing was left.
    Unchanged,
    /// It was only looked at.
    DryRun,
    /// Something does not fit; the volume is what it was.
    Refused,
}

/// Changes the metadata mode of the volume at `path`.
///
/// # Errors
/// [`Error::Volume`] with a cure: no volume, in use, no extended attributes, no room;
/// [`Error::Damaged`] metadata; [`Error::Io`]. After an error the volume serves as before, or,
/// where the text says so, in its new mode.
pub fn convert(
    path: &Path,
    options: ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<Conversion> {
    let volume = open(path)?;
    let (from, to) = (volume.mode, options.to);
    if from == to {
        return finish(&volume, options, progress);
    }
    let survey = survey::survey(&volume, to, None, progress)?;
    let mut conversion = Conversion {
        from,
        counts: survey.counts,
        unfit: survey.unfit,
        outcome: Outcome::DryRun,
    };
    if !conversion.unfit.is_empty() {
        conversion.outcome = Outcome::Refused;
    } else if !options.dry_run {
        survey::check_room(&volume, to, &conversion.counts)?;
        conversion.unfit = write(&volume, to, progress)?;
        conversion.outcome = if conversion.unfit.is_empty() {
            Outcome::Converted
        } else {
            Outcome::Refused
        };
    }
    if conversion.outcome == Outcome::Converted {
        volume.switch_mode(to)?;
        progress(Phase::Switched);
        clear(&volume, from, progress)?;
    }
    Ok(conversion)
}

/// Opens a volume for this process alone; it must be one already.
fn open(path: &Path) -> Result<Volume> {
    let identity = path
        .join(crate::layout::CONTROL_DIR)
        .join(crate::layout::VOLUME_FILE);
    if path.is_dir() && !identity.exists() {
        return Err(Error::Volume(format!(
            "{} is no volume (it has no .filestore/volume.json): name the directory that `filestore gateway` serves",
            path.display()
        )));
    }
    Volume::open(path, &alone())
}

fn alone() -> StoreOptions {
    StoreOptions {
        durability: Durability::Relaxed,
        access: Access::Exclusive,
        ..StoreOptions::default()
    }
}

/// A conversion to the mode that the volume has.
fn finish(
    volume: &Volume,
    options: ConvertOptions,
    progress: &mut Progress<'_>,
) -> Result<Conversion> {
    let outcome = match (options.dry_run, volume.has_stale_metadata()?) {
        (true, _) => Outcome::DryRun,
        (false, false) => Outcome::Unchanged,
        (false, true) => {
            clear(volume, form::other(volume.mode), progress)?;
            Outcome::Finished
        }
    };
    Ok(Conversion {
        from: volume.mode,
        counts: Counts::default(),
        unfit: Vec::new(),
        outcome,
    })
}

/// Writes the new form and flushes it. What turns out not to fit after all is returned, and the
/// new form is gone again then, as after an error.
fn write(volume: &Volume, to: MetadataMode, progress: &mut Progress<'_>) -> Result<Vec<Unfit>> {
    if to == MetadataMode::Sidecar {
        // Of a conversion that did not get far.
        form::clear(volume, to, &mut |_| ())?;
    }
    let outcome = write_all(volume, to, progress);
    if !matches!(&outcome, Ok(unfit) if unfit.is_empty())
        && let Err(error) = form::clear(volume, to, &mut |_| ())
    {
        tracing::warn!(%error, "remove what an unfinished conversion wrote");
    }
    outcome
}

fn write_all(volume: &Volume, to: MetadataMode, progress: &mut Progress<'_>) -> Result<Vec<Unfit>> {
    let mut unfit = Vec::new();
    let devices = walk::walk(volume, Claimed::Recover, &mut |item| {
        let set = form::read(volume, volume.mode, item)?;
        match form::write(volume, to, item, &set) {
            Ok(()) => {}
            Err(error) => unfit.push(Unfit::of(item, error)?),
        }
        progress(Phase::Writing);
        Ok(())
    })?;
    devices.sync(&volume.flush)?;
    Ok(unfit)
}

/// Removes the form that is no longer in use.
fn clear(volume: &Volume, old: MetadataMode, progress: &mut Progress<'_>) -> Result<()> {
    form::clear(volume, old, progress)
        .and_then(|devices| devices.sync(&volume.flush))
        .and_then(|()| volume.forget_stale())
        .map_err(|error| match error {
            Error::Io { context, source } => Error::io(
                format!(
                    "the volume is converted; run it again to remove the old metadata: {context}"
                ),
                source,
            ),
            other => other,
        })
}

#[cfg(test)]
mod tests;
