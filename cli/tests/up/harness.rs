//! A directory to run in, and what can be seen of it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A directory for one test, gone at its end.
pub(crate) struct Workplace {
    pub(crate) dir: TempDir,
}

/// One of the manifests that are shipped.
pub(crate) fn example(name: &str) -> String {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../examples")
            .join(name),
    )
    .unwrap()
}

impl Workplace {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `filestore up m.yaml ARGS` on ports that are free, its environment cleaned of settings.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_filestore"));
        command
            .current_dir(self.dir.path())
            .env_clear()
            .arg("up")
            .arg("m.yaml")
            .args(args);
        for flag in ["--listen", "--admin-listen"] {
            if !args.contains(&flag) {
                command.args([flag, "127.0.0.1:0"]);
            }
        }
        command
    }

    /// Runs `up` to its end.
    pub(crate) fn up(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs `up --once` and expects it to end well; returns what it printed.
    pub(crate) fn up_once(&self) -> String {
        let output = self.up(&["--once"]);
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.status.code(), Some(0), "{text}");
        text
    }

    /// Starts `up` with its output in pipes.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.command(args);
        Running(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    /// Starts `up` and waits until it says that it serves.
    pub(crate) fn serve(&self) -> Serving {
        let mut command = self.command(&[]);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut child = Running(child);
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        let mut address = None;
        // The admin port is the last line of the greeting that matters here.
        for line in lines.by_ref() {
            let line = line.unwrap();
            greeting.push_str(&line);
            greeting.push('\n');
            if let Some(rest) = line.strip_prefix("Serving on http://") {
                address = rest.split(' ').next().map(str::to_owned);
            }
            if line.trim_start().starts_with("status") {
                break;
            }
        }
        let admin = greeting
            .rsplit_once("status")
            .and_then(|(_, rest)| rest.trim_start().strip_prefix("http://")?.split('/').next())
            .map(str::to_owned);
        Serving {
            child,
            rest: Box::new(lines),
            address: address.unwrap_or_else(|| panic!("not serving:\n{greeting}")),
            admin: admin.unwrap(),
            greeting,
        }
    }

    /// Every file with its size and modification time, and every directory, without what servers
    /// keep beside objects.
    pub(crate) fn files(&self, path: &str) -> BTreeMap<PathBuf, String> {
        let mut seen = self.snapshot(path);
        seen.retain(|path, _| {
            !path
                .iter()
                .any(|part| part == ".sgwtmp" || part == ".vgwlocks")
        });
        for (path, text) in &mut seen {
            if path.is_dir() {
                text.clear();
            }
        }
        seen
    }

    /// Every file and directory with size, mode, owner and modification time.
    pub(crate) fn snapshot(&self, path: &str) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        let mut todo = vec![self.path(path)];
        while let Some(path) = todo.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let times = (meta.mtime(), meta.mtime_nsec());
            let text = format!(
                "{} {:o} {} {:?}",
                meta.len(),
                meta.mode(),
                meta.uid(),
                times
            );
            if meta.is_dir() {
                todo.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            seen.insert(path, text);
        }
        seen
    }
}

/// A running `up`.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends Ctrl-C and waits; returns the exit code.
    pub(crate) fn interrupt(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed test must not leave a server behind; after `interrupt` it has ended already.
        drop(self.0.kill());
    }
}

/// A running `up` that serves.
pub(crate) struct Serving {
    child: Running,
    rest: Box<dyn Iterator<Item = std::io::Result<String>>>,
    pub(crate) address: String,
    pub(crate) admin: String,
    pub(crate) greeting: String,
}

impl Serving {
    /// Sends Ctrl-C and waits; returns the exit code.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        // The rest of its output fits into the pipe.
        let code = self.child.interrupt();
        self.rest.by_ref().for_each(drop);
        code
    }
}

/// Status line of an unsigned GET.
pub(crate) fn status_of(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}
