//! What the API server refuses: a table for each kind and policy, with the words that the user sees.
//!
//! The tables are judged by the real API server, in dry runs. In most namespaces here fields without effect are admitted,
//! so that the rules about them are seen before they have their effect.

mod clusters_changed;
mod clusters_created;
mod every_field;
mod identities;
mod machines_changed;
mod machines_created;
mod requests;
mod templates;
mod unsupported_fields;

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use capa_e2e::{TestEnvironment, World};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::scenario::OURS;

/// The group of the API server's own admission kinds.
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// The rules of `capa-rs-create-only`: 16 about clusters and 20 about machines, of which 3 are the same, 2 about
/// templates of machines, and 2 about identities.
const RULES_AT_CREATION: usize = 37;

/// An object to be created: what is about it, its spec on top of the smallest one, and words of the refusal.
type Creation = (&'static str, &'static str, Option<&'static str>);

/// A change: what is about it, the object before and a merge patch of it, and words of the refusal.
type Change = (&'static str, &'static str, &'static str, Option<&'static str>);

/// A namespace for one table.
struct Table {
    environment: TestEnvironment,
    kind: &'static str,
    api: Api<DynamicObject>,
    /// The smallest spec of the kind.
    smallest: Value,
    /// What users were told.
    refusals: BTreeSet<String>,
}

impl Table {
    /// A table of a kind, in a namespace that admits fields without effect.
    async fn new(kind: &'static str, smallest: &str) -> anyhow::Result<Self> {
        let environment = World::shared().await?.test_of_stored_objects("admission").await?;
        Self::in_environment(environment, kind, smallest).await
    }

    /// The same in a namespace as users have it.
    async fn of_users(kind: &'static str, smallest: &str) -> anyhow::Result<Self> {
        let environment = World::shared().await?.test("admission").await?;
        Self::in_environment(environment, kind, smallest).await
    }

    async fn in_environment(environment: TestEnvironment, kind: &'static str, smallest: &str) -> anyhow::Result<Self> {
        environment.world().install_provider().await?;
        Ok(Self {
            api: environment.api(OURS, kind).await?,
            environment,
            kind,
            smallest: yaml(smallest)?,
            refusals: BTreeSet::new(),
        })
    }

    /// The object of a spec; `merge` is put on top of all of it.
    fn object(&self, spec: &Value, merge: &Value) -> anyhow::Result<DynamicObject> {
        let mut object = json!({
            "apiVersion": OURS,
            "kind": self.kind,
            "metadata": {"generateName": format!("{}-", self.environment.namespace())},
            "spec": merged(&self.smallest, spec),
        });
        object = merged(&object, merge);
        Ok(serde_json::from_value(object)?)
    }

    /// Has the server judge objects as they are created.
    async fn created(&mut self, cases: &[Creation]) -> anyhow::Result<()> {
        for (what, spec, refused) in cases {
            self.creation(what, spec, *refused).await?;
        }
        Ok(())
    }

    /// Has the server judge one object as it is created.
    async fn creation(&mut self, what: &str, spec: &str, refused: Option<&str>) -> anyhow::Result<()> {
        let object = self.object(&yaml(spec)?, &json!({}))?;
        let answer = self.api.create(&dry_run(), &object).await;
        self.judge(what, refused, answer)
    }

    /// Has the server judge changes of objects that exist.
    async fn changed(&mut self, cases: &[Change]) -> anyhow::Result<()> {
        for (what, before, change, refused) in cases {
            self.change(what, before, change, *refused).await?;
        }
        Ok(())
    }

    /// Has the server judge a merge patch of an object; `before` is put on top of the smallest one.
    async fn change(&mut self, what: &str, before: &str, change: &str, refused: Option<&str>) -> anyhow::Result<()> {
        let object = self.object(&json!({}), &yaml(before)?)?;
        let stored = self.api.create(&PostParams::default(), &object).await;
        let name = stored.with_context(|| format!("{what}: store {before}"))?.name_any();
        let judged = PatchParams::default().dry_run();
        let answer = self.api.patch(&name, &judged, &Patch::Merge(yaml(change)?)).await;
        self.judge(what, refused, answer)?;
        // Identities belong to no namespace that could take them along.
        self.api.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    fn judge(&mut self, what: &str, refused: Option<&str>, answer: kube::Result<DynamicObject>) -> anyhow::Result<()> {
        let kind = self.kind;
        match (refused, answer) {
            (None, Ok(_)) => {}
            (None, Err(error)) => return Err(error).with_context(|| format!("{kind}, {what}: should be accepted")),
            (Some(words), Ok(_)) => anyhow::bail!("{kind}, {what}: should be refused with {words:?}"),
            (Some(words), Err(error)) => {
                let told = refusal(error).with_context(|| format!("{kind}, {what}"))?;
                ensure!(told.contains(words), "{kind}, {what}: {words:?} is not in {told:?}");
                self.refusals.insert(told);
            }
        }
        Ok(())
    }

    /// This many rules of a policy, of `all` that it has, have refused something. A rule that nobody tries is noticed
    /// by its number.
    async fn covers(&self, policy: &str, rules: usize, all: usize) -> anyhow::Result<()> {
        let policies = self.environment.api(ADMISSION, "ValidatingAdmissionPolicy").await?;
        let spec = policies.get(policy).await?.data["spec"].take();
        let validations = spec["validations"].as_array().cloned().unwrap_or_default();
        let messages = validations
            .iter()
            .filter_map(|validation| validation["message"].as_str());
        let tried = |message: &&str| {
            // A rule with a message of its own for each case begins it as the plain one.
            let begin = message.split(':').next().unwrap_or(message);
            let mut told = self.refusals.iter();
            told.any(|told| told.contains(policy) && told.contains(begin))
        };
        let seen = (messages.filter(tried).count(), validations.len());
        ensure!(
            seen == (rules, all),
            "{policy}, {}: {seen:?} rules have refused something",
            self.kind
        );
        Ok(())
    }
}

/// What the user is told. The status code is that of an invalid object, whoever found it so.
fn refusal(error: kube::Error) -> anyhow::Result<String> {
    match error {
        kube::Error::Api(status) if status.code == 422 => Ok(status.message.clone()),
        error => Err(error).context("should be refused as invalid"),
    }
}

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

fn yaml(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).with_context(|| format!("read {text}"))
}

/// A JSON merge of `change` over `base`.
fn merged(base: &Value, change: &Value) -> Value {
    let (Value::Object(base), Value::Object(change)) = (base, change) else {
        return change.clone();
    };
    let mut all = base.clone();
    for (key, value) in change {
        let below = merged(all.get(key).unwrap_or(&Value::Null), value);
        all.insert(key.clone(), below);
    }
    Value::Object(all)
}
