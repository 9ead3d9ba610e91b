//! `filestore gateway` as users and their charts start it.

// Helpers are test code to clippy only where they say so.
#![cfg(test)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const ACCESS: &str = "ryax";
const SECRET: &str = "Ab3dEf6hIj9k";

/// The binary without anything of this process's environment.
fn filestore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_filestore"));
    command.env_clear().arg("gateway").stderr(Stdio::piped());
    command
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already when the test went well.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts and waits for the line that names the addresses.
fn serving(command: &mut Command) -> (Running, serde_json::Value, Vec<String>) {
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let mut before = Vec::new();
    for line in lines {
        let line = line.unwrap();
        if line.contains("\"message\":\"Serving\"") {
            return (running, serde_json::from_str(&line).unwrap(), before);
        }
        before.push(line);
    }
    panic!("ended before it served: {before:?}");
}

/// Where a logged address is reached on this machine.
fn address(line: &serde_json::Value, field: &str) -> SocketAddr {
    let text = line[field].as_str().unwrap();
    let (_, port) = text.rsplit_once(':').unwrap();
    let port = port.trim_end_matches(|c: char| !c.is_ascii_digit());
    SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()))
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn fails(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn serves_with_versitygw_s_environment_alone() {
    let volume = tempfile::tempdir().unwrap();
    let (mut running, line, before) = serving(
        filestore()
            .env("VGW_BACKEND", "posix")
            .env("VGW_BACKEND_ARG", volume.path())
            .env("VGW_PORT", ":0")
            .env("VGW_REGION", "eu-west-3")
            .env("VGW_KEEP_ALIVE", "false")
            .env("VGW_HEALTH", "/_/health")
            .env("ROOT_ACCESS_KEY_ID", ACCESS)
            .env("ROOT_SECRET_ACCESS_KEY", SECRET)
            // Not one of versitygw's: the default is a fixed port.
            .env("FILESTORE_ADMIN_LISTEN", "127.0.0.1:0"),
    );

    // All interfaces, IPv4 among them.
    let s3 = address(&line, "addresses");
    assert!(get(s3, "/_/health").starts_with("HTTP/1.1 200"));
    let refused = get(s3, "/");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("<Code>AccessDenied</Code>"));
    assert!(get(address(&line, "admin"), "/readyz").starts_with("HTTP/1.1 200"));
    assert!(before.iter().any(|line| line.contains("VGW_KEEP_ALIVE")));
    assert!(!format!("{line}{before:?}").contains(SECRET));

    let stopped = Command::new("kill")
        .args(["-TERM", &running.0.id().to_string()])
        .status()
        .unwrap();
    assert!(stopped.success());
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

#[test]
fn refuses_to_start_with_one_clear_line_and_a_code() {
    let volume = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let keys = |command: &mut Command| {
        command
            .env("ROOT_ACCESS_KEY", ACCESS)
            .env("ROOT_SECRET_KEY", SECRET);
    };
    let case = |arguments: &[&str], with_keys: bool| {
        let mut command = filestore();
        command.args(arguments);
        if with_keys {
            keys(&mut command);
        }
        fails(&mut command)
    };
    let path = volume.path().to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "none"];

    for (outcome, code, says) in [
        (case(&[], true), 2, "no volume"),
        (
            case(&[&[path], &listen[..]].concat(), false),
            2,
            "no credentials",
        ),
        (
            case(&[path, "--listen", &taken, "--admin-listen", "none"], true),
            4,
            "another process",
        ),
        (
            case(&[&["/nonexistent/volume"], &listen[..]].concat(), true),
            5,
            "/nonexistent/volume",
        ),
        (
            case(&[path, "--listen", "nowhere"], true),
            2,
            "no address to listen on",
        ),
    ] {
        assert_eq!(outcome.0, code, "{}", outcome.1);
        assert!(outcome.1.contains(says), "{}", outcome.1);
        assert!(!outcome.1.contains("panicked"), "{}", outcome.1);
    }
    // Nothing was written by any of them.
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
}
