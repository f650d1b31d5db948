//! The AWS objects that requirements are about.

use std::fmt;

use serde::Serialize;
use strum::Display;

/// An object of AWS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// Kind.
    pub kind: Kind,
    /// Id or name in AWS if the cluster names the object; otherwise its name in this list, for example `private-1`.
    pub name: String,
    /// Whether the cluster names the object or every account has it. Otherwise, the object has to be created.
    pub exists: bool,
}

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Display)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// The account of AWS with its credentials and quotas.
    #[strum(serialize = "account")]
    Account,
    /// A VPC.
    #[strum(serialize = "VPC")]
    Vpc,
    /// A subnet.
    #[strum(serialize = "subnet")]
    Subnet,
    /// An internet gateway.
    #[strum(serialize = "internet gateway")]
    InternetGateway,
    /// A NAT gateway.
    #[strum(serialize = "NAT gateway")]
    NatGateway,
    /// A name in the DNS.
    #[strum(serialize = "DNS name")]
    DnsName,
    /// A security group.
    #[strum(serialize = "security group")]
    SecurityGroup,
    /// A target group.
    #[strum(serialize = "target group")]
    TargetGroup,
    /// A load balancer.
    #[strum(serialize = "load balancer")]
    LoadBalancer,
    /// An image.
    #[strum(serialize = "image")]
    Image,
    /// An instance type.
    #[strum(serialize = "instance type")]
    InstanceType,
    /// A key pair.
    #[strum(serialize = "key pair")]
    KeyPair,
    /// An instance profile.
    #[strum(serialize = "instance profile")]
    InstanceProfile,
    /// A key of KMS.
    #[strum(serialize = "encryption key")]
    EncryptionKey,
    /// A bucket of S3.
    #[strum(serialize = "bucket")]
    Bucket,
    /// A placement group.
    #[strum(serialize = "placement group")]
    PlacementGroup,
    /// A capacity reservation.
    #[strum(serialize = "capacity reservation")]
    CapacityReservation,
    /// A dedicated host.
    #[strum(serialize = "dedicated host")]
    DedicatedHost,
    /// A role that a service of AWS uses.
    #[strum(serialize = "service-linked role")]
    ServiceLinkedRole,
}

impl Object {
    pub(super) fn existing(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), exists: true }
    }

    pub(super) fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), exists: false }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
