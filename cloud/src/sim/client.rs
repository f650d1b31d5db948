//! The calls that an access key makes in a region.

use capa_api::machine::InstanceState;
use jiff::Timestamp;

use crate::targets::{GroupAnswer, GroupCall};
use crate::{CloudError, Image, Instance, LaunchRequest, Query, RouteTable, SecurityGroup, Subnet, Vpc};

use super::Ec2;
use super::region::Region;

/// Calls with one access key in one region. Every call is told the time, which may not go back.
#[derive(Debug)]
pub struct Client<'a> {
    ec2: &'a mut Ec2,
    access_key: &'a str,
    region: &'a str,
}

/// What a call has done to the state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// `i-…`
    pub instance_id: String,
    /// The state before.
    pub previous: InstanceState,
    /// The state since.
    pub current: InstanceState,
}

impl StateChange {
    pub(super) fn new(id: &str, previous: InstanceState, current: InstanceState) -> Self {
        Self {
            instance_id: id.to_owned(),
            previous,
            current,
        }
    }
}

impl Ec2 {
    /// Calls with an access key in a region. The key need not be valid: then every call is refused.
    pub fn client<'a>(&'a mut self, access_key: &'a str, region: &'a str) -> Client<'a> {
        Client {
            ec2: self,
            access_key,
            region,
        }
    }

    /// The account that a key acts in.
    fn account_of(&self, operation: &'static str, access_key: &str) -> Result<String, CloudError> {
        let key = self.keys.get(access_key).filter(|key| !key.revoked);
        key.map(|key| key.account.clone()).ok_or_else(|| {
            // EC2 and STS name the same thing differently.
            let code = match operation {
                "GetCallerIdentity" => "InvalidClientTokenId",
                _ => "AuthFailure",
            };
            CloudError::answered(operation, code, "The provided credentials could not be validated.")
        })
    }
}

impl Client<'_> {
    /// STS GetCallerIdentity: the account that the key acts in.
    pub fn account_id(&self) -> Result<String, CloudError> {
        self.ec2.account_of("GetCallerIdentity", self.access_key)
    }

    /// RunInstances for exactly one instance.
    pub fn run_instances(&mut self, now: Timestamp, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let (region, key) = self.enter(now, "RunInstances", 1)?;
        region.run_instances(now, key, request)
    }

    /// TerminateInstances.
    pub fn terminate_instances(&mut self, now: Timestamp, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let (region, key) = self.enter(now, "TerminateInstances", ids.len())?;
        region.terminate_instances(now, key, ids)
    }

    /// StopInstances: what a user does by hand.
    pub fn stop_instances(&mut self, now: Timestamp, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let (region, key) = self.enter(now, "StopInstances", ids.len())?;
        region.stop_instances(now, key, ids)
    }

    /// StartInstances: what a user does by hand.
    pub fn start_instances(&mut self, now: Timestamp, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let (region, key) = self.enter(now, "StartInstances", ids.len())?;
        region.start_instances(now, key, ids)
    }

    /// DescribeInstances, all pages.
    pub fn describe_instances(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let (region, _) = self.enter(now, "DescribeInstances", 0)?;
        region.describe_instances(region.seen_at(now), query)
    }

    /// DescribeInstances, answered with what was to be seen at an earlier time.
    pub fn describe_instances_as_of(
        &mut self,
        now: Timestamp,
        seen: Timestamp,
        query: &Query,
    ) -> Result<Vec<Instance>, CloudError> {
        let (region, _) = self.enter(now, "DescribeInstances", 0)?;
        region.describe_instances(seen, query)
    }

    /// DescribeVpcs, all pages.
    pub fn describe_vpcs(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        let (region, _) = self.enter(now, "DescribeVpcs", 0)?;
        region.infrastructure.describe_vpcs(query)
    }

    /// DescribeSubnets, all pages.
    pub fn describe_subnets(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        let (region, _) = self.enter(now, "DescribeSubnets", 0)?;
        region.infrastructure.describe_subnets(query)
    }

    /// DescribeSecurityGroups, all pages.
    pub fn describe_security_groups(
        &mut self,
        now: Timestamp,
        query: &Query,
    ) -> Result<Vec<SecurityGroup>, CloudError> {
        let (region, _) = self.enter(now, "DescribeSecurityGroups", 0)?;
        region.infrastructure.describe_security_groups(query)
    }

    /// DescribeRouteTables, all pages.
    pub fn describe_route_tables(&mut self, now: Timestamp, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        let (region, _) = self.enter(now, "DescribeRouteTables", 0)?;
        region.infrastructure.describe_route_tables(query)
    }

    /// DescribeImages, all pages.
    pub fn describe_images(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Image>, CloudError> {
        let (region, _) = self.enter(now, "DescribeImages", 0)?;
        region.infrastructure.describe_images(query)
    }

    /// A call about load balancer targets, of the action that it names.
    pub fn group_call(&mut self, now: Timestamp, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        let (region, _) = self.enter(now, call.action(), 0)?;
        region.group_call(now, call)
    }

    /// What comes before every call: credentials, endpoint, limits.
    fn enter(
        &mut self,
        now: Timestamp,
        action: &'static str,
        instances: usize,
    ) -> Result<(&mut Region, &str), CloudError> {
        let account = self.ec2.account_of(action, self.access_key)?;
        let account = self.ec2.accounts.get_mut(&account);
        let Some(region) = account.and_then(|account| account.regions.get_mut(self.region)) else {
            let message = format!("no endpoint answers for region {}", self.region);
            return Err(CloudError::no_answer(action, message));
        };
        region.admit(now, action, instances)?;
        Ok((region, self.access_key))
    }
}
