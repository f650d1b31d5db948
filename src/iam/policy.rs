//! IAM policy documents, and the controller's policy, which is generated from the table of actions.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::meta::{
    CLUSTER_TAG_PREFIX, CONTROL_PLANE_ROLE_TAG_VALUE, CONTROL_PLANE_TARGET_TAG, MACHINE_NAME_TAG, NODE_ROLE_TAG_VALUE,
    OWN_TAG_PREFIX, OWNED_TAG_VALUE, ROLE_TAG, cluster_tag,
};
use capa_aws::iam_actions::{ACTIONS, Action, Condition, Grant, MANAGED_ACTIONS, Named, Resources};
use clap::ValueEnum;
use serde::Serialize;

use super::cluster_use::ClusterUse;

/// The actions that create resources with the tags of machines.
const CREATING: [&str; 3] = ["RunInstances", "AllocateHosts", "AllocateAddress"];

/// Patterns of the values of the role tag on resources that belong to machines. For instances and the resources
/// launched with them, the value is the role of the machine; for an Elastic IP, it names the instance.
const MARKS: [&str; 3] = [CONTROL_PLANE_ROLE_TAG_VALUE, NODE_ROLE_TAG_VALUE, "ec2-i-*"];

/// An AWS partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Partition {
    /// The regions outside China and GovCloud.
    Aws,
    /// China.
    AwsCn,
    /// GovCloud (US).
    AwsUsGov,
}

impl Partition {
    /// The name of the partition in ARNs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::AwsCn => "aws-cn",
            Self::AwsUsGov => "aws-us-gov",
        }
    }

    /// The domain of service endpoints.
    const fn domain(self) -> &'static str {
        match self {
            Self::Aws | Self::AwsUsGov => "amazonaws.com",
            Self::AwsCn => "amazonaws.com.cn",
        }
    }

    /// The ARN with `rest` after the partition.
    pub(super) fn arn(self, rest: &str) -> String {
        format!("arn:{}:{rest}", self.name())
    }
}

/// The ARNs of the resources that the user passes in flags.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) partition: Partition,
    pub(super) machine_roles: Vec<String>,
    pub(super) identity_roles: Vec<String>,
    pub(super) encryption_keys: Vec<String>,
    /// Clusters that the policy is for, as `<namespace>/<name>`, where `*` is a wildcard; empty for no condition.
    pub(super) clusters: Vec<String>,
    /// What the cluster uses, if the policy is for one cluster only; absent for a policy for all clusters.
    pub(super) only: Option<ClusterUse>,
}

impl Given {
    /// The default: machines with the roles that `clusterawsadm` creates.
    pub(super) fn default_of(partition: Partition) -> Self {
        Self {
            partition,
            machine_roles: vec![partition.arn("iam::*:role/*.cluster-api-provider-aws.sigs.k8s.io")],
            identity_roles: Vec::new(),
            encryption_keys: Vec::new(),
            clusters: Vec::new(),
            only: None,
        }
    }

    /// Patterns of the machine name tags of the clusters. The tag contains the namespace of a Machine but not its
    /// cluster.
    fn machines(&self) -> Vec<String> {
        let namespaces = self.clusters.iter().filter_map(|cluster| cluster.split_once('/'));
        let namespaces: BTreeSet<&str> = namespaces.map(|(namespace, _)| namespace).collect();
        namespaces.into_iter().map(|namespace| format!("{namespace}/*")).collect()
    }

    fn resources(&self, resources: Resources) -> Vec<String> {
        match resources {
            Resources::All => vec!["*".to_owned()],
            Resources::Arns(arns) => {
                let narrowed = arns.iter().flat_map(|arn| match &self.only {
                    Some(cluster_use) => cluster_use.narrowed(arn),
                    None => vec![(*arn).to_owned()],
                });
                narrowed.map(|arn| self.partition.arn(&arn)).collect()
            }
            Resources::Named(Named::MachineRoles) => self.machine_roles.clone(),
            Resources::Named(Named::IdentityRoles) => self.identity_roles.clone(),
            Resources::Named(Named::EncryptionKeys) => self.encryption_keys.clone(),
        }
    }

