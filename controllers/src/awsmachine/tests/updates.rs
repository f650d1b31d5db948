//! Tests of changes of the spec that reach a running instance.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::machine::InstanceState;
use capa_api::meta;
use kube::ResourceExt;

use super::{FIRST, NETWORK, Pass, RETRY, SPEC, Scene};
use crate::kubernetes_api::SourceOutcome;
use crate::testing::{read, refused, unanswered};

const VOLUME: &str = "vol-00000000000000001";
const INTERFACE: &str = "eni-00000000000000001";
const UP_TO_DATE: ConditionType = ConditionType::InstanceUpToDate;
const GROUPS_READY: ConditionType = ConditionType::SecurityGroupsReady;

fn tag(scene: &Scene, id: &str, key: &str) -> Option<String> {
    scene.aws.tags_of(id).get(key).cloned()
}

async fn with_tags(tags: &str) -> Scene {
    Scene::with_spec(&format!("{SPEC}, additionalTags: {tags}")).run().await
}

async fn set_tags(scene: &Scene, tags: &str) -> Pass {
    scene.edit(|machine| machine.spec.additional_tags = read(tags));
    scene.pass().await
}

async fn set_groups(scene: &Scene, groups: &str) -> Pass {
    scene.edit(|machine| machine.spec.additional_security_groups = read(groups));
    scene.pass().await
}

/// A running machine with the group `sg-0000000d` of its own. There is another group, `sg-0000000e`.
async fn with_group(more: &str) -> Scene {
    let scene = Scene::with_spec(&format!("{SPEC}, additionalSecurityGroups: [{{id: sg-0000000d}}]{more}"));
    for id in ["sg-0000000d", "sg-0000000e"] {
        scene.aws.security_group(id, "vpc-00000001");
    }
    scene.run().await
}

#[tokio::test]
async fn changed_tags_reach_instance_volume_and_interface() {
    let scene = with_tags("{team: a, stage: test}").await;
    assert_eq!(scene.pass().await.calls, [""; 0], "nothing has changed");
    let changed = set_tags(&scene, "{team: b, owner: ops}").await;
    assert_eq!(changed.calls, ["write_status", "DeleteTags", "CreateTags", "write_status"]);
    for id in [FIRST, VOLUME, INTERFACE] {
        assert_eq!(tag(&scene, id, "team").as_deref(), Some("b"), "{id}");
        assert_eq!(tag(&scene, id, "owner").as_deref(), Some("ops"), "{id}");
        assert_eq!(tag(&scene, id, "stage"), None, "{id}");
        assert_eq!(tag(&scene, id, meta::MACHINE_NAME_TAG).as_deref(), Some("team-a/m"), "{id}");
    }
    let applied: Tags = read("{team: b, owner: ops}");
    assert_eq!(changed.status().applied_tags.as_ref(), Some(&applied));
    assert_eq!(changed.reasons_of_events(), ["TagsUpdated"]);
    assert_eq!(scene.pass().await.calls, [""; 0], "once is enough");
}

#[tokio::test]
async fn changed_tags_of_the_network_reach_the_instance() {
    let scene = with_tags("{team: a}").await;
    let network = |tags: &str| NETWORK.replacen('{', &format!("{{additionalTags: {tags}, "), 1);
    scene.kubernetes.publish_network("dev", &network("{team: of-cluster, cost: '7'}"));
    assert_eq!(scene.pass().await.calls, ["write_status", "CreateTags", "write_status"]);
    let seen = [tag(&scene, FIRST, "team"), tag(&scene, FIRST, "cost")];
    assert_eq!(seen, [Some("a".to_owned()), Some("7".to_owned())], "the machine's tag wins");
    scene.kubernetes.publish_network("dev", &network("{}"));
    assert_eq!(scene.pass().await.calls, ["write_status", "DeleteTags", "write_status"]);
    assert_eq!(tag(&scene, FIRST, "cost"), None);
}

