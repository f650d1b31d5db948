//! One file per subject.

mod lifetime;
mod machine_deployment;
mod manager;
mod scenario;
mod world;
