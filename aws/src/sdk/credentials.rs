//! The sources of credentials, as SDK providers.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_sts::operation::assume_role::AssumeRoleOutput;
use aws_sdk_sts::types::PolicyDescriptorType;
use capa_cloud::CloudError;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use super::error::from_sts;

/// The time before their expiration at which credentials are renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// The lifetime of credentials without an expiration time.
const UNDATED: Duration = Duration::from_secs(900);

/// The manager's own credentials: the SDK's default chain, set up at first use. All clients share it, so that a hundred
/// clients call the metadata service once.
#[derive(Debug, Default)]
pub(crate) struct ControllerCredentials {
    chain: OnceCell<SharedCredentialsProvider>,
    held: Mutex<Option<Held>>,
}

/// Credentials, and when they were fetched.
#[derive(Debug)]
struct Held {
    credentials: Credentials,
    fetched: Instant,
}

impl Held {
    /// An expiry is a time of AWS's clock. The age of credentials without an expiry is measured on this machine.
    fn is_usable(&self) -> bool {
        match self.credentials.expiry() {
            Some(expiry) => expiry.checked_sub(RENEW_BEFORE).is_some_and(|until| SystemTime::now() < until),
            None => self.fetched.elapsed() < UNDATED,
        }
    }
}

impl ControllerCredentials {
    async fn credentials(&self) -> provider::Result {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| held.is_usable()) {
            return Ok(held.credentials.clone());
        }
        let chain = self
            .chain
            .get_or_init(async || SharedCredentialsProvider::new(DefaultCredentialsChain::builder().build().await));
        let credentials = chain.await.provide_credentials().await?;
        *held = Some(Held { credentials: credentials.clone(), fetched: Instant::now() });
        Ok(credentials)
    }
}

impl ProvideCredentials for ControllerCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}

/// The AssumeRole parameters of one role.
pub(crate) struct Role {
    pub(crate) arn: String,
    pub(crate) session_name: String,
    pub(crate) external_id: Option<String>,
    pub(crate) duration_seconds: i32,
    pub(crate) inline_policy: Option<String>,
    pub(crate) policy_arns: Vec<String>,
}

/// The credentials of an assumed role. The SDK's own credential source would return STS's answer as plain text, log
/// every refusal, and make calls that the metrics do not count.
pub(crate) struct RoleCredentials {
    /// The client that signs with the credentials of the assuming identity. They are fetched for each session, so a
    /// chain of roles renews itself.
    pub(crate) sts: aws_sdk_sts::Client,
    pub(crate) role: Role,
}

/// Shows only the role, because an external id is a shared secret.
impl fmt::Debug for RoleCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RoleCredentials").field("role", &self.role.arn).finish_non_exhaustive()
    }
}

impl RoleCredentials {
    async fn credentials(&self) -> provider::Result {
        let policies = self.role.policy_arns.iter();
        let policies: Vec<_> = policies.map(|arn| PolicyDescriptorType::builder().arn(arn).build()).collect();
        let answer = self
            .sts
            .assume_role()
            .role_arn(&self.role.arn)
            .role_session_name(&self.role.session_name)
            .set_external_id(self.role.external_id.clone())
            .duration_seconds(self.role.duration_seconds)
            .set_policy(self.role.inline_policy.clone())
            .set_policy_arns(Some(policies).filter(|policies| !policies.is_empty()))
            .send()
            .await
            .map_err(|error| CredentialsError::provider_error(from_sts("AssumeRole", &error)))?;
        session(answer).map_err(CredentialsError::provider_error)
    }
}

impl ProvideCredentials for RoleCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}

fn session(answer: AssumeRoleOutput) -> Result<Credentials, CloudError> {
    let unreadable = || CloudError::no_answer("AssumeRole", "the answer holds no usable session");
    let session = answer.credentials.ok_or_else(unreadable)?;
    let expiry = SystemTime::try_from(session.expiration).map_err(|_| unreadable())?;
    Ok(Credentials::builder()
        .access_key_id(session.access_key_id)
        .secret_access_key(session.secret_access_key)
        .session_token(session.session_token)
        .expiry(expiry)
        .provider_name("AssumeRole")
        .build())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A source that counts its calls. Its credentials expire after `lifetime`, or have no expiration time.
    #[derive(Debug)]
    struct Source {
        asked: Arc<AtomicUsize>,
        lifetime: Option<Duration>,
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let expiry = self.lifetime.map(|lifetime| SystemTime::now() + lifetime);
            future::ProvideCredentials::ready(Ok(Credentials::new("AKIA", "secret", None, expiry, "test")))
        }
    }

    /// The number of calls to a source for ten callers.
    async fn asked(lifetime: Option<Duration>) -> usize {
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Source { asked: asked.clone(), lifetime };
        let controller = ControllerCredentials {
            chain: OnceCell::new_with(Some(SharedCredentialsProvider::new(source))),
            held: Mutex::default(),
        };
        let callers = (0..10).map(|_| controller.provide_credentials());
        futures::future::join_all(callers).await;
        asked.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn the_managers_credentials_are_fetched_once_for_all_clients() {
        assert_eq!(asked(None).await, 1);
        assert_eq!(asked(Some(Duration::from_secs(3600))).await, 1);
    }

    #[tokio::test]
    async fn credentials_about_to_expire_are_fetched_anew() {
        assert_eq!(asked(Some(Duration::from_secs(60))).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn undated_credentials_are_fetched_anew_after_a_quarter_hour() {
        let held =
            Held { credentials: Credentials::new("AKIA", "secret", None, None, "test"), fetched: Instant::now() };
        tokio::time::advance(UNDATED.saturating_sub(Duration::from_secs(1))).await;
        assert!(held.is_usable());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!held.is_usable());
    }

    #[test]
    fn a_roles_external_id_is_not_shown() {
        let config =
            aws_sdk_sts::Config::builder().behavior_version(aws_config::BehaviorVersion::v2026_01_12()).build();
        let credentials = RoleCredentials {
            sts: aws_sdk_sts::Client::from_conf(config),
            role: Role {
                arn: "arn:aws:iam::1:role/One".into(),
                session_name: "session".into(),
                external_id: Some("external-secret".into()),
                duration_seconds: 900,
                inline_policy: None,
                policy_arns: vec![],
            },
        };
        assert!(!format!("{credentials:?}").contains("external-secret"));
    }
}
