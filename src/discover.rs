//! `capa-rs discover`: prints an unmanaged AWSCluster for an existing VPC.

use std::io::{self, Write as _};

use anyhow::{Context, Result, bail, ensure};
use capa_cloud::ec2::SecurityGroup;
use capa_cloud::ec2::{Subnet, Vpc};
use capa_cloud::{ClusterCloud, ClusterClouds as _, Query};
use clap::Args;
use serde_json::{Value, json};

use crate::aws_access::{identity, pool};

/// The most VPCs that an error lists.
const MAX_LISTED: usize = 10;

/// Flags of `capa-rs discover`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  capa-rs discover --region eu-west-1 --vpc-tag cluster=prod > cluster.yaml\n  \
                        capa-rs check network -f cluster.yaml")]
pub(crate) struct Flags {
    /// Region of the VPC.
    #[arg(long, value_name = "REGION")]
    region: String,

    /// Tag of the VPC as KEY=VALUE; may be given several times; all must match.
    #[arg(long, value_name = "TAG", required_unless_present = "vpc")]
    vpc_tag: Vec<String>,

    /// Id of the VPC.
    #[arg(long, value_name = "ID")]
    vpc: Option<String>,

    /// Tag of the subnets of machines as KEY=VALUE; may be given several times. Default: all private subnets of the
    /// VPC, or all subnets if none is private.
    #[arg(long, value_name = "TAG")]
    subnet_tag: Vec<String>,

    /// Tag of the security groups of machines as KEY=VALUE; may be given several times. Default: the AWSCluster names
    /// none.
    #[arg(long, value_name = "TAG")]
    security_group_tag: Vec<String>,

    /// Name of the AWSCluster.
    #[arg(long, value_name = "NAME", default_value = "my-cluster")]
    name: String,
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let pool = pool().await;
        let cloud = pool.cluster(&identity(), &flags.region);
        found(flags, cloud.as_ref()).await
    })?;
    Ok(io::stdout().lock().write_all(manifest(flags, &found)?.as_bytes())?)
}

/// The parts of a VPC for machines.
#[derive(Debug)]
struct Found {
    vpc: Vpc,
    subnets: Vec<(Subnet, bool)>,
    security_groups: Vec<SecurityGroup>,
}

async fn found(flags: &Flags, cloud: &dyn ClusterCloud) -> Result<Found> {
    let mut query = tags(&flags.vpc_tag)?;
    if let Some(id) = &flags.vpc {
        query = query.and("vpc-id", [id]);
    }
    let mut vpcs = cloud.vpcs(&query).await.context("the VPC could not be looked up")?;
    let Some(vpc) = vpcs.pop() else {
        bail!("no VPC in {} matches: correct --vpc-tag or --vpc", flags.region);
    };
    if !vpcs.is_empty() {
        let ids = vpcs.iter().chain([&vpc]).take(MAX_LISTED).map(|vpc| vpc.id.as_str());
        bail!("several VPCs match: {}: add another --vpc-tag, or use --vpc", ids.collect::<Vec<_>>().join(", "));
    }
    let in_vpc = |query: Query| query.and("vpc-id", [&vpc.id]);
    let subnets =
        cloud.subnets(&in_vpc(tags(&flags.subnet_tag)?)).await.context("the subnets could not be looked up")?;
    ensure!(!subnets.is_empty(), "no subnet of {} matches --subnet-tag", vpc.id);
    let tables =
        cloud.route_tables(&in_vpc(Query::default())).await.context("the route tables could not be looked up")?;
    let mut subnets: Vec<(Subnet, bool)> = subnets
        .into_iter()
        .map(|subnet| {
            let is_public = subnet.is_public(&tables) == Some(true);
            (subnet, is_public)
        })
        .collect();
    if flags.subnet_tag.is_empty() && subnets.iter().any(|(_, is_public)| !is_public) {
        subnets.retain(|(_, is_public)| !is_public);
    }
    subnets.sort_by(|(one, _), (other, _)| (&one.zone, &one.id).cmp(&(&other.zone, &other.id)));
    let security_groups = if flags.security_group_tag.is_empty() {
        vec![]
    } else {
        let query = in_vpc(tags(&flags.security_group_tag)?);
        cloud.security_groups(&query).await.context("the security groups could not be looked up")?
    };
    Ok(Found { vpc, subnets, security_groups })
}

/// A filter for each tag.
fn tags(tags: &[String]) -> Result<Query> {
    tags.iter().try_fold(Query::default(), |query, tag| {
        let (key, value) = tag.split_once('=').with_context(|| format!("{tag} is no tag: want KEY=VALUE"))?;
        ensure!(!key.is_empty(), "{tag} is no tag: want KEY=VALUE");
        Ok(query.and(format!("tag:{key}"), [value]))
    })
}

/// The AWSCluster as YAML.
fn manifest(flags: &Flags, found: &Found) -> Result<String> {
    let subnets: Vec<Value> = found
        .subnets
        .iter()
        .map(|(subnet, is_public)| json!({"id": subnet.id, "availabilityZone": subnet.zone, "isPublic": is_public}))
        .collect();
    let mut network = json!({"vpc": {"id": found.vpc.id}, "subnets": subnets});
    let mut notes = String::new();
    match found.security_groups.as_slice() {
        [] => notes.push_str("# Add spec.network.securityGroupOverrides.node: machines need a security group.\n"),
        [group] => {
            if let Some(network) = network.as_object_mut() {
                network.insert("securityGroupOverrides".to_owned(), json!({"node": group.id}));
            }
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|group| group.id.as_str()).collect();
            notes = format!(
                "# Several security groups match: {}.\n# Name them in spec.network.securityGroupOverrides: node, lb, \
                 controlplane.\n",
                ids.join(", ")
            );
        }
    }
    let cluster = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "AWSCluster",
        "metadata": {"name": flags.name},
        "spec": {"region": flags.region, "unmanaged": true, "network": network},
    });
    Ok(notes + &serde_saphyr::to_string(&cluster)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_filter_and_needs_a_key() {
        let query = tags(&["cluster=prod".to_owned(), "note=a=b".to_owned()]).expect("tags");
        assert_eq!(query, Query::filter("tag:cluster", ["prod"]).and("tag:note", ["a=b"]));
        for wrong in ["cluster", "=prod"] {
            let error = tags(&[wrong.to_owned()]).expect_err(wrong).to_string();
            assert!(error.contains("want KEY=VALUE"), "{error}");
        }
    }
}
