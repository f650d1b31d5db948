//! One identity in one region: its calls, what its machines share, its instance store.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::store::Store;
use capa_cloud::targets::{Desired, RegistrationState, TargetInstance};
use capa_cloud::{
    ApiLoadBalancer, CloudError, ClusterCloud, ControlPlaneTarget, Image, Instance, InstanceType, LaunchRequest,
    MachineCloud, MachineKey, Observation, Query, RouteTable, SecurityGroup, Subnet, TemplateCloud, Timing, Vpc,
};
use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::limits::Gate;
use crate::lookups::SharedAnswers;
use crate::replacements::Replacements;
use crate::store::{Follower, Owners, StoreHandle, Wakes};
use crate::sync::lock;

/// How often the account is asked for while the credentials are replaced each time.
const ACCOUNT_TRIES: usize = 3;

/// How long an instance type is believed to be as it was described. What it offers never changes.
const INSTANCE_TYPE_AGE: Duration = Duration::from_hours(24);

/// What all clients of a process share.
pub(crate) struct Shared {
    pub(crate) timing: Timing,
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) owners: Owners,
    /// Ends every store.
    pub(crate) stop: CancellationToken,
    /// Receives the region of a store that died.
    pub(crate) died: watch::Sender<Option<String>>,
}

/// One identity in one region.
pub(crate) struct Client {
    pub(crate) region: String,
    api: Api,
    shared: Arc<Shared>,
    replacements: Arc<Replacements>,
    /// By the number of replacements before it.
    account: SharedAnswers<u64, String>,
    subnets: SharedAnswers<Query, Vec<Subnet>>,
    security_groups: SharedAnswers<Query, Vec<SecurityGroup>>,
    images: SharedAnswers<Query, Vec<Image>>,
    instance_types: SharedAnswers<String, InstanceType>,
    store: OnceLock<StoreHandle>,
    used: Mutex<Instant>,
}

impl Client {
    /// `replacements`: of the credentials that `api` signs with.
    pub(crate) fn new(region: &str, api: Api, replacements: Arc<Replacements>, shared: Arc<Shared>) -> Self {
        let timing = shared.timing;
        Self {
            region: region.to_owned(),
            api,
            shared,
            replacements,
            // Not for ever: whether the credentials are still accepted shows here.
            account: SharedAnswers::new(timing.launch_lookup_age, timing.resolve_retry),
            subnets: SharedAnswers::new(timing.lookup_cache, Duration::ZERO),
            security_groups: SharedAnswers::new(timing.lookup_cache, Duration::ZERO),
            images: SharedAnswers::new(timing.lookup_cache, Duration::ZERO),
            instance_types: SharedAnswers::new(INSTANCE_TYPE_AGE, Duration::ZERO),
            store: OnceLock::new(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// Notes that somebody asked for this client.
    pub(crate) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// Whether nobody asked for this client for `age` and no machine is followed with it.
    pub(crate) fn is_idle(&self, age: Duration) -> bool {
        lock(&self.used).elapsed() >= age
            && !self
                .follower()
                .is_some_and(|follower| follower.with(|store| store.is_watched()))
    }

    /// What its calls pass.
    pub(crate) fn gate(&self) -> &Gate {
        self.api.gate()
    }

    /// The store, once a machine used this client.
    pub(crate) fn follower(&self) -> Option<&Arc<Follower>> {
        self.store.get().map(|store| &store.follower)
    }

    /// Images, shared by all who ask with this client.
    async fn images(&self, api: &Api, query: &Query) -> Result<Vec<Image>, CloudError> {
        let (api, asked) = (api.clone(), query.clone());
        let ask = || async move { api.images(&asked).await }.boxed();
        self.images.get(query.clone(), ask).await
    }

    /// The account of the credentials, and how often these had been replaced when it was asked for. An answer never
    /// outlives the credentials that it was given to: whatever is signed with others must not count for their account.
    async fn account_id(&self, api: &Api) -> Result<(String, u64), CloudError> {
        for _ in 0..ACCOUNT_TRIES {
            let replaced = self.replacements.count();
            let api = api.clone();
            let ask = || async move { api.account_id().await }.boxed();
            let answer = self.account.get(replaced, ask).await;
            if self.replacements.count() == replaced {
                let account = answer?;
                self.api.gate().belongs_to(&account);
                return Ok((account, replaced));
            }
        }
        Err(CloudError::credentials_replaced("GetCallerIdentity"))
    }
}

/// A client as machine templates use it: reads only, all of them shared.
pub(crate) struct TemplateClient {
    client: Arc<Client>,
    api: Api,
}

impl TemplateClient {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let api = client.api.on_behalf_of("awsmachinetemplate");
        Self { client, api }
    }
}

#[async_trait]
impl TemplateCloud for TemplateClient {
    async fn instance_type(&self, name: &str) -> Result<InstanceType, CloudError> {
        let (api, asked) = (self.api.clone(), name.to_owned());
        let ask = || async move { one_instance_type(&api, &asked).await }.boxed();
        self.client.instance_types.get(name.to_owned(), ask).await
    }

    async fn image(&self, id: &str) -> Result<Image, CloudError> {
        let images = self.client.images(&self.api, &Query::filter("image-id", [id])).await?;
        let image = images.into_iter().find(|image| image.id == id);
        image.ok_or_else(|| CloudError::not_found("DescribeImages", format!("there is no image {id}")))
    }
}

/// Filters know wildcards, so an answer may show others too.
async fn one_instance_type(api: &Api, name: &str) -> Result<InstanceType, CloudError> {
    let shown = api.instance_types(&Query::filter("instance-type", [name])).await?;
    let shown = shown.into_iter().find(|instance_type| instance_type.name == name);
    let missing = || CloudError::not_found("DescribeInstanceTypes", format!("there is no instance type {name}"));
    shown.ok_or_else(missing)
}

/// A client as clusters use it: reads only, none of them shared.
pub(crate) struct ClusterClient {
    client: Arc<Client>,
    api: Api,
}

impl ClusterClient {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let api = client.api.on_behalf_of("awscluster");
        Self { client, api }
    }
}

#[async_trait]
impl ClusterCloud for ClusterClient {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, _) = self.client.account_id(&self.api).await?;
        Ok(account)
    }

    async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        self.api.vpcs(query).await
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.api.subnets(query).await
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.api.security_groups(query).await
    }

    async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.api.route_tables(query).await
    }

    async fn load_balancer(&self, name: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        self.api.load_balancer(name).await
    }

    async fn classic_load_balancer(&self, name: &str) -> Result<bool, CloudError> {
        self.api.classic_load_balancer(name).await
    }
}

