//! The calls of services that only the checks of infrastructure use.

use capa_cloud::ec2::{SecurityGroup, Vpc};
use capa_cloud::elb::{Listener, LoadBalancer, TargetGroup};
use capa_cloud::{Answers, Found, Query, Read};
use capa_preflight::facts::{
    Answer as Fact, Bucket, Demand, EncryptionKey, Facts, Failure, FailureKind, GROUPS_OF_AN_INTERFACE,
    InstanceProfile, KeyState, KeyUsage, MachineDemand, ON_DEMAND_VCPUS, RULES_OF_A_GROUP, SPOT_VCPUS,
};
use serde_json::json;

use super::fake::{Answer, Call, Fake, REGION, answer, caller_identity, identity};
use super::targets::elb;

/// A demand that needs all services, for machines with this spec and for other machines, which are not spot instances.
pub(super) fn demand() -> Demand {
    let spec = json!({
        "instanceType": "m5.large", "iamInstanceProfile": "nodes", "spotMarketOptions": {},
        "rootVolume": {"size": 20, "encryptionKey": "alias/volumes"},
    });
    let machines = [spec, json!({"instanceType": "m5.large"})]
        .map(|spec| MachineDemand { spec: serde_json::from_value(spec).unwrap(), ..MachineDemand::default() });
    let network = json!({"bootstrapStorage": {"s3": {"bucket": "boot.strap"}}});
    Demand {
        region: REGION.to_owned(),
        network: serde_json::from_value(network).unwrap(),
        machines: machines.into(),
        ..Demand::default()
    }
}

/// The answers about infrastructure without problems.
pub(super) fn good(call: &Call) -> Option<Answer> {
    let answer = |body: &str| Some((200, body.to_owned()));
    match call.action.as_str() {
        "GetInstanceProfile" => {
            let role = "<member><RoleName>nodes-role</RoleName></member>";
            let profile = format!("<InstanceProfile><Roles>{role}</Roles></InstanceProfile>");
            Some(elb(&call.action, &profile))
        }
        "ListAttachedRolePolicies" => {
            let policy = "<member><PolicyArn>arn:aws:iam::aws:policy/One</PolicyArn></member>";
            Some(elb(&call.action, &format!("<AttachedPolicies>{policy}</AttachedPolicies>")))
        }
        "ListRolePolicies" => {
            let names = "<PolicyNames><member>inline</member></PolicyNames>";
            Some(elb(&call.action, names))
        }
        "GetRole" => Some(elb(&call.action, "<Role><RoleName>spot</RoleName></Role>")),
        "DescribeKey" => {
            let key = json!({"KeyId": "1", "Arn": "arn:aws:kms:us-test-1:1:key/1", "KeyState": "Enabled",
                "KeyUsage": "ENCRYPT_DECRYPT"});
            answer(&json!({"KeyMetadata": key}).to_string())
        }
        "GetServiceQuota" => answer(&json!({"Quota": {"Value": 64.0}}).to_string()),
        "GetBucketLocation" => answer(&format!("<LocationConstraint>{REGION}</LocationConstraint>")),
        "GetBucketPublicAccessBlock" => answer("<PublicAccessBlockConfiguration></PublicAccessBlockConfiguration>"),
        "GetBucketPolicyStatus" => answer("<PolicyStatus><IsPublic>false</IsPublic></PolicyStatus>"),
        "GetBucketAcl" => answer("<AccessControlPolicy><AccessControlList></AccessControlList></AccessControlPolicy>"),
        _ => None,
    }
}

/// A refusal in the form of the called service.
pub(super) fn refusal(call: &Call, status: u16, code: &str) -> Answer {
    let region = if status == 301 { "eu-west-1" } else { REGION };
    let error = format!("<Error><Code>{code}</Code><Message>no</Message><Region>{region}</Region></Error>");
    let body = match call.service() {
        "kms" | "secretsmanager" | "servicequotas" | "ssm" => json!({"__type": code, "message": "no"}).to_string(),
        "s3" => error,
        _ => format!("<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"),
    };
    (status, body)
}

/// The answers to some calls.
type Special = fn(&Call) -> Option<Answer>;

