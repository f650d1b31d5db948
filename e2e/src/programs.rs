//! The paths of the world's programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The folder that `make tools` fills.
fn tools() -> PathBuf {
    repository().join("bin")
}

/// The checkout from which this crate was compiled.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A program or file of `make tools`, by its name in `bin/`.
pub(crate) fn tool(name: &str) -> anyhow::Result<PathBuf> {
    built_by("tools", name)
}

/// A program or file in `bin/` that another target of the Makefile builds.
pub(crate) fn built_by(target: &str, name: &str) -> anyhow::Result<PathBuf> {
    let path = tools().join(name);
    ensure!(path.exists(), "{} is missing; `make {target}` builds it", path.display());
    Ok(path)
}

/// The AWS CLI.
pub fn aws_cli() -> anyhow::Result<PathBuf> {
    Ok(tool("moto")?.join("bin/aws"))
}

/// The Python interpreter of moto and the AWS CLI.
pub(crate) fn python() -> anyhow::Result<PathBuf> {
    Ok(tool("moto")?.join("bin/python"))
}

/// The folder with CAPA's manifests: the templates of its releases and of its end-to-end tests.
pub fn capa_manifests() -> anyhow::Result<PathBuf> {
    tool("capa-manifests")
}

/// Cluster API's end-to-end specs, as a program.
pub fn upstream_specs() -> anyhow::Result<PathBuf> {
    built_by("upstream-specs", "upstream-specs")
}

/// The consumer of ClusterProfiles that cluster-inventory-api shows, and its plugin.
pub fn consumer_of_profiles() -> anyhow::Result<(PathBuf, PathBuf)> {
    let built = |name: &str| built_by("fleet-tools", &format!("cluster-inventory/{name}"));
    Ok((built("consumer")?, built("kubeconfig-secretreader")?))
}

/// The folder with the versions of cloud-init.
pub fn cloud_init() -> anyhow::Result<PathBuf> {
    built_by("cloud-init", "cloud-init/versions")?;
    tool("cloud-init")
}

/// The script that boots a computer with a version of cloud-init.
pub fn cloud_init_boot() -> PathBuf {
    repository().join("e2e/cloud-init/boot.sh")
}

/// The folder with the data of Cluster API's specs.
pub fn upstream_folder() -> PathBuf {
    repository().join("e2e/upstream")
}

/// The objects of a folder of kustomize, which may name files outside the folder.
///
/// # Errors
/// What kubectl says of a folder that it cannot build.
pub fn kustomize(folder: &Path) -> anyhow::Result<String> {
    let output = Command::new(tool("kubectl")?)
        .args(["kustomize", "--load-restrictor=LoadRestrictionsNone"])
        .arg(folder)
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl kustomize {}: {error}", folder.display());
    Ok(String::from_utf8(output.stdout)?)
}

/// The program under test, whose manager and other commands stories start: `CAPA_RS_BINARY`, or the binary that cargo
/// built beside the running program.
pub(crate) fn provider_program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("CAPA_RS_BINARY") {
        return Ok(PathBuf::from(path));
    }
    sibling("capa-rs")
}

/// The supervisor that cargo built beside the running program.
pub(crate) fn supervisor() -> anyhow::Result<PathBuf> {
    sibling("supervise")
}

/// The node simulator that cargo built beside the running program.
pub(crate) fn node_simulator() -> anyhow::Result<PathBuf> {
    sibling("node-simulator")
}

/// The output folder of cargo that contains the running program, e.g. `target/debug`.
fn output_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("find the running program")?;
    let folder = program.parent().context("the running program lies in no folder")?;
    // Test binaries are one folder deeper than other binaries.
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    Ok(folder.to_path_buf())
}

fn sibling(name: &str) -> anyhow::Result<PathBuf> {
    let path = output_folder()?.join(name);
    ensure!(path.exists(), "{} is missing; `cargo build --workspace` builds it", path.display());
    Ok(path)
}

/// The folder for the evidence of failed tests: beside cargo's output, so that `cargo clean` removes it.
pub(crate) fn evidence_folder() -> anyhow::Result<PathBuf> {
    Ok(output_folder()?.join("e2e-failures"))
}
