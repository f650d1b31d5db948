//! The API server: typed objects under one resource version, finalizers, preconditions, and a log of changes to watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use capa_api::cluster::AWSCluster;
use capa_api::cluster::status::AWSClusterStatus;
use capa_api::contract::{Cluster, Machine};
use capa_api::machine::{AWSMachine, AWSMachineStatus, LaunchRecord};
use jiff::{Timestamp, Unit};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource, ResourceExt};

use crate::management_cluster::ManagementCluster;
use crate::names::machine_number;
use crate::time::START;

/// An object of a watched kind.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    AwsMachine(Arc<AWSMachine>),
    AwsCluster(Arc<AWSCluster>),
    Machine(Arc<Machine>),
    Cluster(Arc<Cluster>),
}

impl Object {
    /// Which of the watches it comes by.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::AwsMachine(_) => Kind::AwsMachine,
            Self::AwsCluster(_) => Kind::AwsCluster,
            Self::Machine(_) => Kind::Machine,
            Self::Cluster(_) => Kind::Cluster,
        }
    }

    pub(crate) fn uid(&self) -> String {
        let uid = match self {
            Self::AwsMachine(object) => object.uid(),
            Self::AwsCluster(object) => object.uid(),
            Self::Machine(object) => object.uid(),
            Self::Cluster(object) => object.uid(),
        };
        uid.unwrap_or_default()
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::AwsMachine(object) => object.name_any(),
            Self::AwsCluster(object) => object.name_any(),
            Self::Machine(object) => object.name_any(),
            Self::Cluster(object) => object.name_any(),
        }
    }
}

/// A watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    AwsMachine,
    AwsCluster,
    Machine,
    Cluster,
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Applied(Object),
    Deleted(Object),
}

impl Change {
    pub(crate) fn object(&self) -> &Object {
        let (Self::Applied(object) | Self::Deleted(object)) = self;
        object
    }
}

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The object has changed since it was read.
    Conflict,
    /// There is no such object.
    Gone,
}

/// The objects of one kind by name; all live in one namespace.
pub(crate) type Table<K> = BTreeMap<String, Arc<K>>;

/// The stored objects, which a snapshot contains.
#[derive(Clone, Default)]
pub(crate) struct Stored {
    pub(crate) aws_machines: Table<AWSMachine>,
    pub(crate) aws_clusters: Table<AWSCluster>,
    pub(crate) machines: Table<Machine>,
    pub(crate) clusters: Table<Cluster>,
    pub(crate) secrets: Table<Secret>,
}

/// The API server of a management cluster.
pub(crate) struct Server {
    /// The server's clock, for `creationTimestamp`.
    pub(crate) now: Timestamp,
    pub(crate) stored: Stored,
    /// How long the server answers no request: until then.
    pub(crate) unreachable_until: Option<Timestamp>,
    of: ManagementCluster,
    version: u64,
    uids: u64,
    changes: Vec<Change>,
}

/// A kind that is kept in a table and watched.
pub(crate) trait Watched: Resource<DynamicType = ()> + Clone + Send + Sync + 'static {
    fn table(stored: &Stored) -> &Table<Self>;
    fn table_mut(stored: &mut Stored) -> &mut Table<Self>;
    fn object(this: Arc<Self>) -> Object;
}

macro_rules! watched {
    ($kind:ty, $table:ident, $object:ident) => {
        impl Watched for $kind {
            fn table(stored: &Stored) -> &Table<Self> {
                &stored.$table
            }

            fn table_mut(stored: &mut Stored) -> &mut Table<Self> {
                &mut stored.$table
            }

            fn object(this: Arc<Self>) -> Object {
                Object::$object(this)
            }
        }
    };
}

watched!(AWSMachine, aws_machines, AwsMachine);
watched!(AWSCluster, aws_clusters, AwsCluster);
watched!(Machine, machines, Machine);
watched!(Cluster, clusters, Cluster);

impl Server {
    /// A server without objects.
    pub(crate) fn new(of: ManagementCluster) -> Self {
        Self {
            now: START,
            stored: Stored::default(),
            unreachable_until: None,
            of,
            version: 0,
            uids: 0,
            changes: Vec::new(),
        }
    }

    /// The changes since the last call of this function.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Creates an object under a new UID.
    pub(crate) fn create<K: Watched>(&mut self, mut object: K) -> Arc<K> {
        self.uids += 1;
        let created = Time(self.now);
        let metadata = object.meta_mut();
        metadata.creation_timestamp = Some(created);
        metadata.uid = Some(uid(self.of, self.uids));
        metadata.generation = Some(1);
        self.commit(object)
    }

    /// Removes an object whatever holds it.
    pub(crate) fn remove<K: Watched>(&mut self, name: &str) {
        let removed = K::table_mut(&mut self.stored).remove(name);
        let changes = removed.map(|object| Change::Deleted(K::object(object)));
        self.changes.extend(changes);
    }

    /// An object as it is now.
    pub(crate) fn get<K: Watched>(&self, name: &str) -> Option<Arc<K>> {
        K::table(&self.stored).get(name).cloned()
    }

