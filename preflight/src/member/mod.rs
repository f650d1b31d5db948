//! Whether an API server can be a member of a fleet engine: what was read from it, and the rules.

mod facts;
mod rules;

pub use facts::{MemberFacts, Reached, Read, Resource, User};
pub use rules::member_rules;
