//! Wrong inputs: each is named where its author looks, launches nothing, and heals once mended. The story prints a
//! table with what was seen, and how long it took.

mod clusters;
mod machines;

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use capa_e2e::user::NetworkPlan;
use capa_e2e::{Story, eventually, fixtures};
use futures::{StreamExt as _, stream};
use kube::api::DynamicObject;
use serde_json::Value;

use super::machines::at;
use super::scenario::{OURS, REGION, Scenario, run_story};

/// Wrong inputs at the same time. Their times are seconds, which more of them on a small computer would blur.
const AT_ONCE: usize = 4;

/// How long an object may take to say what is wrong.
const COMPLAINS_WITHIN: Duration = Duration::from_secs(90);

/// The longest part of a message in the table.
const MAX_SHOWN_CHARACTERS: usize = 160;

/// An id of the right form that no account has.
const NO_IMAGE: &str = "ami-00000000000000bad";

mod long_stories {
    #[test]
    fn wrong_inputs_are_named_and_heal_once_mended() -> anyhow::Result<()> {
        super::all()
    }
}

/// A wrong input and its correction.
struct WrongInput {
    /// The input, for the table.
    input: &'static str,
    /// The objects as the user applies them.
    objects: String,
    /// The kind and the name of the object that says what is wrong, if the API server accepts the objects.
    looks_at: (&'static str, String),
    /// The type and the reason of the condition that is false, where they matter.
    condition: Option<(&'static str, &'static str)>,
    /// Parts of what the user is told, by the API server or by a condition.
    says: Vec<String>,
    mend: Mend,
    /// The kind and the name of the object that becomes Ready once mended.
    heals: (&'static str, String),
}

/// What the user does about a wrong input.
enum Mend {
    /// Applies these objects.
    Apply(String),
    /// Sets a tag of an AWS resource: its id, the key and the value.
    Tag(String, &'static str, &'static str),
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
        let mut seen: String = self.seen.replace(['\n', '|'], " ").chars().take(MAX_SHOWN_CHARACTERS).collect();
        if seen.len() < self.seen.len() {
            seen.push('…');
        }
        let (seen_after, healed_after) = (self.seen_after.as_secs_f64(), self.healed_after.as_secs_f64());
        let input = self.input;
        write!(formatter, "| {input} | {seen} | {seen_after:.1} | {healed_after:.1} |")
    }
}

fn all() -> anyhow::Result<()> {
    run_story(Story::new("wrong-input"), async |s| {
        let elsewhere = s.user.create_network(&NetworkPlan::new("elsewhere", REGION, 1)).await?;
        // Real periods, because the table shows them.
        s.new_manager().start().await?;
        s.cluster("dev").await?;
        let mut inputs = clusters::inputs(s, &elsewhere).await?;
        inputs.extend(machines::inputs(s));
        let healed = inputs.iter().filter(|wrong| wrong.heals.0 == "AWSMachine").count();
        let rows = stream::iter(inputs).map(|input| s.try_out(input)).buffered(AT_ONCE);
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
        let live = s.user.live_instances().await?.len();
        ensure!(live == healed, "{live} instances live for {healed} machines");
        let calls = s.aws().manager_journal();
        let is_pattern = |value: &String| machines::PATTERNS.iter().any(|pattern| value.contains(pattern));
        let patterns = calls.matching(|call| call.parameters.values().any(is_pattern));
        assert!(patterns.is_empty(), "AWS is not even asked: {patterns}");
        let metrics = s.manager().scrape().await?;
        let elsewhere = |line: &&str| line.contains("region=\"") && !line.contains(&format!("region=\"{REGION}\""));
        assert_eq!(metrics.lines().find(elsewhere), None, "a region that is none has a series");
        Ok(())
    })
}

impl Scenario {
    async fn try_out(&self, wrong: WrongInput) -> anyhow::Result<Row> {
        let started = Instant::now();
        let seen = match self.apply(&wrong.objects).await {
            Err(refused) => {
                ensure!(wrong.condition.is_none(), "{}: refused, not shown: {refused:#}", wrong.input);
                format!("refused: {refused:#}")
            }
            Ok(()) => self.complaint(&wrong).await?,
        };
        let seen_after = started.elapsed();
        let input = wrong.input;
        for part in &wrong.says {
            ensure!(seen.contains(part), "{input}: {part} is not in: {seen}");
        }

        let mended = Instant::now();
        match &wrong.mend {
            Mend::Apply(objects) => self.apply(objects).await?,
            Mend::Tag(id, key, value) => self.user.tag(id, key, value).await?,
        }
        let (kind, name) = &wrong.heals;
        self.condition(kind, name, "Ready", "True", "Ready").await?;
        if wrong.heals == wrong.looks_at {
            self.complains_no_more(&wrong).await?;
        }
        Ok(Row { input, seen, seen_after, healed_after: mended.elapsed() })
    }

    /// Waits for a condition of the object that says what is expected.
    async fn complaint(&self, wrong: &WrongInput) -> anyhow::Result<String> {
        let ((kind, name), says) = (&wrong.looks_at, &wrong.says);
        let what = format!("{kind} {name} to say {says:?} ({})", wrong.input);
        eventually(COMPLAINS_WITHIN, &what, async || {
            let object = self.get(OURS, kind, name).await?;
            complaint_in(&object, wrong).with_context(|| format!("its status is {}", at(&object, "/status")))
        })
        .await
    }

    /// Waits until no condition of the object says what was expected.
    async fn complains_no_more(&self, wrong: &WrongInput) -> anyhow::Result<()> {
        let (kind, name) = &wrong.looks_at;
        eventually(COMPLAINS_WITHIN, &format!("{kind} {name} to heal ({})", wrong.input), async || {
            let object = self.get(OURS, kind, name).await?;
            let complaint = complaint_in(&object, wrong);
            ensure!(complaint.is_none(), "it says {complaint:?}");
            Ok(())
        })
        .await
    }
}

/// The first condition of the object that says what is expected.
fn complaint_in(object: &DynamicObject, wrong: &WrongInput) -> Option<String> {
    let says_it = |condition: &&Value| {
        let is = |field: &str, wanted: &str| condition[field] == wanted;
        let is_the_one =
            wrong.condition.is_none_or(|(condition_type, reason)| is("type", condition_type) && is("reason", reason));
        let message = condition["message"].as_str().unwrap_or_default();
        is("status", "False") && is_the_one && wrong.says.iter().all(|part| message.contains(part))
    };
    let found = at(object, "/status/conditions").as_array()?.iter().find(says_it)?;
    let part = |field: &str| found[field].as_str().unwrap_or_default();
    Some(format!("{}=False/{}: {}", part("type"), part("reason"), part("message")))
}

/// An unmanaged AWSCluster and its Cluster.
fn with_cluster(name: &str, aws_cluster: &str) -> String {
    format!("{aws_cluster}\n---\n{}", fixtures::cluster(name, Some("AWSCluster")))
}
