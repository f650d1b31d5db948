//! The DNS records of the resource-based names of instances, which moto lacks.

use std::collections::{BTreeMap, HashMap};

use super::request::Request;
use super::xml::Element;

/// The switches in requests and in descriptions.
const SWITCHES: [(&str, &str); 2] = [
    ("EnableResourceNameDnsARecord", "enableResourceNameDnsARecord"),
    ("EnableResourceNameDnsAAAARecord", "enableResourceNameDnsAAAARecord"),
];

/// The switches of each instance that were ever set, by the instance's id.
#[derive(Debug, Default)]
pub(super) struct DnsRecords(HashMap<String, BTreeMap<&'static str, String>>);

impl DnsRecords {
    /// Sets the switches in the options of a launch.
    pub(super) fn launched(&mut self, instance: &str, request: &Request) {
        self.set(instance, request, "PrivateDnsNameOptions.");
    }

    /// Sets the switches in a change of an instance.
    pub(super) fn changed(&mut self, instance: &str, request: &Request) {
        self.set(instance, request, "");
    }

    fn set(&mut self, instance: &str, request: &Request, prefix: &str) {
        let switches = self.0.entry(instance.to_owned()).or_default();
        for (name, shown) in SWITCHES {
            if let Some(value) = request.parameter(&format!("{prefix}{name}")) {
                switches.insert(shown, value.to_owned());
            }
        }
    }

    /// Shows the switches in the description of an instance.
    pub(super) fn show(&self, instance: &mut Element, id: &str) {
        let switches = self.0.get(id).into_iter().flatten();
        let switches = switches.map(|(name, value)| Element::text(name, value));
        instance.set(Element::parent("privateDnsNameOptions", switches.collect()));
    }
}
