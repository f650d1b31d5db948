//! One file per subject.

mod claimed_instances;
mod deletion;
mod launch;
mod lifetime;
mod machine_deployment;
mod machines;
mod manager;
mod paused_machines;
mod placement;
mod restart;
mod scenario;
mod scope;
mod terminated;
mod waits;
mod world;
