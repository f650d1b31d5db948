//! The deletion flow: from a deleted AWSMachine to a terminated instance. It ends, or says what holds it up.

pub(super) mod abandon;
mod allocation;
mod drive;
mod merged;
mod plan;
mod planned;
mod search;

pub(super) use allocation::Allocation;
pub(super) use drive::{Ended, abandoned, end_instance, moved, release, report_unowned};
pub(super) use merged::merged;
pub(super) use search::{Found, find, was_never_asked};
