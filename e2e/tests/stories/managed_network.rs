//! The network of a managed cluster with a load balancer of each generation: created, repaired and deleted; and
//! clusters in a VPC of the user.

use anyhow::{Context as _, ensure};
use aws_sdk_ec2::types::{AttributeBooleanValue, Filter, Route, RouteTable, Vpc};
use aws_sdk_elasticloadbalancing::types::{HealthCheck, TagDescription};
use aws_sdk_elasticloadbalancingv2::types::TagDescription as Described;
use capa_e2e::aws_proxy::Fault;
use capa_e2e::{eventually, fixtures};
use serde_json::json;

use super::preflight::provider;
use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN, story};

const ANYWHERE: &str = "0.0.0.0/0";
/// The name of the classic load balancer.
const CLASSIC: &str = "dev-apiserver";

/// An AWSCluster whose network the provider creates.
pub(super) fn managed() -> String {
    let second = "{loadBalancerType: nlb, scheme: internal, name: inside, additionalListeners: [{port: 9345}]}";
    format!(
        "{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: dev}}, spec: {{region: {REGION}, \
         controlPlaneLoadBalancer: {{dnsResolutionCheck: None}}, secondaryControlPlaneLoadBalancer: {second}}}}}"
    )
}

/// The VPCs of the cluster `dev`.
async fn vpcs(s: &Scenario) -> anyhow::Result<Vec<Vpc>> {
    let described = s.user.ec2().describe_vpcs().send().await?;
    let name = |vpc: &Vpc| vpc.tags().iter().any(|tag| tag.value() == Some("dev-vpc"));
    Ok(described.vpcs.unwrap_or_default().into_iter().filter(name).collect())
}

fn of_vpc(id: &str) -> Filter {
    Filter::builder().name("vpc-id").values(id).build()
}

/// The route table of a private subnet.
async fn private_table(s: &Scenario, vpc: &str) -> anyhow::Result<String> {
    let described = s.user.ec2().describe_route_tables().filters(of_vpc(vpc)).send().await?;
    let is_private = |table: &&RouteTable| table.routes().iter().any(|route| route.nat_gateway_id().is_some());
    let found = described.route_tables().iter().find(is_private);
    let id = found.and_then(RouteTable::route_table_id).context("a private table")?;
    Ok(id.to_owned())
}

/// The values of a tag of the VPC, of the network load balancer with this ARN and of the classic one.
async fn tag(s: &Scenario, vpc: &str, arn: &str, key: &str) -> anyhow::Result<[Option<String>; 3]> {
    let vpcs = s.user.ec2().describe_vpcs().vpc_ids(vpc).send().await?;
    let mut of_vpc = vpcs.vpcs().iter().flat_map(Vpc::tags);
    let of_vpc = of_vpc.find(|tag| tag.key() == Some(key)).and_then(|tag| tag.value());
    let network = s.user.elbv2().describe_tags().resource_arns(arn).send().await?;
    let mut of_network = network.tag_descriptions().iter().flat_map(Described::tags);
    let of_network = of_network.find(|tag| tag.key() == Some(key)).and_then(|tag| tag.value());
    let classic = s.user.classic().describe_tags().load_balancer_names(CLASSIC).send();
    let classic = classic.await?;
    let mut of_classic = classic.tag_descriptions().iter().flat_map(TagDescription::tags);
    let of_classic = of_classic.find(|tag| tag.key() == key).and_then(|tag| tag.value());
    Ok([of_vpc, of_network, of_classic].map(|value| value.map(str::to_owned)))
}

/// Changes tags in the spec, and waits until these are the values of the tags `team` and `stage`.
async fn tags_follow(s: &Scenario, vpc: &str, arn: &str, team: &str, stage: Option<&str>) -> anyhow::Result<()> {
    let tags = json!({"team": team, "stage": stage});
    s.change("dev", json!({"spec": {"additionalTags": tags}})).await?;
    eventually(WITHIN, "the tags of the spec", async || {
        for (key, value) in [("team", Some(team)), ("stage", stage)] {
            let shown = tag(s, vpc, arn, key).await?;
            ensure!(shown.iter().all(|shown| shown.as_deref() == value), "{key}: {shown:?}");
        }
        Ok(())
    })
    .await
}

