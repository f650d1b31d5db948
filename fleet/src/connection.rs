//! Clients for the API servers of kubeconfigs in Secrets.

use std::fmt::Debug;

use capa_runtime::errors::described;
use capa_runtime::remote;
use http::Response;
use http_body_util::Limited;
use kube::api::ListParams;
use kube::client::ClientBuilder;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tower::util::MapResponseLayer;

use crate::kubeconfig::Access;

/// Number of objects per page.
const OBJECTS_OF_A_PAGE: u32 = 100;
/// Maximum size of an API server's answer, which is enough for a hundred nodes of maximum size.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A client with short time limits and a limit for the size of answers, because the API server may be run by anybody.
pub(crate) async fn client(access: &Access) -> kube::Result<Client> {
    let config = remote::config(access.kubeconfig.clone(), None).await.map_err(kube::Error::InferKubeconfig)?;
    let limit = MapResponseLayer::new(|answer: Response<_>| answer.map(|body| Limited::new(body, MAX_ANSWER_BYTES)));
    Ok(ClientBuilder::try_from(config)?.with_layer(&limit).build())
}

/// The text of an error for objects that tenants may read. The message in an answer is left out, because anybody may
/// run the server.
pub(crate) fn public_text(error: &kube::Error) -> String {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::config::Kubeconfig;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers 503 to each request and asks for a late repetition, and the number of its requests.
    async fn unavailable() -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (address, count) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
        let requests = count.clone();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                requests.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                let _ = connection.read(&mut request).await;
                let answer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\
                              Connection: close\r\n\r\n";
                let _ = connection.write_all(answer.as_bytes()).await;
            }
        });
        (format!("http://{address}"), count)
    }

    #[tokio::test]
    async fn a_request_to_an_unavailable_server_is_not_repeated() {
        let (server, requests) = unavailable().await;
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, users: [{{name: a}}], \
              clusters: [{{name: a, cluster: {{server: '{server}'}}}}], \
              contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}"
        );
        let access = Access {
            server,
            certificate_authority: String::new(),
            tls_server_name: None,
            kubeconfig: Kubeconfig::from_yaml(&kubeconfig).expect("a kubeconfig"),
        };
        let client = client(&access).await.expect("a client");
        let error = client.apiserver_version().await.expect_err("no version");
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 503), "{error}");
        assert_eq!(requests.load(Ordering::SeqCst), 1);
    }
}