/// The facts that checks gather for [`demand`]. Calls that `special` does not answer get the good answers.
async fn gather(special: Special) -> (Fake, Facts) {
    let fake = Fake::start(move |call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        action => special(call).or_else(|| good(call)).unwrap_or_else(|| answer(action, "", None)),
    })
    .await;
    let facts = fake.pool().await.facts(&identity("A"), REGION).facts(&demand(), &Answers::default()).await;
    (fake, facts)
}

fn bucket(facts: &Facts) -> Option<Bucket> {
    facts.buckets["boot.strap"].found().unwrap().clone()
}

#[tokio::test]
async fn a_launch_without_the_id_of_an_image_is_not_judged() {
    let (fake, facts) = gather(|_| None).await;
    assert!(facts.launches.is_empty());
    assert_eq!(fake.calls_of("RunInstances").len(), 0);
}

#[tokio::test]
async fn all_services_are_asked_about_what_machines_name() {
    let (fake, facts) = gather(|_| None).await;
    let profile = InstanceProfile {
        name: "nodes".to_owned(),
        roles: vec!["nodes-role".to_owned()],
        policies: Fact::Found(vec!["arn:aws:iam::aws:policy/One".to_owned(), "inline".to_owned()]),
    };
    assert_eq!(facts.instance_profiles, [("nodes".to_owned(), Fact::Found(Some(profile)))].into());
    let key = EncryptionKey {
        arn: "arn:aws:kms:us-test-1:1:key/1".to_owned(),
        state: KeyState::Enabled,
        usage: KeyUsage::EncryptDecrypt,
    };
    assert_eq!(facts.encryption_keys, [("alias/volumes".to_owned(), Fact::Found(Some(key)))].into());
    let codes = [ON_DEMAND_VCPUS, SPOT_VCPUS, GROUPS_OF_AN_INTERFACE, RULES_OF_A_GROUP];
    let quotas = codes.map(|code| (code.to_owned(), 64.0));
    assert_eq!(facts.quotas, Fact::Found(quotas.into()));
    assert_eq!(facts.spot_role, Fact::Found(true));
    let found = bucket(&facts).unwrap();
    assert_eq!((found.region.as_str(), found.is_public), (REGION, false));

    let sent = |action: &str| fake.calls_of(action).remove(0);
    for (action, field, value) in [
        ("GetInstanceProfile", "InstanceProfileName", "nodes"),
        ("ListAttachedRolePolicies", "RoleName", "nodes-role"),
        ("ListRolePolicies", "RoleName", "nodes-role"),
        ("GetRole", "RoleName", "AWSServiceRoleForEC2Spot"),
        ("DescribeKey", "KeyId", "alias/volumes"),
        ("GetServiceQuota", "ServiceCode", "ec2"),
        ("GetServiceQuota", "QuotaCode", ON_DEMAND_VCPUS),
    ] {
        assert_eq!(sent(action).field(field), value, "{action}");
    }
    let of_quotas = fake.calls_of("GetServiceQuota");
    let services: Vec<_> = of_quotas.iter().map(|call| (call.field("ServiceCode"), call.field("QuotaCode"))).collect();
    assert!(services.contains(&("vpc", GROUPS_OF_AN_INTERFACE)), "{services:?}");
    // The name of a bucket is in the path, because the test's endpoint has no host name for each bucket.
    for action in ["GetBucketAcl", "GetBucketLocation", "GetBucketPolicyStatus", "GetBucketPublicAccessBlock"] {
        assert!(sent(action).path.starts_with("/boot.strap"), "{action}");
    }
    for call in fake.calls() {
        let region = if call.service() == "iam" { "us-east-1" } else { REGION };
        assert_eq!(call.region(), region, "{}", call.action);
        let agent = call.header("user-agent");
        assert!(agent.contains("cluster-api-provider-aws-rs-checks"), "{agent}");
    }
}

#[tokio::test]
async fn a_refused_call_is_denied_with_the_name_of_its_action() {
    let (_fake, facts) = gather(|call| {
        let code = match call.service() {
            "kms" | "servicequotas" => "AccessDeniedException",
            "iam" | "s3" => "AccessDenied",
            _ => return None,
        };
        Some(refusal(call, 403, code))
    })
    .await;
    let of = |failure: Option<&Failure>| {
        let failure = failure.unwrap();
        assert_eq!(failure.kind, FailureKind::Denied, "{failure:?}");
        failure.call.clone()
    };
    assert_eq!(of(facts.instance_profiles["nodes"].failure()), "GetInstanceProfile");
    assert_eq!(of(facts.encryption_keys["alias/volumes"].failure()), "DescribeKey");
    assert_eq!(of(facts.buckets["boot.strap"].failure()), "GetBucketLocation");
    assert_eq!(of(facts.quotas.failure()), "GetServiceQuota");
    assert_eq!(of(facts.spot_role.failure()), "GetRole");
    assert!(facts.regions.found().is_some(), "other facts are gathered");
}

