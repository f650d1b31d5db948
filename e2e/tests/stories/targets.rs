//! Control plane instances in existing load balancers.

use std::time::Duration;

use anyhow::{Context, ensure};
use aws_sdk_elasticloadbalancingv2::types::TargetTypeEnum;
use capa_api::meta::PAUSED_ANNOTATION;
use capa_e2e::aws_proxy::{Call, Fault, Journal};
use capa_e2e::user::LoadBalancer;
use capa_e2e::{Story, eventually, mostly_waits};
use serde_json::{Value, json};

use super::machines::{INLINE, at, counts, machine, text};
use super::scenario::{CORE, FASTER, OURS, Scenario, WITHIN, run_story, story};

/// Longer than any story.
const HOUR: Duration = Duration::from_hours(1);
const TARGETS: &str = "ControlPlaneTargetsReady";

impl Scenario {
    /// A cluster with these control plane targets, in YAML.
    pub(super) async fn cluster_with_targets(&self, name: &str, targets: &str) -> anyhow::Result<()> {
        let extra = format!("  controlPlaneTargets: {targets}");
        self.owned(name, &self.unmanaged(name, &extra)).await?;
        self.infrastructure_provisioned(name).await
    }

    pub(super) async fn balancer(&self) -> anyhow::Result<LoadBalancer> {
        let balancer = self.user.create_network_load_balancer(&self.network, "api").await?;
        self.user.set_deregistration_delay(&balancer.target_group_arn, 1).await?;
        Ok(balancer)
    }

    /// A [`machine`] of a control plane.
    pub(super) async fn control_plane_machine(&self, name: &str, cluster: &str) -> anyhow::Result<()> {
        let secret = capa_e2e::fixtures::bootstrap_secret(name, "#cloud-config");
        self.apply(&secret).await?;
        // Cluster API labels the Machine; whether the AWSMachine has the label depends on the creator of the
        // AWSMachine.
        let unmarked = format!("kind: Machine\nmetadata: {{name: {name}}}");
        let marked =
            format!("kind: Machine\nmetadata: {{name: {name}, labels: {{cluster.x-k8s.io/control-plane: ''}}}}");
        let machine = machine(name, cluster, INLINE).replace(&unmarked, &marked);
        self.apply(&machine).await
    }

    /// The manager's calls to load balancers.
    pub(super) fn balancing(&self) -> Journal {
        let journal = self.aws().manager_journal();
        journal.matching(|call| call.service == "elasticloadbalancing")
    }

    /// Waits until a machine has this condition for its targets, and returns the message.
    pub(super) async fn targets_say(&self, name: &str, status: &str, reason: &str) -> anyhow::Result<String> {
        let condition = self.condition("AWSMachine", name, TARGETS, status, reason).await?;
        Ok(condition.message)
    }
}

/// The first call of an action that took effect.
fn first(journal: &Journal, action: &str) -> anyhow::Result<Call> {
    let calls = journal.of(action).matching(|call| call.error.is_none());
    let first = calls.calls().first().cloned();
    first.with_context(|| format!("{action} was not called: {journal}"))
}

/// One machine with a target of each kind.
struct Life<'a> {
    scenario: &'a Scenario,
    instances: String,
    addresses: String,
    classic: String,
}

/// A time for which a deletion shows what it waits for, even on a busy computer.
const DRAINING: &str = "--target-drain-timeout=400s";

/// The deregistration delay of the target group of addresses.
const DRAINS: Duration = Duration::from_secs(2);

