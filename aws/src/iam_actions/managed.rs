//! The rows of the table for the networks of managed clusters, with their grants: a document of its own, because IAM
//! limits the length of a policy.

use super::table::{change, describe};
use super::{AccessLevel, Action, Asked, Condition, Grant, Resources};

/// The actions that create a resource with its tags.
const CREATING: &[&str] = &[
    "CreateVpc",
    "CreateSubnet",
    "CreateInternetGateway",
    "AllocateAddress",
    "CreateNatGateway",
    "CreateRouteTable",
    "CreateSecurityGroup",
];

/// What networks consist of.
const NETWORKS: Resources = Resources::Arns(&[
    "ec2:*:*:vpc/*",
    "ec2:*:*:subnet/*",
    "ec2:*:*:internet-gateway/*",
    "ec2:*:*:elastic-ip/*",
    "ec2:*:*:natgateway/*",
    "ec2:*:*:route-table/*",
    "ec2:*:*:security-group/*",
]);

const CREATE_VPCS: Grant = Grant {
    name: "CreateVpcs",
    resources: Resources::Arns(&["ec2:*:*:vpc/*"]),
    condition: Condition::NetworkAtCreation,
};

/// Without VPCs: nothing says that AWS leaves the tags of the request out when it judges the VPC of a new subnet.
const CREATE: Grant = Grant {
    name: "CreatePartsOfVpcs",
    resources: Resources::Arns(&[
        "ec2:*:*:subnet/*",
        "ec2:*:*:internet-gateway/*",
        "ec2:*:*:elastic-ip/*",
        "ec2:*:*:route-table/*",
        "ec2:*:*:security-group/*",
    ]),
    condition: Condition::NetworkAtCreation,
};

/// A grant of its own: the tags of the request are no reason to use a foreign subnet or address.
const CREATE_NAT_GATEWAYS: Grant = Grant {
    name: "CreateNatGateways",
    resources: Resources::Arns(&["ec2:*:*:natgateway/*"]),
    condition: Condition::NetworkAtCreation,
};

/// The VPC in which a subnet, a route table or a security group is created.
const CREATE_IN: Grant = Grant {
    name: "CreateInVpcs",
    resources: Resources::Arns(&["ec2:*:*:vpc/*"]),
    condition: Condition::Network,
};

/// What a NAT gateway is created with. AWS's reference names the VPC as well.
const CREATE_NAT_GATEWAYS_WITH: Grant = Grant {
    name: "CreateNatGatewaysWith",
    resources: Resources::Arns(&["ec2:*:*:vpc/*", "ec2:*:*:subnet/*", "ec2:*:*:elastic-ip/*"]),
    condition: Condition::Network,
};

/// Tags are written within the call that creates a resource only: `CreateTags` by itself could make foreign resources
/// those of a cluster.
const TAG: Grant = Grant {
    name: "TagWhatIsCreated",
    resources: NETWORKS,
    condition: Condition::Within(CREATING),
};

/// Each action applies to one or two types of resources, all of which need the tag. The actions of associations apply
/// to the subnet and to the route table, those of routes to the table alone, and those of rules to the security group
/// that has the rules: not to a group that is the source of one.
const CHANGE: Grant = Grant {
    name: "ChangeNetworks",
    resources: NETWORKS,
    condition: Condition::Network,
};

/// The permissions for the networks of managed clusters, beside [`ACTIONS`](super::ACTIONS). Some of them are in both
/// tables, because a policy for one cluster may lack them.
pub const MANAGED_ACTIONS: &[Action] = &[
    describe("DescribeAvailabilityZones", "chooses the zones of subnets"),
    describe(
        "DescribeInternetGateways",
        "finds the internet gateway of the VPC, and one that is not attached yet",
    ),
    describe("DescribeVpcAttribute", "sees the DNS settings of the VPC"),
    describe("DescribeAddresses", "finds the addresses of the NAT gateways"),
    describe("DescribeNatGateways", "finds the NAT gateways of the VPC"),
    describe("DescribeRouteTables", "finds the route tables of the VPC"),
    describe("DescribeSecurityGroups", "finds the security groups of the VPC"),
    change("CreateVpc", &[CREATE_VPCS], "makes the VPC"),
    change(
        "ModifyVpcAttribute",
        &[CHANGE],
        "switches on the DNS support and the host names of the VPC",
    ),
    change("DeleteVpc", &[CHANGE], "deletes the VPC with the cluster"),
    change("CreateSubnet", &[CREATE, CREATE_IN], "makes subnets in the VPC"),
    change(
        "ModifySubnetAttribute",
        &[CHANGE],
        "sets whether instances in a subnet get public addresses, and the form of their host names",
    ),
    change("DeleteSubnet", &[CHANGE], "deletes the subnets with the cluster"),
    change("CreateInternetGateway", &[CREATE], "makes the internet gateway"),
    change("AttachInternetGateway", &[CHANGE], "attaches it to the VPC"),
    change(
        "DetachInternetGateway",
        &[CHANGE],
        "detaches it when the cluster is deleted",
    ),
    change("DeleteInternetGateway", &[CHANGE], "deletes it with the cluster"),
    change(
        "AllocateAddress",
        &[CREATE],
        "allocates the addresses of the NAT gateways",
    ),
    change("ReleaseAddress", &[CHANGE], "releases them when the cluster is deleted"),
    change(
        "CreateNatGateway",
        &[CREATE_NAT_GATEWAYS, CREATE_NAT_GATEWAYS_WITH],
        "makes NAT gateways in public subnets",
    ),
    change("DeleteNatGateway", &[CHANGE], "deletes them with the cluster"),
    change(
        "CreateRouteTable",
        &[CREATE, CREATE_IN],
        "makes route tables in the VPC",
    ),
    change("CreateRoute", &[CHANGE], "routes subnets to the gateways"),
    change(
        "ReplaceRoute",
        &[CHANGE],
        "corrects routes that lead elsewhere, for example to a NAT gateway that is gone",
    ),
    change("AssociateRouteTable", &[CHANGE], "gives subnets their route tables"),
    change(
        "ReplaceRouteTableAssociation",
        &[CHANGE],
        "gives subnets that have another route table their own",
    ),
    change(
        "DisassociateRouteTable",
        &[CHANGE],
        "takes the route tables from the subnets when the cluster is deleted",
    ),
    change(
        "DeleteRouteTable",
        &[CHANGE],
        "deletes the route tables with the cluster",
    ),
    change(
        "CreateSecurityGroup",
        &[CREATE, CREATE_IN],
        "makes security groups in the VPC",
    ),
    change(
        "AuthorizeSecurityGroupIngress",
        &[CHANGE],
        "adds the rules for incoming traffic that the spec asks for",
    ),
    change(
        "RevokeSecurityGroupIngress",
        &[CHANGE],
        "removes other rules, and those that keep groups from being deleted",
    ),
    change(
        "DeleteSecurityGroup",
        &[CHANGE],
        "deletes the security groups with the cluster",
    ),
    Action {
        access: AccessLevel::Tagging,
        asked: Asked::Within(CREATING),
        ..change("CreateTags", &[TAG], "tags what is created as the cluster's")
    },
];
