//! Prints the progress of waiting from the objects' own conditions.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail};
use capa_e2e::{
    TestEnvironment,
    objects::{self, Condition},
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use tokio::time::{Instant, sleep};

use crate::{
    news::{self, Reported},
    screen::Screen,
};

/// The API version of Cluster API's kinds.
pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
/// The API version of this provider's kinds.
pub(crate) const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// The interval between two reads of the objects.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The phase, reported like a condition where the conditions of core's kinds only repeat those of this provider's
/// kinds.
const PHASE: &str = "phase";

/// The kinds in the order of the report, with the condition types that show the progress. Other conditions are
/// summaries of these.
const KINDS: [(&str, &str, &[&str]); 4] = [
    (
        OURS,
        "AWSCluster",
        &[
            "IdentityReady",
            "NetworkReady",
            "VpcReady",
            "SubnetsReady",
            "NatGatewaysReady",
            "RouteTablesReady",
            "LoadBalancerReady",
            "Ready",
            "ControlPlaneEndpointReady",
        ],
    ),
    (CORE, "Cluster", &[PHASE]),
    (
        OURS,
        "AWSMachine",
        &["IdentityReady", "NetworkReady", "BootstrapDataReady", "InstanceReady", "ControlPlaneTargetsReady"],
    ),
    (CORE, "Machine", &[PHASE, "NodeReady"]),
];

/// The objects of one read, by kind.
pub(crate) type Seen = BTreeMap<&'static str, Vec<DynamicObject>>;

/// The objects of a namespace, and the reports about them.
pub(crate) struct Watch {
    kinds: Vec<Kind>,
}

struct Kind {
    name: &'static str,
    api: Api<DynamicObject>,
    types: &'static [&'static str],
    reported: Reported,
}

impl Watch {
    pub(crate) async fn new(environment: &TestEnvironment) -> anyhow::Result<Self> {
        let mut kinds = Vec::new();
        for (api_version, name, types) in KINDS {
            kinds.push(Kind {
                name,
                api: environment.api(api_version, name).await?,
                types,
                reported: Reported::default(),
            });
        }
        Ok(Self { kinds })
    }

    /// Reads all objects, and prints the changes.
    pub(crate) async fn look(&mut self, screen: &Screen) -> anyhow::Result<Seen> {
        let mut seen = Seen::new();
        for kind in &mut self.kinds {
            seen.insert(kind.name, kind.look(screen).await?);
        }
        Ok(seen)
    }

    /// Prints every change until `reached` returns true.
    pub(crate) async fn until(
        &mut self,
        screen: &Screen,
        within: Duration,
        reached: impl Fn(&Seen) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            if reached(&self.look(screen).await?) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the wait took longer than {} s", within.as_secs());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Kind {
    async fn look(&mut self, screen: &Screen) -> anyhow::Result<Vec<DynamicObject>> {
        let listed = self.api.list(&ListParams::default()).await;
        let listed = listed.with_context(|| format!("list the objects of kind {}", self.name))?.items;
        let now: Vec<_> = listed.iter().map(|object| (object.name_any(), says(object, self.types))).collect();
        for news in self.reported.update(&now) {
            screen.event(&news.parts(self.name), news.message())?;
        }
        let gone = self.reported.gone(&now);
        if !gone.is_empty() {
            screen.event(&[news::objects(self.name, &gone), "gone".to_owned()], "")?;
        }
        Ok(listed)
    }
}

/// The object's conditions of these types.
fn says(object: &DynamicObject, types: &'static [&'static str]) -> Vec<(&'static str, Condition)> {
    types
        .iter()
        .filter_map(|type_| {
            let condition = if *type_ == PHASE { phase(object) } else { objects::condition(object, type_) };
            Some((*type_, condition?))
        })
        .collect()
}

fn phase(object: &DynamicObject) -> Option<Condition> {
    let phase = object.data.pointer("/status/phase")?.as_str()?;
    Some(Condition { status: phase.to_owned(), reason: String::new(), message: String::new() })
}
