//! All sessions of the process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::informer::InformerSnapshot;
use capa_cloud::limits::Shares;
use capa_cloud::managed::{ManagedCloud, ManagedClouds};
use capa_cloud::session::SessionKey;
use capa_cloud::{
    ClusterCloud, ClusterClouds, MachineCloud, MachineClouds, MachineKey, Reads, ResolvedIdentity, TemplateClouds,
    Timing,
};
use capa_preflight::FactsSource;
use futures::Stream;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

use crate::informer_metrics::{InformerGauges, InformerMetrics};
use crate::managed::ManagedSession;
use crate::sdk::call_runner::{CallRunner, LeadsUntil};
use crate::sdk::config::{AccessKey, SdkConfig};
use crate::sdk::endpoints::ServiceEndpoints;
use crate::sdk::limits::{CallLimiter, Limits};
use crate::sdk::metrics::{CallMetrics, ThrottleWaits};
use crate::sdk::regions::AnsweringRegions;
use crate::session::{Session, Shared};

/// A session that has not been used for this long and follows no machine is dropped.
const IDLE: Duration = Duration::from_secs(3600);
/// Maximum number of sessions that follow no machine. Beyond it, the least recently used sessions are dropped. The
/// number has a limit because users can name any number of regions in an hour, and because an identity gets another
/// session whenever its Secret changes.
const MAX_IDLE: usize = 256;

/// The settings of the process's access to AWS.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Endpoints that replace AWS's own. Without an endpoint, the SDK's environment variables (`AWS_ENDPOINT_URL` and
    /// those of a service) apply.
    pub service_endpoints: ServiceEndpoints,
    /// Periods and ages.
    pub timing: Timing,
    /// The provider's share of AWS's published request rates.
    pub shares: Shares,
    /// The manager's own credentials; if absent, the SDK's default chain applies. Tests use the field to run several
    /// managers with different accounts in one process.
    pub controller_key: Option<AccessKey>,
    /// The time until which this process certainly leads; absent if leader election is off. After that time, the
    /// process starts no write that machines have submitted, because the state of a suspended process may be out of
    /// date.
    pub leads_until: Option<LeadsUntil>,
}

/// The report that an informer's task ended unexpectedly. The machines of the region are no longer watched, and the
/// process should exit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the instance informer of region {region} died")]
pub struct InformerDied {
    /// The region of the informer.
    pub region: String,
}

/// The pool of the sessions with which clusters and machines are reconciled. There is one session for each identity and
/// region. It is created without a call, and dropped an hour after its last use, or earlier if there are many sessions
/// without machines. Clones share the pool; dropping the last clone ends all background work.
#[derive(Clone)]
pub struct SessionPool {
    inner: Arc<Inner>,
}

type Sessions = HashMap<SessionKey, Arc<Session>>;

struct Inner {
    config: SdkConfig,
    limits: Arc<Limits>,
    leads_until: Option<LeadsUntil>,
    shared: Arc<Shared>,
    sessions: Mutex<Sessions>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl SessionPool {
    /// Reads the SDK's configuration from environment and profile and registers the metrics. Makes no AWS call.
    pub async fn new(options: Options, registry: &mut Registry) -> Self {
        let metrics = CallMetrics::register(registry, AnsweringRegions::default());
        let waits = ThrottleWaits::register(registry);
        let limits = Limits::new(options.shares, options.timing.rate_second, waits);
        let config = SdkConfig::load(options.service_endpoints, metrics, options.controller_key).await;
        let inner = Arc::new(Inner {
            config,
            limits: Arc::new(limits),
            leads_until: options.leads_until,
            shared: Arc::new(Shared::new(options.timing)),
            sessions: Mutex::default(),
        });
        let weak = Arc::downgrade(&inner);
        let gauges = move || weak.upgrade().map(|inner| inner.gauges()).unwrap_or_default();
        registry.register_collector(Box::new(InformerMetrics::new(gauges)));
        Self { inner }
    }

    /// The machines of all sessions whose instances change from now on. Subscribe before machines are reconciled.
    pub fn changes(&self) -> impl Stream<Item = MachineKey> + Send + 'static + use<> {
        self.inner.shared.wakes.subscribe()
    }

