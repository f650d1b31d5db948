//! The shipped reconcilers under a seeded scheduler of our own: simulated time, an API server and EC2 in memory, and
//! faults at every call. One seed is one history, and replays exactly.
//!
//! [`history::run`] plays a seed, [`sweep`] every fault at every call of one machine's life, [`campaign`] many of them,
//! [`fleet`] brings many machines up at once, and [`soak`] lets many objects come and go.

mod address_rules;
mod aws;
mod calls;
pub mod campaign;
mod clouds;
mod core;
pub mod coverage;
pub mod faults;
pub mod fleet;
mod follow_up;
pub mod history;
mod host_rules;
mod invariants;
mod management_cluster;
mod manager;
mod names;
mod nodes;
mod objects;
mod outside;
mod passes;
mod process;
mod server;
mod simulation;
pub mod soak;
pub mod sweep;
mod time;
mod trace;
