//! Answers shared between callers that make the same call at about the same time. This module shares them as futures,
//! which the session logic in `cloud` does not use. The simulation shares no answers, so that each pass has its own
//! faults.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use capa_cloud::CloudError;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer is shared, measured from the start of its call.
#[derive(Clone, Copy)]
pub(crate) struct Ages {
    /// A successful answer.
    pub(crate) fresh: Duration,
    /// An error.
    pub(crate) failed: Duration,
}

impl Ages {
    /// Only concurrent callers share an answer.
    pub(crate) const AT_ONCE: Self = Self::fresh(Duration::ZERO);

    /// A successful answer is shared for this long, and an error only by concurrent callers.
    pub(crate) const fn fresh(fresh: Duration) -> Self {
        Self { fresh, failed: Duration::ZERO }
    }
}

/// One answer per key. A caller that arrives during a call waits for its answer, whether it is a success or an error.
/// Later callers get the answer for as long as its [`Ages`] allow. If the rate limits defer a call, only the caller
/// that made it gets the error. Every other caller makes its own call, because its turn may come earlier.
pub(crate) struct SharedAnswers<K, V> {
    flights: Mutex<HashMap<K, Flight<V>>>,
}

struct Flight<V> {
    began: Instant,
    ages: Ages,
    answer: Shared<BoxFuture<'static, Result<V, CloudError>>>,
}

impl<K, V> Default for SharedAnswers<K, V> {
    fn default() -> Self {
        Self { flights: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> SharedAnswers<K, V> {
    /// The shared answer for `key`; `ask` makes the call if no answer can be shared.
    pub(crate) async fn get(
        &self,
        key: K,
        ages: Ages,
        ask: impl Fn() -> BoxFuture<'static, Result<V, CloudError>>,
    ) -> Result<V, CloudError> {
        loop {
            let mut is_own = false;
            let answer = {
                let mut flights = self.flights.lock();
                flights.retain(|_, flight| flight.is_usable());
                let begin = || {
                    is_own = true;
                    Flight { began: Instant::now(), ages, answer: ask().shared() }
                };
                flights.entry(key.clone()).or_insert_with(begin).answer.clone()
            };
            let answer = answer.await;
            if is_own || !is_deferred(&answer) {
                return answer;
            }
        }
    }
}

impl<V: Clone> Flight<V> {
    fn is_usable(&self) -> bool {
        let limit = match self.answer.peek() {
            // A call whose callers were all cancelled makes no progress.
            None => return self.answer.strong_count() > Some(1),
            Some(answer) if is_deferred(answer) => return false,
            Some(Ok(_)) => self.ages.fresh,
            Some(Err(_)) => self.ages.failed,
        };
        self.began.elapsed() < limit
    }
}

/// Whether the call was deferred because its turn has not come.
fn is_deferred<V>(answer: &Result<V, CloudError>) -> bool {
    answer.as_ref().is_err_and(|error| error.retry_after.is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A lookup whose answer takes a second; counts its calls.
    struct Lookup {
        calls: AtomicUsize,
        fails: bool,
    }

    fn lookup(fails: bool) -> Arc<Lookup> {
        Arc::new(Lookup { calls: AtomicUsize::new(0), fails })
    }

    impl Lookup {
        fn call(self: &Arc<Self>) -> BoxFuture<'static, Result<usize, CloudError>> {
            let lookup = self.clone();
            async move {
                let count = lookup.calls.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
                if lookup.fails {
                    Err(CloudError::no_answer("DescribeSubnets", "connection failed"))
                } else {
                    Ok(count)
                }
            }
            .boxed()
        }

        fn calls(&self) -> usize {
            self.calls.load(Ordering::SeqCst)
        }
    }

    /// Shares answers for a minute, and errors for this many seconds.
    struct Answers {
        shared: SharedAnswers<&'static str, usize>,
        ages: Ages,
    }

    fn answers(failed: u64) -> Answers {
        Answers {
            shared: SharedAnswers::default(),
            ages: Ages { fresh: Duration::from_secs(60), failed: Duration::from_secs(failed) },
        }
    }

    impl Answers {
        async fn get(
            &self,
            key: &'static str,
            ask: impl Fn() -> BoxFuture<'static, Result<usize, CloudError>>,
        ) -> Result<usize, CloudError> {
            self.shared.get(key, self.ages, ask).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn equal_lookups_at_once_are_one_call() {
        let (answers, lookup) = (answers(0), lookup(false));
        let all = (0..50).map(|_| answers.get("a", || lookup.call()));
        let all = futures::future::join_all(all).await;
        assert!(all.iter().all(|answer| answer == &Ok(1)));
        assert_eq!(lookup.calls(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_shared_by_key_until_it_is_old() {
        let (answers, lookup) = (answers(0), lookup(false));
        assert_eq!(answers.get("a", || lookup.call()).await, Ok(1));
        tokio::time::advance(Duration::from_secs(58)).await;
        assert_eq!(answers.get("a", || lookup.call()).await, Ok(1));
        assert_eq!(answers.get("b", || lookup.call()).await, Ok(2));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(answers.get("a", || lookup.call()).await, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_shared_with_the_waiting_callers_only() {
        let (answers, lookup) = (answers(0), lookup(true));
        let all = (0..10).map(|_| answers.get("a", || lookup.call()));
        assert!(futures::future::join_all(all).await.iter().all(Result::is_err));
        assert_eq!(lookup.calls(), 1);
        assert!(answers.get("a", || lookup.call()).await.is_err());
        assert_eq!(lookup.calls(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_shared_for_the_age_of_failures() {
        let (answers, lookup) = (answers(5), lookup(true));
        assert!(answers.get("a", || lookup.call()).await.is_err());
        assert!(answers.get("a", || lookup.call()).await.is_err());
        assert_eq!(lookup.calls(), 1);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(answers.get("a", || lookup.call()).await.is_err());
        assert_eq!(lookup.calls(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deferred_call_is_an_error_of_its_own_caller_only() {
        let answers = answers(5);
        let calls = AtomicUsize::new(0);
        let call = |turn: Option<u64>| {
            calls.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::task::yield_now().await;
                let wait = turn.map(Duration::from_secs);
                wait.map_or(Ok(7), |wait| Err(CloudError::deferred("DescribeSubnets", wait)))
            }
            .boxed()
        };
        let deferred = answers.get("a", || call(Some(100)));
        let other = answers.get("a", || call(None));
        let (deferred, other) = futures::future::join(deferred, other).await;
        assert_eq!(deferred, Err(CloudError::deferred("DescribeSubnets", Duration::from_secs(100))));
        assert_eq!((other, calls.load(Ordering::SeqCst)), (Ok(7), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_was_cancelled_is_repeated() {
        let (answers, lookup) = (answers(0), lookup(false));
        let cancelled = tokio::time::timeout(Duration::from_millis(10), answers.get("a", || lookup.call())).await;
        assert!(cancelled.is_err());
        assert_eq!(answers.get("a", || lookup.call()).await, Ok(2));
    }
}
