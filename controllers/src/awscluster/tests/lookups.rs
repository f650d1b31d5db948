//! Tests of the AWS lookups of a cluster: their calls, their results and their repetition.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::meta::PREFLIGHT_REQUESTED_ANNOTATION;
use capa_cloud::{CloudError, Timing};
use capa_runtime::reconcile::Next;

use super::{LOOKUP, NETWORK, Scene, aws_cluster};
use crate::testing::{refused, unanswered};

const NETWORK_READY: ConditionType = ConditionType::NetworkReady;
const READY: ConditionType = ConditionType::Ready;

/// An unmanaged cluster with this `spec.network`, and a security group unless it has one.
fn network(network: &str) -> String {
    let groups = ", securityGroupOverrides: {node: sg-0000000a}";
    let groups = if network.contains("securityGroupOverrides") { "" } else { groups };
    format!("region: eu-west-1, unmanaged: true, network: {{{network}{groups}}}")
}

#[tokio::test]
async fn a_complete_lookup_sets_provisioned_and_publishes_the_network() {
    let scene = Scene::new();
    let pass = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(pass.calls, LOOKUP);
    assert!(pass.status().provisioned());
    assert_eq!(pass.status().ready, Some(true));
    assert_eq!(pass.condition(READY), "True/Ready");
    assert_eq!(pass.condition(NETWORK_READY), "True/Ready");
    assert_eq!(pass.zones(), ["eu-west-1a", "eu-west-1b"]);
    assert!(pass.status().failure_domains.iter().all(|zone| zone.control_plane == Some(true)));
    let network = pass.network();
    assert_eq!(network.region.as_deref(), Some("eu-west-1"));
    assert_eq!(network.vpc.as_ref().unwrap().cidr_blocks, ["10.0.0.0/16"]);
    let groups = network.security_groups.as_ref().unwrap();
    assert_eq!(
        (groups.all.as_slice(), groups.control_plane.as_slice()),
        (&["sg-0000000a".to_owned()][..], &["sg-0000000b".to_owned()][..])
    );
    assert_eq!(network.cluster_tag.as_deref(), Some("dev"));
    assert_eq!((pass.next, pass.events), (Next::AwaitChange, vec![]));
}

#[tokio::test]
async fn a_complete_lookup_is_neither_repeated_nor_written_again() {
    let scene = Scene::new();
    let first = scene.pass(&aws_cluster(NETWORK)).await;
    for (seconds, calls) in [(599, &[][..]), (600, &["GetCallerIdentity"][..])] {
        let later = scene.after(&first, Duration::from_secs(seconds)).await;
        assert_eq!(later.calls, calls);
        assert!(!later.wrote);
        assert_eq!(later.next, Next::AwaitChange);
    }
}

#[tokio::test]
async fn after_a_restart_only_the_credentials_are_asked_about() {
    let scene = Scene::new();
    let before = scene.pass(&aws_cluster(NETWORK)).await;
    let restarted = Scene::new();
    let after = restarted.pass(&before.cluster).await;
    assert_eq!(after.calls, ["GetCallerIdentity"]);
    assert!(!after.wrote);
}

#[tokio::test]
async fn unchecked_credentials_keep_the_looked_up_network() {
    for (error, ready) in [
        (unanswered("GetCallerIdentity"), "True/Ready"),
        (refused("GetCallerIdentity", "ExpiredToken"), "True/CredentialsFailed"),
    ] {
        let before = Scene::new().pass(&aws_cluster(NETWORK)).await;
        let restarted = Scene::new();
        restarted.aws.fail_next("GetCallerIdentity", error);
        let after = restarted.pass(&before.cluster).await;
        assert_eq!(after.network(), before.network());
        assert_eq!(after.zones(), before.zones());
        assert_eq!(after.condition(NETWORK_READY), "True/Ready");
        assert_eq!(after.condition(READY), ready);
    }
}

#[tokio::test]
async fn a_changed_spec_is_looked_up_anew() {
    let scene = Scene::new();
    let first = scene.pass(&aws_cluster(NETWORK)).await;
    let second = scene.edited(&first, &network("subnets: [{id: subnet-0000000b}]")).await;
    assert_eq!(second.calls, LOOKUP[1..]);
    assert_eq!(second.zones(), ["eu-west-1b"]);
    assert_eq!(second.network().vpc.as_ref().unwrap().id, "vpc-00000001");
}

