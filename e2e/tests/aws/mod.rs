//! Tests of the local world's AWS side alone, on which the other tests rely when they read the journal.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a helper of tests may panic as they may")]

mod checks;
mod conformance;
mod launches;
mod networks;
mod owned_networks;

use std::sync::Arc;

use aws_sdk_ec2::Client;
use capa_e2e::aws_proxy::{Account, AwsProxy};
use capa_e2e::user::{Network, NetworkPlan, User, client};
use capa_e2e::{Directory, Supervised, cloud};
use tokio::sync::OnceCell;

const REGION: &str = "eu-west-1";

struct Aws {
    proxy: Arc<AwsProxy>,
    _moto: Supervised,
    _directory: Directory,
}

/// One moto and one proxy for all tests of this module.
async fn aws() -> &'static AwsProxy {
    static AWS: OnceCell<Aws> = OnceCell::const_new();
    let start = || async {
        let directory = Directory::new().unwrap();
        let (proxy, moto) = cloud::start(&directory).await.unwrap();
        Aws { proxy, _moto: moto, _directory: directory }
    };
    &AWS.get_or_init(start).await.proxy
}

async fn account() -> Account {
    aws().await.account()
}

/// An account with a network in two zones, and a client with the manager's key.
async fn network() -> (Account, User, Network, Client) {
    let account = account().await;
    let user = User::new(&account, REGION);
    let network = user.create_network(&NetworkPlan::new("byo", REGION, 2)).await.unwrap();
    let ec2 = client(account.url(), account.key(), REGION);
    (account, user, network, ec2)
}
