//! Runs the containers of the pod, in this process and in their order.

use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use filestore_common::marker::{MARKER_FILE, Marker, MarkerState};
use filestore_common::shutdown::CancellationToken;
use filestore_gateway::Gateway;
use filestore_migrator::{ExitCode, Outcome, RunOptions};
use filestore_operator::render::{GATEWAY_CONTAINER, pod_template};
use filestore_store::{Store, StoreOptions};
use k8s_openapi::api::core::v1::PodSpec;

use super::process::Process;
use super::report::{self, Serving};
use super::{Args, Checked, is_directory, legacy_drive, say};
use crate::exit::WithCode as _;
use crate::progress::Shown;
use crate::{gateway, migrate, volume};

/// Directory of a volume that holds what is not an object.
const VOLUME_STATE: &str = ".filestore";

/// Runs the pod to its end.
pub(super) fn pod(
    args: &Args,
    checked: &Checked,
    shutdown: &CancellationToken,
) -> anyhow::Result<ProcessExit> {
    let pod = pod_template(&checked.filestore)
        .spec
        .context("the pod has no spec")?;
    let target = checked.claims.path(&checked.filestore.storage.claim);
    drive_is_there(checked, &target)?;
    let created = create(&target)?;
    let result = init(&pod, checked, &target, shutdown);
    if result.is_err() {
        // Succeeds only where nothing was put into it: bad input leaves nothing behind.
        for path in &created {
            if std::fs::remove_dir(path).is_err() {
                break;
            }
        }
    }
    if let Some(exit) = result? {
        return Ok(ProcessExit::from(exit.code()));
    }
    if args.once || shutdown.is_cancelled() {
        return Ok(ProcessExit::SUCCESS);
    }
    serve(args, checked, &pod, &target, shutdown)
}

/// A missing directory is most likely a typing error, and must not pass for a store that never
/// was. After cut-over the legacy drive may be gone.
fn drive_is_there(checked: &Checked, target: &Path) -> anyhow::Result<()> {
    let Some((claim, drive)) = legacy_drive(&checked.filestore, &checked.claims) else {
        return Ok(());
    };
    if is_directory(&drive) || is_cut_over(target) {
        return Ok(());
    }
    Err(anyhow!(
        "claim {claim}: {} is no directory; put the legacy drive there, or name it by --claim {claim}=DIR",
        drive.display()
    ))
    .code(ExitCode::Refused)
}

fn is_cut_over(target: &Path) -> bool {
    std::fs::read(target.join(VOLUME_STATE).join(MARKER_FILE))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Marker>(&bytes).ok())
        .is_some_and(|marker| marker.state == MarkerState::Cutover)
}

/// Makes the directory of the volume; returns the directories that were missing, innermost first.
fn create(target: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let missing = target
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .map(Path::to_owned)
        .collect();
    std::fs::create_dir_all(target)
        .with_context(|| format!("create volume {}", target.display()))
        .code(ExitCode::Refused)?;
    Ok(missing)
}

/// Runs the init containers. An exit code ends the run although nothing failed here.
fn init(
    pod: &PodSpec,
    checked: &Checked,
    target: &Path,
    shutdown: &CancellationToken,
) -> anyhow::Result<Option<ExitCode>> {
    for container in pod.init_containers.iter().flatten() {
        let mounts = checked.claims.mounts(pod, container)?;
        let process = Process::new(container, &mounts, &checked.secrets)?;
        match process.subcommand() {
            "migrate" => {
                let outcome = take_over(&process, shutdown)?;
                say(&(outcome.summary.trim_end().to_owned() + "\n"))?;
                if let Some(marker) = &outcome.marker {
                    say(&report::marker(&target.join(VOLUME_STATE), marker))?;
                }
                if outcome.exit != ExitCode::Ok {
                    return Ok(Some(outcome.exit));
                }
            }
            "volume" => {
                for line in volume::prepare(&process.parse()?)? {
                    say(&(line + "\n"))?;
                }
            }
            other => bail!(
                "container {}: {other:?} cannot run here",
                process.container()
            ),
        }
    }
    Ok(None)
}

fn take_over(process: &Process, shutdown: &CancellationToken) -> anyhow::Result<Outcome> {
    let options = RunOptions {
        // The manifest does not change while it runs: waiting for other keys would be in vain.
        wait_for_credentials: false,
        ..migrate::run_options(process.parse()?)?
    };
    let progress = Arc::new(Shown::new());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start threads")?;
    let outcome = runtime.block_on(filestore_migrator::run(
        &options,
        Arc::clone(&progress) as Arc<_>,
        shutdown.clone(),
    ));
    progress.finish().context("show the progress")?;
    Ok(outcome?)
}

fn serve(
    args: &Args,
    checked: &Checked,
    pod: &PodSpec,
    target: &Path,
    shutdown: &CancellationToken,
) -> anyhow::Result<ProcessExit> {
    let container = pod
        .containers
        .iter()
        .find(|container| container.name == GATEWAY_CONTAINER)
        .context("the pod has no gateway")?;
    let mounts = checked.claims.mounts(pod, container)?;
    let mut process = Process::new(container, &mounts, &checked.secrets)?;
    process.set_flag("--listen", &args.listen.to_string());
    process.set_flag("--admin-listen", &args.admin_listen.to_string());
    let config = gateway::config_from(process.parse()?, process.variables())?;
    let gateway = Gateway::start(&config, shutdown).map_err(gateway::coded)?;
    let root = &checked.filestore.root;
    let endpoint = gateway
        .addresses()
        .first()
        .context("the gateway has no address")?;
    say(&report::serving(&Serving {
        manifest: &args.file,
        filestore: &checked.filestore,
        access_key: checked.secrets.value(&root.secret, &root.access_key)?,
        endpoint: *endpoint,
        admin: gateway.admin_address(),
        buckets: &buckets(target)?,
    }))?;
    gateway.wait().map_err(gateway::coded)?;
    say("Stopped\n")?;
    Ok(ProcessExit::SUCCESS)
}

fn buckets(target: &Path) -> anyhow::Result<Vec<String>> {
    let store = Store::open(target, &StoreOptions::default()).context("open the volume")?;
    let buckets = store.list_buckets().context("list buckets")?;
    Ok(buckets
        .into_iter()
        .map(|bucket| bucket.name.to_string())
        .collect())
}
