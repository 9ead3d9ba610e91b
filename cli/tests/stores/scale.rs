//! Memory on many keys: two ordered streams are merged, so that it does not depend on their number
//! (minio/mc#3376, #3781: OOM kills on flat prefixes).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use filestore_s3_stub::{Op, Stub, Synthetic, World};

use crate::harness::{ACCESS, SECRET, filestore};

const MIB: u64 = 1 << 20;
/// What a small pod has.
const LIMIT: u64 = 256 * MIB;
/// Peak that a million keys a side must stay below.
const BOUND: u64 = 200 * MIB;

/// A memory cgroup of its own, of either version; goes when it is dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(limit: u64) -> Self {
        // Version 2 hands controllers down only where it is told to.
        drop(fs::write(
            "/sys/fs/cgroup/cgroup.subtree_control",
            "+memory",
        ));
        let name = format!("filestore-test-{}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        for (root, file) in kinds {
            let directory = Path::new(root).join(&name);
            if !Path::new(root).join("cgroup.procs").exists() || fs::create_dir(&directory).is_err()
            {
                continue;
            }
            let made = Self(directory);
            if fs::write(made.0.join(file), limit.to_string()).is_ok() {
                return made;
            }
        }
        panic!("no memory cgroup can be made here");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

/// The most memory that a process had so far, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// `count` flat keys on both sides, equal; the target takes what is put to it.
struct Sides {
    from: Stub,
    to: Stub,
}

impl Sides {
    fn new(count: u64) -> Self {
        let side = || {
            let mut world = World::new();
            world.bucket("abc").synthetic = Some(Synthetic::new(count));
            Stub::start(world).unwrap()
        };
        Self {
            from: side(),
            to: side(),
        }
    }

    /// Runs a command with default flags in `cgroup`; returns its output and its peak.
    fn run(&self, verb: &str, cgroup: &Cgroup) -> (String, u64) {
        let binary = filestore();
        let mut command = Command::new("/bin/sh");
        command
            .env_clear()
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(cgroup.0.join("cgroup.procs"))
            .arg(binary.get_program())
            .args(["migrate", verb, "--from", &self.from.url(), "--to"])
            .arg(self.to.url());
        for side in ["FROM", "TO"] {
            command
                .env(format!("FILESTORE_{side}_ACCESS_KEY"), ACCESS)
                .env(format!("FILESTORE_{side}_SECRET_KEY"), SECRET);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut highest, mut held) = (0, false);
        let name = cgroup.0.file_name().unwrap().to_str().unwrap();
        while child.try_wait().unwrap().is_none() {
            highest = peak(child.id()).unwrap_or(0).max(highest);
            held |= fs::read_to_string(format!("/proc/{}/cgroup", child.id()))
                .is_ok_and(|groups| groups.contains(name));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(held, "the limit was not its own");
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{:?}\n{told}{errors}",
            output.status
        );
        (told, highest)
    }
}

/// Peaks of `plan` and of a copy that finds nothing to do.
fn peaks(count: u64, cgroup: &Cgroup) -> [u64; 2] {
    let sides = Sides::new(count);
    let (plan, of_plan) = sides.run("plan", cgroup);
    assert!(plan.contains(&format!("{count} are the same")), "{plan}");
    sides.from.forget();
    sides.to.forget();
    let (copy, of_copy) = sides.run("copy", cgroup);
    assert!(copy.contains(&format!("{count} were the same")), "{copy}");
    let pages = count.div_ceil(1000);
    assert_eq!(sides.from.count(Op::ListObjects), pages);
    assert_eq!(sides.from.count(Op::GetObject), 0);
    [of_plan, of_copy]
}

/// A million keys where `FILESTORE_TEST_KEYS` asks for them (`make soak`). Otherwise a fifth of
/// that, and what it takes more than a twentieth is carried on to a million.
#[test]
fn a_million_keys_a_side_fit_a_small_pod() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can make a cgroup.
    }
    let cgroup = Cgroup::new(LIMIT);
    let count = std::env::var("FILESTORE_TEST_KEYS");
    let count = count.map_or(200_000, |count| count.parse().unwrap());
    let few = peaks(50_000, &cgroup);
    let many = peaks(count, &cgroup);

    for (verb, few, many) in [("plan", few[0], many[0]), ("copy", few[1], many[1])] {
        let more = many.saturating_sub(few);
        let million = few + more * (1_000_000 - 50_000) / (count - 50_000);
        println!(
            "{verb}: {} MiB at 50000 keys, {} MiB at {count}",
            few / MIB,
            many / MIB
        );
        assert!(million < BOUND, "{verb}: {few} bytes, then {many}");
    }
}