    /// The actions that create resources with the tags of machines.
    fn creating(&self) -> Vec<String> {
        let only = self.only.as_ref();
        let used = CREATING.iter().filter(|name| only.is_none_or(|cluster_use| cluster_use.uses(name)));
        used.map(|name| (*name).to_owned()).collect()
    }

    fn condition(&self, condition: Condition) -> Conditions {
        let domain = self.partition.domain();
        let marks = || MARKS.map(str::to_owned);
        match condition {
            Condition::Always => Conditions::new(),
            Condition::MarkedAtLaunch => when("StringLike", &format!("aws:RequestTag/{ROLE_TAG}"), marks()),
            Condition::Marked => {
                let role = (format!("aws:ResourceTag/{ROLE_TAG}"), marks().into());
                let machine = (format!("aws:ResourceTag/{MACHINE_NAME_TAG}"), self.machines());
                let named = [role, machine].into_iter().filter(|(_, values)| !values.is_empty());
                Conditions::from([("StringLike".to_owned(), named.collect())])
            }
            Condition::MarkedForOtherTags => {
                let own =
                    [MACHINE_NAME_TAG.to_owned(), format!("{OWN_TAG_PREFIX}*"), "kubernetes.io/cluster/*".to_owned()];
                tags_other_than(own, self.condition(Condition::Marked))
            }
            // The policy names the targets, so they need no tag.
            Condition::GivenToCluster if self.only.as_ref().is_some_and(ClusterUse::names_targets) => Conditions::new(),
            Condition::GivenToCluster => tagged_like(CONTROL_PLANE_TARGET_TAG, self.clusters.clone()),
            Condition::WithinLaunch => when("StringEquals", "ec2:CreateAction", self.creating()),
            Condition::NetworkAtCreation => self.of_network("aws:RequestTag"),
            Condition::Network => self.of_network("aws:ResourceTag"),
            Condition::NetworkForOtherTags => {
                let own = [ROLE_TAG.to_owned(), format!("{CLUSTER_TAG_PREFIX}*")];
                tags_other_than(own, self.condition(Condition::Network))
            }
            Condition::Within { service, actions } => {
                let actions: Vec<String> = actions.iter().map(|name| (*name).to_owned()).collect();
                when("StringEquals", &format!("{service}:CreateAction"), actions)
            }
            Condition::PassedToInstance => when("StringEquals", "iam:PassedToService", [format!("ec2.{domain}")]),
            Condition::ThroughEc2 => when("StringLike", "kms:ViaService", [format!("ec2.*.{domain}")]),
            Condition::GrantedToAws => when("Bool", "kms:GrantIsForAWSResource", ["true".to_owned()]),
        }
    }

    /// The conditions on the tags of the resources of a managed network, under these condition keys.
    fn of_network(&self, tags: &str) -> Conditions {
        let mut conditions = when("Null", &format!("{tags}/{ROLE_TAG}"), ["false".to_owned()]);
        let names = self.clusters.iter().filter_map(|cluster| cluster.split_once('/'));
        for (_, name) in names {
            let key = format!("{tags}/{}", cluster_tag(name));
            conditions.extend(when("StringEquals", &key, [OWNED_TAG_VALUE.to_owned()]));
        }
        conditions
    }
}

/// The given conditions, and the condition that the request names tags and none of them has one of these keys.
fn tags_other_than<const N: usize>(keys: [String; N], mut conditions: Conditions) -> Conditions {
    // Without keys, DeleteTags removes all tags.
    let names_any = when("Null", "aws:TagKeys", ["false".to_owned()]);
    let names_others = when("ForAllValues:StringNotLike", "aws:TagKeys", keys);
    for (operator, values) in names_any.into_iter().chain(names_others) {
        conditions.entry(operator).or_default().extend(values);
    }
    conditions
}

/// Values of conditions by operator and key.
pub(super) type Conditions = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// One condition.
pub(super) fn when(operator: &str, key: &str, values: impl Into<Vec<String>>) -> Conditions {
    BTreeMap::from([(operator.to_owned(), BTreeMap::from([(key.to_owned(), values.into())]))])
}

