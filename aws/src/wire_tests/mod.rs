//! Tests of the calls over the wire, against a server with scripted answers.

mod actions;
mod calls;
mod checks;
mod credentials;
mod elastic_ip;
mod error_codes;
mod fake;
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
