//! Objects that the API server refuses: a table for each kind and policy, with the words of the refusal.
//!
//! The real API server evaluates the tables in dry runs.

mod arrivals;
mod clusters_changed;
mod clusters_created;
mod identities;
mod machines_changed;
mod machines_created;
mod requests;
mod templates;
mod zero_values;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use capa_e2e::{Story, TestEnvironment};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::scenario::OURS;

/// The group of the API server's own admission kinds.
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// The rules of `capa-rs-create-only`: 16 about clusters and 22 about machines, of which 3 are the same, 2 about
/// templates of machines, and 2 about identities.
const RULES_AT_CREATION: usize = 39;

/// A story about one table of a kind with this smallest spec.
fn table(
    kind: &'static str,
    smallest: &str,
    body: impl AsyncFnOnce(&mut Table) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    Story::new("admission").run(async |environment| body(&mut Table::new(environment, kind, smallest).await?).await)
}

/// A namespace for one table.
struct Table {
    environment: Arc<TestEnvironment>,
    kind: &'static str,
    api: Api<DynamicObject>,
    /// The smallest spec of the kind.
    smallest: Value,
    /// The messages of all refusals.
    refusals: BTreeSet<String>,
}

impl Table {
    async fn new(environment: &Arc<TestEnvironment>, kind: &'static str, smallest: &str) -> anyhow::Result<Self> {
        environment.world().install_provider().await?;
        Ok(Self {
            api: environment.api(OURS, kind).await?,
            environment: environment.clone(),
            kind,
            smallest: yaml(smallest)?,
            refusals: BTreeSet::new(),
        })
    }

    /// The object with this spec; `merge` is merged into the whole object.
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

    /// Tests the creation of objects. Each case has a description, a spec to merge into the smallest one, and words of
    /// the refusal; without words the object must be accepted.
    async fn created(&mut self, cases: &str) -> anyhow::Result<()> {
        for [what, spec, refused] in rows(cases)? {
            self.creation(&what, &spec, &refused).await?;
        }
        Ok(())
    }

    /// Tests the creation of templates of such objects.
    async fn templates_created(&mut self, cases: &str) -> anyhow::Result<()> {
        for [what, spec, refused] in rows(cases)? {
            self.creation(&what, &format!("{{template: {{spec: {spec}}}}}"), &refused).await?;
        }
        Ok(())
    }

    /// Tests the creation of one object.
    async fn creation(&mut self, what: &str, spec: &str, refused: &str) -> anyhow::Result<()> {
        let object = self.object(&yaml(spec)?, &json!({}))?;
        let answer = self.api.create(&dry_run(), &object).await;
        self.judge(what, refused, answer)
    }

    /// Tests changes of existing objects. Each case has a description, the object before, a merge patch, and words of
    /// the refusal.
    async fn changed(&mut self, cases: &str) -> anyhow::Result<()> {
        for [what, before, change, refused] in rows(cases)? {
            self.change(&what, &before, &change, &refused).await?;
        }
        Ok(())
    }

    /// Tests a merge patch of an object; `before` is merged into the smallest object.
    async fn change(&mut self, what: &str, before: &str, change: &str, refused: &str) -> anyhow::Result<()> {
        let object = self.object(&json!({}), &yaml(before)?)?;
        let stored = self.api.create(&PostParams::default(), &object).await;
        let name = stored.with_context(|| format!("{what}: store {before}"))?.name_any();
        let judged = PatchParams::default().dry_run();
        let answer = self.api.patch(&name, &judged, &Patch::Merge(yaml(change)?)).await;
        self.judge(what, refused, answer)?;
        // Identities are not deleted with a namespace.
        self.api.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }

    fn judge(&mut self, what: &str, refused: &str, answer: kube::Result<DynamicObject>) -> anyhow::Result<()> {
        let message = judge(refused, answer).with_context(|| format!("{}, {what}", self.kind))?;
        self.refusals.extend(message);
        Ok(())
    }

    /// Fails unless this many of a policy's rules, of `all` that it has, have refused something. A new rule without a
    /// test changes the number.
    async fn covers(&self, policy: &str, rules: usize, all: usize) -> anyhow::Result<()> {
        let policies = self.environment.api(ADMISSION, "ValidatingAdmissionPolicy").await?;
        let spec = policies.get(policy).await?.data["spec"].take();
        let validations = spec["validations"].as_array().cloned().unwrap_or_default();
        let messages = validations.iter().filter_map(|validation| validation["message"].as_str());
        let tried = |message: &&str| {
            // A rule with a separate message for each case begins each of them like its plain message.
            let begin = message.split(':').next().unwrap_or(message);
            let mut refusals = self.refusals.iter();
            refusals.any(|refusal| refusal.contains(policy) && refusal.contains(begin))
        };
        let seen = (messages.filter(tried).count(), validations.len());
        ensure!(seen == (rules, all), "{policy}, {}: {seen:?} rules have refused something", self.kind);
        Ok(())
    }
}

/// The rows of a table, each with this many cells that ` | ` separates. An indented line continues the row above it,
/// and a line with `#` is a comment.
fn rows<const CELLS: usize>(table: &str) -> anyhow::Result<Vec<[String; CELLS]>> {
    let mut rows: Vec<String> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match rows.last_mut() {
            Some(row) if line.starts_with(' ') => {
                row.push(' ');
                row.push_str(line.trim());
            }
            _ => rows.push(line.to_owned()),
        }
    }
    let cells = |row: String| {
        let cells: Vec<String> = row.split(" |").map(|cell| cell.trim().to_owned()).collect();
        cells.try_into().map_err(|_| anyhow!("a row without {CELLS} cells: {row}"))
    };
    rows.into_iter().map(cells).collect()
}

/// Fails unless the answer is a refusal with these words; without words, unless the object is accepted. Returns the
/// message of the refusal.
pub(super) fn judge(words: &str, answer: kube::Result<DynamicObject>) -> anyhow::Result<Option<String>> {
    match (words, answer) {
        ("", Ok(_)) => Ok(None),
        ("", Err(error)) => Err(error).context("should be accepted"),
        (_, Ok(_)) => anyhow::bail!("should be refused with {words:?}"),
        (_, Err(error)) => {
            let message = refusal(error)?;
            ensure!(message.contains(words), "{words:?} is not in {message:?}");
            Ok(Some(message))
        }
    }
}

/// The message for the user. The status code is that of an invalid object, whether the schema or a policy refused it.
fn refusal(error: kube::Error) -> anyhow::Result<String> {
    match error {
        kube::Error::Api(status) if status.code == 422 => Ok(status.message.clone()),
        error => Err(error).context("should be refused as invalid"),
    }
}

pub(super) fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

fn yaml(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).with_context(|| format!("read {text}"))
}

/// A JSON merge of `change` over `base`.
pub(super) fn merged(base: &Value, change: &Value) -> Value {
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