/// The changed resource has this tag with one of these values, in which `*` is a wildcard. Without values, there is no
/// condition.
fn tagged_like(key: &str, values: Vec<String>) -> Conditions {
    if values.is_empty() {
        return Conditions::new();
    }
    when("StringLike", &format!("aws:ResourceTag/{key}"), values)
}

/// A policy document.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Policy {
    version: &'static str,
    pub(super) statement: Vec<Statement>,
}

/// A statement of a policy with the effect Allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Statement {
    pub(super) sid: String,
    effect: &'static str,
    pub(super) action: Vec<String>,
    pub(super) resource: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) condition: Conditions,
}

impl Statement {
    /// Allows the actions on the resources.
    pub(super) fn allow(sid: &str, action: Vec<String>, resource: Vec<String>, condition: Conditions) -> Self {
        Self { sid: sid.to_owned(), effect: "Allow", action, resource, condition }
    }
}

impl Statement {
    /// If there are resources of several services, drops those of services to which no action belongs.
    fn drop_other_services(&mut self) {
        let service_of = |arn: &String| arn.split(':').nth(2).map(str::to_owned);
        let of_resources: BTreeSet<_> = self.resource.iter().map(service_of).collect();
        let actions = self.action.iter().filter_map(|action| action.split_once(':'));
        let of_actions: BTreeSet<_> = actions.map(|(service, _)| Some(service.to_owned())).collect();
        if of_resources.len() > 1 {
            self.resource.retain(|arn| of_actions.contains(&service_of(arn)));
        }
    }
}

impl Policy {
    pub(super) fn new(statement: Vec<Statement>) -> Self {
        Self { version: "2012-10-17", statement }
    }

    /// The policy of the controller.
    pub(super) fn of_controller(given: &Given) -> Self {
        Self::of(ACTIONS, given)
    }

    /// The permissions that the controller needs for managed clusters in addition to its policy. `given` has at most
    /// one cluster, because the name of the cluster is part of tag keys, keys have no wildcards, and all keys of a
    /// condition have to match.
    pub(super) fn of_managed(given: &Given) -> Self {
        Self::of(MANAGED_ACTIONS, given)
    }

    /// One statement for each grant of a table that has at least one resource.
    fn of(table: &[Action], given: &Given) -> Self {
        let mut statements: Vec<Statement> = Vec::new();
        let used =
            table.iter().filter(|action| given.only.as_ref().is_none_or(|cluster_use| cluster_use.includes(action)));
        for (action, grant) in used.flat_map(|action| action.grants.iter().map(move |grant| (action, grant))) {
            let name = format!("{}:{}", action.service, action.name);
            if let Some(statement) = statements.iter_mut().find(|statement| statement.sid == grant.name) {
                statement.action.push(name);
                continue;
            }
            let Grant { resources, condition, .. } = *grant;
            let resources = given.resources(resources);
            if !resources.is_empty() {
                let condition = given.condition(condition);
                statements.push(Statement::allow(grant.name, vec![name], resources, condition));
            }
        }
        for statement in &mut statements {
            statement.drop_other_services();
        }
        Self::new(statements)
    }

    /// The policy as JSON for `aws iam create-policy`.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// IAM's limit for a managed policy, whitespace not counted.
    const MAX_CHARACTERS: usize = 6144;

    fn json_of(policy: &Policy) -> Value {
        serde_json::to_value(policy).expect("a policy")
    }

    fn statement(policy: &Policy, sid: &str) -> Value {
        let statements = json_of(policy)["Statement"].as_array().cloned().unwrap_or_default();
        let mut found = statements.into_iter().filter(|statement| statement["Sid"] == sid);
        found.next().unwrap_or_default()
    }

    fn full(partition: Partition) -> Policy {
        Policy::of_controller(&Given {
            identity_roles: vec![partition.arn("iam::123456789012:role/team-a")],
            encryption_keys: vec![partition.arn("kms:eu-west-1:123456789012:key/1")],
            ..Given::default_of(partition)
        })
    }

