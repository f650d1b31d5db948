//! AWSClusterControllerIdentity/default, which lets clusters use the manager's own credentials.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use capa_api::common::IdentityReference;
use capa_api::identity::{AWSClusterControllerIdentity, AWSClusterControllerIdentitySpec, AllowedNamespaces};
use capa_runtime::Runtime;
use capa_runtime::backoff::{Backoff, BackoffSettings};
use kube::Api;
use kube::api::PostParams;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Maximum delay between two attempts. The delay is short, because every cluster without an `identityRef` waits for
/// this identity.
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// Creates AWSClusterControllerIdentity/default for all namespaces if it does not exist, as CAPA does behind the same
/// feature gate, and then waits for `stop`. A refused creation is repeated until it succeeds. An identity that a user
/// deletes later is not created again.
pub(super) async fn create(runtime: Runtime, stop: CancellationToken) -> Result<(), Infallible> {
    let identities: Api<AWSClusterControllerIdentity> = Api::all(runtime.client.clone());
    let spec = AWSClusterControllerIdentitySpec {
        allowed_namespaces: Some(AllowedNamespaces::default()),
    };
    let identity = AWSClusterControllerIdentity::new(IdentityReference::CONTROLLER_IDENTITY_NAME, spec);
    let work = async {
        // Filled caches show that the kind is served.
        runtime.readiness.all_open().await;
        let parameters = PostParams::default();
        until_there(|| identities.create(&parameters, &identity)).await;
    };
    if stop.run_until_cancelled(work).await.is_some() {
        stop.cancelled().await;
    }
    Ok(())
}

/// Repeats a creation until it succeeds or finds that there is nothing to create.
async fn until_there<T, F>(create: impl Fn() -> F)
where
    F: Future<Output = kube::Result<T>>,
{
    let name = IdentityReference::CONTROLLER_IDENTITY_NAME;
    let backoff = Backoff::new(BackoffSettings {
        cap: LONGEST_DELAY,
        ..BackoffSettings::default()
    });
    loop {
        match create().await {
            Ok(_) => return info!("created AWSClusterControllerIdentity/{name} for all namespaces"),
            Err(kube::Error::Api(status)) if status.is_already_exists() => return,
            Err(error) => warn!(
                %error,
                "failed to create AWSClusterControllerIdentity/{name}, trying again; or create it yourself, with the \
                 namespaces that may use it"
            ),
        }
        tokio::time::sleep(backoff.failed(name)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use kube::core::Status;

    use super::*;

    fn refused(code: u16, reason: &str) -> kube::Result<()> {
        Err(kube::Error::Api(
            Status::failure("refused", reason).with_code(code).boxed(),
        ))
    }

    /// The number of tries until the identity existed, and how long they took.
    async fn tries(answers: Vec<kube::Result<()>>) -> (usize, Duration) {
        let (given, began) = (answers.len(), tokio::time::Instant::now());
        let answers = Mutex::new(VecDeque::from(answers));
        until_there(|| {
            let answer = answers.lock().unwrap().pop_front();
            async { answer.expect("no try after it was there") }
        })
        .await;
        (given - answers.lock().unwrap().len(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_creation_is_repeated_with_growing_delays() {
        let mut answers = vec![refused(404, "NotFound")];
        answers.extend((0..9).map(|_| refused(500, "InternalError")));
        answers.push(Ok(()));
        let (tries, elapsed) = tries(answers).await;
        assert_eq!(tries, 11);
        // 1, 2, 4, 8, 16 and 32 s, then a minute each; every delay may be shorter by a quarter.
        assert!(
            elapsed > Duration::from_secs(220) && elapsed < Duration::from_secs(305),
            "{elapsed:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_identity_created_by_another_is_left_alone() {
        let (tries, elapsed) = tries(vec![refused(409, "AlreadyExists"), Ok(())]).await;
        assert_eq!((tries, elapsed), (1, Duration::ZERO));
    }
}
