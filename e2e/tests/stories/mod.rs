//! One file per subject.

mod api;
mod claimed_instances;
mod cluster_modes;
mod clusterless;
mod deletion;
mod fleet;
mod foreign_kind;
mod identities;
mod launch;
mod lifetime;
mod machine_deployment;
mod machines;
mod malformed;
mod manager;
mod paused_machines;
mod permissions;
mod placement;
mod restart;
mod scenario;
mod scope;
mod templates;
mod terminated;
mod unmanaged;
mod waits;
mod world;
mod wrong_input;
