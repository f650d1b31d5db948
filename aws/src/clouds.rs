//! All clients of the process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use capa_cloud::limits::{Caller, Shares};
use capa_cloud::store::View;
use capa_cloud::{
    ClusterCloud, ClusterClouds, MachineCloud, MachineClouds, MachineKey, ResolvedIdentity, TemplateCloud,
    TemplateClouds, Timing,
};
use futures::Stream;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use secrecy::SecretString;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::client::{Client, ClusterClient, MachineClient, Shared, TemplateClient};
use crate::endpoints::ServiceEndpoints;
use crate::limits::{Gate, Limits};
use crate::metrics::{CallMetrics, ThrottleWaits};
use crate::setup::Setup;
use crate::store::{Owners, Wakes};
use crate::sync::lock;

/// A client that nobody asked for this long is dropped.
const IDLE: Duration = Duration::from_secs(3600);

/// How the process reaches AWS.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Endpoints in place of AWS's own. Where none is given, the SDK's environment variables (`AWS_ENDPOINT_URL` and
    /// those of a service) apply.
    pub service_endpoints: ServiceEndpoints,
    /// Periods and ages.
    pub timing: Timing,
    /// How much of AWS's published request rates is ours.
    pub shares: Shares,
    /// The manager's own credentials; the SDK's default chain when absent. For tests that run several managers with
    /// different accounts in one process.
    pub controller_key: Option<AccessKey>,
    /// Until when this process leads for certain; absent where there is no leader election. After that moment nothing that
    /// machines have submitted is begun: what a process that stood still knows of them may be long past.
    pub leads_until: Option<watch::Receiver<Option<Instant>>>,
}

/// A long-lived access key. `Debug` does not show the secret.
#[derive(Clone, Debug)]
pub struct AccessKey {
    /// Access key id.
    pub id: String,
    /// Secret access key.
    pub secret: SecretString,
}

/// A store whose task ended by itself: machines of this region are no longer watched, and the process should end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the instance store of region {region} died")]
pub struct StoreDied {
    /// Its region.
    pub region: String,
}

/// Gives the clients that clusters and machines are reconciled with: one for each identity and region, made without a
/// call, dropped an hour after its last use. Cheap to clone; dropping the last clone ends all background work.
#[derive(Clone)]
pub struct Clouds {
    inner: Arc<Inner>,
}

struct Inner {
    setup: Setup,
    limits: Arc<Limits>,
    leads_until: Option<watch::Receiver<Option<Instant>>>,
    shared: Arc<Shared>,
    clients: Mutex<HashMap<(String, String), Arc<Client>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Clouds {
    /// Reads the SDK's configuration from environment and profile and registers the metrics. Makes no AWS call.
    pub async fn new(options: Options, registry: &mut Registry) -> Self {
        let metrics = CallMetrics::register(registry);
        let waits = ThrottleWaits::register(registry);
        let limits = Limits::new(options.shares, options.timing.rate_second, waits);
        let setup = Setup::load(options.service_endpoints, metrics, options.controller_key).await;
        let shared = Shared {
            timing: options.timing,
            wakes: Arc::new(Wakes::default()),
            owners: Owners::default(),
            stop: CancellationToken::new(),
            died: watch::Sender::new(None),
        };
        let inner = Arc::new(Inner {
            setup,
            limits: Arc::new(limits),
            leads_until: options.leads_until,
            shared: Arc::new(shared),
            clients: Mutex::default(),
        });
        registry.register_collector(Box::new(StoreMetrics(Arc::downgrade(&inner))));
        Self { inner }
    }

    /// The machines whose instances changed, from now on, of all stores. Subscribe before machines are reconciled.
    pub fn changes(&self) -> impl Stream<Item = MachineKey> + Send + 'static + use<> {
        self.inner.shared.wakes.subscribe()
    }

    /// Waits until a store's task dies; for ever if none does.
    pub async fn store_died(&self) -> StoreDied {
        let mut died = self.inner.shared.died.subscribe();
        match died.wait_for(Option::is_some).await.map(|region| region.clone()) {
            Ok(Some(region)) => StoreDied { region },
            _ => std::future::pending().await,
        }
    }

    /// Every store that follows a machine, with its region.
    pub fn stores(&self) -> Vec<(String, View)> {
        let clients: Vec<_> = lock(&self.inner.clients).values().cloned().collect();
        let followers = clients.iter().filter_map(|client| Some((client, client.follower()?)));
        let views = followers.map(|(client, follower)| (client.region.clone(), follower.with(|store| store.view())));
        views.filter(|(_, view)| !view.machines.is_empty()).collect()
    }

    /// Ends all background work. Clients still answer, but stores learn nothing more.
    pub fn shut_down(&self) {
        self.inner.shared.stop.cancel();
    }

    pub(crate) fn client(&self, identity: &ResolvedIdentity, region: &str) -> Arc<Client> {
        let mut clients = lock(&self.inner.clients);
        clients.retain(|_, client| Arc::strong_count(client) > 1 || !client.is_idle(IDLE));
        let key = (identity.key.clone(), region.to_owned());
        let client = clients.entry(key).or_insert_with(|| {
            let (of_identity, replacements) = self.inner.setup.clients(&identity.source, region, &identity.key);
            let gate = Arc::new(Gate::new(self.inner.limits.clone(), &identity.key, region));
            let (api, shared) = (
                Api::new(of_identity, gate, self.inner.leads_until.clone()),
                self.inner.shared.clone(),
            );
            Arc::new(Client::new(region, api, replacements, shared))
        });
        client.touch();
        client.clone()
    }
}

