//! The AWS of a world: moto, behind the proxy for all calls of a test.

use std::sync::Arc;

use anyhow::Context;

use crate::{aws_proxy::AwsProxy, directory::Directory, moto, programs, supervised::Supervised};

/// Starts moto, whose port and log are in this folder, and the proxy.
///
/// # Errors
/// `make tools` has not built moto, or moto does not start.
pub async fn start(directory: &Directory) -> anyhow::Result<(Arc<AwsProxy>, Supervised)> {
    let port_file = directory.path().join("moto.port");
    let command = moto::command(&programs::tool("moto")?, &port_file);
    let mut process = Supervised::start(directory, &directory.folder("logs")?, "moto", &command)?;
    let url = moto::url(&port_file, || process.ensure_running().is_ok()).await.with_context(|| process.last_words())?;
    Ok((Arc::new(AwsProxy::start(&url)?), process))
}
