//! The DNS names of load balancers, and the healthy targets behind them.

use super::super::answer::Refusal;
use super::super::request::CredentialScope;
use super::super::state::{AccountState, Shared};
use super::super::xml::Element;
use super::classic;
use super::facts::MotoRegion;
use super::targets::{Group, Health, TargetId, instance_of};
use super::{SERVICE, VERSION_2, with_account};

/// The suffix of the DNS name of every load balancer.
const DOMAIN: &str = "elb.amazonaws.com";

/// The parts of a load balancer's DNS name: the name and the account, which together are unique, and the region.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    name: String,
    account: String,
    region: String,
}

impl Endpoint {
    fn read(host: &str) -> Option<Self> {
        let (first, rest) = host.split_once('.')?;
        let (name, account) = first.rsplit_once('-')?;
        let (region, domain) = rest.split_once('.')?;
        (domain == DOMAIN).then(|| Self {
            name: name.to_owned(),
            account: account.to_owned(),
            region: region.to_owned(),
        })
    }

    fn write(&self) -> String {
        let Self { name, account, region } = self;
        format!("{name}-{account}.{region}.{DOMAIN}")
    }
}

/// Sets the DNS name of every load balancer in an answer. An answer without a name describes the requested load
/// balancer.
pub(super) fn rename(answer: &mut Element, asked: Option<&str>, account: &str, region: &str) {
    let name = answer.child("LoadBalancerName").map(|name| name.text.clone());
    let name = name.or_else(|| asked.map(str::to_owned));
    if let Some((name, dns_name)) = name.zip(answer.child_mut("DNSName")) {
        let endpoint = Endpoint { name, account: account.to_owned(), region: region.to_owned() };
        dns_name.text = endpoint.write();
    }
    for child in &mut answer.children {
        rename(child, asked, account, region);
    }
}

/// The healthy instances behind a port of a load balancer; `None` where no load balancer has this DNS name.
pub(in super::super) async fn healthy_targets(
    shared: &Shared,
    host: &str,
    port: u16,
) -> Result<Option<Vec<String>>, Refusal> {
    let Some(endpoint) = Endpoint::read(host) else {
        return Ok(None);
    };
    let scope = CredentialScope {
        access_key_id: String::new(),
        region: endpoint.region.clone(),
        service: SERVICE.to_owned(),
        by_url: false,
    };
    let region = MotoRegion { account: &endpoint.account, scope: &scope };
    if !shared.with(|state| state.accounts.contains_key(&endpoint.account)) {
        return Ok(None);
    }
    match behind_listener(shared, region, &endpoint.name, port).await {
        Err(refusal) if refusal.code == "LoadBalancerNotFound" => {}
        found => return found.map(Some),
    }
    match region.classic(shared, &endpoint.name).await {
        Err(refusal) if refusal.code == "LoadBalancerNotFound" => Ok(None),
        Err(refusal) => Err(refusal),
        Ok(load_balancer) => {
            let group = Group::Classic(endpoint.region.clone(), endpoint.name.clone());
            let listens = members(&load_balancer, "ListenerDescriptions")
                .any(|listener| listener.text_at(&["Listener", "LoadBalancerPort"]) == port.to_string());
            Ok(Some(if listens { healthy(shared, region, &group, classic::FACTS) } else { Vec::new() }))
        }
    }
}

/// The healthy targets of the group of the listener on this port of an application or network load balancer.
async fn behind_listener(
    shared: &Shared,
    region: MotoRegion<'_>,
    name: &str,
    port: u16,
) -> Result<Vec<String>, Refusal> {
    let found = [("Names.member.1", name)];
    let found = region.ask(shared, "DescribeLoadBalancers", VERSION_2, &found).await?;
    let arn = found.find("LoadBalancerArn").map_or("", |arn| arn.text.as_str());
    let listeners = [("LoadBalancerArn", arn)];
    let listeners = region.ask(shared, "DescribeListeners", VERSION_2, &listeners).await?;
    let listeners = listeners.find("Listeners").cloned().unwrap_or_default();
    let listener = listeners.children.iter().find(|listener| listener.text_at(&["Port"]) == port.to_string());
    let group = listener.and_then(|listener| listener.find("TargetGroupArn"));
    let Some(group) = group.map(|group| group.text.clone()) else {
        return Ok(Vec::new());
    };
    let facts = region.target_group(shared, &group).await?;
    Ok(healthy(shared, region, &Group::TargetGroup(group), facts.as_facts()))
}

fn healthy(
    shared: &Shared,
    region: MotoRegion<'_>,
    group: &Group,
    facts: super::targets::GroupFacts<'_>,
) -> Vec<String> {
    with_account(shared, region.account, |account, now| {
        let AccountState { targets, instances, .. } = account;
        let all = targets.of(group, instances, now);
        let mut is_healthy =
            |target: &TargetId| targets.health(group, facts, target, instances, now) == Health::Healthy;
        let healthy: Vec<TargetId> = all.into_iter().filter(|target| is_healthy(target)).collect();
        healthy.iter().filter_map(|target| instance_of(target, facts.vpc_id, instances, now)).collect()
    })
}

fn members<'a>(element: &'a Element, list: &str) -> impl Iterator<Item = &'a Element> {
    let list = element.child(list).map(|list| list.children.as_slice());
    list.unwrap_or_default().iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dns_name_identifies_its_load_balancer() {
        let endpoint = Endpoint { name: "prod-api".into(), account: "100000000001".into(), region: "eu-west-1".into() };
        assert_eq!(Endpoint::read(&endpoint.write()), Some(endpoint));
        for host in ["localhost", "api.example.com", "prod-api-1.eu-west-1.example.com"] {
            assert_eq!(Endpoint::read(host), None, "{host}");
        }
    }

    #[test]
    fn load_balancers_of_equal_names_have_dns_names_of_their_own() {
        let answer = "<R><member><LoadBalancerName>a</LoadBalancerName><DNSName>x</DNSName></member>\
                      <member><DNSName>x</DNSName></member></R>";
        let mut answer = Element::parse(answer).unwrap();
        rename(&mut answer, Some("b"), "100000000001", "eu-west-1");
        let names: Vec<_> = answer.children.iter().map(|member| member.text_at(&["DNSName"])).collect();
        let own = ["a", "b"].map(|name| format!("{name}-100000000001.eu-west-1.elb.amazonaws.com"));
        assert_eq!(names, own);
    }
}
