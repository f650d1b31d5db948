//! Facts and rules that decide whether an API server can be a member of a fleet engine.

mod api_server;
mod facts;
mod karmada;
mod rules;
mod verdict;
mod workload;

pub use facts::{MemberFacts, Nodes, Reached, Read, Resource, User};
pub use rules::member_rules;
