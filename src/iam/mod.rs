//! `capa-rs iam`: the minimal IAM policies, generated from the table of the provider's AWS actions.

mod cluster_use;
mod document;
mod nodes;
mod policy;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use capa_api::cluster::AWSClusterSpec;
use capa_api::contract::Cluster;
use clap::{Args, ValueEnum};
use kube::ResourceExt as _;

use self::cluster_use::ClusterUse;
use self::nodes::Nodes;
use self::policy::{Given, Partition, Policy};
use crate::markdown;
use crate::objects::{self, Described};

/// Flags of `capa-rs iam`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  capa-rs iam --pass-role arn:aws:iam::123456789012:role/nodes > controller.json\n  \
                        aws iam create-policy --policy-name capa-rs --policy-document file://controller.json"
)]
pub(crate) struct Flags {
    /// Subject of the policy.
    #[arg(value_enum, default_value_t = Subject::Controller)]
    subject: Subject,

    /// AWS partition of the ARNs in the policy.
    #[arg(long, value_enum, default_value_t = Partition::Aws)]
    partition: Partition,

    /// Role in the instance profile of machines, as an ARN; may be given several times; `*` is a wildcard. Default: the
    /// roles that clusterawsadm creates.
    #[arg(long, value_name = "ARN")]
    pass_role: Vec<String>,

    /// Role of an AWSClusterRoleIdentity, as an ARN; may be given several times. Without this flag, the policy lets the
    /// controller assume no roles.
    #[arg(long, value_name = "ARN")]
    assume_role: Vec<String>,

    /// Customer managed key of volumes and encrypted images, as an ARN; may be given several times.
    #[arg(long, value_name = "ARN")]
    kms_key: Vec<String>,

    /// Cluster as NAMESPACE/NAME that the policy is for; may be given several times; `*` is a wildcard. The policy then
    /// allows changes only of targets that are tagged for these clusters, and termination only of instances that are
    /// tagged for the namespaces of these clusters.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Vec<String>,

    /// File with the Cluster, its templates and the objects that describe its network, such as an unmanaged AWSCluster;
    /// `-` for standard input. The policy of the controller then allows only what this cluster uses. The policy for
    /// managed clusters reads the managed AWSCluster and its Cluster, and is for this cluster.
    #[arg(short, long, value_name = "FILE", conflicts_with = "cluster")]
    file: Option<PathBuf>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Json)]
    output: Output,

    /// Update the generated parts of this Markdown file instead of printing.
    #[arg(long, value_name = "FILE", hide = true)]
    update: Option<PathBuf>,
}

/// The subject of a policy.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// The manager, and the roles that it assumes.
    Controller,
    /// The manager, for the networks of managed clusters; needed in addition to the policy for `controller`.
    Managed,
    /// Instance profile of control plane nodes.
    ControlPlane,
    /// Instance profile of worker nodes.
    Node,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// A policy document, ready for `aws iam create-policy`.
    Json,
    /// Only the permissions, one per line.
    Actions,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    if let Some(file) = &flags.update {
        return document::parts()?.iter().try_for_each(|(name, content)| markdown::update(file, name, content));
    }
    Ok(io::stdout().lock().write_all(printed(flags)?.as_bytes())?)
}

fn printed(flags: &Flags) -> Result<String> {
    let policy = match flags.subject {
        Subject::Controller => Policy::of_controller(&given_of_cluster(flags)?),
        Subject::Managed => Policy::of_managed(&given_of_network(flags)?),
        Subject::ControlPlane => nodes::policy(Nodes::ControlPlane, flags.partition),
        Subject::Node => nodes::policy(Nodes::All, flags.partition),
    };
    match flags.output {
        Output::Json => Ok(policy.json()? + "\n"),
        Output::Actions => {
            let mut actions: Vec<_> = policy.statement.into_iter().flat_map(|statement| statement.action).collect();
            actions.sort_unstable();
            actions.dedup();
            Ok(actions.join("\n") + "\n")
        }
    }
}

