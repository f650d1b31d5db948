//! Calls of one identity in one region, those of EC2 and STS here. Every call goes through [`Api::call`], with a permit of its own.

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::types::Reservation;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use capa_cloud::limits::{Caller, Priority, Turn};
use capa_cloud::targets::{GroupAnswer, GroupCall};
use capa_cloud::{
    CloudError, Image, Instance, InstanceState, InstanceType, LaunchRequest, MachineKey, Query, RouteTable,
    SecurityGroup, Subnet, Vpc,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::convert::{self, filters};
use crate::error::from_sdk;
use crate::launch::run_instances;
use crate::limits::{Gate, Permit};
use crate::load_balancing::LoadBalancing;
use crate::metrics::CONTROLLER;
use crate::setup::Clients;
use crate::store::{InstancePage, StoreCalls};

/// Things a page. Unpaginated calls draw on a poorer limit of the account.
const PAGE_SIZE: i32 = 1000;
/// DescribeRouteTables and DescribeInstanceTypes answer at most this many a page.
const SMALL_PAGE_SIZE: i32 = 100;

const DESCRIBE_INSTANCES: &str = "DescribeInstances";

/// SDK clients of one identity in one region, on behalf of one controller.
#[derive(Clone)]
pub(crate) struct Api {
    ec2: aws_sdk_ec2::Client,
    sts: aws_sdk_sts::Client,
    load_balancing: LoadBalancing,
    gate: Arc<Gate>,
    leads_until: Option<watch::Receiver<Option<Instant>>>,
    controller: &'static str,
}

struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

impl Api {
    /// Clients on behalf of nobody yet.
    pub(crate) fn new(
        clients: Clients,
        gate: Arc<Gate>,
        leads_until: Option<watch::Receiver<Option<Instant>>>,
    ) -> Self {
        let Clients {
            ec2,
            sts,
            load_balancing,
        } = clients;
        Self {
            ec2,
            sts,
            load_balancing,
            gate,
            leads_until,
            controller: "",
        }
    }

    /// The same clients on behalf of another controller.
    pub(crate) fn on_behalf_of(&self, controller: &'static str) -> Self {
        Self {
            controller,
            ..self.clone()
        }
    }

    /// The one place that every call, and every page of one, passes.
    pub(crate) async fn call<T, E>(
        &self,
        permit: Permit,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, CloudError>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let answer = CONTROLLER.scope(self.controller, Box::pin(request)).await;
        answer.map_err(|error| {
            let error = from_sdk(permit.action, &error);
            permit.failed(&error);
            error
        })
    }

    /// Whose calls these are, as far as turns are kept for them.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Waits until this process leads for certain, which is at once unless it has stood still. Where another one leads by
    /// now, which knows better what is wanted, that never comes, and the process ends: what was submitted a while ago is
    /// begun by nobody else but the leader.
    pub(crate) async fn lead(&self) {
        let Some(until) = &self.leads_until else {
            return;
        };
        let leads = |until: &Option<Instant>| until.is_some_and(|until| Instant::now() < until);
        if until.clone().wait_for(leads).await.is_err() {
            // Whoever renewed the lease is gone.
            std::future::pending::<()>().await;
        }
    }

    /// The clients for load balancers.
    pub(crate) fn load_balancing(&self) -> &LoadBalancing {
        &self.load_balancing
    }

    /// The answer to a question, whose turn it must be.
    async fn describe<T, F>(
        &self,
        action: &'static str,
        query: &Query,
        fetch: impl Fn(Permit, Option<String>) -> F,
    ) -> Result<Vec<T>, CloudError>
    where
        F: Future<Output = Result<Page<T>, CloudError>>,
    {
        let permit = self.gate.pass(&Turn::describe(action, query, Priority::Describe))?;
        self.pages(permit, fetch).await
    }

    /// All pages of an answer. A page that comes twice is an error: the list would not be whole.
    async fn pages<T, F>(
        &self,
        mut permit: Permit,
        fetch: impl Fn(Permit, Option<String>) -> F,
    ) -> Result<Vec<T>, CloudError>
    where
        F: Future<Output = Result<Page<T>, CloudError>>,
    {
        let action = permit.action;
        let mut items = Vec::new();
        let mut token = None;
        loop {
            let page = fetch(permit, token.clone()).await?;
            items.extend(page.items);
            let next = page.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(items);
            }
            if next == token {
                return Err(CloudError::no_answer(action, "the same page was answered twice"));
            }
            token = next;
            permit = self.gate.go_on(action);
        }
    }

    pub(crate) async fn account_id(&self) -> Result<String, CloudError> {
        let operation = "GetCallerIdentity";
        let permit = Permit::unlimited(operation);
        let answer = self.call(permit, self.sts.get_caller_identity().send()).await?;
        answer
            .account
            .filter(|account| !account.is_empty())
            .ok_or_else(|| CloudError::no_answer(operation, "the answer names no account"))
    }

    pub(crate) async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        self.describe("DescribeVpcs", query, |permit, token| async move {
            let request = self
                .ec2
                .describe_vpcs()
                .set_filters(filters(query))
                .max_results(PAGE_SIZE);
            let answer = self.call(permit, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.vpcs().iter().map(convert::vpc).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.describe("DescribeSubnets", query, |permit, token| async move {
            let request = self
                .ec2
                .describe_subnets()
                .set_filters(filters(query))
                .max_results(PAGE_SIZE);
            let answer = self.call(permit, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.subnets().iter().map(convert::subnet).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.describe("DescribeSecurityGroups", query, |permit, token| async move {
            let request = self
                .ec2
                .describe_security_groups()
                .set_filters(filters(query))
                .max_results(PAGE_SIZE);
            let answer = self.call(permit, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.security_groups().iter().map(convert::security_group).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        self.describe("DescribeRouteTables", query, |permit, token| async move {
            let request = self.ec2.describe_route_tables().set_filters(filters(query));
            let request = request.max_results(SMALL_PAGE_SIZE).set_next_token(token);
            let answer = self.call(permit, request.send()).await?;
            Ok(Page {
                items: answer.route_tables().iter().map(convert::route_table).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        // A search finds what is current; an image named by its id may be launched as long as it exists.
        let by_id = query.filters.iter().any(|(name, _)| name == "image-id");
        self.describe("DescribeImages", query, |permit, token| async move {
            let request = self.ec2.describe_images().set_filters(filters(query));
            let request = request.include_deprecated(by_id).max_results(PAGE_SIZE);
            let answer = self.call(permit, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.images().iter().map(convert::image).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn instance_types(&self, query: &Query) -> Result<Vec<InstanceType>, CloudError> {
        self.describe("DescribeInstanceTypes", query, |permit, token| async move {
            let request = self.ec2.describe_instance_types().set_filters(filters(query));
            let request = request.max_results(SMALL_PAGE_SIZE).set_next_token(token);
            let answer = self.call(permit, request.send()).await?;
            Ok(Page {
                items: answer.instance_types().iter().map(convert::instance_type).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    /// Looks instances up for a machine that is to be launched or deleted.
    pub(crate) async fn instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let turn = Turn::describe(DESCRIBE_INSTANCES, query, Priority::Launch);
        // By token is asked only after by tags, in one pass: turned away between the two it would begin anew, for ever.
        let goes_on = query.filters.iter().any(|(name, _)| name == "client-token");
        let permit = if goes_on {
            self.gate.go_on(turn.action)
        } else {
            self.gate.pass(&turn)?
        };
        self.pages(permit, |permit, token| async move {
            let page = self.instances_page(permit, query, token).await?;
            Ok(Page {
                items: page.instances,
                next: page.next,
            })
        })
        .await
    }

    async fn instances_page(
        &self,
        permit: Permit,
        query: &Query,
        token: Option<String>,
    ) -> Result<InstancePage, CloudError> {
        let request = self
            .ec2
            .describe_instances()
            .set_filters(filters(query))
            .max_results(PAGE_SIZE);
        let answer = self.call(permit, request.set_next_token(token).send()).await?;
        let shown = answer.reservations().iter().flat_map(Reservation::instances);
        let instances = shown.map(|instance| convert::instance(DESCRIBE_INSTANCES, instance));
        Ok(InstancePage {
            instances: instances.collect::<Result<_, _>>()?,
            next: answer.next_token.filter(|token| !token.is_empty()),
        })
    }

    /// Asks for the turn that [`Api::launch`] uses.
    pub(crate) fn launch_turn(&self, machine: &MachineKey) -> Result<(), CloudError> {
        self.gate.queue(&Turn::launch(machine))
    }

    /// Launches one instance. The SDK does not repeat this call: after an attempt that got lost, a refusal of
    /// the next one would read as if nothing had been launched. Whoever holds the launch record repeats it.
    pub(crate) async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let turn = Turn::launch(machine);
        let once = aws_sdk_ec2::config::Config::builder().retry_config(RetryConfig::disabled());
        let input = run_instances(self.ec2.run_instances(), request)?;
        let permit = self.gate.pass(&turn)?;
        let answer = self
            .call(permit, input.customize().config_override(once).send())
            .await?;
        let instance = answer.instances().first();
        let instance = instance.ok_or_else(|| CloudError::no_answer(turn.action, "the answer shows no instance"))?;
        convert::instance(turn.action, instance)
    }
}

/// The store's own calls wait for their turn: no reconcile does.
#[async_trait]
impl StoreCalls for Api {
    async fn page(&self, query: &Query, token: Option<String>) -> Result<InstancePage, CloudError> {
        let turn = Turn::describe(DESCRIBE_INSTANCES, query, Priority::Describe);
        let permit = self.gate.wait(&turn).await;
        self.instances_page(permit, query, token).await
    }

    async fn terminate(&self, ids: &[String]) -> Result<Vec<(String, InstanceState)>, CloudError> {
        let turn = Turn {
            action: "TerminateInstances",
            caller: Caller::Task(ids.join(" ")),
            priority: Priority::Terminate,
            instances: ids.len() as u64,
        };
        let permit = self.gate.wait(&turn).await;
        self.lead().await;
        let request = self.ec2.terminate_instances().set_instance_ids(Some(ids.to_vec()));
        let answer = self.call(permit, request.send()).await?;
        let changes = answer.terminating_instances().iter();
        let states = changes.filter_map(|change| {
            let state = convert::state_name(change.current_state()?.name()?)?;
            Some((change.instance_id()?.to_owned(), state))
        });
        Ok(states.collect())
    }

    async fn targets(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        self.group_call(call).await
    }
}
