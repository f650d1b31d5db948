//! The manager's AWS calls while AWS refuses them: few, with growing intervals, and no burst afterwards. The periods
//! are real, so that the numbers are those of a real minute.

use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::{Call, Fault, Journal};
use capa_e2e::{Story, block_on, eventually, mostly_waits};
use futures::future::try_join_all;
use jiff::Timestamp;
use serde_json::json;

use super::chaos::report;
use super::scenario::{CORE, Scenario, WITHIN};

/// The time from which AWS refuses calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// AWS refuses calls before the machines are created.
    Launch,
    /// AWS refuses calls while the machines run, before they are deleted.
    Deletion,
}

/// One kind of refusal.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    name: &'static str,
    moment: Moment,
    machines: u32,
    fault: fn() -> Fault,
    /// Whether no instance can be launched meanwhile.
    prevents_launches: bool,
    /// The most RunInstances calls of all machines in a minute.
    launches: usize,
    /// The most in the second half of the window.
    late_launches: usize,
    /// The most calls of all kinds for a machine in the first minute.
    calls_a_machine: usize,
    /// Whether throttling reduces a rate to its minimum. Then the calls are evenly spread, at most one a second for all
    /// machines together, and do not become rarer.
    reduces_rates: bool,
}

/// The limits for refused launches of a machine that backs off alone.
const REFUSED_LAUNCH: Trouble = Trouble {
    name: "",
    moment: Moment::Launch,
    machines: 1,
    fault: Fault::unreachable,
    prevents_launches: true,
    launches: 8,
    late_launches: LATE_TRIES,
    calls_a_machine: 12,
    reduces_rates: false,
};