/// The values of the flags for a policy that is for these clusters, or for all.
fn given(flags: &Flags, clusters: Vec<String>) -> Result<Given> {
    let default = Given::default_of(flags.partition);
    let arns = |flag: &str, service: &str, kind: &str, arns: &[String]| {
        for arn in arns {
            let prefix = flags.partition.arn(&format!("{service}:"));
            ensure!(
                arn.starts_with(&prefix) && arn.contains(kind),
                "--{flag} {arn}: want an ARN that begins with {prefix} and has {kind} in it"
            );
        }
        Ok(arns.to_vec())
    };
    for cluster in &clusters {
        let parts: Vec<&str> = cluster.split('/').collect();
        ensure!(
            matches!(*parts, [namespace, name] if !namespace.is_empty() && !name.is_empty()),
            "--cluster {cluster}: want NAMESPACE/NAME"
        );
    }
    let machine_roles = arns("pass-role", "iam", ":role/", &flags.pass_role)?;
    Ok(Given {
        machine_roles: if machine_roles.is_empty() { default.machine_roles } else { machine_roles },
        identity_roles: arns("assume-role", "iam", ":role/", &flags.assume_role)?,
        encryption_keys: arns("kms-key", "kms", ":key/", &flags.kms_key)?,
        clusters,
        ..default
    })
}

/// The values for the policy of the controller. A file also says what its cluster uses.
fn given_of_cluster(flags: &Flags) -> Result<Given> {
    let Some(file) = &flags.file else {
        return given(flags, flags.cluster.clone());
    };
    let (name, cluster_use) = of_cluster(objects::read(file)?);
    Ok(Given { only: Some(cluster_use), ..given(flags, vec![name])? })
}

/// The values for the policy for managed clusters. The key of the tag that marks a resource as owned by a cluster
/// contains the name of the cluster.
fn given_of_network(flags: &Flags) -> Result<Given> {
    let clusters = match &flags.file {
        Some(file) => {
            let (_, cluster) = objects::read_managed(file)?;
            vec![qualified_name(cluster.namespace().as_deref(), &cluster)]
        }
        None => flags.cluster.clone(),
    };
    let given = given(flags, clusters)?;
    ensure!(given.clusters.len() <= 1, "--cluster: a policy for managed clusters is for one of them, or for all");
    let name = given.clusters.iter().find_map(|cluster| cluster.split_once('/'));
    ensure!(
        name.is_none_or(|(_, name)| !name.contains('*')),
        "--cluster: a policy for managed clusters needs the name of the cluster, without `*`"
    );
    Ok(given)
}

/// Namespace and name of the cluster whose objects are in a file, and what the cluster uses.
fn of_cluster(described: Described) -> (String, ClusterUse) {
    let demand = described.as_written();
    let (cluster, namespace, spec) = match described {
        Described::ByAWSCluster(objects) => {
            let namespace = objects.cluster.namespace().or_else(|| objects.aws_cluster.namespace());
            (objects.cluster, namespace, objects.aws_cluster.spec)
        }
        Described::BySources(sourced) => {
            let namespace = sourced.cluster.namespace();
            (sourced.cluster, namespace, AWSClusterSpec::default())
        }
    };
    (qualified_name(namespace.as_deref(), &cluster), ClusterUse::new(&spec, &demand))
}

/// Namespace and name of a Cluster, as for `--cluster`. Without a namespace, the objects of a file are applied to
/// whatever namespace the user names.
fn qualified_name(namespace: Option<&str>, cluster: &Cluster) -> String {
    format!("{}/{}", namespace.unwrap_or("*"), cluster.name_any())
}

#[cfg(test)]
mod tests {
    use capa_aws::iam_actions::ACTIONS;
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn print(line: &str) -> Result<String> {
        let line = Line::try_parse_from(line.split(' ')).expect("a command line");
        printed(&line.flags)
    }