// One story deliberately: each part needs the machine in the state after the part before.
#[test]
fn an_instance_is_a_target_while_it_runs_until_it_is_drained() -> anyhow::Result<()> {
    mostly_waits();
    run_story(Story::new("targets"), async |s| {
        let (user, network) = (&s.user, &s.network);
        let balancer = s.balancer().await?;
        let addresses = user.create_target_group(network, "addresses", TargetTypeEnum::Ip, &balancer.arn, 6444).await?;
        user.set_deregistration_delay(&addresses, u32::try_from(DRAINS.as_secs())?).await?;
        let life = Life {
            scenario: s,
            instances: balancer.target_group_arn,
            addresses,
            classic: user.create_classic_load_balancer(network, "old").await?.name,
        };
        let before = user.details().await?;
        s.start_manager().await?;
        life.asks_for_nothing_before_the_instance_runs().await?;
        life.registers_the_instance_that_runs().await?;
        life.drains_the_instance_before_it_is_terminated().await?;
        assert_eq!(user.details().await?, before, "the user's load balancers are as they were");
        Ok(())
    })
}

impl Life<'_> {
    async fn asks_for_nothing_before_the_instance_runs(&self) -> anyhow::Result<()> {
        let Self { scenario, .. } = self;
        scenario.aws().set_pending(HOUR);
        let targets = format!(
            "[{{targetGroupARN: '{}', port: 6443}}, {{targetGroupARN: '{}'}}, {{classicLoadBalancerName: {}}}]",
            self.instances, self.addresses, self.classic
        );
        scenario.cluster_with_targets("dev", &targets).await?;
        scenario.control_plane_machine("first", "dev").await?;
        scenario.targets_say("first", "False", "WaitingForRunning").await?;
        // The cluster looks its targets up, and the machine reads their tags.
        let known = ["DescribeLoadBalancers", "DescribeTags", "DescribeTargetGroups"];
        let asked = scenario.balancing();
        let others = asked.matching(|call| !known.contains(&call.action.as_str()));
        assert!(others.is_empty(), "{asked}");
        Ok(())
    }

    async fn registers_the_instance_that_runs(&self) -> anyhow::Result<()> {
        let (scenario, user) = (self.scenario, &self.scenario.user);
        scenario.aws().set_pending(Duration::ZERO);
        let ready = scenario.machine_ready("first").await?;
        let id = text(&ready, "/spec/instanceID").to_owned();
        let address = user.instance(&id).await?.private_ip_address.context("no address")?;
        let healthy = |id: &str, state: &str| vec![(id.to_owned(), state.to_owned())];
        assert_eq!(user.targets(&self.instances).await?, healthy(&id, "healthy"));
        assert_eq!(user.targets(&self.addresses).await?, healthy(&address, "healthy"));
        assert_eq!(user.classic_instances(&self.classic).await?, healthy(&id, "InService"));
        scenario.event("AWSMachine", "first", "SuccessfulAttachControlPlaneELB").await
    }

    async fn drains_the_instance_before_it_is_terminated(&self) -> anyhow::Result<()> {
        let (scenario, user) = (self.scenario, &self.scenario.user);
        scenario.begin_deletion(CORE, "Machine", "first").await?;
        scenario.gone(OURS, "AWSMachine", &["first"]).await?;
        scenario.event("AWSMachine", "first", "SuccessfulDetachControlPlaneELB").await?;
        let left = user.targets(&self.addresses).await?;
        assert!(left.is_empty(), "an address does not leave by itself");
        let journal = scenario.aws().manager_journal();
        let terminated = first(&journal, "TerminateInstances")?.at;
        let calls = journal.of("DeregisterTargets");
        let of_addresses = calls.matching(|call| call.parameter("TargetGroupArn") == Some(&self.addresses));
        let drained = first(&of_addresses, "DeregisterTargets")?.at + DRAINS;
        assert!(drained <= terminated, "{terminated} is before {drained}: {journal}");
        let expected = counts(&[
            ("DeregisterInstancesFromLoadBalancer", 1),
            ("DeregisterTargets", 2),
            ("RegisterInstancesWithLoadBalancer", 1),
            ("RegisterTargets", 2),
            ("RunInstances", 1),
            ("TerminateInstances", 1),
        ]);
        assert_eq!(scenario.mutating(), expected);
        Ok(())
    }
}

