//! `.minio.sys/format.json`: is this a drive that can be read alone?

use std::io::Read;

use serde::Deserialize;

use super::error::{FormatError, Result};
use super::fs::Root;

const PATH: &str = ".minio.sys/format.json";

/// Longest `format.json` that is read, in bytes; hundreds of drives fit.
const MAX_LEN: u64 = 1 << 20;

#[derive(Deserialize)]
struct Format {
    #[serde(default)]
    version: String,
    #[serde(default, rename = "format")]
    kind: String,
    id: Option<String>,
    xl: Option<Erasure>,
}

#[derive(Deserialize)]
struct Erasure {
    #[serde(default)]
    version: String,
    #[serde(default)]
    sets: Vec<Vec<String>>,
}

/// Reads the deployment id of a single drive.
///
/// # Errors
/// [`FormatError`] for anything else.
pub(super) fn read(root: &Root) -> Result<Option<String>> {
    let path = root.path().to_owned();
    let unreadable = |problem: String| FormatError::Unreadable {
        path: path.clone(),
        problem,
    };
    let Some((file, stamp)) = root.open_file(PATH)? else {
        return Err(FormatError::Missing { path }.into());
    };
    if stamp.len > MAX_LEN {
        return Err(unreadable(format!("{} bytes long", stamp.len)).into());
    }
    let mut text = Vec::new();
    file.take(MAX_LEN)
        .read_to_end(&mut text)
        .map_err(|error| root.io_error("read", PATH, error))?;
    let format: Format =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    let (sets, drives) = format.xl.as_ref().map_or((0, 0), |xl| {
        (xl.sets.len(), xl.sets.iter().map(Vec::len).sum())
    });
    match format.kind.as_str() {
        "fs" => Err(FormatError::FsMode { path }.into()),
        "xl" | "xl-single" if sets > 1 || drives > 1 => {
            Err(FormatError::ErasureSet { path, sets, drives }.into())
        }
        "xl" | "xl-single" => match format.xl {
            Some(xl) if format.version == "1" && xl.version == "3" && drives == 1 => Ok(format.id),
            Some(xl) if drives == 1 => Err(FormatError::Unknown {
                path,
                format: format!("{} {}/{}", format.kind, format.version, xl.version),
            }
            .into()),
            _ => Err(unreadable("it names no drive".to_owned()).into()),
        },
        "" => Err(unreadable("it names no format".to_owned()).into()),
        other => Err(FormatError::Unknown {
            path,
            format: other.to_owned(),
        }
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Drive, Error};
    use super::*;

    fn drive(format: Option<&str>) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        if let Some(format) = format {
            std::fs::create_dir(directory.path().join(".minio.sys")).unwrap();
            std::fs::write(directory.path().join(PATH), format).unwrap();
        }
        directory
    }

    fn refused(format: Option<&str>) -> FormatError {
        match Drive::open(drive(format).path()) {
            Err(Error::Format(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_single_drive_tells_its_deployment_id() {
        let directory = drive(Some(
            r#"{"version":"1","format":"xl-single","id":"0f0f","xl":{"version":"3","this":"d","sets":[["d"]],"distributionAlgo":"SIPMOD+PARITY"}}"#,
        ));
        let drive = Drive::open(directory.path()).unwrap();

        assert_eq!(drive.deployment_id(), Some("0f0f"));
    }

    #[test]
    fn everything_else_is_refused_with_what_to_do() {
        let erasure = refused(Some(
            r#"{"version":"1","format":"xl","id":"x","xl":{"version":"3","this":"a","sets":[["a","b"],["c","d"]]}}"#,
        ));
        assert!(matches!(
            erasure,
            FormatError::ErasureSet {
                sets: 2,
                drives: 4,
                ..
            }
        ));
        assert!(erasure.to_string().ends_with("use the online source"));

        let fs = refused(Some(
            r#"{"version":"1","format":"fs","id":"x","fs":{"version":"2"}}"#,
        ));
        assert!(matches!(fs, FormatError::FsMode { .. }));

        let missing = refused(None);
        assert!(matches!(missing, FormatError::Missing { .. }));
        assert!(missing.to_string().contains("no .minio.sys/format.json"));

        for broken in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"format":"xl-single","version":"1"}"#,
        ] {
            assert!(
                matches!(refused(Some(broken)), FormatError::Unreadable { .. }),
                "{broken}"
            );
        }
        let newer =
            r#"{"version":"1","format":"xl-single","id":"x","xl":{"version":"4","sets":[["d"]]}}"#;
        for unknown in [newer, r#"{"version":"1","format":"cache"}"#] {
            assert!(
                matches!(refused(Some(unknown)), FormatError::Unknown { .. }),
                "{unknown}"
            );
        }
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), std::path::Path::new("/nonexistent/drive")] {
            let error = Drive::open(path).unwrap_err();
            assert!(
                matches!(error, Error::Format(FormatError::NotADirectory { .. })),
                "{error}"
            );
        }
    }
}
