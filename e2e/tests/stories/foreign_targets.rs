//! Control planes that name a target group of somebody else.

use anyhow::ensure;
use aws_sdk_elasticloadbalancing::types::Tag;
use capa_e2e::{Story, eventually, mostly_waits};

use super::machines::text;
use super::scenario::{CORE, FASTER, OURS, Scenario, WITHIN, run_story, story};

const TAG: &str = "infrastructure.cluster.x-k8s.io/control-plane";

impl Scenario {
    /// Waits until a machine is refused its target for this reason, and fails unless it has no instance.
    async fn is_refused(&self, name: &str, why: &str) -> anyhow::Result<()> {
        eventually(WITHIN, &format!("{name} to be refused its target: {why}"), async || {
            let told = self.targets_say(name, "False", "Conflict").await?;
            ensure!(told.contains(why), "it says {told:?}");
            Ok(())
        })
        .await?;
        let machine = self.get(OURS, "AWSMachine", name).await?;
        assert_eq!(text(&machine, "/status/launch/instanceID"), "", "it was launched");
        Ok(())
    }
}

#[test]
fn targets_that_another_cluster_owns_by_tag_are_refused() -> anyhow::Result<()> {
    story("owned-target", async |s| {
        let (group, owner) = (s.balancer().await?.target_group_arn, "kubernetes.io/cluster/prod");
        let classic = s.user.create_classic_load_balancer(&s.network, "old").await?.name;
        s.user.tag_target_group(&group, owner, "owned").await?;
        let tag = Tag::builder().key("elbv2.k8s.aws/cluster").value("prod").build()?;
        let tagged = s.user.classic().add_tags().load_balancer_names(&classic).tags(tag);
        tagged.send().await?;
        s.cluster_with_targets("dev", &format!("[{{targetGroupARN: '{group}'}}]")).await?;
        let by_name = format!("[{{classicLoadBalancerName: {classic}}}]");
        s.cluster_with_targets("old", &by_name).await?;
        s.control_plane_machine("new", "dev").await?;
        s.control_plane_machine("classic", "old").await?;
        s.is_refused("new", &format!("{owner}: owned")).await?;
        s.is_refused("classic", "elbv2.k8s.aws/cluster: prod").await?;
        assert!(s.launches().is_empty(), "{}", s.launches());

        // The tag that names the Cluster ends the conflict: the owner has given the group away.
        let cluster = format!("{}/dev", s.namespace());
        s.user.tag_target_group(&group, TAG, &cluster).await?;
        s.machine_ready("new").await?;
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_tagged_target_serves_and_what_is_registered_stays() -> anyhow::Result<()> {
        mostly_waits();
        run_story(Story::new("tagged-target"), async |s| {
            let (group, user) = (s.balancer().await?.target_group_arn, &s.user);
            let start = || s.new_manager().flag(FASTER).flag("--control-plane-targets=Tagged");
            let first = start().start().await?;
            s.cluster_with_targets("dev", &format!("[{{targetGroupARN: '{group}'}}]")).await?;
            s.control_plane_machine("first", "dev").await?;
            let cluster = format!("{}/dev", s.namespace());
            s.is_refused("first", &format!("{TAG}: {cluster}")).await?;
            user.tag_target_group(&group, TAG, &cluster).await?;
            let ready = s.machine_ready("first").await?;
            let registered = [(text(&ready, "/spec/instanceID").to_owned(), "healthy".to_owned())];

            // Without the tag nothing new is registered, and a manager that starts anew asks nothing of what is.
            user.untag_target_group(&group, TAG).await?;
            first.stop().await?;
            let mark = s.aws().mark();
            start().start().await?;
            s.looked_again("first").await?;
            s.machine_ready("first").await?;
            s.control_plane_machine("second", "dev").await?;
            s.is_refused("second", "lacks the tag").await?;
            assert_eq!(user.targets(&group).await?, registered);
            let since = s.aws().manager_journal_since(mark);
            assert!(since.mutating().is_empty(), "{since}");

            for name in ["first", "second"] {
                s.begin_deletion(CORE, "Machine", name).await?;
            }
            s.gone(OURS, "AWSMachine", &["first", "second"]).await?;
            s.event("AWSMachine", "first", "SuccessfulDetachControlPlaneELB").await?;
            assert!(user.targets(&group).await?.is_empty());
            assert!(user.live_instances().await?.is_empty());
            Ok(())
        })
    }

    #[test]
    fn the_target_group_of_a_neighbour_is_refused_until_it_leaves() -> anyhow::Result<()> {
        mostly_waits();
        story("neighbours-target", async |s| {
            let group = s.balancer().await?.target_group_arn;
            let targets = format!("[{{targetGroupARN: '{group}'}}]");
            s.cluster_with_targets("prod", &targets).await?;
            s.control_plane_machine("victim", "prod").await?;
            let victim = s.machine_ready("victim").await?;
            let id = text(&victim, "/spec/instanceID").to_owned();
            let registered = [(id, "healthy".to_owned())];
            assert_eq!(s.user.targets(&group).await?, registered);

            s.cluster_with_targets("dev", &targets).await?;
            s.control_plane_machine("intruder", "dev").await?;
            let holder = format!("is used or named by the control plane of Cluster {}/prod", s.namespace());
            s.is_refused("intruder", &holder).await?;
            assert_eq!(s.user.targets(&group).await?, registered);
            s.machine_ready("victim").await?;

            // A Cluster that is older keeps the group while it names it.
            s.begin_deletion(CORE, "Machine", "victim").await?;
            s.gone(OURS, "AWSMachine", &["victim"]).await?;
            s.is_refused("intruder", &holder).await?;
            s.delete(CORE, "Cluster", "prod").await?;
            let heir = s.machine_ready("intruder").await?;
            let id = text(&heir, "/spec/instanceID").to_owned();
            assert_eq!(s.user.targets(&group).await?, [(id, "healthy".to_owned())]);
            Ok(())
        })
    }
}
