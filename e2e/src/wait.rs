//! Waiting for a condition, with a deadline and the last observation.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::sync::watch;

use crate::changes::Changes;

/// The interval between two looks at what nobody reports.
const POLL: Duration = Duration::from_millis(100);

/// The shortest interval between two looks where changes are reported.
const AFTER_REPORT: Duration = Duration::from_millis(50);

/// The longest interval between two looks after a long wait, in which a moment matters less.
const RARE: Duration = Duration::from_millis(500);

/// The time without a report after which a wait looks nevertheless: kube-controller-manager and the time itself change
/// things that nobody reports.
const WITHOUT_REPORT: Duration = Duration::from_secs(1);

/// The start of a world on an idle computer with two cores. Budgets of waits are for such a computer.
const USUAL_START: Duration = Duration::from_secs(15);

/// The highest factor by which budgets grow.
const MAX_FACTOR: u32 = 4;

/// The factor by which budgets grow, from the slowest start of a world.
static DEADLINE_FACTOR: AtomicU32 = AtomicU32::new(1);

/// Lets all later waits of this process last as many times longer as this start of a world took longer than usual.
pub(crate) fn world_started_in(took: Duration) {
    DEADLINE_FACTOR.fetch_max(deadline_factor(took), Ordering::Relaxed);
}

fn deadline_factor(start: Duration) -> u32 {
    let factor = start.as_millis().div_ceil(USUAL_START.as_millis());
    u32::try_from(factor).unwrap_or(MAX_FACTOR).clamp(1, MAX_FACTOR)
}

/// Calls `probe` until it succeeds, and returns its result. The probe looks at namespaces or AWS accounts of the test.
/// It is called again after a write of a ServiceAccount or a call of AWS in them, and once a second without either.
///
/// An error of the probe means *not yet*; after `within`, the returned error contains the last one. `within` is for an
/// idle computer, and grows where worlds start slowly. `what` completes the sentence "waited for …".
pub async fn eventually<T>(
    within: Duration,
    what: &str,
    probe: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    wait(within, what, probe, Some(Changes::of_this_test().follow())).await
}

/// The same for a probe that looks at something else: metrics, a log, the end of a program, or objects that
/// kube-apiserver and kube-controller-manager change. The probe is called several times a second.
pub async fn eventually_by_polling<T>(
    within: Duration,
    what: &str,
    probe: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    wait(within, what, probe, None).await
}

async fn wait<T>(
    within: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> anyhow::Result<T>,
    mut changes: Option<watch::Receiver<()>>,
) -> anyhow::Result<T> {
    let within = within * DEADLINE_FACTOR.load(Ordering::Relaxed);
    let started = Instant::now();
    loop {
        if let Some(changes) = &mut changes {
            // A change during the look is news for the next one.
            changes.mark_unchanged();
        }
        // A probe that hangs must not outlive the deadline.
        let remaining = within.saturating_sub(started.elapsed()).max(POLL);
        let not_yet = match tokio::time::timeout(remaining, probe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(not_yet)) => not_yet,
            Err(_) => anyhow!("the last look did not come to an end"),
        };
        if started.elapsed() >= within {
            return Err(not_yet.context(format!("waited {} s for {what}, in vain", within.as_secs())));
        }
        pause(started.elapsed(), changes.as_mut()).await;
    }
}

/// Waits for the time of the next look, in a wait that has lasted for this time.
async fn pause(waited: Duration, changes: Option<&mut watch::Receiver<()>>) {
    let shortest = if changes.is_some() { AFTER_REPORT } else { POLL };
    tokio::time::sleep((waited / 20).clamp(shortest, RARE)).await;
    if let Some(changes) = changes {
        // Neither outcome matters: a change was reported, or it is time to look for one that was not.
        let _ = tokio::time::timeout(WITHOUT_REPORT, changes.changed()).await;
    }
}

/// Fetches `http://…` and returns the body. Any status but 200 is an error that contains the status.
pub(crate) async fn http_get(url: &str) -> anyhow::Result<String> {
    let client: Client<_, Empty<hyper::body::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let response = client.get(url.parse()?).await.with_context(|| format!("GET {url}"))?;
    let status = response.status();
    let body = String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).into_owned();
    ensure!(status == http::StatusCode::OK, "GET {url}: {status}: {body}");
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_grow_with_the_start_of_a_world() {
        let factors = [0, 15, 16, 31, 300].map(|seconds| deadline_factor(Duration::from_secs(seconds)));
        assert_eq!(factors, [1, 1, 2, 3, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reported_change_is_looked_at_at_once() {
        let changes = Changes::of_this_test();
        let began = tokio::time::Instant::now();
        let mut waited = changes.follow();
        let report = async {
            tokio::time::sleep(AFTER_REPORT * 3).await;
            changes.report();
        };
        tokio::join!(pause(Duration::ZERO, Some(&mut waited)), report);
        assert_eq!(began.elapsed(), AFTER_REPORT * 3, "with a report");
        let began = tokio::time::Instant::now();
        pause(Duration::ZERO, Some(&mut waited)).await;
        assert_eq!(began.elapsed(), AFTER_REPORT + WITHOUT_REPORT, "without a report");
    }
}
