//! Launches that have taken effect while nobody has been told: the moment at which a crash hurts most.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

use super::request::Request;
use super::state::Shared;

/// A launch that has had its effect while its answer is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredLaunch {
    /// Its token; empty where it has none.
    pub client_token: String,
    /// What it has launched.
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

    pub(super) fn follow(&self) -> watch::Receiver<Vec<UnansweredLaunch>> {
        self.0.subscribe()
    }
}

/// Waits until there are so many at least.
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

/// Lists a launch as unanswered for as long as this lives: until it is answered, or its caller hangs up.
pub(super) struct Held {
    shared: Arc<Shared>,
    account: String,
    launch: UnansweredLaunch,
}

impl Held {
    pub(super) fn new(shared: Arc<Shared>, account: String, launch: UnansweredLaunch) -> Self {
        let held = Self {
            shared,
            account,
            launch,
        };
        held.change(|launches| launches.push(held.launch.clone()));
        held
    }

    fn change(&self, change: impl FnOnce(&mut Vec<UnansweredLaunch>)) {
        self.shared.with_account(&self.account, |account| {
            account.unanswered.0.send_modify(change);
        });
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.change(|launches| launches.retain(|launch| *launch != self.launch));
    }
}
