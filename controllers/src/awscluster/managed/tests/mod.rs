//! Tests of the reconciler of managed AWSClusters over AWS in memory.

mod address_pools;
mod balancers;
mod both_generations;
mod brought;
mod brought_changes;
mod cidr_blocks;
mod classic_load_balancers;
mod creation;
mod default_security_group;
mod deletion;
mod drift;
mod fields;
mod guards;
mod ingress;
mod load_balancer_changes;
mod load_balancers;
mod nat_gateways;
mod preview;
mod properties;
mod route_tables;
mod security_groups;
mod sweep;
mod tags;
mod takeover;
mod world;

pub(crate) use world::World;
