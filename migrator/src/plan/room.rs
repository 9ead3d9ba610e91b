//! Whether it fits.

use filestore_store::Space;
use serde::Serialize;

use super::Plan;

/// Room that a file takes beyond its bytes: directory entry, rounding up to blocks.
const OVERHEAD_BYTES: u64 = 4096;

/// Free space on the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// Bytes needed.
    pub needed_bytes: u64,
    /// Bytes free.
    pub available_bytes: u64,
    /// Files and directories needed.
    pub needed_inodes: u64,
    /// Files free; `None` where the file system does not count them.
    pub available_inodes: Option<u64>,
}

impl Room {
    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.needed_bytes <= self.available_bytes
            && self
                .available_inodes
                .is_none_or(|free| self.needed_inodes <= free)
    }
}

/// What the plan needs of `space`. A replaced object needs its room beside the old one for a
/// moment.
pub(super) fn needed(plan: &Plan, directories: u64, space: &Space) -> Room {
    let files = plan.create + plan.replace + directories;
    Room {
        needed_bytes: plan
            .copy_bytes
            .saturating_add(files.saturating_mul(OVERHEAD_BYTES)),
        available_bytes: space.available_bytes,
        needed_inodes: files,
        available_inodes: (space.total_inodes > 0).then_some(space.available_inodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_fits_only_when_bytes_and_files_do() {
        let room = |available_bytes, available_inodes| Room {
            needed_bytes: 10,
            available_bytes,
            needed_inodes: 2,
            available_inodes,
        };
        assert!(room(10, Some(2)).fits());
        assert!(room(10, None).fits());
        assert!(!room(9, Some(2)).fits());
        assert!(!room(10, Some(1)).fits());
    }
}
