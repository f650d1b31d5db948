//! The set-up of AWS resources, and changes by other users.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::machine::InstanceState;
use capa_api::meta;
use capa_cloud::ec2::{Route, RouteTable, RouteTableAssociation, RouteTarget};
use capa_cloud::elb::TargetType;
use capa_cloud::targets::{Group, GroupCall, GroupRequest, Target};
use capa_cloud::{HostRequest, InstanceType, LaunchRequest, StateReason};
use capa_fake_aws::machines::{Region, plain_launch};
use capa_fake_aws::{FakeAccount, PublishedImage};

use super::{ACCESS_KEY, FakeAws};

/// The route of public subnets.
fn default_route() -> Route {
    Route {
        destination: "0.0.0.0/0".to_owned(),
        target: RouteTarget::InternetGateway("igw-0000000a".to_owned()),
        is_blackhole: false,
    }
}

/// Duration of the draining of a target.
pub(crate) const DRAINS_FOR: Duration = Duration::from_secs(50);

impl FakeAws {
    /// What managed clusters use of the region.
    pub(crate) fn account(&self) -> FakeAccount {
        self.state().region(&self.region).network().clone()
    }

    /// Changes the region of this AWS.
    fn change(&self, change: impl FnOnce(&mut Region) -> &mut Region) {
        change(self.state().region(&self.region));
    }

    /// Adds a VPC with a main route table without a route to an internet gateway.
    pub(crate) fn vpc(&self, id: &str) {
        self.change(|region| region.vpc(id, "10.0.0.0/16"));
    }

    pub(crate) fn subnet(&self, id: &str, vpc_id: &str, zone: &str) {
        self.change(|region| region.subnet(id, vpc_id, zone));
    }

    pub(crate) fn bucket(&self, name: &str) {
        self.state().region(&self.region).put_bucket(name);
    }

    pub(crate) fn security_group(&self, id: &str, vpc_id: &str) {
        self.change(|region| region.security_group(id, vpc_id, id));
    }

    /// Sets whether the main route table of a VPC has a route to an internet gateway.
    pub(crate) fn main_route_to_internet(&self, vpc_id: &str, leads: bool) {
        self.route_table(&vpc_id.replacen("vpc", "rtb", 1), vpc_id, &[], leads);
    }

    /// Adds a route table for a subnet.
    pub(crate) fn own_route_table(&self, subnet_id: &str, vpc_id: &str, internet_gateway_route: bool) {
        let id = format!("rtb-{subnet_id}");
        self.route_table(&id, vpc_id, &[subnet_id], internet_gateway_route);
    }

    fn route_table(&self, id: &str, vpc_id: &str, subnets: &[&str], internet_gateway_route: bool) {
        let association =
            |subnet: &str| RouteTableAssociation { id: format!("rtbassoc-{subnet}"), subnet_id: subnet.to_owned() };
        let table = RouteTable {
            id: id.to_owned(),
            vpc_id: vpc_id.to_owned(),
            is_main: subnets.is_empty(),
            associations: subnets.iter().map(|id| association(id)).collect(),
            routes: internet_gateway_route.then(default_route).into_iter().collect(),
            ..RouteTable::default()
        };
        self.change(|region| region.route_table(table));
    }

    /// Adds a network interface that is attached to no instance.
    pub(crate) fn network_interface(&self, id: &str, subnet_id: &str, security_group_ids: &[&str]) {
        self.change(|region| region.network_interface(id, subnet_id, security_group_ids));
    }

    pub(crate) fn image(&self, id: &str, root_device_name: &str) {
        self.change(|region| region.image(id, root_device_name));
    }

    pub(crate) fn published_image(&self, image: PublishedImage) {
        self.change(|region| region.published_image(image));
    }

    pub(crate) fn public_parameter(&self, name: &str, value: &str) {
        self.change(|region| region.public_parameter(name, value));
    }

