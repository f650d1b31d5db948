//! kubectl, as users run it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::programs;

/// The output of kubectl with a kubeconfig, and with these variables beside those of this process.
///
/// # Errors
/// `make tools` has not built kubectl, or it fails; the error has what it says.
pub fn kubectl<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    kubeconfig: &Path,
    variables: impl IntoIterator<Item = (N, V)>,
    arguments: &[&str],
) -> anyhow::Result<String> {
    // What it discovers of an API server, it would keep for the next one at the same address.
    let cache = tempfile::tempdir()?;
    let output = Command::new(programs::tool("kubectl")?)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("--cache-dir")
        .arg(cache.path())
        .args(arguments)
        .envs(variables)
        .stdin(Stdio::null())
        .output()
        .context("run kubectl")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {}: {error}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}
