//! AWS as the reconcilers of one process see it: the shipped instance store in front of the simulated EC2.

mod cluster;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::meta::ROLE_TAG;
use capa_cloud::limits::{Caller, Limiter, Priority, Share, Turn};
use capa_cloud::store::{Batch, Call as StoreCall, Store};
use capa_cloud::targets::{Desired, GroupAnswer, GroupCall, RegistrationState, TargetInstance};
use capa_cloud::{
    CloudError, ClusterCloud, ClusterClouds, ControlPlaneTarget, ErrorClass, Image, Instance, InstanceState,
    LaunchRequest, MachineCloud, MachineClouds, MachineKey, Observation, Query, ResolvedIdentity, SecurityGroup,
    Subnet, Timing,
};
use jiff::Timestamp;

use crate::aws::Aws;
use crate::calls::{Action, Failure, View};
use crate::manager::Manager;
use crate::outside::{Outside, after, since_start};

/// Identity and region.
pub(crate) type ClientKey = (String, String);

/// How long an answered account is believed, and for how long a refused question is not repeated, as in the adapter.
const ACCOUNT_AGE: Duration = Duration::from_secs(600);
const ACCOUNT_RETRY: Duration = Duration::from_secs(5);
const ACCOUNT_TRIES: usize = 3;

/// The clients of one process.
#[derive(Default)]
pub(crate) struct Clouds {
    clients: BTreeMap<ClientKey, Cloud>,
    /// Which client's store follows a machine.
    owners: BTreeMap<MachineKey, ClientKey>,
    /// The rates of an account, or of an identity while its account is not known.
    limiters: BTreeMap<String, Limiter>,
}

struct Cloud {
    store: Store,
    account: Option<Account>,
    /// Whose rates hold.
    limiter: Option<String>,
}

/// The answer to the question for the account.
#[derive(Clone)]
struct Account {
    asked_at: Timestamp,
    /// How often the credentials had been replaced then.
    replaced: u64,
    answer: Result<String, CloudError>,
}

impl Default for Cloud {
    fn default() -> Self {
        Self {
            store: Store::new(Timing::default()),
            account: None,
            limiter: None,
        }
    }
}

/// What a store wants done.
#[derive(Clone)]
pub(crate) enum StoreWork {
    /// A question.
    Ask(StoreCall),
    /// A batch of terminations.
    Terminate(Batch),
    /// A call about load balancer targets.
    Targets(GroupCall),
}

/// The answer to it.
pub(crate) enum StoreAnswer {
    Shown(Result<Vec<Instance>, CloudError>),
    Terminated(Result<Vec<(String, InstanceState)>, CloudError>),
    Targets(Result<GroupAnswer, CloudError>),
}

impl Clouds {
    /// What the stores want done now.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Vec<(ClientKey, StoreWork)> {
        let now = since_start(now);
        let mut begun = Vec::new();
        for (key, cloud) in &mut self.clients {
            while let Some(call) = cloud.store.begin(now) {
                begun.push((key.clone(), StoreWork::Ask(call)));
            }
            while let Some(batch) = cloud.store.begin_termination(now) {
                begun.push((key.clone(), StoreWork::Terminate(batch)));
            }
            while let Some(call) = cloud.store.begin_target_call(now) {
                begun.push((key.clone(), StoreWork::Targets(call)));
            }
        }
        begun
    }

    /// When a store will want something done, counted from the beginning of the history.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.clients.values().filter_map(|cloud| cloud.store.next_due()).min()
    }

    pub(crate) fn ended(&mut self, key: &ClientKey, work: StoreWork, answer: StoreAnswer, now: Timestamp) {
        let store = &mut self.client(key).store;
        match (work, answer) {
            (StoreWork::Ask(call), StoreAnswer::Shown(answer)) => drop(store.ended(call, answer, since_start(now))),
            (StoreWork::Terminate(batch), StoreAnswer::Terminated(answer)) => store.terminated(batch, answer),
            (StoreWork::Targets(call), StoreAnswer::Targets(answer)) => {
                store.target_call_ended(&call, answer, since_start(now));
            }
            (StoreWork::Ask(_) | StoreWork::Terminate(_) | StoreWork::Targets(_), _) => {}
        }
    }

    /// The machines to wake since the last time.
    pub(crate) fn take_woken(&mut self) -> BTreeSet<MachineKey> {
        self.clients
            .values_mut()
            .flat_map(|cloud| cloud.store.take_woken())
            .collect()
    }

    fn client(&mut self, key: &ClientKey) -> &mut Cloud {
        self.clients.entry(key.clone()).or_default()
    }

    fn limiter(&mut self, key: &ClientKey) -> &mut Limiter {
        let name = self.client(key).limiter.clone();
        let name = name.unwrap_or_else(|| format!("identity {}", key.0));
        self.limiters
            .entry(name)
            .or_insert_with(|| Limiter::new(Share::default()))
    }

    /// A machine whose identity changed moves to the store of the new one.
    fn follow(&mut self, key: &ClientKey, machine: &MachineKey) -> &mut Store {
        let before = self.owners.insert(machine.clone(), key.clone());
        if let Some(other) = before.filter(|before| before != key) {
            self.client(&other).store.forget(machine);
        }
        &mut self.client(key).store
    }

    fn forget(&mut self, machine: &MachineKey) {
        if let Some(owner) = self.owners.remove(machine) {
            self.client(&owner).store.forget(machine);
        }
        for limiter in self.limiters.values_mut() {
            limiter.forget(&Caller::Machine(machine.clone()));
        }
    }
}

