//! The SDK's clients for one identity in one region, and the clients of its checks. This module makes no calls.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_config::{AppName, Region};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_ec2::config::IdentityCache;
use aws_sdk_ec2::config::retry::RetryPartition;
use aws_sdk_s3::config::ResponseChecksumValidation;

use super::endpoints::ServiceEndpoints;
use super::metrics::CallMetrics;
use super::retries::ThrottlesAreNotRetried;

/// The provider's name in the user agent of checks. Checks change nothing, and their failures block nothing.
const APP_NAME_OF_CHECKS: &str = "cluster-api-provider-aws-rs-checks";

/// The time before their expiration from which credentials are replaced before they sign a URL. The SDK takes a random
/// part of it, at least half: the URL of a machine that boots is good for at least four minutes.
const SIGNING_BUFFER: Duration = Duration::from_mins(8);

/// The common settings of the clients of an identity in a region.
#[derive(Clone)]
pub(super) struct ClientSettings {
    /// The SDK's configuration with the credentials and their cache, which all clients that make calls share.
    pub(super) config: aws_config::SdkConfig,
    pub(super) endpoints: Arc<ServiceEndpoints>,
    pub(super) metrics: CallMetrics,
    pub(super) region: String,
    /// Separates the retry quota of the clients from the quotas of other identities. By default, the SDK has one quota
    /// for each service and region, whatever the account. An identity belongs to one account, so no account uses up the
    /// quota of another.
    pub(super) name: String,
}

/// The configuration of a client: the SDK's crate, the settings, the prefix of the retry quota, and the name of the
/// service in [`ServiceEndpoints`].
macro_rules! config_of {
    ($sdk:ident, $settings:expr, $quota:literal, $service:literal) => {{
        let settings: &ClientSettings = $settings;
        let quota = format!("{}-{}-{}", $quota, settings.region, settings.name);
        let config = $sdk::config::Builder::from(&settings.config)
            .retry_partition(RetryPartition::custom(quota).build())
            .retry_classifier(ThrottlesAreNotRetried)
            .interceptor(settings.metrics.interceptor(&settings.region));
        match settings.endpoints.get(&settings.region, $service) {
            Some(url) => config.endpoint_url(url),
            None => config,
        }
    }};
}

impl ClientSettings {
    /// Whether the calls of a service go to an endpoint that the administrator configured.
    fn has_own_endpoint(&self, service: &str) -> bool {
        self.config.endpoint_url().is_some() || self.endpoints.get(&self.region, service).is_some()
    }

    /// A client of S3.
    fn s3(&self) -> aws_sdk_s3::Client {
        let config = config_of!(aws_sdk_s3, self, "s3", "s3")
            // An S3 Express session needs another call and permission, and buckets for bootstrap data are never
            // directory buckets.
            .disable_s3_express_session_auth(true)
            // Otherwise, users of a presigned URL would have to send the header that requests the checksum.
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            // An endpoint that is not AWS's own has no host name for each bucket.
            .force_path_style(self.has_own_endpoint("s3"));
        aws_sdk_s3::Client::from_conf(config.build())
    }

    /// A client of STS.
    pub(super) fn sts(&self) -> aws_sdk_sts::Client {
        aws_sdk_sts::Client::from_conf(config_of!(aws_sdk_sts, self, "sts", "sts").build())
    }
}

/// The SDK's clients for one identity in one region.
pub(crate) struct SdkClients {
    pub(crate) ec2: aws_sdk_ec2::Client,
    pub(crate) sts: aws_sdk_sts::Client,
    pub(crate) classic_elb: aws_sdk_elasticloadbalancing::Client,
    pub(crate) elb: aws_sdk_elasticloadbalancingv2::Client,
    /// Created for the first machine that has secrets, or an image that a parameter names.
    pub(crate) secrets: LazySecretsClients,
    settings: ClientSettings,
    /// The credentials of the identity, below the counter of their replacements.
    credentials: SharedCredentialsProvider,
}

/// Clients of the services that only checks call.
pub(crate) struct CheckClients {
    pub(crate) iam: aws_sdk_iam::Client,
    pub(crate) kms: aws_sdk_kms::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) service_quotas: aws_sdk_servicequotas::Client,
}

/// Clients that are made when they are first used.
pub(crate) type LazySecretsClients = Arc<LazyLock<SecretsClients, Box<dyn FnOnce() -> SecretsClients + Send>>>;

