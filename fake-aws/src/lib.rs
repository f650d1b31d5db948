//! An AWS account in memory, for tests of managed clusters: EC2's rules for the resources that a managed cluster makes,
//! a clock that the test moves, and faults at chosen calls. Nothing here uses real time or chance, so the same calls
//! give the same answers and ids.
//!
//! A test holds a [`FakeAccount`], and gives clones of it to the reconciler as
//! [`ManagedCloud`](capa_cloud::managed::ManagedCloud). The test sets what EC2 does not define with a [`Behaviour`],
//! plans a [`Fault`] for single calls, and compares what two runs leave behind by their [`Contents`].
//!
//! Each resource has a file with the same name as in [`capa_cloud::ec2`]; Elastic IPs have one of their own.

mod account;
mod behaviour;
mod contents;
mod ec2;
mod faults;
mod journal;
mod managed;
mod setup;
#[cfg(test)]
mod tests;

pub use account::FakeAccount;
pub use behaviour::Behaviour;
pub use contents::{
    AddressContents, Contents, NatGatewayContents, RouteTableContents, RuleContents, SecurityGroupContents,
    SubnetContents, VpcContents,
};
pub use faults::Fault;
pub use journal::Entry;
