//! The HTTP servers of the process. Everybody who reaches their ports may connect. Idle clients cannot block probes and
//! scrapes: the number of connections is limited, each connection has time limits, and a new connection replaces the
//! one that has been idle longest.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Maximum number of concurrent connections.
pub(crate) const CONNECTIONS: usize = 64;

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to send the head of a request, including the wait for its first byte.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may last, even if the client has not read its response.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(5);

/// How long a response that has started may take at the end of a connection or of the process.
const GRACE: Duration = Duration::from_secs(2);

/// Buffer for a request, and for a response that is not sent yet, in bytes.
const BUFFER: usize = 64 * 1024;

/// Serves a router until `stop`, over TLS if there is an acceptor.
pub(crate) async fn serve(
    mut listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let mut connections = Connections::default();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            () = connections.one_ended() => continue,
            (stream, _) = Listener::accept(&mut listener) => stream,
        };
        let activity = Activity::default();
        let connection = connection(stream, tls.clone(), router.clone(), activity.clone(), stop.clone());
        connections.add(activity, connection);
    }
    drop(listener);
    connections.end().await;
    Ok(())
}

/// The time since which a connection waits for its client; `None` while a request is processed.
#[derive(Clone)]
struct Activity(Arc<Mutex<Option<Instant>>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Instant::now()))))
    }
}

impl Activity {
    fn set_idle(&self, idle: bool) {
        *self.0.lock() = idle.then(Instant::now);
    }

    fn idle_since(&self) -> Option<Instant> {
        *self.0.lock()
    }
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    open: HashMap<Id, (Activity, AbortHandle)>,
}

impl Connections {
    /// Waits for the end of a connection; never returns while there are no connections.
    async fn one_ended(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => pending().await,
        };
        self.open.remove(&id);
    }

    /// Starts a connection. If there are too many, the connection that has been idle longest is closed. If none is
    /// idle, the new connection is closed.
    fn add(&mut self, activity: Activity, connection: impl Future<Output = ()> + Send + 'static) {
        if self.open.len() >= CONNECTIONS {
            let idle = self.open.iter().filter_map(|(id, (activity, _))| Some((activity.idle_since()?, *id)));
            let Some((_, id)) = idle.min_by_key(|(since, _)| *since) else {
                debug!("all connections are at work: a new one is closed");
                return;
            };
            if let Some((_, task)) = self.open.remove(&id) {
                task.abort();
            }
        }
        let task = self.tasks.spawn(connection);
        self.open.insert(task.id(), (activity, task));
    }

    /// Waits until the responses that have started are sent.
    async fn end(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // The remaining connections are dropped.
        let _ = timeout(GRACE + GRACE, all).await;
    }
}

async fn connection<S>(stream: S, tls: Option<TlsAcceptor>, router: Router, activity: Activity, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(tls) = tls else {
        return requests(stream, router, activity, stop).await;
    };
    match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, router, activity, stop).await,
        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
        Err(_) => debug!("TLS handshake took too long"),
    }
}

