//! The Dedicated Host that is allocated for a machine: recorded before the call, allocated before the launch, released
//! after the instance is gone.

mod allocate;
mod ownership;
mod plan;
mod record;
mod recover;
mod release;

pub(in crate::awsmachine) use allocate::{WantedHost, give_up, place_on_host};
pub(in crate::awsmachine) use plan::zone_of_host;
pub(in crate::awsmachine) use recover::recover;
pub(in crate::awsmachine) use release::release_all;
