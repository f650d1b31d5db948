//! The load balancer targets of a control plane machine: its instance is registered while it runs, and deregistered
//! before it is terminated.

mod conditions;
mod drive;
mod plan;

pub(super) use drive::{ensure_deregistered, follow, leave_alone};
