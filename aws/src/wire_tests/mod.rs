//! The adapter over the wire, against a server that a test scripts.

mod actions;
mod calls;
mod checks;
mod credentials;
mod elastic_ip;
mod error_codes;
mod fake;
mod fleet;
mod following;
mod hosts;
mod known_details;
mod launches;
mod limits;
mod managed;
mod replacements;
mod secrets;
mod targets;
mod templates;
mod updates;
mod zones;
