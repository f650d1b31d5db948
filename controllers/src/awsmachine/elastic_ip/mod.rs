//! The Elastic IP of a machine with `spec.elasticIpPool`: recorded before the call, allocated once the instance runs,
//! associated with it, released after the instance is gone.

mod associate;
mod ownership;
mod plan;
mod release;

pub(in crate::awsmachine) use associate::{ensure_associated, recover};
pub(in crate::awsmachine) use release::release_all;
