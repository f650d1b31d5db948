//! Whose instance is it? Tags are anybody's to write and names anybody's to use, so neither proves anything.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use capa_e2e::{LocalWorld, Story, eventually_by_polling, mostly_waits, moto};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::claimed_instances::launch_by_hand;
use super::deletion::remove_by_force;
use super::machines::{INLINE, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, run_story, story};

const ADOPT: &str = "infrastructure.cluster.x-k8s.io/adopt-instance";
const FINALIZER: &str = "awsmachine.infrastructure.cluster.x-k8s.io";
pub(super) const MANAGEMENT_CLUSTER: &str = "sigs.k8s.io/cluster-api-provider-aws/management-cluster";
const ORPHANS: &str = "capa_instances_without_machine";

impl Scenario {
    /// What tells this management cluster from others.
    pub(super) async fn management_cluster(&self) -> anyhow::Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.environment.client());
        let system = namespaces.get("kube-system").await?;
        system.uid().context("kube-system has no UID")
    }

    /// Tags an instance as every provider of this API tags that of a machine, given as `<namespace>/<name>`.
    pub(super) async fn plant(&self, id: &str, cluster: &str, machine: &str) -> anyhow::Result<()> {
        let owned = format!("sigs.k8s.io/cluster-api-provider-aws/cluster/{cluster}");
        let tags = [
            (owned.as_str(), "owned"),
            ("MachineName", machine),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "node"),
        ];
        for (key, value) in tags {
            self.user.tag(id, key, value).await?;
        }
        Ok(())
    }

    /// Tags an instance as this management cluster tags that of a machine of the cluster `dev`.
    async fn plant_own(&self, id: &str, name: &str) -> anyhow::Result<()> {
        let machine = format!("{}/{name}", self.namespace());
        self.plant(id, "dev", &machine).await?;
        self.user.tag(id, MANAGEMENT_CLUSTER, &self.management_cluster().await?).await
    }

    /// Applies an AWSMachine that a tenant has made by hand, with our finalizer and an owner reference.
    async fn forge(&self, name: &str, owner: Value, spec: Value) -> anyhow::Result<()> {
        let mut whole = json!({
            "instanceType": "t3.large", "ami": {"id": moto::IMAGE_ID},
            "cloudInit": {"insecureSkipSecretsManager": true},
        });
        if let (Some(whole), Value::Object(spec)) = (whole.as_object_mut(), spec) {
            whole.extend(spec);
        }
        let forgery = json!({
            "apiVersion": OURS, "kind": "AWSMachine",
            "metadata": {
                "name": name, "finalizers": [FINALIZER], "labels": {"cluster.x-k8s.io/cluster-name": "dev"},
                "ownerReferences": [owner],
            },
            "spec": whole,
        });
        self.apply(&forgery.to_string()).await
    }

    /// Annotates an AWSMachine with what is to become of instances that are not proven to be its own.
    async fn answer(&self, name: &str, what: &str) -> anyhow::Result<()> {
        let annotation = json!({"metadata": {"annotations": {ADOPT: what}}});
        self.patch(OURS, "AWSMachine", name, annotation).await
    }

    /// Waits until a machine waits for such an answer about an instance.
    async fn waits_for_answer(&self, name: &str, id: &str) -> anyhow::Result<()> {
        let told = self.machine_condition_false(name, "InstanceReady", "Conflict").await?;
        for expected in [id, &format!("{ADOPT}: {id}"), &format!("{ADOPT}: none")] {
            ensure!(told.contains(expected), "{told}");
        }
        Ok(())
    }

    async fn runs_untouched(&self, id: &str) -> anyhow::Result<()> {
        let state = self.state_of(id).await?;
        ensure!(state == "running", "{id} is {state}");
        ensure!(!self.has_terminated(id), "{id} was to be terminated");
        Ok(())
    }

    /// Waits until the manager has counted exactly so many instances without a machine.
    async fn counts_orphans(&self, expected: f64) -> anyhow::Result<()> {
        eventually_by_polling(WITHIN, &format!("{expected} instances without a machine"), async || {
            let count = self.manager().metrics().await?.sum(ORPHANS, &[]);
            ensure!(count == Some(expected), "it says {count:?}");
            Ok(())
        })
        .await
    }
}

/// A reference to a Machine as an owner.
fn owned_by(name: &str, uid: &str) -> Value {
    json!({"apiVersion": CORE, "kind": "Machine", "name": name, "uid": uid})
}

fn instance_of(machine: &DynamicObject) -> String {
    text(machine, "/spec/instanceID").to_owned()
}