    #[test]
    fn instances_are_launched_tagged_and_only_tagged_are_terminated() {
        let policy = Policy::of_controller(&Given::default_of(Partition::Aws));
        let marks = json!(MARKS);
        assert_eq!(
            statement(&policy, "ChangeMarked"),
            json!({
                "Sid": "ChangeMarked", "Effect": "Allow",
                "Action": [
                    "ec2:TerminateInstances", "ec2:ModifyNetworkInterfaceAttribute",
                    "ec2:ModifyInstanceMetadataOptions", "ec2:ModifyPrivateDnsNameOptions", "ec2:ReleaseHosts",
                    "ec2:AssociateAddress", "ec2:ReleaseAddress",
                ],
                "Resource": [
                    "arn:aws:ec2:*:*:instance/*", "arn:aws:ec2:*:*:network-interface/*",
                    "arn:aws:ec2:*:*:dedicated-host/*", "arn:aws:ec2:*:*:elastic-ip/*",
                ],
                "Condition": {"StringLike": {"aws:ResourceTag/sigs.k8s.io/cluster-api-provider-aws/role": marks}},
            })
        );
        assert_eq!(
            statement(&policy, "LaunchMarked")["Condition"],
            json!({"StringLike": {"aws:RequestTag/sigs.k8s.io/cluster-api-provider-aws/role": marks}})
        );
        assert_eq!(
            statement(&policy, "TagAtLaunch")["Condition"],
            json!({"StringEquals": {"ec2:CreateAction": ["RunInstances", "AllocateHosts", "AllocateAddress"]}})
        );
    }

    #[test]
    fn the_rights_of_single_clusters_depend_on_tags() {
        let clusters = ["team-a/dev", "team-a/test", "team-b/*"].map(str::to_owned).to_vec();
        let given = Given { clusters: clusters.clone(), ..Given::default_of(Partition::Aws) };
        let policy = Policy::of_controller(&given);
        assert_eq!(
            statement(&policy, "ChangeTargets")["Condition"],
            json!({"StringLike": {"aws:ResourceTag/infrastructure.cluster.x-k8s.io/control-plane": clusters}})
        );
        let marks = json!(MARKS);
        assert_eq!(
            statement(&policy, "ChangeMarked")["Condition"],
            json!({
                "StringLike": {
                    "aws:ResourceTag/sigs.k8s.io/cluster-api-provider-aws/role": marks,
                    "aws:ResourceTag/MachineName": ["team-a/*", "team-b/*"],
                },
            })
        );
        let everybody = Policy::of_controller(&Given::default_of(Partition::Aws));
        assert_eq!(statement(&everybody, "ChangeTargets")["Condition"], Value::Null);
        assert_eq!(policy.statement.len(), everybody.statement.len());
    }

    fn is_read(action: &str) -> bool {
        action.contains(":Describe") || action.contains(":Get")
    }

    #[test]
    fn only_reads_are_allowed_on_all_resources() {
        let policy = full(Partition::Aws);
        let on_all = policy.statement.iter().filter(|statement| statement.resource == ["*"]);
        let actions: Vec<&String> = on_all.flat_map(|statement| &statement.action).collect();
        assert!(!actions.is_empty());
        assert!(actions.iter().all(|action| is_read(action)), "{actions:?}");
    }

    #[test]
    fn roles_and_keys_that_are_not_named_are_not_allowed() {
        let policy = Policy::of_controller(&Given::default_of(Partition::Aws));
        let text = json_of(&policy).to_string();
        assert!(!text.contains("sts:") && !text.contains("kms:"), "{text}");
        let text = json_of(&full(Partition::Aws)).to_string();
        for named in ["sts:AssumeRole", "role/team-a", "kms:CreateGrant", "key/1"] {
            assert!(text.contains(named), "{named} is not in {text}");
        }
    }

