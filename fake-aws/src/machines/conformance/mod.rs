//! Cases from EC2's documentation that run on any EC2: the simulated EC2 of this crate, and an EC2 that tests reach
//! over the network. Each case has its own account and reports the first deviation.
//!
//! Tests cannot advance the time of every EC2, so cases hold instances in a state and release the state later.

mod addresses;
mod describes;
mod hosts;
mod launches;
#[cfg(test)]
mod on_sim;
mod refusals;
mod states;
mod terminations;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;

use capa_cloud::{
    CloudError, ElasticIp, ElasticIpAnswer, ElasticIpCall, Host, HostRequest, Instance, InstanceState, LaunchRequest,
    Query, StateReason, UserData,
};

use super::{StateChange, plain_launch};

/// An EC2 whose behaviour is compared with its documentation. Initially transitional states end at once, and no
/// instance is hidden.
#[async_trait]
pub trait Ec2UnderTest: Send + Sync {
    /// The resources for launches.
    fn place(&self) -> &Place;
    /// RunInstances for exactly one instance.
    async fn run_instances(&self, request: &LaunchRequest) -> Result<Instance, CloudError>;
    /// DescribeInstances, all pages.
    async fn describe_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;
    /// TerminateInstances.
    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError>;
    /// StopInstances.
    async fn stop_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError>;
    /// StartInstances.
    async fn start_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError>;
    /// AllocateHosts for exactly one host.
    async fn allocate_host(&self, request: &HostRequest) -> Result<String, CloudError>;
    /// DescribeHosts, all pages.
    async fn describe_hosts(&self, query: &Query) -> Result<Vec<Host>, CloudError>;
    /// ReleaseHosts of one host, whose error is that of the list of hosts that are not released.
    async fn release_host(&self, id: &str) -> Result<(), CloudError>;
    /// DescribeAddresses.
    async fn elastic_ips(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError>;
    /// A call that changes addresses. An association takes no address from elsewhere.
    async fn change_elastic_ip(&self, call: &ElasticIpCall) -> Result<ElasticIpAnswer, CloudError>;
    /// Holds instances that enter a stage from now on in that stage.
    async fn hold(&self, stage: Stage);
    /// Releases a stage: instances leave it at once, now and in future. No other stage is held meanwhile.
    async fn let_go(&self, stage: Stage);
    /// Sets a circumstance from now on.
    async fn set(&self, circumstance: Circumstance);
}

/// A stage of an instance's life that ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The instance is known only to RunInstances.
    Hidden,
    /// `pending`.
    Pending,
    /// `stopping`.
    Stopping,
    /// `shutting-down`.
    ShuttingDown,
}

/// A circumstance that a user or AWS causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Circumstance {
    /// A zone has no capacity for [`Place::instance_type`].
    NoCapacity {
        /// The name of the zone.
        zone: String,
    },
    /// Every zone has capacity.
    Capacity,
    /// Instances that are launched from now on are terminated at the end of `pending`. Set while `pending` is held.
    DeathInPending(StateReason),
    /// An instance is protected from termination.
    Protected(String),
    /// EC2's published request limits are enforced, beginning with full buckets.
    Throttling,
}

/// The resources of an account for launches.
#[derive(Clone, Debug)]
pub struct Place {
    /// An image.
    pub image_id: String,
    /// An instance type with capacity.
    pub instance_type: String,
    /// The VPC of all resources except the foreign security group.
    pub vpc_id: String,
    /// The zone of the first two subnets.
    pub zone: String,
    /// A subnet.
    pub subnet_id: String,
    /// Another subnet in the same zone.
    pub subnet_id_beside: String,
    /// A subnet in another zone.
    pub subnet_id_elsewhere: String,
    /// A security group.
    pub security_group_id: String,
    /// A security group of another VPC.
    pub foreign_security_group_id: String,
}

impl Place {
    /// A launch into the first subnet.
    pub fn request(&self, token: &str) -> LaunchRequest {
        LaunchRequest {
            security_group_ids: vec![self.security_group_id.clone()],
            tags: BTreeMap::from([("MachineName".to_owned(), format!("default/{token}"))]),
            user_data: UserData::new(b"#!/bin/sh".to_vec()),
            ..plain_launch(token, &self.image_id, &self.instance_type, &self.subnet_id)
        }
    }
}

/// One statement of EC2's documentation.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The statement.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn Ec2UnderTest) -> Running<'a>,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Deviation>> + Send + 'a>>;

impl Case {
    /// Runs the case in an unused account.
    pub async fn run(&self, ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
        (self.run)(ec2).await
    }
}

