//! The SDK clients for an identity in a region. This module makes no call.

use std::sync::Arc;
use std::time::Duration;

use aws_config::{AppName, BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_ec2::config::IdentityCache;
use aws_sdk_ec2::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_ec2::config::timeout::TimeoutConfig;
use capa_cloud::CredentialSource;
use secrecy::{ExposeSecret, SecretString};

use super::credentials::{ControllerCredentials, Role, RoleCredentials};
use super::endpoints::ServiceEndpoints;
use super::http::SharedConnections;
use super::metrics::CallMetrics;
use super::replacements::{Counted, Replacements};
use super::retries::ThrottlesAreNotRetried;

/// The provider's name in the user agent, and thereby in CloudTrail.
const APP_NAME: &str = "cluster-api-provider-aws-rs";
/// The same name for the calls of checks, which change nothing and whose failures hold nothing up.
const APP_NAME_OF_CHECKS: &str = "cluster-api-provider-aws-rs-checks";
/// The attempts of one call inside the SDK. Few, because the reconciler's own backoff retries too. The attempts after
/// the first bypass the provider's rate limits, so the SDK never retries after throttling ([`ThrottlesAreNotRetried`]).
const ATTEMPTS: u32 = 3;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A long-lived access key. `Debug` does not show the secret.
#[derive(Clone, Debug)]
pub struct AccessKey {
    /// Access key id.
    pub id: String,
    /// Secret access key.
    pub secret: SecretString,
}

/// The SDK's clients for one identity in one region.
pub(crate) struct SdkClients {
    pub(crate) ec2: aws_sdk_ec2::Client,
    pub(crate) sts: aws_sdk_sts::Client,
    pub(crate) classic_elb: aws_sdk_elasticloadbalancing::Client,
    pub(crate) elb: aws_sdk_elasticloadbalancingv2::Client,
}

impl SdkClients {
    /// The same clients with another name in the user agent, for the checks of infrastructure.
    pub(crate) fn for_checks(&self) -> Self {
        let name = AppName::new(APP_NAME_OF_CHECKS).ok();
        let mut ec2 = self.ec2.config().to_builder();
        ec2.set_app_name(name.clone());
        let mut sts = self.sts.config().to_builder();
        sts.set_app_name(name.clone());
        let mut classic_elb = self.classic_elb.config().to_builder();
        classic_elb.set_app_name(name.clone());
        let mut elb = self.elb.config().to_builder();
        elb.set_app_name(name);
        Self {
            ec2: aws_sdk_ec2::Client::from_conf(ec2.build()),
            sts: aws_sdk_sts::Client::from_conf(sts.build()),
            classic_elb: aws_sdk_elasticloadbalancing::Client::from_conf(classic_elb.build()),
            elb: aws_sdk_elasticloadbalancingv2::Client::from_conf(elb.build()),
        }
    }
}

/// The configuration that all clients share.
pub(crate) struct SdkConfig {
    base: aws_config::SdkConfig,
    endpoints: ServiceEndpoints,
    metrics: CallMetrics,
    controller: SharedCredentialsProvider,
}

impl SdkConfig {
    /// Reads the SDK's own configuration (environment and profile: endpoints, FIPS, dual-stack). `controller` replaces
    /// the SDK's default credential chain.
    pub(crate) async fn load(endpoints: ServiceEndpoints, metrics: CallMetrics, controller: Option<AccessKey>) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(CALL_TIMEOUT)
            .build();
        // Each client names its region; a region set here keeps the SDK from asking the metadata service.
        let base = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("us-east-1"))
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(timeouts)
            .http_client(SharedConnections::default())
            .no_credentials()
            .load()
            .await
            .into_builder();
        let base = match AppName::new(APP_NAME) {
            Ok(name) => base.app_name(name),
            Err(_) => base,
        };
        let controller = match controller {
            Some(key) => SharedCredentialsProvider::new(Credentials::new(
                key.id,
                key.secret.expose_secret(),
                None,
                None,
                "Options",
            )),
            None => SharedCredentialsProvider::new(ControllerCredentials::default()),
        };
        Self {
            base: base.build(),
            endpoints,
            metrics,
            controller,
        }
    }

    /// The clients that sign with the credentials of `source`, and the counter of the credentials' replacements: all
    /// clients share one credential cache, so the counter applies to all of them. `name` separates their retry quota
    /// from those of other identities: by default the SDK has one quota for each service and region, whatever the
    /// account. An identity belongs to one account, so no account uses up the quota of another.
    pub(crate) fn clients(
        &self,
        source: &CredentialSource,
        region: &str,
        name: &str,
    ) -> (SdkClients, Arc<Replacements>) {
        let replacements = Arc::new(Replacements::default());
        let counted = Counted::new(self.provider(source, region), replacements.clone());
        let config = self.config(SharedCredentialsProvider::new(counted), region);
        let config = config
            .into_builder()
            .identity_cache(IdentityCache::lazy().build())
            .build();
        let mut ec2 = aws_sdk_ec2::config::Builder::from(&config)
            .retry_partition(RetryPartition::custom(format!("ec2-{region}-{name}")).build())
            .retry_classifier(ThrottlesAreNotRetried)
            .interceptor(self.metrics.interceptor(region));
        if let Some(url) = self.endpoints.get(region, "ec2") {
            ec2 = ec2.endpoint_url(url);
        }
        let (classic_elb, elb) = self.elb(&config, region, name);
        let clients = SdkClients {
            ec2: aws_sdk_ec2::Client::from_conf(ec2.build()),
            sts: self.sts(&config, region, name),
            classic_elb,
            elb,
        };
        (clients, replacements)
    }

    fn elb(
        &self,
        config: &aws_config::SdkConfig,
        region: &str,
        name: &str,
    ) -> (
        aws_sdk_elasticloadbalancing::Client,
        aws_sdk_elasticloadbalancingv2::Client,
    ) {
        let mut classic = aws_sdk_elasticloadbalancing::config::Builder::from(config)
            .retry_partition(RetryPartition::custom(format!("elb-{region}-{name}")).build())
            .retry_classifier(ThrottlesAreNotRetried)
            .interceptor(self.metrics.interceptor(region));
        let mut version_2 = aws_sdk_elasticloadbalancingv2::config::Builder::from(config)
            .retry_partition(RetryPartition::custom(format!("elbv2-{region}-{name}")).build())
            .retry_classifier(ThrottlesAreNotRetried)
            .interceptor(self.metrics.interceptor(region));
        // Both generations share one endpoint.
        if let Some(url) = self.endpoints.get(region, "elasticloadbalancing") {
            classic = classic.endpoint_url(url);
            version_2 = version_2.endpoint_url(url);
        }
        (
            aws_sdk_elasticloadbalancing::Client::from_conf(classic.build()),
            aws_sdk_elasticloadbalancingv2::Client::from_conf(version_2.build()),
        )
    }

    fn provider(&self, source: &CredentialSource, region: &str) -> SharedCredentialsProvider {
        match source {
            CredentialSource::Controller => self.controller.clone(),
            CredentialSource::Static {
                access_key_id,
                secret_access_key,
                session_token,
            } => SharedCredentialsProvider::new(Credentials::new(
                access_key_id,
                secret_access_key.expose_secret(),
                session_token.as_ref().map(|token| token.expose_secret().to_owned()),
                None,
                "Secret",
            )),
            CredentialSource::Role {
                role_arn,
                session_name,
                external_id,
                duration_seconds,
                inline_policy,
                policy_arns,
                source,
            } => {
                let config = self.config(self.provider(source, region), region);
                let config = config.into_builder().identity_cache(IdentityCache::no_cache()).build();
                SharedCredentialsProvider::new(RoleCredentials {
                    sts: self.sts(&config, region, role_arn),
                    role: Role {
                        arn: role_arn.clone(),
                        session_name: session_name.clone(),
                        external_id: external_id.clone(),
                        duration_seconds: *duration_seconds,
                        inline_policy: inline_policy.clone(),
                        policy_arns: policy_arns.clone(),
                    },
                })
            }
        }
    }

    fn config(&self, credentials: SharedCredentialsProvider, region: &str) -> aws_config::SdkConfig {
        let region = Region::new(region.to_owned());
        self.base
            .to_builder()
            .region(region)
            .credentials_provider(credentials)
            .build()
    }

    fn sts(&self, config: &aws_config::SdkConfig, region: &str, name: &str) -> aws_sdk_sts::Client {
        let mut sts = aws_sdk_sts::config::Builder::from(config)
            .retry_partition(RetryPartition::custom(format!("sts-{region}-{name}")).build())
            .retry_classifier(ThrottlesAreNotRetried)
            .interceptor(self.metrics.interceptor(region));
        if let Some(url) = self.endpoints.get(region, "sts") {
            sts = sts.endpoint_url(url);
        }
        aws_sdk_sts::Client::from_conf(sts.build())
    }
}
