//! Metrics of AWS calls, with the names and labels that dashboards for the Go provider use.

use std::fmt;
use std::time::Duration;

use aws_sdk_ec2::config::interceptors::{BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef};
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use capa_cloud::{ErrorClass, classify};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::error_code::error_code;
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
            error_code: code_label(context),
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
fn code_label(context: &FinalizerInterceptorContextRef<'_>) -> String {
    let Some(Err(_)) = context.output_or_error() else {
        return String::new();
    };
    context.response().and_then(error_code).unwrap_or_else(|| "internal".to_owned())
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
