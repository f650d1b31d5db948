//! The EC2 of the stories, over the wire, tested by the same cases from EC2's documentation as the simulated EC2.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::describe_instances::DescribeInstancesOutput;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    self, AttributeBooleanValue, Filter, InstanceNetworkInterfaceSpecification, ResourceType, Tag, TagSpecification,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use capa_cloud::{
    CloudError, ElasticIp, ElasticIpAnswer, ElasticIpCall, Host, HostRequest, Instance, InstanceState, LaunchRequest,
    PrimaryInterface, Query, StateReason,
};
use capa_e2e::aws_proxy::{Account, Fault, InjectedFault};
use capa_e2e::moto::IMAGE_ID;
use capa_e2e::user::{User, client};
use capa_fake_aws::machines::StateChange;
use capa_fake_aws::machines::conformance::{CASES, Circumstance, Ec2UnderTest, Place, Stage};
use futures::{StreamExt, stream};

use super::{REGION, account};

/// The hidden or pending time of a held instance: longer than any case runs.
const HELD: Duration = Duration::from_hours(1);

/// The number of concurrent cases: moto answers one call after the other anyway.
const AT_A_TIME: usize = 4;

/// The cases that cannot run over the wire, with the reason.
const NOT_ON_THE_WIRE: [(&str, &str); 1] = [(
    "instances_are_found_by_their_groups",
    "moto's filter knows the groups of an instance, and not those of its interface",
)];

struct OnTheWire {
    account: Account,
    user: User,
    ec2: Client,
    place: Place,
    no_capacity: Mutex<Vec<InjectedFault>>,
}

impl OnTheWire {
    async fn new() -> Self {
        let account = account().await;
        let user = User::new(&account, REGION);
        let place = place(user.ec2()).await;
        // A retry would hide the refusal that a case tests.
        let ec2 = client(account.url(), account.key(), REGION);
        let once = ec2.config().to_builder().retry_config(RetryConfig::disabled()).build();
        Self { account, user, ec2: Client::from_conf(once), place, no_capacity: Mutex::default() }
    }

    fn set_length(&self, stage: Stage, length: Duration) {
        match stage {
            Stage::Hidden => self.account.set_hidden(length),
            Stage::Pending => self.account.set_pending(length),
            Stage::Stopping => self.account.set_stopping(length),
            Stage::ShuttingDown => self.account.set_shutting_down(length),
        }
    }
}

/// Three subnets in two zones, a group, and a group in another VPC.
async fn place(ec2: &Client) -> Place {
    let (vpc_id, security_group_id) = vpc_with_group(ec2, "10.0.0.0/16").await;
    let (_, foreign_security_group_id) = vpc_with_group(ec2, "10.1.0.0/16").await;
    let mut subnets = Vec::new();
    for (number, letter) in ['a', 'a', 'b'].into_iter().enumerate() {
        let create = ec2.create_subnet().vpc_id(&vpc_id);
        let create = create.cidr_block(format!("10.0.{number}.0/24"));
        let created = create.availability_zone(format!("{REGION}{letter}")).send().await.unwrap();
        subnets.push(created.subnet.unwrap().subnet_id.unwrap());
    }
    let [subnet_id, subnet_id_beside, subnet_id_elsewhere] = subnets.try_into().unwrap();
    Place {
        image_id: IMAGE_ID.into(),
        instance_type: "t3.large".into(),
        vpc_id,
        zone: format!("{REGION}a"),
        subnet_id,
        subnet_id_beside,
        subnet_id_elsewhere,
        security_group_id,
        foreign_security_group_id,
    }
}

async fn vpc_with_group(ec2: &Client, cidr_block: &str) -> (String, String) {
    let vpc = ec2.create_vpc().cidr_block(cidr_block).send().await.unwrap();
    let vpc_id = vpc.vpc.unwrap().vpc_id.unwrap();
    let create = ec2.create_security_group().vpc_id(&vpc_id);
    let group = create.group_name("nodes").description("nodes").send().await.unwrap();
    (vpc_id, group.group_id.unwrap())
}

#[async_trait]
impl Ec2UnderTest for OnTheWire {
    fn place(&self) -> &Place {
        &self.place
    }

    async fn run_instances(&self, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let launch = launch(self.ec2.run_instances(), request).send().await;
        let launched = launch.map_err(|error| refused("RunInstances", &error))?;
        Ok(instance(&launched.instances()[0]))
    }

