//! The user of a test: a human with a key of the account who creates networks, reads resources, and changes them by
//! hand.

mod detail;
mod dump;
mod load_balancer;
mod network;
mod query;
mod secrets;

use anyhow::Context;
use aws_credential_types::Credentials;
use aws_sdk_ec2::config::{BehaviorVersion, Region};
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{Filter, Instance, InstanceType, Tag};
use aws_sdk_ec2::{Client, Config};
use aws_sdk_elasticloadbalancing as classic;
use aws_sdk_elasticloadbalancingv2 as elbv2;

use crate::aws_proxy::{AccessKey, Account};
use crate::moto;

pub use detail::Shown;
pub use load_balancer::{ClassicLoadBalancer, LoadBalancer};
pub use network::{Network, NetworkPlan, Zone};
pub use query::{json, query};

/// An EC2 client for a key, as another program would create it.
pub fn client(url: &str, key: &AccessKey, region: &str) -> Client {
    Client::from_conf(
        Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(region.to_owned()))
            .endpoint_url(url)
            .credentials_provider(credentials(key))
            .build(),
    )
}

/// A client for application and network load balancers, like [`client`] for EC2.
pub fn elbv2_client(url: &str, key: &AccessKey, region: &str) -> elbv2::Client {
    elbv2::Client::from_conf(
        elbv2::Config::builder()
            .behavior_version(elbv2::config::BehaviorVersion::v2026_01_12())
            .region(Region::new(region.to_owned()))
            .endpoint_url(url)
            .credentials_provider(credentials(key))
            .build(),
    )
}

fn credentials(key: &AccessKey) -> Credentials {
    Credentials::new(&key.access_key_id, &key.secret_access_key, None, None, "e2e")
}

/// The owner of an account, in one region. The calls carry [`Account::user_key`].
pub struct User {
    ec2: Client,
    elbv2: elbv2::Client,
    classic: classic::Client,
    account: Account,
    region: String,
    announce: Box<dyn Fn(&str) + Send + Sync>,
}

impl User {
    /// A user in this account and region who does not announce changes.
    pub fn new(account: &Account, region: &str) -> Self {
        let key = account.user_key();
        let classic_ones = classic::Config::builder()
            .behavior_version(classic::config::BehaviorVersion::v2026_01_12())
            .region(Region::new(region.to_owned()))
            .endpoint_url(account.url())
            .credentials_provider(credentials(key));
        Self {
            ec2: client(account.url(), key, region),
            elbv2: elbv2_client(account.url(), key, region),
            classic: classic::Client::from_conf(classic_ones.build()),
            account: account.clone(),
            region: region.to_owned(),
            announce: Box::new(|_| {}),
        }
    }

    /// Passes every change to `announce` first, as the equivalent `aws …` command line.
    #[must_use]
    pub fn announcing(mut self, announce: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.announce = Box::new(announce);
        self
    }

