//! Clients for the API servers that kubeconfigs in Secrets lead to.

use std::fmt::Debug;
use std::time::Duration;

use capa_runtime::errors::described;
use capa_runtime::proxy;
use http::Response;
use http_body_util::Limited;
use kube::api::ListParams;
use kube::client::ClientBuilder;
use kube::config::KubeConfigOptions;
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use tower::util::MapResponseLayer;

use crate::kubeconfig::Access;

/// How long an API server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an API server may take with one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects read at once.
const OBJECTS_OF_A_PAGE: u32 = 100;
/// The longest answer of an API server: a hundred nodes that say all they may.
const LONGEST_ANSWER_BYTES: usize = 16 << 20;

/// A client that gives up soon, and takes no answer without end: nobody knows who runs the API server. It goes through
/// the proxy that the environment of the process names (`HTTPS_PROXY`, `NO_PROXY`).
pub(crate) async fn client(access: &Access) -> kube::Result<Client> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(access.kubeconfig.clone(), &options).await;
    let mut config = proxy::of_environment(config.map_err(kube::Error::InferKubeconfig)?);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(ANSWER_TIMEOUT);
    config.write_timeout = Some(ANSWER_TIMEOUT);
    let limit =
        MapResponseLayer::new(|answer: Response<_>| answer.map(|body| Limited::new(body, LONGEST_ANSWER_BYTES)));
    Ok(ClientBuilder::try_from(config)?.with_layer(&limit).build())
}

/// An error in words that tenants may read. The message in an answer is left out: anybody may run the server.
pub(crate) fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("it answered {} {}", status.code, status.reason),
        error => described(error),
    }
}

/// Hands on all objects, and holds a page of them.
pub(crate) async fn each<K>(api: &Api<K>, mut take: impl FnMut(K)) -> kube::Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = ListParams::default().limit(OBJECTS_OF_A_PAGE);
    loop {
        let answer = api.list(&page).await?;
        answer.items.into_iter().for_each(&mut take);
        match answer.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Whether the server answers that something does not exist.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the server answers that an object has changed since it was read.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