    async fn describe_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let describe = self.ec2.describe_instances();
        let describe = describe.set_filters(filters(query)).max_results(1000);
        let pages = describe.into_paginator().send().try_collect().await;
        let pages = pages.map_err(|error| refused("DescribeInstances", &error))?;
        let reservations = pages.iter().flat_map(DescribeInstancesOutput::reservations);
        Ok(reservations.flat_map(types::Reservation::instances).map(instance).collect())
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let terminate = self.ec2.terminate_instances().set_instance_ids(Some(ids.to_vec()));
        let answer = terminate.send().await;
        let answer = answer.map_err(|error| refused("TerminateInstances", &error))?;
        Ok(changes(answer.terminating_instances()))
    }

    async fn stop_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let stop = self.ec2.stop_instances().set_instance_ids(Some(ids.to_vec()));
        let answer = stop.send().await.map_err(|error| refused("StopInstances", &error))?;
        Ok(changes(answer.stopping_instances()))
    }

    async fn start_instances(&self, ids: &[String]) -> Result<Vec<StateChange>, CloudError> {
        let start = self.ec2.start_instances().set_instance_ids(Some(ids.to_vec()));
        let answer = start.send().await.map_err(|error| refused("StartInstances", &error))?;
        Ok(changes(answer.starting_instances()))
    }

    async fn allocate_host(&self, request: &HostRequest) -> Result<String, CloudError> {
        let tags =
            TagSpecification::builder().resource_type(ResourceType::DedicatedHost).set_tags(Some(tags(&request.tags)));
        let allocate = self
            .ec2
            .allocate_hosts()
            .client_token(&request.client_token)
            .availability_zone(&request.availability_zone)
            .instance_type(&request.instance_type)
            .quantity(1)
            .tag_specifications(tags.build());
        let answer = allocate.send().await;
        let answer = answer.map_err(|error| refused("AllocateHosts", &error))?;
        Ok(answer.host_ids()[0].clone())
    }

    async fn describe_hosts(&self, query: &Query) -> Result<Vec<Host>, CloudError> {
        let describe = self.ec2.describe_hosts().set_filter(filters(query));
        let answer = describe.send().await;
        let answer = answer.map_err(|error| refused("DescribeHosts", &error))?;
        Ok(answer.hosts().iter().map(host).collect())
    }

    async fn release_host(&self, id: &str) -> Result<(), CloudError> {
        let answer = self.ec2.release_hosts().host_ids(id).send().await;
        let answer = answer.map_err(|error| refused("ReleaseHosts", &error))?;
        match answer.unsuccessful().first().and_then(|kept| kept.error()) {
            Some(kept) => {
                let code = kept.code().unwrap().trim_start_matches("Client.");
                Err(CloudError::answered("ReleaseHosts", code, kept.message().unwrap()))
            }
            None => Ok(()),
        }
    }

    async fn elastic_ips(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        let describe = self.ec2.describe_addresses().set_filters(filters(query));
        let answer = describe.send().await;
        let answer = answer.map_err(|error| refused("DescribeAddresses", &error))?;
        Ok(answer.addresses().iter().map(elastic_ip).collect())
    }

    async fn change_elastic_ip(&self, call: &ElasticIpCall) -> Result<ElasticIpAnswer, CloudError> {
        let action = call.action();
        match call {
            ElasticIpCall::Allocate { tags: with, .. } => {
                let of_address =
                    TagSpecification::builder().resource_type(ResourceType::ElasticIp).set_tags(Some(tags(with)));
                let allocate = self.ec2.allocate_address().tag_specifications(of_address.build());
                let answer = allocate.send().await.map_err(|error| refused(action, &error))?;
                return Ok(ElasticIpAnswer::Allocated {
                    allocation_id: answer.allocation_id.unwrap(),
                    public_ip: answer.public_ip.unwrap(),
                });
            }
            ElasticIpCall::Associate { allocation_id, interface_id } => {
                let associate = self.ec2.associate_address().allocation_id(allocation_id);
                let associate = associate.network_interface_id(interface_id).allow_reassociation(false);
                associate.send().await.map_err(|error| refused(action, &error))?;
            }
            ElasticIpCall::Release { allocation_id } => {
                let release = self.ec2.release_address().allocation_id(allocation_id);
                release.send().await.map_err(|error| refused(action, &error))?;
            }
        }
        Ok(ElasticIpAnswer::Done)
    }

    async fn hold(&self, stage: Stage) {
        self.set_length(stage, HELD);
    }

    async fn let_go(&self, stage: Stage) {
        self.set_length(stage, Duration::ZERO);
    }

    async fn set(&self, circumstance: Circumstance) {
        let launches = Fault::on("RunInstances");
        match circumstance {
            Circumstance::NoCapacity { zone } => {
                let fault = launches.in_zone(&zone).error("InsufficientInstanceCapacity");
                self.no_capacity.lock().unwrap().push(self.account.fault(fault));
            }
            Circumstance::Capacity => self.no_capacity.lock().unwrap().drain(..).for_each(|fault| fault.lift()),
            Circumstance::DeathInPending(reason) => {
                self.account.fault(launches.dies_in_pending(&reason.code, Duration::ZERO));
            }
            Circumstance::Protected(id) => {
                let protect = self.user.ec2().modify_instance_attribute().instance_id(id);
                let on = AttributeBooleanValue::builder().value(true).build();
                protect.disable_api_termination(on).send().await.unwrap();
            }
            Circumstance::Throttling => self.account.throttle(0),
        }
    }
}

fn filters(query: &Query) -> Option<Vec<Filter>> {
    let filters = query.filters.iter().map(|(name, values)| {
        let values = Some(values.clone());
        Filter::builder().name(name).set_values(values).build()
    });
    Some(filters.collect::<Vec<_>>()).filter(|filters| !filters.is_empty())
}

