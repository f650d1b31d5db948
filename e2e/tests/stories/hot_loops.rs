//! What a manager asks of AWS while AWS refuses: little, less and less, and no stampede when it is over. Real periods, so
//! that the numbers are those of a real minute.

use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::{Fault, Journal};
use capa_e2e::eventually;
use futures::future::try_join_all;

use super::chaos::report;
use super::scenario::{Scenario, WITHIN};

/// One way to be refused.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    name: &'static str,
    machines: u32,
    fault: fn() -> Fault,
    /// RunInstances that may be sent for a machine in the first minute; backoff doubles from a second.
    launches_a_machine: usize,
    /// Calls of all kinds that may be made for a machine in the first minute.
    calls_a_machine: usize,
}

const TROUBLES: [Trouble; 6] = [
    Trouble {
        name: "no-image",
        machines: 1,
        fault: || Fault::on("RunInstances").error("InvalidAMIID.NotFound"),
        launches_a_machine: 8,
        calls_a_machine: 40,
    },
    Trouble {
        name: "no-quota",
        machines: 1,
        fault: || Fault::on("RunInstances").error("VcpuLimitExceeded"),
        launches_a_machine: 8,
        calls_a_machine: 40,
    },
    Trouble {
        name: "no-permission",
        machines: 1,
        fault: || Fault::on("RunInstances").error("UnauthorizedOperation"),
        launches_a_machine: 8,
        calls_a_machine: 40,
    },
    Trouble {
        name: "no-capacity",
        machines: 10,
        fault: || Fault::on("RunInstances").error("InsufficientInstanceCapacity"),
        launches_a_machine: 10,
        calls_a_machine: 20,
    },
    Trouble {
        name: "throttled",
        machines: 20,
        fault: || Fault::on_everything().error("RequestLimitExceeded"),
        launches_a_machine: 8,
        calls_a_machine: 20,
    },
    Trouble {
        name: "unreachable",
        machines: 20,
        fault: Fault::unreachable,
        launches_a_machine: 8,
        calls_a_machine: 20,
    },
];

#[tokio::test]
async fn aws_is_asked_less_and_less_while_it_refuses() -> anyhow::Result<()> {
    all_for(Duration::from_secs(30)).await
}

mod long_stories {
    use std::time::Duration;

    #[tokio::test]
    async fn aws_is_asked_no_more_than_a_few_times_a_minute_while_it_refuses() -> anyhow::Result<()> {
        super::all_for(Duration::from_mins(3)).await
    }
}

/// All troubles at the same time: each has an account and a manager of its own, and all are idle nearly all the time.
async fn all_for(window: Duration) -> anyhow::Result<()> {
    try_join_all(TROUBLES.map(|trouble| bounded(trouble, window))).await?;
    Ok(())
}

async fn bounded(trouble: Trouble, window: Duration) -> anyhow::Result<()> {
    let scenario = Scenario::new(trouble.name).await?;
    let aws = scenario.environment.aws();
    let manager = scenario.environment.manager().start().await?;
    scenario.cluster("dev").await?;
    let fault = aws.fault((trouble.fault)());
    scenario.machine_deployment("workers", "dev", trouble.machines).await?;
    eventually(WITHIN, "the first refusal", async || {
        ensure!(fault.hits() > 0, "AWS was not asked yet");
        Ok(())
    })
    .await?;
    let mark = aws.mark();
    let began = Instant::now();
    let asked = || aws.journal_since(mark).except(&aws.user_key().access_key_id);
    // Nothing to wait for: what is measured is a time.
    tokio::time::sleep(window).await;
    let (during, elapsed) = (asked(), began.elapsed());
    judge(trouble, &during, elapsed)?;
    assert!(scenario.user.live_instances().await?.is_empty());

    fault.lift();
    let (after, over) = (aws.mark(), Instant::now());
    scenario
        .machines_ready_within(trouble.machines as usize, 6 * WITHIN)
        .await?;
    let recovery = aws.journal_since(after).except(&aws.user_key().access_key_id);
    report(&format!(
        "{}: all ready {} s after the end, {} RunInstances, {} calls",
        trouble.name,
        over.elapsed().as_secs(),
        recovery.of("RunInstances").len(),
        recovery.len(),
    ))?;
    let machines = trouble.machines as usize;
    assert_eq!(scenario.user.live_instances().await?.len(), machines);
    ensure!(
        recovery.of("RunInstances").len() <= 2 * machines && recovery.len() <= 5 * machines + 60,
        "a stampede: {:?}",
        recovery.counts()
    );
    ensure!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// Prints the calls of each minute and holds the first one against the bounds.
fn judge(trouble: Trouble, calls: &Journal, elapsed: Duration) -> anyhow::Result<()> {
    let first = calls.calls().first().map(|call| call.at);
    let minute = |number: u64| {
        calls.matching(|call| {
            let since = first.map(|first| first.duration_until(call.at).unsigned_abs().as_secs() / 60);
            since == Some(number)
        })
    };
    let minutes: Vec<Journal> = (0..elapsed.as_secs().div_ceil(60)).map(minute).collect();
    let counted = |count: fn(&Journal) -> usize| minutes.iter().map(count).collect::<Vec<_>>();
    let (launches, all) = (counted(|minute| minute.of("RunInstances").len()), counted(Journal::len));
    report(&format!(
        "{}, {} machines, {} s: RunInstances in each minute {launches:?}, all calls {all:?}: {:?}",
        trouble.name,
        trouble.machines,
        elapsed.as_secs(),
        calls.counts(),
    ))?;
    let machines = trouble.machines as usize;
    ensure!(
        launches
            .iter()
            .all(|count| *count <= machines * trouble.launches_a_machine)
            && all.iter().all(|count| *count <= machines * trouble.calls_a_machine),
        "{}: too many calls: {:?}",
        trouble.name,
        calls.counts()
    );
    Ok(())
}
