//! The IAM permissions that programs on nodes get from their instance profile. The provider does not need these
//! permissions.

use super::policy::{Conditions, Partition, Policy, Statement, when};

/// The IAM permissions of one program on nodes.
pub(super) struct Need {
    /// Id of the statement.
    pub(super) name: &'static str,
    pub(super) on: Nodes,
    pub(super) actions: &'static [&'static str],
    /// ARNs without `arn:<partition>:`; empty for all resources.
    resources: &'static [&'static str],
    condition: Option<(&'static str, &'static str, &'static str)>,
    pub(super) why: &'static str,
}

/// The nodes that need the permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    All,
    ControlPlane,
}

/// The permissions of all programs. The table assumes that the cloud controller manager and the volume driver run on
/// control plane nodes.
pub(super) const NEEDS: &[Need] = &[
    Need {
        name: "NodeIdentity",
        on: Nodes::All,
        actions: &["ec2:DescribeInstances", "ec2:DescribeRegions"],
        resources: &[],
        condition: None,
        why: "programs of the AWS cloud provider find the instance they run on",
    },
    Need {
        name: "BootstrapSecrets",
        on: Nodes::All,
        actions: &["secretsmanager:DeleteSecret", "secretsmanager:GetSecretValue"],
        resources: &["secretsmanager:*:*:secret:aws.cluster.x-k8s.io/*"],
        condition: None,
        why: "a new node fetches its bootstrap data and deletes it; leave it out where user data has the bootstrap \
              data",
    },
    Need {
        name: "BootstrapParameters",
        on: Nodes::All,
        actions: &["ssm:DeleteParameter", "ssm:GetParameter"],
        resources: &["ssm:*:*:parameter/cluster.x-k8s.io/*"],
        condition: None,
        why: "the same with `secureSecretsBackend: ssm-parameter-store`",
    },
    Need {
        name: "BootstrapObjects",
        on: Nodes::All,
        actions: &["s3:GetObject"],
        resources: &["s3:::*/node/*"],
        condition: None,
        why: "a new node with Ignition fetches its bootstrap data from the cluster's bucket; leave it out where user \
              data has the data, and with presigned URLs",
    },
    Need {
        name: "BootstrapObjectsOfControlPlanes",
        on: Nodes::ControlPlane,
        actions: &["s3:GetObject"],
        resources: &["s3:::*/control-plane/*"],
        condition: None,
        why: "the same",
    },
    Need {
        name: "ContainerImages",
        on: Nodes::All,
        actions: &[
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:DescribeRepositories",
            "ecr:GetAuthorizationToken",
            "ecr:GetDownloadUrlForLayer",
            "ecr:GetRepositoryPolicy",
            "ecr:ListImages",
        ],
        resources: &[],
        condition: None,
        why: "the kubelet pulls images from ECR",
    },
    Need {
        name: "PodNetwork",
        on: Nodes::All,
        actions: &[
            "ec2:AssignIpv6Addresses",
            "ec2:DescribeInstanceTypes",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeTags",
        ],
        resources: &[],
        condition: None,
        why: "the VPC CNI with IPv6; leave it out with a CNI that does not use AWS",
    },
    Need {
        name: "PodNetworkTags",
        on: Nodes::All,
        actions: &["ec2:CreateTags"],
        resources: &["ec2:*:*:network-interface/*"],
        condition: None,
        why: "the same",
    },
    Need {
        name: "NodesAndRoutes",
        on: Nodes::ControlPlane,
        actions: &[
            "autoscaling:DescribeAutoScalingGroups",
            "autoscaling:DescribeLaunchConfigurations",
            "autoscaling:DescribeTags",
            "ec2:CreateRoute",
            "ec2:DeleteRoute",
            "ec2:DescribeAvailabilityZones",
            "ec2:DescribeImages",
            "ec2:DescribeInstanceTopology",
            "ec2:DescribeRouteTables",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
            "ec2:ModifyInstanceAttribute",
        ],
        resources: &[],
        condition: None,
        why: "the cloud controller manager describes nodes and, where it is told to, keeps routes of pod networks; the \
              cluster autoscaler looks at groups",
    },
    Need {
        name: "ServiceLoadBalancers",
        on: Nodes::ControlPlane,
        actions: &[
            "ec2:AuthorizeSecurityGroupIngress",
            "ec2:CreateSecurityGroup",
            "ec2:DeleteSecurityGroup",
            "ec2:DescribeSecurityGroups",
            "ec2:RevokeSecurityGroupIngress",
            "elasticloadbalancing:AddTags",
            "elasticloadbalancing:ApplySecurityGroupsToLoadBalancer",
            "elasticloadbalancing:AttachLoadBalancerToSubnets",
            "elasticloadbalancing:ConfigureHealthCheck",
            "elasticloadbalancing:CreateListener",
            "elasticloadbalancing:CreateLoadBalancer",
            "elasticloadbalancing:CreateLoadBalancerListeners",
            "elasticloadbalancing:CreateLoadBalancerPolicy",
            "elasticloadbalancing:CreateTargetGroup",
            "elasticloadbalancing:DeleteListener",
            "elasticloadbalancing:DeleteLoadBalancer",
            "elasticloadbalancing:DeleteLoadBalancerListeners",
            "elasticloadbalancing:DeleteTargetGroup",
            "elasticloadbalancing:DeregisterInstancesFromLoadBalancer",
            "elasticloadbalancing:DeregisterTargets",
            "elasticloadbalancing:DescribeListeners",
            "elasticloadbalancing:DescribeLoadBalancerAttributes",
            "elasticloadbalancing:DescribeLoadBalancerPolicies",
            "elasticloadbalancing:DescribeLoadBalancers",
            "elasticloadbalancing:DescribeTargetGroups",
            "elasticloadbalancing:DescribeTargetHealth",
            "elasticloadbalancing:DetachLoadBalancerFromSubnets",
            "elasticloadbalancing:ModifyListener",
            "elasticloadbalancing:ModifyLoadBalancerAttributes",
            "elasticloadbalancing:ModifyTargetGroup",
            "elasticloadbalancing:RegisterInstancesWithLoadBalancer",
            "elasticloadbalancing:RegisterTargets",
            "elasticloadbalancing:SetLoadBalancerPoliciesForBackendServer",
            "elasticloadbalancing:SetLoadBalancerPoliciesOfListener",
        ],
        resources: &[],
        condition: None,
        why: "the cloud controller manager makes load balancers for Services",
    },
    Need {
        name: "FirstLoadBalancer",
        on: Nodes::ControlPlane,
        actions: &["iam:CreateServiceLinkedRole"],
        resources: &[
            "iam::*:role/aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing",
        ],
        condition: Some(("StringEquals", "iam:AWSServiceName", "elasticloadbalancing.amazonaws.com")),
        why: "the first load balancer of an account makes this role",
    },
    Need {
        name: "Volumes",
        on: Nodes::ControlPlane,
        actions: &[
            "ec2:AttachVolume",
            "ec2:CreateVolume",
            "ec2:DeleteVolume",
            "ec2:DescribeVolumes",
            "ec2:DetachVolume",
            "ec2:ModifyVolume",
            "kms:DescribeKey",
        ],
        resources: &[],
        condition: None,
        why: "the EBS CSI driver; leave it out where the driver has a role of its own",
    },
    Need {
        name: "GroupAndVolumeTags",
        on: Nodes::ControlPlane,
        actions: &["ec2:CreateTags"],
        resources: &["ec2:*:*:security-group/*", "ec2:*:*:volume/*"],
        condition: None,
        why: "security groups of Services and volumes are tagged as they are made",
    },
];

