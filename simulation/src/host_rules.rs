//! The rules for Dedicated Hosts: none is doubled for a machine, and none is released by others than who allocated it.

use std::collections::BTreeSet;

use capa_fake_aws::machines::AllocatedHost;

use crate::aws::cluster_of_key;

/// The hosts that were looked at.
#[derive(Default)]
pub(crate) struct HostRules {
    seen: usize,
    released: BTreeSet<String>,
    asked: Vec<String>,
}

impl HostRules {
    /// The rules that hosts have broken since the last look.
    pub(crate) fn broken(&mut self, hosts: &[AllocatedHost]) -> Vec<String> {
        let mut broken = Vec::new();
        let ours = |host: &&AllocatedHost| cluster_of_key(&host.allocated_by).is_some();
        for host in hosts.iter().skip(self.seen).filter(ours) {
            let token = &host.request.client_token;
            self.asked.push(token.clone());
            let live = hosts.iter().filter(|other| other.released.is_none() && uid(other) == uid(host));
            let ids: Vec<&str> = live.map(|other| other.id.as_str()).collect();
            if ids.len() > 1 {
                broken.push(format!("doubled: {token} has {}", ids.join(", ")));
            }
        }
        self.seen = hosts.len();
        for host in hosts {
            let Some((_, by)) = &host.released else {
                continue;
            };
            let is_new = self.released.insert(host.id.clone());
            if is_new && cluster_of_key(by) != cluster_of_key(&host.allocated_by) {
                broken.push(format!("foreign: {} was released by {by}", host.id));
            }
        }
        broken
    }

    /// The tokens of new hosts.
    pub(crate) fn take_asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.asked)
    }
}

/// The UID in the token of a host.
fn uid(host: &AllocatedHost) -> Option<&str> {
    host.request.client_token.rsplit_once("-host-").map(|(uid, _)| uid)
}
