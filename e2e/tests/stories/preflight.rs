//! The checks of infrastructure, by the controller and on the command line, with answers of an AWS API.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use aws_sdk_ec2::types;
use aws_sdk_elasticloadbalancingv2::types::{
    LoadBalancerSchemeEnum, LoadBalancerTypeEnum, ProtocolEnum, TargetTypeEnum,
};
use capa_e2e::{ProviderCommand, Story, eventually, fixtures};
use capa_preflight::{ShownBy, rules};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::scenario::{CORE, REGION, Scenario, WITHIN, run_story, story};

/// The most calls of the checks of a network.
const MAX_CALLS: usize = 15;

#[test]
fn the_controller_reports_findings_and_checks_again_on_request() -> anyhow::Result<()> {
    story("preflight", async |s| {
        let names = async |are_given: bool| -> anyhow::Result<()> {
            let value = types::AttributeBooleanValue::builder().value(are_given).build();
            let vpc = s.user.ec2().modify_vpc_attribute().vpc_id(&s.network.vpc_id);
            vpc.enable_dns_hostnames(value).send().await?;
            Ok(())
        };
        names(false).await?;
        s.owned("dev", &s.unmanaged("dev", "  preflight: {mode: Require}")).await?;
        let said = s.await_condition("dev", "PreflightPassed", "False", "RulesFailing").await?;
        assert!(said.contains("V3"), "{said}");
        s.await_condition("dev", "Ready", "False", "RulesFailing").await?;
        let calls = s.aws().checks_journal().distinct();
        assert!(!calls.is_empty() && calls.len() <= MAX_CALLS, "{calls}");

        names(true).await?;
        let annotation = json!({"infrastructure.cluster.x-k8s.io/preflight-requested": "mended"});
        s.change("dev", json!({"metadata": {"annotations": annotation}})).await?;
        eventually(WITHIN, "the finding to be gone", async || {
            let status = s.aws_cluster("dev").await?.data["status"].take();
            let preflight = &status["preflight"];
            ensure!(preflight["observedRequest"] == "mended", "{preflight}");
            let found = preflight["findings"].as_array().cloned().unwrap_or_default();
            ensure!(found.iter().all(|finding| finding["rule"] != "V3"), "{preflight}");
            ensure!(found.iter().all(|finding| finding["severity"] != "Blocking"), "{preflight}");
            Ok(())
        })
        .await?;
        s.infrastructure_provisioned("dev").await?;
        s.assert_mutating(&[]);
        Ok(())
    })
}

/// Runs `capa-rs check network` with the credentials of the story, and gives its exit code and its report.
fn check(s: &Scenario, objects: &str, access_key_id: Option<&str>) -> anyhow::Result<(i32, Value)> {
    let arguments = ["check", "network", "--output", "json", "--file", "-"];
    let (code, report) = provider(s, &arguments, objects, access_key_id)?;
    let parsed = serde_json::from_str(&report).with_context(|| report.clone())?;
    Ok((code, parsed))
}

/// Runs the provider's program with the credentials of the story, and gives its exit code and what it prints.
pub(super) fn provider(
    s: &Scenario,
    arguments: &[&str],
    input: &str,
    access_key_id: Option<&str>,
) -> anyhow::Result<(i32, String)> {
    let mut command = ProviderCommand::new(s.aws(), arguments)?;
    command = command.env("KUBECONFIG", s.environment.world().admin_kubeconfig());
    // Nothing listens there: the API server is not behind the proxy.
    command = command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1");
    if let Some(id) = access_key_id {
        command = command.env("AWS_ACCESS_KEY_ID", id);
    }
    let ran = command.run(input)?;
    Ok((ran.code, ran.printed + &ran.errors))
}

