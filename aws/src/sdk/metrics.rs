//! Metrics of AWS calls, with the names and labels that dashboards for the Go provider use.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use aws_sdk_ec2::config::interceptors::{BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef};
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::BoxError;
use aws_sdk_elasticloadbalancing::operation as classic;
use aws_sdk_elasticloadbalancingv2::operation as elb;
use aws_sdk_iam::operation as iam;
use aws_sdk_kms::operation as kms;
use aws_sdk_s3::operation as s3;
use aws_sdk_secretsmanager::operation as secrets_manager;
use aws_sdk_servicequotas::operation as service_quotas;
use aws_sdk_ssm::operation as ssm;
use aws_sdk_sts::operation as sts;
use aws_smithy_runtime_api::client::interceptors::context;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use capa_cloud::{ErrorClass, classify};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::regions::AnsweringRegions;

tokio::task_local! {
    /// The controller on whose behalf the current call is made.
    pub(crate) static CONTROLLER: &'static str;
}

/// The operation that launches instances.
const LAUNCH: &str = "RunInstances";

/// Upper bounds in seconds.
const DURATIONS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const WAITS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const RETRIES: [f64; 11] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    controller: &'static str,
    service: String,
    region: String,
    operation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    controller: &'static str,
    service: String,
    region: String,
    operation: String,
    status_code: String,
    error_code: String,
}

/// Counters and histograms of AWS calls.
#[derive(Clone, Debug)]
pub(crate) struct CallMetrics {
    requests: Family<AnswerLabels, Counter>,
    durations: Family<CallLabels, Histogram, fn() -> Histogram>,
    retries: Family<CallLabels, Histogram, fn() -> Histogram>,
    launches: Family<LaunchLabels, Counter>,
    regions: AnsweringRegions,
}

/// The result of a launch: `success`, or the class of the error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaunchLabels {
    result: &'static str,
}

const SUCCESS: &str = "success";

/// Every class of error under its label, so that an alert finds the series before the first failure.
const FAILURES: [(ErrorClass, &str); 9] = [
    (ErrorClass::NotFound, "not_found"),
    (ErrorClass::Throttled, "throttled"),
    (ErrorClass::Unauthorized, "unauthorized"),
    (ErrorClass::InsufficientCapacity, "insufficient_capacity"),
    (ErrorClass::QuotaExceeded, "quota_exceeded"),
    (ErrorClass::IdempotentParameterMismatch, "parameter_mismatch"),
    (ErrorClass::AlreadyExists, "already_exists"),
    (ErrorClass::Invalid, "invalid"),
    (ErrorClass::NoAnswer, "no_answer"),
];

/// The label of a launch with this error code; a successful launch has no code.
fn launch_result(code: &str) -> &'static str {
    if code.is_empty() {
        return SUCCESS;
    }
    let class = classify(code);
    let known = FAILURES.iter().find(|(failure, _)| *failure == class);
    known.map_or("no_answer", |(_, label)| label)
}

impl CallMetrics {
    /// Registers the metrics. They label regions by `regions`, and record answers there.
    pub(crate) fn register(registry: &mut Registry, regions: AnsweringRegions) -> Self {
        let metrics = Self {
            regions,
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            retries: Family::new_with_constructor(|| Histogram::new(RETRIES)),
            launches: Family::default(),
        };
        registry.register("aws_api_requests", "AWS calls by answer", metrics.requests.clone());
        registry.register(
            "aws_api_request_duration_seconds",
            "Time that AWS calls took, retries by the SDK included",
            metrics.durations.clone(),
        );
        registry.register("aws_api_call_retries", "Retries by the SDK in one AWS call", metrics.retries.clone());
        registry.register("capa_launch_attempts", "RunInstances calls by what came of them", metrics.launches.clone());
        for result in FAILURES.into_iter().map(|(_, label)| label).chain([SUCCESS]) {
            let _ = metrics.launches.get_or_create(&LaunchLabels { result });
        }
        metrics
    }