fn tags(tags: &BTreeMap<String, String>) -> Vec<Tag> {
    let tags = tags.iter();
    tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

fn launch(call: RunInstancesFluentBuilder, request: &LaunchRequest) -> RunInstancesFluentBuilder {
    let tags = TagSpecification::builder().resource_type(ResourceType::Instance).set_tags(Some(tags(&request.tags)));
    let placement = request.options.host.as_ref().map(|host| {
        let placement = types::Placement::builder().tenancy(types::Tenancy::Host);
        placement.host_id(&host.id).build()
    });
    // The provider's own client also sets the subnet and the groups on the interface.
    let interface = InstanceNetworkInterfaceSpecification::builder()
        .device_index(0)
        .subnet_id(&request.subnet_id)
        .set_groups(Some(request.security_group_ids.clone()))
        .build();
    call.min_count(1)
        .max_count(1)
        .client_token(&request.client_token)
        .image_id(&request.image_id)
        .instance_type(request.instance_type.as_str().into())
        .network_interfaces(interface)
        .set_placement(placement)
        .set_key_name(request.key_name.clone())
        .tag_specifications(tags.build())
        .user_data(BASE64_STANDARD.encode(request.user_data.expose()))
}

fn instance(shown: &types::Instance) -> Instance {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let tags = shown.tags().iter().map(|tag| (tag.key.clone().unwrap(), tag.value.clone().unwrap()));
    let reason = shown.state_reason();
    Instance {
        id: shown.instance_id.clone().unwrap(),
        state: state(shown.state()),
        state_reason: reason.and_then(|reason| text(reason.code())).map(|code| StateReason {
            code,
            message: reason.and_then(|reason| text(reason.message())).unwrap_or_default(),
        }),
        instance_type: shown.instance_type().unwrap().to_string(),
        availability_zone: text(shown.placement().unwrap().availability_zone()).unwrap(),
        subnet_id: text(shown.subnet_id()),
        vpc_id: text(shown.vpc_id()),
        // The ids differ from cloud to cloud.
        primary_interface: shown.network_interfaces().first().map(|first| PrimaryInterface {
            id: first.network_interface_id.clone().unwrap(),
            security_group_ids: Vec::new(),
        }),
        volume_ids: Vec::new(),
        metadata_options: None,
        client_token: text(shown.client_token()),
        launch_time: None,
        addresses: Vec::new(),
        tags: tags.collect(),
    }
}

fn host(shown: &types::Host) -> Host {
    let tags = shown.tags().iter();
    Host {
        id: shown.host_id.clone().unwrap(),
        client_token: shown.client_token.clone(),
        availability_zone: shown.availability_zone.clone().unwrap(),
        instance_type: shown.host_properties().unwrap().instance_type.clone().unwrap(),
        state: shown.state().unwrap().as_str().into(),
        tags: tags.map(|tag| (tag.key.clone().unwrap(), tag.value.clone().unwrap())).collect(),
    }
}

fn elastic_ip(shown: &types::Address) -> ElasticIp {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let tags = shown.tags().iter();
    ElasticIp {
        allocation_id: shown.allocation_id.clone().unwrap(),
        public_ip: shown.public_ip.clone().unwrap(),
        association_id: text(shown.association_id()),
        instance_id: text(shown.instance_id()),
        tags: tags.map(|tag| (tag.key.clone().unwrap(), tag.value.clone().unwrap())).collect(),
    }
}

fn changes(changes: &[types::InstanceStateChange]) -> Vec<StateChange> {
    let changes = changes.iter().map(|change| StateChange {
        instance_id: change.instance_id.clone().unwrap(),
        previous: state(change.previous_state()),
        current: state(change.current_state()),
    });
    changes.collect()
}

fn state(state: Option<&types::InstanceState>) -> InstanceState {
    let name = state.and_then(|state| state.name()).unwrap();
    name.as_str().parse().unwrap()
}

fn refused<E: ProvideErrorMetadata, R>(operation: &'static str, error: &SdkError<E, R>) -> CloudError {
    match error.code() {
        Some(code) => CloudError::answered(operation, code, error.message().unwrap_or_default()),
        None => CloudError::no_answer(operation, "no answer with a code"),
    }
}

#[tokio::test]
async fn ec2_over_the_wire_behaves_as_documented() {
    for (name, reason) in NOT_ON_THE_WIRE {
        let listed = CASES.iter().any(|case| case.name == name);
        assert!(listed, "no case is called {name} ({reason})");
    }
    let run = stream::iter(CASES).map(|case| async move {
        let deviation = case.run(&OnTheWire::new().await).await.err();
        let excused = NOT_ON_THE_WIRE.iter().any(|(name, _)| *name == case.name);
        match deviation {
            Some(deviation) if !excused => Some(format!("{}: {deviation}", case.name)),
            None if excused => Some(format!("{}: holds, and need not be left out", case.name)),
            _ => None,
        }
    });
    let deviations: Vec<_> = run.buffered(AT_A_TIME).collect().await;
    let deviations: Vec<_> = deviations.into_iter().flatten().collect();
    assert!(deviations.is_empty(), "\n{}", deviations.join("\n"));
}