#[test]
fn the_command_checks_a_cluster_and_the_sources_of_its_machines() -> anyhow::Result<()> {
    run_story(Story::new("check-cluster"), async |s| {
        s.apply(&fixtures::cluster("dev", None)).await?;
        let template = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: md}
spec: {template: {spec: {instanceType: m5.large, networkSources: [{kind: ConfigMap, name: network}]}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md}
spec:
  clusterName: dev
  selector: {matchLabels: {role: worker}}
  template:
    metadata: {labels: {role: worker}}
    spec:
      clusterName: dev
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachineTemplate, name: md}
";
        s.apply(template).await?;
        let checked = |output: &str| {
            let namespace = s.namespace().to_owned();
            let arguments = ["check", "cluster", "dev", "--namespace", &namespace, "--output", output];
            provider(s, &arguments, "", None)
        };
        let labelled = async || {
            let api = s.api(CORE, "MachineDeployment").await?;
            let deployment = api.get("md").await?;
            ensure!(deployment.labels().get("cluster.x-k8s.io/cluster-name").is_some(), "no label");
            Ok(())
        };
        eventually(WITHIN, "the MachineDeployment to have the label of its Cluster", labelled).await?;
        let (code, said) = checked("text")?;
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("× K3") && said.contains("ConfigMap/network"), "{said}");

        let subnets: Vec<Value> = s.network.private_subnet_ids().iter().map(|id| json!({"id": id})).collect();
        let network = |region: Value| {
            let network = json!({"region": region, "subnets": subnets,
                "securityGroups": {"all": [s.network.node_security_group_id]}});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "network"},
                "data": {"network.yaml": network.to_string()}})
            .to_string()
        };
        s.apply(&network(json!(REGION))).await?;
        let (_, report) = checked("json")?;
        let report: Value = serde_json::from_str(&report).with_context(|| report.clone())?;
        let passed = report["passed"].as_array().context("rules")?;
        for rule in ["K1", "K2", "K3", "S1", "G1"] {
            assert!(passed.contains(&json!(rule)), "{rule}: {report}");
        }
        let namespace = s.namespace().to_owned();
        let drawn = provider(s, &["topology", "dev", "--namespace", &namespace, "--output", "dot"], "", None)?;
        assert_eq!(drawn.0, 0, "{}", drawn.1);
        assert!(drawn.1.contains(s.network.private_subnet_ids()[0]), "{}", drawn.1);
        s.assert_mutating(&[]);
        Ok(())
    })
}

fn found(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().into_iter().flatten();
    findings.filter_map(|finding| Some(finding["rule"].as_str()?.to_owned())).collect()
}

/// A Cluster, its AWSCluster with this spec, a control plane and workers with further fields of the spec of their
/// template.
fn objects(cluster: &Value, aws_cluster: &Value, control_plane: &Value, workers: &Value, kind: &str) -> String {
    let reference = |group: &str, kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
    let ours = "infrastructure.cluster.x-k8s.io";
    let template = |name: &str, spec: &Value| {
        json!({"apiVersion": format!("{ours}/v1beta2"), "kind": "AWSMachineTemplate", "metadata": {"name": name},
            "spec": {"template": {"spec": spec}}})
    };
    let documents = [
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {
            "clusterNetwork": cluster,
            "infrastructureRef": reference(ours, "AWSCluster", "prod"),
            "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", kind, "cp"),
        }}),
        json!({"apiVersion": format!("{ours}/v1beta2"), "kind": "AWSCluster", "metadata": {"name": "prod"},
            "spec": aws_cluster}),
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "cp"},
            "spec": {"replicas": 3, "machineTemplate": {"spec": {
                "infrastructureRef": reference(ours, "AWSMachineTemplate", "cp")}}}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"},
            "spec": {"replicas": 5000, "template": {"spec": {
                "infrastructureRef": reference(ours, "AWSMachineTemplate", "md")}}}}),
        template("cp", control_plane),
        template("md", workers),
    ];
    documents.map(|document| document.to_string()).join("\n---\n")
}

fn plain(s: &Scenario) -> String {
    let spec = json!({"region": REGION, "unmanaged": true, "network": {"vpc": {"id": s.network.vpc_id}}});
    let machine = json!({"instanceType": "m5.large"});
    objects(&json!({}), &spec, &machine, &machine, "KubeadmControlPlane")
}

