//! Security groups with their rules.

use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::ec2::security_group::{Call, Rule, Source, Traffic};
use capa_cloud::ec2::{IpProtocol, SecurityGroup};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::{CloudError, Query};
use ipnet::Ipv6Net;

use super::{Ec2, Resource, cloned, parsed_range};
use crate::filters::select;

/// The name of the group that each VPC has from its creation.
const DEFAULT: &str = "default";

/// A security group with the description that no rule of this account depends on.
#[derive(Clone, Debug)]
pub(super) struct Body {
    group: SecurityGroup,
    description: String,
}

impl Ec2 {
    pub(super) fn call_security_group(
        &mut self,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateSecurityGroup { vpc, name, description, tags } => {
                self.create_security_group(action, vpc, name, description, tags)
            }
            Call::AuthorizeSecurityGroupIngress { group, rules } => self.authorize(action, group, rules),
            Call::RevokeSecurityGroupIngress { group, rules } => {
                self.revoke(action, group, rules, |group| &mut group.ingress)
            }
            Call::RevokeSecurityGroupEgress { group, rules } => {
                self.revoke(action, group, rules, |group| &mut group.egress)
            }
            Call::DeleteSecurityGroup { group } => self.delete_security_group(action, group),
        }
    }

    fn create_security_group(
        &mut self,
        action: &'static str,
        vpc: &str,
        name: &str,
        description: &str,
        tags: &Tags,
    ) -> Result<ChangeAnswer, CloudError> {
        self.known_vpc(action, vpc)?;
        if self.security_groups_of(vpc).any(|known| known.name == name) {
            let message = format!("The security group '{name}' already exists for VPC '{vpc}'");
            return Err(CloudError::answered(action, "InvalidGroup.Duplicate", &message));
        }
        if self.security_groups.len() >= self.behaviour.security_group_quota {
            let message = "The maximum number of security groups has been reached.";
            return Err(CloudError::answered(action, "SecurityGroupLimitExceeded", message));
        }
        let id = self.next_id("sg");
        let body = Body { group: new_group(&id, vpc, name, tags.clone()), description: description.to_owned() };
        let resource = self.new_resource(body);
        self.security_groups.insert(id.clone(), resource);
        Ok(ChangeAnswer::Made(id))
    }

    /// Adds all rules, or none.
    fn authorize(
        &mut self,
        action: &'static str,
        id: &str,
        rules: &[Rule<String>],
    ) -> Result<ChangeAnswer, CloudError> {
        let group = self.known_security_group(action, id)?;
        let rules = stored(action, rules)?;
        for rule in &rules {
            self.has_known_source(action, rule, &group.vpc_id)?;
        }
        let mut rest = rules.as_slice();
        while let [rule, others @ ..] = rest {
            if contains(others, rule) {
                let message = "The same permission must not appear multiple times";
                return Err(CloudError::answered(action, "InvalidParameterValue", message));
            }
            rest = others;
        }
        if let Some(rule) = rules.iter().find(|rule| contains(&group.ingress, rule)) {
            let message = format!("the specified rule \"{:?}, {:?}\" already exists", rule.source, rule.traffic);
            return Err(CloudError::answered(action, "InvalidPermission.Duplicate", &message));
        }
        if group.ingress.len().saturating_add(rules.len()) > self.behaviour.rules_quota {
            let message = "The maximum number of rules per security group has been reached.";
            return Err(CloudError::answered(action, "RulesPerSecurityGroupLimitExceeded", message));
        }
        for rule in rules {
            self.add_rule(id, rule);
        }
        Ok(ChangeAnswer::Done)
    }

    /// Removes all rules of a direction, or none.
    fn revoke(
        &mut self,
        action: &'static str,
        id: &str,
        rules: &[Rule<String>],
        of: fn(&mut SecurityGroup) -> &mut Vec<Rule<String>>,
    ) -> Result<ChangeAnswer, CloudError> {
        self.known_security_group(action, id)?;
        let rules = stored(action, rules)?;
        let mut known = self.security_group_mut(id).map(of);
        let is_there = |rule| known.as_ref().is_some_and(|known| contains(known, rule));
        if !rules.iter().all(is_there) {
            let message = "The specified rule does not exist in this security group.";
            return Err(CloudError::answered(action, "InvalidPermission.NotFound", message));
        }
        if let Some(known) = &mut known {
            known.retain(|known| !contains(&rules, known));
        }
        Ok(ChangeAnswer::Done)
    }

    fn delete_security_group(&mut self, action: &'static str, id: &str) -> Result<ChangeAnswer, CloudError> {
        let group = self.known_security_group(action, id)?;
        if group.name == DEFAULT {
            let message = format!("the specified group: \"{id}\" name: \"{DEFAULT}\" cannot be deleted by a user");
            return Err(CloudError::answered(action, "CannotDelete", &message));
        }
        let names_it = |other: &SecurityGroup| other.id != id && other.ingress.iter().any(|rule| is_from(rule, id));
        let is_used = self.has_interface(|interface| interface.security_group_ids.iter().any(|group| group == id));
        if is_used || self.bodies().any(names_it) {
            let message = format!("resource {id} has a dependent object");
            return Err(CloudError::answered(action, "DependencyViolation", &message));
        }
        self.security_groups.remove(id);
        Ok(ChangeAnswer::Done)
    }

    /// The security group that a call names.
    pub(crate) fn known_security_group(&self, action: &'static str, id: &str) -> Result<&SecurityGroup, CloudError> {
        let known = self.security_groups.get(id);
        let known = known.filter(|resource| self.is_shown(resource));
        known.map(|resource| &resource.body.group).ok_or_else(|| {
            let message = format!("The security group '{id}' does not exist");
            CloudError::answered(action, "InvalidGroup.NotFound", &message)
        })
    }

    /// Whether the source of a rule exists, if it is a group. There are no peerings, so it is of the same VPC.
    fn has_known_source(&self, action: &'static str, rule: &Rule<String>, vpc: &str) -> Result<(), CloudError> {
        let Source::Group(id) = &rule.source else {
            return Ok(());
        };
        if self.known_security_group(action, id)?.vpc_id == vpc {
            return Ok(());
        }
        let message = "You have specified two resources that belong to different networks.";
        Err(CloudError::answered(action, "InvalidGroup.NotFound", message))
    }

    fn bodies(&self) -> impl Iterator<Item = &SecurityGroup> {
        self.security_groups.values().map(|resource| &resource.body.group)
    }

    /// The security groups of a VPC, hidden ones too.
    fn security_groups_of(&self, vpc: &str) -> impl Iterator<Item = &SecurityGroup> {
        self.bodies().filter(move |group| group.vpc_id == vpc)
    }

    /// The id of the default security group of a VPC; `None` if the VPC does not exist.
    pub(crate) fn default_group_of(&self, vpc: &str) -> Option<&str> {
        let mut groups = self.security_groups_of(vpc);
        groups.find(|group| group.name == DEFAULT).map(|group| &*group.id)
    }

    /// Whether a VPC has a security group besides the default one.
    pub(super) fn has_other_security_group(&self, vpc: &str) -> bool {
        self.security_groups_of(vpc).any(|group| group.name != DEFAULT)
    }

    /// Whether all security groups are those that VPCs have from their creation.
    pub(super) fn has_default_groups_only(&self) -> bool {
        self.bodies().all(|group| group.name == DEFAULT)
    }

    /// Adds the default security group of a VPC. Its id follows from that of the VPC, so it takes no number of its own.
    pub(super) fn insert_default_group(&mut self, vpc: &str, made_at: Option<Duration>) {
        let id = vpc.replacen("vpc", "sg", 1);
        let mut group = new_group(&id, vpc, DEFAULT, Tags::new());
        group.ingress.push(from_itself(&id));
        let body = Body { group, description: "default VPC security group".to_owned() };
        self.security_groups.insert(id, Resource { made_at, body });
    }

    pub(super) fn remove_security_groups_of(&mut self, vpc: &str) {
        self.security_groups.retain(|_, group| group.body.group.vpc_id != vpc);
    }

    /// DescribeSecurityGroups, all pages.
    pub(crate) fn describe_security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        let known = ["group-id", "group-name", "vpc-id"];
        let shown = self.shown_security_groups(|_| true);
        let things = shown.iter().map(|group| (group, &group.tags));
        select("DescribeSecurityGroups", query, &known, things, |group, filter| match filter {
            "group-id" => vec![group.id.clone()],
            "group-name" => vec![group.name.clone()],
            _ => vec![group.vpc_id.clone()],
        })
        .map(cloned)
    }

    pub(super) fn shown_security_groups(&self, selects: impl Fn(&SecurityGroup) -> bool) -> Vec<SecurityGroup> {
        let shown = self.security_groups.values().filter(|resource| self.is_shown(resource));
        let views = shown.map(|resource| SecurityGroup {
            tags: self.shown_tags(resource, &resource.body.group.tags),
            ..resource.body.group.clone()
        });
        views.filter(selects).collect()
    }
}

