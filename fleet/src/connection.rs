//! Clients for the API servers of kubeconfigs in Secrets.

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
/// How long an API server may take to answer a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of objects per page.
const OBJECTS_OF_A_PAGE: u32 = 100;
/// Maximum size of an API server's answer, which is enough for a hundred nodes of maximum size.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A client with short time limits and a limit for the size of answers, because the API server may be run by anybody.
/// The client uses the proxy from the environment of the process (`HTTPS_PROXY`, `NO_PROXY`).
pub(crate) async fn client(access: &Access) -> kube::Result<Client> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(access.kubeconfig.clone(), &options).await;
    let mut config = proxy::of_environment(config.map_err(kube::Error::InferKubeconfig)?);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(ANSWER_TIMEOUT);
    config.write_timeout = Some(ANSWER_TIMEOUT);
    let limit = MapResponseLayer::new(|answer: Response<_>| answer.map(|body| Limited::new(body, MAX_ANSWER_BYTES)));
    Ok(ClientBuilder::try_from(config)?.with_layer(&limit).build())
}

/// The text of an error for objects that tenants may read. The message in an answer is left out, because anybody may
/// run the server.
pub(crate) fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("it answered {} {}", status.code, status.reason),
        error => described(error),
    }
}

/// Passes all objects to `take`, with one page in memory at a time.
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
