//! One account and region of AWS in memory, as clusters and machines see it.

mod targets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::MachineAddressType;
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_cloud::targets::{Desired, RegistrationState, TargetInstance};
use capa_cloud::{
    ApiLoadBalancer, CloudError, ClusterCloud, ClusterClouds, ControlPlaneTarget, Image, Instance, LaunchRequest,
    MachineAddress, MachineCloud, MachineClouds, MachineKey, Observation, Query, ResolvedIdentity, RouteTable,
    SecurityGroup, Subnet, Vpc,
};

use jiff::Timestamp;

use super::{Journal, lock};
use targets::{CLASSIC_LOAD_BALANCER, TargetRequest};

/// AWS in memory. Clones share everything but the client they stand for.
#[derive(Clone)]
pub(crate) struct FakeAws {
    journal: Journal,
    state: Arc<Mutex<State>>,
    /// Key of the identity that this client works for.
    client: String,
}

#[derive(Default)]
struct State {
    account_id: String,
    /// Clients that know their account.
    introduced: BTreeSet<String>,
    /// Regions that clients were made for, in order.
    regions: Vec<String>,
    vpcs: Vec<Vpc>,
    subnets: Vec<Subnet>,
    security_groups: Vec<SecurityGroup>,
    route_tables: Vec<RouteTable>,
    images: Vec<Image>,
    instances: BTreeMap<String, Instance>,
    launches: Vec<LaunchRequest>,
    /// Whether the store has ended its first listing.
    listed: bool,
    reading_failure: Option<CloudError>,
    forgotten: Vec<MachineKey>,
    launch_time: Option<Timestamp>,
    absence_age: Duration,
    /// What asking for a turn to launch answers, before it is always granted.
    launch_turns: VecDeque<CloudError>,
    failures: BTreeMap<&'static str, VecDeque<Failure>>,
    load_balancers: BTreeMap<String, ApiLoadBalancer>,
    /// The state of every instance in every target; as desired where absent.
    registration: Option<RegistrationState>,
    /// The requests about targets, in order.
    requests: Vec<TargetRequest>,
}

struct Failure {
    error: CloudError,
    /// Whether the call takes effect all the same.
    after_effect: bool,
}

impl FakeAws {
    pub(crate) fn new(journal: &Journal) -> Self {
        let state = State {
            account_id: "111122223333".into(),
            listed: true,
            reading_failure: None,
            ..State::default()
        };
        Self {
            journal: journal.clone(),
            state: Arc::new(Mutex::new(state)),
            client: String::new(),
        }
    }

    /// A VPC with a main route table without a way to the internet.
    pub(crate) fn vpc(&self, id: &str) {
        let mut state = self.state();
        state.vpcs.push(Vpc {
            id: id.into(),
            cidr_blocks: vec!["10.0.0.0/16".into()],
            ipv6_cidr_blocks: vec![],
        });
        state.route_tables.push(RouteTable {
            id: format!("rtb-main-{id}"),
            vpc_id: id.into(),
            main: true,
            subnet_ids: vec![],
            internet_gateway_route: false,
        });
    }

    pub(crate) fn subnet(&self, id: &str, vpc_id: &str, zone: &str) {
        self.state().subnets.push(Subnet {
            id: id.into(),
            vpc_id: vpc_id.into(),
            availability_zone: zone.into(),
            ipv6: false,
        });
    }

    pub(crate) fn security_group(&self, id: &str, vpc_id: &str) {
        self.state().security_groups.push(SecurityGroup {
            id: id.into(),
            vpc_id: vpc_id.into(),
        });
    }

    /// Lets the subnets of a VPC that have no route table of their own reach the internet, or not.
    pub(crate) fn main_route_to_internet(&self, vpc_id: &str, leads: bool) {
        let mut state = self.state();
        let main = state
            .route_tables
            .iter_mut()
            .find(|table| table.main && table.vpc_id == vpc_id);
        main.unwrap().internet_gateway_route = leads;
    }

