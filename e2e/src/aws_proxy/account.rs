//! One AWS account of a test: its keys, its assumable roles, the timing of its instances, and its part of the journal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::caller::AccessKey;
use super::computers::Boot;
use super::faults::Fault;
use super::journal::{Journal, Mark, RawLaunch};
use super::limits::Limits;
use super::sessions::Session;
use super::state::{AccountState, KeyEntry, Shared};
use super::unanswered::{self, UnansweredLaunch};

/// The common prefix of all secret access keys, so that one search finds any of them.
pub const SECRET_KEYS: &str = "secret/access/key/that/nobody/prints/";

/// An AWS account for one test alone. Clones share the account, which exists as long as its
/// [`AwsProxy`](super::AwsProxy).
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) shared: Arc<Shared>,
    pub(super) id: String,
    pub(super) key: AccessKey,
    pub(super) user_key: AccessKey,
    pub(super) node_key: AccessKey,
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

    /// The key of the human who owns the account, for set-up, changes by hand and inspection. Calls with this key do
    /// not count as the manager's.
    pub fn user_key(&self) -> &AccessKey {
        &self.user_key
    }

    /// The key that the account's nodes have from their instance profiles. Their calls do not count as the manager's.
    pub fn node_key(&self) -> &AccessKey {
        &self.node_key
    }

    /// Another key of this account, for key rotations.
    pub fn another_key(&self) -> AccessKey {
        self.shared.with(|state| state.issue_key(KeyEntry::of(&self.id)))
    }

    /// The URL for requests of every service.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Refuses a key from now on (`AuthFailure`, at STS `InvalidClientTokenId`). The key may be temporary.
    pub fn revoke(&self, access_key_id: &str) {
        self.set_revoked(access_key_id, true);
    }

    /// Reverts [`Account::revoke`].
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

    /// Lets any key of any account assume this role of this account; with an external id, only in calls that pass this
    /// id. By default AssumeRole answers `AccessDenied`.
    pub fn allow_assume_role(&self, role_arn: &str, external_id: Option<&str>) {
        self.change(|account| account.roles.insert(role_arn.to_owned(), external_id.map(str::to_owned)));
    }

    /// Sets how long instances are shown as `pending` after their launch, default zero. The setting applies at once to
    /// all instances of the account: a test keeps them pending with a long time and lets them run with zero.
    pub fn set_pending(&self, duration: Duration) {
        self.change(|account| account.instances.pending = duration);
    }

    /// Sets how long instances are shown as `stopping` after StopInstances, default zero; the setting applies at once
    /// to all instances. After a start, instances are `pending` again for [as long as after a
    /// launch](Self::set_pending).
    pub fn set_stopping(&self, duration: Duration) {
        self.change(|account| account.instances.stopping = duration);
    }

    /// Sets how long instances stay hidden after their launch, default zero; the setting applies at once to all
    /// instances. DescribeInstances leaves hidden instances out, whatever the filter; every call that names one by id
    /// is answered with `InvalidInstanceID.NotFound`. Calls with the user's key see and change hidden instances.
    pub fn set_hidden(&self, duration: Duration) {
        self.change(|account| account.instances.hidden = duration);
    }

    /// Reserves capacity in a zone, under this id.
    pub fn reserve_capacity(&self, id: &str, zone: &str) {
        self.change(|account| {
            account.reservations.insert(id.to_owned(), zone.to_owned());
        });
    }

    /// Adds a public IPv4 pool with so many free addresses.
    pub fn add_address_pool(&self, id: &str, free: u32) {
        self.change(|account| {
            account.address_pools.insert(id.to_owned(), free);
        });
    }

    /// Sets whether EC2 keeps a Dedicated Host that is to be released, as it keeps those for Mac instances for a day.
    pub fn keep_host(&self, id: &str, keeps: bool) {
        self.change(|account| {
            if keeps {
                account.hosts.kept.insert(id.to_owned());
            } else {
                account.hosts.kept.remove(id);
            }
        });
    }

    /// Sets how long instances are shown as `shutting-down` after their termination, default zero; the setting applies
    /// at once to all instances.
    pub fn set_shutting_down(&self, duration: Duration) {
        self.change(|account| account.instances.shutting_down = duration);
    }

    /// Sets the boot behaviour of instances launched from now on whose `Name` tag contains this text. Of several
    /// matching texts the last one set counts. Instances without a matching text boot at once.
    pub fn set_boot(&self, name: &str, boot: Boot) {
        self.change(|account| account.computers.set_boot(name, boot));
    }

    /// Sets the version of Kubernetes that is installed on an image. By default, nodes have the version of the control
    /// plane that they join.
    pub fn set_image_version(&self, image: &str, version: &str) {
        self.change(|account| account.computers.install(image, version));
    }

    /// Sets whether targets stay `draining` for ever, whatever the deregistration delay of their group.
    pub fn set_stuck_draining(&self, stuck: bool) {
        self.change(|account| account.targets.stuck = stuck);
    }

    /// Sets whether nodes report which instances serve their ports. By default every running instance serves; with
    /// reports, only the instances that [`Account::set_serving`] names do. Only serving instances are healthy targets.
    pub fn set_nodes_report(&self, report: bool) {
        self.change(|account| account.targets.set_reported(report));
    }

    /// Sets whether an instance serves its ports, where [nodes report](Self::set_nodes_report) it.
    pub fn set_serving(&self, instance: &str, serves: bool) {
        self.change(|account| account.targets.set_serving(instance, serves));
    }

    /// Injects a fault from now on.
    pub fn fault(&self, fault: Fault) -> InjectedFault {
        let added = self.change(|account| account.faults.add(fault, Instant::now()));
        InjectedFault { account: self.clone(), index: added.unwrap_or_default() }
    }

    /// Throttles EC2's calls by its published token buckets, which start full and are refilled `faster` times as fast
    /// as in AWS (1 is AWS; more for managers with shortened periods; 0 for never). Calls beyond the limit are answered
    /// with `RequestLimitExceeded`.
    pub fn throttle(&self, faster: u32) {
        self.change(|account| account.limits = Some(Limits::new(faster)));
    }

    /// The launches that have taken effect, whose answer is [held back](Fault::delay), and whose caller still waits for
    /// the answer.
    pub fn unanswered_launches(&self) -> Vec<UnansweredLaunch> {
        let launches = self.change(|account| account.unanswered.list());
        launches.unwrap_or_default()
    }

    /// Waits until at least this many launches are [unanswered](Account::unanswered_launches), and returns them.
    pub async fn some_unanswered_launches(
        &self,
        at_least: usize,
        within: Duration,
    ) -> anyhow::Result<Vec<UnansweredLaunch>> {
        let changes = self.change(|account| account.unanswered.follow());
        let changes = changes.context("the account does not exist")?;
        unanswered::some(changes, at_least, within).await
    }

    /// All RunInstances requests unredacted, [those of the user](Account::user_key) included, in the order of the
    /// journal.
    pub fn raw_launches(&self) -> Vec<RawLaunch> {
        let launches = self.change(|account| account.raw_launches.clone());
        launches.unwrap_or_default()
    }

    /// All sessions of the account's roles that STS ever issued, to any caller.
    pub fn sessions(&self) -> Vec<Session> {
        let sessions = self.change(|account| account.sessions.clone());
        sessions.unwrap_or_default()
    }

    /// All calls of this account, including those of the user.
    pub fn journal(&self) -> Journal {
        self.journal_since(Mark(0))
    }

    /// The calls of this account without those of its [user](Account::user_key), its [nodes](Account::node_key) and of
    /// [checks](Account::checks_journal).
    pub fn manager_journal(&self) -> Journal {
        self.manager_journal_since(Mark(0))
    }

    /// The calls of [`Account::manager_journal`] that were answered after the mark was taken.
    pub fn manager_journal_since(&self, mark: Mark) -> Journal {
        let others = self.journal_since(mark).except(&self.user_key.access_key_id);
        let others = others.except(&self.node_key.access_key_id);
        others.matching(|call| !call.is_check && !call.by_url)
    }

    /// The calls of the account's [nodes](Account::node_key), and their uses of presigned URLs.
    pub fn nodes_journal(&self) -> Journal {
        let key = &self.node_key.access_key_id;
        self.journal().matching(|call| call.by_url || call.access_key_id == *key)
    }

    /// The calls of the checks of infrastructure.
    pub fn checks_journal(&self) -> Journal {
        self.journal().matching(|call| call.is_check)
    }

    /// The calls answered after the mark was taken.
    pub fn journal_since(&self, mark: Mark) -> Journal {
        self.shared.journal(mark, |call| call.account.as_deref() == Some(self.id.as_str()))
    }

    /// The current end of the journal.
    pub fn mark(&self) -> Mark {
        self.shared.with(|state| Mark(state.journal.len()))
    }

    /// Reads or changes the account; `None` for an account that the proxy does not know.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut AccountState) -> T) -> Option<T> {
        self.shared.with(|state| state.accounts.get_mut(&self.id).map(change))
    }
}

impl AccessKey {
    pub(super) fn numbered(number: u64) -> Self {
        Self { access_key_id: format!("AKIA{number:016}"), secret_access_key: format!("{SECRET_KEYS}{number:04}") }
    }
}

/// An injected fault. Dropping this value does not end the fault.
#[derive(Clone, Debug)]
pub struct InjectedFault {
    account: Account,
    index: usize,
}

impl InjectedFault {
    /// Ends the fault: later calls do not meet it, and the answers that it holds back are sent.
    pub fn lift(&self) {
        self.account.change(|account| account.faults.lift(self.index));
    }

    /// The number of calls that met the fault.
    pub fn hits(&self) -> u64 {
        self.account.change(|account| account.faults.hits(self.index)).unwrap_or_default()
    }
}