/// What tests see and change by hand.
impl Ec2 {
    pub(crate) fn all_security_groups(&self) -> Vec<SecurityGroup> {
        self.bodies().cloned().collect()
    }

    /// The description of a security group; empty if it does not exist.
    pub(crate) fn description_of(&self, group: &str) -> &str {
        let known = self.security_groups.get(group);
        known.map_or("", |resource| &resource.body.description)
    }

    pub(crate) fn add_security_group(&mut self, vpc: &str, name: &str, tags: Tags) -> String {
        let id = self.next_id("sg");
        self.put_security_group(&id, vpc, name, tags);
        id
    }

    /// Adds a security group with an id of the caller's choice.
    pub(crate) fn put_security_group(&mut self, id: &str, vpc: &str, name: &str, tags: Tags) {
        let body = Body { group: new_group(id, vpc, name, tags), description: String::new() };
        self.security_groups.insert(id.to_owned(), Resource::by_hand(body));
    }

    /// The security group, for a change by hand.
    pub(crate) fn security_group_mut(&mut self, id: &str) -> Option<&mut SecurityGroup> {
        self.security_groups.get_mut(id).map(|resource| &mut resource.body.group)
    }

    /// Adds a rule, instead of the same one with another description.
    pub(crate) fn add_rule(&mut self, group: &str, rule: Rule<String>) -> bool {
        let Some(group) = self.security_group_mut(group) else {
            return false;
        };
        group.ingress.retain(|known| !is_same(known, &rule));
        group.ingress.push(rule);
        true
    }

