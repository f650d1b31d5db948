//! A proxy for plain HTTP, as companies have one between their computers and the rest of the world.

use std::sync::Arc;

use anyhow::Context as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::{Client, Error, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

type HttpClient = Client<HttpConnector, Incoming>;

/// A running proxy, which ends when this value is dropped.
pub struct ForwardProxy {
    url: String,
    forwarded: Arc<Mutex<Vec<String>>>,
    server: JoinHandle<()>,
}

impl ForwardProxy {
    /// Starts a proxy on a free port of the loopback interface, on the runtime of the caller.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("open a port for the HTTP proxy")?;
        let url = format!("http://{}", listener.local_addr()?);
        let forwarded = Arc::new(Mutex::new(Vec::new()));
        let server = tokio::spawn(listen(listener, forwarded.clone()));
        Ok(Self { url, forwarded, server })
    }

    /// The URL of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URLs of the requests so far, without their queries.
    pub fn forwarded(&self) -> Vec<String> {
        self.forwarded.lock().clone()
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn listen(listener: TcpListener, forwarded: Arc<Mutex<Vec<String>>>) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, client.clone(), forwarded.clone()));
    }
}

async fn connection(stream: TcpStream, client: HttpClient, forwarded: Arc<Mutex<Vec<String>>>) {
    let forward = service_fn(|request| forward(request, &client, &forwarded));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), forward);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the HTTP proxy ended early");
    }
}

/// Sends a request on to the server that its URL names.
async fn forward(
    request: Request<Incoming>,
    client: &HttpClient,
    forwarded: &Mutex<Vec<String>>,
) -> Result<Response<Incoming>, Error> {
    let url = request.uri().to_string();
    let (url, _) = url.split_once('?').unwrap_or((&url, ""));
    forwarded.lock().push(url.to_owned());
    client.request(request).await
}