#[tokio::test]
async fn wrong_input_is_named_with_its_id_and_the_rest_is_used() {
    let table = [
        (
            "subnets: [{id: subnet-0000000a}, {id: subnet-0000000f}]",
            "False/NotFound",
            "subnet subnet-0000000f does not exist in eu-west-1 of account 111122223333",
            &["subnet-0000000a"][..],
            "True/NotFound",
        ),
        (
            "subnets: [{id: private-a}, {id: subnet-0000000a}]",
            "False/InvalidSpec",
            "private-a is no subnet id",
            &["subnet-0000000a"],
            "True/InvalidSpec",
        ),
        ("vpc: {id: vpc-0000000f}", "False/NotFound", "VPC vpc-0000000f does not exist", &[], "False/NotFound"),
        (
            "vpc: {id: vpc-00000001}, subnets: [{id: subnet-0000000a}, {id: subnet-0000000c}]",
            "False/Conflict",
            "subnet subnet-0000000c lies in vpc-00000002",
            &["subnet-0000000a"],
            "True/Conflict",
        ),
        (
            "subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1b}]",
            "False/Conflict",
            "subnet subnet-0000000a lies in zone eu-west-1a",
            &["subnet-0000000a"],
            "True/Conflict",
        ),
        (
            "subnets: [{id: subnet-0000000a}, {id: subnet-0000000c}]",
            "False/Conflict",
            "several VPCs (vpc-00000001, vpc-00000002)",
            &["subnet-0000000a", "subnet-0000000c"],
            "True/Conflict",
        ),
        (
            "subnets: [{id: subnet-0000000a}], securityGroupOverrides: {node: sg-0000000f}",
            "False/NotFound",
            "security group sg-0000000f does not exist",
            &["subnet-0000000a"],
            "False/NotFound",
        ),
        (
            "subnets: [{id: subnet-0000000a}], securityGroupOverrides: {node: sg-0000000c}",
            "False/Conflict",
            "security group sg-0000000c belongs to vpc-00000002",
            &["subnet-0000000a"],
            "False/Conflict",
        ),
    ];
    for (spec, condition, message, subnets, ready) in table {
        let scene = Scene::new();
        scene.aws.vpc("vpc-00000002");
        scene.aws.subnet("subnet-0000000c", "vpc-00000002", "eu-west-1c");
        scene.aws.security_group("sg-0000000c", "vpc-00000002");
        let pass = scene.pass(&aws_cluster(&network(spec))).await;
        assert_eq!(pass.condition(NETWORK_READY), condition, "{spec}");
        let said = pass.message(NETWORK_READY);
        assert!(said.contains(message), "{spec}: {said}");
        assert_eq!(pass.subnet_ids(), subnets, "{spec}");
        assert!(pass.status().provisioned(), "{spec}: rules and wrong parts hold nothing back");
        assert_eq!(pass.condition(READY), ready, "{spec}");
        assert!(pass.message(READY).contains(message), "{spec}: {}", pass.message(READY));
        assert_eq!(pass.delay(), 5, "{spec}");
        assert_eq!(pass.events.len(), 1, "{spec}");
    }
}

#[tokio::test]
async fn one_problem_does_not_hide_another() {
    let scene = Scene::new();
    let spec = "subnets: [{id: subnet-0000000e}, {id: subnet-0000000f}], securityGroupOverrides: {node: sg-0000000f}";
    let pass = scene.pass(&aws_cluster(&network(spec))).await;
    for id in ["subnet-0000000e", "subnet-0000000f", "sg-0000000f"] {
        assert!(pass.message(NETWORK_READY).contains(id), "{id}");
    }
}

#[tokio::test]
async fn what_the_user_mends_in_aws_is_seen_at_the_next_lookup() {
    let scene = Scene::new();
    let spec = network("subnets: [{id: subnet-0000000f}]");
    let broken = scene.pass(&aws_cluster(&spec)).await;
    scene.aws.subnet("subnet-0000000f", "vpc-00000001", "eu-west-1c");
    let mended = scene.after(&broken, Duration::from_secs(5)).await;
    assert_eq!(mended.condition(NETWORK_READY), "True/Ready");
    assert_eq!(mended.zones(), ["eu-west-1c"]);
    assert_eq!(mended.next, Next::AwaitChange);
}

#[tokio::test]
async fn passes_in_between_cost_no_look_but_a_request_does() {
    let scene = Scene::new();
    let broken = scene.pass(&aws_cluster(&network("subnets: [{id: subnet-0000000f}]"))).await;
    let touched = scene.after(&broken, Duration::from_secs(2)).await;
    assert!(touched.calls.iter().all(|call| !call.starts_with("Describe")), "{:?}", touched.calls);
    assert_eq!(touched.condition(NETWORK_READY), "False/NotFound");

    let mut asking = touched.cluster.clone();
    let annotation = (PREFLIGHT_REQUESTED_ANNOTATION.to_owned(), "now".to_owned());
    asking.metadata.annotations = Some([annotation].into());
    let asked = scene.pass(&asking).await;
    assert!(asked.calls.iter().any(|call| call == "DescribeSubnets"), "{:?}", asked.calls);
}