/// Makes a store's calls, which wait for their turn.
pub(crate) async fn perform(manager: Manager, key: ClientKey, work: StoreWork) -> StoreAnswer {
    let client = CloudClient::with_key(manager, key);
    match work {
        StoreWork::Ask(call) => {
            let query = match call {
                StoreCall::List { .. } => Query::filter("tag-key", [ROLE_TAG]),
                StoreCall::Look { ids, .. } => Query::filter("instance-id", ids),
            };
            client
                .wait(&Turn::describe("DescribeInstances", &query, Priority::Describe))
                .await;
            StoreAnswer::Shown(client.instances(query).await)
        }
        StoreWork::Terminate(batch) => {
            let ids = batch.ids().to_vec();
            let turn = Turn {
                action: "TerminateInstances",
                caller: Caller::Task(ids.join(" ")),
                priority: Priority::Terminate,
                instances: ids.len() as u64,
            };
            client.wait(&turn).await;
            StoreAnswer::Terminated(client.terminate_all(ids).await)
        }
        StoreWork::Targets(call) => {
            client.wait(&call.turn()).await;
            StoreAnswer::Targets(client.group_call(call).await)
        }
    }
}

fn describe_query(query: &Query) -> String {
    let filters = query
        .filters
        .iter()
        .map(|(name, values)| format!("{name}={}", values.join(",")));
    filters.collect::<Vec<_>>().join(" ")
}

/// A client of one identity in one region, as one pass uses it.
struct CloudClient {
    manager: Manager,
    key: ClientKey,
    /// How often the credentials had been replaced when the pass was told their account.
    account_at: Mutex<Option<u64>>,
}

impl CloudClient {
    fn new(manager: &Manager, identity: &ResolvedIdentity, region: &str) -> Self {
        Self::with_key(manager.clone(), (identity.key.clone(), region.to_owned()))
    }

    fn with_key(manager: Manager, key: ClientKey) -> Self {
        Self {
            manager,
            key,
            account_at: Mutex::default(),
        }
    }

    /// Fails once the credentials are others than those whose account the pass was told.
    fn check_credentials(&self, operation: &'static str) -> Result<(), CloudError> {
        let replacements = self.manager.state().replacements;
        let account_at = *self.account_at.lock().unwrap_or_else(PoisonError::into_inner);
        match account_at {
            Some(replaced) if replaced != replacements => Err(CloudError::credentials_replaced(operation)),
            _ => Ok(()),
        }
    }

    /// Once another process has taken the lease this one begins no such write any more.
    async fn lead(&self) {
        let overtaken = self.manager.state().overtaken;
        if overtaken {
            std::future::pending::<()>().await;
        }
    }

    /// Takes a turn, or says when it comes.
    fn pass(&self, turn: &Turn) -> Result<(), CloudError> {
        let mut state = self.manager.state();
        let now = since_start(state.now);
        let taken = state.clouds.limiter(&self.key).take(turn, now);
        taken.map_err(|wait| CloudError::deferred(turn.action, wait))
    }

