//! The table of actions, compared with the calls that are really sent.

use std::collections::BTreeSet;

use capa_api::meta::ROLE_TAG;
use capa_cloud::ec2::{self, internet_gateway, nat_gateway, route_table, security_group, subnet, vpc};
use capa_cloud::elb::{self, classic_load_balancer, listener, load_balancer, target_group};
use capa_cloud::managed::{Call as ManagedCall, Effect, ManagedClouds};
use capa_cloud::{
    ClusterClouds, ClusterKey, CredentialSource, ErrorClass, InstanceState, MachineClouds, Query, ResolvedIdentity,
    TemplateClouds,
};

use capa_cloud::Answers;
use capa_preflight::facts::{Demand, MachineDemand};
use strum::VariantNames;

use super::calls::request;
use super::checks;
use super::elastic_ip;
use super::fake::{
    Answer, CLUSTER, Call, Fake, REGION, answer, at_its_turn, caller_identity, eventually, instance_xml, instances,
    machine, role, session,
};
use super::hosts;
use super::managed;
use super::secrets::{secret, stores};
use super::targets::{classic, elb, in_and_out, target};
use super::updates::change_instance;
use crate::iam_actions::{ACTIONS, AtLaunch, CheckedBy, Condition, Grant, MANAGED_ACTIONS, called};

fn serve(call: &Call) -> Answer {
    match call.action.as_str() {
        "AssumeRole" => session(call),
        "GetCallerIdentity" => caller_identity(),
        "DescribeInstances" => instances(&[("i-1", InstanceState::Running)], None),
        "RunInstances" => {
            let item = instance_xml("i-1", InstanceState::Running);
            answer("RunInstances", &format!("<instancesSet>{item}</instancesSet>"), None)
        }
        "CreateVpc"
        | "CreateSubnet"
        | "CreateInternetGateway"
        | "CreateNatGateway"
        | "CreateRouteTable"
        | "CreateSecurityGroup" => managed::serve(call),
        "DescribeVpcs" if call.field("Filter.1.Name").starts_with("tag:") => managed::serve(call),
        "DescribeVpcs" => {
            let vpc = "<vpcId>vpc-1</vpcId><dhcpOptionsId>dopt-1</dhcpOptionsId>";
            answer("DescribeVpcs", &format!("<vpcSet><item>{vpc}</item></vpcSet>"), None)
        }
        "DescribeTargetGroups" => {
            let group =
                "<TargetGroupArn>arn:tg</TargetGroupArn><LoadBalancerArns><member>arn:lb</member></LoadBalancerArns>";
            elb("DescribeTargetGroups", &format!("<TargetGroups><member>{group}</member></TargetGroups>"))
        }
        "DescribeLoadBalancers" => {
            let names = "<LoadBalancerName>api</LoadBalancerName><LoadBalancerArn>arn:lb</LoadBalancerArn>";
            let balancers = format!("<LoadBalancers><member>{names}</member></LoadBalancers>");
            elb("DescribeLoadBalancers", &balancers)
        }
        "DescribeListeners" => elb("DescribeListeners", ""),
        "AllocateHosts" | "ReleaseHosts" => hosts::serve(call),
        "AllocateAddress" | "DescribePublicIpv4Pools" => elastic_ip::serve(call),
        "CreateSecret" => {
            let taken = serde_json::json!({"__type": "ResourceExistsException", "message": "taken"});
            (400, taken.to_string())
        }
        "GetParameter" => (200, serde_json::json!({"Parameter": {"Value": "ami-1"}}).to_string()),
        _ if call.service() == "elasticloadbalancing" => managed::serve(call),
        _ if matches!(call.service(), "secretsmanager" | "ssm") => (200, "{}".to_owned()),
        other => checks::good(call).unwrap_or_else(|| answer(other, "", None)),
    }
}

/// A demand that names every kind of resource about which facts are gathered.
fn demand() -> Demand {
    let spec = serde_json::from_value(serde_json::json!({
        "instanceType": "m5.large", "ami": {"id": "ami-1"}, "sshKeyName": "ops", "placementGroupName": "spread",
        "capacityReservationId": "cr-1", "hostID": "h-1", "iamInstanceProfile": "nodes", "spotMarketOptions": {},
        "networkInterfaceType": "efa", "publicIP": true,
        "rootVolume": {"size": 20, "encryptionKey": "alias/volumes"},
    }));
    let network = serde_json::from_value(serde_json::json!({
        "vpc": {"id": "vpc-1"}, "subnets": [{"id": "subnet-1"}], "securityGroups": {"all": ["sg-1"]},
        "controlPlaneTargets": [{"targetGroupARN": "arn:tg"}], "bootstrapStorage": {"s3": {"bucket": "bootstrap"}},
    }));
    Demand {
        region: REGION.to_owned(),
        network: network.unwrap(),
        machines: vec![MachineDemand { spec: spec.unwrap(), ..MachineDemand::default() }],
        ..Demand::default()
    }
}

