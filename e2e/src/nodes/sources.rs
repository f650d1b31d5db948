//! What Ignition fetches: objects in S3 with the AWS CLI of `make tools` and the credentials of the instance profile,
//! and what everybody may fetch who has the URL.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::process::Command;

use super::simulator::NodeSimulator;
use crate::aws_proxy::computers::Computer;
use crate::programs;

/// The limit for one source.
const WITHIN: Duration = Duration::from_mins(1);

/// The content at a URL. No error names its query, which may be a signature.
pub(super) async fn fetch(simulator: &NodeSimulator, computer: &Computer, url: &str) -> anyhow::Result<Vec<u8>> {
    let fetched = async {
        match url.split_once("://") {
            Some(("s3", place)) => from_bucket(simulator, computer, place).await,
            Some(("http", _)) => get(url).await,
            _ => bail!("Ignition fetches no such URL here"),
        }
    };
    tokio::time::timeout(WITHIN, fetched)
        .await
        .context("it takes too long")?
}

async fn from_bucket(simulator: &NodeSimulator, computer: &Computer, place: &str) -> anyhow::Result<Vec<u8>> {
    let (bucket, key) = place.split_once('/').context("the URL has no key")?;
    let credentials = computer.key.as_ref().context("the instance has no credentials")?;
    let folder = simulator
        .directory
        .folder(&format!("computers/{}", computer.instance_id))?;
    let file = folder.join("object");
    let output = Command::new(programs::aws_cli()?)
        .args(["s3api", "get-object", "--bucket", bucket, "--key", key])
        .arg(&file)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", &folder)
        .env("AWS_ENDPOINT_URL", &simulator.options.aws)
        .env("AWS_ACCESS_KEY_ID", &credentials.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key)
        .env(
            "AWS_DEFAULT_REGION",
            computer.zone.trim_end_matches(char::is_alphabetic),
        )
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("run the AWS CLI")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the AWS CLI failed: {}", told.trim());
    std::fs::read(&file).with_context(|| format!("read {}", file.display()))
}

async fn get(url: &str) -> anyhow::Result<Vec<u8>> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .get(url.parse().context("parse the URL")?)
        .await
        .context("call")?;
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .context("read the answer")?
        .to_bytes();
    ensure!(status.is_success(), "{status}");
    Ok(body.to_vec())
}
