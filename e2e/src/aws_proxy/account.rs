//! One AWS account of a test: its keys, what it lets roles do, how its instances behave, and its part of the journal.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::computers::Boot;
use super::faults::{Fault, InjectedFault};
use super::held::{self, UnansweredLaunch};
use super::journal::{Journal, Mark, RawLaunch};
use super::limits::Limits;
use super::sessions::Session;
use super::state::{AccountState, KeyEntry, Shared};

/// How every secret access key begins, to look for them all at once.
pub const SECRET_KEYS: &str = "secret/access/key/that/nobody/prints/";

/// A pair that signs requests. The secret is never checked, but unlike any other text, so that a test can look for it
/// in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Public half, 20 characters.
    pub access_key_id: String,
    /// Secret half.
    pub secret_access_key: String,
}

/// An AWS account that nobody else uses. Cheap to clone; it stays valid as long as its [`AwsProxy`](super::AwsProxy).
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) shared: Arc<Shared>,
    pub(super) id: String,
    pub(super) key: AccessKey,
    pub(super) user_key: AccessKey,
}

impl Account {
    /// Twelve digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key for the manager under test.
    pub fn key(&self) -> &AccessKey {
        &self.key
    }

    /// The key of the human who owns the account: set-up, changes by hand, inspection. Calls with it are not the
    /// manager's.
    pub fn user_key(&self) -> &AccessKey {
        &self.user_key
    }

    /// One more key of this account, for rotations.
    pub fn another_key(&self) -> AccessKey {
        self.shared.with(|state| state.issue_key(KeyEntry::of(&self.id)))
    }

    /// Where to send requests to.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Refuses a key from now on (`AuthFailure`, at STS `InvalidClientTokenId`), also a temporary one.
    pub fn revoke(&self, access_key_id: &str) {
        self.set_revoked(access_key_id, true);
    }

    /// Takes [`Account::revoke`] back.
    pub fn restore(&self, access_key_id: &str) {
        self.set_revoked(access_key_id, false);
    }

    fn set_revoked(&self, access_key_id: &str, revoked: bool) {
        self.shared.with(|state| {
            if let Some(key) = state.keys.get_mut(access_key_id).filter(|key| key.account == self.id) {
                key.revoked = revoked;
            }
        });
    }

    /// The ARN of a role of this account.
    pub fn role_arn(&self, name: &str) -> String {
        format!("arn:aws:iam::{}:role/{name}", self.id)
    }

    /// Lets any key of any account assume this role of this account; with an external id only calls that pass it.
    /// Until then AssumeRole answers `AccessDenied`.
    pub fn allow_assume_role(&self, role_arn: &str, external_id: Option<&str>) {
        self.change(|account| {
            account
                .roles
                .insert(role_arn.to_owned(), external_id.map(str::to_owned))
        });
    }

    /// Takes [`Account::allow_assume_role`] back; temporary keys handed out before stay valid.
    pub fn refuse_assume_role(&self, role_arn: &str) {
        self.change(|account| account.roles.remove(role_arn));
    }

    /// How long instances are shown as `pending` after their launch, default zero. Holds at once for all instances of
    /// the account: a test keeps them pending with a long time and lets them run with zero.
    pub fn set_pending(&self, duration: Duration) {
        self.change(|account| account.instances.pending = duration);
    }

    /// How long instances are shown as `stopping` after StopInstances, default zero; holds at once for all. A start
    /// makes them `pending` again for [as long as a launch](Self::set_pending).
    pub fn set_stopping(&self, duration: Duration) {
        self.change(|account| account.instances.stopping = duration);
    }

    /// How long instances stay hidden after their launch, default zero; holds at once for all. DescribeInstances leaves
    /// them out, whatever the filter; every call that names them by id is answered `InvalidInstanceID.NotFound`. The
    /// user sees and changes them.
    pub fn set_hidden(&self, duration: Duration) {
        self.change(|account| account.instances.hidden = duration);
    }

    /// How long instances are shown as `shutting-down` after their termination, default zero; holds at once for all.
    pub fn set_shutting_down(&self, duration: Duration) {
        self.change(|account| account.instances.shutting_down = duration);
    }

    /// How the computers of instances boot that are launched from now on with this text in their `Name` tag; the last
    /// such word counts. All others boot at once.
    pub fn set_boot(&self, name: &str, boot: Boot) {
        self.change(|account| account.computers.set_boot(name, boot));
    }