/// A client as one pass over a machine uses it.
pub(crate) struct MachineClient {
    client: Arc<Client>,
    api: Api,
    follower: Arc<Follower>,
    /// How often the credentials had been replaced when the pass was told their account.
    account_at: Mutex<Option<u64>>,
}

impl MachineClient {
    /// Starts the client's store with the first machine that uses it.
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let api = client.api.on_behalf_of("awsmachine");
        let store = client.store.get_or_init(|| {
            let shared = &client.shared;
            StoreHandle::start(
                Arc::new(Follower::new(shared.timing, shared.wakes.clone())),
                Arc::new(api.clone()),
                shared.timing,
                client.region.clone(),
                shared.stop.child_token(),
                shared.died.clone(),
            )
        });
        let follower = store.follower.clone();
        Self {
            client,
            api,
            follower,
            account_at: Mutex::default(),
        }
    }

    fn watch(&self, machine: &MachineKey, id: &str) -> Observation {
        self.client.shared.owners.claim(machine, &self.follower);
        let replaced = self.client.replacements.count();
        self.follower.with(|store| {
            store.credentials_replaced(replaced);
            store.watch(machine, id)
        })
    }

    /// Fails once the credentials are others than those whose account the pass was told.
    fn check_credentials(&self, operation: &'static str) -> Result<(), CloudError> {
        match *lock(&self.account_at) {
            Some(replaced) if replaced != self.client.replacements.count() => {
                Err(CloudError::credentials_replaced(operation))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl MachineCloud for MachineClient {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, replaced) = self.client.account_id(&self.api).await?;
        *lock(&self.account_at) = Some(replaced);
        self.follower.with(|store| store.belongs_to(&account));
        Ok(account)
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        let (api, asked) = (self.api.clone(), query.clone());
        let ask = || async move { api.subnets(&asked).await }.boxed();
        self.client.subnets.get(query.clone(), ask).await
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        let (api, asked) = (self.api.clone(), query.clone());
        let ask = || async move { api.security_groups(&asked).await }.boxed();
        self.client.security_groups.get(query.clone(), ask).await
    }

    async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        self.client.images(&self.api, query).await
    }

    /// What is found also enters the store, so that an adopted instance is known at once.
    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let began = self.follower.with(Store::observe);
        let instances = self.api.instances(query).await?;
        // Of this call itself: it may have been the one that fetched new ones.
        self.check_credentials("DescribeInstances")?;
        self.follower.with(|store| store.observed(began, &instances));
        Ok(instances)
    }

    fn instance(&self, machine: &MachineKey, id: &str) -> Observation {
        self.watch(machine, id)
    }

    fn absence_age(&self, id: &str) -> Duration {
        let now = self.follower.now();
        self.follower.with(|store| store.absence_age(id, now))
    }

    fn reading_failure(&self) -> Option<CloudError> {
        self.follower.with(|store| store.reading_failure().cloned())
    }

    fn launch_turn(&self, machine: &MachineKey) -> Result<(), CloudError> {
        self.api.launch_turn(machine)
    }

    async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.check_credentials("RunInstances")?;
        let instance = self.api.launch(machine, request).await?;
        self.follower.with(|store| store.launched(&instance));
        self.watch(machine, &instance.id);
        Ok(instance)
    }

    async fn terminate(&self, machine: &MachineKey, id: &str) -> Result<(), CloudError> {
        self.client.shared.owners.claim(machine, &self.follower);
        let now = self.follower.now();
        self.follower.with(|store| store.terminate(machine, id, now))
    }

    fn targets(
        &self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[ControlPlaneTarget],
        desired: Desired,
    ) -> Vec<RegistrationState> {
        self.client.shared.owners.claim(machine, &self.follower);
        let (now, replaced) = (self.follower.now(), self.client.replacements.count());
        self.follower.with(|store| {
            store.credentials_replaced(replaced);
            store.want_targets(machine, instance, targets, desired, now)
        })
    }

    fn forget_targets(&self, machine: &MachineKey) {
        self.follower.with(|store| store.forget_targets(machine));
    }
}