#[tokio::test]
async fn denied_policies_leave_the_profile_known() {
    let (_fake, facts) =
        gather(|call| call.action.starts_with("List").then(|| refusal(call, 403, "AccessDenied"))).await;
    let profile = facts.instance_profiles["nodes"].found().unwrap().as_ref().unwrap();
    assert_eq!(profile.roles, ["nodes-role"]);
    let failure = profile.policies.failure().unwrap();
    assert_eq!((failure.call.as_str(), failure.kind), ("ListAttachedRolePolicies", FailureKind::Denied));
}

#[tokio::test]
async fn what_does_not_exist_is_none() {
    let (_fake, facts) = gather(|call| match call.service() {
        "iam" => Some(refusal(call, 404, "NoSuchEntity")),
        "kms" => Some(refusal(call, 400, "NotFoundException")),
        "s3" => Some(refusal(call, 404, "NoSuchBucket")),
        _ => None,
    })
    .await;
    assert_eq!(facts.instance_profiles["nodes"], Fact::Found(None));
    assert_eq!(facts.encryption_keys["alias/volumes"], Fact::Found(None));
    assert_eq!(facts.buckets["boot.strap"], Fact::Found(None));
    assert_eq!(facts.spot_role, Fact::Found(false));
}

#[tokio::test]
async fn a_key_of_another_region_does_not_exist_here() {
    let (_fake, facts) =
        gather(|call| (call.service() == "kms").then(|| refusal(call, 400, "InvalidArnException"))).await;
    assert_eq!(facts.encryption_keys["alias/volumes"], Fact::Found(None));
}

#[tokio::test]
async fn a_bucket_of_another_region_is_not_asked_about_further() {
    for special in [
        |call: &Call| (call.service() == "s3").then(|| refusal(call, 301, "PermanentRedirect")),
        |call: &Call| {
            let other = "<LocationConstraint>EU</LocationConstraint>";
            (call.action == "GetBucketLocation").then(|| (200, other.to_owned()))
        },
    ] {
        let (fake, facts) = gather(special).await;
        assert_eq!(bucket(&facts).unwrap().region, "eu-west-1");
        let calls = fake.calls();
        assert_eq!(calls.iter().filter(|call| call.service() == "s3").count(), 1);
    }
}

/// The public access block of a bucket.
fn block(setting: &str) -> Answer {
    let settings = format!("<{setting}>true</{setting}>");
    let block = format!("<PublicAccessBlockConfiguration>{settings}</PublicAccessBlockConfiguration>");
    (200, block)
}

fn open(call: &Call) -> Option<Answer> {
    let everybody = "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\">\
                     <URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee></Grant>";
    let list = format!("<AccessControlPolicy><AccessControlList>{everybody}</AccessControlList></AccessControlPolicy>");
    match call.action.as_str() {
        "GetBucketPublicAccessBlock" => Some(refusal(call, 404, "NoSuchPublicAccessBlockConfiguration")),
        "GetBucketPolicyStatus" => Some((200, "<PolicyStatus><IsPublic>true</IsPublic></PolicyStatus>".to_owned())),
        "GetBucketAcl" => Some((200, list)),
        _ => None,
    }
}

#[tokio::test]
async fn a_bucket_is_public_by_its_policy_or_its_list_unless_blocked() {
    let policy_is_blocked = |call: &Call| match call.action.as_str() {
        "GetBucketPublicAccessBlock" => Some(block("RestrictPublicBuckets")),
        _ => open(call),
    };
    let only_the_policy = |call: &Call| match call.action.as_str() {
        "GetBucketAcl" => None,
        _ => open(call),
    };
    let list_is_blocked = |call: &Call| match call.action.as_str() {
        "GetBucketPublicAccessBlock" => Some(block("IgnorePublicAcls")),
        _ => only_the_list(call),
    };
    let cases: [(Special, bool); 5] = [
        (open, true),
        (only_the_policy, true),
        (only_the_list, true),
        (policy_is_blocked, true),
        (list_is_blocked, false),
    ];
    for (number, (special, is_public)) in cases.into_iter().enumerate() {
        let (_fake, facts) = gather(special).await;
        assert_eq!(bucket(&facts).unwrap().is_public, is_public, "case {number}");
    }
}