#[test]
fn the_health_of_a_target_shows_and_holds_no_bootstrap_back() -> anyhow::Result<()> {
    run_story(Story::new("health"), async |s| {
        let aws = s.aws();
        aws.set_nodes_report(true);
        let balancer = s.balancer().await?;
        s.new_manager().flag(FASTER).flag("--sync-period=2s").start().await?;
        let targets = format!("[{{targetGroupARN: '{}'}}]", balancer.target_group_arn);
        s.cluster_with_targets("dev", &targets).await?;
        s.control_plane_machine("first", "dev").await?;
        let id = s.launched("first").await?;
        eventually(WITHIN, "the target to be said to fail its checks", async || {
            let message = s.targets_say("first", "False", "Registering").await?;
            ensure!(message.contains("Target.FailedHealthChecks"), "{message}");
            Ok(())
        })
        .await?;
        let booting = s.get(OURS, "AWSMachine", "first").await?;
        assert_eq!(at(&booting, "/status/initialization/provisioned"), true);
        assert!(text(&booting, "/spec/providerID").ends_with(&id));
        aws.set_serving(&id, true);
        s.machine_ready("first").await?;
        aws.set_serving(&id, false);
        let message = s.targets_say("first", "False", "Failed").await?;
        assert!(message.contains("Target.FailedHealthChecks"), "{message}");
        aws.set_serving(&id, true);
        s.machine_ready("first").await?;
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn the_name_of_a_load_balancer_leads_to_its_targets() -> anyhow::Result<()> {
        story("named-balancer", async |s| {
            let named = "  controlPlaneLoadBalancer: {loadBalancerType: nlb, name: api}";
            let aws_cluster = s.unmanaged("dev", named);
            s.owned("dev", &aws_cluster).await?;
            let message = s.await_condition("dev", "NetworkReady", "False", "NotFound").await?;
            assert!(message.contains("load balancer api does not exist"), "{message}");
            s.await_condition("dev", "Ready", "False", "NotFound").await?;
            s.infrastructure_provisioned("dev").await?;
            let balancer = s.balancer().await?;
            s.await_condition("dev", "NetworkReady", "True", "Ready").await?;
            s.await_condition("dev", "Ready", "True", "Ready").await?;
            let cluster = s.aws_cluster("dev").await?;
            let arn = &balancer.target_group_arn;
            let published = at(&cluster, "/status/network/controlPlaneTargets");
            assert_eq!(*published, json!([{"targetGroupARN": arn}]));
            s.control_plane_machine("first", "dev").await?;
            let ready = s.machine_ready("first").await?;
            let id = text(&ready, "/spec/instanceID");
            assert_eq!(s.user.targets(arn).await?, [(id.to_owned(), "healthy".to_owned())]);
            let blind = json!({"spec": {"preflight": {"mode": "Disabled"}}});
            let refused = s.change("dev", blind).await.unwrap_err().to_string();
            assert!(refused.contains("preflight.mode Disabled forbids"), "{refused}");
            Ok(())
        })
    }

    #[test]
    fn endless_draining_is_waited_for_as_long_as_the_flag_says_and_no_longer() -> anyhow::Result<()> {
        // DRAINING, divided as all periods of the stories.
        const LIMIT: Duration = Duration::from_secs(20);
        mostly_waits();
        run_story(Story::new("stuck-draining"), async |s| {
            s.new_manager().flag(FASTER).flag(DRAINING).start().await?;
            let aws = s.aws();
            aws.set_stuck_draining(true);
            let balancer = s.user.create_network_load_balancer(&s.network, "api").await?;
            let targets = format!("[{{targetGroupARN: '{}'}}]", balancer.target_group_arn);
            s.cluster_with_targets("dev", &targets).await?;
            s.control_plane_machine("first", "dev").await?;
            s.machine_ready("first").await?;
            s.begin_deletion(CORE, "Machine", "first").await?;
            s.targets_say("first", "False", "Deregistering").await?;
            s.machine_condition_false("first", "InstanceReady", "Draining").await?;
            s.gone(OURS, "AWSMachine", &["first"]).await?;
            s.event("AWSMachine", "first", "Failed").await?;
            let journal = aws.manager_journal();
            let waited = first(&journal, "TerminateInstances")?.at;
            let waited: Duration = waited.duration_since(first(&journal, "DeregisterTargets")?.at).try_into()?;
            // The manager's clock starts with the answer, the journal's with the call.
            assert!(waited >= LIMIT, "{waited:?}");
            Ok(())
        })
    }

    #[test]
    fn a_refusing_or_missing_target_is_named_and_strands_nothing() -> anyhow::Result<()> {
        mostly_waits();
        run_story(Story::new("refused-target"), async |s| {
            let (user, aws) = (&s.user, s.aws());
            let balancer = s.balancer().await?;
            let group = &balancer.target_group_arn;
            s.new_manager().flag(FASTER).flag(DRAINING).start().await?;
            s.cluster_with_targets("dev", &format!("[{{targetGroupARN: '{group}'}}]")).await?;
            let missing = "[{classicLoadBalancerName: nowhere}]";
            s.cluster_with_targets("lost", missing).await?;
            let message = s.await_condition("lost", "Ready", "False", "NotFound").await?;
            assert!(message.contains("classic load balancer nowhere does not exist"), "{message}");
            let refused = aws.fault(Fault::on("RegisterTargets").error("AccessDenied"));
            s.control_plane_machine("refused", "dev").await?;
            s.control_plane_machine("lost", "lost").await?;
            let message = s.targets_say("refused", "False", "Unauthorized").await?;
            assert!(message.contains("AccessDenied") && message.contains("target group api/"), "{message}");
            let message = s.targets_say("lost", "False", "NotFound").await?;
            assert!(message.contains("classic load balancer nowhere"), "{message}");
            refused.lift();
            s.machine_ready("refused").await?;

            // The deregistration is refused, and the deletion ends all the same; nothing is registered with a missing
            // group.
            aws.fault(Fault::on("DeregisterTargets").error("AccessDenied"));
            for name in ["refused", "lost"] {
                s.begin_deletion(CORE, "Machine", name).await?;
            }
            eventually(WITHIN, "the target to be said to stay", async || {
                let message = s.targets_say("refused", "False", "Unauthorized").await?;
                ensure!(message.contains("has not left target group api/"), "{message}");
                Ok(())
            })
            .await?;
            s.gone(OURS, "AWSMachine", &["lost", "refused"]).await?;
            assert!(user.live_instances().await?.is_empty());
            Ok(())
        })
    }

    #[test]
    fn an_instance_leaves_its_target_before_its_node_is_drained() -> anyhow::Result<()> {
        story("drained-nodes", async |s| {
            let arn = &s.balancer().await?.target_group_arn;
            s.cluster_with_targets("dev", &format!("[{{targetGroupARN: '{arn}'}}]")).await?;
            let mut ids = Vec::new();
            for name in ["first", "second"] {
                s.control_plane_machine(name, "dev").await?;
                let ready = s.machine_ready(name).await?;
                ids.push(text(&ready, "/spec/instanceID").to_owned());
            }
            // A paused Machine stands for one whose node drains slowly: Cluster API does not drain nodes that never
            // joined.
            let paused = |value: Value| json!({"metadata": {"annotations": {PAUSED_ANNOTATION: value}}});
            for name in ["first", "second"] {
                s.patch(CORE, "Machine", name, paused("".into())).await?;
            }
            s.begin_deletion(CORE, "Machine", "first").await?;
            let (first, second) = (ids[0].clone(), (ids[1].clone(), "healthy".to_owned()));
            eventually(WITHIN, "the first instance to leave its target", async || {
                let mut targets = s.user.targets(arn).await?;
                targets.retain(|(id, state)| *id != first || state != "draining");
                ensure!(targets == [second.clone()], "the targets are {targets:?}");
                Ok(())
            })
            .await?;
            let machine = s.get(OURS, "AWSMachine", "first").await?;
            assert_eq!(machine.metadata.deletion_timestamp, None);

            let looks = || s.aws().manager_journal().of("DescribeTargetHealth").len();
            let before = looks();
            s.begin_deletion(CORE, "Machine", "second").await?;
            eventually(WITHIN, "the look that decides", async || {
                ensure!(looks() > before, "no look");
                Ok(())
            })
            .await?;
            s.looked_again("second").await?;
            let targets = s.user.targets(arn).await?;
            assert!(targets.contains(&second), "the last one stays: {targets:?}");
            for name in ["first", "second"] {
                s.patch(CORE, "Machine", name, paused(Value::Null)).await?;
            }
            s.gone(OURS, "AWSMachine", &["first", "second"]).await
        })
    }

    #[test]
    fn a_lost_registration_is_restored_by_the_shared_lookup() -> anyhow::Result<()> {
        run_story(Story::new("lost-target"), async |s| {
            let (user, aws) = (&s.user, s.aws());
            let group = s.balancer().await?.target_group_arn;
            s.new_manager().flag(FASTER).flag("--sync-period=4s").start().await?;
            s.cluster_with_targets("dev", &format!("[{{targetGroupARN: '{group}'}}]")).await?;
            let names = ["one", "two", "three"];
            for name in names {
                s.control_plane_machine(name, "dev").await?;
            }
            for name in names {
                s.machine_ready(name).await?;
            }
            let mark = aws.mark();
            let lost = text(&s.get(OURS, "AWSMachine", "two").await?, "/spec/instanceID").to_owned();
            user.deregister_target(&group, &lost).await?;
            eventually(WITHIN, "the registration to be back", async || {
                let targets = user.targets(&group).await?;
                let healthy = targets.iter().filter(|(_, state)| state == "healthy").count();
                ensure!(healthy == 3, "{targets:?}");
                Ok(())
            })
            .await?;
            s.machine_ready("two").await?;
            let since = aws.manager_journal_since(mark);
            let repaired = since.mutating();
            let register = first(&repaired, "RegisterTargets")?;
            for call in repaired.calls() {
                let told = ["Targets.member.1.Id", "Targets.member.2.Id"].map(|name| call.parameter(name));
                assert_eq!(call.action, "RegisterTargets", "{repaired}");
                assert_eq!(told, [Some(lost.as_str()), None], "{repaired}");
            }
            let looks = since.matching(|call| call.action == "DescribeTargetHealth" && call.at < register.at);
            assert!(!looks.is_empty(), "{since}");
            Ok(())
        })
    }

    #[test]
    fn machines_without_targets_call_no_load_balancer() -> anyhow::Result<()> {
        run_story(Story::new("no-targets"), async |s| {
            let balancer = s.balancer().await?;
            s.start_manager().await?;
            let targets = format!("[{{targetGroupARN: '{}'}}]", balancer.target_group_arn);
            s.cluster_with_targets("dev", &targets).await?;
            s.machine("worker", "dev", INLINE).await?;
            // Other tools store this value in every AWSCluster.
            let bare = s.unmanaged("hosted", "  controlPlaneLoadBalancer: {loadBalancerType: classic}");
            s.owned("hosted", &bare).await?;
            s.infrastructure_provisioned("hosted").await?;
            s.control_plane_machine("hosted", "hosted").await?;
            for name in ["worker", "hosted"] {
                let ready = s.machine_ready(name).await?;
                assert!(capa_e2e::objects::condition(&ready, TARGETS).is_none());
                s.begin_deletion(CORE, "Machine", name).await?;
            }
            s.gone(OURS, "AWSMachine", &["worker", "hosted"]).await?;
            // The cluster looks the group up. A machine would read its tags first.
            let calls = s.balancing();
            assert_eq!(calls.counts().into_keys().collect::<Vec<_>>(), ["DescribeTargetGroups"], "{calls}");
            Ok(())
        })
    }
}
