//! What a run must keep: ratios, which say the same on every computer.

use crate::existing::Existing;
use crate::field::Storage;
use crate::life::Life;
use crate::meters::number;
use crate::report::Report;
use crate::troubles::{ThrottledMinute, WrongImage};

/// From this many workers on, calls that do not grow with the number of workers no longer matter.
const MANY: usize = 100;

/// From this many seconds on, the calls in an idle period are counted per minute.
const LONG_IDLE: f64 = 300.0;

/// A ratio and the most that it may be.
pub(crate) struct Goal {
    pub(crate) what: String,
    pub(crate) measured: f64,
    pub(crate) most: f64,
}

impl Goal {
    pub(crate) fn is_reached(&self) -> bool {
        self.measured <= self.most
    }
}

/// The goals of what was measured.
pub(crate) fn goals(report: &Report) -> Vec<Goal> {
    let here = || report.lives.iter().filter(|life| life.provider.is_here());
    let of_lives = here().filter(|life| life.workers >= MANY).flat_map(of_life);
    let of_existing = report.existing.iter().filter(|existing| existing.machines >= MANY).flat_map(of_existing);
    let of_buckets = report.buckets.iter().filter(|buckets| buckets.provider.is_here());
    let of_buckets = of_buckets.map(|buckets| Goal {
        what: "time against EC2's buckets, divided by what they allow".to_owned(),
        measured: buckets.ratio(),
        most: 1.15,
    });
    let of_minutes = report.throttled_minutes.iter().filter(|minute| minute.provider.is_here());
    let of_images = report.wrong_images.iter().filter(|image| image.provider.is_here());
    let beside = here().flat_map(|life| beside_capa(life, report));
    let goals = of_lives
        .chain(of_existing)
        .chain(of_buckets)
        .chain(of_minutes.flat_map(of_minute))
        .chain(of_images.flat_map(of_image));
    goals.chain(beside).collect()
}

/// The calls of a listing, which reads a page for each thousand instances.
fn pages(machines: usize) -> f64 {
    1.0 + number(machines / 1000)
}

/// The goals of one life of this provider.
fn of_life(life: &Life) -> Vec<Goal> {
    let goal = |what: &str, measured, most| Goal { what: format!("{}: {what}", life.column()), measured, most };
    // With stored data there is the call that stores it, and the status write after its deletion.
    let stored = match life.storage {
        Storage::Inline => 0.0,
        Storage::SecretsManager => 1.0,
    };
    // Machines that wait long for their turn at AWS's rate are looked up more often.
    let waiting = if life.workers > MANY { 0.05 } else { 0.0 };
    let listing = pages(life.workers);
    let writes = life.per_worker(number(life.created.all_writes()));
    let needless = number(life.needless_status_writes());
    let mut goals = vec![
        goal("AWS calls per worker until all are ready", life.calls_per_worker(), 1.2 + stored + waiting),
        goal("AWS calls per deleted worker", life.calls_per_deleted_worker(), 0.1),
        goal("status writes in the life of an AWSMachine", life.status_writes_per_worker(), 6.05 + stored),
        goal("status writes of AWSMachines while nothing concerns them", needless, 0.0),
        goal("Kubernetes writes of the manager per created worker", writes, 10.5),
        goal("AWS calls after a change of the AWSCluster", number(life.cluster_changed.all_calls()), listing),
        goal("AWS calls after a restart", number(life.restarted.all_calls()), 2.0 + listing),
    ];
    // A listing at the beginning or end of a short period would count for too much.
    if let Some(idle) = life.idle.as_ref().filter(|idle| idle.seconds >= LONG_IDLE) {
        let minutes = idle.seconds / 60.0;
        goals.push(goal("AWS calls in an idle minute", number(idle.all_calls()) / minutes, listing + 0.5));
    }
    goals
}

/// The goals of machines whose instances run already.
fn of_existing(existing: &Existing) -> [Goal; 4] {
    let goal = |what: &str, measured, most| Goal {
        what: format!("N={} with instances: {what}", existing.machines),
        measured,
        most,
    };
    [
        goal("AWS calls per machine until all are ready", existing.calls_per_machine(), 0.1),
        goal("status writes of an AWSMachine until it is ready", existing.status_writes_per_machine(), 2.05),
        goal("AWS calls after a restart", number(existing.restarted.all_calls()), 2.0 + pages(existing.machines)),
        goal("status writes after a restart", number(existing.restarted.status_writes()), 0.0),
    ]
}

fn of_minute(minute: &ThrottledMinute) -> [Goal; 2] {
    [
        Goal {
            what: "AWS calls per machine in a minute in which all are throttled".to_owned(),
            measured: minute.calls_per_machine(),
            most: 1.4,
        },
        Goal {
            what: "time after this minute, divided by what EC2's buckets allow".to_owned(),
            measured: minute.ratio(),
            most: 1.3,
        },
    ]
}

