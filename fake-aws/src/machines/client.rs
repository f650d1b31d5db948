//! The calls with an access key in a region.

use capa_api::common::Tags;
use capa_api::machine::InstanceState;
use jiff::Timestamp;

use capa_cloud::ec2::{NetworkInterface, RouteTable, SecurityGroup, Subnet, Vpc};
use capa_cloud::elb::{Listener, LoadBalancer, TargetGroup};
use capa_cloud::targets::{Group, GroupAnswer, GroupCall};
use capa_cloud::{CloudError, Image, Instance, InstanceType, LaunchRequest, MAX_TAGGED, Query};

use super::Accounts;
use super::region::Region;

/// A function that removes instances from the answer to a query.
type Omission<'a> = &'a dyn Fn(&Query, &mut Vec<Instance>);

/// Calls with one access key in one region. The caller passes the time to every call. The time must not go backwards.
pub struct Client<'a> {
    accounts: &'a mut Accounts,
    access_key: &'a str,
    region: &'a str,
    seen: Option<Timestamp>,
    omission: Option<Omission<'a>>,
}

/// The change of an instance's state by a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// `i-…`
    pub instance_id: String,
    /// The state before the call.
    pub previous: InstanceState,
    /// The state after the call.
    pub current: InstanceState,
}

impl StateChange {
    pub(super) fn new(id: &str, previous: InstanceState, current: InstanceState) -> Self {
        Self { instance_id: id.to_owned(), previous, current }
    }
}

impl Accounts {
    /// Calls with an access key in a region. With an invalid key every call is refused.
    pub fn client<'a>(&'a mut self, access_key: &'a str, region: &'a str) -> Client<'a> {
        Client { accounts: self, access_key, region, seen: None, omission: None }
    }

    /// The requests of RunInstances since the last call of this function, with their access keys. Refused requests are
    /// included.
    pub fn take_launch_requests(&mut self) -> Vec<(String, LaunchRequest)> {
        std::mem::take(&mut self.launch_requests)
    }

    /// The account of a key.
    fn account_of(&self, operation: &'static str, access_key: &str) -> Result<String, CloudError> {
        self.keys.get(access_key).cloned().ok_or_else(|| {
            // EC2 and STS have different codes for the same error.
            let code = match operation {
                "GetCallerIdentity" => "InvalidClientTokenId",
                _ => "AuthFailure",
            };
            CloudError::answered(operation, code, "The provided credentials could not be validated.")
        })
    }
}

impl<'a> Client<'a> {
    /// The same client, for which DescribeInstances returns the state at an earlier time.
    #[must_use]
    pub fn as_of(self, seen: Timestamp) -> Self {
        Self { seen: Some(seen), ..self }
    }

    /// The same client. `omission` removes instances from its answers of DescribeInstances.
    #[must_use]
    pub fn omitting(self, omission: &'a dyn Fn(&Query, &mut Vec<Instance>)) -> Self {
        Self { omission: Some(omission), ..self }
    }

    /// STS GetCallerIdentity: the account of the key.
    pub fn account_id(&self) -> Result<String, CloudError> {
        self.accounts.account_of("GetCallerIdentity", self.access_key)
    }

    /// RunInstances for exactly one instance.
    pub fn run_instances(&mut self, now: Timestamp, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let logged = (self.access_key.to_owned(), request.clone());
        self.accounts.launch_requests.push(logged);
        let (region, key) = self.enter(now, "RunInstances", 1)?;
        region.run_instances(now, key, request)
    }

    /// TerminateInstances.
    pub fn terminate_instances(&mut self, now: Timestamp, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let (region, key) = self.enter(now, "TerminateInstances", ids.len())?;
        region.terminate_instances(now, key, ids)
    }

    /// StopInstances, for example by a user.
    pub fn stop_instances(&mut self, now: Timestamp, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let (region, key) = self.enter(now, "StopInstances", ids.len())?;
        region.stop_instances(now, key, ids)
    }

    /// StartInstances, for example by a user.
    pub fn start_instances(&mut self, now: Timestamp, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let (region, key) = self.enter(now, "StartInstances", ids.len())?;
        region.start_instances(now, key, ids)
    }

    /// DescribeInstances, all pages.
    pub fn describe_instances(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let seen = self.seen;
        let (region, _) = self.enter(now, "DescribeInstances", 0)?;
        let seen = seen.unwrap_or_else(|| region.seen_at(now));
        let mut shown = region.describe_instances(seen, query)?;
        if let Some(omission) = &self.omission {
            omission(query, &mut shown);
        }
        Ok(shown)
    }

    /// DescribeVpcs, all pages.
    pub fn describe_vpcs(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        let (region, _) = self.enter(now, "DescribeVpcs", 0)?;
        region.network.ec2().describe_vpcs(query)
    }

    /// DescribeSubnets, all pages.
    pub fn describe_subnets(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        let (region, _) = self.enter(now, "DescribeSubnets", 0)?;
        region.network.ec2().describe_subnets(query)
    }

    /// DescribeSecurityGroups, all pages.
    pub fn describe_security_groups(
        &mut self,
        now: Timestamp,
        query: &Query,
    ) -> Result<Vec<SecurityGroup>, CloudError> {
        let (region, _) = self.enter(now, "DescribeSecurityGroups", 0)?;
        region.network.ec2().describe_security_groups(query)
    }

