//! The behaviour that AWS's documentation does not define and that a test can set.

use std::collections::BTreeSet;
use std::time::Duration;

use capa_cloud::StateReason;
use jiff::Timestamp;

/// The behaviour of an account. Every value applies from the next call on; the durations of an instance's states are
/// read when the state begins. Other durations count from the creation of a resource; resources that a test adds by
/// hand are shown and available at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Id of the account. Default: `111122223333`.
    pub account_id: String,
    /// Names of the availability zones. Default: `eu-west-1a`, `eu-west-1b`, `eu-west-1c`.
    pub zones: Vec<String>,
    /// Time for which a new VPC or subnet is pending before it is available. Default: 2 seconds.
    pub network_pending: Duration,
    /// Time for which a new resource is hidden from describes and unknown to calls other than the one that created it,
    /// and for which an Elastic IP shows its association with an instance that has ended. Default: zero.
    pub hidden: Duration,
    /// Time for which a new resource has no tags for observations, neither to show nor to select by. Default: zero.
    pub hidden_tags: Duration,
    /// Time for which a new NAT gateway is pending before it is available or has failed. Default: 20 seconds.
    pub nat_gateway_pending: Duration,
    /// Time for which a NAT gateway is deleting before it is deleted, from the Delete call on. Default: 20 seconds.
    pub nat_gateway_deleting: Duration,
    /// Time for which a new load balancer is provisioning before it is active or has failed. Default: 20 seconds.
    pub load_balancer_provisioning: Duration,
    /// Time for which the interfaces of a deleted load balancer live on. Default: 20 seconds.
    pub load_balancer_interfaces: Duration,
    /// Maximum number of VPCs. Default: 5.
    pub vpc_quota: usize,
    /// Maximum number of internet gateways. Default: 5.
    pub internet_gateway_quota: usize,
    /// Maximum number of Elastic IPs. Default: 5.
    pub address_quota: usize,
    /// Maximum number of NAT gateways in a zone that are pending, available or deleting. Default: 5.
    pub nat_gateway_quota: usize,
    /// Maximum number of route tables of a VPC, the main one among them. Default: 200.
    pub route_table_quota: usize,
    /// Maximum number of security groups, the default ones of VPCs among them. Default: 2500.
    pub security_group_quota: usize,
    /// Maximum number of rules for incoming traffic of a security group. Default: 60.
    pub rules_quota: usize,
    /// Maximum number of load balancers of the second generation. Default: 50.
    pub load_balancer_quota: usize,
    /// Maximum number of target groups. Default: 3000.
    pub target_group_quota: usize,
    /// Maximum number of Classic Load Balancers. Default: 20.
    pub classic_load_balancer_quota: usize,
    /// Whether no resolver knows any host name. Default: false.
    pub unresolved: bool,
    /// Describe actions that AWS refuses, for example `DescribeSubnets`: EC2 with `UnauthorizedOperation`, Elastic Load
    /// Balancing with `AccessDenied`. The names of the actions of Classic Load Balancers have a prefix here and in
    /// [`FakeAccount::describes`](crate::FakeAccount::describes), because the second generation has actions with the
    /// same names: `DescribeClassicLoadBalancers`, `DescribeClassicTags` and `DescribeClassicLoadBalancerAttributes`
    /// stand for DescribeLoadBalancers, DescribeTags and DescribeLoadBalancerAttributes of the classic API.
    /// Default: none.
    pub refused_describes: BTreeSet<String>,
    /// Actions of calls that AWS refuses with the same codes, for example `CreateTags`. Default: none.
    pub refused_calls: BTreeSet<String>,
    /// Duration of the state `pending` of an instance. Default: 20 seconds.
    pub pending: Duration,
    /// Duration of the state `stopping`. Default: 30 seconds.
    pub stopping: Duration,
    /// Duration of the state `shutting-down`. Default: 30 seconds.
    pub shutting_down: Duration,
    /// Time for which a terminated instance is still shown: "approximately one hour". Default: one hour.
    pub shown_after_termination: Duration,
    /// Age of the state that DescribeInstances returns. Default: zero.
    pub staleness: Duration,
    /// Time for which a client token is remembered after its launch. EC2 guarantees at least a day. Default: a day.
    pub token_memory: Duration,
    /// The answer to a known token after its instance was terminated. Default: the instance, while it is shown.
    pub repeated_after_termination: RepeatedAfterTermination,
    /// The reason with which new instances are terminated at the end of `pending`. Default: none, new instances run.
    pub death_in_pending: Option<StateReason>,
    /// Whether EC2's published request limits are enforced on the calls of machines. Default: false.
    pub throttling: bool,
    /// The time until which every call of machines is throttled. Default: none is.
    pub throttles_all_until: Timestamp,
}

/// EC2's documentation lets a repeated launch succeed with "updated information", and also has an error code for a
/// launch whose instance has been terminated. The documentation does not say when EC2 gives which answer, so callers
/// must handle both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedAfterTermination {
    /// The terminated instance while it is shown, and the error afterwards.
    #[default]
    Shown,
    /// The error `IdempotentInstanceTerminated`, from the moment the instance is terminated.
    Refused,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            account_id: "111122223333".to_owned(),
            zones: ["eu-west-1a", "eu-west-1b", "eu-west-1c"].map(str::to_owned).to_vec(),
            network_pending: Duration::from_secs(2),
            hidden: Duration::ZERO,
            hidden_tags: Duration::ZERO,
            nat_gateway_pending: Duration::from_secs(20),
            nat_gateway_deleting: Duration::from_secs(20),
            load_balancer_provisioning: Duration::from_secs(20),
            load_balancer_interfaces: Duration::from_secs(20),
            vpc_quota: 5,
            internet_gateway_quota: 5,
            address_quota: 5,
            nat_gateway_quota: 5,
            route_table_quota: 200,
            security_group_quota: 2500,
            rules_quota: 60,
            load_balancer_quota: 50,
            target_group_quota: 3000,
            classic_load_balancer_quota: 20,
            unresolved: false,
            refused_describes: BTreeSet::new(),
            refused_calls: BTreeSet::new(),
            pending: Duration::from_secs(20),
            stopping: Duration::from_secs(30),
            shutting_down: Duration::from_secs(30),
            shown_after_termination: Duration::from_secs(3600),
            staleness: Duration::ZERO,
            token_memory: Duration::from_secs(24 * 3600),
            repeated_after_termination: RepeatedAfterTermination::default(),
            death_in_pending: None,
            throttling: false,
            throttles_all_until: Timestamp::MIN,
        }
    }
}