    /// Gives a subnet a route table of its own.
    pub(crate) fn own_route_table(&self, subnet_id: &str, vpc_id: &str, internet_gateway_route: bool) {
        self.state().route_tables.push(RouteTable {
            id: format!("rtb-{subnet_id}"),
            vpc_id: vpc_id.into(),
            main: false,
            subnet_ids: vec![subnet_id.into()],
            internet_gateway_route,
        });
    }

    pub(crate) fn image(&self, id: &str, root_device_name: Option<&str>) {
        self.state().images.push(Image {
            id: id.into(),
            root_device_name: root_device_name.map(str::to_owned),
            architecture: Some("x86_64".to_owned()),
            windows: false,
        });
    }

    pub(crate) fn set_account(&self, account_id: &str) {
        let mut state = self.state();
        state.account_id = account_id.into();
        state.introduced.clear();
    }

    pub(crate) fn put_instance(&self, instance: Instance) {
        self.state().instances.insert(instance.id.clone(), instance);
    }

    pub(crate) fn remove_instance(&self, id: &str) {
        self.state().instances.remove(id);
    }

    /// Says that EC2 accepted the launch of an instance at the beginning of time.
    pub(crate) fn set_launch_time(&self, id: &str) {
        self.state().instances.get_mut(id).unwrap().launch_time = Some(Timestamp::UNIX_EPOCH);
    }

    /// Says how long ago the store looked in vain for what it says is absent.
    pub(crate) fn set_absence_age(&self, age: Duration) {
        self.state().absence_age = age;
    }

    /// Says when EC2 will have accepted the launches to come.
    pub(crate) fn launch_at(&self, at: Timestamp) {
        self.state().launch_time = Some(at);
    }

    /// Takes all tags off an instance.
    pub(crate) fn untag(&self, id: &str) {
        self.state().instances.get_mut(id).unwrap().tags.clear();
    }

    pub(crate) fn set_instance_state(&self, id: &str, instance_state: InstanceState) {
        let mut state = self.state();
        state.instances.get_mut(id).unwrap().state = instance_state;
    }

    pub(crate) fn set_address(&self, id: &str, address: &str) {
        let mut state = self.state();
        state.instances.get_mut(id).unwrap().addresses = vec![MachineAddress {
            address_type: MachineAddressType::InternalIP,
            address: address.to_owned(),
        }];
    }

    /// Says whether the store has ended its first listing; until then it knows nothing of any instance.
    pub(crate) fn set_listed(&self, listed: bool) {
        self.state().listed = listed;
    }

    /// Has no listing end from here on.
    pub(crate) fn refuse_listings(&self, error: CloudError) {
        let mut state = self.state();
        state.listed = false;
        state.reading_failure = Some(error);
    }

    /// Has no read succeed from here on; what was seen before stays known.
    pub(crate) fn fail_reading(&self, error: CloudError) {
        self.state().reading_failure = Some(error);
    }

    /// Has the next machine that asks for its turn to launch wait for it.
    pub(crate) fn defer_launch(&self, wait: Duration) {
        let mut state = self.state();
        state.launch_turns.push_back(CloudError::deferred("RunInstances", wait));
    }

    /// Makes the next call of that action fail without effect.
    pub(crate) fn fail_next(&self, action: &'static str, error: CloudError) {
        self.push_failure(action, error, false);
    }

    /// Makes the next call of that action take effect and its answer get lost.
    pub(crate) fn lose_next_answer(&self, action: &'static str) {
        self.push_failure(action, unanswered(action), true);
    }

    /// Every launch that was asked for, whatever became of it.
    pub(crate) fn launches(&self) -> Vec<LaunchRequest> {
        self.state().launches.clone()
    }

    /// Ids of the instances there are.
    pub(crate) fn instance_ids(&self) -> Vec<String> {
        self.state().instances.keys().cloned().collect()
    }

    /// Regions that clients were made for.
    pub(crate) fn regions(&self) -> Vec<String> {
        self.state().regions.clone()
    }

