//! AWS as the histories find it: one account with a network of three zones, another that is empty, foreign instances.

use std::collections::BTreeSet;
use std::time::Duration;

use capa_api::meta;
use capa_cloud::elb::{AddressFamily, TargetType};
use capa_cloud::targets::{Group, GroupCall, GroupRequest, Target};
use capa_cloud::{CloudError, Instance, LaunchRequest, Query, StoredSecret};
use capa_fake_aws::Behaviour;
use capa_fake_aws::machines::{
    Accounts, AllocatedAddress, AllocatedHost, Client, LaunchedInstance, Region, plain_launch,
};
use jiff::{SignedDuration, Timestamp};

use crate::management_cluster::ManagementCluster;
use crate::time::after;

/// How fresh what a read shows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Current,
    Stale,
}

/// The region of everything.
pub(crate) const REGION: &str = "eu-west-1";
/// The account of the cluster.
pub(crate) const ACCOUNT: &str = "111122223333";
/// The bucket for bootstrap data. Every account may use it.
pub(crate) const BUCKET: &str = "bootstrap";
/// An account in which the cluster has nothing.
pub(crate) const OTHER_ACCOUNT: &str = "444455556666";
/// The managers' access key.
pub(crate) const MANAGER_KEY: &str = "AKIAMANAGER";
/// A key of the other account, which the managers may be given by mistake.
pub(crate) const MISTAKEN_KEY: &str = "AKIAMISTAKEN";
/// The access key of the managers of the neighbouring management cluster.
pub(crate) const NEIGHBOUR_KEY: &str = "AKIANEIGHBOUR";
/// The user's access key.
pub(crate) const USER_KEY: &str = "AKIAUSER";
/// The zones, each with a subnet.
pub(crate) const ZONES: [(&str, &str); 3] =
    [("subnet-0000000a", "eu-west-1a"), ("subnet-0000000b", "eu-west-1b"), ("subnet-0000000c", "eu-west-1c")];
/// The VPC.
pub(crate) const VPC: &str = "vpc-00000001";
/// The group that machines get.
pub(crate) const GROUP: &str = "sg-0000000a";
/// Another group of the VPC.
pub(crate) const OTHER_GROUP: &str = "sg-0000000b";
/// The type of every machine.
pub(crate) const INSTANCE_TYPE: &str = "t3.large";
/// The image of every machine.
pub(crate) const IMAGE: &str = "ami-00000001";

/// A target group of instances.
pub(crate) const FIRST_GROUP: &str =
    "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0000000000000001";

/// The targets of control planes, with how long theirs drain: instances, and addresses for longer than is waited for.
pub(crate) const TARGET_GROUPS: [(&str, TargetType, Duration); 2] = [
    (FIRST_GROUP, TargetType::Instance, Duration::from_secs(60)),
    (
        "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/addresses/0000000000000002",
        TargetType::Ip(AddressFamily::Ipv4),
        Duration::from_secs(400),
    ),
];

/// How far back a stale describe lies.
const STALENESS: SignedDuration = SignedDuration::from_secs(45);

/// All of AWS.
pub(crate) struct Aws {
    pub(crate) accounts: Accounts,
    /// AWS answers no call: since when, and until when.
    unreachable: Option<(Timestamp, Timestamp)>,
    /// A machine whose instance no listing shows, and until when. A lookup by id shows it.
    pub(crate) overlooked: Option<(String, Timestamp)>,
    /// Instances of the user that are to serve in a load balancer, and those that were brought in.
    pub(crate) serving: Vec<String>,
    served: BTreeSet<String>,
    /// How many calls EC2's limits have turned away.
    pub(crate) throttled: usize,
    /// How long EC2 remembers the token of a launch.
    token_memory: Duration,
}

impl Aws {
    pub(crate) fn new() -> Self {
        let mut accounts = Accounts::new();
        accounts.issue_key(MANAGER_KEY, ACCOUNT);
        accounts.issue_key(MISTAKEN_KEY, OTHER_ACCOUNT);
        accounts.issue_key(NEIGHBOUR_KEY, ACCOUNT);
        accounts.issue_key(USER_KEY, ACCOUNT);
        accounts.account(OTHER_ACCOUNT).region(REGION).put_bucket(BUCKET);
        let region = accounts.account(ACCOUNT).region(REGION);
        region.vpc(VPC, "10.0.0.0/16");
        region.security_group(GROUP, VPC, "nodes");
        region.security_group(OTHER_GROUP, VPC, "more");
        region.image(IMAGE, "/dev/xvda");
        region.put_bucket(BUCKET);
        for (subnet, zone) in ZONES {
            region.subnet(subnet, VPC, zone);
        }
        for (arn, kind, delay) in TARGET_GROUPS {
            region.network().put_group(&Group::TargetGroup(arn.to_owned()), kind, delay);
        }
        Self {
            accounts,
            unreachable: None,
            overlooked: None,
            serving: Vec::new(),
            served: BTreeSet::new(),
            throttled: 0,
            token_memory: Behaviour::default().token_memory,
        }
    }

