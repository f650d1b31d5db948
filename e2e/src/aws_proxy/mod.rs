//! The AWS of the tests: a server in front of moto that assigns each access key to its account, keeps a journal of
//! every call, and adds behaviour that moto lacks: idempotent ClientTokens, instances that take time to start, stop and
//! terminate, that end in `pending` or stay hidden for a while, health checks and draining of load balancer targets,
//! refused keys and roles, throttling, and injected faults (see [`Fault`]).
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
//! `pipeline` serves a request: it reads the request, applies the injected faults, decides on the action, forwards the
//! call to moto, transforms the answer, and records the call. The proxy emulates services of the Query protocol (EC2,
//! STS, ELB); calls of others, JSON and S3 among them, it only judges, counts and passes on (`protocol`).

mod account;
mod addresses;
mod answer;
mod caller;
mod changes;
mod computer_calls;
pub mod computers;
mod dns_records;
mod faults;
mod held;
mod host_calls;
mod hosts;
mod instances;
mod journal;
mod launch_rules;
mod launches;
mod limits;
mod load_balancing;
mod outcome;
mod pipeline;
mod protocol;
mod request;
mod reservations;
mod sessions;
mod state;
mod tokens;
mod unanswered;
mod upstream;
pub mod xml;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

pub use account::{Account, InjectedFault, SECRET_KEYS};
pub use answer::CALLER;
pub use caller::AccessKey;
pub use faults::Fault;
pub use journal::{AssumedRole, Call, Fate, Journal, Mark, RawLaunch, digest};
pub use limits::shortest_time_of_launches;
pub use sessions::Session;
use state::{KeyEntry, Shared};
pub use unanswered::UnansweredLaunch;
use upstream::Moto;

use crate::changes::Changes;

/// The pause after the system had no connection to accept.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A running proxy. Its server runs on its own thread, so that tests with many runtimes can share it; dropping this
/// value ends the server.
#[derive(Debug)]
pub struct AwsProxy {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AwsProxy {
    /// Listens on a free port of the loopback interface, in front of the moto server at `moto_url`. Every proxy uses
    /// the same sequence of account ids, so each proxy needs its own moto.
    pub fn start(moto_url: &str) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("opening a port for the AWS proxy")?;
        listener.set_nonblocking(true).context("preparing the port of the AWS proxy")?;
        let url = format!("http://{}", listener.local_addr().context("reading the port of the AWS proxy")?);
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
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The URL for requests of every service.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// A new, empty account. Calls in it wake the waits of the test on this thread.
    pub fn account(&self) -> Account {
        let (id, key, user_key, node_key) = self.shared.with(|state| {
            let id = format!("{:012}", 100_000_000_001 + state.accounts.len());
            let node_key = state.issue_key(KeyEntry { is_node: true, ..KeyEntry::of(&id) });
            let account = state::AccountState {
                changes: Some(Changes::of_this_test()),
                node_key: Some(node_key.clone()),
                ..state::AccountState::default()
            };
            state.accounts.insert(id.clone(), account);
            let key = state.issue_key(KeyEntry::of(&id));
            let user_key = state.issue_key(KeyEntry { is_user: true, ..KeyEntry::of(&id) });
            (id, key, user_key, node_key)
        });
        Account { shared: self.shared.clone(), id, key, user_key, node_key }
    }

    /// The ids of the healthy instances behind a port of the load balancer with this DNS name, of any account; `None`
    /// where no load balancer has the name. Fails where moto fails.
    pub async fn healthy_targets(&self, host: &str, port: u16) -> anyhow::Result<Option<Vec<String>>> {
        let found = load_balancing::healthy_targets(&self.shared, host, port).await;
        found.map_err(|refusal| anyhow::anyhow!("looking behind {host}:{port}: {}: {}", refusal.code, refusal.message))
    }

    /// Every call of all accounts, and of keys without an account.
    pub fn journal(&self) -> Journal {
        self.shared.journal(Mark(0), |_| true)
    }
}

impl Drop for AwsProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread ends at once: the sender is gone, and the server does not wait for connections. A panic of the
            // thread has already been reported.
            let _ = thread.join();
        }
    }
}

async fn listen(listener: std::net::TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the AWS proxy cannot listen"),
    };
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Without this option small answers wait for acknowledgements; a failure only costs time.
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(connection(stream, shared.clone()));
                }
                Err(error) => {
                    tracing::error!(%error, "the AWS proxy cannot accept a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        _ = stopped => {}
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let service = service_fn(|request| serve(&shared, request));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection to the AWS proxy ended early");
    }
}

/// The reasons for which a connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("a fault closes the connection")]
    Fault,
    #[error("the request could not be read: {0}")]
    Unreadable(#[from] hyper::Error),
    #[error("serving the request failed: {0}")]
    Failed(#[from] tokio::task::JoinError),
    #[error("the answer cannot be sent: {0}")]
    Malformed(#[from] http::Error),
}

/// Serves a request on its own task: as in AWS, a client that hangs up does not revert its request. Only the wait for a
/// held answer ends with the client.
///
/// The task starts here and not when its answer is first polled: the server drops the future of a request as soon as it
/// sees the end of the connection, possibly before the first poll. The body reaches the task even then.
fn serve(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Full<Bytes>>, NoAnswer>> + use<> {
    let serving = tokio::spawn(read_and_serve(shared.clone(), request));
    let shared = shared.clone();
    async move {
        let reply = serving.await.inspect_err(|error| tracing::error!(%error, "the AWS proxy has failed"))?;
        let served = match reply? {
            Reply::Done(response) => return Ok(response),
            Reply::Call(served) => served,
        };
        if !served.held_back.is_zero() {
            let launched = served.launched;
            let _held = launched.map(|(account, launch)| held::Held::new(shared, account, launch));
            served.held_back.pass().await;
        }
        let answer = served.answer.ok_or(NoAnswer::Fault)?;
        let response = Response::builder().status(answer.status).header(header::CONTENT_TYPE, "text/xml;charset=UTF-8");
        Ok(response.body(Full::from(answer.body))?)
    }
}

/// The result of a request.
enum Reply {
    /// The answer to a request about computers.
    Done(Response<Full<Bytes>>),
    /// The result of an AWS call.
    Call(pipeline::Served),
}

async fn read_and_serve(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Reply, NoAnswer> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    if let Some(answer) = computer_calls::serve(&shared, &head, &body).await {
        return Ok(Reply::Done(answer));
    }
    let served = pipeline::serve(&shared, &head, &body).await;
    Ok(Reply::Call(served))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::wait::eventually;

    #[tokio::test]
    async fn a_request_is_served_though_its_client_has_hung_up() {
        let shared = Arc::new(Shared::new(String::new(), Moto::new("http://127.0.0.1:1")));
        let (mut client, stream) = tokio::io::duplex(1024);
        let request = "POST / HTTP/1.1\r\nHost: aws\r\nContent-Length: 8\r\n\r\nAction=X";
        client.write_all(request.as_bytes()).await.unwrap();
        drop(client);
        connection(stream, shared.clone()).await;
        let recorded = eventually(Duration::from_mins(1), "the call to be recorded", async || {
            let calls = shared.journal(Mark(0), |_| true).len();
            anyhow::ensure!(calls == 1, "{calls} calls");
            Ok(())
        });
        recorded.await.unwrap();
    }
}