    /// Machines whose stores were told to forget them.
    pub(crate) fn forgotten(&self) -> Vec<MachineKey> {
        self.state().forgotten.clone()
    }

    fn push_failure(&self, action: &'static str, error: CloudError, after_effect: bool) {
        let mut state = self.state();
        let queue = state.failures.entry(action).or_default();
        queue.push_back(Failure { error, after_effect });
    }

    /// Notes a call, makes it unless it is to fail before, and answers.
    fn call<T>(&self, action: &'static str, effect: impl FnOnce(&mut State) -> T) -> Result<T, CloudError> {
        self.journal.note(action);
        let mut state = self.state();
        let failure = state.failures.get_mut(action).and_then(VecDeque::pop_front);
        match failure {
            None => Ok(effect(&mut state)),
            Some(Failure { error, after_effect }) => {
                if after_effect {
                    effect(&mut state);
                }
                Err(error)
            }
        }
    }

    fn client_for(&self, identity: &ResolvedIdentity, region: &str) -> Self {
        self.state().regions.push(region.to_owned());
        Self {
            client: format!("{} in {region}", identity.key),
            ..self.clone()
        }
    }

    fn account(&self) -> Result<String, CloudError> {
        let state = self.state();
        if state.introduced.contains(&self.client) {
            return Ok(state.account_id.clone());
        }
        drop(state);
        self.call("GetCallerIdentity", |state| {
            state.introduced.insert(self.client.clone());
            state.account_id.clone()
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// An instance with the tags that identify its machine.
pub(crate) fn instance(id: &str, state: InstanceState, cluster: &str, machine_name_tag: &str) -> Instance {
    Instance {
        id: id.into(),
        state,
        state_reason: None,
        availability_zone: "eu-west-1a".into(),
        subnet_id: Some("subnet-0000000a".into()),
        client_token: None,
        launch_time: None,
        addresses: vec![],
        tags: BTreeMap::from([
            (meta::cluster_tag(cluster), meta::OWNED_TAG_VALUE.to_owned()),
            (meta::MACHINE_NAME_TAG.to_owned(), machine_name_tag.to_owned()),
        ]),
    }
}

/// A call that AWS refuses with this code.
pub(crate) fn refused(action: &'static str, code: &str) -> CloudError {
    CloudError::answered(action, code, "refused for the test")
}

/// A call without an answer.
pub(crate) fn unanswered(action: &'static str) -> CloudError {
    CloudError::no_answer(action, "no answer in time")
}

fn matches(query: &Query, value_of: impl Fn(&str) -> Option<String>) -> bool {
    query
        .filters
        .iter()
        .all(|(name, values)| value_of(name).is_some_and(|value| values.contains(&value)))
}

fn matching<T: Clone>(things: &[T], query: &Query, value_of: impl Fn(&T, &str) -> Option<String>) -> Vec<T> {
    let found = things
        .iter()
        .filter(|thing| matches(query, |name| value_of(thing, name)));
    found.cloned().collect()
}

impl FakeAws {
    fn find_subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.call("DescribeSubnets", |state| {
            matching(&state.subnets, query, |subnet, name| match name {
                "subnet-id" => Some(subnet.id.clone()),
                "vpc-id" => Some(subnet.vpc_id.clone()),
                "availability-zone" => Some(subnet.availability_zone.clone()),
                _ => None,
            })
        })
    }

    fn find_security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.call("DescribeSecurityGroups", |state| {
            matching(&state.security_groups, query, |group, name| match name {
                "group-id" => Some(group.id.clone()),
                "vpc-id" => Some(group.vpc_id.clone()),
                _ => None,
            })
        })
    }
}

#[async_trait]
impl ClusterCloud for FakeAws {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.account()
    }

    async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        self.call("DescribeVpcs", |state| {
            matching(&state.vpcs, query, |vpc, _| Some(vpc.id.clone()))
        })
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.find_subnets(query)
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.find_security_groups(query)
    }