    /// The plain client, for calls without a method of this type.
    pub fn ec2(&self) -> &Client {
        &self.ec2
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    fn announce(&self, arguments: &str) {
        self.announce_as("ec2", arguments);
    }

    fn announce_as(&self, service: &str, arguments: &str) {
        (self.announce)(&format!("aws {service} {arguments}"));
    }

    /// All instances that EC2 shows, including terminated ones, in the order of their ids.
    pub async fn instances(&self) -> anyhow::Result<Vec<Instance>> {
        self.describe(self.ec2.describe_instances()).await
    }

    /// The instances that are not terminated (shutting down is not yet), in the order of their ids.
    pub async fn live_instances(&self) -> anyhow::Result<Vec<Instance>> {
        let live = ["pending", "running", "shutting-down", "stopping", "stopped"].map(str::to_owned);
        let filter = Filter::builder().name("instance-state-name").set_values(Some(live.to_vec())).build();
        self.describe(self.ec2.describe_instances().filters(filter)).await
    }

    /// One instance by its id.
    pub async fn instance(&self, id: &str) -> anyhow::Result<Instance> {
        let found = self.describe(self.ec2.describe_instances().instance_ids(id)).await?;
        found.into_iter().next().with_context(|| format!("EC2 shows no instance {id}"))
    }

    async fn describe(
        &self,
        request: aws_sdk_ec2::operation::describe_instances::builders::DescribeInstancesFluentBuilder,
    ) -> anyhow::Result<Vec<Instance>> {
        let pages: Vec<_> = request.into_paginator().send().try_collect().await.context("describing instances")?;
        let reservations = pages.into_iter().flat_map(|page| page.reservations.unwrap_or_default());
        let mut instances: Vec<Instance> =
            reservations.flat_map(|reservation| reservation.instances.unwrap_or_default()).collect();
        instances.sort_by(|left, right| left.instance_id.cmp(&right.instance_id));
        Ok(instances)
    }

    /// Launches an instance in a subnet with a request that `complete` adds to, and returns its id.
    pub async fn launch(
        &self,
        subnet_id: &str,
        complete: impl FnOnce(RunInstancesFluentBuilder) -> RunInstancesFluentBuilder,
    ) -> anyhow::Result<String> {
        let arguments = format!("--image-id {} --instance-type t3.large --subnet-id {subnet_id}", moto::IMAGE_ID);
        self.announce(&format!("run-instances {arguments}"));
        let launch = self.ec2.run_instances().image_id(moto::IMAGE_ID).instance_type(InstanceType::T3Large);
        let launch = complete(launch.subnet_id(subnet_id).min_count(1).max_count(1));
        let launched = launch.send().await.with_context(|| format!("launching an instance in {subnet_id}"))?;
        let instance = launched.instances().first().context("no instance was launched")?;
        instance.instance_id.clone().context("the instance has no id")
    }

    /// Terminates an instance by hand.
    pub async fn terminate(&self, id: &str) -> anyhow::Result<()> {
        self.announce(&format!("terminate-instances --instance-ids {id}"));
        self.ec2.terminate_instances().instance_ids(id).send().await.with_context(|| format!("terminating {id}"))?;
        Ok(())
    }

    /// Registers an image with this name, and returns its id.
    pub async fn register_image(&self, name: &str) -> anyhow::Result<String> {
        self.announce(&format!("register-image --name {name} --root-device-name /dev/xvda"));
        let request = self.ec2.register_image().name(name).root_device_name("/dev/xvda");
        let registered = request.send().await.with_context(|| format!("registering the image {name}"))?;
        registered.image_id.context("the image has no id")
    }

    /// Creates the instance profiles that this repository's templates name.
    pub async fn create_instance_profiles(&self) -> anyhow::Result<()> {
        let (url, key) = (self.account.url(), self.account.user_key());
        for role in ["control-plane", "nodes"] {
            let name = format!("{role}.cluster-api-provider-aws.sigs.k8s.io");
            self.announce_as("iam", &format!("create-instance-profile --instance-profile-name {name}"));
            let form = [("Action", "CreateInstanceProfile"), ("Version", "2010-05-08"), ("InstanceProfileName", &name)];
            // IAM requests are signed for one region.
            let (status, answer) = query(url, &key.access_key_id, "us-east-1", "iam", &form).await?;
            anyhow::ensure!(status == 200, "creating the instance profile {name}: {status} {answer:?}");
        }
        Ok(())
    }

    /// Stops an instance by hand.
    pub async fn stop(&self, id: &str) -> anyhow::Result<()> {
        self.announce(&format!("stop-instances --instance-ids {id}"));
        self.ec2.stop_instances().instance_ids(id).send().await.with_context(|| format!("stopping {id}"))?;
        Ok(())
    }

    /// Sets a tag of any resource.
    pub async fn tag(&self, id: &str, key: &str, value: &str) -> anyhow::Result<()> {
        self.announce(&format!("create-tags --resources {id} --tags 'Key={key},Value={value}'"));
        let tag = Tag::builder().key(key).value(value).build();
        self.ec2.create_tags().resources(id).tags(tag).send().await.with_context(|| format!("tagging {id}"))?;
        Ok(())
    }

    /// Removes a tag, whatever its value.
    pub async fn untag(&self, id: &str, key: &str) -> anyhow::Result<()> {
        self.announce(&format!("delete-tags --resources {id} --tags 'Key={key}'"));
        let tag = Tag::builder().key(key).build();
        self.ec2.delete_tags().resources(id).tags(tag).send().await.with_context(|| format!("untagging {id}"))?;
        Ok(())
    }
}