#[tokio::test]
async fn every_action_of_the_table_is_called_and_no_other() {
    let fake = Fake::start(serve).await;
    let pool = fake.pool().await;
    let identity = ResolvedIdentity {
        key: "role".to_owned(),
        source: role("arn:aws:iam::1:role/One", CredentialSource::Controller),
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    };
    let (all, key) = (Query::default(), machine("one"));
    let cluster = pool.cluster(&identity, REGION);
    cluster.account_id().await.unwrap();
    cluster.vpcs(&all).await.unwrap();
    cluster.subnets(&all).await.unwrap();
    cluster.security_groups(&all).await.unwrap();
    cluster.route_tables(&all).await.unwrap();
    cluster.load_balancer("api").await.unwrap();
    let classic_one = at_its_turn(async || cluster.classic_load_balancers(&["api".into()]).await).await;
    assert!(!classic_one.unwrap());
    let templates = pool.templates(&identity, REGION);
    let unknown = templates.instance_type("t3.large").await.unwrap_err();
    assert_eq!(unknown.class, ErrorClass::NotFound);
    let machines = pool.machines(&identity, REGION, CLUSTER);
    machines.images(&all).await.unwrap();
    machines.public_parameter("/aws/service/eks").await.unwrap();
    machines.network_interfaces(&all).await.unwrap();
    machines.find_instances(&all).await.unwrap();
    for store in stores() {
        let secret = secret(store.clone());
        at_its_turn(async || machines.store_secret(&key, &secret).await).await.unwrap();
        machines.delete_secrets(&key, &store, &[secret.name]).await.unwrap();
    }
    machines.launch(&key, &request()).await.unwrap();
    change_instance(machines.as_ref()).await;
    hosts::allocate_and_release(machines.as_ref()).await;
    elastic_ip::allocate_and_release(machines.as_ref()).await;
    managed::observe_and_change(pool.managed(&identity, REGION).as_ref()).await;
    machines.terminate(&key, "i-1").await.unwrap();
    eventually("the instance is terminated", || !fake.calls_of("TerminateInstances").is_empty()).await;

    let facts = pool.facts(&identity, REGION).facts(&demand(), &Answers::default()).await;
    let launches = fake.calls_of("RunInstances");
    let of_checks = |call: &&Call| call.header("user-agent").contains("cluster-api-provider-aws-rs-checks");
    let judged = launches.iter().find(of_checks).unwrap();
    assert_eq!(judged.form.get("DryRun").map(String::as_str), Some("true"));
    let mut tags = judged.form.iter().filter(|(name, _)| name.starts_with("TagSpecification.1.Tag."));
    assert!(tags.any(|(_, value)| value == ROLE_TAG), "the policy asks for the tag");
    assert_eq!(judged.field("MetadataOptions.HttpTokens"), "required", "policies may ask for IMDSv2");
    assert_eq!(judged.field("InstanceMarketOptions.MarketType"), "spot", "policies may depend on the market");
    assert_eq!(judged.field("Placement.GroupName"), "spread", "and on the placement");
    assert_eq!(judged.field("NetworkInterface.1.InterfaceType"), "efa");
    assert_eq!(judged.field("NetworkInterface.1.AssociatePublicIpAddress"), "true");
    for in_one_zone in
        ["Placement.HostId", "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"]
    {
        assert!(!judged.form.contains_key(in_one_zone), "{in_one_zone}: the subnet may be in another zone");
    }
    assert!((1..=64).contains(&judged.field("ClientToken").len()), "EC2 takes no longer token");
    assert!(facts.listeners.values().all(|listeners| listeners.found().is_some()) && !facts.listeners.is_empty());

    let registered = [in_and_out(target()).await, in_and_out(classic()).await];
    let calls = [&fake].into_iter().chain(&registered).flat_map(Fake::calls);
    let sent: BTreeSet<(String, String)> = calls.map(|call| (call.service().to_owned(), call.action.clone())).collect();
    let rows = ACTIONS.iter().chain(MANAGED_ACTIONS);
    let called = rows.filter(|action| action.checked_by == CheckedBy::Call);
    let called: BTreeSet<(String, String)> =
        called.map(|action| (action.service.to_owned(), action.name.to_owned())).collect();
    assert_eq!(sent, called);
}

