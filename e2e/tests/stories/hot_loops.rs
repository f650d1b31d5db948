//! What a manager asks of AWS while AWS refuses: little, less and less, and no stampede when it is over. Real periods, so
//! that the numbers are those of a real minute.

use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::{Call, Fault, Journal};
use capa_e2e::{eventually, mostly_waits};
use futures::future::try_join_all;
use serde_json::json;

use super::chaos::report;
use super::scenario::{CORE, Scenario, WITHIN};

/// When AWS begins to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the machines are created.
    Launch,
    /// When they run, before they are deleted.
    Deletion,
}

/// One way to be refused.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    name: &'static str,
    moment: Moment,
    machines: u32,
    fault: fn() -> Fault,
    /// Whether no instance can come up meanwhile.
    prevents_launches: bool,
    /// RunInstances that may be sent for a machine in the first minute.
    launches_a_machine: usize,
    /// Calls of all kinds that may be made for a machine in the first minute.
    calls_a_machine: usize,
}

/// Of a launch that is refused, by a machine that backs off alone.
const REFUSED_LAUNCH: Trouble = Trouble {
    name: "",
    moment: Moment::Launch,
    machines: 1,
    fault: Fault::unreachable,
    prevents_launches: true,
    launches_a_machine: 8,
    calls_a_machine: 40,
};

