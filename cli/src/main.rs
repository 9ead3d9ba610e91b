//! The `filestore` binary: one subcommand per job, arguments in, exit codes out.
//!
//! Each subcommand is a module with an `Args` (its command line) and a `run` that returns the
//! exit code or an error; an error becomes one line on standard error.

mod crd;
mod exit;
mod gateway;
mod images;
mod migrate;
mod operator;
mod preflight;
mod progress;
mod reference;
mod up;
mod volume;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// S3 file store on a plain volume that takes over from MinIO.
#[derive(Debug, Parser)]
#[command(
    name = "filestore",
    version,
    propagate_version = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a Filestore manifest on this machine, no cluster needed.
    Up(up::Args),
    /// Serve a volume over S3.
    Gateway(Box<gateway::Args>),
    /// Take a legacy S3 store over.
    Migrate(Box<migrate::Args>),
    /// Work on a volume that no server needs to run for.
    Volume(volume::Args),
    /// Keep a Kubernetes cluster as its Filestores say.
    Operator(operator::Args),
    /// Read a cluster and say what a take-over in a namespace would need.
    Preflight(preflight::Args),
    /// Print the images that a manifest or chart would pull.
    Images(images::Args),
    /// Print the CustomResourceDefinition of the Filestore resource.
    Crd(crd::Args),
    /// Bring the generated parts of a page of the reference up to date.
    #[command(hide = true)]
    Reference(reference::Args),
}

/// Memory by the page: with huge pages each thread's first allocation takes 2 MiB and more, so that
/// a process with few megabytes in use holds a hundred.
///
/// `PR_SET_THP_DISABLE`, prctl(2).
fn without_huge_pages() {
    // An old kernel or a strict seccomp profile knows no such switch: then it costs memory.
    rustix::thread::disable_transparent_huge_pages(true).ok();
}

fn main() -> ExitCode {
    without_huge_pages();
    let result = match Cli::parse().command {
        Command::Up(args) => up::run(&args),
        Command::Gateway(args) => gateway::run(*args),
        Command::Migrate(args) => migrate::run(*args),
        Command::Volume(args) => volume::run(&args),
        Command::Operator(args) => operator::run(&args),
        Command::Preflight(args) => preflight::run(&args),
        Command::Images(args) => images::run(&args),
        Command::Crd(args) => crd::run(&args),
        Command::Reference(args) => reference::run(&args),
    };
    result.unwrap_or_else(|error| {
        // Nowhere is left to report to when standard error is closed.
        drop(writeln!(std::io::stderr(), "filestore: {error:#}"));
        ExitCode::from(exit::of(&error).code())
    })
}
