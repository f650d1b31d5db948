//! clusterctl as users run it, with a repository on disk, without network, and without the developer's own
//! configuration.

mod management;
mod release;
mod repository;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::process::Command;

use crate::programs;

pub use management::ManagementCluster;
pub use release::Release;
pub use repository::Repository;

/// The limit for a clusterctl command. clusterctl itself bounds most of its waits, but some only after minutes.
const WITHIN: Duration = Duration::from_mins(5);

/// clusterctl with a configuration, for one management cluster.
#[derive(Clone, Debug)]
pub struct Clusterctl {
    /// The folder in place of the user's home.
    home: PathBuf,
    configuration: PathBuf,
    kubeconfig: PathBuf,
    variables: Vec<(String, String)>,
}

impl Clusterctl {
    pub(crate) fn new(home: PathBuf, configuration: &Path, kubeconfig: &Path) -> Self {
        Self {
            home,
            configuration: configuration.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            // The file of credentials is empty: the manager under test gets its credentials from its environment.
            variables: vec![("AWS_B64ENCODED_CREDENTIALS".to_owned(), "Cg==".to_owned())],
        }
    }

    /// The same clusterctl with a template variable in its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The file of its configuration, for `--config`.
    pub fn configuration(&self) -> &Path {
        &self.configuration
    }

    /// Runs clusterctl with these arguments and returns its output; an error contains the error output.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let what = format!("clusterctl {}", arguments.join(" "));
        let ended = Command::new(programs::tool("clusterctl")?)
            .args(arguments)
            .arg("--config")
            .arg(&self.configuration)
            .env_clear()
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            // Without this setting clusterctl would ask the network for a newer version.
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(WITHIN, ended)
            .await
            .with_context(|| format!("{what} does not come to an end"))?
            .with_context(|| format!("start {what}"))?;
        if !output.status.success() {
            bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A file of several objects; JSON is YAML.
fn documents(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    documents.join("\n---\n")
}