    pub(crate) fn instance_type(&self, instance_type: InstanceType) {
        self.change(|region| region.instance_type(instance_type));
    }

    /// Removes a resource that is not an instance.
    pub(crate) fn remove(&self, id: &str) {
        self.change(|region| region.remove(id));
    }

    /// Adds a Network Load Balancer that forwards a port to a target group.
    pub(crate) fn load_balancer(&self, name: &str, port: i32, target_group: &str) {
        self.load_balancer_with(name, &[(port, &[target_group])]);
    }

    /// Adds a Network Load Balancer that forwards each port to target groups.
    pub(crate) fn load_balancer_with(&self, name: &str, listeners: &[(i32, &[&str])]) {
        let account = self.account();
        let arn = account.add_load_balancer(name, "", &[], Tags::new());
        for (port, groups) in listeners {
            let listener = account.add_listener(&arn, *port, "", Tags::new());
            assert!(account.set_listener_targets(&listener, groups));
        }
    }

    /// Adds a target group or a Classic Load Balancer.
    pub(crate) fn group(&self, group: &Group, target_type: TargetType) {
        self.account().put_group(group, target_type, DRAINS_FOR);
    }

    /// Tags a group.
    pub(crate) fn tag_group(&self, group: &Group, key: &str, value: &str) {
        self.change_tags(group, |tags| {
            tags.insert(key.to_owned(), value.to_owned());
        });
    }

    /// Removes a tag from a group.
    pub(crate) fn untag_group(&self, group: &Group, key: &str) {
        self.change_tags(group, |tags| {
            tags.remove(key);
        });
    }

    fn change_tags(&self, group: &Group, change: impl FnOnce(&mut Tags)) {
        let account = self.account();
        let mut tags = account.tags(group.id());
        change(&mut tags);
        assert!(account.set_tags(group.id(), tags), "{group} exists");
    }

    /// The ids of the targets of a group.
    pub(crate) fn targets_of(&self, group: &Group) -> Vec<String> {
        let now = self.now();
        self.state().region(&self.region).targets_of(now, group)
    }

    /// The groups in which an instance or its address is registered and not draining.
    pub(crate) fn registered_in(&self, id: &str) -> Vec<Group> {
        let now = self.now();
        self.state().region(&self.region).registered_in(now, id)
    }

    /// Makes an instance fail the health checks of its load balancers from now on.
    pub(crate) fn fail_health_checks(&self, id: &str) {
        self.change(|region| region.fail_health_checks(id));
    }

    /// Registers a target by its id or address, as another user would.
    pub(crate) fn register(&self, id: &str, group: &Group) {
        let now = self.now();
        let target = Target { id: id.to_owned(), port: Some(6443) };
        let call = GroupCall {
            group: group.clone(),
            request: GroupRequest::Register(vec![target]),
            urgent: false,
            cluster: None,
        };
        let mut state = self.state();
        state.region(&self.region);
        let mut client = state.accounts.client(ACCESS_KEY, &self.region);
        client.group_call(now, &call).unwrap();
    }

    /// Adds an instance in this state with the tags of a machine of the Cluster `dev`. No call of the provider launched
    /// the instance.
    pub(crate) fn instance(&self, id: &str, state: InstanceState, machine_name_tag: &str) {
        self.launched_instance(id, state, machine_name_tag, "");
    }

    /// Adds an instance like [`Self::instance`], launched with this client token.
    pub(crate) fn launched_instance(&self, id: &str, state: InstanceState, machine_name_tag: &str, token: &str) {
        let now = self.now();
        let tags = [
            (meta::cluster_tag("dev"), meta::OWNED_TAG_VALUE),
            (meta::ROLE_TAG.to_owned(), meta::NODE_ROLE_TAG_VALUE),
            (meta::MACHINE_NAME_TAG.to_owned(), machine_name_tag),
        ];
        let request = LaunchRequest {
            tags: tags.map(|(key, value)| (key, value.to_owned())).into(),
            ..plain_launch(token, "ami-00000001", "t3.large", "subnet-0000000a")
        };
        self.change(|region| region.add_instance(now, id, &request).set_state(now, id, state, None));
    }