    /// Waits until an informer's task ends unexpectedly; never returns if no task does.
    pub async fn informer_died(&self) -> InformerDied {
        let mut died = self.inner.shared.died.subscribe();
        match died.wait_for(Option::is_some).await.map(|region| region.clone()) {
            Ok(Some(region)) => InformerDied { region },
            _ => std::future::pending().await,
        }
    }

    /// The unusual findings of every informer that follows a machine, with its region. The iterator reads one informer
    /// at a time, so that at most one snapshot is in memory.
    pub fn informers(&self) -> impl Iterator<Item = (String, InformerSnapshot)> + use<> {
        drop_unused(&mut self.inner.sessions.lock());
        self.inner.sessions().into_iter().filter_map(|session| {
            let snapshot = session.state().act(|state, _| {
                let informer = state.informer();
                informer.is_watched().then(|| informer.snapshot())
            });
            Some((session.region.clone(), snapshot?))
        })
    }

    /// Ends all background work. Sessions still answer, but informers learn nothing more.
    pub fn shut_down(&self) {
        self.inner.shared.stop.cancel();
    }

    /// Gathers facts about infrastructure with an identity in a region. Makes no call.
    pub fn facts(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn FactsSource> {
        Arc::new(self.session(identity, region).facts("awscluster", &identity.cluster))
    }

    pub(crate) fn session(&self, identity: &ResolvedIdentity, region: &str) -> Arc<Session> {
        let mut sessions = self.inner.sessions.lock();
        drop_unused(&mut sessions);
        let key = SessionKey::new(identity, region);
        if !sessions.contains_key(&key) {
            make_room(&mut sessions);
        }
        let flow = key.flow();
        let session = sessions.entry(key).or_insert_with(|| {
            let (clients, replacements) = self.inner.config.clients(&identity.source, region, &identity.key);
            let limiter = CallLimiter::new(&self.inner.limits, &identity.key, region);
            let runner = CallRunner::new(Arc::new(limiter), self.inner.leads_until.clone(), flow);
            let shared = self.inner.shared.clone();
            Arc::new(Session::new(region, clients, runner, replacements, shared))
        });
        session.touch();
        session.clone()
    }
}

/// Drops the sessions that have not been used for a long time.
fn drop_unused(sessions: &mut Sessions) {
    sessions.retain(|_, session| session.used().elapsed() < IDLE || is_needed(session));
}

/// Drops sessions without machines until there is room for one more.
fn make_room(sessions: &mut Sessions) {
    let idle = sessions.iter().filter(|(_, session)| !is_needed(session));
    let mut idle: Vec<_> = idle.map(|(key, session)| (session.used(), key.clone())).collect();
    idle.sort_unstable();
    let spare = (idle.len() + 1).saturating_sub(MAX_IDLE);
    for (_, key) in idle.into_iter().take(spare) {
        sessions.remove(&key);
    }
}

/// Whether a session is in use, or has work left to do.
fn is_needed(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) > 1 || session.is_at_work()
}

impl Inner {
    fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().values().cloned().collect()
    }

    /// Gauges of every informer that follows a machine, with its region.
    fn gauges(&self) -> Vec<(String, InformerGauges)> {
        let sessions = self.sessions();
        let gauges = sessions.iter().filter_map(|session| {
            let gauges = session.state().act(|state, at| InformerGauges::of(state.informer(), at.now));
            Some((session.region.clone(), gauges?))
        });
        gauges.collect()
    }
}

impl ClusterClouds for SessionPool {
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud> {
        let session = self.session(identity, region);
        Arc::new(session.on_behalf_of("awscluster", &identity.cluster).for_cluster())
    }
}

