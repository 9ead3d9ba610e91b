//! The binary between a scripted store and a volume in a temporary directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use filestore_s3_stub::{Stub, World};
use tempfile::TempDir;

pub(crate) const ACCESS: &str = "ryax";
pub(crate) const SECRET: &str = "Ab3dEf6hIj9k";

/// What a command that ended said.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Asserts the exit code.
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }
}

/// A store and a volume to bring it to.
pub(crate) struct Migration {
    pub(crate) stub: Stub,
    directory: TempDir,
}

impl Migration {
    pub(crate) fn from(world: World) -> Self {
        Self {
            stub: Stub::start(world).unwrap(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn volume(&self) -> PathBuf {
        self.directory.path().join("volume")
    }

    /// `filestore migrate VERB ARGUMENTS`, its environment cleaned of settings; without patience
    /// unless the arguments ask for it.
    pub(crate) fn command(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = filestore();
        fs::create_dir_all(self.volume()).unwrap();
        let to = format!("volume:{}", self.volume().display());
        command
            .args(["migrate", verb, "--from", &self.stub.url(), "--to", &to])
            .args(arguments)
            .env("FILESTORE_FROM_ACCESS_KEY", ACCESS)
            .env("FILESTORE_FROM_SECRET_KEY", SECRET);
        if !arguments.contains(&"--wait") {
            command.args(["--wait", "0"]);
        }
        command
    }

    pub(crate) fn run(&self, verb: &str, arguments: &[&str]) -> Done {
        done(&mut self.command(verb, arguments))
    }

    /// `filestore migrate status --json` of the volume.
    pub(crate) fn status(&self) -> serde_json::Value {
        let to = format!("volume:{}", self.volume().display());
        let mut command = filestore();
        command.args(["migrate", "status", "--json", "--to", &to]);
        serde_json::from_str(&done(&mut command).ends_with(0).out).unwrap()
    }

    /// Ends the store; the volume is there as long as what is given back.
    pub(crate) fn stop(self) -> TempDir {
        self.directory
    }

    /// Bodies on the volume by `bucket/key`.
    pub(crate) fn held(&self) -> BTreeMap<String, Vec<u8>> {
        let mut held = BTreeMap::new();
        let root = self.volume().join("s3");
        if root.exists() {
            walk(&root, &root, &mut held);
        }
        held
    }
}

/// The binary without anything of this process's environment.
pub(crate) fn filestore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_filestore"));
    command.env_clear();
    command
}

/// Runs a command to its end.
pub(crate) fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn walk(root: &Path, directory: &Path, held: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if directory == root
            && path
                .file_name()
                .unwrap()
                .as_encoded_bytes()
                .starts_with(b".")
        {
            // Locks of versitygw's format; no bucket is called so.
        } else if path.is_dir() {
            walk(root, &path, held);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            held.insert(name.to_owned(), fs::read(&path).unwrap());
        }
    }
}