    #[test]
    fn roles_and_keys_that_are_named_are_in_the_policy() {
        let text = print(
            "iam --pass-role arn:aws:iam::1:role/a --pass-role arn:aws:iam::1:role/b \
             --assume-role arn:aws:iam::2:role/c --kms-key arn:aws:kms:eu-west-1:1:key/d",
        );
        let text = text.expect("a policy");
        for arn in ["arn:aws:iam::1:role/a", "role/b", "role/c", "key/d"] {
            assert!(text.contains(arn), "{arn} is not in {text}");
        }
        assert!(!text.contains("sigs.k8s.io\""), "the default is still there: {text}");
    }

    #[test]
    fn non_roles_and_other_partitions_are_refused_with_the_flag() {
        for line in [
            "iam --pass-role arn:aws:iam::1:instance-profile/a",
            "iam --pass-role nodes",
            "iam --partition aws-cn --assume-role arn:aws:iam::1:role/a",
            "iam --kms-key alias/a",
        ] {
            let error = print(line).expect_err(line).to_string();
            assert!(error.starts_with("--") && error.contains("want an ARN"), "{line}: {error}");
        }
    }

    #[test]
    fn clusters_are_named_with_their_namespace() {
        let text = print("iam --cluster team-a/dev --cluster team-b/*").expect("a policy");
        assert!(text.contains("\"team-a/dev\"") && text.contains("\"team-b/*\""), "{text}");
        for cluster in ["dev", "/dev", "team-a/", "team-a/dev/x"] {
            let error = print(&format!("iam --cluster {cluster}")).expect_err(cluster).to_string();
            assert!(error.contains("want NAMESPACE/NAME"), "{error}");
        }
    }

    #[test]
    fn a_policy_for_managed_clusters_is_for_one_or_for_all() {
        let all = print("iam managed").expect("a policy");
        assert!(!all.contains("Tag/sigs.k8s.io/cluster-api-provider-aws/cluster/"), "{all}");
        let managed = include_str!("cluster.yaml").replace("unmanaged: true", "unmanaged: false");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(managed.as_bytes()).expect("a file");
        let of_file = format!("iam managed -f {}", file.path().display());
        for line in ["iam managed --cluster team-a/prod".to_owned(), of_file] {
            let one = print(&line).expect("a policy");
            assert!(one.contains("aws/cluster/prod\"") && one.contains("*:subnet/*\""), "{line}: {one}");
        }
        let unmanaged = concat!("iam managed -f ", env!("CARGO_MANIFEST_DIR"), "/src/iam/cluster.yaml");
        let error = format!("{:#}", print(unmanaged).expect_err(unmanaged));
        assert!(error.contains("infrastructure that you bring"), "{error}");
        for line in ["iam managed --cluster team-a/dev --cluster team-a/prod", "iam managed --cluster team-a/*"] {
            let error = print(line).expect_err(line).to_string();
            assert!(error.contains("a policy for managed clusters"), "{error}");
        }
    }

