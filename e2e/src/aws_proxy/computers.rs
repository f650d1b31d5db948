//! The computers behind the instances, for the node simulator: the data that a computer can read, and the status that
//! it reports.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::caller::AccessKey;
use super::instances::{Instances, State};
use super::request::Request;
use super::xml::Element;

/// The path of the computers.
pub const PATH: &str = "/computers";

/// The path of the healthy targets of an endpoint's load balancer: `GET /endpoints/<host>:<port>`.
pub const ENDPOINTS: &str = "/endpoints";

/// A computer, as its metadata service describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Computer {
    /// The account that owns the instance.
    pub account: String,
    /// The instance id, `i-…`.
    pub instance_id: String,
    /// The state that EC2 shows: `pending`, `running`, `stopping`, `stopped`, `shutting-down`, `terminated`.
    pub state: String,
    /// The key of the instance profile.
    pub key: Option<AccessKey>,
    /// The availability zone, e.g. `eu-west-1a`.
    pub zone: String,
    /// The host name inside the VPC, which contains the instance id, as EC2 offers it. A name made of the address would
    /// not be unique: moto gives the address of a terminated instance to the next one at once, and two nodes of a
    /// cluster would have the same name.
    pub host_name: String,
    /// The address inside the VPC.
    pub address: String,
    /// The user data, in base64 as in EC2; empty for none.
    pub user_data: String,
    /// The version of Kubernetes that is installed on the image, where known.
    pub kubernetes_version: Option<String>,
    /// The boot behaviour.
    pub boot: Boot,
    /// Milliseconds since the launch or the last start.
    pub up_milliseconds: u64,
}

/// The boot behaviour of a computer whose instance runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boot {
    /// The computer boots at once.
    #[default]
    Normal,
    /// The computer boots this long after the launch.
    After(Duration),
    /// The computer hangs before it reads its user data.
    Never,
}

/// The status that a computer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the API server on it answers.
    pub serving: bool,
}

/// The launch parameters of an instance.
#[derive(Clone, Debug)]
struct Launched {
    zone: String,
    region: String,
    address: String,
    image: String,
    user_data: String,
    boot: Boot,
}

/// The computers of one account.
#[derive(Debug, Default)]
pub(super) struct Computers {
    launched: HashMap<String, Launched>,
    boots: Vec<(String, Boot)>,
    /// The version of Kubernetes by image.
    versions: HashMap<String, String>,
}

impl Computers {
    pub(super) fn set_boot(&mut self, name: &str, boot: Boot) {
        self.boots.push((name.to_owned(), boot));
    }

    pub(super) fn install(&mut self, image: &str, version: &str) {
        self.versions.insert(image.to_owned(), version.to_owned());
    }

    /// Records the launch parameters of an instance from the request and the answer.
    pub(super) fn launched(&mut self, request: &Request, instance: &Element) {
        let name = name_tag(request).unwrap_or_default();
        let boot = self.boots.iter().rev().find(|(text, _)| name.contains(text));
        let launched = Launched {
            zone: instance.text_at(&["placement", "availabilityZone"]).to_owned(),
            region: request.scope.region.clone(),
            address: instance.text_at(&["privateIpAddress"]).to_owned(),
            image: request.parameter("ImageId").unwrap_or_default().to_owned(),
            user_data: request.parameter("UserData").unwrap_or_default().to_owned(),
            boot: boot.map(|(_, boot)| *boot).unwrap_or_default(),
        };
        let id = instance.text_at(&["instanceId"]).to_owned();
        self.launched.insert(id, launched);
    }

    pub(super) fn list(
        &self,
        account: &str,
        key: Option<&AccessKey>,
        instances: &Instances,
        now: Instant,
    ) -> Vec<Computer> {
        let computers = self.launched.iter().map(|(id, launched)| {
            let State { name, .. } = instances.state(id, now);
            Computer {
                account: account.to_owned(),
                instance_id: id.clone(),
                state: name.to_owned(),
                key: key.cloned(),
                zone: launched.zone.clone(),
                host_name: format!("{id}.{}.compute.internal", launched.region),
                address: launched.address.clone(),
                user_data: launched.user_data.clone(),
                kubernetes_version: self.versions.get(&launched.image).cloned(),
                boot: launched.boot,
                up_milliseconds: instances.up(id, now).as_millis().try_into().unwrap_or(u64::MAX),
            }
        });
        computers.collect()
    }
}

/// The `Name` tag that a launch gives its instances.
fn name_tag(request: &Request) -> Option<&str> {
    let value_of = |key: &str| {
        let name = request.parameter(key)?.strip_suffix("Name")?;
        name.is_empty().then(|| key.replace(".Key", ".Value"))
    };
    let keys = request.parameters.keys();
    let tags = keys.filter(|key| key.starts_with("TagSpecification.") && key.ends_with(".Key"));
    request.parameter(&tags.into_iter().find_map(|key| value_of(key))?)
}
