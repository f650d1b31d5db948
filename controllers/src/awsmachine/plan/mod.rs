//! Decides. Pure: what is recorded, known and seen goes in, the next step comes out.

mod adoption;
mod deletion;
mod ending;
mod launch;
#[cfg(test)]
mod tests;

pub(super) use adoption::{Adoption, adopt};
pub(super) use deletion::{DeletionStep, delete, has_ended};
pub(super) use ending::{Ending, ended_before_running};
pub(super) use launch::{Attempt, LaunchPlan, LookUp, Progress, Search, Then, is_fresh, launch};
