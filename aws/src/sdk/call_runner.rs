//! The common path of every call to AWS: the permit of the rate limit, the label of the controller, the conversion of
//! the error.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use capa_cloud::limits::{CallRequest, Flow, Priority};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ClusterKey, ErrorClass, Query};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::from_sdk;
use super::limits::CallLimiter;
use super::metrics::CONTROLLER;
use super::pages::{Page, all_pages};

/// Maximum number of pages of an answer that a reconcile waits for: twenty thousand items.
const MAX_PAGES: usize = 20;
/// Maximum number of pages of a listing in the background: half a million instances.
const MAX_LISTED_PAGES: usize = 500;
/// How long a reconcile waits for the permit of each further page. After that, the reconcile is requeued at the time of
/// the next permit, and starts again with the first page. The limit applies to each page, because an answer with more
/// pages than turns within a total limit would never be complete. The time limit of a pass bounds the wait for all
/// pages.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// What a caller does if its turn has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The caller, a reconciler, comes back later and does other work until then.
    ComesBack,
    /// The caller waits for at most [`MAX_WAIT`].
    Waits,
}

/// The time until which this process certainly leads.
pub(crate) type LeadsUntil = watch::Receiver<Option<Instant>>;

/// Makes calls of one identity in one region, on behalf of one controller and for one flow.
#[derive(Clone)]
pub(crate) struct CallRunner {
    limiter: Arc<CallLimiter>,
    leads_until: Option<LeadsUntil>,
    controller: &'static str,
    flow: Flow,
    turn: Turn,
}

impl CallRunner {
    /// A runner for `flow` without a controller, for the calls that the session of an identity makes on its own.
    /// `leads_until` is absent if leader election is off.
    pub(crate) fn new(limiter: Arc<CallLimiter>, leads_until: Option<LeadsUntil>, flow: Flow) -> Self {
        Self { limiter, leads_until, controller: "", flow, turn: Turn::ComesBack }
    }

    /// The same runner on behalf of another controller.
    pub(crate) fn on_behalf_of(&self, controller: &'static str) -> Self {
        Self { controller, ..self.clone() }
    }

    /// The same runner for the calls for a cluster.
    pub(crate) fn for_cluster(&self, cluster: &ClusterKey) -> Self {
        Self { flow: Flow::Cluster(cluster.clone()), ..self.clone() }
    }

    /// The same runner with calls that wait for their turns.
    pub(crate) fn patient(&self) -> Self {
        Self { turn: Turn::Waits, ..self.clone() }
    }

    /// The flow that the calls belong to.
    pub(crate) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The request rates of the calls.
    pub(crate) fn limiter(&self) -> &CallLimiter {
        &self.limiter
    }

    /// The permit for a call. A patient runner waits at most [`MAX_WAIT`] for the turn.
    ///
    /// # Errors
    /// [`CloudError::deferred`] if the turn comes later.
    pub(crate) async fn permit(&self, request: &CallRequest) -> Result<Permit, CloudError> {
        match self.turn {
            Turn::ComesBack => self.limiter.acquire(request),
            Turn::Waits => self.limiter.wait_until(Instant::now() + MAX_WAIT, request).await,
        }
    }

    /// The permit of a write that only the leader makes.
    pub(crate) async fn write_permit(&self, request: &CallRequest) -> Result<Permit, CloudError> {
        let permit = self.permit(request).await?;
        self.wait_until_leading().await;
        Ok(permit)
    }

    /// Makes one call. Every call, and every page of a call, uses this function.
    pub(crate) async fn call<T, E>(
        &self,
        permit: Permit,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, CloudError>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let (action, began) = (permit.action, Instant::now());
        let answer = CONTROLLER.scope(self.controller, Box::pin(request)).await;
        let took_seconds = began.elapsed().as_secs_f64();
        match answer {
            Ok(answer) => {
                tracing::trace!(action, took_seconds, "AWS has answered a call");
                Ok(answer)
            }
            Err(error) => {
                let error = from_sdk(action, &error);
                tracing::debug!(action, took_seconds, code = error.code, "an AWS call has failed: {error}");
                permit.failed(&error, self.limiter.now());
                Err(error)
            }
        }
    }

    /// Signs a request that is not sent.
    pub(crate) async fn sign<T, E>(
        &self,
        action: &'static str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, CloudError>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let signed = CONTROLLER.scope(self.controller, Box::pin(request)).await;
        signed.map_err(|error| from_sdk(action, &error))
    }

    /// Makes one call that reads one object and has one page, when its turn comes.
    pub(crate) fn ask<T, E>(
        &self,
        action: &'static str,
        object: &str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> impl Future<Output = Result<T, CloudError>>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        // The SDK's futures are large, and callers keep several.
        let request = Box::pin(request);
        let query = Query::filter("object", [object]);
        let turn = CallRequest::describe(action, &self.flow, &query, Priority::Describe);
        async move {
            let permit = self.permit(&turn).await?;
            self.call(permit, request).await
        }
    }

    /// Makes the same call; `None` if AWS answers that the object does not exist.
    pub(crate) fn find<T, E>(
        &self,
        action: &'static str,
        object: &str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> impl Future<Output = Result<Option<T>, CloudError>>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let answer = self.ask(action, object, request);
        async move {
            match answer.await {
                Err(error) if error.class == ErrorClass::NotFound => Ok(None),
                answer => answer.map(Some),
            }
        }
    }

