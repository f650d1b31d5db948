//! The session layer: what one identity in one region does to AWS on behalf of machines.
//!
//! Everything that decides is here, without time, calls or tasks of its own: the account check ([`AccountQuery`]), the
//! state of a session ([`SessionState`]), which session follows a machine ([`Owners`]), and whose request rates a
//! session keeps ([`RateLimiter`]). [`MachineSession`] is the one implementation of
//! [`MachineCloud`](crate::MachineCloud) over it. Three programs drive it, each by its own [`SessionDriver`]: the crate
//! `aws` (SDK, real time), the simulation (a scheduler), and the double of the controllers' tests (answers at once).

mod account;
mod calls;
mod machine;
mod moment;
mod owners;
mod rates;
mod state;
#[cfg(test)]
mod tests;

pub use account::{AccountCache, AccountQuery, AccountStep};
pub use calls::{EndedCall, InformerCalls, SessionCall, SessionReport, perform};
pub use machine::{MachineSession, SessionDriver, confirmed_account};
pub use moment::Moment;
pub use owners::Owners;
pub use rates::{Permit, RateLimiter, RateLimits};
pub use state::{SessionKey, SessionState};
