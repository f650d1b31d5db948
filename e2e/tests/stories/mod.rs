//! One file per subject.

#![allow(clippy::indexing_slicing, reason = "a helper of tests may panic as they may")]

mod api;
mod cluster_modes;
mod identities;
mod lifetime;
mod machine_deployment;
mod manager;
mod permissions;
mod scenario;
mod unmanaged;
mod world;
mod wrong_input;
