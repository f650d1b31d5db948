//! The tags that identify the instance of a machine in every provider of this API. Pure.

use capa_api::meta;
use capa_cloud::lookups::InstanceLookup;
use capa_cloud::{Instance, Query};

/// Maximum length of an object name.
const NAME_LENGTH: usize = 253;
/// Maximum length of the value of a tag.
const TAG_LENGTH: usize = 256;

/// The tags of the instance of one machine. They prove nothing: a copy of the AWSMachine, another management cluster
/// and CAPA use the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineTags<'a> {
    /// Name of the cluster in tags.
    pub(super) cluster: &'a str,
    /// Namespace of the Machine.
    pub(super) namespace: &'a str,
    /// Name of the Machine.
    pub(super) machine: &'a str,
}

impl MachineTags<'_> {
    /// Whether an instance has exactly these tags.
    pub(super) fn are_on(&self, instance: &Instance) -> bool {
        let tag = |key: &str| instance.tags.get(key).map(String::as_str);
        tag(&meta::cluster_tag(self.cluster)) == Some(meta::OWNED_TAG_VALUE)
            && tag(meta::MACHINE_NAME_TAG) == Some(self.machine_name().as_str())
    }

    /// The query for the instances with these tags. EC2 interprets `*` and `?` in filters as wildcards, so only valid
    /// object names become filter values. If the cluster's name in tags is not valid, the query has no filter for it,
    /// and [`Self::are_on`] compares it. If the Machine's name is not valid, there is no query, because no such Machine
    /// exists.
    pub(super) fn query(&self) -> Option<Query> {
        if !is_name(self.namespace) || !is_name(self.machine) {
            return None;
        }
        let query = Query::filter(format!("tag:{}", meta::MACHINE_NAME_TAG), [self.machine_name()]);
        Some(if is_name(self.cluster) {
            let cluster = format!("tag:{}", meta::cluster_tag(self.cluster));
            query.and(cluster, [meta::OWNED_TAG_VALUE])
        } else {
            query
        })
    }

    /// The lookup of the instances with these tags that other machines share, before the call with this client token.
    /// `None` if the Machine's name is not valid, or too long for a tag: such a filter would make AWS refuse the lookup
    /// of all.
    pub(super) fn lookup(&self, client_token: &str) -> Option<InstanceLookup> {
        let machine_name = self.machine_name();
        let is_valid = is_name(self.namespace) && is_name(self.machine) && machine_name.len() <= TAG_LENGTH;
        is_valid.then(|| InstanceLookup {
            client_token: client_token.to_owned(),
            machine_name,
        })
    }

    /// The tags in the form of messages.
    pub(super) fn described(&self) -> String {
        format!(
            "{}: {} and {}: {}",
            meta::MACHINE_NAME_TAG,
            self.machine_name(),
            meta::cluster_tag(self.cluster),
            meta::OWNED_TAG_VALUE
        )
    }

    fn machine_name(&self) -> String {
        meta::machine_name_tag_value(self.namespace, self.machine)
    }
}

/// Whether the text is a valid object name: a DNS subdomain according to RFC 1123.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= NAME_LENGTH && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use capa_cloud::InstanceState;

    use super::*;
    use crate::testing::instance;

    fn tags<'a>(cluster: &'a str, namespace: &'a str, machine: &'a str) -> MachineTags<'a> {
        MachineTags {
            cluster,
            namespace,
            machine,
        }
    }

    #[test]
    fn tags_are_compared_exactly() {
        let shown = instance("i-1", InstanceState::Running, "dev", "team-a/m");
        assert!(tags("dev", "team-a", "m").are_on(&shown));
        for (cluster, namespace, machine) in [
            ("de?", "team-a", "m"),
            ("dev", "team-a", "*"),
            ("dev", "*", "m"),
            ("dev", "team-b", "m"),
            ("dev", "team-a", "M"),
            ("prod", "team-a", "m"),
        ] {
            assert!(
                !tags(cluster, namespace, machine).are_on(&shown),
                "{cluster} {namespace} {machine}"
            );
        }
        let mut shared = shown.clone();
        shared.tags.insert(meta::cluster_tag("dev"), "shared".into());
        assert!(!tags("dev", "team-a", "m").are_on(&shared));
    }

    #[test]
    fn no_pattern_reaches_a_filter() {
        for name in [
            "*",
            "m?",
            "m*",
            "",
            "-m",
            "m-",
            "a..b",
            "M",
            "m/*",
            "m\\",
            &"m".repeat(254),
        ] {
            assert_eq!(tags("dev", "team-a", name).query(), None, "{name}");
            assert_eq!(tags("dev", name, "m").query(), None, "{name}");
            assert_eq!(tags("dev", "team-a", name).lookup("t"), None, "{name}");
            assert_eq!(tags("dev", name, "m").lookup("t"), None, "{name}");
        }
        let longest = "m".repeat(253);
        assert!(tags("dev", "a", &longest).lookup("t").is_some());
        assert!(tags("dev", "ab", &longest).lookup("t").is_some());
        assert_eq!(tags("dev", "abc", &longest).lookup("t"), None, "longer than a tag");
        let whole = tags("dev", "team-a", "m-1.x").query().unwrap();
        assert_eq!(whole.filters.len(), 2);
        let without_cluster = tags("*", "team-a", "m").query().unwrap();
        assert_eq!(without_cluster, Query::filter("tag:MachineName", ["team-a/m"]));
    }
}