    /// The interceptor that counts the calls of clients in one region.
    pub(crate) fn interceptor(&self, region: &str) -> CountCalls {
        CountCalls { metrics: self.clone(), region: region.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabel {
    action: &'static str,
}

/// The time for which the provider's own rate limits deferred calls.
#[derive(Clone, Debug)]
pub(crate) struct ThrottleWaits(Family<ActionLabel, Histogram, fn() -> Histogram>);

impl ThrottleWaits {
    /// Registers the metric.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let waits = Self(Family::new_with_constructor(|| Histogram::new(WAITS)));
        registry.register(
            "capa_aws_throttle_wait_seconds",
            "Time for which calls were deferred to stay within the request rate of their account and region",
            waits.0.clone(),
        );
        waits
    }

    /// Records that a call was deferred for this time.
    pub(crate) fn observe(&self, action: &'static str, wait: Duration) {
        self.0.get_or_create(&ActionLabel { action }).observe(wait.as_secs_f64());
    }
}

/// Counts each call of the client that it is registered on.
pub(crate) struct CountCalls {
    metrics: CallMetrics,
    region: String,
}

impl fmt::Debug for CountCalls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CountCalls").field("region", &self.region).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Began(Instant);

impl Storable for Began {
    type Storer = StoreReplace<Self>;
}

impl Intercept for CountCalls {
    fn name(&self) -> &'static str {
        "CountCalls"
    }

    fn read_before_execution(
        &self,
        _context: &BeforeSerializationInterceptorContextRef<'_>,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        config.interceptor_state().store_put(Began(Instant::now()));
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(metadata) = config.load::<Metadata>() else {
            return Ok(());
        };
        if context.response().is_some() {
            self.metrics.regions.answered(&self.region);
        }
        let labels = CallLabels {
            controller: CONTROLLER.try_with(|controller| *controller).unwrap_or_default(),
            service: service_label(metadata.service()),
            region: self.metrics.regions.label(&self.region),
            operation: metadata.name().to_owned(),
        };
        let retries = config.load::<RequestAttempts>().map_or(0, |attempts| attempts.attempts().saturating_sub(1));
        let seconds = config.load::<Began>().map_or(0.0, |began| began.0.elapsed().as_secs_f64());
        self.metrics.durations.get_or_create(&labels).observe(seconds);
        self.metrics.retries.get_or_create(&labels).observe(f64::from(retries));
        let answer = AnswerLabels {
            controller: labels.controller,
            service: labels.service,
            region: labels.region,
            operation: labels.operation,
            status_code: context.response().map_or(0, |response| response.status().as_u16()).to_string(),
            error_code: error_code(context),
        };
        if answer.operation == LAUNCH {
            let result = launch_result(&answer.error_code);
            self.metrics.launches.get_or_create(&LaunchLabels { result }).inc();
        }
        self.metrics.requests.get_or_create(&answer).inc();
        Ok(())
    }
}

/// AWS's error code, `internal` for a failure without a code, and an empty text for success.
fn error_code(context: &FinalizerInterceptorContextRef<'_>) -> String {
    let Some(Err(error)) = context.output_or_error() else {
        return String::new();
    };
    error.as_operation_error().and_then(code).unwrap_or_else(|| "internal".to_owned())
}

/// The service's name in the AWS CLI.
fn service_label(service: &str) -> String {
    match service {
        "Elastic Load Balancing" => "elb".to_owned(),
        "Elastic Load Balancing v2" => "elbv2".to_owned(),
        "Service Quotas" => "service-quotas".to_owned(),
        "Secrets Manager" => "secrets-manager".to_owned(),
        other => other.to_lowercase(),
    }
}

/// The code inside an operation's error. EC2's operations model no errors, so the code is in the error's metadata. Each
/// operation of the other services has its own type of error.
pub(crate) fn code(error: &context::Error) -> Option<String> {
    if let Some(code) = MODELLED.iter().find_map(|code_of| code_of(error)) {
        return Some(code);
    }
    let metadata = error.source()?.downcast_ref::<ErrorMetadata>()?;
    metadata.code().map(str::to_owned)
}

/// The code of an error of this operation.
fn modelled<E: ProvideErrorMetadata + Error + Send + Sync + 'static>(error: &context::Error) -> Option<String> {
    error.downcast_ref::<E>()?.code().map(str::to_owned)
}

