//! The CONNECT proxy, by which clients outside reach the endpoints of the clusters by name.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::cluster::Cluster;
use super::route::Backend;
use super::state::NodeSimulator;

/// The pause after the system had no connection to accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves until the runtime ends.
pub(super) async fn serve(listen: SocketAddr, simulator: NodeSimulator) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.with_context(|| format!("listen on {listen}"))?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, simulator.clone()))),
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, simulator: NodeSimulator) {
    let service = service_fn(|request| answer(request, simulator.clone()));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the CONNECT proxy ended early");
    }
}

async fn answer(request: Request<Incoming>, simulator: NodeSimulator) -> http::Result<Response<Full<Bytes>>> {
    let refused = |status, reason: String| Response::builder().status(status).body(Full::from(reason));
    let authority = request.uri().authority().map(ToString::to_string);
    let Some(endpoint) = authority.filter(|_| request.method() == Method::CONNECT) else {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "only CONNECT host:port is served".into());
    };
    let opened = match simulator.route(&endpoint).await {
        Ok(backend) => TcpStream::connect(backend.cluster.address)
            .await
            .map(|stream| (backend, stream))
            .context("connect to the API server"),
        Err(error) => Err(error),
    };
    match opened {
        Ok((backend, stream)) => {
            tokio::spawn(tunnel(request, stream, backend));
            Ok(Response::default())
        }
        Err(error) => {
            tracing::info!(endpoint, "refused: {error:#}");
            refused(StatusCode::BAD_GATEWAY, format!("{error:#}"))
        }
    }
}

/// Copies bytes in both directions until one side closes or the node stops answering.
async fn tunnel(request: Request<Incoming>, mut stream: TcpStream, backend: Backend<Cluster>) {
    let carried = async {
        let upgraded = hyper::upgrade::on(request).await?;
        copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        () = backend.up.cancelled() => {}
        ended = carried => if let Err(error) = ended {
            tracing::debug!("a tunnel ended: {error:#}");
        },
    }
}