    /// DescribeRouteTables, all pages.
    pub fn describe_route_tables(&mut self, now: Timestamp, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        let (region, _) = self.enter(now, "DescribeRouteTables", 0)?;
        region.network.ec2().describe_route_tables(query)
    }

    /// DescribeNetworkInterfaces, all pages.
    pub fn describe_network_interfaces(
        &mut self,
        now: Timestamp,
        query: &Query,
    ) -> Result<Vec<NetworkInterface>, CloudError> {
        let (region, _) = self.enter(now, "DescribeNetworkInterfaces", 0)?;
        let mut found = region.network.ec2().describe_network_interfaces(query)?;
        for interface in &mut found {
            let own = interface.instance_id.take();
            interface.instance_id = own.or_else(|| region.attached_to(now, &interface.id));
        }
        Ok(found)
    }

    /// DescribeImages, all pages.
    pub fn describe_images(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Image>, CloudError> {
        let (region, _) = self.enter(now, "DescribeImages", 0)?;
        region.network.ec2().describe_images(query)
    }

    /// GetParameter of a parameter of AWS's own.
    pub fn public_parameter(&mut self, now: Timestamp, name: &str) -> Result<String, CloudError> {
        let (region, _) = self.enter(now, "GetParameter", 0)?;
        let value = region.parameters.get(name).cloned();
        value.ok_or_else(|| CloudError::answered("GetParameter", "ParameterNotFound", ""))
    }

    /// DescribeInstanceTypes with the name of one as the filter.
    pub fn instance_type(&mut self, now: Timestamp, name: &str) -> Result<InstanceType, CloudError> {
        let (region, _) = self.enter(now, "DescribeInstanceTypes", 0)?;
        region.network.ec2().describe_instance_type(name)
    }

    /// DescribeLoadBalancers of the second generation, by name. `None` if no load balancer has the name.
    pub fn load_balancer(&mut self, now: Timestamp, name: &str) -> Result<Option<Box<LoadBalancer>>, CloudError> {
        let (region, _) = self.enter(now, "DescribeLoadBalancers", 0)?;
        Ok(region.network.load_balancers().into_iter().find(|shown| shown.name == name).map(Box::new))
    }

    /// DescribeListeners of the load balancer with this ARN.
    pub fn listeners(&mut self, now: Timestamp, load_balancer: &str) -> Result<Vec<Listener>, CloudError> {
        let (region, _) = self.enter(now, "DescribeListeners", 0)?;
        let listeners = region.network.listeners().into_iter();
        Ok(listeners.filter(|listener| listener.load_balancer_arn == load_balancer).collect())
    }

    /// DescribeLoadBalancers of the classic generation: whether a load balancer has each of these names.
    pub fn classic_load_balancers(&mut self, now: Timestamp, names: &[String]) -> Result<bool, CloudError> {
        let (region, _) = self.enter(now, "DescribeLoadBalancers", 0)?;
        let elb = region.network.elb();
        Ok(names.iter().all(|name| elb.facts_of(&Group::Classic(name.clone())).is_some()))
    }

    /// DescribeTargetGroups by ARN. `None` if one of the groups does not exist.
    pub fn target_groups(&mut self, now: Timestamp, arns: &[String]) -> Result<Option<Vec<TargetGroup>>, CloudError> {
        let (region, _) = self.enter(now, "DescribeTargetGroups", 0)?;
        let groups = region.network.target_groups();
        Ok(arns.iter().map(|arn| groups.iter().find(|group| group.arn == *arn).cloned()).collect())
    }

    /// DescribeTargetGroups without a name: all target groups of a VPC.
    pub fn target_groups_in(&mut self, now: Timestamp, vpc_id: &str) -> Result<Vec<TargetGroup>, CloudError> {
        let (region, _) = self.enter(now, "DescribeTargetGroups", 0)?;
        let groups = region.network.target_groups().into_iter();
        Ok(groups.filter(|group| group.vpc_id == vpc_id).collect())
    }

    /// DescribeTags of target groups, by ARN.
    pub fn target_group_tags(&mut self, now: Timestamp, arns: &[String]) -> Result<Vec<(String, Tags)>, CloudError> {
        let (region, _) = self.enter(now, "DescribeTags", 0)?;
        if arns.len() > MAX_TAGGED {
            let message = "Cannot have more than 20 resources described";
            return Err(CloudError::answered("DescribeTags", "ValidationError", message));
        }
        let missing = || {
            let message = "One or more target groups not found";
            CloudError::answered("DescribeTags", "TargetGroupNotFound", message)
        };
        region.network.elb().target_group_tags(arns).ok_or_else(missing)
    }

    /// A call about load balancer targets.
    pub fn group_call(&mut self, now: Timestamp, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        let (region, key) = self.enter(now, call.action(), 0)?;
        region.group_call(now, key, call)
    }

    /// The checks before every call: credentials, endpoint, limits.
    pub(super) fn enter(
        &mut self,
        now: Timestamp,
        action: &'static str,
        instances: usize,
    ) -> Result<(&mut Region, &str), CloudError> {
        let account = self.accounts.account_of(action, self.access_key)?;
        let account = self.accounts.by_id.get_mut(&account);
        let Some(region) = account.and_then(|account| account.regions.get_mut(self.region)) else {
            let message = format!("no endpoint answers for region {}", self.region);
            return Err(CloudError::no_answer(action, message));
        };
        region.admit(now, action, instances)?;
        Ok((region, self.access_key))
    }
}
