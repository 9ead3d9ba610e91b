//! The environment that versitygw's users set, so that one Deployment can run either engine.

use std::collections::BTreeMap;

use anyhow::Context as _;
use filestore_gateway::Listen;

/// Settings of versitygw that change what is served or how it is protected: ignoring one would be
/// worse than not starting. (name, why)
const REFUSED: [(&str, &str); 5] = [
    ("VGW_READ_ONLY", "read-only mode is not supported yet"),
    (
        "VGW_META_NONE",
        "objects without metadata are not supported",
    ),
    (
        "VGW_META_SIDECAR",
        "versitygw's sidecar metadata has to be imported into the volume first",
    ),
    (
        "VGW_IAM_DIR",
        "accounts of versitygw are not read: write them to a file for --access-file",
    ),
    ("VGW_VERSIONING_DIR", "versioning is not supported yet"),
];

/// Settings of versitygw that may be left out without harm.
const IGNORED: [&str; 4] = [
    "VGW_ADMIN_PORT",
    "VGW_ACCESS_LOG",
    "VGW_CHOWN_UID",
    "VGW_CHOWN_GID",
];

/// A snapshot of environment variables; empty ones count as not set.
#[derive(Debug, Default)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What concerns the gateway, of this process.
    pub(super) fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("VGW_") || name.starts_with("ROOT_"))
            .collect()
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Whether a switch is on, in the spellings that versitygw takes.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.switch(name) == Some(true)
    }

    fn switch(&self, name: &str) -> Option<bool> {
        let value = self.text(name)?.to_ascii_lowercase();
        Some(!matches!(
            value.as_str(),
            "false" | "f" | "0" | "no" | "off"
        ))
    }

    /// Addresses, separated by commas.
    pub(super) fn listen(&self, name: &str) -> anyhow::Result<Vec<Listen>> {
        let Some(text) = self.text(name) else {
            return Ok(Vec::new());
        };
        text.split(',')
            .map(|address| address.trim().parse().with_context(|| name.to_owned()))
            .collect()
    }

    /// Refuses what would serve something else than the user asked for.
    pub(super) fn refuse_unsupported(&self) -> anyhow::Result<()> {
        if let Some(backend) = self.text("VGW_BACKEND")
            && backend != "posix"
        {
            anyhow::bail!("VGW_BACKEND={backend}: only posix is supported");
        }
        for (name, why) in REFUSED {
            if self.switch(name).unwrap_or(false) {
                anyhow::bail!("{name} is set, but {why}: unset it");
            }
        }
        Ok(())
    }

    /// One line per setting that has no effect.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.switch("VGW_KEEP_ALIVE") == Some(false) {
            warnings.push("VGW_KEEP_ALIVE=false has no effect: keep-alive is always on".to_owned());
        }
        for name in IGNORED {
            if self.text(name).is_some() {
                warnings.push(format!("{name} has no effect"));
            }
        }
        warnings
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}