#[tokio::test]
async fn ready_falls_only_when_no_subnet_is_left() {
    let scene = Scene::new();
    let fine = scene.pass(&aws_cluster(NETWORK)).await;
    let one_lost = scene.edited(&fine, &network("subnets: [{id: subnet-0000000a}, {id: subnet-0000000f}]")).await;
    assert_eq!(one_lost.condition(READY), "True/NotFound");
    let all_lost = scene.edited(&one_lost, &network("subnets: [{id: subnet-0000000f}]")).await;
    assert_eq!(all_lost.condition(READY), "False/NotFound");
    assert!(all_lost.status().provisioned(), "what Cluster API has once seen is never taken back");
}

#[tokio::test]
async fn a_throttled_lookup_after_provisioning_leaves_ready_alone() {
    let scene = Scene::new();
    let fine = scene.pass(&aws_cluster(NETWORK)).await;
    scene.aws.fail_next("DescribeSubnets", refused("DescribeSubnets", "RequestLimitExceeded"));
    let throttled = scene.edited(&fine, &format!("{NETWORK}, additionalTags: {{team: a}}")).await;
    assert_eq!(throttled.condition(NETWORK_READY), "False/Throttled");
    assert_eq!(throttled.zones(), ["eu-west-1a", "eu-west-1b"], "what was known stays");
    assert_eq!(throttled.condition(READY), "True/Throttled");
    assert!(throttled.status().provisioned());
    let recovered = scene.after(&throttled, Duration::from_secs(5)).await;
    assert_eq!(recovered.condition(NETWORK_READY), "True/Ready");
    assert_eq!(recovered.zones(), ["eu-west-1a", "eu-west-1b"]);
}

#[tokio::test]
async fn a_rate_limited_lookup_is_made_at_its_reserved_time() {
    let scene = Scene::new();
    let turn = Duration::from_millis(1234);
    scene.aws.fail_next("DescribeSubnets", CloudError::deferred("DescribeSubnets", turn));
    let deferred = scene.pass(&aws_cluster(NETWORK)).await;
    assert_eq!(deferred.condition(NETWORK_READY), "False/Throttled");
    assert_eq!(deferred.next, Next::Requeue(turn));
    let looked_up = scene.after(&deferred, turn).await;
    assert_eq!(looked_up.condition(NETWORK_READY), "True/Ready");
}

#[tokio::test]
async fn a_failing_lookup_is_repeated_with_doubling_delays_to_a_cap() {
    let scene = Scene::new();
    let spec = network("subnets: [{id: subnet-0000000f}]");
    let mut pass = scene.pass(&aws_cluster(&spec)).await;
    let mut delays = vec![pass.delay()];
    for _ in 0..9 {
        pass = scene.after(&pass, Duration::from_secs(pass.delay())).await;
        assert!(!pass.wrote, "the condition is the same in every pass");
        delays.push(pass.delay());
    }
    assert_eq!(delays, [5, 5, 10, 20, 40, 80, 160, 300, 300, 300]);
}

#[tokio::test]
async fn a_failing_lookup_delays_provisioned_by_the_grace_period() {
    let scene = Scene::new();
    let spec = network("subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1a}, {id: subnet-0000000b}]");
    for _ in 0..20 {
        scene.aws.fail_next("DescribeSubnets", refused("DescribeSubnets", "UnauthorizedOperation"));
    }
    let mut pass = scene.pass(&aws_cluster(&spec)).await;
    let mut waited = 0;
    while !pass.status().provisioned() {
        assert_eq!(pass.condition(READY), "False/Unauthorized");
        waited += pass.delay();
        assert!(waited <= 60, "held back for longer than the grace");
        pass = scene.after(&pass, Duration::from_secs(pass.delay())).await;
    }
    assert_eq!(waited, Timing::default().resolve_grace.as_secs());
    assert_eq!(pass.condition(READY), "False/Unauthorized");
    assert_eq!(pass.condition(NETWORK_READY), "False/Unauthorized");
    assert_eq!(pass.zones(), ["eu-west-1a"], "the zones that the spec gives");
}

