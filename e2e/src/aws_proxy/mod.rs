//! AWS as the tests see it: a server in front of moto that gives each access key its account, keeps a journal of every call,
//! and adds what moto lacks — ClientTokens that launch once, instances that take time to start and to end, keys and roles
//! that are refused.
//!
//! ```no_run
//! # use capa_e2e::aws_proxy::AwsProxy;
//! # fn main() -> anyhow::Result<()> {
//! let aws = AwsProxy::start("http://127.0.0.1:5000")?;
//! let account = aws.account();
//! // … give account.key() and account.url() to the manager, let it work …
//! assert!(account.manager_journal().mutating().is_empty(), "{}", account.journal());
//! # Ok(()) }
//! ```
//!
//! A request is read, decided upon, forwarded, its answer transformed, and recorded: that is `pipeline`. Only the Query
//! protocol (EC2, STS, ELB, IAM) is spoken.

mod account;
mod answer;
mod instances;
mod journal;
mod pipeline;
mod request;
mod state;
mod tokens;
mod upstream;
pub mod xml;

use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use tokio::sync::oneshot;

pub use account::{AccessKey, Account, SECRET_KEYS};
pub use journal::{AssumedRole, Call, Journal, Mark, digest};
use state::Shared;
use upstream::Moto;

/// A running proxy. It serves from a thread of its own, so tests with many runtimes can share one; dropping it ends it.
#[derive(Debug)]
pub struct AwsProxy {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AwsProxy {
    /// Listens on a free port of the loopback interface in front of the moto server at `moto_url`.
    /// Account ids are numbered from the same start in every proxy: give each a moto of its own.
    pub fn start(moto_url: &str) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("opening a port for the AWS proxy")?;
        listener
            .set_nonblocking(true)
            .context("preparing the port of the AWS proxy")?;
        let url = format!(
            "http://{}",
            listener.local_addr().context("reading the port of the AWS proxy")?
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("creating the runtime of the AWS proxy")?;
        let shared = Arc::new(Shared::new(url, Moto::new(moto_url)));
        let (stop, stopped) = oneshot::channel();
        let served = shared.clone();
        let thread = std::thread::Builder::new()
            .name("aws-proxy".into())
            .spawn(move || {
                runtime.block_on(listen(listener, served, stopped));
                runtime.shutdown_background();
            })
            .context("starting the thread of the AWS proxy")?;
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where to send requests of every service to.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// A new, empty account.
    pub fn account(&self) -> Account {
        let (id, key, user_key) = self.shared.with(|state| {
            let id = format!("{:012}", 100_000_000_001 + state.accounts.len());
            state.accounts.insert(id.clone(), state::AccountState::default());
            (id.clone(), state.issue_key(&id), state.issue_key(&id))
        });
        Account {
            shared: self.shared.clone(),
            id,
            key,
            user_key,
        }
    }

    /// Every call there was, of all accounts and of none.
    pub fn journal(&self) -> Journal {
        self.shared.journal(Mark(0), |_| true)
    }
}

impl Drop for AwsProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends at once: the sender is gone and connections are not waited for. A panic in it was reported by itself.
            let _ = thread.join();
        }
    }
}

async fn listen(listener: std::net::TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener.tap_io(|stream| {
            // Without it small answers wait for acknowledgements; a failure costs time only.
            let _ = stream.set_nodelay(true);
        }),
        Err(error) => return tracing::error!(%error, "the AWS proxy cannot listen"),
    };
    let router = Router::new().fallback(serve).with_state(shared);
    tokio::select! {
        ended = axum::serve(listener, router) => {
            if let Err(error) = ended {
                tracing::error!(%error, "the AWS proxy stopped serving");
            }
        }
        _ = stopped => {}
    }
}

/// Serves in a task of its own: a client that hangs up does not take back what it asked for, as at AWS.
async fn serve(State(shared): State<Arc<Shared>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let served = tokio::spawn(async move { pipeline::serve(&shared, method, headers, &body).await });
    match served.await {
        Ok(answer) => {
            let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, [(header::CONTENT_TYPE, "text/xml;charset=UTF-8")], answer.body).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