    #[test]
    fn actions_are_listed_once_and_in_order() {
        let text = print("iam node --output actions").expect("actions");
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.is_sorted() && lines.contains(&"ecr:GetAuthorizationToken"), "{text}");
        assert!(!text.contains("elasticloadbalancing"), "{text}");
        let text = print("iam control-plane --output actions").expect("actions");
        assert!(text.contains("elasticloadbalancing:CreateLoadBalancer\n"), "{text}");
        assert_eq!(text.matches("ec2:CreateTags\n").count(), 1, "{text}");
    }

    #[test]
    fn the_policy_for_a_file_allows_what_its_cluster_uses_and_no_more() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/src/iam/cluster.yaml");
        let actions = print(&format!("iam -f {example} -o actions")).expect("actions");
        assert!(!actions.contains("DescribeHosts") && actions.contains("DescribePlacementGroups"), "{actions}");
        assert!(actions.contains("RegisterTargets") && !actions.contains("iam:PassRole"), "{actions}");
        let policy = print(&format!("iam -f {example}")).expect("a policy");
        for resource in [
            "ec2:eu-west-1:*:subnet/subnet-0000000a",
            "ec2:eu-west-1:*:security-group/sg-0000000a",
            "ec2:eu-west-1::image/ami-0000000a",
            "ec2:eu-west-1:*:key-pair/admin",
            "elasticloadbalancing:eu-west-1:*:targetgroup/prod/0123456789abcdef",
            "ec2:eu-west-1:*:instance/*",
            "s3:::acme-boot/node/*",
            "team-a/*",
        ] {
            assert!(policy.contains(&format!("{resource}\"")), "{resource}: {policy}");
        }
        for resource in
            ["subnet/*", "image/*", "targetgroup/*", "loadbalancer/", "dedicated-host/", "AllocateHosts", "s3:::*/"]
        {
            assert!(!policy.contains(resource), "{resource}: {policy}");
        }
    }

    #[test]
    fn only_templates_with_a_family_of_eks_images_read_parameters() {
        let text = include_str!("cluster.yaml");
        let asked = ACTIONS.iter().find(|action| action.name == "GetParameter");
        let asked = asked.expect("the action is in the table");
        for (image, expected) in [("id: ami-0000000a", false), ("eksLookupType: AmazonLinux2023", true)] {
            let described = objects::parse(&text.replace("id: ami-0000000a", image)).expect("a cluster");
            let (_, cluster_use) = of_cluster(described);
            assert_eq!(cluster_use.includes(asked), expected, "{image}");
        }
        let policy = print("iam").expect("a policy");
        let parameters = "arn:aws:ssm:*::parameter/aws/service/eks/*";
        assert!(policy.contains(parameters), "{policy}");
    }

    #[test]
    fn a_spot_template_may_make_spot_requests() {
        let request = "ec2:eu-west-1:*:spot-instances-request/*\"";
        let example = include_str!("cluster.yaml");
        for (field, expected) in [("sshKeyName: admin", false), ("spotMarketOptions: {}", true)] {
            let described = objects::parse(&example.replace("sshKeyName: admin", field)).expect("a cluster");
            let (_, cluster_use) = of_cluster(described);
            let policy = Policy::of_controller(&Given { only: Some(cluster_use), ..Given::default_of(Partition::Aws) });
            let policy = policy.json().expect("JSON");
            assert_eq!(policy.contains(request), expected, "{field}: {policy}");
        }
        assert!(print("iam").expect("a policy").contains("ec2:*:*:spot-instances-request/*\""));
    }

    #[test]
    fn instances_have_the_domain_of_their_vpc_without_checks() {
        let example =
            include_str!("cluster.yaml").replace("unmanaged: true", "unmanaged: true\n  preflight: {mode: Disabled}");
        let described = objects::parse(&example).expect("a cluster");
        let (_, cluster_use) = of_cluster(described);
        for (name, expected) in [("DescribeDhcpOptions", true), ("DescribeRegions", false)] {
            let action = ACTIONS.iter().find(|action| action.name == name).expect("the action is in the table");
            assert_eq!(cluster_use.includes(action), expected, "{name}");
        }
    }

    #[test]
    fn a_template_that_allocates_has_the_actions_for_it() {
        let hosts = [
            "\"ec2:AllocateHosts\"",
            "\"ec2:ReleaseHosts\"",
            "\"AllocateHosts\"",
            "ec2:eu-west-1:*:dedicated-host/*\"",
        ];
        let addresses = [
            "\"ec2:AllocateAddress\"",
            "\"ec2:ReleaseAddress\"",
            "\"AllocateAddress\"",
            "ec2:eu-west-1:*:elastic-ip/*\"",
        ];
        let example = include_str!("cluster.yaml");
        for (field, parts) in [("dynamicHostAllocation: {}", hosts), ("elasticIpPool: {}", addresses)] {
            let allocating = example.replace("sshKeyName: admin", field);
            assert_ne!(allocating, example);
            let described = objects::parse(&allocating).expect("a cluster");
            let (_, cluster_use) = of_cluster(described);
            let policy = Policy::of_controller(&Given { only: Some(cluster_use), ..Given::default_of(Partition::Aws) });
            let policy = policy.json().expect("JSON");
            for part in parts {
                assert!(policy.contains(part), "{part}: {policy}");
            }
            let other = if parts == hosts { addresses } else { hosts };
            assert!(!policy.contains(other[0]), "{}: {policy}", other[0]);
        }
    }
}