/// The exit code of `capa-rs plan` for an AWSCluster in a file, and what it prints.
fn plan(s: &Scenario, arguments: &[&str], cluster: &str) -> anyhow::Result<(i32, String)> {
    let namespace = format!("{{name: dev, namespace: {}}}", s.namespace());
    let arguments = [&["plan"], arguments].concat();
    let objects = format!("{cluster}\n---\n{}", fixtures::cluster("dev", Some("AWSCluster")));
    provider(s, &arguments, &objects.replace("{name: dev}", &namespace), None)
}

/// A plan for what exists is empty, with the objects of the management cluster and without, and one for a changed spec
/// is not.
fn is_planned(s: &Scenario) -> anyhow::Result<()> {
    let live = ["cluster", "dev", "--namespace", s.namespace()];
    let (code, said) = plan(s, &live, "")?;
    ensure!(code == 0 && said.contains("No changes"), "{code}: {said}");
    let first = managed().split(", secondaryControlPlaneLoadBalancer").next().context("a spec")?.to_owned() + "}}";
    let (code, said) = plan(s, &[&live[..], &["--file", "-"]].concat(), &first)?;
    ensure!(code == 2 && said.contains(": DeleteLoadBalancer "), "{code}: {said}");
    let directory = tempfile::tempdir()?;
    let facts = directory.path().join("facts.json");
    let facts = facts.to_str().context("a path")?;
    let (code, said) = plan(s, &["--file", "-", "--save-facts", facts], &managed())?;
    ensure!(code == 0 && said.contains("No changes"), "{code}: {said}");
    let changed = managed().replace("[{port: 9345}]", "[{port: 9345}, {port: 9346}]");
    let (code, said) = plan(s, &["--file", "-", "--facts", facts], &changed)?;
    ensure!(code == 2 && said.contains("CreateTargetGroup"), "{code}: {said}");
    Ok(())
}

/// The picture of the cluster shows its subnets, also before there are machines.
async fn is_drawn(s: &Scenario, vpc: &str) -> anyhow::Result<()> {
    let arguments = ["topology", "dev", "--namespace", s.namespace(), "--output", "dot"];
    let (code, drawn) = provider(s, &arguments, "", None)?;
    let subnets = s.user.ec2().describe_subnets().filters(of_vpc(vpc)).send().await?;
    let ids = subnets.subnets().iter().filter_map(|subnet| subnet.subnet_id());
    let is_complete = subnets.subnets().len() == 6 && ids.chain([vpc]).all(|id| drawn.contains(id));
    ensure!(code == 0 && is_complete, "{code}: {drawn}");
    Ok(())
}

pub(super) async fn is_complete(s: &Scenario) -> anyhow::Result<()> {
    for condition in [
        "VpcReady",
        "SubnetsReady",
        "InternetGatewayReady",
        "NatGatewaysReady",
        "RouteTablesReady",
        "ClusterSecurityGroupsReady",
        "LoadBalancerReady",
        "ControlPlaneEndpointReady",
        "Ready",
    ] {
        s.await_condition("dev", condition, "True", "Ready").await?;
    }
    Ok(())
}

