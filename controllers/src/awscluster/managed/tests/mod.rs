//! Tests of the reconciler of managed AWSClusters over AWS in memory.

mod creation;
mod deletion;
mod drift;
mod fields;
mod guards;
mod properties;
mod sweep;
mod world;
