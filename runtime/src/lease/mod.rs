//! Leader election by a `coordination.k8s.io/v1` Lease, as client-go does it, so that this manager and Go programs can
//! compete for the same Lease.
//!
//! This process measures the expiry of another process's claim on its own monotonic clock, from the moment at which it
//! saw the record change. The times in the record are informative. Claims are updates with a resource version, so the
//! server refuses all but one of several concurrent candidates.

mod memory;
mod record;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::errors::described;
use crate::metrics::Metrics;
use crate::repeated_failure::RepeatedFailure;
pub use memory::LeaseMemory;
use record::{claimed, created, holder, released};

/// The flags `--leader-elect-*`, and the identity of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the Lease, which is the manager's own.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The holder identity of this process, unique among all processes.
    pub identity: String,
    /// How long other candidates wait after the last renewal before they acquire the Lease. Whole seconds. Default 15
    /// s.
    pub duration: Duration,
    /// How long the leader tries to renew the Lease before it gives up; shorter than `duration`. Default 10 s.
    pub renew_deadline: Duration,
    /// Time between attempts to acquire or renew the Lease. Default 2 s.
    pub retry_period: Duration,
}

impl LeaseSettings {
    /// The defaults for the Lease of this namespace and name, with an identity made of `POD_NAME` (or else the host's
    /// name) and a random part. A container that is restarted in its pod is another process, and must not mistake the
    /// claim of its predecessor for its own.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME")).ok();
        let host = host
            .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok())
            .unwrap_or_else(|| "unknown".to_owned());
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: format!("{}_{:032x}", host.trim(), fastrand::u128(..)),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn validate(&self) -> Result<(), LeaseError> {
        let rules = [
            (self.duration >= Duration::from_secs(1), "the lease duration must be at least one second"),
            // The Lease has its duration in whole seconds.
            (
                self.renew_deadline < Duration::from_secs(self.duration.as_secs()),
                "the renew deadline must be shorter than the whole seconds of the lease duration",
            ),
            (
                self.retry_period.mul_f64(1.2) < self.renew_deadline,
                "the retry period must be well below the renew deadline",
            ),
            (!self.retry_period.is_zero(), "the retry period must not be zero"),
        ];
        match rules.into_iter().find(|(kept, _)| !kept) {
            Some((_, rule)) => Err(LeaseError::Settings { rule }),
            None => Ok(()),
        }
    }
}

/// The reasons why leadership cannot be acquired, or has ended.
#[derive(Debug, Error)]
pub enum LeaseError {
    /// The durations contradict each other.
    #[error("leader election: {rule}")]
    Settings {
        /// The rule that is broken.
        rule: &'static str,
    },
    /// The Lease could not be renewed in time. Another process may lead from now on, so this process has to exit.
    #[error("lost the lease {name}: not renewed for {deadline:?}")]
    Expired {
        /// The Lease.
        name: String,
        /// The renew deadline.
        deadline: Duration,
    },
    /// Another process leads, so this process has to exit.
    #[error("lost the lease {name}: it is held by {holder}")]
    Taken {
        /// The Lease.
        name: String,
        /// The holder's identity.
        holder: String,
    },
}

/// A candidate for leadership.
pub struct LeaderElection {
    leases: Api<Lease>,
    settings: LeaseSettings,
    leading: Gauge,
    leads_until: watch::Sender<Option<Instant>>,
}

/// The result of an attempt to acquire a Lease.
enum Claim {
    Ours(Box<Lease>),
    Held(String),
    /// Another candidate was faster.
    Refused,
}

/// The record of the Lease at its last change that this process observed.
#[derive(Default)]
struct Observed {
    spec: Option<k8s_openapi::api::coordination::v1::LeaseSpec>,
    since: Option<Instant>,
}

impl Observed {
    /// Time since the record last changed.
    fn age(&mut self, lease: &Lease) -> Duration {
        if self.spec != lease.spec {
            self.spec.clone_from(&lease.spec);
            self.since = None;
        }
        self.since.get_or_insert_with(Instant::now).elapsed()
    }
}

impl LeaderElection {
    /// A candidate that does not hold the Lease yet.
    pub fn new(client: Client, settings: LeaseSettings, metrics: &Metrics) -> Result<Self, LeaseError> {
        settings.validate()?;
        let leading = metrics.leading(&settings.name);
        leading.set(0);
        Ok(Self {
            leases: Api::namespaced(client, &settings.namespace),
            settings,
            leading,
            leads_until: watch::Sender::new(None),
        })
    }

    /// The time until which this process certainly leads; `None` while it does not lead. A suspended process may resume
    /// before it notices that another process leads. Therefore, work that only the leader may do must start before this
    /// time.
    pub fn leads_until(&self) -> watch::Receiver<Option<Instant>> {
        self.leads_until.subscribe()
    }

    /// Waits for the Lease, runs `work` while holding it, and releases it after the work has succeeded, so that the
    /// next process need not wait. `stop` ends the waiting. The work has to observe `stop` itself; the Lease is held
    /// until the work has ended.
    ///
    /// If the Lease is lost, the work is dropped and an error is returned; the process must then exit. If the work
    /// fails, the Lease is left to expire, because parts of the work may still be running.
    pub async fn lead<Work, E>(self, stop: &CancellationToken, work: impl FnOnce() -> Work) -> Result<(), E>
    where
        Work: Future<Output = Result<(), E>>,
        E: From<LeaseError>,
    {
        let claim = tokio::select! {
            claim = self.acquire() => claim,
            () = stop.cancelled() => return Ok(()),
        };
        let (mut lease, renewed) = claim;
        info!(lease = self.settings.name, identity = self.settings.identity, "leading");
        self.leading.set(1);
        self.renewed(renewed);
        let result = tokio::select! {
            biased;
            lost = self.hold(&mut lease, renewed) => Err(lost.into()),
            result = work() => result,
        };
        self.leading.set(0);
        self.leads_until.send_replace(None);
        if result.is_ok() {
            self.release(&lease).await;
        }
        result
    }