    #[test]
    fn arns_and_services_are_those_of_the_partition() {
        for (partition, prefix, service) in [
            (Partition::Aws, "arn:aws:", "ec2.amazonaws.com"),
            (Partition::AwsCn, "arn:aws-cn:", "ec2.amazonaws.com.cn"),
            (Partition::AwsUsGov, "arn:aws-us-gov:", "ec2.amazonaws.com"),
        ] {
            let policy = full(partition);
            let resources = policy.statement.iter().flat_map(|statement| &statement.resource);
            for resource in resources {
                assert!(resource == "*" || resource.starts_with(prefix), "{resource}");
            }
            assert_eq!(
                statement(&policy, "PassMachineRoles")["Condition"],
                json!({"StringEquals": {"iam:PassedToService": [service]}})
            );
        }
    }

    #[test]
    fn each_policy_fits_into_a_managed_policy() {
        let name = "a".repeat(63);
        let of_network = Policy::of_managed(&of_cluster(&format!("team-a/{name}")));
        for policy in [full(Partition::AwsUsGov), of_network] {
            let text = json_of(&policy).to_string();
            assert!(text.len() < MAX_CHARACTERS, "{} characters", text.len());
        }
    }

    fn of_cluster(cluster: &str) -> Given {
        Given { clusters: vec![cluster.to_owned()], ..Given::default_of(Partition::Aws) }
    }

    #[test]
    fn networks_are_made_tagged_and_only_tagged_are_changed() {
        let role = "sigs.k8s.io/cluster-api-provider-aws/role";
        let cluster = "sigs.k8s.io/cluster-api-provider-aws/cluster/dev";
        let everybody = Policy::of_managed(&Given::default_of(Partition::Aws));
        let of_one = Policy::of_managed(&of_cluster("team-a/dev"));
        for (sid, tags) in [
            ("CreateVpcs", "aws:RequestTag"),
            ("CreateInNetworks", "aws:RequestTag"),
            ("CreateInVpcs", "aws:ResourceTag"),
            ("CreateNatGateways", "aws:RequestTag"),
            ("ChangeOwned", "aws:ResourceTag"),
        ] {
            let marked = json!({"Null": {format!("{tags}/{role}"): ["false"]}});
            assert_eq!(statement(&everybody, sid)["Condition"], marked, "{sid}");
            let mut owned = marked;
            owned["StringEquals"] = json!({format!("{tags}/{cluster}"): ["owned"]});
            assert_eq!(statement(&of_one, sid)["Condition"], owned, "{sid}");
        }
        let role_tag = format!("aws:ResourceTag/{role}");
        assert_eq!(
            statement(&everybody, "ChangeTagsOfOwned")["Condition"],
            json!({
                "Null": {role_tag: ["false"], "aws:TagKeys": ["false"]},
                "ForAllValues:StringNotLike": {"aws:TagKeys": [role, "sigs.k8s.io/cluster-api-provider-aws/cluster/*"]},
            })
        );
        assert_eq!(
            statement(&everybody, "TagWhatIsCreated")["Condition"],
            json!({"StringEquals": {"ec2:CreateAction": [
                "CreateVpc", "CreateSubnet", "CreateInternetGateway", "AllocateAddress", "CreateNatGateway",
                "CreateRouteTable", "CreateSecurityGroup",
            ]}})
        );
        assert_eq!(
            statement(&everybody, "TagLoadBalancers")["Condition"],
            json!({"StringEquals": {"elasticloadbalancing:CreateAction": [
                "CreateLoadBalancer", "CreateTargetGroup", "CreateListener",
            ]}})
        );
        let reads = statement(&everybody, "Read");
        let reads = reads["Action"].as_array().cloned().unwrap_or_default();
        assert!(reads.iter().all(|action| action.as_str().is_some_and(is_read)));
        // The tags of a subnet in a request do not allow its creation in somebody else's VPC.
        assert_eq!(
            statement(&everybody, "CreateInNetworks")["Resource"],
            json!(
                [
                    "ec2:*:*:subnet/*",
                    "ec2:*:*:internet-gateway/*",
                    "ec2:*:*:elastic-ip/*",
                    "ec2:*:*:route-table/*",
                    "ec2:*:*:security-group/*",
                    "elasticloadbalancing:*:*:loadbalancer/*",
                    "elasticloadbalancing:*:*:targetgroup/*/*",
                ]
                .map(|resource| format!("arn:aws:{resource}"))
            )
        );
    }
}