#[tokio::test]
async fn tags_of_others_stay() {
    let scene = with_tags("{team: a}").await;
    scene.aws.tag(FIRST, "backup", "nightly");
    scene.aws.tag(FIRST, "team", "changed-by-hand");
    set_tags(&scene, "{}").await;
    assert_eq!(tag(&scene, FIRST, "backup").as_deref(), Some("nightly"));
    assert_eq!(tag(&scene, FIRST, "team").as_deref(), Some("changed-by-hand"));
    assert_eq!(tag(&scene, VOLUME, "team"), None);
}

#[tokio::test]
async fn an_own_name_is_followed_by_that_of_the_machine() {
    let scene = with_tags("{Name: mine}").await;
    assert_eq!(tag(&scene, FIRST, "Name").as_deref(), Some("mine"));
    let calls = ["write_status", "CreateTags", "write_status"];
    assert_eq!(set_tags(&scene, "{}").await.calls, calls);
    assert_eq!(tag(&scene, FIRST, "Name").as_deref(), Some("m"));
}

#[tokio::test]
async fn refused_tags_are_told_and_tried_again() {
    let scene = with_tags("{team: a}").await;
    scene.aws.fail_next("CreateTags", refused("CreateTags", "UnauthorizedOperation"));
    let denied = set_tags(&scene, "{team: b}").await;
    assert_eq!(denied.condition(UP_TO_DATE), "False/Unauthorized");
    assert_eq!(denied.condition(ConditionType::Ready), "True/Unauthorized");
    let message = denied.message(UP_TO_DATE);
    assert!(message.starts_with(&format!("the tags of instance {FIRST} cannot be changed")), "{message}");
    let later = scene.after(RETRY).await;
    assert_eq!((later.condition(UP_TO_DATE).as_str(), later.calls.len()), ("True/Ready", 3));
    assert_eq!(tag(&scene, FIRST, "team").as_deref(), Some("b"));
}

#[tokio::test]
async fn a_tag_of_the_provider_is_not_set_later_either() {
    let scene = with_tags("{team: a}").await;
    let refused = set_tags(&scene, "{team: b, MachineName: other/machine}").await;
    assert_eq!(refused.condition(UP_TO_DATE), "False/Conflict");
    assert_eq!(refused.calls, ["write_status"]);
    assert_eq!(tag(&scene, FIRST, "team").as_deref(), Some("a"), "nothing half done");
}

#[tokio::test]
async fn changed_tags_wait_until_the_instance_runs() {
    let scene = Scene::with_spec(&format!("{SPEC}, additionalTags: {{team: a}}"));
    scene.pass().await;
    assert!(!set_tags(&scene, "{team: b}").await.calls.contains(&"CreateTags".to_owned()));
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    assert!(scene.pass().await.calls.contains(&"CreateTags".to_owned()));
}

#[tokio::test]
async fn a_lost_record_sets_the_tags_once_and_removes_none() {
    let scene = with_tags("{team: a}").await;
    scene.edit(|machine| machine.status.as_mut().unwrap().applied_tags = None);
    let restored = set_tags(&scene, "{owner: ops}").await;
    assert_eq!(restored.calls, ["write_status", "CreateTags", "write_status"]);
    assert_eq!(tag(&scene, FIRST, "team").as_deref(), Some("a"));
    assert_eq!(scene.pass().await.calls, [""; 0]);
}