    /// Adds a Dedicated Host of another user, with this client token. Returns its id.
    pub(crate) fn host(&self, request: &HostRequest) -> String {
        let now = self.now();
        self.state().region(&self.region).add_host(now, "", request)
    }

    /// Makes EC2 refuse to release a host for this time.
    pub(crate) fn keep_host(&self, id: &str, keep: Duration) {
        let until = self.now() + keep;
        self.change(|region| region.keep_host(id, until));
    }

    /// Adds a public IPv4 pool with this number of free addresses.
    pub(crate) fn address_pool(&self, pool: &str, free: u32) {
        self.account().add_pool(pool, free);
    }

    /// Gives an instance an Elastic IP of the user's, and returns the allocation id.
    pub(crate) fn foreign_address(&self, instance_id: &str) -> String {
        self.state().region(&self.region).foreign_address(instance_id)
    }

    /// From now on, calls see created and ended resources only after this delay.
    pub(crate) fn hide_changes(&self, hidden: Duration) {
        self.state().hidden = hidden;
    }

    /// Disassociates an Elastic IP from its instance, as a user would.
    pub(crate) fn disassociate(&self, allocation_id: &str) {
        self.state().region(&self.region).take_address(allocation_id);
    }

    /// Makes AWS no longer show an instance, as it does some time after the termination.
    pub(crate) fn remove_instance(&self, id: &str) {
        self.change(|region| region.end_long_ago(id));
    }

    /// Tags a resource.
    pub(crate) fn tag(&self, id: &str, key: &str, value: &str) {
        self.change(|region| region.tag(id, key, value));
    }

    /// Adds a target group of a VPC, with tags.
    pub(crate) fn tagged_target_group(&self, arn: &str, vpc_id: &str, target_type: TargetType, tags: &[(&str, &str)]) {
        let account = self.account();
        account.put_group(&Group::TargetGroup(arn.to_owned()), target_type, DRAINS_FOR);
        assert!(account.set_vpc_of_group(arn, vpc_id));
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        assert!(account.set_tags(arn, tags.collect()));
    }

    /// Sets the tag that identifies the machine of an instance.
    pub(crate) fn tag_machine_name(&self, id: &str, machine_name_tag: &str) {
        self.change(|region| region.tag(id, meta::MACHINE_NAME_TAG, machine_name_tag));
    }

    /// Removes all tags of an instance.
    pub(crate) fn untag(&self, id: &str) {
        self.change(|region| region.untag(id));
    }

    /// Replaces the security groups of an instance, as another user would.
    pub(crate) fn regroup(&self, instance_id: &str, group_ids: &[&str]) {
        self.change(|region| region.regroup(instance_id, group_ids));
    }

    /// Changes how many hops the answers of the metadata service of an instance may take, as another user would.
    pub(crate) fn set_hop_limit(&self, instance_id: &str, hops: i64) {
        self.change(|region| region.set_hop_limit(instance_id, hops));
    }

    /// Changes the type of an instance, as another user would who has stopped it.
    pub(crate) fn retype(&self, instance_id: &str, instance_type: &str) {
        self.change(|region| region.retype(instance_id, instance_type));
    }

    /// Sets the state of an instance permanently.
    pub(crate) fn set_instance_state(&self, id: &str, state: InstanceState) {
        let now = self.now();
        self.change(|region| region.set_state(now, id, state, None));
    }

    /// Sets the state of an instance with AWS's reason for the state.
    pub(crate) fn end_instance(&self, id: &str, state: InstanceState, code: &str, message: &str) {
        let now = self.now();
        let reason = StateReason { code: code.to_owned(), message: message.to_owned() };
        self.change(|region| region.set_state(now, id, state, Some(reason)));
    }
}
