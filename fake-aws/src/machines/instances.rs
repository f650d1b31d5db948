//! A simulated instance with all its states over time.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::common::{MachineAddress, MachineAddressType, Tags};
use capa_api::machine::InstanceState;
use jiff::Timestamp;

use capa_cloud::ec2::Subnet;
use capa_cloud::{
    DnsRecords, Instance, InstanceMetadataOptions, LaunchRequest, PrimaryInterface, StateReason, identifying_tag,
};

use super::time::after;

/// A state of an instance with its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The time at which the state begins. The state lasts until the next one begins.
    pub from: Timestamp,
    /// The state.
    pub state: InstanceState,
    /// The reason for the state, if EC2 gives one.
    pub reason: Option<StateReason>,
}

/// A launched instance. The simulated EC2 never drops it, but calls return it only while EC2 would show it.
#[derive(Clone, Debug)]
pub struct LaunchedInstance {
    /// `i-…`
    pub id: String,
    /// Account of the instance.
    pub account: String,
    /// Region of the instance.
    pub region: String,
    /// The subnet of the instance, which determines the zone.
    pub subnet: Subnet,
    /// The parameters of RunInstances, including the token.
    pub request: LaunchRequest,
    /// The current instance type.
    pub instance_type: String,
    /// The current tags.
    pub tags: BTreeMap<String, String>,
    /// The current tags of its volume and of its network interface, by id.
    pub resource_tags: BTreeMap<String, Tags>,
    /// The current security groups of its network interface, in order.
    pub security_group_ids: Vec<String>,
    /// The current records of its resource-based name.
    pub dns_records: DnsRecords,
    /// Options of its metadata service.
    pub metadata_options: InstanceMetadataOptions,
    /// The Elastic IP of its primary network interface.
    pub(super) elastic_ip: Option<String>,
    /// The time of RunInstances.
    pub launched_at: Timestamp,
    /// Access key of RunInstances.
    pub launched_by: String,
    /// The time from which calls other than RunInstances know the instance.
    pub visible_from: Timestamp,
    /// The states in order. The last state may begin in the future.
    pub(super) phases: Vec<Phase>,
    pub(super) protected: bool,
    /// Number of the instance in its region, from which its address is derived.
    pub(super) number: u32,
    pub(super) shown_after_termination: Duration,
}

impl LaunchedInstance {
    /// The states in order. A call can replace states that begin in the future.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The phase at a time. For times before the launch: the first phase.
    pub fn phase(&self, at: Timestamp) -> Option<&Phase> {
        let begun = self.phases.iter().rev().find(|phase| phase.from <= at);
        begun.or_else(|| self.phases.first())
    }

    /// The state at a time.
    pub fn state(&self, at: Timestamp) -> InstanceState {
        self.phase(at).map_or(InstanceState::Pending, |phase| phase.state)
    }

    /// Whether the instance is `pending`, `running`, `stopping` or `stopped` at a time.
    pub fn is_live(&self, at: Timestamp) -> bool {
        let ends = matches!(self.state(at), InstanceState::ShuttingDown | InstanceState::Terminated);
        self.launched_at <= at && !ends
    }

    /// Whether the instance has been `running` by a time.
    pub fn has_run(&self, at: Timestamp) -> bool {
        let begun = self.phases.iter().take_while(|phase| phase.from <= at);
        begun.into_iter().any(|phase| phase.state == InstanceState::Running)
    }

    /// The time at which the instance becomes `terminated`, if its termination has been requested or scheduled.
    pub fn terminated_at(&self) -> Option<Timestamp> {
        let last = self.phases.last().filter(|phase| phase.state == InstanceState::Terminated);
        last.map(|phase| phase.from)
    }

    /// Whether calls other than RunInstances know the instance.
    pub(super) fn is_known(&self, at: Timestamp) -> bool {
        let gone = self.terminated_at().map(|end| after(end, self.shown_after_termination));
        self.launched_at <= at && self.visible_from <= at && gone.is_none_or(|gone| at < gone)
    }

    /// Whether EC2 no longer shows the instance.
    pub(super) fn is_forgotten(&self, at: Timestamp) -> bool {
        self.visible_from <= at && !self.is_known(at)
    }

    /// Replaces the states that have not begun.
    pub(super) fn turn(&mut self, at: Timestamp, phases: impl IntoIterator<Item = Phase>) {
        self.phases.retain(|phase| phase.from <= at);
        self.phases.extend(phases);
    }

