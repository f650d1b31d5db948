//! AWSClusterControllerIdentity/default, which lets clusters use the manager's own credentials.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use capa_api::common::IdentityReference;
use capa_api::identity::{AWSClusterControllerIdentity, AWSClusterControllerIdentitySpec, AllowedNamespaces};
use capa_runtime::Runtime;
use capa_runtime::backoff::{Backoff, BackoffSettings};
use capa_runtime::lease::LeaseMemory;
use capa_runtime::repeated_failure::RepeatedFailure;
use kube::Api;
use kube::api::PostParams;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// Maximum delay between two attempts. The delay is short, because every cluster without an `identityRef` waits for
/// this identity.
const MAX_DELAY: Duration = Duration::from_mins(1);

/// Annotation on the manager's Lease: the identity has existed. A user who deletes the identity does not want every
/// namespace to use the manager's credentials, so a restart of the manager must not create it again.
const WAS_THERE: &str = "infrastructure.cluster.x-k8s.io/controller-identity-was-there";

/// Creates AWSClusterControllerIdentity/default for all namespaces if it has never existed, as CAPA does behind the
/// same feature gate, and then waits for `stop`. A refused request is repeated until it succeeds. Without a `memory`,
/// the manager creates the identity at each start if it does not exist.
pub(super) async fn create(
    runtime: Runtime,
    memory: Option<LeaseMemory>,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let identities: Api<AWSClusterControllerIdentity> = Api::all(runtime.client.clone());
    let spec = AWSClusterControllerIdentitySpec { allowed_namespaces: Some(AllowedNamespaces::default()) };
    let identity = AWSClusterControllerIdentity::new(IdentityReference::CONTROLLER_IDENTITY_NAME, spec);
    let work = async {
        // Filled caches show that the kind is served.
        runtime.readiness.all_open().await;
        let memory = memory.as_ref();
        let was_there = || async {
            match memory {
                Some(memory) => memory.recalls(WAS_THERE).await,
                None => Ok(false),
            }
        };
        let parameters = PostParams::default();
        let create = || identities.create(&parameters, &identity);
        let remember = || async {
            match memory {
                Some(memory) => memory.remember(WAS_THERE).await,
                None => Ok(()),
            }
        };
        create_once(was_there, create, remember).await;
    };
    if stop.run_until_cancelled(work).await.is_some() {
        stop.cancelled().await;
    }
    Ok(())
}

/// Creates the identity unless the memory has it, and then records it. If the process ends in between, the next one
/// finds the identity in the API server.
async fn create_once<T, W, C, R>(was_there: impl Fn() -> W, create: impl Fn() -> C, remember: impl Fn() -> R)
where
    W: Future<Output = kube::Result<bool>>,
    C: Future<Output = kube::Result<T>>,
    R: Future<Output = kube::Result<()>>,
{
    let name = IdentityReference::CONTROLLER_IDENTITY_NAME;
    if until_done("read the Lease", was_there).await {
        return debug!("AWSClusterControllerIdentity/{name} was there before: it is not created again");
    }
    let created = || async {
        match create().await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    };
    let attempted = format!(
        "create AWSClusterControllerIdentity/{name} (or create it yourself, with the namespaces that may use it)"
    );
    if until_done(&attempted, created).await {
        info!("created AWSClusterControllerIdentity/{name} for all namespaces");
    }
    until_done("annotate the Lease", remember).await;
}

/// Repeats an attempt until it succeeds.
async fn until_done<T, F>(attempted: &str, attempt: impl Fn() -> F) -> T
where
    F: Future<Output = kube::Result<T>>,
{
    let backoff = Backoff::new(BackoffSettings { cap: MAX_DELAY, ..BackoffSettings::default() });
    let mut failure = RepeatedFailure::new(attempted);
    loop {
        match attempt().await {
            Ok(done) => {
                failure.succeeded();
                return done;
            }
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                debug!("failed to {attempted}, because it was changed meanwhile");
            }
            Err(error) => failure.failed(&error),
        }
        tokio::time::sleep(backoff.failed(attempted)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use kube::core::Status;

    use super::*;

    fn refused(code: u16, reason: &str) -> kube::Result<()> {
        Err(kube::Error::Api(Status::failure("refused", reason).with_code(code).boxed()))
    }

    /// A fake Lease with or without the annotation, and the answers to creations.
    struct World {
        was_there: Mutex<bool>,
        answers: Mutex<VecDeque<kube::Result<()>>>,
        tries: Mutex<usize>,
    }

    impl World {
        fn new(was_there: bool, answers: Vec<kube::Result<()>>) -> Self {
            Self { was_there: Mutex::new(was_there), answers: Mutex::new(answers.into()), tries: Mutex::new(0) }
        }

        /// The number of tries to create, and how long they took.
        async fn start_manager(&self) -> (usize, Duration) {
            let began = tokio::time::Instant::now();
            *self.tries.lock().unwrap() = 0;
            let was_there = || async { Ok(*self.was_there.lock().unwrap()) };
            let create = || async {
                *self.tries.lock().unwrap() += 1;
                let answer = self.answers.lock().unwrap().pop_front();
                answer.expect("no try after it was there")
            };
            let remember = || async {
                *self.was_there.lock().unwrap() = true;
                Ok(())
            };
            create_once(was_there, create, remember).await;
            (*self.tries.lock().unwrap(), began.elapsed())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_creation_is_repeated_with_growing_delays() {
        let mut answers = vec![refused(404, "NotFound")];
        answers.extend((0..9).map(|_| refused(500, "InternalError")));
        answers.push(Ok(()));
        let (tries, elapsed) = World::new(false, answers).start_manager().await;
        assert_eq!(tries, 11);
        // The delays are 1, 2, 4, 8, 16 and 32 s, then a minute each. Each delay may be shorter by a quarter.
        assert!(elapsed > Duration::from_secs(220) && elapsed < Duration::from_secs(305), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_identity_created_by_another_is_left_alone() {
        let world = World::new(false, vec![refused(409, "AlreadyExists")]);
        assert_eq!(world.start_manager().await, (1, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn an_identity_that_was_there_once_is_not_created_again() {
        for first in [Ok(()), refused(409, "AlreadyExists")] {
            let world = World::new(false, vec![first]);
            assert_eq!(world.start_manager().await.0, 1);
            // A user deletes the identity, and the manager restarts.
            assert_eq!(world.start_manager().await.0, 0);
        }
    }
}
