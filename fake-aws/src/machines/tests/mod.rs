//! Tests of the simulated EC2, one for each rule.

mod accounts;
mod describes;
mod launches;
mod lives;
mod sessions;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::MappedMutexGuard;

use super::time::after;
use super::{Accounts, Client, Region, plain_launch};
use crate::Behaviour;
use capa_cloud::{CloudError, Instance, InstanceState, LaunchRequest, Query, UserData};

const ACCOUNT: &str = "111122223333";
const REGION: &str = "eu-west-1";
const KEY: &str = "key-1";

/// One account with a VPC, subnets a and c in one zone and b in another, a group and an image.
struct Fixture {
    accounts: Accounts,
    now: Timestamp,
}

impl Fixture {
    fn new() -> Self {
        let mut accounts = Accounts::new();
        accounts.issue_key(KEY, ACCOUNT);
        accounts
            .account(ACCOUNT)
            .region(REGION)
            .vpc("vpc-1", "10.0.0.0/16")
            .subnet("subnet-a", "vpc-1", "eu-west-1a")
            .subnet("subnet-b", "vpc-1", "eu-west-1b")
            .subnet("subnet-c", "vpc-1", "eu-west-1a")
            .security_group("sg-1", "vpc-1", "nodes")
            .image("ami-1", "/dev/xvda");
        Self { accounts, now: Timestamp::UNIX_EPOCH }
    }

    fn region(&mut self) -> &mut Region {
        self.accounts.account(ACCOUNT).region(REGION)
    }

    fn behaviour(&mut self) -> MappedMutexGuard<'_, Behaviour> {
        self.region().behaviour()
    }

    fn client(&mut self) -> Client<'_> {
        self.accounts.client(KEY, REGION)
    }

    fn pass(&mut self, seconds: u64) {
        self.now = after(self.now, Duration::from_secs(seconds));
    }

    fn run(&mut self, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let now = self.now;
        self.client().run_instances(now, request)
    }

    fn terminate(&mut self, ids: &[&str]) -> Result<Vec<super::StateChange>, CloudError> {
        let now = self.now;
        self.client().terminate_instances(now, &owned(ids))
    }

    fn describe(&mut self, query: &Query) -> Vec<Instance> {
        let now = self.now;
        self.client().describe_instances(now, query).unwrap()
    }

    /// The states of the instances that are shown.
    fn states(&mut self) -> Vec<InstanceState> {
        let shown = self.describe(&Query::default());
        shown.into_iter().map(|instance| instance.state).collect()
    }
}

fn owned(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn request(token: &str, subnet: &str) -> LaunchRequest {
    LaunchRequest {
        client_token: token.into(),
        subnet_id: subnet.into(),
        tags: BTreeMap::from([("MachineName".into(), "team/one".into()), ("cost".into(), "high".into())]),
        ..plain_request()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, CloudError>) -> String {
    result.unwrap_err().code.unwrap()
}

/// A launch without options.
fn plain_request() -> LaunchRequest {
    LaunchRequest {
        security_group_ids: vec!["sg-1".into()],
        user_data: UserData::new(b"secret".to_vec()),
        ..plain_launch("uid-1", "ami-1", "t3.large", "subnet-1")
    }
}