#[tokio::test]
async fn a_change_of_tags_that_is_taken_back_is_undone() {
    let denied = |scene: &Scene| {
        scene.aws.fail_next("CreateTags", refused("CreateTags", "UnauthorizedOperation"));
    };
    let lost = |scene: &Scene| scene.aws.lose_next_answer("CreateTags");
    let removal_lost = |scene: &Scene| scene.aws.lose_next_answer("DeleteTags");
    for fails in [&denied as &dyn Fn(&Scene), &lost, &removal_lost] {
        let scene = with_tags("{team: a, stage: x}").await;
        fails(&scene);
        set_tags(&scene, "{team: b, owner: ops}").await;
        assert_eq!(tag(&scene, FIRST, "stage"), None);
        set_tags(&scene, "{team: a, stage: x}").await;
        let undone = scene.after(RETRY).await;
        for id in [FIRST, VOLUME, INTERFACE] {
            let tags = ["team", "stage", "owner"].map(|key| tag(&scene, id, key));
            assert_eq!(tags, [Some("a".to_owned()), Some("x".to_owned()), None], "{id}");
        }
        assert_eq!(undone.condition(UP_TO_DATE), "True/Ready");
        assert_eq!(undone.status().pending_tags, Tags::new());
        assert_eq!(scene.pass().await.calls, [""; 0]);
    }
}

#[tokio::test]
async fn a_refused_change_of_tags_that_is_taken_back_makes_no_call() {
    let scene = with_tags("{team: a}").await;
    scene.aws.tag(FIRST, "backup", "weekly");
    scene.aws.fail_next("CreateTags", refused("CreateTags", "TagLimitExceeded"));
    set_tags(&scene, "{team: a, backup: daily}").await;
    let taken_back = set_tags(&scene, "{team: a}").await;
    assert_eq!(taken_back.condition(UP_TO_DATE), "True/Ready");
    assert_eq!(taken_back.calls, ["write_status"]);
    assert_eq!(tag(&scene, FIRST, "backup").as_deref(), Some("weekly"));
}

#[tokio::test]
async fn refused_tags_hold_up_no_other_change() {
    let spec = format!("{SPEC}, additionalTags: {{team: a}}, privateDnsName: {{enableResourceNameDnsARecord: true}}");
    let scene = Scene::with_spec(&spec).run().await;
    scene.aws.fail_next("CreateTags", refused("CreateTags", "UnauthorizedOperation"));
    scene.edit(|machine| {
        machine.spec.additional_tags = read("{team: b}");
        machine.spec.private_dns_name = Some(read("{enableResourceNameDnsARecord: false}"));
    });
    let changed = scene.pass().await;
    assert_eq!(changed.condition(UP_TO_DATE), "False/Unauthorized");
    assert_eq!(scene.aws.dns_records_of(FIRST).0, Some(false));
}

#[tokio::test]
async fn what_is_wrong_stays_shown_while_the_network_is_unknown() {
    let scene = with_tags("{team: a}").await;
    scene.aws.fail_next("CreateTags", refused("CreateTags", "UnauthorizedOperation"));
    set_tags(&scene, "{team: b}").await;
    scene.kubernetes.put_source("dev", SourceOutcome::NotFound);
    let unknown = scene.after(RETRY).await;
    assert_eq!(unknown.condition(UP_TO_DATE), "False/Unauthorized");
    scene.aws.retype(FIRST, "t3.xlarge");
    let retyped = scene.pass().await;
    assert_eq!(retyped.condition(UP_TO_DATE), "False/Drifted");
}

#[tokio::test]
async fn an_adopted_instance_gets_the_tags_and_groups_of_its_machine() {
    let scene = with_group(", additionalTags: {team: a}").await;
    scene.edit(|machine| {
        let status = machine.status.as_mut().unwrap();
        status.launch = None;
        status.applied_tags = Some(read("{team: a}"));
    });
    scene.aws.tag(FIRST, "team", "by-hand");
    scene.pass().await;
    scene.pass().await;
    assert_eq!(tag(&scene, FIRST, "team").as_deref(), Some("a"));
}

