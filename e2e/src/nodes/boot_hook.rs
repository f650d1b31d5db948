//! The boot hooks of user data, which are run with bash and the AWS CLI of `make tools`, as cloud-init runs them. What
//! cloud-init itself does with the hook of this provider is shown by a story that runs cloud-init.
//!
//! The root folder of a computer is a folder of the world. Its console, and the output of its hooks, are logs of the
//! world: `console-<instance>.log` and `cloud-init-<instance>.log`.

use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

use super::multipart::{self, Part};
use super::state::NodeSimulator;
use super::user_data;
use crate::aws_proxy::computers::Computer;
use crate::programs;

/// The limit for a hook. It is longer than the hook's own attempts.
const WITHIN: Duration = Duration::from_mins(3);

/// The cloud-init that hooks call. It takes the first line of a template, and leaves the rest to the reader of the
/// configuration. The stages run after the hook.
const CLOUD_INIT: &str = "#!/bin/bash\nif [ \"$1\" = devel ]; then tail -n +2 \"$3\"; fi\n";

/// How often, and after how many seconds at first, the provider's hook tries again.
const TRIES: [(&str, &str); 2] = [("BOOT_HOOK_TRIES", "5"), ("BOOT_HOOK_PAUSE", "1")];

/// The configuration that reaches cloud-init: the user data, or what its boot hooks have fetched. `None` where a hook
/// fails: such a computer does not become a node.
pub(super) async fn configuration(simulator: &NodeSimulator, computer: &Computer) -> anyhow::Result<Option<Vec<u8>>> {
    let user_data = user_data::decode(&computer.user_data)?;
    let Some(parts) = multipart::parse(&user_data)? else {
        return Ok(Some(user_data));
    };
    let root = Root::new(simulator, computer)?;
    for part in parts.iter().filter(|part| part.content_type == "text/cloud-boothook") {
        if let Err(error) = root.run(part, simulator, computer).await {
            let instance = &computer.instance_id;
            tracing::warn!(instance, "does not boot: {error:#}; see {}", root.output.display());
            return Ok(None);
        }
    }
    root.configuration(&parts).map(Some)
}

/// The root folder of a computer.
struct Root {
    folder: PathBuf,
    /// The log of what hooks print.
    output: PathBuf,
}

impl Root {
    /// The root folder, created at the first boot.
    fn new(simulator: &NodeSimulator, computer: &Computer) -> anyhow::Result<Self> {
        let id = &computer.instance_id;
        let folder = simulator.directory.folder(&format!("computers/{id}"))?;
        for name in ["etc", "dev", "bin", "var", "var/log"] {
            simulator.directory.folder(&format!("computers/{id}/{name}"))?;
        }
        let console = simulator.options.logs.join(format!("console-{id}.log"));
        append(&console)?;
        link(&console, &folder.join("dev/console"))?;
        link(&programs::aws_cli()?, &folder.join("bin/aws"))?;
        let cloud_init = folder.join("bin/cloud-init");
        std::fs::write(&cloud_init, CLOUD_INIT).with_context(|| format!("write {}", cloud_init.display()))?;
        std::fs::set_permissions(&cloud_init, Permissions::from_mode(0o755))?;
        Ok(Self { folder, output: simulator.options.logs.join(format!("cloud-init-{id}.log")) })
    }

    /// Runs a hook with the credentials of the computer's instance profile.
    async fn run(&self, hook: &Part, simulator: &NodeSimulator, computer: &Computer) -> anyhow::Result<()> {
        let script = self.folder.join("boothook");
        std::fs::write(&script, &hook.content).with_context(|| format!("write {}", script.display()))?;
        let key = computer.key.as_ref().context("the instance has no credentials")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let output = append(&self.output)?;
        let mut child = Command::new("bash")
            .arg(&script)
            .env_clear()
            .env("PATH", format!("{}:{path}", self.folder.join("bin").display()))
            .env("HOME", &self.folder)
            .env("INSTANCE_ID", &computer.instance_id)
            .env("AWS_ENDPOINT_URL", &simulator.options.aws)
            .env("AWS_ACCESS_KEY_ID", &key.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key)
            .env("BOOT_HOOK_ROOT", &self.folder)
            .envs(TRIES)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("start bash")?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let Ok(status) = tokio::time::timeout(WITHIN, child.wait()).await else {
            if let Some(group) = id {
                kill_process_group(group, Signal::KILL).context("end the boot hook")?;
            }
            bail!("the boot hook does not end within {WITHIN:?}");
        };
        let status = status.context("wait for the boot hook")?;
        ensure!(status.success(), "the boot hook ended with {status}");
        Ok(())
    }

    /// The only configuration: a part of the user data, or what a hook has made a part of cloud-init's configuration.
    fn configuration(&self, parts: &[Part]) -> anyhow::Result<Vec<u8>> {
        let mut found = Vec::new();
        for part in parts {
            match part.content_type.as_str() {
                "text/cloud-boothook" => {
                    let path = self.folder.join("etc/cloud/cloud.cfg.d/99-bootstrap-data.cfg");
                    found.push(std::fs::read(&path).with_context(|| format!("read {}", path.display()))?);
                }
                "text/cloud-config" => found.push(part.content.clone().into_bytes()),
                other => bail!("user data has a part of type {other}, which is not known here"),
            }
        }
        let [configuration] = <[Vec<u8>; 1]>::try_from(found)
            .map_err(|found| anyhow::anyhow!("user data has {} configurations, not one", found.len()))?;
        Ok(configuration)
    }
}

fn append(path: &Path) -> anyhow::Result<File> {
    let file = File::options().create(true).append(true).open(path);
    file.with_context(|| format!("open {}", path.display()))
}

fn link(target: &Path, link: &Path) -> anyhow::Result<()> {
    if link.is_symlink() {
        return Ok(());
    }
    symlink(target, link).with_context(|| format!("link {}", link.display()))
}