    /// Waits until this process holds the Lease. Returns the Lease, and the time at which the successful request was
    /// sent.
    async fn acquire(&self) -> (Lease, Instant) {
        let mut observed = Observed::default();
        let mut failure = self.failure("take");
        loop {
            let started = Instant::now();
            let claim = timeout(self.request_timeout(), self.claim(&mut observed)).await;
            follow(&mut failure, &claim);
            match claim {
                Ok(Ok(Claim::Ours(lease))) => return (*lease, started),
                Ok(Ok(Claim::Held(holder))) => debug!(lease = self.settings.name, holder, "standing by"),
                Ok(Ok(Claim::Refused)) => debug!(lease = self.settings.name, "another candidate was faster"),
                Ok(Err(_)) | Err(_) => {}
            }
            // Jitter keeps candidates from colliding at every attempt.
            sleep(self.settings.retry_period.mul_f64(1.0 + fastrand::f64() / 5.0)).await;
        }
    }

    /// Acquires the Lease if it has no holder, has expired, or is held by this process.
    async fn claim(&self, observed: &mut Observed) -> kube::Result<Claim> {
        let parameters = PostParams::default();
        let Some(current) = self.leases.get_opt(&self.settings.name).await? else {
            return answer(self.leases.create(&parameters, &created(&self.settings)).await);
        };
        let age = observed.age(&current);
        if let Some(other) = holder(&current).filter(|holder| *holder != self.settings.identity)
            && age < record::duration(&current).unwrap_or(self.settings.duration)
        {
            return Ok(Claim::Held(other.to_owned()));
        }
        answer(self.leases.replace(&self.settings.name, &parameters, &claimed(&current, &self.settings)).await)
    }

    /// Renews the Lease until renewal fails for too long or another process holds the Lease. `lease` is the last answer
    /// of the server.
    async fn hold(&self, lease: &mut Lease, mut renewed: Instant) -> LeaseError {
        let LeaseSettings { name, renew_deadline, retry_period, .. } = &self.settings;
        loop {
            sleep(*retry_period).await;
            match timeout_at(renewed + *renew_deadline, self.renew(lease)).await {
                Ok(Ok(started)) => {
                    renewed = started;
                    self.renewed(renewed);
                }
                Ok(Err(holder)) => {
                    return LeaseError::Taken { name: name.clone(), holder };
                }
                Err(_) => {
                    return LeaseError::Expired { name: name.clone(), deadline: *renew_deadline };
                }
            }
        }
    }

    fn renewed(&self, at: Instant) {
        self.leads_until.send_replace(Some(at + self.settings.renew_deadline));
    }

    /// Renews the Lease once, with as many attempts as necessary. Returns the time at which the successful request was
    /// sent, or the identity of another holder.
    async fn renew(&self, lease: &mut Lease) -> Result<Instant, String> {
        let mut failure = self.failure("renew");
        loop {
            let started = Instant::now();
            let claim = timeout(self.request_timeout(), self.renew_once(lease)).await;
            follow(&mut failure, &claim);
            match claim {
                Ok(Ok(Claim::Ours(renewed))) => {
                    *lease = *renewed;
                    return Ok(started);
                }
                Ok(Ok(Claim::Held(holder))) => return Err(holder),
                Ok(Ok(Claim::Refused)) => debug!(lease = self.settings.name, "the lease changed while it was renewed"),
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(self.settings.retry_period).await;
        }
    }

    async fn renew_once(&self, lease: &Lease) -> kube::Result<Claim> {
        let next = claimed(lease, &self.settings);
        match answer(self.leases.replace(&self.settings.name, &PostParams::default(), &next).await)? {
            // Another client changed or deleted the Lease, so the record is read again. Its holder was observed just
            // now, so the record has not expired.
            Claim::Refused => self.claim(&mut Observed::default()).await,
            claim => Ok(claim),
        }
    }

    async fn release(&self, lease: &Lease) {
        let next = released(lease);
        let parameters = PostParams::default();
        let release = self.leases.replace(&self.settings.name, &parameters, &next);
        match timeout(self.request_timeout(), release).await {
            Ok(Ok(_)) => info!(lease = self.settings.name, "released the lease"),
            Ok(Err(error)) => warn!(
                lease = self.settings.name,
                error = described(&error),
                "failed to release the lease, it will expire"
            ),
            Err(_) => warn!(lease = self.settings.name, "releasing the lease timed out, it will expire"),
        }
    }

    fn failure(&self, verb: &str) -> RepeatedFailure {
        RepeatedFailure::new(format!("{verb} the Lease {}/{}", self.settings.namespace, self.settings.name))
    }

    /// Two attempts fit into the renew deadline even if the first one gets no answer.
    fn request_timeout(&self) -> Duration {
        self.settings.renew_deadline / 2
    }
}

/// Logs the first of several failed attempts, and the end of the failures.
fn follow(failure: &mut RepeatedFailure, claim: &Result<kube::Result<Claim>, Elapsed>) {
    match claim {
        Ok(Ok(_)) => failure.succeeded(),
        Ok(Err(error)) => failure.failed(error),
        Err(_) => failure.timed_out(),
    }
}

fn answer(result: kube::Result<Lease>) -> kube::Result<Claim> {
    match result {
        Ok(lease) => Ok(Claim::Ours(Box::new(lease))),
        Err(kube::Error::Api(status))
            if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
        {
            Ok(Claim::Refused)
        }
        Err(error) => Err(error),
    }
}
