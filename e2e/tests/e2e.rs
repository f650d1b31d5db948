//! The tests against the local world, in one binary.

#![allow(
    clippy::indexing_slicing,
    reason = "all of this is test code, where a panic is a failed test with a place and a reason"
)]

mod aws;
mod stories;
