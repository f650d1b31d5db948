//! The rows of the table for the networks and load balancers of managed clusters, with their grants: a document of its
//! own, because IAM limits the length of a policy.

use super::grants::READ;
use super::table::{change, describe, load_balancing};
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

/// Without VPCs: nothing says that AWS leaves the tags of the request out when it judges the VPC of a new subnet. And
/// without listeners: AWS judges the creation of one by the load balancer, which has to be the cluster's.
const CREATE: Grant = Grant {
    name: "CreateInNetworks",
    resources: Resources::Arns(&[
        "ec2:*:*:subnet/*",
        "ec2:*:*:internet-gateway/*",
        "ec2:*:*:elastic-ip/*",
        "ec2:*:*:route-table/*",
        "ec2:*:*:security-group/*",
        "elasticloadbalancing:*:*:loadbalancer/*",
        "elasticloadbalancing:*:*:targetgroup/*/*",
    ]),
    condition: Condition::NetworkAtCreation,
};

/// A grant of its own: the tags of the request are no reason to use a foreign subnet or address.
const CREATE_NAT_GATEWAYS: Grant = Grant {
    name: "CreateNatGateways",
    resources: Resources::Arns(&["ec2:*:*:natgateway/*"]),
    condition: Condition::NetworkAtCreation,
};

/// The VPC in which a subnet, a route table or a security group is created, and what a NAT gateway is created with, for
/// which AWS's reference names the VPC as well. One grant for all of them: the length of the policy is limited.
const CREATE_IN: Grant = Grant {
    name: "CreateInVpcs",
    resources: Resources::Arns(&["ec2:*:*:vpc/*", "ec2:*:*:subnet/*", "ec2:*:*:elastic-ip/*"]),
    condition: Condition::Network,
};

/// What has no tags yet is tagged within the call that creates it only: `CreateTags` by itself could make foreign
/// resources those of a cluster.
const TAG: Grant = Grant {
    name: "TagWhatIsCreated",
    resources: NETWORKS,
    condition: Condition::Within {
        service: "ec2",
        actions: CREATING,
    },
};

/// The actions that create a resource of Elastic Load Balancing with its tags.
const CREATING_BALANCERS: &[&str] = &["CreateLoadBalancer", "CreateTargetGroup", "CreateListener"];

/// What has no tags yet is tagged within the call that creates it only, as in [`TAG`]: on what may be created.
const TAG_BALANCERS: Grant = Grant {
    name: "TagLoadBalancers",
    resources: Resources::Arns(&["elasticloadbalancing:*:*:*"]),
    condition: Condition::Within {
        service: "elasticloadbalancing",
        actions: CREATING_BALANCERS,
    },
};

/// Networks, and whatever belongs to load balancers.
const OWNED: Resources = Resources::Arns(&[
    "ec2:*:*:vpc/*",
    "ec2:*:*:subnet/*",
    "ec2:*:*:internet-gateway/*",
    "ec2:*:*:elastic-ip/*",
    "ec2:*:*:natgateway/*",
    "ec2:*:*:route-table/*",
    "ec2:*:*:security-group/*",
    "elasticloadbalancing:*:*:*",
]);

/// One statement for both services, because IAM limits the length of a policy. Each action applies to one or two types
/// of resources, all of which need the tag. The actions of associations apply to the subnet and to the route table,
/// those of routes to the table alone, and those of rules to the security group that has the rules: not to a group that
/// is the source of one.
const CHANGE: Grant = Grant {
    name: "ChangeOwned",
    resources: OWNED,
    condition: Condition::Network,
};

/// Tags of networks and load balancers, but for those that say whose a resource is.
const CHANGE_TAGS: Grant = Grant {
    name: "ChangeTagsOfOwned",
    resources: OWNED,
    condition: Condition::NetworkForOtherTags,
};

/// What the cluster uses of the account. The role is the one with which Elastic Load Balancing works: AWS gives it this
/// name in each account, and makes it with the first load balancer. Addresses come from public IPv4 pools of the user.
/// One statement for both, because IAM limits the length of a policy; each action applies to one of the two.
const USE_OF_ACCOUNT: Grant = Grant {
    name: "UseOfAccount",
    resources: Resources::Arns(&[
        "iam::*:role/aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing",
        "ec2:*:*:ipv4pool-ec2/*",
    ]),
    condition: Condition::Always,
};

/// A describe action of Elastic Load Balancing. None of these actions can be restricted to single resources.
const fn describe_balancers(name: &'static str, why: &'static str) -> Action {
    load_balancing(name, AccessLevel::Read, &[READ], why)
}

/// An action of Elastic Load Balancing that changes or ends what the cluster owns.
const fn change_balancers(name: &'static str, why: &'static str) -> Action {
    load_balancing(name, AccessLevel::Write, &[CHANGE], why)
}