#[test]
fn the_network_of_a_managed_cluster_is_created_repaired_and_deleted() -> anyhow::Result<()> {
    story("managed-network", async |s| {
        let before = s.user.dump().await?;
        let (code, said) = plan(s, &["--file", "-"], &managed())?;
        ensure!(code == 2 && said.contains("CreateVpc cidrBlock: 10.0.0.0/16"), "{code}: {said}");
        let lost = s.aws().fault(Fault::on("CreateVpc").dropped_after_effect());
        s.owned("dev", &managed()).await?;
        eventually(WITHIN, "the VPC of the lost answer", async || {
            ensure!(vpcs(s).await?.len() == 1, "no call has reached EC2");
            Ok(())
        })
        .await?;
        lost.lift();
        let lost =
            [("CreateNatGateway", 1), ("CreateLoadBalancer", 2), ("CreateTargetGroup", 1), ("CreateListener", 1)];
        let lost = lost.map(|(action, times)| s.aws().fault(Fault::on(action).dropped_after_effect().times(times)));
        is_complete(s).await?;
        for fault in lost {
            fault.lift();
        }
        s.infrastructure_provisioned("dev").await?;
        is_planned(s)?;
        let [vpc] = &vpcs(s).await?[..] else { anyhow::bail!("more than one VPC") };
        let id = vpc.vpc_id().context("a VPC with an id")?;
        is_drawn(s, id).await?;
        let gateways = s.user.ec2().describe_nat_gateways().filter(of_vpc(id)).send().await?;
        ensure!(gateways.nat_gateways().len() == 3, "one in each zone: {gateways:?}");

        let off = AttributeBooleanValue::builder().value(false).build();
        let change = s.user.ec2().modify_vpc_attribute().vpc_id(id);
        change.enable_dns_hostnames(off).send().await?;
        let table = private_table(s, id).await?;
        let route = s.user.ec2().delete_route().route_table_id(&table);
        route.destination_cidr_block(ANYWHERE).send().await?;
        let balancers = s.user.elbv2().describe_load_balancers().send().await?;
        let [balancer] = balancers.load_balancers() else { anyhow::bail!("one load balancer: {balancers:?}") };
        let arn = balancer.load_balancer_arn().context("an ARN")?;
        let listeners = s.user.elbv2().describe_listeners().load_balancer_arn(arn).send().await?;
        ensure!(listeners.listeners().len() == 2, "two listeners: {listeners:?}");
        let listener = listeners.listeners()[0].listener_arn().context("an ARN")?;
        s.user.elbv2().delete_listener().listener_arn(listener).send().await?;
        let check = HealthCheck::builder().target("TCP:80").interval(300).timeout(4);
        let check = check.unhealthy_threshold(2).healthy_threshold(2).build()?;
        let change = s.user.classic().configure_health_check().load_balancer_name(CLASSIC);
        change.health_check(check).send().await?;
        let look_again = json!({"metadata": {"annotations": {"example.org/look": "again"}}});
        s.change("dev", look_again).await?;
        eventually(WITHIN, "the DNS host names to be on again", async || {
            let asked = s.user.ec2().describe_vpc_attribute().vpc_id(id);
            let attribute = asked.attribute("enableDnsHostnames".into()).send().await?;
            let value = attribute.enable_dns_hostnames().and_then(AttributeBooleanValue::value);
            ensure!(value == Some(true), "it is {value:?}");
            Ok(())
        })
        .await?;
        eventually(WITHIN, "the default route to be there again", async || {
            let tables = s.user.ec2().describe_route_tables().route_table_ids(&table).send().await?;
            let mut routes = tables.route_tables().iter().flat_map(RouteTable::routes);
            let is_default = |route: &Route| route.destination_cidr_block() == Some(ANYWHERE);
            ensure!(routes.any(is_default), "it is not there");
            Ok(())
        })
        .await?;
        eventually(WITHIN, "the listener to be there again", async || {
            let listeners = s.user.elbv2().describe_listeners().load_balancer_arn(arn).send().await?;
            ensure!(listeners.listeners().len() == 2, "{listeners:?}");
            Ok(())
        })
        .await?;
        eventually(WITHIN, "the health check to be right again", async || {
            let described = s.user.classic().describe_load_balancers().load_balancer_names(CLASSIC);
            let described = described.send().await?;
            let check = described.load_balancer_descriptions()[0].health_check();
            ensure!(check.is_some_and(|check| check.target() == "TCP:6443"), "{check:?}");
            Ok(())
        })
        .await?;
        tags_follow(s, id, arn, "a", Some("test")).await?;
        tags_follow(s, id, arn, "b", None).await?;
        is_complete(s).await?;

        s.delete(CORE, "Cluster", "dev").await?;
        s.gone(OURS, "AWSCluster", &["dev"]).await?;
        s.has_left_nothing(&before).await
    })
}