/// Clients of the services that keep bootstrap data.
pub(crate) struct SecretsClients {
    pub(crate) secrets_manager: aws_sdk_secretsmanager::Client,
    pub(crate) ssm: aws_sdk_ssm::Client,
    pub(crate) s3: aws_sdk_s3::Client,
    /// Signs URLs, which end with the session that signs them, and makes no calls.
    pub(crate) signing_s3: aws_sdk_s3::Client,
}

impl SdkClients {
    pub(super) fn new(settings: ClientSettings, credentials: SharedCredentialsProvider) -> Self {
        let ec2 = config_of!(aws_sdk_ec2, &settings, "ec2", "ec2");
        // Both generations share one endpoint.
        let classic_elb = config_of!(aws_sdk_elasticloadbalancing, &settings, "elb", "elasticloadbalancing");
        let elb = config_of!(aws_sdk_elasticloadbalancingv2, &settings, "elbv2", "elasticloadbalancing");
        let (of_secrets, signing) = (settings.clone(), credentials.clone());
        Self {
            ec2: aws_sdk_ec2::Client::from_conf(ec2.build()),
            sts: settings.sts(),
            classic_elb: aws_sdk_elasticloadbalancing::Client::from_conf(classic_elb.build()),
            elb: aws_sdk_elasticloadbalancingv2::Client::from_conf(elb.build()),
            secrets: Arc::new(LazyLock::new(Box::new(move || SecretsClients::new(&of_secrets, signing)))),
            settings,
            credentials,
        }
    }

    /// The same clients with another name in the user agent, and those of further services, for the checks of
    /// infrastructure.
    pub(crate) fn for_checks(&self) -> (Self, CheckClients) {
        let mut config = self.settings.config.to_builder();
        config.set_app_name(AppName::new(APP_NAME_OF_CHECKS).ok());
        let settings = ClientSettings { config: config.build(), ..self.settings.clone() };
        let checks = CheckClients::new(&settings);
        (Self::new(settings, self.credentials.clone()), checks)
    }
}

impl SecretsClients {
    /// `credentials` sign URLs. They are not those of the settings: a replacement that concerns URLs only is none for
    /// the calls.
    fn new(settings: &ClientSettings, credentials: SharedCredentialsProvider) -> Self {
        let secrets_manager = config_of!(aws_sdk_secretsmanager, settings, "secretsmanager", "secretsmanager");
        let ssm = config_of!(aws_sdk_ssm, settings, "ssm", "ssm");
        let cache = IdentityCache::lazy().buffer_time(SIGNING_BUFFER).build();
        let config = settings.config.to_builder().credentials_provider(credentials).identity_cache(cache);
        let signing = ClientSettings { config: config.build(), ..settings.clone() };
        Self {
            secrets_manager: aws_sdk_secretsmanager::Client::from_conf(secrets_manager.build()),
            ssm: aws_sdk_ssm::Client::from_conf(ssm.build()),
            s3: settings.s3(),
            signing_s3: signing.s3(),
        }
    }
}

impl CheckClients {
    fn new(settings: &ClientSettings) -> Self {
        let mut iam = config_of!(aws_sdk_iam, settings, "iam", "iam");
        if settings.has_own_endpoint("iam") {
            // For AWS's own endpoint of IAM, which serves all regions, the SDK knows the region.
            iam = iam.region(Region::from_static(region_of_iam(&settings.region)));
        }
        let kms = config_of!(aws_sdk_kms, settings, "kms", "kms");
        let service_quotas = config_of!(aws_sdk_servicequotas, settings, "servicequotas", "servicequotas");
        Self {
            iam: aws_sdk_iam::Client::from_conf(iam.build()),
            kms: aws_sdk_kms::Client::from_conf(kms.build()),
            s3: settings.s3(),
            service_quotas: aws_sdk_servicequotas::Client::from_conf(service_quotas.build()),
        }
    }
}

/// The region for which requests of IAM are signed in the partition of `region`.
fn region_of_iam(region: &str) -> &'static str {
    match region {
        _ if region.starts_with("cn-") => "cn-north-1",
        _ if region.starts_with("us-gov-") => "us-gov-west-1",
        _ => "us-east-1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iam_is_signed_for_one_region_of_the_partition() {
        for (region, signed) in [
            ("eu-west-1", "us-east-1"),
            ("us-west-2", "us-east-1"),
            ("us-gov-east-1", "us-gov-west-1"),
            ("cn-northwest-1", "cn-north-1"),
        ] {
            assert_eq!(region_of_iam(region), signed);
        }
    }
}
