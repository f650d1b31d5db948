//! Clients for the API servers that kubeconfigs in Secrets lead to.

use std::time::Duration;

use capa_runtime::errors::described;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};

use crate::kubeconfig::Access;

/// How long an API server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an API server may take with one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that gives up soon: nobody knows who runs the API server.
pub(crate) async fn client(access: &Access) -> kube::Result<Client> {
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(access.kubeconfig.clone(), &options)
        .await
        .map_err(kube::Error::InferKubeconfig)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(ANSWER_TIMEOUT);
    config.write_timeout = Some(ANSWER_TIMEOUT);
    Client::try_from(config)
}

/// An error in words that tenants may read. The message in an answer is left out: anybody may run the server.
pub(crate) fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("it answered {} {}", status.code, status.reason),
        error => described(error),
    }
}

/// Whether the server answers that something does not exist.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