/// Answers the requests of a connection.
async fn requests<S>(stream: S, router: Router, activity: Activity, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        let (activity, router) = (activity.clone(), router.clone());
        async move {
            activity.set_idle(false);
            let response = router.call(request).await;
            activity.set_idle(true);
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
        () = sleep(MAX_CONNECTION_AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, connection).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;

    use super::*;
    use crate::testing::{eventually, http_get};

    /// More bytes than the buffers of a connection hold.
    const LARGE: usize = 64 * 1024 * 1024;

    /// Answers `/` immediately, and `/large` with a large body.
    fn router() -> Router {
        Router::new().route("/", get(async || "ok")).route("/large", get(async || "a".repeat(LARGE)))
    }

    /// The client's end of a connection in memory. With sockets, paused time would go on while the kernel has the data.
    fn connect_in_memory() -> DuplexStream {
        let (client, server) = duplex(BUFFER);
        let connection = connection(server, None, router(), Activity::default(), CancellationToken::new());
        tokio::spawn(connection);
        client
    }

    /// A server that answers `/` immediately, and `/slow` when the test releases it.
    struct Scene {
        address: SocketAddr,
        go_on: Arc<Notify>,
        at_work: Arc<AtomicUsize>,
        stop: CancellationToken,
        server: tokio::task::JoinHandle<io::Result<()>>,
    }

    async fn scene() -> Scene {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (go_on, at_work) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (slow, counted) = (go_on.clone(), at_work.clone());
        let slow = move || async move {
            counted.fetch_add(1, Ordering::SeqCst);
            slow.notified().await;
            "slow"
        };
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, None, router().route("/slow", get(slow)), stop.clone()));
        Scene { address, go_on, at_work, stop, server }
    }

    async fn ask(stream: &mut (impl AsyncWrite + Unpin), path: &str) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Reads until the server closes the connection.
    async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
        let mut bytes = Vec::new();
        // A connection that is dropped may be reset.
        let _ = stream.read_to_end(&mut bytes).await;
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn beyond_the_bound_the_longest_idle_connection_ends() {
        let mut connections = Connections::default();
        let mut ids = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            connections.add(Activity::default(), pending());
            ids.push(connections.open.keys().copied().max().unwrap());
        }
        let mut open: Vec<_> = connections.open.keys().copied().collect();
        open.sort_unstable();
        assert_eq!(open, ids[CONNECTIONS..]);
        // While all connections are busy, a new one does not start.
        for (activity, _) in connections.open.values() {
            activity.set_idle(false);
        }
        connections.add(Activity::default(), pending());
        assert!(open.iter().all(|id| connections.open.contains_key(id)));
        assert_eq!(connections.open.len(), CONNECTIONS);
    }

    #[tokio::test]
    async fn a_thousand_silent_clients_keep_no_probe_out() {
        let scene = scene().await;
        let closed = Arc::new(AtomicUsize::new(0));
        for _ in 0..1_000 {
            let mut stream = TcpStream::connect(scene.address).await.unwrap();
            let closed = closed.clone();
            tokio::spawn(async move {
                rest(&mut stream).await;
                closed.fetch_add(1, Ordering::SeqCst);
            });
        }
        assert_eq!(http_get(scene.address, "/").await, (200, "ok".into()));
        eventually("all connections but 64 to be closed", || closed.load(Ordering::SeqCst) >= 1_000 - CONNECTIONS)
            .await;
    }

    #[tokio::test]
    async fn requests_that_are_worked_on_are_not_given_up() {
        let scene = scene().await;
        let mut working = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(scene.address).await.unwrap();
            ask(&mut stream, "/slow").await;
            working.push(stream);
        }
        eventually("all to be at work", || scene.at_work.load(Ordering::SeqCst) == CONNECTIONS).await;
        let mut late = TcpStream::connect(scene.address).await.unwrap();
        assert_eq!(rest(&mut late).await, "", "the new one is closed");
        scene.go_on.notify_waiters();
        for stream in &mut working {
            let mut answer = [0; 15];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
        }
        assert_eq!(http_get(scene.address, "/").await, (200, "ok".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_finish_its_head_is_cut_off() {
        let began = Instant::now();
        let mut stream = connect_in_memory();
        stream.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
        rest(&mut stream).await;
        assert_eq!(began.elapsed().as_secs(), HEADER_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed() {
        let began = Instant::now();
        let mut stream = connect_in_memory();
        ask(&mut stream, "/").await;
        assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
        assert_eq!(began.elapsed().as_secs(), HEADER_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_not_waited_for_for_ever() {
        let began = Instant::now();
        let mut stream = connect_in_memory();
        ask(&mut stream, "/large").await;
        tokio::time::sleep(MAX_CONNECTION_AGE + GRACE + GRACE).await;
        assert!(rest(&mut stream).await.len() < LARGE);
        assert!(began.elapsed() < MAX_CONNECTION_AGE + HEADER_TIMEOUT);
    }

    #[tokio::test]
    async fn a_response_that_has_begun_is_sent_before_the_server_ends() {
        let scene = scene().await;
        let mut stream = TcpStream::connect(scene.address).await.unwrap();
        ask(&mut stream, "/slow").await;
        eventually("it to be at work", || scene.at_work.load(Ordering::SeqCst) == 1).await;
        scene.stop.cancel();
        scene.go_on.notify_one();
        assert!(rest(&mut stream).await.ends_with("slow"));
        scene.server.await.unwrap().unwrap();
    }
}