/// An AWSCluster in the network of the story, with a load balancer of this type.
fn in_network_of_user(s: &Scenario, name: &str, of_type: &str) -> String {
    let subnets = s.network.private_subnet_ids().into_iter();
    let subnets: Vec<String> = subnets.map(|id| format!("{{id: {id}}}")).collect();
    let balancer = format!("{{loadBalancerType: {of_type}, scheme: internal, dnsResolutionCheck: None}}");
    format!(
        "{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: {name}}}, spec: {{region: {REGION}, network: {{vpc: \
         {{id: {}}}, subnets: [{}]}}, controlPlaneLoadBalancer: {balancer}}}}}",
        s.network.vpc_id,
        subnets.join(", ")
    )
}

#[test]
fn clusters_in_one_vpc_of_the_user_leave_each_other_alone() -> anyhow::Result<()> {
    story("managed-shared", async |s| {
        let before = s.user.dump().await?;
        for (name, of_type) in [("one", "classic"), ("one-2", "nlb")] {
            s.owned(name, &in_network_of_user(s, name, of_type)).await?;
        }
        for name in ["one", "one-2"] {
            s.await_condition(name, "Ready", "True", "Ready").await?;
            s.infrastructure_provisioned(name).await?;
        }
        let own = async || -> anyhow::Result<Vec<String>> {
            let groups = s.user.ec2().describe_security_groups().filters(of_vpc(&s.network.vpc_id));
            let groups = groups.send().await?.security_groups.unwrap_or_default().into_iter();
            let names = groups.filter_map(|group| group.group_name);
            Ok(names.filter(|name| name.starts_with("one")).collect())
        };
        ensure!(own().await?.len() == 8, "four for each: {:?}", own().await?);
        s.delete(CORE, "Cluster", "one").await?;
        s.gone(OURS, "AWSCluster", &["one"]).await?;
        let left = own().await?;
        ensure!(left.len() == 4 && left.iter().all(|name| name.starts_with("one-2-")), "{left:?}");
        s.await_condition("one-2", "LoadBalancerReady", "True", "Ready").await?;
        s.delete(CORE, "Cluster", "one-2").await?;
        s.gone(OURS, "AWSCluster", &["one-2"]).await?;
        assert_eq!(s.user.dump().await?, before);
        Ok(())
    })
}

mod long_stories {
    use std::collections::BTreeMap;

    use aws_sdk_ec2::types::{NetworkInterface, Tag};
    use serde_json::Value;

    use super::*;

    fn by_key(tags: &[Tag]) -> BTreeMap<&str, &str> {
        let tags = tags.iter();
        tags.filter_map(|tag| Some((tag.key()?, tag.value()?))).collect()
    }

    /// The VPC of the cluster and its subnets in the form in which CAPA writes them into the spec.
    async fn recorded(s: &Scenario) -> anyhow::Result<Value> {
        let vpcs = vpcs(s).await?;
        let [vpc] = &vpcs[..] else { anyhow::bail!("one VPC: {vpcs:?}") };
        let id = vpc.vpc_id().context("a VPC with an id")?;
        let described = s.user.ec2().describe_subnets().filters(of_vpc(id)).send().await?;
        let subnets = described.subnets().iter().map(|subnet| {
            let tags = by_key(subnet.tags());
            json!({
                "id": tags.get("Name"),
                "resourceID": subnet.subnet_id(),
                "cidrBlock": subnet.cidr_block(),
                "availabilityZone": subnet.availability_zone(),
                "isPublic": tags.get("sigs.k8s.io/cluster-api-provider-aws/role") == Some(&"public"),
                "zoneType": "availability-zone",
                "tags": {"Name": tags.get("Name")},
            })
        });
        Ok(json!({
            "vpc": {"id": id, "cidrBlock": vpc.cidr_block(), "tags": by_key(vpc.tags())},
            "subnets": subnets.collect::<Vec<_>>(),
        }))
    }