#[tokio::test]
async fn a_launch_uses_every_feature_that_needs_an_action() {
    let fake = Fake::start(serve).await;
    let machines = fake.pool().await.machines(&super::fake::identity("A"), REGION, CLUSTER);
    machines.launch(&machine("one"), &request()).await.unwrap();
    let launch = fake.calls_of("RunInstances").remove(0);
    let asks_for = |feature| match feature {
        AtLaunch::InstanceProfile => "IamInstanceProfile.Name",
        AtLaunch::EncryptionKey => "BlockDeviceMapping.1.Ebs.KmsKeyId",
    };
    for action in ACTIONS {
        if let CheckedBy::Launch(feature) = action.checked_by {
            assert_ne!(launch.field(asks_for(feature)), "", "{}", action.name);
        }
    }
}

#[test]
fn rows_are_unique_and_grants_of_one_name_are_equal() {
    for table in [ACTIONS, MANAGED_ACTIONS] {
        let rows: BTreeSet<_> = table.iter().map(|action| (action.service, action.name)).collect();
        assert_eq!(rows.len(), table.len());
    }
    let grants = || ACTIONS.iter().chain(MANAGED_ACTIONS).flat_map(|action| action.grants);
    for one in grants() {
        for other in grants() {
            assert!(one.name != other.name || one == other, "{}", one.name);
        }
    }
}

#[test]
fn every_call_of_managed_clusters_has_a_row_and_is_tried() {
    let names = [
        vpc::Call::<String>::VARIANTS,
        subnet::Call::<String>::VARIANTS,
        internet_gateway::Call::<String>::VARIANTS,
        nat_gateway::Call::<String>::VARIANTS,
        route_table::Call::<String>::VARIANTS,
        security_group::Call::<String>::VARIANTS,
        ec2::tag::Call::<String>::VARIANTS,
    ];
    let of_balancers = [
        load_balancer::Call::<String>::VARIANTS,
        target_group::Call::<String>::VARIANTS,
        listener::Call::<String>::VARIANTS,
        classic_load_balancer::Call::<String>::VARIANTS,
        elb::tag::Call::<String>::VARIANTS,
    ];
    let of_service =
        |service: &'static str, names: Vec<&'static str>| names.into_iter().map(move |name| (service, name));
    let names: BTreeSet<_> =
        of_service("ec2", names.concat()).chain(of_service("elasticloadbalancing", of_balancers.concat())).collect();
    for (service, name) in &names {
        assert!(called(service, name).is_some(), "{service}:{name}");
    }
    let calls = managed::all_calls();
    let tried: BTreeSet<_> = calls.iter().map(|call| (service(call), call.action())).collect();
    assert_eq!(tried, names);
}

/// The prefix of the service of a call in IAM.
fn service(call: &ManagedCall<String>) -> &'static str {
    match call {
        ManagedCall::Ec2(_) => "ec2",
        ManagedCall::Elb(_) => "elasticloadbalancing",
    }
}

#[test]
fn tags_are_written_within_every_creation_for_a_cluster() {
    let calls = managed::all_calls();
    for (of, name) in [("ec2", "CreateTags"), ("elasticloadbalancing", "AddTags")] {
        let tagging = MANAGED_ACTIONS.iter().find(|action| action.name == name).unwrap();
        // A listener counts as a part of its load balancer, but has tags.
        let creates =
            |call: &&ManagedCall<String>| call.effect() == Effect::Create || call.action() == "CreateListener";
        let creations = calls.iter().filter(|call| service(call) == of).filter(creates);
        // The actions that create load balancers have the same name in both generations.
        let mut creations: Vec<&str> = creations.map(ManagedCall::action).collect();
        let mut known = BTreeSet::new();
        creations.retain(|name| known.insert(*name));
        let within = tagging.grants.iter().find_map(|grant| match grant.condition {
            Condition::Within { actions, .. } => Some(actions),
            _ => None,
        });
        assert_eq!(within, Some(creations.as_slice()), "{name}");
        let is_narrow =
            |grant: &Grant| matches!(grant.condition, Condition::Within { .. } | Condition::NetworkForOtherTags);
        assert!(tagging.grants.iter().all(is_narrow), "{name}");
    }
}