    async fn wait(&self, turn: &Turn) {
        while let Err(error) = self.pass(turn) {
            let wait = error.retry_after.unwrap_or_default();
            self.manager.mailbox.sleep(wait).await;
        }
    }

    /// Makes a call; a throttle slows down those that follow.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        writes: bool,
        about: String,
        effect: impl FnOnce(&mut Outside, View) -> Result<T, CloudError> + Send + 'static,
    ) -> Result<T, CloudError> {
        let began = self.manager.state().now;
        let action = Action::aws(operation, writes);
        let key = self.manager.state().access_key;
        let effect = move |outside: &mut Outside, view| {
            if outside.aws.unreachable_until.is_some_and(|until| outside.now < until) {
                return Err(CloudError::no_answer(operation, "connection refused"));
            }
            outside.aws.used_key = key;
            let answer = effect(outside, view);
            if answer.as_ref().is_err_and(|error| error.class == ErrorClass::Throttled) {
                outside.aws.throttled += 1;
            }
            answer
        };
        let answer = match self.manager.mailbox.ask(action, about, effect).await {
            Ok(answer) => answer,
            Err(Failure::NoAnswer) => Err(CloudError::no_answer(operation, "no answer in time")),
            Err(Failure::Throttled) => {
                let message = "Request limit exceeded.";
                Err(CloudError::answered(operation, "RequestLimitExceeded", message))
            }
            Err(Failure::Refused(code)) => Err(CloudError::answered(operation, code, "refused")),
        };
        let throttled = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Throttled);
        if throttled {
            let mut state = self.manager.state();
            let now = since_start(state.now);
            let limiter = state.clouds.limiter(&self.key);
            limiter.throttled(operation, since_start(began), now);
        }
        answer
    }

    async fn account(&self) -> Result<String, CloudError> {
        for _ in 0..ACCOUNT_TRIES {
            let account = self.asked_account().await;
            if self.manager.state().replacements == account.replaced {
                *self.account_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(account.replaced);
                return account.answer;
            }
        }
        Err(CloudError::credentials_replaced("GetCallerIdentity"))
    }

    async fn asked_account(&self) -> Account {
        let (now, replaced, known) = {
            let mut state = self.manager.state();
            let known = state.clouds.client(&self.key).account.clone();
            (state.now, state.replacements, known)
        };
        if let Some(known) = known.filter(|known| known.replaced == replaced) {
            let age = if known.answer.is_ok() {
                ACCOUNT_AGE
            } else {
                ACCOUNT_RETRY
            };
            if now < after(known.asked_at, age) {
                return known;
            }
        }
        let answer = self
            .call("GetCallerIdentity", false, String::new(), |outside, _| {
                outside.aws.manager().account_id()
            })
            .await;
        let account = Account {
            asked_at: now,
            replaced,
            answer,
        };
        let mut state = self.manager.state();
        let client = state.clouds.client(&self.key);
        client.account = Some(account.clone());
        if let Ok(id) = &account.answer {
            client.limiter = Some(format!("account {id}"));
        }
        account
    }

    async fn instances(&self, query: Query) -> Result<Vec<Instance>, CloudError> {
        let about = describe_query(&query);
        self.call("DescribeInstances", false, about, move |outside, view| {
            outside.aws.describe(outside.now, &query, view)
        })
        .await
    }

    async fn terminate_all(&self, ids: Vec<String>) -> Result<Vec<(String, InstanceState)>, CloudError> {
        self.lead().await;
        let changes = self
            .call("TerminateInstances", true, ids.join(" "), move |outside, _| {
                outside.aws.manager().terminate_instances(outside.now, &ids)
            })
            .await?;
        let states = changes.into_iter().map(|change| (change.instance_id, change.current));
        Ok(states.collect())
    }

    /// A describe of infrastructure.
    async fn lookup<T: Send + 'static>(
        &self,
        operation: &'static str,
        query: &Query,
        ask: fn(&mut Aws, Timestamp, &Query) -> Result<Vec<T>, CloudError>,
    ) -> Result<Vec<T>, CloudError> {
        self.pass(&Turn::describe(operation, query, Priority::Describe))?;
        let (about, query) = (describe_query(query), query.clone());
        self.call(operation, false, about, move |outside, _| {
            ask(&mut outside.aws, outside.now, &query)
        })
        .await
    }
}

