//! Wrong inputs as a new operator makes them: each is named where the operator looks, and heals once mended. The story
//! prints a table with what was seen, and how long it took.

mod clusters;
mod machines;

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::user::NetworkPlan;
use capa_e2e::{Story, eventually, fixtures};
use futures::{StreamExt as _, stream};
use serde_json::Value;

use super::machines::at;
use super::scenario::{OURS, REGION, Scenario, run_story};

/// Trials at the same time. Their times are seconds, which more of them on a small computer would blur.
const AT_ONCE: usize = 4;

/// How long an object may take to say what is wrong.
const COMPLAINS_WITHIN: Duration = Duration::from_secs(90);

/// The longest part of a message in the table.
const SHOWN: usize = 160;

/// Ids of the right form that no account has.
const NO_SUBNET: &str = "subnet-00000000000000bad";
const NO_VPC: &str = "vpc-00000000000000bad";
const NO_GROUP: &str = "sg-00000000000000bad";
const NO_IMAGE: &str = "ami-00000000000000bad";

mod long_stories {
    #[test]
    fn forty_wrong_inputs_are_named_and_heal_once_mended() -> anyhow::Result<()> {
        super::all()
    }
}

/// A wrong input and its correction.
struct Trial {
    /// The input, for the table.
    input: &'static str,
    /// The objects as the user applies them.
    wrong: String,
    /// The kind and the name of the object that says what is wrong, if the API server accepts the objects.
    looks_at: (&'static str, String),
    /// A part of what the user is told, by the API server or by a condition.
    says: String,
    mend: Mend,
    /// The kind and the name of the object that becomes Ready once mended.
    heals: (&'static str, String),
}

/// What the user does about a wrong input.
enum Mend {
    /// Applies these objects.
    Apply(String),
    /// Sets the tag `tier` of an AWS resource.
    Tag(String),
}

/// A line of the table.
struct Row {
    input: &'static str,
    seen: String,
    seen_after: Duration,
    healed_after: Duration,
}

impl Display for Row {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut seen: String = self.seen.replace(['\n', '|'], " ").chars().take(SHOWN).collect();
        if seen.len() < self.seen.len() {
            seen.push('…');
        }
        let (seen_after, healed_after) = (self.seen_after.as_secs_f64(), self.healed_after.as_secs_f64());
        let input = self.input;
        write!(formatter, "| {input} | {seen} | {seen_after:.1} | {healed_after:.1} |")
    }
}

fn all() -> anyhow::Result<()> {
    run_story(Story::new("trial"), async |s| {
        let elsewhere = s.user.create_network(&NetworkPlan::new("elsewhere", REGION, 1)).await?;
        // Real periods, because the table shows them.
        s.new_manager().start().await?;
        s.cluster("dev").await?;
        let mut trials = clusters::trials(s, &elsewhere).await?;
        trials.extend(machines::trials(s));
        ensure!(trials.len() >= 40, "there are {} trials", trials.len());
        let rows = stream::iter(trials).map(|trial| s.try_out(trial)).buffered(AT_ONCE);
        let rows: Vec<anyhow::Result<Row>> = rows.collect().await;
        let head = "| tried | seen | seconds until seen | seconds until healed |\n| --- | --- | --- | --- |";
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{head}")?;
        let mut failed = Vec::new();
        for row in rows {
            match row {
                Ok(row) => writeln!(stdout, "{row}")?,
                Err(error) => failed.push(format!("{error:#}")),
            }
        }
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        Ok(())
    })
}

impl Scenario {
    async fn try_out(&self, trial: Trial) -> anyhow::Result<Row> {
        let started = Instant::now();
        let seen = match self.apply(&trial.wrong).await {
            Err(refused) => format!("refused: {refused:#}"),
            Ok(()) => self.complaint(&trial).await?,
        };
        let seen_after = started.elapsed();
        let (input, says) = (trial.input, &trial.says);
        ensure!(seen.contains(says), "{input}: {says} is not in: {seen}");

        let mended = Instant::now();
        match &trial.mend {
            Mend::Apply(objects) => self.apply(objects).await?,
            Mend::Tag(id) => self.user.tag(id, "tier", "dmz").await?,
        }
        let (kind, name) = &trial.heals;
        self.condition(kind, name, "Ready", "True", "Ready").await?;
        Ok(Row {
            input,
            seen,
            seen_after,
            healed_after: mended.elapsed(),
        })
    }

    /// The first condition of the object that says what is expected.
    async fn complaint(&self, trial: &Trial) -> anyhow::Result<String> {
        let ((kind, name), says) = (&trial.looks_at, &trial.says);
        let what = format!("{kind} {name} to say {says:?} ({})", trial.input);
        eventually(COMPLAINS_WITHIN, &what, async || {
            let object = self.get(OURS, kind, name).await?;
            let conditions = at(&object, "/status/conditions")
                .as_array()
                .cloned()
                .unwrap_or_default();
            let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let found = conditions
                .iter()
                .find(|condition| text(condition, "message").contains(says));
            let Some(found) = found else {
                anyhow::bail!("its conditions are {conditions:?}");
            };
            let part = |field| text(found, field);
            Ok(format!(
                "{}={}/{}: {}",
                part("type"),
                part("status"),
                part("reason"),
                part("message")
            ))
        })
        .await
    }
}

/// An unmanaged AWSCluster and its Cluster.
fn with_cluster(name: &str, aws_cluster: &str) -> String {
    format!("{aws_cluster}\n---\n{}", fixtures::cluster(name, Some("AWSCluster")))
}
