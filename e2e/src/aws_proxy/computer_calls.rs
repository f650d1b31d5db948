//! The requests of the node simulator: `GET /computers` lists the computers of all accounts;
//! `PUT /computers/<account>/<instance>` reports whether a computer serves. No client of AWS uses these paths.

use std::time::Instant;

use http::{Method, Response, StatusCode, request};
use http_body_util::Full;
use hyper::body::Bytes;

use super::computers::{Computer, ENDPOINTS, PATH, Report};
use super::load_balancing;
use super::state::Shared;

/// Answers a request about computers; `None` for other paths.
pub(super) async fn serve(shared: &Shared, head: &request::Parts, body: &[u8]) -> Option<Response<Full<Bytes>>> {
    let path = head.uri.path();
    let answer = if let Some(endpoint) = path.strip_prefix(ENDPOINTS) {
        healthy_targets(shared, endpoint).await
    } else {
        match (&head.method, path.strip_prefix(PATH)?) {
            (&Method::GET, "") => list(shared),
            (&Method::PUT, path) => report(shared, path, body),
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        }
    };
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(status) => (status, Vec::new()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    Some(response)
}

async fn healthy_targets(shared: &Shared, endpoint: &str) -> Result<Vec<u8>, StatusCode> {
    let parts = endpoint.trim_start_matches('/').rsplit_once(':');
    let (host, port) = parts.ok_or(StatusCode::BAD_REQUEST)?;
    let port = port.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    let found = load_balancing::healthy_targets(shared, host, port).await;
    serde_json::to_vec(&found.map_err(|_| StatusCode::BAD_GATEWAY)?).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

fn list(shared: &Shared) -> Result<Vec<u8>, StatusCode> {
    let now = Instant::now();
    let computers: Vec<Computer> = shared.with(|state| {
        let accounts = state.accounts.iter();
        let computers = accounts.map(|(id, account)| {
            let key = account.node_key.as_ref();
            account.computers.list(id, key, &account.instances, now)
        });
        computers.flatten().collect()
    });
    serde_json::to_vec(&computers).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

fn report(shared: &Shared, path: &str, body: &[u8]) -> Result<Vec<u8>, StatusCode> {
    let mut parts = path.split('/').skip(1);
    let (account, instance) = parts.next().zip(parts.next()).ok_or(StatusCode::NOT_FOUND)?;
    let Report { serving } = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    shared.with(|state| {
        let account = state.accounts.get_mut(account).ok_or(StatusCode::NOT_FOUND)?;
        account.targets.set_serving(instance, serving);
        Ok(Vec::new())
    })
}
