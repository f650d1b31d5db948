//! What Ignition fetches: objects in S3 with the AWS CLI of `make tools` and the credentials of the instance profile,
//! and what everybody may fetch who has the URL, with the Python of `make tools`. Both follow proxies and trust
//! certificate authorities by environment variables.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use super::ignition::Transport;
use super::state::NodeSimulator;
use crate::aws_proxy::computers::Computer;
use crate::programs;

/// The limit for one source.
const WITHIN: Duration = Duration::from_mins(1);

/// The program that writes what is at a URL into a file. Its messages do not contain the URL, which may be a signature.
const GET: &str = "import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])";

/// The content at a URL. No error names its query, which may be a signature.
pub(super) async fn fetch(
    simulator: &NodeSimulator,
    computer: &Computer,
    url: &str,
    transport: &Transport,
) -> anyhow::Result<Vec<u8>> {
    let folder = format!("computers/{}", computer.instance_id);
    let folder = simulator.directory.folder(&folder)?;
    let file = folder.join("fetched");
    let mut command = match url.split_once("://") {
        Some(("s3", place)) => from_bucket(simulator, computer, place, &file)?,
        Some(("http" | "https", _)) => get(url, &file)?,
        _ => bail!("Ignition fetches no such URL here"),
    };
    command.env("HOME", &folder).envs(variables(transport, &folder)?);
    run(command).await?;
    std::fs::read(&file).with_context(|| format!("read {}", file.display()))
}

/// The command that writes an object of S3 into a file.
fn from_bucket(simulator: &NodeSimulator, computer: &Computer, place: &str, file: &Path) -> anyhow::Result<Command> {
    let (bucket, key) = place.split_once('/').context("the URL has no key")?;
    let credentials = computer.key.as_ref().context("the instance has no credentials")?;
    let mut command = program(&programs::aws_cli()?);
    command
        .args(["s3api", "get-object", "--bucket", bucket, "--key", key])
        .arg(file)
        .env("AWS_ENDPOINT_URL", &simulator.options.aws)
        .env("AWS_ACCESS_KEY_ID", &credentials.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key)
        .env("AWS_DEFAULT_REGION", computer.zone.trim_end_matches(char::is_alphabetic));
    Ok(command)
}

/// The command that writes what is at a URL into a file.
fn get(url: &str, file: &Path) -> anyhow::Result<Command> {
    let mut command = program(&programs::python()?);
    command.args(["-c", GET, url]).arg(file);
    Ok(command)
}

/// A program without an environment but its path.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
    command
}

/// The environment variables by which programs follow proxies and trust authorities.
fn variables(transport: &Transport, folder: &Path) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
    let mut variables = Vec::new();
    let proxies = [("http_proxy", &transport.http_proxy), ("https_proxy", &transport.https_proxy)];
    for (name, proxy) in proxies {
        variables.extend(proxy.as_ref().map(|url| (name, url.into())));
    }
    variables.push(("no_proxy", transport.no_proxy.join(",").into()));
    if !transport.authorities.is_empty() {
        let path = folder.join("authorities.pem");
        std::fs::write(&path, &transport.authorities).with_context(|| format!("write {}", path.display()))?;
        variables.extend(["SSL_CERT_FILE", "AWS_CA_BUNDLE"].map(|name| (name, path.clone())));
    }
    Ok(variables)
}

async fn run(mut command: Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(WITHIN, output).await.context("it takes too long")?;
    let output = output.context("run the program that fetches")?;
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.trim().lines().last().unwrap_or_default();
    ensure!(output.status.success(), "the program that fetches failed: {told}");
    Ok(())
}
