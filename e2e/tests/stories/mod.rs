//! One file per subject.

mod lifetime;
mod manager;
mod world;