/// The operations that model their errors. A test compares them with the table of actions.
const MODELLED: [fn(&context::Error) -> Option<String>; 58] = [
    modelled::<sts::assume_role::AssumeRoleError>,
    modelled::<sts::get_caller_identity::GetCallerIdentityError>,
    modelled::<elb::add_tags::AddTagsError>,
    modelled::<elb::create_listener::CreateListenerError>,
    modelled::<elb::create_load_balancer::CreateLoadBalancerError>,
    modelled::<elb::create_target_group::CreateTargetGroupError>,
    modelled::<elb::delete_listener::DeleteListenerError>,
    modelled::<elb::delete_load_balancer::DeleteLoadBalancerError>,
    modelled::<elb::delete_target_group::DeleteTargetGroupError>,
    modelled::<elb::deregister_targets::DeregisterTargetsError>,
    modelled::<elb::describe_listeners::DescribeListenersError>,
    modelled::<elb::describe_load_balancer_attributes::DescribeLoadBalancerAttributesError>,
    modelled::<elb::describe_load_balancers::DescribeLoadBalancersError>,
    modelled::<elb::describe_tags::DescribeTagsError>,
    modelled::<elb::describe_target_group_attributes::DescribeTargetGroupAttributesError>,
    modelled::<elb::describe_target_groups::DescribeTargetGroupsError>,
    modelled::<elb::describe_target_health::DescribeTargetHealthError>,
    modelled::<elb::modify_listener::ModifyListenerError>,
    modelled::<elb::modify_load_balancer_attributes::ModifyLoadBalancerAttributesError>,
    modelled::<elb::modify_target_group::ModifyTargetGroupError>,
    modelled::<elb::modify_target_group_attributes::ModifyTargetGroupAttributesError>,
    modelled::<elb::register_targets::RegisterTargetsError>,
    modelled::<elb::remove_tags::RemoveTagsError>,
    modelled::<elb::set_security_groups::SetSecurityGroupsError>,
    modelled::<elb::set_subnets::SetSubnetsError>,
    modelled::<classic::add_tags::AddTagsError>,
    modelled::<classic::apply_security_groups_to_load_balancer::ApplySecurityGroupsToLoadBalancerError>,
    modelled::<classic::attach_load_balancer_to_subnets::AttachLoadBalancerToSubnetsError>,
    modelled::<classic::configure_health_check::ConfigureHealthCheckError>,
    modelled::<classic::create_load_balancer::CreateLoadBalancerError>,
    modelled::<classic::create_load_balancer_listeners::CreateLoadBalancerListenersError>,
    modelled::<classic::delete_load_balancer::DeleteLoadBalancerError>,
    modelled::<classic::deregister_instances_from_load_balancer::DeregisterInstancesFromLoadBalancerError>,
    modelled::<classic::describe_instance_health::DescribeInstanceHealthError>,
    modelled::<classic::describe_load_balancer_attributes::DescribeLoadBalancerAttributesError>,
    modelled::<classic::describe_load_balancers::DescribeLoadBalancersError>,
    modelled::<classic::describe_tags::DescribeTagsError>,
    modelled::<classic::modify_load_balancer_attributes::ModifyLoadBalancerAttributesError>,
    modelled::<classic::register_instances_with_load_balancer::RegisterInstancesWithLoadBalancerError>,
    modelled::<classic::remove_tags::RemoveTagsError>,
    modelled::<iam::get_instance_profile::GetInstanceProfileError>,
    modelled::<iam::get_role::GetRoleError>,
    modelled::<iam::list_attached_role_policies::ListAttachedRolePoliciesError>,
    modelled::<iam::list_role_policies::ListRolePoliciesError>,
    modelled::<kms::describe_key::DescribeKeyError>,
    modelled::<s3::delete_object::DeleteObjectError>,
    modelled::<s3::get_bucket_acl::GetBucketAclError>,
    modelled::<s3::get_bucket_location::GetBucketLocationError>,
    modelled::<s3::get_bucket_policy_status::GetBucketPolicyStatusError>,
    modelled::<s3::get_public_access_block::GetPublicAccessBlockError>,
    modelled::<s3::put_object::PutObjectError>,
    modelled::<service_quotas::get_service_quota::GetServiceQuotaError>,
    modelled::<secrets_manager::create_secret::CreateSecretError>,
    modelled::<secrets_manager::put_secret_value::PutSecretValueError>,
    modelled::<secrets_manager::delete_secret::DeleteSecretError>,
    modelled::<ssm::get_parameter::GetParameterError>,
    modelled::<ssm::put_parameter::PutParameterError>,
    modelled::<ssm::delete_parameters::DeleteParametersError>,
];