impl ClusterClouds for Clouds {
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud> {
        Arc::new(ClusterClient::new(self.client(identity, region)))
    }
}

impl MachineClouds for Clouds {
    fn machines(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn MachineCloud> {
        Arc::new(MachineClient::new(self.client(identity, region)))
    }

    fn forget(&self, machine: &MachineKey) {
        self.inner.shared.owners.release(machine);
        let caller = Caller::Machine(machine.clone());
        for client in lock(&self.inner.clients).values() {
            client.gate().forget(&caller);
        }
    }
}

impl TemplateClouds for Clouds {
    fn templates(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn TemplateCloud> {
        Arc::new(TemplateClient::new(self.client(identity, region)))
    }
}

/// Gauges of all stores, read when they are scraped: a store that is gone leaves nothing behind.
struct StoreMetrics(Weak<Inner>);

impl fmt::Debug for StoreMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StoreMetrics")
    }
}

/// The stores of one region together.
#[derive(Default)]
struct RegionStores {
    instances: u32,
    suspicious: u32,
    age: Option<Duration>,
    took: Option<Duration>,
}

impl StoreMetrics {
    fn by_region(&self) -> BTreeMap<String, RegionStores> {
        let mut regions: BTreeMap<String, RegionStores> = BTreeMap::new();
        let Some(inner) = self.0.upgrade() else {
            return regions;
        };
        let clients: Vec<_> = lock(&inner.clients).values().cloned().collect();
        for client in clients {
            let Some(follower) = client.follower() else {
                continue;
            };
            let now = follower.now();
            let (watched, instances, listing, suspicious) = follower.with(|store| {
                (
                    store.is_watched(),
                    store.instances(),
                    store.last_listing(),
                    store.is_suspicious(),
                )
            });
            if !watched {
                continue;
            }
            let region = regions.entry(client.region.clone()).or_default();
            region.instances += u32::try_from(instances).unwrap_or(u32::MAX);
            region.suspicious += u32::from(suspicious);
            // An absent value is the smallest, so that the worst store of a region shows.
            region.age = region.age.max(listing.map(|listing| now.saturating_sub(listing.ended)));
            region.took = region.took.max(listing.map(|listing| listing.took));
        }
        regions
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let regions = self.by_region();
        let mut gauge = |name, help, value: fn(&RegionStores) -> Option<f64>| {
            let kind = prometheus_client::metrics::MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (region, stores) in &regions {
                if let Some(value) = value(stores) {
                    let labels = [("region", region.as_str())];
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        gauge(
            "capa_instance_store_instances",
            "Instances that the stores know",
            |stores| Some(f64::from(stores.instances)),
        )?;
        gauge(
            "capa_instance_store_suspicious",
            "Stores whose last listing lost more instances at once than is believed of one",
            |stores| Some(f64::from(stores.suspicious)),
        )?;
        gauge(
            "capa_instance_store_age_seconds",
            "Time since the last complete listing, of the oldest store",
            |stores| stores.age.map(|age| age.as_secs_f64()),
        )?;
        gauge(
            "capa_instance_store_listing_seconds",
            "Time that the last complete listing took, of the slowest store",
            |stores| stores.took.map(|took| took.as_secs_f64()),
        )
    }
}

#[cfg(test)]
mod tests {
    use capa_cloud::CredentialSource;

    use super::*;

    fn identity(key: &str) -> ResolvedIdentity {
        ResolvedIdentity {
            key: key.to_owned(),
            source: CredentialSource::Controller,
        }
    }

    async fn clouds() -> Clouds {
        let options = Options {
            controller_key: Some(AccessKey {
                id: "AKIA".into(),
                secret: "secret".to_owned().into(),
            }),
            ..Options::default()
        };
        Clouds::new(options, &mut Registry::default()).await
    }

    fn count(clouds: &Clouds) -> usize {
        lock(&clouds.inner.clients).len()
    }

    #[tokio::test]
    async fn a_client_is_made_once_for_an_identity_and_region() {
        let clouds = clouds().await;
        let first = clouds.client(&identity("a"), "eu-west-1");
        assert!(Arc::ptr_eq(&first, &clouds.client(&identity("a"), "eu-west-1")));
        assert!(!Arc::ptr_eq(&first, &clouds.client(&identity("b"), "eu-west-1")));
        assert!(!Arc::ptr_eq(&first, &clouds.client(&identity("a"), "us-east-1")));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_nobody_asks_for_are_dropped() {
        let clouds = clouds().await;
        clouds.client(&identity("old"), "eu-west-1");
        tokio::time::advance(Duration::from_secs(3599)).await;
        clouds.client(&identity("used"), "eu-west-1");
        assert_eq!(count(&clouds), 2);
        tokio::time::advance(Duration::from_secs(1)).await;
        clouds.client(&identity("used"), "eu-west-1");
        assert_eq!(count(&clouds), 1);
    }
}