    async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.call("DescribeRouteTables", |state| {
            matching(&state.route_tables, query, |table, _| Some(table.vpc_id.clone()))
        })
    }

    async fn load_balancer(&self, name: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        self.call("DescribeLoadBalancers", |state| state.load_balancers.get(name).cloned())
    }

    async fn classic_load_balancer(&self, name: &str) -> Result<bool, CloudError> {
        self.call("DescribeLoadBalancers", |_| name == CLASSIC_LOAD_BALANCER)
    }
}

#[async_trait]
impl MachineCloud for FakeAws {
    async fn account_id(&self) -> Result<String, CloudError> {
        self.account()
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.find_subnets(query)
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.find_security_groups(query)
    }

    async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        self.call("DescribeImages", |state| {
            matching(&state.images, query, |image, _| Some(image.id.clone()))
        })
    }

    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        self.call("DescribeInstances", |state| {
            let all: Vec<Instance> = state.instances.values().cloned().collect();
            matching(&all, query, |instance, name| match name {
                "client-token" => instance.client_token.clone(),
                _ => instance.tags.get(name.strip_prefix("tag:")?).cloned(),
            })
        })
    }

    fn observe_instance(&self, _: &MachineKey, id: &str) -> Observation {
        let state = self.state();
        match state.instances.get(id) {
            _ if !state.listed => Observation::Unknown,
            Some(instance) => Observation::Seen(Arc::new(instance.clone())),
            None => Observation::Absent,
        }
    }

    fn absence_age(&self, _: &str) -> Duration {
        self.state().absence_age
    }

    fn reading_failure(&self) -> Option<CloudError> {
        self.state().reading_failure.clone()
    }

    fn reserve_launch(&self, _: &MachineKey) -> Result<(), CloudError> {
        self.state().launch_turns.pop_front().map_or(Ok(()), Err)
    }

    async fn launch(&self, _: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.state().launches.push(request.clone());
        self.call("RunInstances", |state| state.run(request))
    }

    async fn terminate(&self, _: &MachineKey, id: &str) -> Result<(), CloudError> {
        self.call("TerminateInstances", |state| {
            if let Some(instance) = state.instances.get_mut(id) {
                instance.state = InstanceState::ShuttingDown;
            }
        })
    }

    fn reconcile_targets(
        &self,
        _: &MachineKey,
        instance: &TargetInstance,
        targets: &[ControlPlaneTarget],
        desired: Desired,
    ) -> Vec<RegistrationState> {
        self.registration_states(instance, targets, desired)
    }

    fn forget_targets(&self, _: &MachineKey) {}
}

impl State {
    /// A token launches once; its zone is the subnet's.
    fn run(&mut self, request: &LaunchRequest) -> Instance {
        let token = Some(request.client_token.clone());
        if let Some(launched) = self.instances.values().find(|instance| instance.client_token == token) {
            return launched.clone();
        }
        let zone = self.subnets.iter().find(|subnet| subnet.id == request.subnet_id);
        let launched = Instance {
            availability_zone: zone.map_or("eu-west-1a", |subnet| &subnet.availability_zone).into(),
            subnet_id: Some(request.subnet_id.clone()),
            client_token: token,
            launch_time: self.launch_time,
            tags: request.tags.clone(),
            ..instance(
                &format!("i-{:017x}", self.instances.len() + 1),
                InstanceState::Pending,
                "",
                "",
            )
        };
        self.instances.insert(launched.id.clone(), launched.clone());
        launched
    }
}

#[async_trait]
impl ClusterClouds for FakeAws {
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud> {
        Arc::new(self.client_for(identity, region))
    }
}

#[async_trait]
impl MachineClouds for FakeAws {
    fn machines(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn MachineCloud> {
        Arc::new(self.client_for(identity, region))
    }

    fn forget(&self, machine: &MachineKey) {
        self.state().forgotten.push(machine.clone());
    }
}
