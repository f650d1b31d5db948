//! Waiting for a condition, with a deadline and the last observation.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

/// The interval between two checks of a condition.
const POLL: Duration = Duration::from_millis(100);

/// The interval after a long wait. Every check costs time of the API server, which other tests need.
const RARE_POLL: Duration = Duration::from_millis(500);

/// Calls `probe` until it succeeds, and returns its result. An error of the probe means *not yet*; after `within`, the
/// returned error contains the last one. `what` completes the sentence "waited for …".
pub async fn eventually<T>(
    within: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
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
        tokio::time::sleep((started.elapsed() / 20).clamp(POLL, RARE_POLL)).await;
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

    #[tokio::test(start_paused = true)]
    async fn eventually_returns_the_result_of_the_probe() {
        let mut looks = 0;
        let found = eventually(Duration::from_secs(5), "the third look", async || {
            looks += 1;
            ensure!(looks == 3, "look {looks}");
            Ok(looks)
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_failed_wait_reports_the_last_observation() {
        let wait = eventually(Duration::from_millis(150), "the impossible", async || {
            Err::<(), _>(anyhow!("phase is Pending"))
        });
        let error = format!("{:#}", wait.await.unwrap_err());
        assert!(
            error.contains("the impossible") && error.contains("phase is Pending"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_probe_that_hangs_does_not_outlive_the_deadline() {
        let wait = eventually(Duration::from_millis(150), "a hanging look", async || {
            std::future::pending::<anyhow::Result<()>>().await
        });
        let error = tokio::time::timeout(Duration::from_secs(5), wait)
            .await
            .unwrap()
            .unwrap_err();
        assert!(format!("{error:#}").contains("a hanging look"));
    }
}
