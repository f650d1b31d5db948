//! The reconcilers, one room a kind, and the Kubernetes side they stand on.
//!
//! Nothing here names the AWS SDK: reconcilers see AWS through `capa_cloud`'s traits.

pub mod awscluster;
pub mod awsmachine;
pub mod awsmachinetemplate;
pub mod identity;
pub mod kubernetes;
pub mod kubernetes_api;
pub mod orphans;
mod resync;
mod retry;
mod tags;
#[cfg(test)]
mod testing;
mod transitions;
