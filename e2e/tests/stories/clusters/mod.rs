//! Whole clusters: nodes that join, scale, roll, heal and go away.

mod bootstrap_data;
mod capacity;
mod deletion;
mod growth;
mod healing;
mod hosted;
mod managed;
mod neighbours;
mod resilience;
mod rollout;
mod topology;
pub(crate) mod whole;
