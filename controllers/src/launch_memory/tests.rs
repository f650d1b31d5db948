use capa_api::common::MachineRole;
use capa_api::conditions::{ConditionType, Reason};
use capa_api::network::MachineNetwork;
use capa_cloud::{ErrorClass, Timing};
use capa_network::{PlacementRequest, Problem};
use jiff::Timestamp;

use super::*;
use crate::call_fingerprint::CallFingerprint;
use crate::launch_memory::progress::Progress;
use crate::testing::read;
use crate::time::Moment;

fn machine(uid: &str, more: &str) -> Arc<AWSMachine> {
    Arc::new(read(&format!(
        "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
          metadata: {{name: {uid}, uid: {uid}{more}}}, spec: {{instanceType: t3.large}}}}"
    )))
}

fn pool() -> Pool {
    Pool::new("team-a", "dev", &read("{instanceType: t3.large}"))
}

fn network() -> MachineNetwork {
    read(
        "{region: r, securityGroups: {all: [sg-0000000a]}, subnets: [\
         {id: subnet-0000000a, availabilityZone: a}, {id: subnet-0000000b, availabilityZone: b}]}",
    )
}

fn chosen(
    network: &MachineNetwork,
    machines_by_subnet: &BTreeMap<String, usize>,
    capacity: &BTreeMap<String, Capacity>,
) -> Result<Placement, Problem> {
    let request = PlacementRequest {
        role: MachineRole::Worker,
        failure_domain: None,
        public_ip: None,
        needs_ipv6: false,
        explicit_subnet: false,
        additional_security_group_ids: &[],
        machines_by_subnet,
        capacity,
        unlabelled: None,
    };
    capa_network::place(network, &request)
}

/// Where a machine is placed. `machines` are those of its cluster; without them, they must not be listed.
fn placed(memory: &LaunchMemory, uid: &str, machines: Option<&[Arc<AWSMachine>]>, at: u64) -> Result<String, Problem> {
    let network = network();
    let query = SubnetQuery {
        uid,
        pool: &pool(),
        subnets: &network.subnets,
        now: Duration::from_secs(at),
        timing: &Timing::default(),
    };
    let machines = || machines.expect("the machines of the cluster are not listed").to_vec();
    let placed = memory.place(&query, machines, |counts, capacity| chosen(&network, counts, capacity));
    placed.map(|placement| placement.subnet_id)
}

fn try_place(memory: &LaunchMemory, uid: &str, machines: &[Arc<AWSMachine>], at: u64) -> Result<String, Problem> {
    placed(memory, uid, Some(machines), at)
}

fn place(memory: &LaunchMemory, uid: &str, machines: &[Arc<AWSMachine>]) -> String {
    try_place(memory, uid, machines, 0).unwrap()
}

#[test]
fn machines_placed_at_the_same_moment_go_to_different_subnets() {
    let memory = LaunchMemory::new("one");
    // The cache shows no records of these machines yet.
    let machines = [machine("m", ""), machine("n", "")];
    assert_eq!(place(&memory, "m", &machines), "subnet-0000000a");
    assert_eq!(place(&memory, "n", &machines), "subnet-0000000b");
    memory.launched("n");
    assert_eq!(
        place(&memory, "m", &machines),
        "subnet-0000000a",
        "a machine's own reservation does not count, and n's outlives its launch"
    );
}

#[test]
fn a_machine_keeps_its_subnet_until_another_one_has_capacity_alone() {
    let memory = LaunchMemory::new("one");
    let machines = [machine("m", ""), machine("n", ""), machine("o", "")];
    assert_eq!(place(&memory, "m", &machines), "subnet-0000000a");
    for later in ["n", "o"] {
        place(&memory, later, &machines);
    }
    assert_eq!(place(&memory, "o", &machines), "subnet-0000000a");
    memory.forget("n");
    assert_eq!(place(&memory, "o", &machines), "subnet-0000000a", "b has no machine any more");
    memory.shortages().refused(&pool(), CapacityLocation::Zone("a".into()), None, Duration::ZERO);
    assert_eq!(place(&memory, "o", &machines), "subnet-0000000b");
    let relieved: NetworkSubnet = read("{id: subnet-0000000a, availabilityZone: a}");
    memory.shortages().relieved(&pool(), &relieved);
    assert_eq!(place(&memory, "o", &machines), "subnet-0000000b");
}

#[test]
fn a_machine_with_a_subnet_does_not_count_the_machines_again() {
    let memory = LaunchMemory::new("one");
    let first = place(&memory, "m", &[machine("m", "")]);
    assert_eq!(placed(&memory, "m", None, 0).unwrap(), first);
}

#[test]
fn deleted_machines_do_not_count_for_a_subnet() {
    let memory = LaunchMemory::new("one");
    let mut machines = vec![machine("m", ""), machine("n", "")];
    assert_eq!(place(&memory, "m", &machines), "subnet-0000000a");
    machines[0] = machine("m", ", deletionTimestamp: '2026-01-01T00:00:00Z'");
    assert_eq!(place(&memory, "n", &machines), "subnet-0000000a");
    memory.forget("n");
    machines.truncate(1);
    assert_eq!(place(&memory, "o", &machines), "subnet-0000000a");
}