/// The permissions for the networks and load balancers of managed clusters, beside [`ACTIONS`](super::ACTIONS). Some of
/// them are in both tables, because a policy for one cluster may lack them.
pub const MANAGED_ACTIONS: &[Action] = &[
    describe("DescribeAvailabilityZones", "chooses the zones of subnets"),
    describe(
        "DescribeInternetGateways",
        "finds the internet gateway of the VPC, and one that is not attached yet",
    ),
    describe("DescribeVpcAttribute", "sees the DNS settings of the VPC"),
    describe(
        "DescribeAddresses",
        "finds the addresses of NAT gateways and load balancers",
    ),
    describe(
        "DescribePublicIpv4Pools",
        "sees whether the pool of the cluster has free addresses",
    ),
    describe("DescribeNatGateways", "finds the NAT gateways of the VPC"),
    describe("DescribeRouteTables", "finds the route tables of the VPC"),
    describe("DescribeSecurityGroups", "finds the security groups of the VPC"),
    change("CreateVpc", &[CREATE_VPCS], "makes the VPC"),
    change(
        "ModifyVpcAttribute",
        &[CHANGE],
        "switches on the DNS support and the host names of the VPC",
    ),
    change(
        "AssociateVpcCidrBlock",
        &[CHANGE],
        "adds the ranges of secondaryCidrBlocks to the VPC",
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
        &[CREATE, USE_OF_ACCOUNT],
        "allocates the addresses of NAT gateways, and of load balancers whose addresses are from a pool",
    ),
    change("ReleaseAddress", &[CHANGE], "releases them when the cluster is deleted"),
    change(
        "CreateNatGateway",
        &[CREATE_NAT_GATEWAYS, CREATE_IN],
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
        "RevokeSecurityGroupEgress",
        &[CHANGE],
        "empties the default security group, where the spec asks for it",
    ),
    change(
        "DeleteSecurityGroup",
        &[CHANGE],
        "deletes the security groups with the cluster",
    ),
    Action {
        access: AccessLevel::Tagging,
        ..change(
            "CreateTags",
            &[TAG, CHANGE_TAGS],
            "tags what is created as the cluster's, and changes tags when additionalTags change",
        )
    },
    Action {
        access: AccessLevel::Tagging,
        ..change(
            "DeleteTags",
            &[CHANGE_TAGS],
            "removes tags that additionalTags no longer has",
        )
    },
    describe_balancers("DescribeLoadBalancers", "finds the load balancers in the VPC"),
    describe_balancers(
        "DescribeLoadBalancerAttributes",
        "sees the settings of the cluster's load balancers",
    ),
    describe_balancers("DescribeTargetGroups", "finds the target groups of the VPC"),
    describe_balancers(
        "DescribeTargetGroupAttributes",
        "sees the settings of the cluster's target groups",
    ),
    describe_balancers(
        "DescribeListeners",
        "finds the listeners of the cluster's load balancers",
    ),
    describe_balancers(
        "DescribeTags",
        "sees whose the load balancers, target groups and listeners are",
    ),
    load_balancing(
        "CreateLoadBalancer",
        AccessLevel::Write,
        &[CREATE],
        "makes the load balancers of the Kubernetes API",
    ),
    change_balancers(
        "ModifyLoadBalancerAttributes",
        "sets whether a load balancer connects to all zones, and how long idle connections live",
    ),
    change_balancers("SetSubnets", "gives load balancers further subnets"),
    change_balancers(
        "SetSecurityGroups",
        "gives load balancers the security groups that the spec asks for",
    ),
    change_balancers(
        "AttachLoadBalancerToSubnets",
        "gives Classic Load Balancers further subnets",
    ),
    change_balancers(
        "ApplySecurityGroupsToLoadBalancer",
        "gives Classic Load Balancers the security groups that the spec asks for",
    ),
    change_balancers(
        "ConfigureHealthCheck",
        "sets and corrects the health checks of Classic Load Balancers",
    ),
    change_balancers(
        "CreateLoadBalancerListeners",
        "makes the further listeners of Classic Load Balancers",
    ),
    change_balancers("DeleteLoadBalancer", "deletes the load balancers with the cluster"),
    load_balancing(
        "CreateTargetGroup",
        AccessLevel::Write,
        &[CREATE],
        "makes a target group for each port of a load balancer",
    ),
    change_balancers("ModifyTargetGroup", "corrects the health checks of target groups"),
    change_balancers(
        "ModifyTargetGroupAttributes",
        "sets whether targets see the addresses of clients",
    ),
    change_balancers("DeleteTargetGroup", "deletes the target groups with the cluster"),
    change_balancers("CreateListener", "makes the listeners of the cluster's load balancers"),
    change_balancers(
        "ModifyListener",
        "corrects listeners that forward to another target group",
    ),
    change_balancers("DeleteListener", "deletes listeners that the spec no longer asks for"),
    load_balancing(
        "AddTags",
        AccessLevel::Tagging,
        &[TAG_BALANCERS, CHANGE_TAGS],
        "tags what is created as the cluster's, and changes tags when additionalTags change",
    ),
    load_balancing(
        "RemoveTags",
        AccessLevel::Tagging,
        &[CHANGE_TAGS],
        "removes tags that additionalTags no longer has",
    ),
    Action {
        service: "iam",
        name: "CreateServiceLinkedRole",
        access: AccessLevel::Write,
        asked: Asked::Within(&["CreateLoadBalancer"]),
        grants: &[USE_OF_ACCOUNT],
        why: "makes the role of Elastic Load Balancing with the first load balancer of an account",
    },
];