/// The policy for these nodes. Control plane nodes also need the permissions of all nodes.
pub(super) fn policy(nodes: Nodes, partition: Partition) -> Policy {
    let needed = NEEDS.iter().filter(|need| need.on == Nodes::All || nodes == Nodes::ControlPlane);
    Policy::new(needed.map(|need| need.statement(partition)).collect())
}

impl Need {
    fn statement(&self, partition: Partition) -> Statement {
        let actions = self.actions.iter().map(|action| (*action).to_owned()).collect();
        let resources = match self.resources {
            [] => vec!["*".to_owned()],
            some => some.iter().map(|arn| partition.arn(arn)).collect(),
        };
        let condition = match self.condition {
            None => Conditions::new(),
            Some((operator, key, value)) => when(operator, key, [value.to_owned()]),
        };
        Statement::allow(self.name, actions, resources, condition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(nodes: Nodes) -> Vec<(String, Vec<String>)> {
        let statements = policy(nodes, Partition::Aws).statement;
        let granted = statements.into_iter().flat_map(|statement| {
            let on = statement.resource;
            statement.action.into_iter().map(move |action| (action, on.clone()))
        });
        granted.collect()
    }

    #[test]
    fn nodes_can_neither_tag_nor_terminate_machines() {
        for (action, on) in actions(Nodes::ControlPlane) {
            let about_instances = on.iter().any(|on| on == "*" || on.contains(":instance/"));
            assert!(action != "ec2:CreateTags" || !about_instances, "{action} on {on:?}");
            assert!(!["ec2:TerminateInstances", "ec2:RunInstances", "iam:PassRole"].contains(&action.as_str()));
        }
    }

    #[test]
    fn workers_change_only_bootstrap_data_and_interfaces() {
        let changes = actions(Nodes::All).into_iter().map(|(action, _)| action);
        let reads = [
            "ec2:Describe",
            "ecr:Describe",
            "ecr:Get",
            "ecr:List",
            "ecr:Batch",
            "s3:Get",
            "secretsmanager:Get",
            "ssm:Get",
        ];
        let changes: Vec<_> = changes.filter(|action| !reads.iter().any(|read| action.starts_with(read))).collect();
        let of_bootstrap_data = ["secretsmanager:DeleteSecret", "ssm:DeleteParameter"];
        let of_interfaces = ["ec2:AssignIpv6Addresses", "ec2:CreateTags"];
        assert_eq!(changes, [of_bootstrap_data, of_interfaces].concat());
    }
}
