//! The cases on the EC2 in memory.

use std::time::Duration;

use futures::executor::block_on;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use super::*;
use crate::machines::{Accounts, Client, Region, time::after};

const ACCOUNT: &str = "111122223333";
const REGION: &str = "eu-west-1";
const KEY: &str = "key-1";
const HELD: Duration = Duration::from_secs(60);

struct OnSim {
    place: Place,
    simulated: Mutex<Simulated>,
}

struct Simulated {
    accounts: Accounts,
    now: Timestamp,
}

impl Simulated {
    fn region(&mut self) -> &mut Region {
        self.accounts.account(ACCOUNT).region(REGION)
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Client<'_>, Timestamp) -> T) -> T {
        call(&mut self.accounts.client(KEY, REGION), self.now)
    }

    fn set_length(&mut self, stage: Stage, length: Duration) {
        let mut behaviour = self.region().behaviour();
        let stage = match stage {
            Stage::Hidden => &mut behaviour.hidden,
            Stage::Pending => &mut behaviour.pending,
            Stage::Stopping => &mut behaviour.stopping,
            Stage::ShuttingDown => &mut behaviour.shutting_down,
        };
        *stage = length;
    }
}

impl OnSim {
    fn new() -> Self {
        let place = Place {
            image_id: "ami-1".into(),
            instance_type: "t3.large".into(),
            vpc_id: "vpc-1".into(),
            zone: "eu-west-1a".into(),
            subnet_id: "subnet-a".into(),
            subnet_id_beside: "subnet-c".into(),
            subnet_id_elsewhere: "subnet-b".into(),
            security_group_id: "sg-1".into(),
            foreign_security_group_id: "sg-2".into(),
        };
        let mut accounts = Accounts::new();
        accounts.issue_key(KEY, ACCOUNT);
        accounts
            .account(ACCOUNT)
            .region(REGION)
            .vpc("vpc-1", "10.0.0.0/16")
            .vpc("vpc-2", "10.1.0.0/16")
            .subnet("subnet-a", "vpc-1", "eu-west-1a")
            .subnet("subnet-b", "vpc-1", "eu-west-1b")
            .subnet("subnet-c", "vpc-1", "eu-west-1a")
            .security_group("sg-1", "vpc-1", "nodes")
            .security_group("sg-2", "vpc-2", "nodes")
            .image("ami-1", "/dev/xvda");
        let mut simulated = Simulated { accounts, now: Timestamp::UNIX_EPOCH };
        for stage in [Stage::Pending, Stage::Stopping, Stage::ShuttingDown] {
            simulated.set_length(stage, Duration::ZERO);
        }
        Self { place, simulated: Mutex::new(simulated) }
    }

    fn simulated(&self) -> MutexGuard<'_, Simulated> {
        self.simulated.lock()
    }
}

#[async_trait]
impl Ec2UnderTest for OnSim {
    fn place(&self) -> &Place {
        &self.place
    }

    async fn run_instances(&self, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.simulated().call(|client, now| client.run_instances(now, request))
    }

    async fn describe_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        self.simulated().call(|client, now| client.describe_instances(now, query))
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        self.simulated().call(|client, now| client.terminate_instances(now, ids))
    }

    async fn stop_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        self.simulated().call(|client, now| client.stop_instances(now, ids))
    }

    async fn start_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        self.simulated().call(|client, now| client.start_instances(now, ids))
    }

    async fn allocate_host(&self, request: &HostRequest) -> Result<String, CloudError> {
        self.simulated().call(|client, now| client.allocate_host(now, request))
    }

    async fn describe_hosts(&self, query: &Query) -> Result<Vec<Host>, CloudError> {
        self.simulated().call(|client, now| client.describe_hosts(now, query))
    }

    async fn release_host(&self, id: &str) -> Result<(), CloudError> {
        self.simulated().call(|client, now| client.release_host(now, id))
    }

    async fn elastic_ips(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        self.simulated().call(|client, now| client.describe_addresses(now, query))
    }

    async fn change_elastic_ip(&self, call: &ElasticIpCall) -> Result<ElasticIpAnswer, CloudError> {
        self.simulated().call(|client, now| client.change_elastic_ip(now, call))
    }

    async fn hold(&self, stage: Stage) {
        self.simulated().set_length(stage, HELD);
    }

    async fn let_go(&self, stage: Stage) {
        let mut simulated = self.simulated();
        simulated.set_length(stage, Duration::ZERO);
        simulated.now = after(simulated.now, HELD);
    }

    async fn set(&self, circumstance: Circumstance) {
        let mut simulated = self.simulated();
        let region = simulated.region();
        match circumstance {
            Circumstance::NoCapacity { zone } => {
                region.set_capacity(&self.place.instance_type, &zone, false);
            }
            Circumstance::Capacity => {
                region.set_capacity(&self.place.instance_type, &self.place.zone, true);
            }
            Circumstance::DeathInPending(reason) => region.behaviour().death_in_pending = Some(reason),
            Circumstance::Protected(id) => {
                region.protect(&id);
            }
            Circumstance::Throttling => region.behaviour().throttling = true,
        }
    }
}

#[test]
fn ec2_in_memory_behaves_as_documented() {
    let deviations: Vec<_> = CASES
        .iter()
        .filter_map(|case| {
            let deviation = block_on(case.run(&OnSim::new())).err()?;
            Some(format!("{}: {deviation}", case.name))
        })
        .collect();
    assert!(deviations.is_empty(), "{}", deviations.join("\n"));
}

#[test]
fn a_deviation_is_found() {
    let without_memory = OnSim::new();
    without_memory.simulated().region().behaviour().token_memory = Duration::ZERO;
    let case = CASES.first().unwrap();
    let deviation = block_on(case.run(&without_memory)).unwrap_err();
    assert!(deviation.to_string().starts_with("the repeated launch: expected"), "{deviation}");
}
