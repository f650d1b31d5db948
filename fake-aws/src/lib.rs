//! AWS in memory, for tests and the simulation. Nothing here uses real time or chance, so the same calls give the same
//! answers and ids.
//!
//! A [`FakeAccount`] is one region of an account: the rules of EC2 and Elastic Load Balancing for VPCs with what is in
//! them, for images, Elastic IPs and load balancers, with a clock. Each resource has a file with the same name as in
//! [`capa_cloud::ec2`] or [`capa_cloud::elb`]. The test sets what AWS does not define with a [`Behaviour`].
//!
//! Two kinds of callers use it. For managed clusters it is the [`ManagedCloud`](capa_cloud::managed::ManagedCloud): the
//! test plans a [`Fault`] for single calls, and compares what two runs leave behind by their [`Contents`]. For machines
//! and lookups, [`machines`] adds instances, hosts and secrets, access keys and the sessions of a process.

mod account;
mod behaviour;
mod contents;
mod ec2;
mod elb;
mod faults;
mod filters;
mod journal;
pub mod machines;
mod managed;
mod setup;
#[cfg(test)]
mod tests;

pub use account::FakeAccount;
pub use behaviour::{Behaviour, RepeatedAfterTermination};
pub use contents::{
    AddressContents, ClassicLoadBalancerContents, Contents, HealthCheckContents, ListenerContents,
    LoadBalancerContents, NatGatewayContents, RouteTableContents, RuleContents, SecurityGroupContents, SubnetContents,
    TargetGroupContents, VpcContents,
};
pub use ec2::PublishedImage;
pub use faults::Fault;
pub use journal::Entry;