#[tokio::test]
async fn the_records_of_capa_are_taken_over() {
    let scene = with_group(", additionalTags: {team: a}").await;
    scene.edit(|machine| {
        let status = machine.status.as_mut().unwrap();
        status.applied_tags = None;
        status.applied_security_groups = None;
        status.network.as_mut().unwrap().security_group_ids.clear();
        let annotations = machine.annotations_mut();
        annotations.insert(meta::CAPA_TAGS_ANNOTATION.into(), r#"{"team":"a"}"#.into());
        annotations.insert(meta::CAPA_SECURITY_GROUPS_ANNOTATION.into(), r#"{"sg-0000000d":{}}"#.into());
        machine.spec.additional_tags.clear();
        machine.spec.additional_security_groups.clear();
    });
    let taken_over = scene.pass().await;
    let writes: Vec<&String> = taken_over.calls.iter().filter(|call| *call != "write_status").collect();
    let calls = ["DeleteTags", "DescribeInstances", "ModifyNetworkInterfaceAttribute"];
    assert_eq!(writes, calls);
    assert_eq!(tag(&scene, FIRST, "team"), None);
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a"]);
}

/// A group may be both the network's and the machine's. Without a record, it is the network's.
#[tokio::test]
async fn a_lost_record_removes_no_group_of_the_network() {
    let scene = with_group("").await;
    set_groups(&scene, "[{id: sg-0000000a}, {id: sg-0000000d}]").await;
    scene.edit(|machine| machine.status = None);
    for _ in 0..3 {
        scene.pass().await;
    }
    let changed = set_groups(&scene, "[]").await;
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a"], "{:?}", changed.calls);
    assert_eq!(changed.condition(GROUPS_READY), "True/Ready");
    assert_eq!(changed.condition(ConditionType::NetworkUpToDate), "True/Ready");
}

#[tokio::test]
async fn changed_security_groups_reach_the_interface() {
    let scene = with_group("").await;
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a", "sg-0000000d"]);
    scene.aws.security_group("sg-0000000f", "vpc-00000001");
    scene.aws.regroup(FIRST, &["sg-0000000a", "sg-0000000d", "sg-0000000f"]);
    let changed = set_groups(&scene, "[{id: sg-0000000e}]").await;
    let calls = ["DescribeInstances", "write_status", "ModifyNetworkInterfaceAttribute", "write_status"];
    assert_eq!(changed.calls, calls);
    let groups = ["sg-0000000a", "sg-0000000e", "sg-0000000f"];
    assert_eq!(scene.aws.groups_of(FIRST), groups, "the group of another user stays");
    assert_eq!(changed.condition(GROUPS_READY), "True/Ready");
    assert_eq!(changed.condition(ConditionType::NetworkUpToDate), "True/Ready");
    let in_use = changed.status().network.as_ref().unwrap();
    assert_eq!(in_use.security_group_ids, ["sg-0000000a", "sg-0000000e"]);
    assert_eq!(scene.pass().await.calls, [""; 0]);
    set_groups(&scene, "[{filters: [{name: group-id, values: [sg-0000000d]}]}]").await;
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a", "sg-0000000d", "sg-0000000f"]);
}

#[tokio::test]
async fn a_group_of_others_that_is_not_listed_yet_stays() {
    let scene = with_group("").await;
    scene.aws.restart_listing_every(Duration::from_secs(60));
    scene.pass().await;
    scene.pass().await;
    scene.aws.security_group("sg-0000000f", "vpc-00000001");
    scene.aws.regroup(FIRST, &["sg-0000000a", "sg-0000000d", "sg-0000000f"]);
    set_groups(&scene, "[{id: sg-0000000e}]").await;
    let groups = ["sg-0000000a", "sg-0000000e", "sg-0000000f"];
    assert_eq!(scene.aws.groups_of(FIRST), groups);
}

#[tokio::test]
async fn a_change_of_groups_without_an_answer_leaves_no_group_behind() {
    let scene = with_group("").await;
    let action = "ModifyNetworkInterfaceAttribute";
    scene.aws.lose_next_answer(action);
    let lost = set_groups(&scene, "[{id: sg-0000000e}]").await;
    assert_eq!(lost.condition(GROUPS_READY), "False/Failed");
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a", "sg-0000000e"]);
    set_groups(&scene, "[]").await;
    scene.after(RETRY).await;
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a"]);
    scene.aws.fail_next(action, unanswered(action));
    set_groups(&scene, "[{id: sg-0000000d}]").await;
    let added = scene.after(RETRY).await;
    assert_eq!(added.condition(GROUPS_READY), "True/Ready");
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a", "sg-0000000d"]);
}

#[tokio::test]
async fn a_change_of_groups_that_is_taken_back_before_its_answer_is_recorded_is_undone() {
    for (changed, instance_has) in [("[{id: sg-0000000e}]", "sg-0000000e"), ("[]", "")] {
        let scene = with_group("").await;
        scene.aws.lose_next_answer("ModifyNetworkInterfaceAttribute");
        set_groups(&scene, changed).await;
        let now: Vec<String> = scene.aws.groups_of(FIRST);
        assert!(!now.contains(&"sg-0000000d".to_owned()), "{now:?}");
        assert!(instance_has.is_empty() || now.contains(&instance_has.to_owned()), "{now:?}");
        set_groups(&scene, "[{id: sg-0000000d}]").await;
        let undone = scene.after(RETRY).await;
        assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a", "sg-0000000d"], "{changed}");
        assert_eq!(undone.condition(GROUPS_READY), "True/Ready", "{changed}");
        assert_eq!(scene.pass().await.calls, [""; 0], "{changed}");
    }
}

#[tokio::test]
async fn a_group_that_was_taken_away_is_reported_only() {
    let scene = with_group("").await;
    scene.aws.regroup(FIRST, &["sg-0000000a"]);
    let told = scene.pass().await;
    assert_eq!(told.condition(GROUPS_READY), "False/Drifted");
    let message = told.message(GROUPS_READY);
    assert!(message.contains(INTERFACE) && message.contains("sg-0000000d"), "{message}");
    assert_eq!(told.calls, ["write_status"]);
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a"]);
    scene.aws.regroup(FIRST, &["sg-0000000a", "sg-0000000d"]);
    assert_eq!(scene.pass().await.condition(GROUPS_READY), "True/Ready");
}

#[tokio::test]
async fn an_unknown_group_is_told_and_changes_nothing() {
    let scene = with_group("").await;
    let unknown = set_groups(&scene, "[{filters: [{name: group-id, values: [sg-00000099]}]}]").await;
    assert_eq!(unknown.condition(GROUPS_READY), "False/NotFound");
    assert!(unknown.message(GROUPS_READY).contains("spec.additionalSecurityGroups[0]"));
    assert_eq!(unknown.condition(ConditionType::Ready), "True/NotFound");
    assert_eq!(scene.aws.groups_of(FIRST), ["sg-0000000a", "sg-0000000d"]);
}

#[tokio::test]
async fn interfaces_of_the_user_keep_tags_and_groups() {
    let scene = Scene::with_spec(&format!("{SPEC}, networkInterfaces: [eni-0000000f], additionalTags: {{team: a}}"));
    scene.aws.security_group("sg-0000000d", "vpc-00000001");
    scene.aws.network_interface("eni-0000000f", "subnet-0000000a", &["sg-0000000d"]);
    let scene = scene.run().await;
    let changed = set_tags(&scene, "{team: b}").await;
    assert_eq!(changed.calls, ["write_status", "CreateTags", "write_status"]);
    assert_eq!(tag(&scene, VOLUME, "team").as_deref(), Some("b"));
    assert_eq!(tag(&scene, "eni-0000000f", "team"), None);
    assert_eq!(changed.condition(GROUPS_READY), "absent");
    scene.edit(|machine| machine.spec.additional_security_groups = read("[{id: sg-0000000d}]"));
    let told = scene.pass().await;
    assert_eq!(told.condition(GROUPS_READY), "False/InvalidSpec");
    assert!(told.message(GROUPS_READY).contains("networkInterfaces"));
    scene.edit(|machine| machine.spec.additional_security_groups.clear());
    assert_eq!(scene.pass().await.condition(GROUPS_READY), "True/Ready");
}

#[tokio::test]
async fn another_instance_type_is_reported_only() {
    let scene = Scene::running().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Stopped);
    scene.aws.retype(FIRST, "t3.xlarge");
    let retyped = scene.pass().await;
    assert_eq!(retyped.condition(UP_TO_DATE), "False/Drifted");
    let message = retyped.message(UP_TO_DATE);
    assert!(message.contains("t3.xlarge") && message.contains("t3.large"), "{message}");
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    let running = scene.after(Duration::from_secs(60)).await;
    assert_eq!(running.condition(ConditionType::Ready), "True/Drifted");
    assert_eq!(running.calls, ["write_status"]);
    scene.aws.retype(FIRST, "t3.large");
    assert_eq!(scene.pass().await.condition(UP_TO_DATE), "True/Ready");
}

#[tokio::test]
async fn looser_metadata_options_than_the_specs_are_tightened() {
    for (spec, hops) in [(", instanceMetadataOptions: {httpTokens: required}", 1), ("", 9)] {
        let scene = Scene::with_spec(&format!("{SPEC}{spec}")).run().await;
        assert_eq!(scene.pass().await.calls, [""; 0]);
        scene.aws.set_hop_limit(FIRST, 9);
        scene.pass().await;
        assert_eq!(scene.aws.hop_limit_of(FIRST), hops, "{spec}");
        assert_eq!(scene.pass().await.calls, [""; 0], "{spec}");
    }
}

#[tokio::test]
async fn changed_dns_records_reach_the_instance() {
    let records = |a: bool, aaaa: bool| {
        format!(
            "{{hostnameType: resource-name, enableResourceNameDnsARecord: {a}, enableResourceNameDnsAAAARecord: \
             {aaaa}}}"
        )
    };
    let spec = format!("{SPEC}, privateDnsName: {}", records(true, false));
    let scene = Scene::with_spec(&spec).run().await;
    for (field, expected) in [
        ("privateDnsName.enableResourceNameDnsARecord", (false, false)),
        ("privateDnsName.enableResourceNameDnsAAAARecord", (false, true)),
    ] {
        let (a, aaaa) = expected;
        scene.edit(|machine| machine.spec.private_dns_name = Some(read(&records(a, aaaa))));
        let changed = scene.pass().await;
        assert_eq!(changed.calls, ["write_status", "ModifyPrivateDnsNameOptions", "write_status"], "{field}");
        assert_eq!(scene.aws.dns_records_of(FIRST), (Some(a), Some(aaaa)), "{field}");
    }
    assert_eq!(scene.pass().await.calls, [""; 0]);
}

#[tokio::test]
async fn a_change_of_dns_records_that_is_taken_back_is_undone() {
    let set = |scene: &Scene, is_on: bool| {
        let records = format!("{{enableResourceNameDnsARecord: {is_on}}}");
        scene.edit(|machine| machine.spec.private_dns_name = Some(read(&records)));
    };
    let spec = format!("{SPEC}, privateDnsName: {{enableResourceNameDnsARecord: true}}");
    let scene = Scene::with_spec(&spec).run().await;
    scene.aws.lose_next_answer("ModifyPrivateDnsNameOptions");
    set(&scene, false);
    scene.pass().await;
    assert_eq!(scene.aws.dns_records_of(FIRST).0, Some(false));
    set(&scene, true);
    scene.after(RETRY).await;
    assert_eq!(scene.aws.dns_records_of(FIRST).0, Some(true));
    assert_eq!(scene.pass().await.calls, [""; 0]);
}