/// What the second management cluster does while the first has these instances.
async fn beside(s: &Scenario, twin: &Scenario, ours: &str, only_ours: &str) -> anyhow::Result<()> {
    twin.cluster("dev").await?;
    twin.machine("web", "dev", INLINE).await?;
    twin.waits_for_answer("web", ours).await?;
    twin.begin_deletion(CORE, "Machine", "web").await?;
    twin.gone(OURS, "AWSMachine", &["web"]).await?;
    twin.event("AWSMachine", "web", "NotOwned").await?;
    twin.gone(CORE, "Machine", &["web"]).await?;
    s.runs_untouched(ours).await?;

    twin.machine("web", "dev", INLINE).await?;
    twin.waits_for_answer("web", ours).await?;
    twin.answer("web", "none").await?;
    let theirs = instance_of(&twin.machine_ready("web").await?);
    assert_ne!(theirs, ours);

    // What the other one runs is no orphan; what it has lost itself is.
    let stray = launch_by_hand(twin).await?;
    twin.plant_own(&stray, "lost").await?;
    twin.counts_orphans(1.0).await?;
    s.counts_orphans(0.0).await?;

    s.begin_deletion(CORE, "Machine", "web").await?;
    s.gone(OURS, "AWSMachine", &["web"]).await?;
    assert_eq!(s.state_of(ours).await?, "terminated");
    for id in [theirs.as_str(), only_ours, stray.as_str()] {
        s.runs_untouched(id).await?;
    }
    twin.looked_again("web").await?;
    twin.machine_ready("web").await?;
    Ok(())
}

#[test]
fn a_backup_under_new_uids_adopts_what_its_specs_name() -> anyhow::Result<()> {
    story("restored-backup", async |s| {
        s.cluster("dev").await?;
        let machines = ["named", "unnamed"];
        for name in machines {
            s.machine(name, "dev", INLINE).await?;
        }
        s.machines_ready(machines.len()).await?;
        let (named, unnamed) = (s.machine_ready("named").await?, s.machine_ready("unnamed").await?);
        let (named_id, unnamed_id) = (instance_of(&named), instance_of(&unnamed));
        s.manager().stop().await?;
        for name in machines {
            remove_by_force(s, CORE, "Machine", name).await?;
            remove_by_force(s, OURS, "AWSMachine", name).await?;
        }

        let ids = format!("{INLINE}, providerID: '{}', instanceID: {named_id}", text(&named, "/spec/providerID"));
        s.machine("named", "dev", &ids).await?;
        s.machine("unnamed", "dev", INLINE).await?;
        s.start_manager().await?;
        let restored = s.machine_ready("named").await?;
        assert_ne!(restored.uid(), named.uid());
        assert_eq!(text(&restored, "/status/launch/instanceID"), named_id);
        s.waits_for_answer("unnamed", &unnamed_id).await?;
        s.answer("unnamed", &unnamed_id).await?;
        let adopted = s.machine_ready("unnamed").await?;
        assert_eq!(instance_of(&adopted), unnamed_id);
        assert!(!adopted.annotations().contains_key(ADOPT), "{:?}", adopted.annotations());
        assert_eq!(s.launches().len(), machines.len(), "{}", s.launches());

        for name in machines {
            s.begin_deletion(CORE, "Machine", name).await?;
        }
        s.gone(OURS, "AWSMachine", &machines).await?;
        for id in [&named_id, &unnamed_id] {
            assert!(s.has_terminated(id), "{id}");
        }
        Ok(())
    })
}

mod long_stories {
    use super::*;

    /// The time for which a deletion looks up an instance that may have been launched is 10 minutes.
    const LOOKED_UP_WITHIN: Duration = Duration::from_mins(15);

    #[test]
    fn a_copied_awsmachine_never_ends_the_originals_instance() -> anyhow::Result<()> {
        mostly_waits();
        story("copies", async |s| {
            s.cluster("dev").await?;
            s.machine("original", "dev", INLINE).await?;
            let original = s.machine_ready("original").await?;
            let id = instance_of(&original);
            let owner = json!(original.owner_references().first().context("no owner")?);
            let ids = json!({"providerID": text(&original, "/spec/providerID"), "instanceID": id});
            s.forge("with-ids", owner.clone(), ids).await?;
            s.forge("without-ids", owner, json!({})).await?;
            let told = s.machine_condition_false("with-ids", "InstanceReady", "NotOwned").await?;
            assert!(told.contains(&id) && told.contains("abandon-instance"), "{told}");
            let copies = ["with-ids", "without-ids"];
            for copy in copies {
                s.begin_deletion(OURS, "AWSMachine", copy).await?;
            }
            s.gone_within(LOOKED_UP_WITHIN, OURS, "AWSMachine", &copies).await?;
            for copy in copies {
                s.event("AWSMachine", copy, "NotOwned").await?;
            }
            s.runs_untouched(&id).await?;
            s.looked_again("original").await?;
            s.machine_ready("original").await?;
            s.assert_mutating(&[("RunInstances", 1)]);
            // Its own deletion is not hindered.
            s.begin_deletion(CORE, "Machine", "original").await?;
            s.gone(OURS, "AWSMachine", &["original"]).await?;
            assert!(s.has_terminated(&id));
            Ok(())
        })
    }

