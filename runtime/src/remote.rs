//! Clients for API servers that are not the one of the management cluster. Anybody may run these servers.

use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::proxy;

/// How long an API server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an API server may take to answer a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration of a client for the API server of a kubeconfig, in this context or in the current one. The client
/// has short time limits and makes each request once. It uses the proxy from the environment of the process
/// (`HTTPS_PROXY`, `NO_PROXY`).
///
/// # Errors
/// The kubeconfig cannot be used.
pub async fn config(kubeconfig: Kubeconfig, context: Option<&str>) -> Result<Config, KubeconfigError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = proxy::of_kubeconfig(kubeconfig, &options).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(ANSWER_TIMEOUT);
    config.write_timeout = Some(ANSWER_TIMEOUT);
    // The client would repeat a request for minutes, or for as long as the server asks for.
    config.default_retry = false;
    Ok(config)
}
