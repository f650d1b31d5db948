//! Launches that have taken effect and whose answer the caller has not received: the worst moment for a crash.

use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

use super::request::Request;

/// A launch that has taken effect and whose answer is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredLaunch {
    /// The ClientToken; empty where the request has none.
    pub client_token: String,
    /// The launched instances.
    pub instance_ids: Vec<String>,
}

impl UnansweredLaunch {
    pub(super) fn new(request: &Request, instance_ids: &[String]) -> Self {
        Self {
            client_token: request.parameter("ClientToken").unwrap_or_default().to_owned(),
            instance_ids: instance_ids.to_vec(),
        }
    }
}

/// The unanswered launches of one account.
#[derive(Debug, Default)]
pub(super) struct Unanswered(watch::Sender<Vec<UnansweredLaunch>>);

impl Unanswered {
    pub(super) fn list(&self) -> Vec<UnansweredLaunch> {
        self.0.borrow().clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<UnansweredLaunch>)) {
        self.0.send_modify(change);
    }

    pub(super) fn follow(&self) -> watch::Receiver<Vec<UnansweredLaunch>> {
        self.0.subscribe()
    }
}

/// Waits until at least this many launches are unanswered.
pub(super) async fn some(
    mut launches: watch::Receiver<Vec<UnansweredLaunch>>,
    at_least: usize,
    within: Duration,
) -> anyhow::Result<Vec<UnansweredLaunch>> {
    let some = tokio::time::timeout(within, launches.wait_for(|launches| launches.len() >= at_least)).await;
    let seconds = within.as_secs();
    let some = some.with_context(|| format!("no {at_least} launches were without an answer within {seconds} s"))?;
    Ok(some.context("the AWS proxy has ended")?.clone())
}