    #[test]
    fn an_awsmachine_with_a_forged_owner_ends_no_instance() -> anyhow::Result<()> {
        mostly_waits();
        story("forged-owners", async |s| {
            s.cluster("dev").await?;
            for name in ["one", "two"] {
                s.machine(name, "dev", INLINE).await?;
            }
            let machines = s.machines_ready(2).await?;
            let uid = s.get(CORE, "Machine", "one").await?.uid().context("no uid")?;
            let nobody = "00000000-0000-4000-8000-000000000000";
            let forged = [
                ("pattern", "*", nobody),
                ("characters", "on?", nobody),
                ("missing", "three", nobody),
                ("namesake", "one", nobody),
                ("neighbour", "one", uid.as_str()),
            ];
            for (name, owner, uid) in forged {
                s.forge(name, owned_by(owner, uid), json!({})).await?;
            }
            for (name, ..) in forged {
                // The garbage collector may have been faster: it deletes what is owned by a UID that does not exist.
                drop(s.begin_deletion(OURS, "AWSMachine", name).await);
            }
            s.gone_within(LOOKED_UP_WITHIN, OURS, "AWSMachine", &forged.map(|(name, ..)| name)).await?;
            for machine in &machines {
                s.runs_untouched(&instance_of(machine)).await?;
            }
            s.assert_mutating(&[("RunInstances", 2)]);
            let asked = s.aws().manager_journal().of("DescribeInstances");
            let patterns = asked.matching(|call| call.parameters.values().any(|value| value.contains(['*', '?'])));
            assert!(patterns.is_empty(), "{patterns}");
            Ok(())
        })
    }

    #[test]
    fn two_management_clusters_of_equal_names_share_an_account() -> anyhow::Result<()> {
        story("twins", async |s| {
            s.cluster("dev").await?;
            for name in ["web", "only-here"] {
                s.machine(name, "dev", INLINE).await?;
            }
            s.machines_ready(2).await?;
            let ours = instance_of(&s.machine_ready("web").await?);
            let only_ours = instance_of(&s.machine_ready("only-here").await?);

            let world = Arc::new(LocalWorld::start_beside(s.environment.world()).await?);
            let twin = s.with(s.environment.in_other_world(&world).await?);
            twin.start_manager().await?;
            beside(s, &twin, &ours, &only_ours).await?;
            twin.environment.finish().await?;
            world.stop().await
        })
    }

    #[test]
    fn an_instance_of_capa_beside_us_is_adopted_only_on_request() -> anyhow::Result<()> {
        run_story(Story::new("capa-beside"), async |s| {
            let (wanted, unwanted) = (launch_by_hand(s).await?, launch_by_hand(s).await?);
            let lost = launch_by_hand(s).await?;
            for (id, name) in [(&wanted, "wanted"), (&unwanted, "unwanted"), (&lost, "lost")] {
                s.plant(id, "dev", &format!("{}/{name}", s.namespace())).await?;
            }
            s.start_manager().await?;
            s.cluster("dev").await?;
            for (name, id) in [("wanted", &wanted), ("unwanted", &unwanted)] {
                s.machine(name, "dev", INLINE).await?;
                s.waits_for_answer(name, id).await?;
            }
            s.assert_mutating(&[]);
            s.answer("wanted", &wanted).await?;
            assert_eq!(instance_of(&s.machine_ready("wanted").await?), wanted);
            s.answer("unwanted", "none").await?;
            let launched = instance_of(&s.machine_ready("unwanted").await?);
            assert_ne!(launched, unwanted);
            let stray = launch_by_hand(s).await?;
            s.plant_own(&stray, "stray").await?;
            s.counts_orphans(1.0).await?;

            for name in ["wanted", "unwanted"] {
                s.begin_deletion(CORE, "Machine", name).await?;
            }
            s.gone(OURS, "AWSMachine", &["wanted", "unwanted"]).await?;
            for id in [&wanted, &launched] {
                assert!(s.has_terminated(id), "{id}");
            }
            for id in [&unwanted, &lost, &stray] {
                s.runs_untouched(id).await?;
            }
            assert_eq!(s.launches().len(), 1, "{}", s.launches());
            Ok(())
        })
    }
}
