//! The DNS records of the resource-based names of instances, which moto lacks.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::answer::{Answer, Refusal};
use super::changes;
use super::pipeline::CallerIdentity;
use super::request::Request;
use super::state::Shared;
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

/// ModifyPrivateDnsNameOptions, in every state of the instance: only a change of the kind of name needs a stopped one.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyPrivateDnsNameOptions.html>
pub(super) fn modify(shared: &Shared, request: &Request, caller: &CallerIdentity) -> Result<Answer, Refusal> {
    let id = request.parameter("InstanceId").unwrap_or_default();
    shared.with_account(&caller.account, |account| {
        let instances = &mut account.instances;
        let hidden = !caller.meets_no_faults && instances.is_hidden(id, Instant::now());
        if hidden || !instances.exists(id, &request.scope.region) {
            return Err(changes::unknown(id));
        }
        instances.dns_records.set(id, request, "");
        Ok(())
    })?;
    let fields = vec![Element::text("return", "true")];
    Ok(Answer::of("ModifyPrivateDnsNameOptions", fields))
}