#[async_trait]
impl MachineCloud for CloudClient {
    async fn account_id(&self) -> Result<String, CloudError> {
        let account = self.account().await?;
        let mut state = self.manager.state();
        state.clouds.client(&self.key).store.belongs_to(&account);
        Ok(account)
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.lookup("DescribeSubnets", query, |aws, now, query| {
            aws.manager().describe_subnets(now, query)
        })
        .await
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.lookup("DescribeSecurityGroups", query, |aws, now, query| {
            aws.manager().describe_security_groups(now, query)
        })
        .await
    }

    async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        self.lookup("DescribeImages", query, |aws, now, query| {
            aws.manager().describe_images(now, query)
        })
        .await
    }

    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let began = self.manager.state().clouds.client(&self.key).store.observe();
        let turn = Turn::describe("DescribeInstances", query, Priority::Launch);
        if query.filters.iter().any(|(name, _)| name == "client-token") {
            // It goes on with a lookup by tags.
            let mut state = self.manager.state();
            let now = since_start(state.now);
            state.clouds.limiter(&self.key).go_on(turn.action, now);
        } else {
            self.pass(&turn)?;
        }
        let found = self.instances(query.clone()).await?;
        self.check_credentials("DescribeInstances")?;
        let mut state = self.manager.state();
        state.clouds.client(&self.key).store.observed(began, &found);
        Ok(found)
    }

    fn instance(&self, machine: &MachineKey, id: &str) -> Observation {
        let mut state = self.manager.state();
        let replacements = state.replacements;
        let store = state.clouds.follow(&self.key, machine);
        store.credentials_replaced(replacements);
        store.watch(machine, id)
    }

    fn absence_age(&self, id: &str) -> Duration {
        let mut state = self.manager.state();
        let now = since_start(state.now);
        state.clouds.client(&self.key).store.absence_age(id, now)
    }

    fn reading_failure(&self) -> Option<CloudError> {
        let mut state = self.manager.state();
        state.clouds.client(&self.key).store.reading_failure().cloned()
    }

    fn launch_turn(&self, machine: &MachineKey) -> Result<(), CloudError> {
        let mut state = self.manager.state();
        let now = since_start(state.now);
        let asked = state.clouds.limiter(&self.key).turn(&Turn::launch(machine), now);
        asked.map_err(|wait| CloudError::deferred("RunInstances", wait))
    }

    async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.check_credentials("RunInstances")?;
        self.pass(&Turn::launch(machine))?;
        let request = request.clone();
        let about = format!("token={} subnet={}", request.client_token, request.subnet_id);
        let instance = self
            .call("RunInstances", true, about, move |outside, _| {
                outside.aws.launches.push(request.clone());
                outside.aws.manager().run_instances(outside.now, &request)
            })
            .await?;
        let mut state = self.manager.state();
        let store = state.clouds.follow(&self.key, machine);
        store.launched(&instance);
        store.watch(machine, &instance.id);
        Ok(instance)
    }

    async fn terminate(&self, machine: &MachineKey, id: &str) -> Result<(), CloudError> {
        let mut state = self.manager.state();
        let now = since_start(state.now);
        state.clouds.follow(&self.key, machine).terminate(machine, id, now)
    }

    fn targets(
        &self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[ControlPlaneTarget],
        desired: Desired,
    ) -> Vec<RegistrationState> {
        let mut state = self.manager.state();
        let now = since_start(state.now);
        let store = state.clouds.follow(&self.key, machine);
        store.want_targets(machine, instance, targets, desired, now)
    }

    fn forget_targets(&self, machine: &MachineKey) {
        let mut state = self.manager.state();
        state.clouds.follow(&self.key, machine).forget_targets(machine);
    }
}

#[async_trait]
impl ClusterClouds for Manager {
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud> {
        Arc::new(CloudClient::new(self, identity, region))
    }
}

#[async_trait]
impl MachineClouds for Manager {
    fn machines(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn MachineCloud> {
        Arc::new(CloudClient::new(self, identity, region))
    }

    fn forget(&self, machine: &MachineKey) {
        self.state().clouds.forget(machine);
    }
}