    /// AWS answers no call until `end`.
    pub(crate) fn lose(&mut self, now: Timestamp, end: Timestamp) {
        let since = self.unreachable.filter(|(_, until)| now < *until);
        self.unreachable = Some((since.map_or(now, |(since, _)| since), end));
    }

    /// The time until which AWS answers no call.
    pub(crate) fn unreachable_until(&self) -> Option<Timestamp> {
        self.unreachable.map(|(_, until)| until)
    }

    /// Whether AWS has answered no call for at least so long.
    pub(crate) fn was_unreachable_for(&self, long: Duration, now: Timestamp) -> bool {
        self.unreachable.is_some_and(|(since, until)| after(since, long) <= now && now < until)
    }

    /// EC2 forgets the token of a launch after so long.
    pub(crate) fn forget_tokens_after(&mut self, long: Duration) {
        self.token_memory = long;
        self.region().behaviour().token_memory = long;
    }

    /// Whether EC2 still remembers the token that an instance was launched with.
    pub(crate) fn remembers_token(&self, now: Timestamp, instance: &LaunchedInstance) -> bool {
        now < after(instance.launched_at, self.token_memory)
    }

    pub(crate) fn region(&mut self) -> &mut Region {
        self.accounts.account(ACCOUNT).region(REGION)
    }

    /// Makes a call as a manager with this key. DescribeInstances shows it, where the view is stale, what was to be
    /// seen a while ago, and a listing misses one instance besides, as one does whose pages shift while it is read.
    pub(crate) fn as_manager<T>(
        &mut self,
        key: &'static str,
        now: Timestamp,
        view: View,
        call: impl FnOnce(&mut Client<'_>) -> T,
    ) -> T {
        let Self { accounts, overlooked, .. } = self;
        let overlooked = overlooked.as_ref().filter(|(_, until)| now < *until);
        let omission = |query: &Query, shown: &mut Vec<Instance>| {
            if !query.filters.iter().any(|(name, _)| name == "tag-key") {
                return;
            }
            if view == View::Stale && !shown.is_empty() {
                shown.remove(0);
            }
            if let Some((machine, _)) = overlooked {
                shown.retain(|instance| instance.tags.get(meta::MACHINE_NAME_TAG) != Some(machine));
            }
        };
        let client = accounts.client(key, REGION).omitting(&omission);
        let mut client = match view {
            View::Current => client,
            View::Stale => client.as_of(now.saturating_sub(STALENESS).unwrap_or(now)),
        };
        call(&mut client)
    }

    /// Calls as the user makes them.
    pub(crate) fn user(&mut self) -> Client<'_> {
        self.accounts.client(USER_KEY, REGION)
    }

    /// The requests of the managers to RunInstances since the last call of this function.
    pub(crate) fn take_launch_requests(&mut self) -> impl Iterator<Item = (ManagementCluster, LaunchRequest)> {
        let requests = self.accounts.take_launch_requests().into_iter();
        requests.filter_map(|(key, request)| Some((cluster_of_key(&key)?, request)))
    }

    /// Instances that the managers of all management clusters have launched and that live.
    pub(crate) fn live(&self, now: Timestamp) -> impl Iterator<Item = &LaunchedInstance> {
        let live = self.accounts.launched().filter(move |instance| instance.is_live(now));
        live.filter(|instance| launcher_of(instance).is_some())
    }

    /// The secrets and objects with bootstrap data in the account of the cluster. Managers that were given a key of the
    /// other account by mistake leave theirs there: the right key cannot delete them, and an event names them.
    pub(crate) fn secrets(&self) -> &[StoredSecret] {
        self.accounts.find_region(ACCOUNT, REGION).map_or(&[], Region::secrets)
    }