#[tokio::test]
async fn what_ailed_before_does_not_shorten_the_grace_of_a_lookup() {
    let scene = Scene::new();
    let reference = "kind: AWSClusterStaticIdentity, name: key";
    let cluster = aws_cluster(&format!("{NETWORK}, identityRef: {{{reference}}}"));
    let without_identity = scene.pass(&cluster).await;
    scene.kubernetes.identity_object("AWSClusterStaticIdentity", "key", "secretRef: key, allowedNamespaces: {}");
    let keys = [("AccessKeyID", "AKIA"), ("SecretAccessKey", "s")];
    scene.kubernetes.put_secret("capa-rs-system", "key", &keys);
    scene.aws.fail_next("DescribeSubnets", refused("DescribeSubnets", "RequestLimitExceeded"));
    let throttled = scene.after(&without_identity, Duration::from_secs(3600)).await;
    assert_eq!(throttled.condition(NETWORK_READY), "False/Throttled");
    assert!(!throttled.status().provisioned());
    assert_eq!(throttled.delay(), 5);
}

#[tokio::test]
async fn the_time_before_the_region_of_the_spec_does_not_shorten_the_grace() {
    for former in ["", "region: eu-west-2, "] {
        let scene = Scene::new();
        for _ in 0..40 {
            scene.aws.fail_next("DescribeSubnets", refused("DescribeSubnets", "RequestLimitExceeded"));
        }
        let mut pass = scene.pass(&aws_cluster(&NETWORK.replacen("region: eu-west-1, ", former, 1))).await;
        assert!(!pass.status().provisioned());
        scene.kubernetes.advance(Duration::from_secs(45));
        pass = scene.edited(&pass, NETWORK).await;
        let mut waited = 0;
        while !pass.status().provisioned() {
            assert_eq!(pass.condition(NETWORK_READY), "False/Throttled", "{former}");
            waited += pass.delay();
            assert!(waited <= 60, "{former}: held back for longer than the grace");
            pass = scene.after(&pass, Duration::from_secs(pass.delay())).await;
        }
        assert_eq!(waited, Timing::default().resolve_grace.as_secs(), "{former}");
    }
}

#[tokio::test]
async fn disabled_lookups_mean_no_call_and_unknown_zones_are_named() {
    let scene = Scene::new();
    let spec = network(
        "vpc: {id: vpc-00000001}, subnets: [{id: subnet-0000000a, availabilityZone: eu-west-1a}, {id: \
         subnet-0000000b}]",
    );
    let pass = scene.pass(&aws_cluster(&format!("{spec}, preflight: {{mode: Disabled}}"))).await;
    assert_eq!(pass.calls, [""; 0]);
    assert_eq!(scene.aws.regions(), [""; 0], "not even a client is made");
    assert!(pass.status().provisioned());
    assert_eq!(pass.zones(), ["eu-west-1a"]);
    assert_eq!(pass.subnet_ids(), ["subnet-0000000a", "subnet-0000000b"]);
    assert_eq!(pass.condition(NETWORK_READY), "True/Ready");
    assert!(pass.message(NETWORK_READY).contains("subnet-0000000b"));
    assert_eq!(pass.condition(ConditionType::IdentityReady), "True/Ready");
}

#[tokio::test]
async fn edge_zones_and_subnets_for_pods_are_no_failure_domains() {
    let scene = Scene::new();
    scene.aws.subnet("subnet-0000000c", "vpc-00000001", "eu-west-1-ham-1a");
    let spec = network(
        "subnets: [{id: subnet-0000000a}, {id: subnet-0000000c}, {id: subnet-0000000b, tags: \
         {sigs.k8s.io/cluster-api-provider-aws/association: secondary}}]",
    );
    let pass = scene.pass(&aws_cluster(&spec)).await;
    assert_eq!(pass.zones(), ["eu-west-1a"]);
    assert_eq!(pass.subnet_ids(), ["subnet-0000000a", "subnet-0000000c"]);
    assert!(pass.network().subnets[1].is_edge());
}

#[tokio::test]
async fn a_subnet_is_public_by_its_own_or_the_main_route_table() {
    for main_leads in [false, true] {
        let scene = Scene::new();
        scene.aws.main_route_to_internet("vpc-00000001", main_leads);
        scene.aws.own_route_table("subnet-0000000b", "vpc-00000001", !main_leads);
        let pass = scene.pass(&aws_cluster(NETWORK)).await;
        let public: Vec<_> = pass.network().subnets.iter().map(|subnet| subnet.public).collect();
        assert_eq!(public, [Some(main_leads), Some(!main_leads)]);
    }
}

#[tokio::test]
async fn what_the_spec_says_of_a_subnet_wins_over_its_routes() {
    let scene = Scene::new();
    let spec = network("subnets: [{id: subnet-0000000a, isPublic: true}]");
    let pass = scene.pass(&aws_cluster(&spec)).await;
    assert_eq!(pass.network().subnets[0].public, Some(true));
}