#[test]
fn one_machine_of_many_tries_a_short_zone_again() {
    let memory = LaunchMemory::new("one");
    for zone in ["a", "b"] {
        memory.shortages().refused(&pool(), CapacityLocation::Zone(zone.into()), None, Duration::ZERO);
    }
    assert!(try_place(&memory, "m", &[], 59).is_err());
    assert_eq!(try_place(&memory, "m", &[], 60).unwrap(), "subnet-0000000a");
    assert_eq!(try_place(&memory, "n", &[], 60).unwrap(), "subnet-0000000b");
    assert!(try_place(&memory, "o", &[], 61).is_err(), "both are being tried");
    let relieved: NetworkSubnet = read("{id: subnet-0000000a, availabilityZone: a}");
    memory.shortages().relieved(&pool(), &relieved);
    assert_eq!(try_place(&memory, "o", &[], 61).unwrap(), "subnet-0000000a");
}

#[test]
fn a_refusal_ends_with_the_launch_or_the_machine() {
    let ends: [fn(&LaunchMemory); 2] = [|memory| memory.launched("m"), |memory| memory.forget("m")];
    for end in ends {
        let memory = LaunchMemory::new("one");
        let condition = ConditionType::InstanceReady.is_false(Reason::NotFound, "");
        let (inputs, now) = (CallFingerprint::of(&"launch", &()), Duration::ZERO);
        memory.refusals().refused("m", inputs, condition, now, &Timing::default());
        assert_eq!(memory.entries(), 1);
        end(&memory);
        assert_eq!(memory.entries(), 0);
    }
}

#[test]
fn the_memory_of_an_attempt_ends_with_another_token() {
    let memory = LaunchMemory::new("one");
    let now = Moment { time: Timestamp::UNIX_EPOCH, uptime: Duration::ZERO };
    memory.launches().call_failed("m", "m-1", Progress::Unanswered, ErrorClass::NotFound, now.uptime);
    memory.launches().found_nothing("m", "m-1", now.uptime);
    memory.launches().recorded("m", "m-2", "111122223333", now);
    let next = memory.launches().get("m", "m-2");
    assert_eq!((next.progress, next.absence), (Progress::Recorded, None));
    assert_eq!(memory.launches().get("m", "m-1").progress, Progress::Unknown);
}

#[test]
fn a_call_begins_only_after_a_recent_confirmation() {
    let memory = LaunchMemory::new("one");
    let (launches, timing) = (memory.launches(), Timing::default());
    let at = |uptime| Moment { time: Timestamp::UNIX_EPOCH, uptime };
    launches.recorded("m", "m-1", "111122223333", at(Duration::ZERO));
    let late = timing.confirmation_age + Duration::from_secs(1);
    assert_eq!(launches.begin_call("m", "m-1", at(late), &timing), None);
    assert_eq!(launches.get("m", "m-1").progress, Progress::Recorded, "nothing was called");
    launches.confirmed("m", "m-1", at(late));
    assert_eq!(launches.begin_call("m", "m-1", at(late), &timing), Some(Progress::Recorded));
    assert_eq!(launches.get("m", "m-1").progress, Progress::Unanswered, "until the answer");
    let after = launches.call_failed("m", "m-1", Progress::Recorded, ErrorClass::Throttled, late);
    assert_eq!((after, launches.get("m", "m-1").progress), (Progress::Recorded, Progress::Recorded));
}

#[test]
fn a_call_begins_the_proof_of_absence_anew() {
    let memory = LaunchMemory::new("one");
    let later = Duration::from_secs(100);
    memory.launches().found_nothing("m", "m-1", Duration::ZERO);
    memory.launches().call_failed("m", "m-1", Progress::Recorded, ErrorClass::NoAnswer, later);
    let proof = memory.launches().get("m", "m-1").absence.unwrap();
    assert_eq!((proof.since, proof.first_empty), (later, None));
}

#[test]
fn permanent_errors_count_until_their_machine_is_forgotten() {
    let memory = LaunchMemory::new("one");
    let condition = ConditionType::InstanceReady.is_false(Reason::Unauthorized, "refused");
    for inputs in
        [CallFingerprint::of(&"launch", &1), CallFingerprint::of(&"launch", &2), CallFingerprint::of(&"other", &1)]
    {
        let timing = Timing::default();
        memory.refusals().refused("m", inputs, condition.clone(), Duration::ZERO, &timing);
    }
    assert_eq!(memory.entries(), 2, "one for each call");
    memory.forget("m");
    assert_eq!(memory.entries(), 0);
}

#[test]
fn a_lookup_ends_the_time_in_which_none_succeeded() {
    let memory = LaunchMemory::new("one");
    let at = Duration::from_secs;
    let failed = |uid, seconds| memory.lookup_failed(uid, at(seconds), at(60));
    assert_eq!(memory.time_of_failed_lookups("a"), Duration::ZERO);
    failed("a", 10);
    assert_eq!(memory.time_of_failed_lookups("a"), Duration::ZERO, "one failure is no time");
    failed("a", 70);
    assert_eq!(memory.time_of_failed_lookups("a"), at(60));
    assert_eq!(memory.time_of_failed_lookups("b"), Duration::ZERO, "another machine");
    memory.lookup_succeeded("a");
    assert_eq!(memory.time_of_failed_lookups("a"), Duration::ZERO);
    failed("a", 100);
    memory.forget("a");
    assert_eq!(memory.entries(), 0);
}

#[test]
fn two_failures_far_apart_are_no_time_of_failures() {
    let memory = LaunchMemory::new("one");
    let at = Duration::from_secs;
    for seconds in [0, 60, 121, 180] {
        memory.lookup_failed("a", at(seconds), at(60));
    }
    assert_eq!(memory.time_of_failed_lookups("a"), at(59));
}