    /// The Dedicated Hosts in the account of the cluster that managers have allocated and that are not released.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &AllocatedHost> {
        let region = self.accounts.find_region(ACCOUNT, REGION);
        let live = region.into_iter().flat_map(Region::live_hosts);
        live.filter(|host| cluster_of_key(&host.allocated_by).is_some())
    }

    /// All Dedicated Hosts of the account, oldest first.
    pub(crate) fn all_hosts(&self) -> &[AllocatedHost] {
        self.accounts.find_region(ACCOUNT, REGION).map_or(&[][..], Region::hosts)
    }

    /// All Elastic IPs of the account, oldest first.
    pub(crate) fn addresses(&self) -> &[AllocatedAddress] {
        self.accounts.find_region(ACCOUNT, REGION).map_or(&[][..], Region::addresses)
    }

    /// Instances that a management cluster has launched for a machine, as its tag names it, and that live.
    pub(crate) fn live_of(
        &self,
        now: Timestamp,
        of: ManagementCluster,
        machine: &str,
    ) -> impl Iterator<Item = &LaunchedInstance> {
        self.live(now)
            .filter(move |instance| launcher_of(instance) == Some(of) && machine_of(instance) == Some(machine))
    }

    /// Whether a management cluster has ever launched an instance for a machine.
    pub(crate) fn has_launched(&self, of: ManagementCluster, machine: &str) -> bool {
        let mut launched = self.accounts.launched();
        launched.any(|instance| launcher_of(instance) == Some(of) && machine_of(instance) == Some(machine))
    }

    /// Whether no later instance was launched for the machine of this one.
    pub(crate) fn is_last_of_its_machine(&self, instance: &LaunchedInstance) -> bool {
        let is_later = |other: &LaunchedInstance| other.launched_at > instance.launched_at;
        let is_of_machine = |other: &LaunchedInstance| {
            launcher_of(other) == launcher_of(instance) && machine_of(other) == machine_of(instance)
        };
        !self.accounts.launched().any(|other| is_later(other) && is_of_machine(other))
    }

    /// An instance by its id.
    pub(crate) fn instance(&self, id: &str) -> Option<&LaunchedInstance> {
        self.accounts.launched().find(|instance| instance.id == id)
    }

    /// Whether an instance is in every target group of the control plane, and not on its way out.
    pub(crate) fn is_served(&self, now: Timestamp, id: &str) -> bool {
        let traffic = self.accounts.clone().account(ACCOUNT).region(REGION).traffic_of(now, id);
        let served = traffic.iter().filter(|(_, deregistered, _)| deregistered.is_none());
        served.count() == TARGET_GROUPS.len()
    }

    /// An instance of the user that was brought in and is there no more.
    pub(crate) fn no_longer_served(&mut self, now: Timestamp) -> Option<String> {
        let first = Group::TargetGroup(FIRST_GROUP.to_owned());
        let registered = self.region().targets_of(now, &first);
        let missing = self.served.iter().find(|id| !registered.contains(id));
        missing.cloned()
    }

    /// Targets that are left of instances that `counts`.
    pub(crate) fn targets_left(&mut self, now: Timestamp, counts: impl Fn(&LaunchedInstance) -> bool) -> Vec<String> {
        let launched = self.accounts.launched().filter(|instance| counts(instance));
        let ids: Vec<String> = launched.map(|instance| instance.id.clone()).collect();
        let left = ids.into_iter().filter(|id| !self.region().registered_in(now, id).is_empty());
        left.collect()
    }

    /// The user registers an instance in the first target group, or takes it out.
    pub(crate) fn user_target(&mut self, now: Timestamp, id: &str, register: bool) {
        let target = vec![Target { id: id.to_owned(), port: Some(6443) }];
        let request = if register { GroupRequest::Register(target) } else { GroupRequest::Deregister(target) };
        let group = Group::TargetGroup(FIRST_GROUP.to_owned());
        // Refused while the instance does not run; then the user has failed.
        if self.user().group_call(now, &GroupCall { group, request, urgent: false, cluster: None }).is_ok() && register
        {
            self.served.insert(id.to_owned());
        }
    }

    /// The user launches an instance with tags that look much like a machine's.
    pub(crate) fn launch_foreign(&mut self, now: Timestamp, tags: &[(String, String)]) -> Result<Instance, CloudError> {
        let subnet = ZONES.first().map_or("", |(subnet, _)| *subnet);
        let request = LaunchRequest {
            security_group_ids: vec![GROUP.to_owned()],
            tags: tags.iter().cloned().collect(),
            ..plain_launch("", IMAGE, INSTANCE_TYPE, subnet)
        };
        self.user().run_instances(now, &request)
    }
}

/// The management cluster whose managers have an access key; none for the key of the user.
pub(crate) fn cluster_of_key(key: &str) -> Option<ManagementCluster> {
    match key {
        MANAGER_KEY | MISTAKEN_KEY => Some(ManagementCluster::Main),
        NEIGHBOUR_KEY => Some(ManagementCluster::Neighbour),
        _ => None,
    }
}

/// The management cluster whose managers have launched an instance; none for one of the user.
pub(crate) fn launcher_of(instance: &LaunchedInstance) -> Option<ManagementCluster> {
    cluster_of_key(&instance.launched_by)
}

/// `<namespace>/<machine>` of an instance.
pub(crate) fn machine_of(instance: &LaunchedInstance) -> Option<&str> {
    instance.tags.get(meta::MACHINE_NAME_TAG).map(String::as_str)
}

/// The longest that EC2 hides or forgets a fresh instance in any history. The protocol relies on 5 minutes.
pub(crate) const MAX_HIDDEN: Duration = Duration::from_secs(90);
