//! EC2 and STS calls of one identity in one region. Every call goes through [`Api::call`].

use std::error::Error;
use std::future::Future;

use async_trait::async_trait;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::types::Reservation;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use capa_cloud::{
    CloudError, Image, Instance, InstanceState, LaunchRequest, Query, RouteTable, SecurityGroup, Subnet, Vpc,
};

use crate::convert::{self, filters};
use crate::error::from_sdk;
use crate::launch::run_instances;
use crate::metrics::CONTROLLER;
use crate::store::{InstancePage, ListInstances};

/// Things a page. Unpaginated calls draw on a poorer limit of the account.
const PAGE_SIZE: i32 = 1000;
/// DescribeRouteTables answers at most this many a page.
const ROUTE_TABLE_PAGE_SIZE: i32 = 100;

/// SDK clients of one identity in one region, on behalf of one controller.
#[derive(Clone)]
pub(crate) struct Api {
    ec2: aws_sdk_ec2::Client,
    sts: aws_sdk_sts::Client,
    controller: &'static str,
}

struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

impl Api {
    /// Clients on behalf of nobody yet.
    pub(crate) fn new(ec2: aws_sdk_ec2::Client, sts: aws_sdk_sts::Client) -> Self {
        Self {
            ec2,
            sts,
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
    async fn call<T, E>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    ) -> Result<T, CloudError>
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let answer = CONTROLLER.scope(self.controller, Box::pin(request)).await;
        answer.map_err(|error| from_sdk(operation, &error))
    }

    pub(crate) async fn account_id(&self) -> Result<String, CloudError> {
        let operation = "GetCallerIdentity";
        let answer = self.call(operation, self.sts.get_caller_identity().send()).await?;
        answer
            .account
            .filter(|account| !account.is_empty())
            .ok_or_else(|| CloudError::no_answer(operation, "the answer names no account"))
    }

    pub(crate) async fn vpcs(&self, query: &Query) -> Result<Vec<Vpc>, CloudError> {
        let operation = "DescribeVpcs";
        pages(operation, |token| async move {
            let request = self
                .ec2
                .describe_vpcs()
                .set_filters(filters(query))
                .max_results(PAGE_SIZE);
            let answer = self.call(operation, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.vpcs().iter().map(convert::vpc).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        let operation = "DescribeSubnets";
        pages(operation, |token| async move {
            let request = self
                .ec2
                .describe_subnets()
                .set_filters(filters(query))
                .max_results(PAGE_SIZE);
            let answer = self.call(operation, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.subnets().iter().map(convert::subnet).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        let operation = "DescribeSecurityGroups";
        pages(operation, |token| async move {
            let request = self
                .ec2
                .describe_security_groups()
                .set_filters(filters(query))
                .max_results(PAGE_SIZE);
            let answer = self.call(operation, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.security_groups().iter().map(convert::security_group).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        let operation = "DescribeRouteTables";
        pages(operation, |token| async move {
            let request = self.ec2.describe_route_tables().set_filters(filters(query));
            let request = request.max_results(ROUTE_TABLE_PAGE_SIZE).set_next_token(token);
            let answer = self.call(operation, request.send()).await?;
            Ok(Page {
                items: answer.route_tables().iter().map(convert::route_table).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        let operation = "DescribeImages";
        // A search finds what is current; an image named by its id may be launched as long as it exists.
        let by_id = query.filters.iter().any(|(name, _)| name == "image-id");
        pages(operation, |token| async move {
            let request = self.ec2.describe_images().set_filters(filters(query));
            let request = request.include_deprecated(by_id).max_results(PAGE_SIZE);
            let answer = self.call(operation, request.set_next_token(token).send()).await?;
            Ok(Page {
                items: answer.images().iter().map(convert::image).collect(),
                next: answer.next_token,
            })
        })
        .await
    }

    pub(crate) async fn instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        pages("DescribeInstances", |token| async move {
            let page = self.page(query, token).await?;
            Ok(Page {
                items: page.instances,
                next: page.next,
            })
        })
        .await
    }

    /// Launches one instance. The SDK does not repeat this call: after an attempt that got lost, a refusal of
    /// the next one would read as if nothing had been launched. Whoever holds the launch record repeats it.
    pub(crate) async fn launch(&self, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let operation = "RunInstances";
        let once = aws_sdk_ec2::config::Config::builder().retry_config(RetryConfig::disabled());
        let input = run_instances(self.ec2.run_instances(), request)?;
        let answer = self
            .call(operation, input.customize().config_override(once).send())
            .await?;
        let instance = answer.instances().first();
        let instance = instance.ok_or_else(|| CloudError::no_answer(operation, "the answer shows no instance"))?;
        convert::instance(operation, instance)
    }

    /// Terminates an instance and gives its new state, where the answer shows it.
    pub(crate) async fn terminate(&self, id: &str) -> Result<Option<InstanceState>, CloudError> {
        let request = self.ec2.terminate_instances().instance_ids(id);
        let answer = self.call("TerminateInstances", request.send()).await?;
        let change = answer
            .terminating_instances()
            .iter()
            .find(|change| change.instance_id() == Some(id));
        let state = change
            .and_then(|change| change.current_state())
            .and_then(|state| state.name());
        Ok(state.and_then(convert::state_name))
    }
}

#[async_trait]
impl ListInstances for Api {
    async fn page(&self, query: &Query, token: Option<String>) -> Result<InstancePage, CloudError> {
        let operation = "DescribeInstances";
        let request = self
            .ec2
            .describe_instances()
            .set_filters(filters(query))
            .max_results(PAGE_SIZE);
        let answer = self.call(operation, request.set_next_token(token).send()).await?;
        let shown = answer.reservations().iter().flat_map(Reservation::instances);
        let instances = shown.map(|instance| convert::instance(operation, instance));
        Ok(InstancePage {
            instances: instances.collect::<Result<_, _>>()?,
            next: answer.next_token.filter(|token| !token.is_empty()),
        })
    }
}

/// All pages. A page that comes twice is an error: the list would not be whole.
async fn pages<T, F>(operation: &'static str, fetch: impl Fn(Option<String>) -> F) -> Result<Vec<T>, CloudError>
where
    F: Future<Output = Result<Page<T>, CloudError>>,
{
    let mut items = Vec::new();
    let mut token = None;
    loop {
        let page = fetch(token.clone()).await?;
        items.extend(page.items);
        let next = page.next.filter(|next| !next.is_empty());
        if next.is_none() {
            return Ok(items);
        }
        if next == token {
            return Err(CloudError::no_answer(operation, "the same page was answered twice"));
        }
        token = next;
    }
}