/// A spec whose ids nobody has.
fn nothing_is_there(s: &Scenario) -> anyhow::Result<Value> {
    let spec = json!({
        "region": REGION, "unmanaged": true,
        "network": {
            "vpc": {"id": "vpc-0123456789abcdef0"},
            "subnets": [{"id": "subnet-0123456789abcdef0"}],
            "securityGroupOverrides": {"node": "sg-0123456789abcdef0"},
        },
        "controlPlaneTargets": [{"targetGroupARN": format!(
            "arn:aws:elasticloadbalancing:{REGION}:{}:targetgroup/none/0123456789abcdef", s.aws().id())}],
    });
    let machine = json!({
        "instanceType": "m5.large", "ami": {"id": "ami-0123456789abcdef0"}, "sshKeyName": "none",
        "iamInstanceProfile": "none", "spotMarketOptions": {},
        "rootVolume": {"size": 20, "encryptionKey": "alias/none"},
    });
    let (code, report) = check(s, &objects(&json!({}), &spec, &machine, &machine, "KubeadmControlPlane"), None)?;
    assert_eq!(code, 1, "{report}");
    Ok(report)
}

/// Infrastructure in which as many rules as possible are broken at once.
async fn nothing_is_right(s: &Scenario) -> anyhow::Result<Value> {
    let ec2 = s.user.ec2();
    let vpc = ec2.create_vpc().cidr_block("10.7.0.0/16").instance_tenancy(types::Tenancy::Dedicated).send().await?;
    let vpc = vpc.vpc.and_then(|vpc| vpc.vpc_id).context("a VPC")?;
    let off = || types::AttributeBooleanValue::builder().value(false).build();
    ec2.modify_vpc_attribute().vpc_id(&vpc).enable_dns_support(off()).send().await?;
    let subnet = async |block: &str, zone: &str| -> anyhow::Result<String> {
        let made = ec2.create_subnet().vpc_id(&vpc).cidr_block(block).availability_zone(zone).send().await?;
        made.subnet.and_then(|subnet| subnet.subnet_id).context("a subnet")
    };
    let (one, other) = (subnet("10.7.1.0/24", "eu-west-1a").await?, subnet("10.7.2.0/24", "eu-west-1b").await?);
    let crowded = (0..50).map(|number| types::Tag::builder().key(format!("key-{number}")).value("").build());
    ec2.create_tags().resources(&one).set_tags(Some(crowded.collect())).send().await?;
    nat_in_another_zone(s, &vpc, &one, &other).await?;
    let lists = ec2.describe_network_acls().send().await?.network_acls.unwrap_or_default();
    let list = lists.iter().find(|list| list.vpc_id() == Some(&vpc)).and_then(|list| list.network_acl_id());
    let deny =
        ec2.create_network_acl_entry().network_acl_id(list.context("a network ACL")?).rule_number(1).egress(true);
    deny.protocol("-1").cidr_block("0.0.0.0/0").rule_action(types::RuleAction::Deny).send().await?;
    let group = closed_group(s, &vpc).await?;
    let arn = useless_target_group(s, &vpc, &[&one, &other]).await?;
    let spec = json!({
        "region": REGION, "unmanaged": true, "preflight": {"cni": "Calico"},
        "network": {
            "vpc": {"id": vpc},
            "subnets": [{"id": one, "availabilityZone": "eu-west-1a"}, {"id": other, "availabilityZone": "eu-west-1c"}],
            "securityGroupOverrides": {"node": group},
        },
        "controlPlaneTargets": [{"targetGroupARN": arn}],
    });
    let network = json!({"pods": {"cidrBlocks": ["10.0.0.0/8", "fd00::/48"]}});
    let many: Vec<Value> = (0..6).map(|number| json!({"id": format!("sg-0123456789abcdef{number}")})).collect();
    let mut reports = Vec::new();
    for kind in ["KubeadmControlPlane", "KamajiControlPlane"] {
        let control_plane = json!({"instanceType": "m5.large"});
        let workers = json!({"instanceType": "m5.large", "publicIP": true, "subnet": {"id": other}});
        let (code, report) = check(s, &objects(&network, &spec, &control_plane, &workers, kind), None)?;
        assert_eq!(code, 1, "{report}");
        reports.push(report);
    }
    let crowded = json!({"instanceType": "m5.large", "additionalSecurityGroups": many});
    reports.push(check(s, &objects(&network, &spec, &crowded, &crowded, "KubeadmControlPlane"), None)?.1);
    let findings: Vec<Value> =
        reports.iter().flat_map(|of| of["findings"].as_array().cloned().unwrap_or_default()).collect();
    Ok(json!({"findings": findings}))
}