/// A bucket without a policy, which its access control list makes public.
fn only_the_list(call: &Call) -> Option<Answer> {
    match call.action.as_str() {
        "GetBucketPolicyStatus" => Some(refusal(call, 404, "NoSuchBucketPolicy")),
        _ => open(call),
    }
}

#[tokio::test]
async fn without_machines_no_further_service_is_asked() {
    let fake = Fake::start(|call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        action => answer(action, "", None),
    })
    .await;
    let demand = Demand { machines: vec![], ..demand() };
    let facts = fake.pool().await.facts(&identity("A"), REGION).facts(&demand, &Answers::default()).await;
    assert_eq!((&facts.quotas, &facts.spot_role), (&Fact::NotAsked, &Fact::NotAsked));
    for call in fake.calls() {
        assert!(["ec2", "sts"].contains(&call.service()), "{}", call.action);
    }
}

fn target_group(arn: &str, load_balancer: &str) -> TargetGroup {
    let group = json!({
        "arn": arn, "name": "api", "vpcId": "vpc-1", "protocol": "TCP", "port": 6443, "targetType": "instance",
        "healthCheck": {
            "protocol": "TCP", "port": "traffic-port", "path": null,
            "timing": {"intervalSeconds": 10, "timeoutSeconds": 10, "thresholdCount": 3, "unhealthyThresholdCount": 3},
        },
        "loadBalancerArns": [load_balancer], "attributes": null, "tags": {},
    });
    serde_json::from_value(group).unwrap()
}

#[tokio::test]
async fn what_was_read_just_before_is_not_read_again() {
    let fake = Fake::start(|call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        action => answer(action, "", None),
    })
    .await;
    let in_vpc = || Query::filter("vpc-id", ["vpc-1"]);
    let vpc = Vpc { id: "vpc-1".to_owned(), ..Vpc::default() };
    let group = SecurityGroup { id: "sg-1".to_owned(), ..SecurityGroup::default() };
    let balancer = Box::new(LoadBalancer { arn: "arn:lb".to_owned(), ..LoadBalancer::default() });
    let listener = Listener { arn: "arn:listener".to_owned(), ..Listener::default() };
    let targets = target_group("arn:group", "arn:lb");
    let answers = Answers::from([
        (Read::LoadBalancer("api".to_owned()), Found::LoadBalancer(Some(balancer.clone()))),
        (Read::Listeners("arn:lb".to_owned()), Found::Listeners(vec![listener.clone()])),
        (Read::TargetGroups(vec!["arn:group".to_owned()]), Found::TargetGroups(Some(vec![targets.clone()]))),
        (Read::Vpcs(in_vpc()), Found::Vpcs(vec![vpc.clone()])),
        (Read::Subnets(in_vpc()), Found::Subnets(vec![])),
        (Read::RouteTables(in_vpc()), Found::RouteTables(vec![])),
        (Read::SecurityGroups(Query::filter("group-id", ["sg-1", "sg-2"])), Found::SecurityGroups(vec![group.clone()])),
    ]);
    let network = json!({
        "vpc": {"id": "vpc-1"}, "securityGroups": {"all": ["sg-1"]},
        "controlPlaneTargets": [{"targetGroupARN": "arn:group"}],
    });
    let network = serde_json::from_value(network).unwrap();
    let demand = Demand { region: REGION.to_owned(), network, ..Demand::default() };
    let facts = fake.pool().await.facts(&identity("A"), REGION).facts(&demand, &answers).await;
    assert_eq!(facts.vpc, Fact::Found(Some(vpc)));
    assert_eq!(facts.security_groups, Fact::Found(vec![group]));
    assert_eq!(facts.target_groups, Fact::Found(vec![targets]));
    assert_eq!(facts.load_balancers, Fact::Found(vec![*balancer]));
    assert_eq!(facts.listeners["arn:lb"], Fact::Found(vec![listener]));
    for action in answers.keys().map(Read::action) {
        assert_eq!(fake.calls_of(action).len(), 0, "{action}");
    }
    assert_eq!(fake.calls_of("DescribeNatGateways").len(), 1, "the rest is read");
}