    /// All pages of a describe.
    pub(crate) async fn describe<T, F>(
        &self,
        action: &'static str,
        query: &Query,
        fetch: impl Fn(Permit, Option<String>) -> F,
    ) -> Result<Vec<T>, CloudError>
    where
        F: Future<Output = Result<Page<T>, CloudError>>,
    {
        let request = CallRequest::describe(action, &self.flow, query, Priority::Describe);
        let permit = self.permit(&request).await?;
        self.pages(permit, &request, fetch).await
    }

    /// All pages of an answer, one after the other. Each page after the first waits at most [`MAX_WAIT`] for the turn
    /// of `request`.
    pub(crate) async fn pages<T, F>(
        &self,
        permit: Permit,
        request: &CallRequest,
        fetch: impl Fn(Permit, Option<String>) -> F,
    ) -> Result<Vec<T>, CloudError>
    where
        F: Future<Output = Result<Page<T>, CloudError>>,
    {
        let next_permit = || self.limiter.wait_until(Instant::now() + MAX_WAIT, request);
        all_pages(permit, MAX_PAGES, next_permit, fetch).await
    }

    /// All pages of an answer that is not urgent. Each page after the first waits for `pause` and then for its turn.
    pub(crate) async fn paced_pages<T, F>(
        &self,
        request: &CallRequest,
        pause: Duration,
        fetch: impl Fn(Permit, Option<String>) -> F,
    ) -> Result<Vec<T>, CloudError>
    where
        F: Future<Output = Result<Page<T>, CloudError>>,
    {
        let first = self.limiter.wait(request).await;
        let next_permit = || async move {
            tokio::time::sleep(pause).await;
            Ok(self.limiter.wait(request).await)
        };
        all_pages(first, MAX_LISTED_PAGES, next_permit, fetch).await
    }

    /// Waits until this process certainly leads, so that only the leader starts a write that was submitted earlier. A
    /// process that was not suspended does not wait. If another process leads in the meantime, the wait never ends, and
    /// this process exits.
    pub(crate) async fn wait_until_leading(&self) {
        let Some(until) = &self.leads_until else {
            return;
        };
        let leads = |until: &Option<Instant>| until.is_some_and(|until| Instant::now() < until);
        if until.clone().wait_for(leads).await.is_err() {
            // The task that renews the Lease has ended.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::limits::Shares;
    use prometheus_client::registry::Registry;

    use super::super::limits::Limits;
    use super::super::metrics::ThrottleWaits;
    use super::*;

    fn runner() -> CallRunner {
        runner_at(Duration::from_secs(1))
    }

    /// A runner whose rates count this time as a second.
    fn runner_at(second: Duration) -> CallRunner {
        let waits = ThrottleWaits::register(&mut Registry::default());
        let limits = Arc::new(Limits::new(Shares::default(), second, waits));
        let limiter = CallLimiter::new(&limits, "a", "eu-west-1");
        CallRunner::new(Arc::new(limiter), None, Flow::Session("a".into()))
    }

    fn query() -> Query {
        Query::filter("tag-key", ["role"])
    }

    /// The page of a token among this many pages, each with one item.
    fn page(token: Option<String>, of: usize) -> std::future::Ready<Result<Page<usize>, CloudError>> {
        let page: usize = token.map_or(0, |token| token.parse().unwrap());
        std::future::ready(Ok(Page { items: vec![page], next: (page + 1 < of).then(|| (page + 1).to_string()) }))
    }

    #[tokio::test(start_paused = true)]
    async fn paced_pages_are_a_pause_apart() {
        let flow = Flow::Session("a".into());
        let request = CallRequest::describe("DescribeInstances", &flow, &query(), Priority::Describe);
        let began = Instant::now();
        let runner = runner();
        let pages = runner.paced_pages(&request, Duration::from_secs(1), |_, token| page(token, 3));
        assert_eq!(pages.await, Ok(vec![0, 1, 2]));
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_patient_runner_waits_for_its_turn() {
        let (runner, request) = (runner(), CallRequest::lookup(&Flow::Session("a".into()), &query()));
        while runner.permit(&request).await.is_ok() {}
        let began = Instant::now();
        assert!(runner.permit(&request).await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(runner.patient().permit(&request).await.is_ok());
        assert!(began.elapsed() > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_far_away_is_not_waited_for() {
        let runner = runner_at(MAX_WAIT * 20).patient();
        let request = CallRequest::lookup(runner.flow(), &query());
        let began = Instant::now();
        while runner.permit(&request).await.is_ok() {}
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn every_page_asks_for_its_turn() {
        let runner = runner();
        let began = Instant::now();
        let pages = runner.describe("DescribeInstances", &query(), |_, token| page(token, 15)).await;
        assert_eq!(pages.map(|pages| pages.len()), Ok(15));
        // Ten calls are granted at once, and ten per second after that.
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
        assert!(
            runner.limiter().acquire(&CallRequest::lookup(runner.flow(), &query())).is_err(),
            "nothing is owed or left"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pages_with_slow_turns_are_still_complete() {
        // Ten pages are granted at once, and another one every four seconds.
        let runner = runner_at(Duration::from_secs(40));
        let began = Instant::now();
        let pages = runner.describe("DescribeInstances", &query(), |_, token| page(token, 15)).await;
        assert_eq!(pages.map(|pages| pages.len()), Ok(15));
        assert!(began.elapsed() > MAX_WAIT, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_never_end_are_given_up() {
        let (runner, query) = (runner(), query());
        let pages = runner.describe("DescribeImages", &query, |_, token| page(token, usize::MAX));
        let error = pages.await.unwrap_err();
        assert!(error.to_string().contains("more than 20 pages"), "{error}");
    }
}
