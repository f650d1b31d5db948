//! Stand-alone machines, and the checks of machines and their calls in stories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::aws_proxy::{Call, Journal};
use capa_e2e::{eventually, eventually_by_polling, fixtures, objects};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::scenario::{OURS, REGION, Scenario, WITHIN};

/// The line of a spec that passes user data inline.
pub(crate) const INLINE: &str = "cloudInit: {insecureSkipSecretsManager: true}";

/// A Machine, its AWSMachine and the reference to its bootstrap Secret, all of one name. `spec` contains further fields
/// of the AWSMachine's spec, as YAML in flow style without the braces.
pub(crate) fn machine(name: &str, cluster: &str, spec: &str) -> String {
    fixtures::machine(name, cluster, name, spec)
}

impl Scenario {
    /// Applies a [`machine`] together with its bootstrap Secret.
    pub(crate) async fn machine(&self, name: &str, cluster: &str, spec: &str) -> anyhow::Result<()> {
        self.bootstrap_secret(name).await?;
        self.apply(&machine(name, cluster, spec)).await
    }

    /// Waits until a stand-alone machine is Ready, and gives its AWSMachine.
    pub(crate) async fn machine_ready(&self, name: &str) -> anyhow::Result<DynamicObject> {
        self.condition("AWSMachine", name, "Ready", "True", "Ready").await?;
        self.get(OURS, "AWSMachine", name).await
    }

    /// Waits until a condition of an AWSMachine is False for this reason, and gives its message.
    pub(crate) async fn machine_condition_false(
        &self,
        name: &str,
        condition: &str,
        reason: &str,
    ) -> anyhow::Result<String> {
        let found = self.condition("AWSMachine", name, condition, "False", reason).await?;
        Ok(found.message)
    }

    /// Waits until the namespace has this many AWSMachines, and gives their names.
    pub(crate) async fn names_of_machines(&self, count: usize) -> anyhow::Result<Vec<String>> {
        eventually(WITHIN, &format!("{count} AWSMachines"), async || {
            let machines = self.machines().await?;
            ensure!(machines.len() == count, "there are {} machines", machines.len());
            Ok(machines.iter().map(ResourceExt::name_any).collect())
        })
        .await
    }

    /// Waits until a stand-alone machine has an instance, and gives the instance's id.
    pub(crate) async fn launched(&self, name: &str) -> anyhow::Result<String> {
        eventually(WITHIN, &format!("an instance of {name}"), async || {
            let machine = self.get(OURS, "AWSMachine", name).await?;
            let id = at(&machine, "/status/launch/instanceID").as_str().map(str::to_owned);
            id.with_context(|| format!("its status is {}", at(&machine, "/status")))
        })
        .await
    }

