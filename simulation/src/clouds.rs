//! AWS as the reconcilers of one process see it: the shipped sessions, whose calls the scheduler carries.

use std::sync::Arc;
use std::time::Duration;

use capa_cloud::session::{MachineSession, Moment, SessionKey};
use capa_cloud::{
    CloudError, ClusterCloud, ClusterClouds, ErrorClass, MachineCloud, MachineClouds, MachineKey, ResolvedIdentity,
};
use capa_fake_aws::machines::{self, Client, Sessions, SimSession, Transport};
use jiff::Timestamp;

use crate::calls::{Action, Failure};
use crate::manager::Manager;
use crate::time::since_start;

impl Transport for Manager {
    async fn call<T: Send + 'static>(
        &self,
        call: machines::CallDescription,
        effect: impl FnOnce(&mut Client<'_>, Timestamp) -> Result<T, CloudError> + Send + 'static,
    ) -> Result<T, CloudError> {
        let operation = call.action;
        let key = self.state().access_key;
        let asked = self.mailbox.ask(Action::aws(operation, call.writes), call.about, move |outside, view| {
            let now = outside.now;
            let answer = outside.aws.as_manager(key, now, view, |client| effect(client, now));
            if answer.as_ref().is_err_and(|error| error.class == ErrorClass::Throttled) {
                outside.aws.throttled += 1;
            }
            answer
        });
        match asked.await {
            Ok(answer) => answer,
            Err(Failure::NoAnswer) => Err(CloudError::no_answer(operation, "no answer in time")),
            Err(Failure::Throttled) => {
                let message = "Request limit exceeded.";
                Err(CloudError::answered(operation, "RequestLimitExceeded", message))
            }
            Err(Failure::Refused(code)) => Err(CloudError::answered(operation, code, "refused")),
        }
    }

    fn sessions<T>(&self, act: impl FnOnce(&mut Sessions, Moment) -> T) -> T {
        let mut state = self.state();
        let at = Moment { now: since_start(state.now), replacements: state.replacements };
        act(&mut state.sessions, at)
    }

    async fn sleep(&self, wait: Duration) {
        self.mailbox.sleep(wait).await;
    }

    /// Once another process has taken the lease this one begins no such write any more.
    async fn wait_until_leading(&self) {
        let overtaken = self.state().overtaken;
        if overtaken {
            std::future::pending::<()>().await;
        }
    }
}

impl Manager {
    /// The session of an identity in a region.
    pub(crate) fn session(&self, key: SessionKey) -> SimSession<Self> {
        SimSession::new(self.clone(), key)
    }
}

impl ClusterClouds for Manager {
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud> {
        let session = self.session(SessionKey::new(identity, region));
        Arc::new(session.for_cluster(&identity.cluster))
    }
}

impl MachineClouds for Manager {
    fn machines(&self, identity: &ResolvedIdentity, region: &str, cluster: &str) -> Arc<dyn MachineCloud> {
        let session = self.session(SessionKey::new(identity, region));
        Arc::new(MachineSession::new(session.for_cluster(&identity.cluster), cluster))
    }

    fn forget(&self, machine: &MachineKey) {
        self.state().sessions.forget(machine);
    }
}
