//! The client of the AWS proxy: the list of computers, and the reports of their status.

use anyhow::{Context, ensure};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::aws_proxy::computers::{Computer, ENDPOINTS, PATH, Report};

/// The computers of all accounts behind one AWS proxy.
#[derive(Clone, Debug)]
pub(super) struct Computers {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Computers {
    pub(super) fn new(url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), client: Client::builder(TokioExecutor::new()).build_http() }
    }

    pub(super) async fn list(&self) -> anyhow::Result<Vec<Computer>> {
        let body = self.call(Method::GET, PATH, Vec::new()).await?;
        serde_json::from_slice(&body).context("read the list of computers")
    }

    /// Reports whether the API server on a computer answers.
    pub(super) async fn report(&self, account: &str, instance_id: &str, serving: bool) -> anyhow::Result<()> {
        let body = serde_json::to_vec(&Report { serving })?;
        let path = format!("{PATH}/{account}/{instance_id}");
        self.call(Method::PUT, &path, body).await.map(drop)
    }

    /// The healthy instances behind the load balancer whose listener has the address `host:port`. `None` if the name is
    /// not that of a load balancer.
    pub(super) async fn healthy_targets(&self, endpoint: &str) -> anyhow::Result<Option<Vec<String>>> {
        let body = self.call(Method::GET, &format!("{ENDPOINTS}/{endpoint}"), Vec::new()).await?;
        serde_json::from_slice(&body).context("read the healthy targets")
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Bytes> {
        let url = format!("{}{path}", self.url);
        let request = Request::builder().method(method).uri(&url).body(Full::from(body))?;
        let response = self.client.request(request).await.with_context(|| format!("ask {url}"))?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{url} answers {status}");
        Ok(body)
    }
}