const TROUBLES: [Trouble; 10] = [
    // Machines of one template ask together: at once, after 15 s and after a minute.
    Trouble {
        name: "no-image",
        machines: 3,
        launches: 3,
        fault: || Fault::on("RunInstances").error("InvalidAMIID.NotFound"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-quota",
        launches: 3,
        fault: || Fault::on("RunInstances").error("VcpuLimitExceeded"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-permission",
        launches: 3,
        fault: || Fault::on("RunInstances").error("UnauthorizedOperation"),
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "unknown-code",
        fault: || Fault::on("RunInstances").error("SomethingNobodyHasHeardOf"),
        ..REFUSED_LAUNCH
    },
    // Machines of one template ask together: once in each of three zones, again after a minute, of which some falls
    // into the first one here, and then every five minutes.
    Trouble {
        name: "no-capacity",
        machines: 10,
        fault: || Fault::on("RunInstances").error("InsufficientInstanceCapacity"),
        launches: 5,
        late_launches: 0,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "throttled",
        machines: 20,
        launches: 160,
        late_launches: 20 * LATE_TRIES,
        fault: || Fault::on_everything().error("RequestLimitExceeded"),
        calls_a_machine: 6,
        reduces_rates: true,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "unreachable",
        machines: 20,
        launches: 160,
        late_launches: 20 * LATE_TRIES,
        fault: Fault::unreachable,
        calls_a_machine: 10,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "lost-answers",
        machines: 5,
        launches: 40,
        late_launches: 5 * LATE_TRIES,
        fault: || Fault::on("RunInstances").dropped_after_effect(),
        prevents_launches: false,
        ..REFUSED_LAUNCH
    },
    Trouble {
        name: "no-describes",
        machines: 5,
        launches: 40,
        late_launches: 5 * LATE_TRIES,
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
        launches: 0,
        late_launches: 0,
        ..REFUSED_LAUNCH
    },
];

mod long_stories {
    use std::time::Duration;

    #[test]
    fn calls_are_a_few_a_minute_while_aws_refuses_them() -> anyhow::Result<()> {
        super::all_for(Duration::from_mins(3))
    }
}

/// All refusals at the same time: each has its own account and manager, which are idle nearly all the time.
fn all_for(window: Duration) -> anyhow::Result<()> {
    mostly_waits();
    block_on(try_join_all(TROUBLES.map(|trouble| {
        Story::new(trouble.name).run_async(async move |environment| {
            bounded(trouble, window, &Scenario::new(environment.clone(), trouble.name).await?).await
        })
    })))?;
    Ok(())
}

async fn bounded(trouble: Trouble, window: Duration, scenario: &Scenario) -> anyhow::Result<()> {
    let aws = scenario.aws();
    scenario.new_manager().start().await?;
    scenario.cluster("dev").await?;
    if trouble.moment == Moment::Deletion {
        scenario.machine_deployment("workers", "dev", trouble.machines).await?;
        scenario.machines_ready_within(trouble.machines as usize, 6 * WITHIN).await?;
    }
    let fault = aws.fault((trouble.fault)());
    match trouble.moment {
        Moment::Launch => scenario.machine_deployment("workers", "dev", trouble.machines).await?,
        Moment::Deletion => scale_to_nothing(scenario).await?,
    }
    // A machine that comes later would begin to back off when the others have long done so.
    eventually(6 * WITHIN, "all machines, and the first refusal", async || {
        let machines = scenario.machines().await?.len();
        ensure!(machines == trouble.machines as usize, "there are {machines} machines");
        ensure!(fault.hits() > 0, "AWS has not been called yet");
        Ok(())
    })
    .await?;
    let (mark, began) = (aws.mark(), Timestamp::now());
    // A plain sleep: the test measures a period.
    tokio::time::sleep(window).await;
    let during = aws.manager_journal_since(mark);
    judge(trouble, &during, began, window)?;
    let (live, machines) = (scenario.user.live_instances().await?.len(), trouble.machines as usize);
    ensure!(live <= machines && (live == 0 || !trouble.prevents_launches), "{}: {live} instances live", trouble.name);

    fault.lift();
    recovers(trouble, scenario).await
}

async fn scale_to_nothing(scenario: &Scenario) -> anyhow::Result<()> {
    let nothing = json!({"spec": {"replicas": 0}});
    scenario.patch(CORE, "MachineDeployment", "workers", nothing).await
}

/// Checks that the machines are launched or deleted after the refusals, without a burst of calls.
async fn recovers(trouble: Trouble, scenario: &Scenario) -> anyhow::Result<()> {
    let aws = scenario.aws();
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
    let recovery = aws.manager_journal_since(after);
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

/// The most attempts for a machine in the second half of the window. Each delay is twice as long as the one before, so
/// at most two attempts fall into it; one more for a late machine or a further wake-up.
const LATE_TRIES: usize = 3;

/// The tolerated difference of calls between the halves: one round of calls that are repeated once a minute, a lookup
/// and a launch in each of three zones.
const CHANCE: usize = 6;

/// The calls that all machines share in the second half of a window: listings of all instances, once a minute, and the
/// few calls for the cluster and its template.
fn shared(window: Duration) -> usize {
    3 + usize::try_from(window.as_secs() / 60).unwrap_or(usize::MAX)
}

/// Prints the calls of each minute, and checks each against the limits. Checks the second half of the window against
/// its own limits and against the first half.
fn judge(trouble: Trouble, calls: &Journal, began: Timestamp, window: Duration) -> anyhow::Result<()> {
    let since = |call: &Call| began.duration_until(call.at).unsigned_abs();
    let minute = |number: u64| calls.matching(|call| since(call).as_secs() / 60 == number);
    let minutes: Vec<Journal> = (0..window.as_secs().div_ceil(60)).map(minute).collect();
    let counted = |count: fn(&Journal) -> usize| minutes.iter().map(count).collect::<Vec<_>>();
    let (launches, all) = (counted(|minute| minute.of("RunInstances").len()), counted(Journal::len));
    let late = calls.matching(|call| since(call) >= window / 2);
    let (first, second) = (calls.len() - late.len(), late.len());
    report(&format!(
        "{}, {} machines, {} s: RunInstances in each minute {launches:?}, all calls {all:?}, in each half {:?}: {:?}",
        trouble.name,
        trouble.machines,
        window.as_secs(),
        [first, second],
        calls.counts(),
    ))?;
    let machines = trouble.machines as usize;
    let (most_launches, most) = (trouble.launches, machines * trouble.calls_a_machine);
    ensure!(
        launches.iter().all(|count| *count <= most_launches) && all.iter().all(|count| *count <= most),
        "{}: more than {most_launches} RunInstances or {most} calls: {:?}",
        trouble.name,
        calls.counts()
    );
    let most_late = if trouble.reduces_rates {
        usize::try_from(window.as_secs() / 2)?
    } else {
        machines * LATE_TRIES + shared(window)
    };
    ensure!(
        late.of("RunInstances").len() <= trouble.late_launches && second <= most_late,
        "{}: not less and less: more than {} RunInstances or {most_late} calls in the second half: {:?}",
        trouble.name,
        trouble.late_launches,
        late.counts()
    );
    let most_second = if trouble.reduces_rates { (first + CHANCE) * 6 / 5 } else { first + CHANCE };
    ensure!(
        second <= most_second,
        "{}: not less and less: {first} calls in the first half, {second} in the second",
        trouble.name
    );
    Ok(())
}