macro_rules! cases {
    ($($module:ident { $($name:ident),* $(,)? })*) => {
        /// Every case.
        pub const CASES: &[Case] = &[
            $($(Case { name: stringify!($name), run: |ec2| Box::pin($module::$name(ec2)) },)*)*
        ];
    };
}

cases! {
    launches {
        a_repeated_launch_makes_no_second_instance,
        a_repeated_launch_shows_the_current_state,
        other_parameters_with_a_known_token_are_refused,
        another_zone_is_another_launch,
        tokens_are_case_sensitive,
        a_refused_launch_uses_no_token_up,
        a_known_token_needs_no_capacity,
        the_token_of_a_terminated_instance_launches_nothing,
    }
    refusals {
        references_of_a_launch_must_exist,
        groups_of_another_vpc_are_refused,
        a_token_has_at_most_64_characters,
        user_data_has_at_most_16_kib,
        capacity_is_refused_by_zone,
        requests_beyond_the_limit_are_throttled,
    }
    states {
        an_instance_is_pending_before_it_runs,
        an_instance_may_die_in_pending_and_says_why,
        a_stopped_instance_can_be_started,
        a_terminated_instance_cannot_be_started,
        a_terminated_instance_is_still_shown,
        a_fresh_instance_may_be_hidden_from_describes,
    }
    terminations {
        terminating_twice_is_no_error,
        several_instances_end_in_one_call,
        one_unknown_id_refuses_the_whole_call,
        an_id_of_another_form_is_refused,
        a_hidden_instance_cannot_be_terminated_yet,
        protection_saves_the_instances_of_a_zone,
    }
    hosts {
        a_repeated_allocation_makes_no_second_host,
        a_known_token_takes_no_other_host,
        hosts_are_found_by_the_key_of_a_tag,
        an_occupied_host_is_not_released,
    }
    addresses {
        a_repeated_allocation_makes_a_second_address,
        an_associated_address_is_not_released,
        the_address_of_another_instance_stays_there,
    }
    describes {
        every_filter_must_match,
        instances_are_found_by_their_groups,
        filter_values_mind_the_case_and_take_wildcards,
        an_id_that_is_not_found_is_left_out,
        an_unknown_filter_is_refused,
        a_filter_takes_200_values,
    }
}

/// A deviation of an EC2 from its documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation(String);

impl fmt::Display for Deviation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Deviation {}

impl From<CloudError> for Deviation {
    fn from(error: CloudError) -> Self {
        Self(format!("not expected: {error}"))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "its many callers compare what they have just made")]
fn expect<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Deviation> {
    if found == expected {
        return Ok(());
    }
    Err(Deviation(format!("{what}: expected {expected:?}, found {found:?}")))
}

fn expect_refusal<T: fmt::Debug>(what: &str, result: Result<T, CloudError>, code: &str) -> Result<(), Deviation> {
    let found = result.map_err(|error| error.code.unwrap_or_default());
    match found {
        Err(found) => expect(what, found.as_str(), code),
        Ok(answer) => Err(Deviation(format!("{what}: expected {code}, found {answer:?}"))),
    }
}

/// Launches an instance with a token into the first subnet, and returns its id.
async fn launched(ec2: &dyn Ec2UnderTest, token: &str) -> Result<String, Deviation> {
    Ok(ec2.run_instances(&ec2.place().request(token)).await?.id)
}

/// The ids and states of all instances that a query returns.
async fn shown(ec2: &dyn Ec2UnderTest, query: &Query) -> Result<Vec<(String, InstanceState)>, Deviation> {
    let found = ec2.describe_instances(query).await?;
    let mut found: Vec<_> = found.into_iter().map(|instance| (instance.id, instance.state)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

async fn state(ec2: &dyn Ec2UnderTest, id: &str) -> Result<Option<InstanceState>, Deviation> {
    let found = shown(ec2, &Query::filter("instance-id", [id])).await?;
    Ok(found.first().map(|(_, state)| *state))
}

async fn count(ec2: &dyn Ec2UnderTest) -> Result<usize, Deviation> {
    Ok(shown(ec2, &Query::default()).await?.len())
}

/// The state changes of a call, by instance id.
fn changes(changes: Vec<StateChange>) -> Vec<(String, InstanceState, InstanceState)> {
    let mut changes: Vec<_> =
        changes.into_iter().map(|change| (change.instance_id, change.previous, change.current)).collect();
    changes.sort_by(|one, other| one.0.cmp(&other.0));
    changes
}