fn of_image(image: &WrongImage) -> Vec<Goal> {
    let goal =
        |what: &str, measured, most| Goal { what: format!("wrong image: {what}"), measured: number(measured), most };
    let (first, later) = image.launches.split_first().unwrap_or((&0, &[]));
    let five_minutes = later.windows(5).map(|minutes| minutes.iter().sum()).max();
    let later = five_minutes.map(|most| goal("RunInstances in any later five minutes", most, 1.0));
    std::iter::once(goal("RunInstances in the first minute", *first, 3.0)).chain(later).collect()
}

/// The goals of a life beside the same life with CAPA. CPU time and memory say something only about a release.
fn beside_capa(here: &Life, report: &Report) -> Vec<Goal> {
    let same = |life: &&Life| !life.provider.is_here() && (life.workers, life.storage) == (here.workers, here.storage);
    let Some(capa) = report.lives.iter().find(same) else {
        return Vec::new();
    };
    let goal = |what: &str, of: fn(&Life) -> f64, most| Goal {
        what: format!("{}: {what}, divided by CAPA's", here.column()),
        measured: of(here) / of(capa),
        most,
    };
    let mut goals = vec![goal("AWS calls until all are ready", Life::calls_per_worker, 0.3)];
    if report.profile == "release" {
        goals.push(goal("CPU time of the manager", |life| life.created.manager_cpu_seconds, 0.5));
        goals.push(goal("memory with all machines", Life::resident_mebibytes, 0.3));
    }
    goals
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::meters::Phase;
    use crate::provider::Provider;

    fn here() -> Provider {
        Provider::Here(PathBuf::new())
    }

    /// A life of this provider in which nothing was counted.
    fn life(workers: usize) -> Life {
        Life {
            provider: here(),
            workers,
            storage: Storage::Inline,
            resident_before: 1,
            resident: 1,
            resident_after: 1,
            peak: 1,
            half_seconds: 1.0,
            created: Phase::default(),
            joined: None,
            idle: None,
            cluster_changed: Phase::default(),
            restarted: Phase::default(),
            deleted: Phase::default(),
        }
    }

    fn report(lives: Vec<Life>) -> Report {
        Report { lives, ..Report::default() }
    }

    fn missed(report: &Report) -> Vec<String> {
        let missed = goals(report).into_iter().filter(|goal| !goal.is_reached());
        missed.map(|goal| goal.what).collect()
    }

    #[test]
    fn too_many_calls_miss_a_goal() {
        let mut many = life(MANY);
        many.created.calls = [("RunInstances".to_owned(), MANY)].into();
        assert_eq!(missed(&report(vec![many])), [""; 0]);
        let mut many = life(MANY);
        many.created.calls = [("RunInstances".to_owned(), MANY), ("DescribeInstances".to_owned(), MANY)].into();
        assert_eq!(missed(&report(vec![many])), ["N=100: AWS calls per worker until all are ready"]);
    }

    #[test]
    fn an_idle_minute_has_one_listing_of_all_its_pages() {
        let idle = |workers, calls| {
            let calls = [("DescribeInstances".to_owned(), calls)].into();
            let mut idle = life(workers);
            idle.idle = Some(Phase { seconds: LONG_IDLE, calls, ..Phase::default() });
            missed(&report(vec![idle])).len()
        };
        assert_eq!((idle(100, 5), idle(100, 10)), (0, 1));
        assert_eq!((idle(5000, 25), idle(5000, 50)), (0, 1));
    }

    #[test]
    fn launches_with_a_wrong_image_are_counted_in_the_first_minute_and_in_five_later_ones() {
        let missed = |launches: &[usize]| {
            let image = WrongImage { provider: here(), launches: launches.to_vec(), calls: vec![] };
            missed(&Report { wrong_images: vec![image], ..Report::default() }).len()
        };
        assert_eq!(missed(&[2, 1, 0, 0, 0, 0, 1]), 0);
        assert_eq!(missed(&[4, 1, 0, 0, 0, 0, 1]), 1);
        assert_eq!(missed(&[2, 1, 0, 0, 1, 0, 1]), 1);
    }

    #[test]
    fn calls_are_compared_with_capa() {
        let (mut here, mut capa) = (life(10), life(10));
        capa.provider = Provider::Capa;
        here.created.calls = [("RunInstances".to_owned(), 10)].into();
        capa.created.calls = [("RunInstances".to_owned(), 20)].into();
        let missed = missed(&report(vec![here, capa]));
        assert_eq!(missed, ["N=10: AWS calls until all are ready, divided by CAPA's"]);
    }
}
