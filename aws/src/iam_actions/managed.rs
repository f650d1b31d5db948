//! The rows of the table for the networks and load balancers of managed clusters, with their grants. They form a
//! separate policy, because IAM limits the length of a policy.

use super::grants::READ;
use super::table::{change, describe, load_balancing};
use super::{AccessLevel, Action, CheckedBy, Condition, Grant, Resources};

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

/// The resources of networks.
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

/// VPCs are not included, because AWS does not document that it ignores the tags of the request when it checks the
/// permission on the VPC of a new subnet. Listeners are not included, because AWS checks their creation against the
/// load balancer, which has to belong to the cluster.
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

/// A separate grant, because the tags of the request must not allow the use of somebody else's subnet or address.
const CREATE_NAT_GATEWAYS: Grant = Grant {
    name: "CreateNatGateways",
    resources: Resources::Arns(&["ec2:*:*:natgateway/*"]),
    condition: Condition::NetworkAtCreation,
};

/// The VPC in which a subnet, a route table or a security group is created, and the subnet and the address of a NAT
/// gateway, for which AWS's reference also names the VPC. They share one grant, because IAM limits the length of a
/// policy.
const CREATE_IN: Grant = Grant {
    name: "CreateInVpcs",
    resources: Resources::Arns(&["ec2:*:*:vpc/*", "ec2:*:*:subnet/*", "ec2:*:*:elastic-ip/*"]),
    condition: Condition::Network,
};

/// Resources without tags may be tagged only within the call that creates them. Otherwise, `CreateTags` could mark
/// somebody else's resources as owned by a cluster.
const TAG: Grant = Grant {
    name: "TagWhatIsCreated",
    resources: NETWORKS,
    condition: Condition::Within { service: "ec2", actions: CREATING },
};

/// The actions that create a resource of Elastic Load Balancing with its tags.
const CREATING_BALANCERS: &[&str] = &["CreateLoadBalancer", "CreateTargetGroup", "CreateListener"];

/// Resources without tags may be tagged only within the call that creates them, as in [`TAG`].
const TAG_BALANCERS: Grant = Grant {
    name: "TagLoadBalancers",
    resources: Resources::Arns(&["elasticloadbalancing:*:*:*"]),
    condition: Condition::Within { service: "elasticloadbalancing", actions: CREATING_BALANCERS },
};

/// The resources of networks and load balancers.
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

/// Both services share one statement, because IAM limits the length of a policy. Each action applies to one or two
/// types of resources, all of which need the tag. Actions on associations apply to the subnet and the route table,
/// actions on routes to the route table only, and actions on rules to the security group that has the rules, not to a
/// group that is the source of a rule.
const CHANGE: Grant = Grant { name: "ChangeOwned", resources: OWNED, condition: Condition::Network };

/// Changes of tags of networks and load balancers, except for the tags that identify the owner of a resource.
const CHANGE_TAGS: Grant =
    Grant { name: "ChangeTagsOfOwned", resources: OWNED, condition: Condition::NetworkForOtherTags };

/// Resources of the account that the cluster uses: the service-linked role of Elastic Load Balancing, which has this
/// name in each account and which AWS creates with the first load balancer, and the public IPv4 pools of the user, from
/// which addresses come. Both share one statement, because IAM limits the length of a policy. Each action applies to
/// one of the two.
const USE_OF_ACCOUNT: Grant = Grant {
    name: "UseOfAccount",
    resources: Resources::Arns(&[
        "iam::*:role/aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing",
        "ec2:*:*:ipv4pool-ec2/*",
    ]),
    condition: Condition::Always,
};

