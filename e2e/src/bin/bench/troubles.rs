//! Machines while AWS throttles or refuses calls.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::{Fault, shortest_time_of_launches};
use capa_e2e::eventually;
use jiff::Timestamp;
use serde::Serialize;

use crate::field::{Field, Storage};
use crate::follow::{Count, Follow};
use crate::meters::{self, Phase, number};
use crate::progress;
use crate::provider::Provider;

/// The machines against EC2's buckets, the time that their instances are pending, and the time that each call takes.
pub(crate) const MACHINES: u32 = 100;
pub(crate) const PENDING: Duration = Duration::from_secs(15);
pub(crate) const LATENCY: Duration = Duration::from_millis(80);

/// The machines that meet a throttled minute.
pub(crate) const MACHINES_OF_THE_MINUTE: u32 = 50;

/// The longest wait.
const DEADLINE: Duration = Duration::from_mins(10);

/// Machines against EC2's buckets.
#[derive(Serialize)]
pub(crate) struct Buckets {
    pub(crate) provider: Provider,
    /// The shortest time in which the bucket of RunInstances and the time in pending allow all machines.
    pub(crate) bound_seconds: f64,
    pub(crate) created: Phase,
}

/// Machines that meet a minute in which AWS throttles every call.
#[derive(Serialize)]
pub(crate) struct ThrottledMinute {
    pub(crate) provider: Provider,
    pub(crate) minute: Phase,
    /// From the end of the minute until the last launch.
    pub(crate) launched_seconds: f64,
    /// From the end of the minute until all are ready.
    pub(crate) recovered: Phase,
}

/// A machine with a wrong image.
#[derive(Serialize)]
pub(crate) struct WrongImage {
    pub(crate) provider: Provider,
    /// The calls of RunInstances in each minute, from the first one on.
    pub(crate) launches: Vec<usize>,
    /// All calls in each minute.
    pub(crate) calls: Vec<usize>,
}

impl Buckets {
    /// The time until all are ready, divided by the shortest one that is possible.
    pub(crate) fn ratio(&self) -> f64 {
        self.created.seconds / self.bound_seconds
    }
}

impl ThrottledMinute {
    /// The calls in the minute, divided by the machines.
    pub(crate) fn calls_per_machine(&self) -> f64 {
        number(self.minute.all_calls()) / f64::from(MACHINES_OF_THE_MINUTE)
    }

    /// The time from the end of the minute until all are ready, divided by the shortest one that the bucket of
    /// RunInstances allows.
    pub(crate) fn ratio(&self) -> f64 {
        self.recovered.seconds / shortest_time_of_launches(MACHINES_OF_THE_MINUTE).as_secs_f64()
    }
}

/// A hundred machines against EC2's buckets.
pub(crate) async fn buckets(provider: &Provider) -> anyhow::Result<Buckets> {
    let name = provider.name();
    progress(&format!("{MACHINES} machines against EC2's buckets, {name}: a world starts"));
    let field = Field::new(provider, "buckets").await?;
    field.aws().set_pending(PENDING);
    field.aws().fault(Fault::on_everything().delay(LATENCY));
    field.aws().throttle(1);
    let mut follow = Follow::new(&field.aws_machines);
    let start = meters::start(&field)?;
    let ready = follow.until("all machines", DEADLINE, all_ready(MACHINES as usize));
    tokio::try_join!(field.create(MACHINES as usize, Storage::Inline), ready)?;
    let created = start.end(&field)?;
    field.end().await?;
    let bound = shortest_time_of_launches(MACHINES) + PENDING;
    let buckets = Buckets { provider: provider.clone(), bound_seconds: bound.as_secs_f64(), created };
    ensure!(buckets.ratio() >= 1.0, "the machines were ready before EC2's buckets allow it");
    Ok(buckets)
}

fn all_ready(machines: usize) -> impl Fn(Count) -> bool {
    move |count| count.ready == machines
}

/// Fifty machines that are created at the beginning of a minute in which every call is throttled.
pub(crate) async fn throttled_minute(provider: &Provider) -> anyhow::Result<ThrottledMinute> {
    let machines = MACHINES_OF_THE_MINUTE as usize;
    let name = provider.name();
    progress(&format!("{machines} machines meet a throttled minute, {name}: a world starts"));
    let field = Field::new(provider, "minute").await?;
    field.aws().throttle(1);
    let fault = field.aws().fault(Fault::on_everything().error("RequestLimitExceeded"));
    let mut follow = Follow::new(&field.aws_machines);
    let start = meters::start(&field)?;
    let passes = async {
        eventually(DEADLINE, "the first throttled call", async || {
            ensure!(fault.hits() > 0, "AWS has not been called yet");
            Ok(())
        })
        .await?;
        // A plain sleep: the minute is what is measured.
        tokio::time::sleep(Duration::from_mins(1)).await;
        Ok(())
    };
    tokio::try_join!(field.create(machines, Storage::Inline), passes)?;
    let minute = start.end(&field)?;
    fault.lift();
    let (start, began) = (meters::start(&field)?, Timestamp::now());
    follow.until("all machines", DEADLINE, all_ready(machines)).await?;
    let recovered = start.end(&field)?;
    let launches = field.aws().manager_journal().of("RunInstances");
    let last = launches.calls().iter().map(|call| call.at).max().context("no launch")?;
    let launched_seconds = began.duration_until(last).as_secs_f64();
    field.end().await?;
    Ok(ThrottledMinute { provider: provider.clone(), minute, launched_seconds, recovered })
}

/// One machine whose image does not exist.
pub(crate) async fn wrong_image(provider: &Provider, minutes: u64) -> anyhow::Result<WrongImage> {
    progress(&format!("one machine with a wrong image for {minutes} minutes, {}: a world starts", provider.name()));
    let field = Field::new(provider, "image").await?;
    field.aws().fault(Fault::on("RunInstances").error("InvalidAMIID.NotFound"));
    let mark = field.aws().mark();
    let calls = || field.aws().manager_journal_since(mark);
    field.create(1, Storage::Inline).await?;
    let began = eventually(DEADLINE, "the first launch", async || {
        let first = calls().of("RunInstances").calls().first().map(|call| call.at);
        first.context("no launch yet")
    })
    .await?;
    // A plain sleep: the minutes are what is measured.
    tokio::time::sleep(Duration::from_mins(minutes)).await;
    let minute_of =
        |at: Timestamp| began.duration_until(at).as_secs().checked_div(60).and_then(|m| u64::try_from(m).ok());
    let calls = calls();
    let counts = |action: Option<&str>| {
        let minute = |number: u64| {
            let in_minute = calls.matching(|call| call.at >= began && minute_of(call.at) == Some(number));
            in_minute.matching(|call| action.is_none_or(|action| call.action == action)).len()
        };
        (0..minutes).map(minute).collect()
    };
    let wrong = WrongImage { provider: provider.clone(), launches: counts(Some("RunInstances")), calls: counts(None) };
    field.end().await?;
    Ok(wrong)
}