/// The default route of the subnet leads to a NAT gateway in the zone of the other one.
async fn nat_in_another_zone(s: &Scenario, vpc: &str, subnet: &str, other: &str) -> anyhow::Result<()> {
    let ec2 = s.user.ec2();
    let address = ec2.allocate_address().domain(types::DomainType::Vpc).send().await?;
    let gateway = ec2.create_nat_gateway().subnet_id(other).set_allocation_id(address.allocation_id).send().await?;
    let gateway = gateway.nat_gateway.and_then(|gateway| gateway.nat_gateway_id).context("a NAT gateway")?;
    let table = ec2.create_route_table().vpc_id(vpc).send().await?;
    let table = table.route_table.and_then(|table| table.route_table_id).context("a route table")?;
    let route = ec2.create_route().route_table_id(&table).destination_cidr_block("0.0.0.0/0");
    route.nat_gateway_id(gateway).send().await?;
    ec2.associate_route_table().route_table_id(table).subnet_id(subnet).send().await?;
    Ok(())
}

/// A security group with 60 rules that admit nobody of the cluster, and without rules for outgoing traffic.
async fn closed_group(s: &Scenario, vpc: &str) -> anyhow::Result<String> {
    let ec2 = s.user.ec2();
    let group = ec2.create_security_group().vpc_id(vpc).group_name("closed").description("closed").send().await?;
    let group = group.group_id.context("a security group")?;
    let range = |block: String| types::IpRange::builder().cidr_ip(block).build();
    let rules = types::IpPermission::builder().ip_protocol("tcp").from_port(1).to_port(1);
    let blocks = (0..60).map(|number| range(format!("192.0.2.{number}/32")));
    let rules = rules.set_ip_ranges(Some(blocks.collect())).build();
    ec2.authorize_security_group_ingress().group_id(&group).ip_permissions(rules).send().await?;
    let all = types::IpPermission::builder().ip_protocol("-1").ip_ranges(range("0.0.0.0/0".to_owned())).build();
    ec2.revoke_security_group_egress().group_id(&group).ip_permissions(all).send().await?;
    Ok(group)
}

/// A target group for HTTP behind an internal Application Load Balancer without a listener for the API server.
async fn useless_target_group(s: &Scenario, vpc: &str, subnets: &[&str]) -> anyhow::Result<String> {
    let elb = s.user.elbv2();
    let group = elb.create_target_group().name("useless").vpc_id(vpc).protocol(ProtocolEnum::Http).port(80);
    let group = group.target_type(TargetTypeEnum::Instance).health_check_path("/").send().await?;
    let arn = group.target_groups().first().and_then(|group| group.target_group_arn()).context("a target group")?;
    let balancer = elb.create_load_balancer().name("useless").scheme(LoadBalancerSchemeEnum::Internal);
    let balancer = balancer.r#type(LoadBalancerTypeEnum::Application);
    let subnets = subnets.iter().take(1).map(|id| (*id).to_owned()).collect();
    let balancer = balancer.set_subnets(Some(subnets)).send().await?;
    let balancer = balancer.load_balancers().first().and_then(|balancer| balancer.load_balancer_arn());
    let forward = aws_sdk_elasticloadbalancingv2::types::Action::builder().target_group_arn(arn);
    let forward = forward.r#type(aws_sdk_elasticloadbalancingv2::types::ActionTypeEnum::Forward).build();
    let listener = elb.create_listener().load_balancer_arn(balancer.context("a load balancer")?);
    listener.protocol(ProtocolEnum::Http).port(80).default_actions(forward).send().await?;
    Ok(arn.to_owned())
}

mod long_stories {
    use super::*;

    #[test]
    fn the_command_finds_every_rule_that_moto_can_show() -> anyhow::Result<()> {
        run_story(Story::new("check"), async |s| {
            let mut shown = found(&nothing_is_right(s).await?);
            shown.extend(found(&nothing_is_there(s)?));
            let stranger = check(s, &plain(s), Some("AKIASTRANGER"))?;
            assert_eq!(stranger.0, 2, "{}", stranger.1);
            shown.extend(found(&stranger.1));
            let by_moto = rules().into_iter().filter(|rule| rule.shown_by == ShownBy::Moto);
            let by_moto: BTreeSet<String> = by_moto.map(|rule| rule.id.to_owned()).collect();
            assert_eq!(shown, by_moto, "rules that are broken here, and rules that say so");
            s.assert_mutating(&[]);
            Ok(())
        })
    }
}