    /// A network interface in a subnet, as the VPC CNI leaves it behind.
    async fn left_interface(s: &Scenario, subnet: &str) -> anyhow::Result<String> {
        let create = s.user.ec2().create_network_interface().subnet_id(subnet);
        let created = create.description("aws-K8S-i-0123456789abcdef0").send().await?;
        let interface = created.network_interface().and_then(NetworkInterface::network_interface_id);
        Ok(interface.context("an interface with an id")?.to_owned())
    }

    #[test]
    fn what_uses_a_subnet_is_named_and_its_deletion_goes_on_without_it() -> anyhow::Result<()> {
        story("managed-in-use", async |s| {
            let before = s.user.dump().await?;
            s.owned("dev", &managed()).await?;
            is_complete(s).await?;
            let network = s.aws_cluster("dev").await?.data["status"]["network"].take();
            let mut interfaces = Vec::new();
            for subnet in network["subnets"].as_array().context("subnets")? {
                let subnet = subnet["id"].as_str().context("a subnet with an id")?;
                interfaces.push(left_interface(s, subnet).await?);
            }
            // moto deletes a subnet in which there are interfaces.
            let in_use = Fault::on("DeleteSubnet").error("DependencyViolation");
            let in_use = s.aws().fault(in_use);
            s.begin_deletion(CORE, "Cluster", "dev").await?;
            let blocked = s.await_condition("dev", "SubnetsReady", "False", "DeletionBlocked");
            let message = blocked.await?;
            let is_named = |id: &String| message.contains(&format!("{id} (aws-K8S-i-0123456789abcdef0, "));
            let in_account = format!("in account {}", s.aws().id());
            ensure!(
                interfaces.iter().any(is_named) && message.contains(&in_account),
                "{interfaces:?} are not in {message}"
            );
            for interface in &interfaces {
                let delete = s.user.ec2().delete_network_interface();
                delete.network_interface_id(interface).send().await?;
            }
            in_use.lift();
            s.gone(OURS, "AWSCluster", &["dev"]).await?;
            s.has_left_nothing(&before).await
        })
    }

    #[test]
    fn a_vpc_that_capa_has_made_is_taken_over_without_a_write() -> anyhow::Result<()> {
        story("managed-takeover", async |s| {
            let before = s.user.dump().await?;
            s.owned("dev", &managed()).await?;
            is_complete(s).await?;
            let mut spec = s.aws_cluster("dev").await?.data["spec"].clone();
            spec["network"] = recorded(s).await?;

            // CAPA leaves an AWSCluster with its finalizer, and without the status of this provider.
            let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
            s.change("dev", paused).await?;
            s.await_condition("dev", "Paused", "True", "Paused").await?;
            s.change("dev", json!({"metadata": {"finalizers": null}})).await?;
            s.delete(OURS, "AWSCluster", "dev").await?;
            let writes = s.aws().manager_journal().mutating().len();
            let finalizer = "awscluster.infrastructure.cluster.x-k8s.io";
            let metadata = json!({"name": "dev", "finalizers": [finalizer]});
            let of_capa = json!({"apiVersion": OURS, "kind": "AWSCluster", "metadata": metadata, "spec": spec});
            s.apply(&of_capa.to_string()).await?;
            is_complete(s).await?;
            let journal = s.aws().manager_journal().mutating();
            ensure!(journal.len() == writes, "{journal}");
            let live = ["cluster", "dev", "--namespace", s.namespace()];
            let (code, said) = plan(s, &live, "")?;
            ensure!(code == 0 && said.contains("No changes"), "{code}: {said}");

            s.delete(CORE, "Cluster", "dev").await?;
            s.gone(OURS, "AWSCluster", &["dev"]).await?;
            s.has_left_nothing(&before).await
        })
    }
}
