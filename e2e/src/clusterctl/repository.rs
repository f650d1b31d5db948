//! A clusterctl repository on disk with everything that `clusterctl init` installs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cluster_api::{self, BOOTSTRAP, CONTROL_PLANE, CORE, Provider};
use crate::clusterctl::{Release, documents};
use crate::{pki::Pki, ports::free_port, programs};

/// One of Cluster API's own providers in the repository.
struct Upstream {
    provider: &'static Provider,
    /// The provider's name and type in clusterctl's configuration.
    name: &'static str,
    type_: &'static str,
    folder: &'static str,
}

const UPSTREAM: [Upstream; 3] = [
    Upstream { provider: &CORE, name: "cluster-api", type_: "CoreProvider", folder: "cluster-api" },
    Upstream { provider: &BOOTSTRAP, name: "kubeadm", type_: "BootstrapProvider", folder: "bootstrap-kubeadm" },
    Upstream {
        provider: &CONTROL_PLANE,
        name: "kubeadm",
        type_: "ControlPlaneProvider",
        folder: "control-plane-kubeadm",
    },
];

/// The name of this provider in clusterctl's configuration.
const OURS: &str = "aws-rs";

/// The name of this project's add-on in clusterctl's configuration.
const OUR_ADDON: &str = "aws-rs-fleet";

/// The CustomResourceDefinitions of cert-manager.
const CERT_MANAGER: &str = "cert-manager.yaml";

/// The repository of one management cluster. Its webhooks are those of managers on this host.
pub struct Repository {
    folder: PathBuf,
    /// The managers of the repository's providers, and the ports of their webhooks.
    pub(crate) webhooks: Vec<(&'static Provider, u16)>,
    /// The clusterctl configuration that names the repository.
    pub(crate) configuration: PathBuf,
}

impl Repository {
    /// Writes Cluster API and the required part of cert-manager.
    pub(crate) fn write(folder: PathBuf, pki: &Pki) -> anyhow::Result<Self> {
        let version = upstream_version()?;
        let mut webhooks = Vec::new();
        let infrastructure = "infrastructure-aws-rs";
        let mut providers = vec![
            entry(&folder, OURS, "InfrastructureProvider", infrastructure, "infrastructure"),
            entry(&folder, OUR_ADDON, "AddonProvider", "addon-aws-rs-fleet", "addon"),
        ];
        for upstream in &UPSTREAM {
            let release = folder.join(upstream.folder).join(&version);
            fs::create_dir_all(&release)?;
            let port = free_port()?;
            let manifests = cluster_api::called_by_url(upstream.provider.manifests()?, port, &pki.ca)?;
            fs::write(release.join(upstream.provider.components), documents(&manifests))?;
            fs::copy(programs::tool("cluster-api-metadata.yaml")?, release.join("metadata.yaml"))?;
            webhooks.push((upstream.provider, port));
            let kind = upstream.provider.components.trim_end_matches("-components.yaml");
            providers.push(entry(&folder, upstream.name, upstream.type_, upstream.folder, kind));
        }
        let cert_manager_version = cert_manager_version()?;
        let cert_manager = folder.join("cert-manager").join(&cert_manager_version);
        fs::create_dir_all(&cert_manager)?;
        fs::copy(programs::tool(CERT_MANAGER)?, cert_manager.join(CERT_MANAGER))?;
        // A second configuration beside that of the release, which names this provider only.
        let configuration = folder.join("all-providers.yaml");
        let content = json!({
            "providers": providers,
            "cert-manager": {
                "url": cert_manager.join(CERT_MANAGER),
                "version": cert_manager_version,
                "timeout": "60s",
            },
        });
        fs::write(&configuration, content.to_string())?;
        Ok(Self { folder, webhooks, configuration })
    }

    /// The folder for releases of this provider.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a release of this checkout with the given version.
    pub fn add(&self, version: &str) -> anyhow::Result<Release> {
        Release::render(&self.folder, version)
    }
}

fn entry(folder: &Path, name: &str, type_: &str, provider: &str, kind: &str) -> Value {
    let url = folder.join(provider).join("latest").join(format!("{kind}-components.yaml"));
    json!({ "name": name, "type": type_, "url": url })
}

/// The version of clusterctl, which is also that of the Cluster API programs that `make tools` builds.
fn upstream_version() -> anyhow::Result<String> {
    let output = Command::new(programs::tool("clusterctl")?)
        .args(["version", "--output=short"])
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .output()
        .context("ask clusterctl for its version")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The default cert-manager version of clusterctl, from the file that `make tools` builds from.
fn cert_manager_version() -> anyhow::Result<String> {
    let path = programs::repository().join("hack/tools/cert-manager/go.mod");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let required = text.lines().find_map(|line| line.strip_prefix("require github.com/cert-manager/cert-manager "));
    Ok(required.with_context(|| format!("no version in {}", path.display()))?.trim().to_owned())
}
