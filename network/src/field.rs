//! The fields of the network contract. The whole value of a field comes from one source.

use strum::VariantArray;

use crate::Trust;

/// A field of the network contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, VariantArray)]
pub enum Field {
    /// AWS region.
    Region,
    /// Subnets.
    Subnets,
    /// Security groups of all machines.
    SecurityGroupsAll,
    /// Security groups of control plane machines.
    SecurityGroupsControlPlane,
    /// Security groups of workers.
    SecurityGroupsWorker,
    /// VPC.
    Vpc,
    /// AWS tags of instances.
    AdditionalTags,
    /// Cluster name in AWS tags.
    ClusterTag,
    /// EC2 key pair.
    SshKeyName,
    /// Image lookup.
    ImageLookup,
    /// Load balancer targets of control plane machines.
    ControlPlaneTargets,
    /// Identity.
    IdentityRef,
    /// IAM instance profiles.
    InstanceProfiles,
    /// Storage for bootstrap data.
    BootstrapStorage,
}

impl Field {
    /// Path of the field in the contract, for example `securityGroups.all`.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Subnets => "subnets",
            Self::SecurityGroupsAll => "securityGroups.all",
            Self::SecurityGroupsControlPlane => "securityGroups.controlPlane",
            Self::SecurityGroupsWorker => "securityGroups.worker",
            Self::Vpc => "vpc",
            Self::AdditionalTags => "additionalTags",
            Self::ClusterTag => "clusterTag",
            Self::SshKeyName => "sshKeyName",
            Self::ImageLookup => "imageLookup",
            Self::ControlPlaneTargets => "controlPlaneTargets",
            Self::IdentityRef => "identityRef",
            Self::InstanceProfiles => "instanceProfiles",
            Self::BootstrapStorage => "bootstrapStorage",
        }
    }

    /// Whether only trusted sources may supply the field.
    pub const fn is_authority(self) -> bool {
        matches!(self, Self::ControlPlaneTargets | Self::IdentityRef | Self::InstanceProfiles | Self::BootstrapStorage)
    }

    /// The fields that a source of this trust may supply.
    pub fn allowed(trust: Trust) -> Vec<Self> {
        let fields = Self::VARIANTS.iter().copied();
        fields.filter(|field| trust == Trust::Authority || !field.is_authority()).collect()
    }
}
