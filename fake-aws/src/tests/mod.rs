//! Tests of the simulated account, one for each rule.

mod balancers;
mod classic_balancers;
mod classic_load_balancer;
mod classic_observation;
mod elastic_ip;
mod faults;
mod internet_gateway;
mod listener;
mod load_balancer;
mod nat_gateway;
mod observations;
mod route_table;
mod security_group;
mod setup;
mod subnet;
mod tag;
mod target_group;
mod vpc;

use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::ec2::{
    Observed, internet_gateway as gateways, nat_gateway as nat_gateways, subnet as subnets, vpc as vpcs,
};
use capa_cloud::managed::{Call, ChangeAnswer, ManagedCloud, ManagedObserver, Scope};
use futures::FutureExt;

use super::FakeAccount;

const OWNED: &str = "sigs.k8s.io/cluster-api-provider-aws/cluster/dev";

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    pairs.collect()
}

fn owned() -> Tags {
    tags(&[(OWNED, "owned")])
}

/// The answer; `None` if the call does not complete.
fn attempt(account: &FakeAccount, call: impl Into<Call<String>>) -> Option<Result<ChangeAnswer, CloudError>> {
    account.call(&call.into()).now_or_never()
}

fn call(account: &FakeAccount, call: impl Into<Call<String>>) -> Result<ChangeAnswer, CloudError> {
    attempt(account, call).expect("the call completes")
}

fn made(account: &FakeAccount, made_by: impl Into<Call<String>>) -> String {
    match call(account, made_by).unwrap() {
        ChangeAnswer::Made(id) => id,
        ChangeAnswer::Done => panic!("nothing was made"),
    }
}

/// The code of a refusal; empty if the call succeeds.
fn code(answer: Result<ChangeAnswer, CloudError>) -> String {
    answer.err().map_or_else(String::new, |error| error.code.unwrap_or_default())
}

fn observe(account: &FakeAccount, vpc: Option<&str>) -> Observed {
    observe_addresses(account, vpc, &[])
}

/// An observation that knows the ids of Elastic IPs.
fn observe_addresses(account: &FakeAccount, vpc: Option<&str>, addresses: &[&str]) -> Observed {
    let scope = Scope {
        cluster: "dev".to_owned(),
        vpc: vpc.map(str::to_owned),
        has_addresses: true,
        addresses: addresses.iter().map(|id| (*id).to_owned()).collect(),
        ..Scope::default()
    };
    account.observe(&scope).now_or_never().expect("the observation completes").unwrap().ec2
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn create_vpc(cidr_block: &str) -> vpcs::Call<String> {
    vpcs::Call::CreateVpc { cidr_block: cidr_block.to_owned(), tags: owned() }
}

fn delete_vpc(vpc: &str) -> vpcs::Call<String> {
    vpcs::Call::DeleteVpc { vpc: vpc.to_owned() }
}

fn create_subnet(vpc: &str, cidr_block: &str, zone: &str) -> subnets::Call<String> {
    subnets::Call::CreateSubnet {
        vpc: vpc.to_owned(),
        cidr_block: cidr_block.to_owned(),
        zone: zone.to_owned(),
        tags: owned(),
    }
}

fn delete_subnet(subnet: &str) -> subnets::Call<String> {
    subnets::Call::DeleteSubnet { subnet: subnet.to_owned() }
}

fn create_gateway() -> gateways::Call<String> {
    gateways::Call::CreateInternetGateway { tags: owned() }
}

fn attach(gateway: &str, vpc: &str) -> gateways::Call<String> {
    gateways::Call::AttachInternetGateway { gateway: gateway.to_owned(), vpc: vpc.to_owned() }
}

fn detach(gateway: &str, vpc: &str) -> gateways::Call<String> {
    gateways::Call::DetachInternetGateway { gateway: gateway.to_owned(), vpc: vpc.to_owned() }
}

fn delete_gateway(gateway: &str) -> gateways::Call<String> {
    gateways::Call::DeleteInternetGateway { gateway: gateway.to_owned() }
}

fn allocate() -> nat_gateways::Call<String> {
    nat_gateways::Call::AllocateAddress { public_ipv4_pool: None, tags: owned() }
}

fn create_nat_gateway(subnet: &str, address: &str, token: &str) -> nat_gateways::Call<String> {
    nat_gateways::Call::CreateNatGateway {
        subnet: subnet.to_owned(),
        address: address.to_owned(),
        client_token: token.to_owned(),
        tags: owned(),
    }
}

fn delete_nat_gateway(gateway: &str) -> nat_gateways::Call<String> {
    nat_gateways::Call::DeleteNatGateway { gateway: gateway.to_owned() }
}

fn release(address: &str) -> nat_gateways::Call<String> {
    nat_gateways::Call::ReleaseAddress { address: address.to_owned() }
}

/// An account with what a NAT gateway needs, all of it added by hand.
struct Network {
    account: FakeAccount,
    vpc: String,
    internet_gateway: String,
    subnet: String,
    address: String,
}

impl Network {
    fn new() -> Self {
        let account = FakeAccount::new();
        let vpc = account.add_vpc("10.0.0.0/16", owned());
        Self {
            internet_gateway: account.add_internet_gateway(Some(&vpc), owned()),
            subnet: account.add_subnet(&vpc, "10.0.0.0/24", "eu-west-1a", owned()),
            address: account.add_address(owned()),
            account,
            vpc,
        }
    }

    fn make_nat_gateway(&self, token: &str) -> String {
        made(&self.account, create_nat_gateway(&self.subnet, &self.address, token))
    }

    fn call(&self, made_by: impl Into<Call<String>>) -> String {
        code(call(&self.account, made_by))
    }
}
