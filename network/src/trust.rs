//! Which kinds may supply authority fields.

use capa_api::meta::GROUP;

/// How far a source is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Only placement: region, subnets, groups, VPC, tags, image, key.
    Placement,
    /// Also authority: identity, instance profiles, bootstrap storage, control plane targets.
    Authority,
}

/// Kinds whose objects may say with whose authority a machine acts. Everybody who may create an object of another kind
/// in a namespace could otherwise pick a role, an instance profile, or the bucket that receives certificate keys.
const AUTHORITIES: [(&str, &str); 2] = [(GROUP, "AWSMachine"), (GROUP, "AWSCluster")];

/// The trust that a kind has by itself; an administrator's mapping can raise it.
pub fn trust_of(group: &str, kind: &str) -> Trust {
    if AUTHORITIES.contains(&(group, kind)) {
        Trust::Authority
    } else {
        Trust::Placement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_kinds_hold_authority() {
        assert_eq!(trust_of(GROUP, "AWSCluster"), Trust::Authority);
        assert_eq!(trust_of(GROUP, "AWSMachine"), Trust::Authority);
        assert_eq!(trust_of("example.org", "AWSCluster"), Trust::Placement);
        assert_eq!(trust_of("", "ConfigMap"), Trust::Placement);
    }
}
