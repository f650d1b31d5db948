//! The tests against the local world, in one binary.

mod aws;
mod stories;
