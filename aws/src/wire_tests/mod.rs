//! Tests of the calls over the wire, against a server with scripted answers.

mod actions;
mod calls;
mod checks;
mod classic_load_balancers;
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
mod load_balancers;
mod managed;
mod managed_tags;
mod nat_gateways;
mod replacements;
mod route_tables;
mod secrets;
mod security_groups;
mod targets;
mod templates;
mod updates;
mod zones;
