//! The kinds that may supply authority fields.

use capa_api::meta::GROUP;

/// The trust of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The source may supply only placement: region, subnets, security groups, VPC, tags, cluster tag, key pair, image
    /// lookup.
    Placement,
    /// The source may also supply authority: identity, instance profiles, bootstrap storage, control plane targets.
    Authority,
}

/// The kinds whose objects may define the authority of a machine. With other kinds, any user who may create objects in
/// a namespace could select a role, an instance profile, or the bucket that receives certificate keys.
const AUTHORITIES: [(&str, &str); 2] = [(GROUP, "AWSMachine"), (GROUP, "AWSCluster")];

/// The default trust of a kind; an administrator's mapping can raise it.
pub fn trust_of(group: &str, kind: &str) -> Trust {
    if AUTHORITIES.contains(&(group, kind)) { Trust::Authority } else { Trust::Placement }
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
