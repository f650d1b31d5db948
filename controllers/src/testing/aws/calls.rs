//! How calls reach the simulated EC2.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::session::{InformerCalls, Moment, SessionCall, perform};
use capa_cloud::sim::{CallDescription, Client, Sessions, Transport};
use capa_cloud::targets::{GroupAnswer, GroupCall, GroupRequest};
use capa_cloud::{CloudError, Instance, InstanceState, Query};
use jiff::Timestamp;

use super::{ACCESS_KEY, FakeAws, Reads};

/// Enough for a listing, a lookup of what it missed, and all calls that a registration needs.
const ROUNDS: usize = 6;

/// How the next call of an action fails.
pub(super) struct Failure {
    error: CloudError,
    /// Whether the call takes effect all the same.
    after_effect: bool,
}

/// A call that AWS refuses with this code.
pub(crate) fn refused(action: &'static str, code: &str) -> CloudError {
    CloudError::answered(action, code, "refused for the test")
}

/// A call without an answer.
pub(crate) fn unanswered(action: &'static str) -> CloudError {
    CloudError::no_answer(action, "no answer in time")
}

impl FakeAws {
    /// Makes the next call of that action fail without effect.
    pub(crate) fn fail_next(&self, action: &'static str, error: CloudError) {
        self.push_failure(action, error, false);
    }

    /// Makes the next call of that action take effect and its answer get lost.
    pub(crate) fn lose_next_answer(&self, action: &'static str) {
        self.push_failure(action, unanswered(action), true);
    }

    /// Has no read of an informer succeed from here on; what was seen before stays known.
    pub(crate) fn fail_reading(&self, error: CloudError) {
        self.state().reads = Reads::Failing(error);
    }

    /// Has reads of informers succeed again.
    pub(crate) fn answer_reading(&self) {
        self.state().reads = Reads::Answered;
    }

    /// Has reads of informers begin from here on, and not end.
    pub(crate) fn slow_down_reading(&self) {
        self.state().reads = Reads::Slow;
    }

    fn push_failure(&self, action: &'static str, error: CloudError, after_effect: bool) {
        let mut state = self.state();
        let queue = state.failures.entry(action).or_default();
        queue.push_back(Failure { error, after_effect });
    }

    /// Makes the calls that sessions make by themselves, until the sessions know what there is to be seen.
    pub(crate) async fn settle(&self) {
        for _ in 0..ROUNDS {
            let calls = self.state().sessions.next_calls(self.since_start());
            for (key, call) in calls {
                if matches!(call, SessionCall::Read(_)) && matches!(self.state().reads, Reads::Slow) {
                    continue;
                }
                let ended = perform(&self.in_region(&key.region), call).await;
                self.state().sessions.call_ended(&key, ended, self.since_start());
            }
        }
    }

    /// Makes a call, unless it is to fail before, and answers.
    fn make<T>(
        &self,
        action: &'static str,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let now = self.now();
        let mut state = self.state();
        let failure = state.failures.get_mut(action).and_then(VecDeque::pop_front);
        state.region(&self.region);
        // A call without effect was made all the same: on a copy, which tells what was asked for.
        let mut copy = match &failure {
            Some(failure) if !failure.after_effect => Some(state.ec2.clone()),
            _ => None,
        };
        let ec2 = copy.as_mut().unwrap_or(&mut state.ec2);
        let answer = effect(&mut ec2.client(ACCESS_KEY, &self.region), now);
        let launches = ec2.take_launch_requests();
        state.launches.extend(launches.into_iter().map(|(_, request)| request));
        failure.map_or(answer, |failure| Err(failure.error))
    }
}

impl Transport for FakeAws {
    async fn call<T: Send + 'static>(
        &self,
        call: CallDescription,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<T, CloudError> + Send + 'static,
    ) -> Result<T, CloudError> {
        self.journal.note(call.action);
        self.make(call.action, effect)
    }

    fn sessions<T>(&self, act: impl FnOnce(&mut Sessions, Moment) -> T) -> T {
        let now = self.since_start();
        let mut state = self.state();
        let replacements = state.replacements;
        act(&mut state.sessions, Moment { now, replacements })
    }

    /// Nothing here waits: the calls of informers keep no rate.
    async fn sleep(&self, _: Duration) {}
}

/// The calls of informers. They keep no request rate: time stands still while they are made. Their reads are not noted,
/// as no pass makes them.
#[async_trait]
impl InformerCalls for FakeAws {
    async fn read(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let reads = self.state().reads.clone();
        if let Reads::Failing(error) = reads {
            return Err(error);
        }
        let now = self.now();
        let mut state = self.state();
        state.region(&self.region);
        state
            .ec2
            .client(ACCESS_KEY, &self.region)
            .describe_instances(now, query)
    }

    async fn terminate(&self, ids: &[String]) -> Result<Vec<(String, InstanceState)>, CloudError> {
        let action = "TerminateInstances";
        self.journal.note(action);
        let changes = self.make(action, |client, now| client.terminate_instances(now, ids))?;
        let states = changes.into_iter().map(|change| (change.instance_id, change.current));
        Ok(states.collect())
    }

    async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        if matches!(call.request, GroupRequest::Register(_) | GroupRequest::Deregister(_)) {
            self.journal.note(call.action());
        }
        self.make(call.action(), |client, now| client.group_call(now, call))
    }
}
