//! The session layer: the AWS access of one identity in one region on behalf of machines.
//!
//! This module contains all decisions, and has no clock, calls or tasks: the account check ([`AccountQuery`]), the
//! state of a session ([`SessionState`]), the session that follows each machine ([`SessionAssignments`]), and the
//! request rates of a session ([`RateLimiter`]). [`MachineSession`] implements [`MachineCloud`](crate::MachineCloud) on
//! top of these types. Three programs use the session layer, each with its own [`SessionDriver`]: the crate `aws` (SDK,
//! real time), the simulation (a scheduler), and the double of the controllers' tests (immediate answers).

mod account;
mod assignments;
mod calls;
mod machine;
mod moment;
mod rates;
mod state;
#[cfg(test)]
mod tests;

pub use account::{AccountCache, AccountQuery, AccountStep};
pub use assignments::SessionAssignments;
pub use calls::{EndedCall, InformerCalls, SessionCall, SessionReport, perform};
pub use machine::{MachineSession, SessionDriver, confirmed_account};
pub use moment::Moment;
pub use rates::{Permit, RateLimiter, RateLimits};
pub use state::{SessionKey, SessionState};
