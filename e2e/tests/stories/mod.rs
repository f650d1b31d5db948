//! One file per subject.

mod deletion;
mod launch;
mod lifetime;
mod machine_deployment;
mod machines;
mod manager;
mod placement;
mod scenario;
mod terminated;
mod waits;
mod world;