    /// The numbers of the machines with an open attempt to launch.
    pub(crate) fn open_attempts(&self) -> Vec<usize> {
        let open = self.stored.aws_machines.values().filter(|machine| {
            let status = machine.status.as_ref();
            status.is_some_and(AWSMachineStatus::has_open_attempt)
        });
        open.filter_map(|machine| machine_number(&machine.name_any())).collect()
    }

    /// Changes metadata or spec as a user does, without precondition; the generation counts changed specs.
    pub(crate) fn edit<K: Watched>(&mut self, name: &str, change: impl FnOnce(&mut K)) {
        let Some(object) = self.get::<K>(name) else { return };
        let mut object = K::clone(&object);
        change(&mut object);
        self.commit(object);
    }

    /// Changes an object, refused unless it still has this resource version.
    pub(crate) fn update<K: Watched>(
        &mut self,
        name: &str,
        version: Option<&str>,
        change: impl FnOnce(&mut K),
    ) -> Result<Arc<K>, Refusal> {
        let current = self.get::<K>(name).ok_or(Refusal::Gone)?;
        if current.meta().resource_version.as_deref() != version {
            return Err(Refusal::Conflict);
        }
        let mut object = K::clone(&current);
        change(&mut object);
        Ok(self.commit(object))
    }

    /// Asks for the deletion of an object: at once without finalizers, else it is marked.
    pub(crate) fn delete<K: Watched>(&mut self, name: &str, now: Timestamp) {
        let Some(object) = self.get::<K>(name) else { return };
        if object.meta().deletion_timestamp.is_some() {
            return;
        }
        let mut object = K::clone(&object);
        let metadata = object.meta_mut();
        metadata.deletion_timestamp = Some(Time(now));
        metadata.generation = metadata.generation.map(|generation| generation + 1);
        self.commit(object);
    }

    /// Puts everything back to what a snapshot held. Versions go on rising, as with a bumped revision.
    pub(crate) fn restore(&mut self, snapshot: &Stored) {
        let lost = std::mem::take(&mut self.stored);
        self.lose(&lost.aws_machines, &snapshot.aws_machines);
        self.lose(&lost.aws_clusters, &snapshot.aws_clusters);
        self.lose(&lost.machines, &snapshot.machines);
        self.lose(&lost.clusters, &snapshot.clusters);
        self.stored.secrets = snapshot.secrets.clone();
        self.bring_back(&snapshot.clusters);
        self.bring_back(&snapshot.aws_clusters);
        self.bring_back(&snapshot.machines);
        self.bring_back(&snapshot.aws_machines);
    }

    fn lose<K: Watched>(&mut self, before: &Table<K>, snapshot: &Table<K>) {
        let lost = before.iter().filter(|(name, _)| !snapshot.contains_key(*name));
        self.changes.extend(lost.map(|(_, object)| Change::Deleted(K::object(object.clone()))));
    }

    fn bring_back<K: Watched>(&mut self, snapshot: &Table<K>) {
        for object in snapshot.values() {
            self.commit(K::clone(object));
        }
    }

    fn commit<K: Watched>(&mut self, mut object: K) -> Arc<K> {
        self.version += 1;
        object.meta_mut().resource_version = Some(self.version.to_string());
        let gone = object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty();
        let object = Arc::new(object);
        let table = K::table_mut(&mut self.stored);
        if gone {
            table.remove(&object.name_any());
            self.changes.push(Change::Deleted(K::object(object.clone())));
        } else {
            table.insert(object.name_any(), object.clone());
            self.changes.push(Change::Applied(K::object(object.clone())));
        }
        object
    }
}

/// The UID of the object that a management cluster has created at this place. None is the beginning of another one.
fn uid(of: ManagementCluster, number: u64) -> String {
    let cluster = match of {
        ManagementCluster::Main => 'a',
        ManagementCluster::Neighbour => 'b',
    };
    format!("{cluster}0000000-0000-4000-8000-{number:012}")
}

/// A machine's status as it is once written: times in JSON are whole seconds.
pub(crate) fn machine_status_as_stored(mut status: AWSMachineStatus) -> AWSMachineStatus {
    if let Some(
        LaunchRecord::Requested(attempt) | LaunchRecord::Refused(attempt) | LaunchRecord::Answered { attempt, .. },
    ) = &mut status.launch
    {
        attempt.request.requested_at = whole_seconds(&attempt.request.requested_at);
    }
    conditions_as_stored(&mut status.conditions);
    status
}

/// A cluster's status as it is once written.
pub(crate) fn cluster_status_as_stored(mut status: AWSClusterStatus) -> AWSClusterStatus {
    conditions_as_stored(&mut status.conditions);
    status
}

fn conditions_as_stored(conditions: &mut [Condition]) {
    for condition in conditions {
        condition.last_transition_time = whole_seconds(&condition.last_transition_time);
    }
}

fn whole_seconds(time: &Time) -> Time {
    let rounding = jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor);
    Time(time.0.round(rounding).unwrap_or(time.0))
}