    /// The instance in the answer of a call.
    pub(super) fn shown(&self, at: Timestamp) -> Instance {
        let phase = self.phase(at);
        let identifying = self.tags.iter().filter(|(key, _)| identifying_tag(key));
        let token = Some(self.request.client_token.clone()).filter(|token| !token.is_empty());
        Instance {
            id: self.id.clone(),
            state: self.state(at),
            state_reason: phase.and_then(|phase| phase.reason.clone()),
            instance_type: self.instance_type.clone(),
            availability_zone: self.subnet.zone.clone(),
            // A terminated instance has lost its interface.
            subnet_id: self.has_interface(at).then(|| self.subnet.id.clone()),
            vpc_id: self.has_interface(at).then(|| self.subnet.vpc_id.clone()),
            primary_interface: self.has_interface(at).then(|| PrimaryInterface {
                id: self.interface_id(),
                security_group_ids: self.security_group_ids.clone(),
            }),
            volume_ids: if self.has_interface(at) { vec![volume_id(&self.id)] } else { Vec::new() },
            metadata_options: Some(self.metadata_options.clone()),
            client_token: token,
            launch_time: Some(self.launched_at),
            addresses: self.addresses(at),
            tags: identifying.map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }

    /// The values of the instance for a filter of DescribeInstances.
    pub(super) fn filter_values(&self, at: Timestamp, filter: &str) -> Vec<String> {
        let attached = |values: Vec<String>| if self.has_interface(at) { values } else { Vec::new() };
        match filter {
            "instance-id" => vec![self.id.clone()],
            "client-token" => vec![self.request.client_token.clone()],
            "image-id" => vec![self.request.image_id.clone()],
            "instance-type" => vec![self.instance_type.clone()],
            "instance-state-name" => vec![self.state(at).to_string()],
            "availability-zone" => vec![self.subnet.zone.clone()],
            "subnet-id" => attached(vec![self.subnet.id.clone()]),
            "vpc-id" => attached(vec![self.subnet.vpc_id.clone()]),
            "instance.group-id" => attached(self.security_group_ids.clone()),
            _ => Vec::new(),
        }
    }

    fn has_interface(&self, at: Timestamp) -> bool {
        self.state(at) != InstanceState::Terminated
    }

    /// The id of the primary network interface: an interface of the user's, or the instance's own.
    pub fn interface_id(&self) -> String {
        let brought = self.request.options.network_interfaces.first();
        brought.cloned().unwrap_or_else(|| self.id.replacen("i-", "eni-", 1))
    }

    /// The private address, which is unique in the region.
    pub(super) fn private_address(&self) -> String {
        let [_, high, middle, low] = self.number.to_be_bytes();
        format!("10.{high}.{middle}.{low}")
    }

    fn addresses(&self, at: Timestamp) -> Vec<MachineAddress> {
        if !self.has_interface(at) {
            return Vec::new();
        }
        let [_, high, middle, low] = self.number.to_be_bytes();
        let private = self.private_address();
        let name = format!("ip-10-{high}-{middle}-{low}.{}.compute.internal", self.region);
        let mut addresses =
            vec![address(MachineAddressType::InternalDNS, name), address(MachineAddressType::InternalIP, private)];
        let is_running = self.state(at) == InstanceState::Running;
        let own = || format!("203.{high}.{middle}.{low}");
        let own = (self.request.public_ip == Some(true) && is_running).then(own);
        if let Some(public) = self.elastic_ip.clone().or(own) {
            addresses.push(address(MachineAddressType::ExternalIP, public));
        }
        addresses
    }
}

/// The id of the volume of an instance.
pub(super) fn volume_id(instance_id: &str) -> String {
    instance_id.replacen("i-", "vol-", 1)
}

impl Phase {
    /// A phase without a reason.
    pub(super) fn new(from: Timestamp, state: InstanceState) -> Self {
        Self { from, state, reason: None }
    }

    /// A phase with a reason.
    pub(super) fn because(from: Timestamp, state: InstanceState, code: &str, message: &str) -> Self {
        let reason = StateReason { code: code.to_owned(), message: message.to_owned() };
        Self { from, state, reason: Some(reason) }
    }
}

/// The known filters of DescribeInstances, besides the filters by tag.
pub(super) const FILTERS: [&str; 9] = [
    "instance-id",
    "client-token",
    "image-id",
    "instance-type",
    "instance-state-name",
    "availability-zone",
    "subnet-id",
    "vpc-id",
    "instance.group-id",
];

fn address(address_type: MachineAddressType, address: String) -> MachineAddress {
    MachineAddress { address_type, address }
}
