//! AWS in memory, for tests and the simulation. Nothing here uses real time or chance, so the same calls give the same
//! answers and ids.
//!
//! For managed clusters there is an account: the rules of EC2 and Elastic Load Balancing for the resources that a
//! managed cluster makes, a clock that the test moves, and faults at chosen calls.
//!
//! A test holds a [`FakeAccount`], and gives clones of it to the reconciler as
//! [`ManagedCloud`](capa_cloud::managed::ManagedCloud). The test sets what AWS does not define with a [`Behaviour`],
//! plans a [`Fault`] for single calls, and compares what two runs leave behind by their [`Contents`].
//!
//! What machines and brought infrastructure meet is in [`machines`]: instances with their sessions, Dedicated Hosts,
//! secrets, targets and lookups, in accounts of their own.
//!
//! Each resource has a file with the same name as in [`capa_cloud::ec2`] or [`capa_cloud::elb`]; Elastic IPs and the
//! interfaces of load balancers have one each of their own.

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
