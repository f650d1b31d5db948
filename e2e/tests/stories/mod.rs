//! One file per subject.

mod lifetime;
mod world;
