//! The configuration of all clients of the SDK, with the credentials of identities. This module makes no calls.

use std::sync::Arc;
use std::time::Duration;

use aws_config::{AppName, BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_ec2::config::IdentityCache;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::timeout::TimeoutConfig;
use aws_smithy_runtime_api::client::identity::SharedIdentityCache;
use capa_cloud::CredentialSource;
use secrecy::{ExposeSecret, SecretString};

use super::clients::{ClientSettings, SdkClients};
use super::credentials::{ControllerCredentials, Role, RoleCredentials};
use super::endpoints::ServiceEndpoints;
use super::http::SharedConnections;
use super::metrics::CallMetrics;
use super::replacements::{Counted, Replacements};

/// The provider's name in the user agent, which CloudTrail records.
const APP_NAME: &str = "cluster-api-provider-aws-rs";
/// The number of attempts of one call inside the SDK. It is small, because the reconciler's own backoff also retries.
/// Attempts after the first one bypass the provider's rate limits, so the SDK never retries after throttling.
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

/// The configuration that all clients share.
pub(crate) struct SdkConfig {
    base: aws_config::SdkConfig,
    endpoints: Arc<ServiceEndpoints>,
    metrics: CallMetrics,
    controller: SharedCredentialsProvider,
}

impl SdkConfig {
    /// Reads the SDK's own configuration (environment and profile: endpoints, FIPS, dual-stack). `controller` replaces
    /// the SDK's default credential chain.
    pub(crate) async fn load(endpoints: ServiceEndpoints, metrics: CallMetrics, controller: Option<AccessKey>) -> Self {
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
        // Each client sets its own region. A region in this place keeps the SDK from calling the metadata service.
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
        Self { base: base.build(), endpoints: Arc::new(endpoints), metrics, controller }
    }

    /// The clients that sign with the credentials of `source`, and the counter of the credentials' replacements. All
    /// clients that make calls share one credential cache, so the counter applies to all of them. `name` is the name of
    /// the identity.
    pub(crate) fn clients(
        &self,
        source: &CredentialSource,
        region: &str,
        name: &str,
    ) -> (SdkClients, Arc<Replacements>) {
        let replacements = Arc::new(Replacements::default());
        let source = self.provider(source, region);
        let counted = Counted::new(source.clone(), replacements.clone());
        let cache = IdentityCache::lazy().build();
        let settings = self.settings(SharedCredentialsProvider::new(counted), cache, region, name);
        (SdkClients::new(settings, source), replacements)
    }

    fn provider(&self, source: &CredentialSource, region: &str) -> SharedCredentialsProvider {
        match source {
            CredentialSource::Controller => self.controller.clone(),
            CredentialSource::Static { access_key_id, secret_access_key, session_token } => {
                SharedCredentialsProvider::new(Credentials::new(
                    access_key_id,
                    secret_access_key.expose_secret(),
                    session_token.as_ref().map(|token| token.expose_secret().to_owned()),
                    None,
                    "Secret",
                ))
            }
            CredentialSource::Role {
                role_arn,
                session_name,
                external_id,
                duration_seconds,
                inline_policy,
                policy_arns,
                source,
            } => {
                let source = self.provider(source, region);
                let settings = self.settings(source, IdentityCache::no_cache(), region, role_arn);
                SharedCredentialsProvider::new(RoleCredentials {
                    sts: settings.sts(),
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

    fn settings(
        &self,
        credentials: SharedCredentialsProvider,
        cache: SharedIdentityCache,
        region: &str,
        name: &str,
    ) -> ClientSettings {
        let config = self
            .base
            .to_builder()
            .region(Region::new(region.to_owned()))
            .credentials_provider(credentials)
            .identity_cache(cache);
        ClientSettings {
            config: config.build(),
            endpoints: self.endpoints.clone(),
            metrics: self.metrics.clone(),
            region: region.to_owned(),
            name: name.to_owned(),
        }
    }
}
