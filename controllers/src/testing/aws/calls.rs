//! The transport of calls to the simulated EC2.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::informer::TerminationBatch;
use capa_cloud::session::{InformerCalls, Moment, SessionCall, perform};
use capa_cloud::targets::{GroupAnswer, GroupCall, GroupRequest};
use capa_cloud::{CloudError, Instance, InstanceState, Query};
use capa_fake_aws::machines::{CallDescription, Client, Sessions, Transport};
use jiff::Timestamp;

use super::{ACCESS_KEY, FakeAws, Reads};

/// Number of rounds in [`FakeAws::settle`]: enough for a listing, a lookup of missing instances, and all calls of a
/// registration.
const ROUNDS: usize = 6;

/// The failure of the next call of an action.
pub(super) struct Failure {
    error: CloudError,
    /// Whether the call still takes effect.
    after_effect: bool,
}

/// The error of a call that AWS refuses with this code.
pub(crate) fn refused(action: &'static str, code: &str) -> CloudError {
    CloudError::answered(action, code, "refused for the test")
}

/// The error of a call without an answer.
pub(crate) fn unanswered(action: &'static str) -> CloudError {
    CloudError::no_answer(action, "no answer in time")
}

impl FakeAws {
    /// Makes the next call of an action fail without effect.
    pub(crate) fn fail_next(&self, action: &'static str, error: CloudError) {
        self.push_failure(action, error, false);
    }

    /// Makes the next call of an action take effect, and drops its answer.
    pub(crate) fn lose_next_answer(&self, action: &'static str) {
        self.push_failure(action, unanswered(action), true);
    }

    /// Makes all reads of informers fail from now on. Earlier results stay known.
    pub(crate) fn fail_reading(&self, error: CloudError) {
        self.state().reads = Reads::Failing(error);
    }

    /// Makes reads of informers succeed from now on.
    pub(crate) fn answer_reading(&self) {
        self.state().reads = Reads::Answered;
    }

    /// Makes reads of informers begin and not end from now on.
    pub(crate) fn slow_down_reading(&self) {
        self.state().reads = Reads::Slow;
    }

    fn push_failure(&self, action: &'static str, error: CloudError, after_effect: bool) {
        let mut state = self.state();
        let queue = state.failures.entry(action).or_default();
        queue.push_back(Failure { error, after_effect });
    }

    /// Makes the background calls of sessions until the sessions know the current state.
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

    /// Makes a call, unless a failure without effect is set, and returns its answer.
    fn make<T>(
        &self,
        action: &'static str,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<T, CloudError>,
    ) -> Result<T, CloudError> {
        let now = self.now();
        let mut state = self.state();
        let failure = state.failures.get_mut(action).and_then(VecDeque::pop_front);
        state.region(&self.region);
        // A call without effect runs on a copy, which records its request.
        let mut copy = match &failure {
            Some(failure) if !failure.after_effect => Some(state.accounts.clone()),
            _ => None,
        };
        let accounts = copy.as_mut().unwrap_or(&mut state.accounts);
        let answer = effect(&mut accounts.client(ACCESS_KEY, &self.region), now);
        let launches = accounts.take_launch_requests();
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

    /// The double never waits, because the calls of informers have no rate limit here.
    async fn sleep(&self, _: Duration) {}
}

/// The calls of informers. They have no rate limit, because time does not pass during these calls. The journal does not
/// contain their reads, because they are not part of a pass.
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
        state.accounts.client(ACCESS_KEY, &self.region).describe_instances(now, query)
    }

    async fn look_up(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let action = "DescribeInstances";
        self.journal.note(action);
        self.make(action, |client, now| client.describe_instances(now, query))
    }

    async fn terminate(&self, batch: &TerminationBatch) -> Result<Vec<(String, InstanceState)>, CloudError> {
        let action = "TerminateInstances";
        self.journal.note(action);
        let changes = self.make(action, |client, now| client.terminate_instances(now, batch.ids()))?;
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
