//! Facts for tests.

use capa_cloud::ec2::security_group::{Rule, Source, Traffic};

/// A rule of a security group.
pub(crate) fn rule(protocol: &str, ports: Option<(i32, i32)>, source: Source<String>) -> Rule<String> {
    Rule {
        traffic: Traffic {
            protocol: protocol.to_owned(),
            ports,
        },
        source,
        description: String::new(),
    }
}