/// An action of EC2 that Elastic Load Balancing checks within its own actions. Source: the user guide of Elastic Load
/// Balancing, «Elastic Load Balancing API permissions».
const fn within(name: &'static str, actions: &'static [&'static str], why: &'static str) -> Action {
    Action { checked_by: CheckedBy::Actions(actions), ..describe(name, why) }
}

/// A describe action of Elastic Load Balancing. None of these actions can be restricted to single resources.
const fn describe_balancers(name: &'static str, why: &'static str) -> Action {
    load_balancing(name, AccessLevel::Read, &[READ], why)
}

/// An action of Elastic Load Balancing that changes or deletes resources that the cluster owns.
const fn change_balancers(name: &'static str, why: &'static str) -> Action {
    load_balancing(name, AccessLevel::Write, &[CHANGE], why)
}

/// The permissions for the networks and load balancers of managed clusters, in addition to [`ACTIONS`](super::ACTIONS).
/// Some permissions are in both tables, because a policy of [`ACTIONS`](super::ACTIONS) for one cluster may lack them.
pub const MANAGED_ACTIONS: &[Action] = &[
    describe("DescribeAvailabilityZones", "chooses the zones of subnets"),
    describe("DescribeInternetGateways", "finds the internet gateway of the VPC, and one that is not attached yet"),
    describe("DescribeVpcAttribute", "sees the DNS settings of the VPC"),
    describe("DescribeAddresses", "finds the addresses of NAT gateways and load balancers"),
    describe("DescribePublicIpv4Pools", "sees whether the pool of the cluster has free addresses"),
    describe("DescribeNatGateways", "finds the NAT gateways of the VPC"),
    within(
        "DescribeAccountAttributes",
        &["CreateLoadBalancer", "ApplySecurityGroupsToLoadBalancer"],
        "is asked for by Elastic Load Balancing when load balancers are made or changed",
    ),
    within(
        "GetSecurityGroupsForVpc",
        &["CreateLoadBalancer", "SetSecurityGroups"],
        "is asked for by Elastic Load Balancing when load balancers get security groups",
    ),
    change("CreateVpc", &[CREATE_VPCS], "makes the VPC"),
    change("ModifyVpcAttribute", &[CHANGE], "switches on the DNS support and the host names of the VPC"),
    change("AssociateVpcCidrBlock", &[CHANGE], "adds the ranges of secondaryCidrBlocks to the VPC"),
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
    change("DetachInternetGateway", &[CHANGE], "detaches it when the cluster is deleted"),
    change("DeleteInternetGateway", &[CHANGE], "deletes it with the cluster"),
    change(
        "AllocateAddress",
        &[CREATE, USE_OF_ACCOUNT],
        "allocates the addresses of NAT gateways, and of load balancers whose addresses are from a pool",
    ),
    change("ReleaseAddress", &[CHANGE], "releases them when the cluster is deleted"),
    change("CreateNatGateway", &[CREATE_NAT_GATEWAYS, CREATE_IN], "makes NAT gateways in public subnets"),
    change("DeleteNatGateway", &[CHANGE], "deletes them with the cluster"),
    change("CreateRouteTable", &[CREATE, CREATE_IN], "makes route tables in the VPC"),
    change("CreateRoute", &[CHANGE], "routes subnets to the gateways"),
    change("ReplaceRoute", &[CHANGE], "corrects routes that lead elsewhere, for example to a NAT gateway that is gone"),
    change("AssociateRouteTable", &[CHANGE], "gives subnets their route tables"),
    change("ReplaceRouteTableAssociation", &[CHANGE], "gives subnets that have another route table their own"),
    change("DisassociateRouteTable", &[CHANGE], "takes the route tables from the subnets when the cluster is deleted"),
    change("DeleteRouteTable", &[CHANGE], "deletes the route tables with the cluster"),
    change("CreateSecurityGroup", &[CREATE, CREATE_IN], "makes security groups in the VPC"),
    change("AuthorizeSecurityGroupIngress", &[CHANGE], "adds the rules for incoming traffic that the spec asks for"),
    change(
        "RevokeSecurityGroupIngress",
        &[CHANGE],
        "removes other rules, and those that keep groups from being deleted",
    ),
    change("RevokeSecurityGroupEgress", &[CHANGE], "empties the default security group, where the spec asks for it"),
    change("DeleteSecurityGroup", &[CHANGE], "deletes the security groups with the cluster"),
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
        ..change("DeleteTags", &[CHANGE_TAGS], "removes tags that additionalTags no longer has")
    },
    describe_balancers("DescribeLoadBalancers", "finds the load balancers in the VPC"),
    describe_balancers("DescribeLoadBalancerAttributes", "sees the settings of the cluster's load balancers"),
    describe_balancers("DescribeTargetGroups", "finds the target groups of the VPC"),
    describe_balancers("DescribeTargetGroupAttributes", "sees the settings of the cluster's target groups"),
    describe_balancers("DescribeListeners", "finds the listeners of the cluster's load balancers"),
    describe_balancers("DescribeTags", "sees whose the load balancers, target groups and listeners are"),
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
    change_balancers("SetSecurityGroups", "gives load balancers the security groups that the spec asks for"),
    change_balancers("AttachLoadBalancerToSubnets", "gives Classic Load Balancers further subnets"),
    change_balancers(
        "ApplySecurityGroupsToLoadBalancer",
        "gives Classic Load Balancers the security groups that the spec asks for",
    ),
    change_balancers("ConfigureHealthCheck", "sets and corrects the health checks of Classic Load Balancers"),
    change_balancers("CreateLoadBalancerListeners", "makes the further listeners of Classic Load Balancers"),
    change_balancers("DeleteLoadBalancer", "deletes the load balancers with the cluster"),
    load_balancing(
        "CreateTargetGroup",
        AccessLevel::Write,
        &[CREATE],
        "makes a target group for each port of a load balancer",
    ),
    change_balancers("ModifyTargetGroup", "corrects the health checks of target groups"),
    change_balancers("ModifyTargetGroupAttributes", "sets whether targets see the addresses of clients"),
    change_balancers("DeleteTargetGroup", "deletes the target groups with the cluster"),
    change_balancers("CreateListener", "makes the listeners of the cluster's load balancers"),
    change_balancers("ModifyListener", "corrects listeners that forward to another target group"),
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
        checked_by: CheckedBy::Actions(&["CreateLoadBalancer"]),
        grants: &[USE_OF_ACCOUNT],
        why: "makes the role of Elastic Load Balancing with the first load balancer of an account",
    },
];
