//! What people and machines see of a migration, the same for every command.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::progress::Style;

/// Flags that any command of `migrate` takes, before or after its name.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Show {
    /// How progress is shown on standard error.
    #[arg(
        long,
        global = true,
        env = "FILESTORE_PROGRESS",
        value_enum,
        default_value_t = Style::Auto,
        value_name = "STYLE"
    )]
    pub(super) progress: Style,
    /// Serve /healthz, /readyz and /metrics here while the command runs.
    #[arg(
        long,
        global = true,
        env = "FILESTORE_ADMIN_ADDR",
        value_name = "IP:PORT"
    )]
    pub(super) admin_addr: Option<SocketAddr>,
    /// Write how it ended to this file as JSON, at most 4096 bytes (a Pod's termination message),
    /// after failures and signals too.
    #[arg(
        long,
        global = true,
        env = "FILESTORE_SUMMARY_FILE",
        value_name = "FILE"
    )]
    pub(super) summary_file: Option<PathBuf>,
}