const TROUBLES: [Trouble; 10] = [
    Trouble {
        name: "no-image",
        fault: || Fault::on("RunInstances").error("InvalidAMIID.NotFound"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-quota",
        fault: || Fault::on("RunInstances").error("VcpuLimitExceeded"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-permission",
        fault: || Fault::on("RunInstances").error("UnauthorizedOperation"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "unknown-code",
        fault: || Fault::on("RunInstances").error("SomethingNobodyHasHeardOf"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-capacity",
        machines: 10,
        fault: || Fault::on("RunInstances").error("InsufficientInstanceCapacity"),
        launches_a_machine: 10,
        calls_a_machine: 20,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "throttled",
        machines: 20,
        fault: || Fault::on_everything().error("RequestLimitExceeded"),
        calls_a_machine: 20,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "unreachable",
        machines: 20,
        fault: Fault::unreachable,
        calls_a_machine: 20,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "lost-answers",
        machines: 5,
        fault: || Fault::on("RunInstances").dropped_after_effect(),
        prevents_launches: false,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-describes",
        machines: 5,
        fault: || Fault::on("DescribeInstances").error("UnauthorizedOperation"),
        prevents_launches: false,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-terminations",
        moment: Moment::Deletion,
        machines: 5,
        fault: || Fault::on("TerminateInstances").error("OperationNotPermitted"),
        prevents_launches: false,
        launches_a_machine: 0,
        ..REFUSED_LAUNCH
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
    mostly_waits();
    try_join_all(TROUBLES.map(|trouble| bounded(trouble, window))).await?;
    Ok(())
}

async fn bounded(trouble: Trouble, window: Duration) -> anyhow::Result<()> {
    let scenario = Scenario::new(trouble.name).await?;
    let aws = scenario.environment.aws();
    let manager = scenario.environment.manager().start().await?;
    scenario.cluster("dev").await?;
    if trouble.moment == Moment::Deletion {
        scenario.machine_deployment("workers", "dev", trouble.machines).await?;
        scenario
            .machines_ready_within(trouble.machines as usize, 6 * WITHIN)
            .await?;
    }
    let fault = aws.fault((trouble.fault)());
    match trouble.moment {
        Moment::Launch => scenario.machine_deployment("workers", "dev", trouble.machines).await?,
        Moment::Deletion => scale_to_nothing(&scenario).await?,
    }
    // A machine that comes later would begin to back off when others have done so for long.
    eventually(6 * WITHIN, "all machines, and the first refusal", async || {
        let machines = scenario.machines().await?.len();
        ensure!(machines == trouble.machines as usize, "there are {machines} machines");
        ensure!(fault.hits() > 0, "AWS was not asked yet");
        Ok(())
    })
    .await?;
    let mark = aws.mark();
    // Nothing to wait for: what is measured is a time.
    tokio::time::sleep(window).await;
    let during = aws.journal_since(mark).except(&aws.user_key().access_key_id);
    judge(trouble, &during, window)?;
    let (live, machines) = (scenario.user.live_instances().await?.len(), trouble.machines as usize);
    ensure!(
        live <= machines && (live == 0 || !trouble.prevents_launches),
        "{}: {live} instances live",
        trouble.name
    );

    fault.lift();
    recovers(trouble, &scenario).await?;
    ensure!(manager.stop().await?.success());
    scenario.environment.finish().await
}

async fn scale_to_nothing(scenario: &Scenario) -> anyhow::Result<()> {
    let nothing = json!({"spec": {"replicas": 0}});
    scenario.patch(CORE, "MachineDeployment", "workers", nothing).await
}

/// What was asked for comes about, and without a stampede.
async fn recovers(trouble: Trouble, scenario: &Scenario) -> anyhow::Result<()> {
    let aws = scenario.environment.aws();
    let (after, over) = (aws.mark(), Instant::now());
    let machines = trouble.machines as usize;
    let wanted = match trouble.moment {
        Moment::Launch => machines,
        Moment::Deletion => 0,
    };
    scenario.machines_ready_within(wanted, 6 * WITHIN).await?;
    eventually(6 * WITHIN, "as many instances as machines", async || {
        let live = scenario.user.live_instances().await?.len();
        ensure!(live == wanted, "{live} instances live for {wanted} machines");
        Ok(())
    })
    .await?;
    let recovery = aws.journal_since(after).except(&aws.user_key().access_key_id);
    report(&format!(
        "{}: all over {} s after the end, {} RunInstances, {} calls",
        trouble.name,
        over.elapsed().as_secs(),
        recovery.of("RunInstances").len(),
        recovery.len(),
    ))?;
    ensure!(
        recovery.of("RunInstances").len() <= 2 * machines && recovery.len() <= 5 * machines + 60,
        "a stampede: {:?}",
        recovery.counts()
    );
    Ok(())
}

/// How often something may be tried that is tried anew after a second, then after twice as long each time, each wait cut
/// short by up to a quarter; once more for what wakes a machine besides.
fn tries(window: Duration) -> usize {
    let waits = (1..u32::BITS).take_while(|count| (2_u64.pow(*count) - 1) * 3 <= window.as_secs() * 4);
    2 + waits.count()
}

/// Of what may be made in a minute, what may be made in a window of at most that.
fn within(window: Duration, in_a_minute: usize) -> usize {
    let minute = Duration::from_mins(1);
    (in_a_minute * tries(window.min(minute))).div_ceil(tries(minute))
}

/// Calls of which the second half of the time must have fewer: enough that one more or less does not matter, and that
/// each machine has backed off, for what our own limits let through one by one comes evenly at first.
fn telling(machines: usize) -> usize {
    20.max(3 * machines)
}

/// Prints the calls of each minute, holds each against the bounds, and the second half of the time against the first.
fn judge(trouble: Trouble, calls: &Journal, window: Duration) -> anyhow::Result<()> {
    let began = calls.calls().first().map(|call| call.at);
    let since = |call: &Call| began.map(|began| began.duration_until(call.at).unsigned_abs());
    let minute = |number: u64| calls.matching(|call| since(call).map(|since| since.as_secs() / 60) == Some(number));
    let minutes: Vec<Journal> = (0..window.as_secs().div_ceil(60)).map(minute).collect();
    let counted = |count: fn(&Journal) -> usize| minutes.iter().map(count).collect::<Vec<_>>();
    let (launches, all) = (counted(|minute| minute.of("RunInstances").len()), counted(Journal::len));
    let first = calls.matching(|call| since(call) < Some(window / 2)).len();
    let second = calls.len() - first;
    let late = calls.matching(|call| since(call) >= Some(window / 2));
    report(&format!(
        "LATE {} first {:?} late {:?}",
        trouble.name,
        calls.matching(|call| since(call) < Some(window / 2)).counts(),
        late.counts()
    ))?;
    report(&format!(
        "{}, {} machines, {} s: RunInstances in each minute {launches:?}, all calls {all:?}, in each half {:?}: {:?}",
        trouble.name,
        trouble.machines,
        window.as_secs(),
        [first, second],
        calls.counts(),
    ))?;
    let bound = |a_machine| trouble.machines as usize * within(window, a_machine);
    let (most_launches, most) = (bound(trouble.launches_a_machine), bound(trouble.calls_a_machine));
    ensure!(
        launches.iter().all(|count| *count <= most_launches) && all.iter().all(|count| *count <= most),
        "{}: more than {most_launches} RunInstances or {most} calls: {:?}",
        trouble.name,
        calls.counts()
    );
    // Where throttles have brought a rate down to its least, the calls come evenly: so a fifth more is none.
    ensure!(
        calls.len() < telling(trouble.machines as usize) || second * 5 <= first * 6,
        "{}: not less and less: {first} calls in the first half, {second} in the second",
        trouble.name
    );
    Ok(())
}

#[test]
fn a_shorter_window_allows_what_backing_off_makes_in_it() {
    let tries = [1, 30, 60].map(|seconds| tries(Duration::from_secs(seconds)));
    assert_eq!(tries, [3, 7, 8]);
    let allowed = [30, 60, 180].map(|seconds| within(Duration::from_secs(seconds), 40));
    assert_eq!(allowed, [35, 40, 40]);
}