impl ManagedClouds for SessionPool {
    fn managed(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ManagedCloud> {
        let session = self.session(identity, region);
        Arc::new(ManagedSession::new(session.on_behalf_of("awscluster", &identity.cluster)))
    }
}

impl MachineClouds for SessionPool {
    fn machines(&self, identity: &ResolvedIdentity, region: &str, cluster: &str) -> Arc<dyn MachineCloud> {
        let session = self.session(identity, region);
        Arc::new(session.on_behalf_of("awsmachine", &identity.cluster).for_machine(cluster))
    }

    fn forget(&self, machine: &MachineKey) {
        self.inner.shared.release(machine);
        for session in self.inner.sessions() {
            session.forget_turns(machine);
        }
    }
}

impl TemplateClouds for SessionPool {
    fn templates(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn Reads> {
        let session = self.session(identity, region);
        Arc::new(session.on_behalf_of("awsmachinetemplate", &identity.cluster))
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::{ClusterKey, CredentialSource};

    use super::*;

    fn identity(key: &str) -> ResolvedIdentity {
        ResolvedIdentity {
            key: key.to_owned(),
            source: CredentialSource::Controller,
            cluster: ClusterKey::default(),
            is_for_one_cluster: false,
        }
    }

    async fn pool() -> SessionPool {
        let options = Options {
            controller_key: Some(AccessKey { id: "AKIA".into(), secret: "secret".to_owned().into() }),
            ..Options::default()
        };
        SessionPool::new(options, &mut Registry::default()).await
    }

    fn count(pool: &SessionPool) -> usize {
        pool.inner.sessions.lock().len()
    }

    #[tokio::test]
    async fn a_session_is_made_once_for_an_identity_and_region() {
        let pool = pool().await;
        let first = pool.session(&identity("a"), "eu-west-1");
        assert!(Arc::ptr_eq(&first, &pool.session(&identity("a"), "eu-west-1")));
        assert!(!Arc::ptr_eq(&first, &pool.session(&identity("b"), "eu-west-1")));
        assert!(!Arc::ptr_eq(&first, &pool.session(&identity("a"), "us-east-1")));
    }

    #[tokio::test(start_paused = true)]
    async fn unused_sessions_are_dropped() {
        let pool = pool().await;
        pool.session(&identity("old"), "eu-west-1");
        tokio::time::advance(Duration::from_secs(3599)).await;
        pool.session(&identity("used"), "eu-west-1");
        assert_eq!(count(&pool), 2);
        tokio::time::advance(Duration::from_secs(1)).await;
        pool.session(&identity("used"), "eu-west-1");
        assert_eq!(count(&pool), 1);
    }

    #[tokio::test]
    async fn many_regions_and_identities_leave_few_sessions() {
        let pool = pool().await;
        let machine = MachineKey { namespace: "default".into(), name: "one".into() };
        pool.session(&identity("at work"), "eu-west-1")
            .state()
            .act(|state, at| state.observe(&machine, "dev", "i-1", at));
        for number in 0..500 {
            pool.session(&identity("a"), &format!("xx-invented-{number}"));
            pool.session(&identity(&format!("rotated-{number}")), "eu-west-1");
        }
        assert_eq!(count(&pool), MAX_IDLE + 1);
        let kept = |key: &str, region: &str| {
            let key = SessionKey::new(&identity(key), region);
            pool.inner.sessions.lock().contains_key(&key)
        };
        assert!(kept("at work", "eu-west-1"), "it follows a machine");
        assert!(kept("rotated-499", "eu-west-1") && kept("a", "xx-invented-499"));
        assert!(!kept("rotated-0", "eu-west-1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scan_of_the_informers_drops_what_is_not_used() {
        let pool = pool().await;
        pool.session(&identity("old"), "eu-west-1");
        tokio::time::advance(IDLE).await;
        assert_eq!(pool.informers().count(), 0);
        assert_eq!(count(&pool), 0);
    }
}