    /// Requests the deletion of an object without waiting.
    pub(crate) async fn begin_deletion(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<()> {
        let api = self.api(api_version, kind).await?;
        api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until objects are gone.
    pub(crate) async fn gone(&self, api_version: &str, kind: &str, names: &[&str]) -> anyhow::Result<()> {
        self.gone_within(WITHIN, api_version, kind, names).await
    }

    /// The same with another deadline for each.
    pub(crate) async fn gone_within(
        &self,
        within: Duration,
        api_version: &str,
        kind: &str,
        names: &[&str],
    ) -> anyhow::Result<()> {
        let api = self.api(api_version, kind).await?;
        for name in names {
            eventually(within, &format!("{kind} {name} to be gone"), async || match api.get_opt(name).await? {
                None => Ok(()),
                Some(object) => anyhow::bail!("its conditions are {}", at(&object, "/status/conditions")),
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until the condition `InstanceReady` of a machine that is being deleted has a message with this
    /// text.
    pub(crate) async fn deletion_says(&self, name: &str, expected: &str) -> anyhow::Result<()> {
        eventually(WITHIN, &format!("the deletion of {name} to say {expected:?}"), async || {
            let machine = self.get(OURS, "AWSMachine", name).await?;
            let message = condition_of(&machine, "InstanceReady")?.message;
            ensure!(machine.metadata.deletion_timestamp.is_some(), "the AWSMachine is not being deleted yet");
            ensure!(message.contains(expected), "the message is {message:?}");
            Ok(())
        })
        .await
    }

    /// Removes the status of an AWSMachine, like a restored backup.
    pub(crate) async fn lose_status(&self, name: &str) -> anyhow::Result<()> {
        let api = self.api(OURS, "AWSMachine").await?;
        let lost = Patch::Merge(json!({"status": null}));
        api.patch_status(name, &PatchParams::default(), &lost).await?;
        let left = self.get(OURS, "AWSMachine", name).await?;
        ensure!(at(&left, "/status").is_null(), "its status is {}", at(&left, "/status"));
        Ok(())
    }

    /// Triggers a pass over a machine, and waits until one has ended over the machine in its present version.
    pub(crate) async fn looked_again(&self, name: &str) -> anyhow::Result<()> {
        let (api, manager) = (self.api(OURS, "AWSMachine").await?, self.manager());
        // The value is different each time: an equal one would change nothing.
        let before = api.get(name).await?.resource_version();
        let label = Patch::Merge(json!({"metadata": {"labels": {"seen": before}}}));
        let labelled = api.patch(name, &PatchParams::default(), &label).await?;
        let version: u64 = labelled.resource_version().unwrap_or_default().parse()?;
        eventually_by_polling(WITHIN, &format!("a pass over version {version} of {name}"), async || {
            let seen = manager.looked_at("awsmachine", name)?;
            ensure!(seen.iter().any(|seen| *seen >= version), "it has looked at {seen:?}");
            Ok(())
        })
        .await
    }

    /// All calls of the manager that may have changed something, counted by action. A call that was repeated counts
    /// once: how often it was depends on the computer. Terminations count by instance: how many share a call depends on
    /// when they come.
    pub(crate) fn mutating(&self) -> Vec<(String, usize)> {
        let counts = self.aws().manager_journal().mutating().distinct().counts();
        let terminated = self.terminated().len();
        let by_instance = |(action, calls): (String, usize)| match action.as_str() {
            "TerminateInstances" => (action, terminated),
            _ => (action, calls),
        };
        counts.into_iter().map(by_instance).collect()
    }

    /// Fails unless these are all calls of the manager that may have changed something, counted by action, and
    /// terminations by instance.
    #[track_caller]
    pub(crate) fn assert_mutating(&self, expected: &[(&str, usize)]) {
        assert_eq!(self.mutating(), counts(expected));
    }

    /// The launches: all RunInstances calls, of repetitions of one launch the last one.
    pub(crate) fn launches(&self) -> Journal {
        self.aws().manager_journal().of("RunInstances").distinct()
    }

    /// The instances that were launched. Fails unless each AWSMachine has one client token and at most one instance,
    /// and the manager has changed nothing in AWS but by launches and terminations. A busy Cluster API makes a Machine
    /// of a MachineDeployment too many at times, and deletes it: their number says nothing about the manager.
    pub(crate) fn launched_once(&self) -> anyhow::Result<BTreeSet<String>> {
        let launches = self.aws().manager_journal().of("RunInstances");
        let mut by_machine: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&String>)> = BTreeMap::new();
        for call in launches.calls() {
            let token = call.parameter("ClientToken").context("a launch has no token")?;
            let (uid, _) = token.rsplit_once('-').context("a token has no attempt")?;
            let (tokens, ids) = by_machine.entry(uid).or_default();
            tokens.insert(token);
            ids.extend(&call.instance_ids);
        }
        for (uid, (tokens, ids)) in &by_machine {
            ensure!(tokens.len() == 1 && ids.len() <= 1, "AWSMachine {uid}: {launches}");
        }
        let others = self.mutating();
        let mut others = others.iter().map(|(action, _)| action.as_str());
        ensure!(others.all(|action| ["RunInstances", "TerminateInstances"].contains(&action)), "{:?}", self.mutating());
        Ok(by_machine.into_values().flat_map(|(_, ids)| ids).cloned().collect())
    }

    /// The call that launched an instance. A call may be repeated, but with no other parameter.
    pub(crate) fn launch_of(&self, instance_id: &str) -> anyhow::Result<Call> {
        let calls = self.aws().manager_journal().of("RunInstances");
        let calls = calls.matching(|call| call.instance_ids.iter().any(|id| id == instance_id));
        let launches = calls.distinct();
        ensure!(launches.len() <= 1, "{instance_id} was launched twice: {launches}");
        let launch = launches.calls().first().cloned();
        launch.with_context(|| format!("{instance_id} was not launched"))
    }

    /// Whether the manager has called for the termination of an instance.
    pub(crate) fn has_terminated(&self, instance_id: &str) -> bool {
        self.terminated().contains(instance_id)
    }

    /// The instances for whose termination the manager has called.
    pub(crate) fn terminated(&self) -> BTreeSet<String> {
        let journal = self.aws().manager_journal().of("TerminateInstances");
        let ids = journal.calls().iter().flat_map(|call| call.values("InstanceId"));
        ids.map(str::to_owned).collect()
    }

    /// The state of an instance from a call with the user's key.
    pub(crate) async fn state_of(&self, instance_id: &str) -> anyhow::Result<String> {
        let instance = self.user.instance(instance_id).await?;
        let state = instance.state.and_then(|state| state.name);
        Ok(state.context("an instance without a state")?.as_str().to_owned())
    }
}

/// The numbers of these Machines or AWSMachines in the three zones, in ascending order.
pub(crate) fn spread<'a>(machines: impl IntoIterator<Item = &'a DynamicObject>) -> [usize; 3] {
    let zones: Vec<&str> = machines.into_iter().map(|machine| text(machine, "/status/failureDomain")).collect();
    let mut counts = ["a", "b", "c"].map(|letter| {
        let zone = format!("{REGION}{letter}");
        zones.iter().filter(|other| **other == zone).count()
    });
    counts.sort_unstable();
    counts
}

/// A condition of an object; an error without it.
pub(crate) fn condition_of(object: &DynamicObject, condition: &str) -> anyhow::Result<objects::Condition> {
    objects::condition(object, condition).with_context(|| format!("no {condition} yet"))
}

/// A field of an object, null where it is absent.
pub(crate) fn at<'a>(object: &'a DynamicObject, pointer: &str) -> &'a Value {
    object.data.pointer(pointer).unwrap_or(&Value::Null)
}

/// A text field of an object; empty where it is absent.
pub(crate) fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    at(object, pointer).as_str().unwrap_or_default()
}

/// The pairs in the form of [`Scenario::mutating`].
pub(crate) fn counts(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    expected.iter().map(|(action, count)| ((*action).to_owned(), *count)).collect()
}