    /// Removes a rule whatever its description is, and says whether there was one.
    pub(crate) fn remove_rule(&mut self, group: &str, rule: &Rule<String>) -> bool {
        let Some(group) = self.security_group_mut(group) else {
            return false;
        };
        let is_there = contains(&group.ingress, rule);
        group.ingress.retain(|known| !is_same(known, rule));
        is_there
    }

    /// Removes a security group, and the rules of other groups that name it. A default group goes with its VPC only.
    pub(crate) fn remove_security_group(&mut self, id: &str) -> bool {
        let group = self.security_groups.get(id);
        if group.is_none_or(|group| group.body.group.name == DEFAULT) {
            return false;
        }
        for other in self.security_groups.values_mut() {
            other.body.group.ingress.retain(|rule| !is_from(rule, id));
        }
        self.security_groups.remove(id).is_some()
    }
}

/// Whether a security group is a default one as EC2 makes it.
pub(crate) fn is_untouched(group: &SecurityGroup) -> bool {
    let has_own_rules = group.ingress == [from_itself(&group.id)] && group.egress == [to_anywhere()];
    group.name == DEFAULT && group.tags.is_empty() && has_own_rules
}

fn new_group(id: &str, vpc: &str, name: &str, tags: Tags) -> SecurityGroup {
    SecurityGroup {
        id: id.to_owned(),
        vpc_id: vpc.to_owned(),
        name: name.to_owned(),
        ingress: Vec::new(),
        egress: vec![to_anywhere()],
        tags,
        ..SecurityGroup::default()
    }
}

/// The rule for outgoing traffic of a new group.
fn to_anywhere() -> Rule<String> {
    Rule {
        traffic: Traffic::new(IpProtocol::All, -1, -1),
        source: Source::Cidr("0.0.0.0/0".to_owned()),
        description: String::new(),
    }
}

/// The rule for incoming traffic of a new default group.
fn from_itself(group: &str) -> Rule<String> {
    Rule {
        traffic: Traffic::new(IpProtocol::All, -1, -1),
        source: Source::Group(group.to_owned()),
        description: String::new(),
    }
}

/// Rules in the form in which EC2 stores them: the ranges without the bits of a host.
fn stored(action: &'static str, rules: &[Rule<String>]) -> Result<Vec<Rule<String>>, CloudError> {
    let stored = rules.iter().map(|rule| {
        let source = match &rule.source {
            Source::Cidr(range) => Source::Cidr(parsed_range(action, range)?.to_string()),
            Source::Ipv6Cidr(range) => Source::Ipv6Cidr(stored_ipv6_range(action, range)?),
            other @ (Source::PrefixList(_) | Source::Group(_)) => other.clone(),
        };
        Ok(Rule { source, ..rule.clone() })
    });
    stored.collect()
}

fn stored_ipv6_range(action: &'static str, text: &str) -> Result<String, CloudError> {
    let range = text.parse::<Ipv6Net>().map_err(|_| {
        let message = format!("CIDR block {text} is malformed");
        CloudError::answered(action, "InvalidParameterValue", &message)
    });
    range.map(|range| range.trunc().to_string())
}

fn contains(rules: &[Rule<String>], rule: &Rule<String>) -> bool {
    rules.iter().any(|known| is_same(known, rule))
}

/// Descriptions make no difference between rules.
fn is_same(one: &Rule<String>, other: &Rule<String>) -> bool {
    one.traffic == other.traffic && one.source == other.source
}

/// Whether the source of a rule is this group.
fn is_from(rule: &Rule<String>, group: &str) -> bool {
    matches!(&rule.source, Source::Group(id) if id == group)
}