    /// Which version of Kubernetes is installed on an image. Unless that is said, nodes have the version of the control
    /// plane that they join.
    pub fn set_image_version(&self, image: &str, version: &str) {
        self.change(|account| account.computers.install(image, version));
    }

    /// How long a target stays `initial` after its registration, default zero; holds at once for all.
    pub fn set_initial(&self, duration: Duration) {
        self.change(|account| account.targets.initial = duration);
    }

    /// Whether targets stay `draining` for good, however short the delay of their group is.
    pub fn set_stuck_draining(&self, stuck: bool) {
        self.change(|account| account.targets.stuck = stuck);
    }

    /// Whether nodes report that they serve. Without, as at first, every running instance serves; with, those alone
    /// that [`Account::set_serving`] names: only they are healthy targets.
    pub fn set_nodes_report(&self, report: bool) {
        self.change(|account| account.targets.set_reported(report));
    }

    /// Whether an instance serves its ports, where [nodes report](Self::set_nodes_report) it.
    pub fn set_serving(&self, instance: &str, serves: bool) {
        self.change(|account| account.targets.set_serving(instance, serves));
    }

    /// Lets something go wrong from now on.
    pub fn fault(&self, fault: Fault) -> InjectedFault {
        let added = self.change(|account| account.faults.add(fault, Instant::now()));
        InjectedFault {
            account: self.clone(),
            index: added.unwrap_or_default(),
        }
    }

    /// Throttles EC2's calls by its published token buckets, full now, and refilled `faster` times as fast as AWS does
    /// it (1 is AWS; more for managers that are hurried; 0 for never). What is over is answered `RequestLimitExceeded`.
    pub fn throttle(&self, faster: u32) {
        self.change(|account| account.limits = Some(Limits::new(faster)));
    }

    /// Takes [`Account::throttle`] back.
    pub fn unthrottle(&self) {
        self.change(|account| account.limits = None);
    }

    /// The launches that have had their effect while their answer is [held back](Fault::delay), and whose caller is
    /// still there to get it.
    pub fn unanswered_launches(&self) -> Vec<UnansweredLaunch> {
        let launches = self.change(|account| account.unanswered.list());
        launches.unwrap_or_default()
    }

    /// Waits until there are so many of [`Account::unanswered_launches`] at least, and gives them.
    pub async fn some_unanswered_launches(
        &self,
        at_least: usize,
        within: Duration,
    ) -> anyhow::Result<Vec<UnansweredLaunch>> {
        let changes = self.change(|account| account.unanswered.follow());
        let changes = changes.context("the account does not exist")?;
        held::some(changes, at_least, within).await
    }

    /// All RunInstances as they came, [those of the user](Account::user_key) included, in the order of the journal.
    pub fn raw_launches(&self) -> Vec<RawLaunch> {
        let launches = self.change(|account| account.raw_launches.clone());
        launches.unwrap_or_default()
    }

    /// All sessions of the account's roles that were ever handed out, to whomever.
    pub fn sessions(&self) -> Vec<Session> {
        let sessions = self.change(|account| account.sessions.clone());
        sessions.unwrap_or_default()
    }

    /// All calls of this account, the user's included.
    pub fn journal(&self) -> Journal {
        self.journal_since(Mark(0))
    }

    /// The calls of this account without those of its [user](Account::user_key).
    pub fn manager_journal(&self) -> Journal {
        self.journal().except(&self.user_key.access_key_id)
    }

    /// The calls answered after the mark was taken.
    pub fn journal_since(&self, mark: Mark) -> Journal {
        self.shared
            .journal(mark, |call| call.account.as_deref() == Some(self.id.as_str()))
    }

    /// The end of the journal as it is now.
    pub fn mark(&self) -> Mark {
        self.shared.with(|state| Mark(state.journal.len()))
    }

    /// Changes the account, or looks at it; none for an account that the proxy does not know.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut AccountState) -> T) -> Option<T> {
        self.shared.with(|state| state.accounts.get_mut(&self.id).map(change))
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AccessKey")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

impl AccessKey {
    pub(super) fn numbered(number: u64) -> Self {
        Self {
            access_key_id: format!("AKIA{number:016}"),
            secret_access_key: format!("{SECRET_KEYS}{number:04}"),
        }
    }
}
