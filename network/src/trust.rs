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
