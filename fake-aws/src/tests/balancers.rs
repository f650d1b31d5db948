//! What tests of load balancers and their parts share.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_cloud::elb::{
    HealthCheck, Observed, listener as listeners, load_balancer as balancers, target_group as target_groups,
};

use super::*;

pub(super) const NAMES: [&str; 1] = ["dev-apiserver"];

pub(super) fn create_balancer(name: &str, subnets: &[&str], groups: &[&str]) -> balancers::Call<String> {
    create_balancer_as(LoadBalancerScheme::InternetFacing, name, subnets, groups)
}

pub(super) fn create_balancer_as(
    scheme: LoadBalancerScheme,
    name: &str,
    subnets: &[&str],
    groups: &[&str],
) -> balancers::Call<String> {
    balancers::Call::CreateLoadBalancer {
        name: name.to_owned(),
        scheme,
        subnets: texts(subnets),
        addresses: vec![],
        security_groups: texts(groups),
        tags: owned(),
    }
}

pub(super) fn set_subnets(balancer: &str, subnets: &[&str]) -> balancers::Call<String> {
    balancers::Call::SetSubnets { load_balancer: balancer.to_owned(), subnets: texts(subnets) }
}

pub(super) fn set_groups(balancer: &str, groups: &[&str]) -> balancers::Call<String> {
    balancers::Call::SetSecurityGroups { load_balancer: balancer.to_owned(), security_groups: texts(groups) }
}

pub(super) fn set_attribute(balancer: &str, name: &'static str, value: &str) -> balancers::Call<String> {
    balancers::Call::ModifyLoadBalancerAttributes {
        load_balancer: balancer.to_owned(),
        attributes: BTreeMap::from([(name, value.to_owned())]),
    }
}

pub(super) fn delete_balancer(balancer: &str) -> balancers::Call<String> {
    balancers::Call::DeleteLoadBalancer { load_balancer: balancer.to_owned() }
}

pub(super) fn check(port: &str) -> HealthCheck {
    HealthCheck {
        protocol: "TCP".to_owned(),
        port: port.to_owned(),
        path: None,
        timing: HealthCheckTiming {
            interval_seconds: 10,
            timeout_seconds: 5,
            threshold_count: 5,
            unhealthy_threshold_count: 3,
        },
    }
}

pub(super) fn create_target_group(vpc: &str, name: &str, port: i32) -> target_groups::Call<String> {
    target_groups::Call::CreateTargetGroup {
        vpc: vpc.to_owned(),
        name: name.to_owned(),
        port,
        health_check: check("traffic-port"),
        tags: owned(),
    }
}

pub(super) fn delete_target_group(group: &str) -> target_groups::Call<String> {
    target_groups::Call::DeleteTargetGroup { group: group.to_owned() }
}

pub(super) fn create_listener(balancer: &str, group: &str, port: i32) -> listeners::Call<String> {
    listeners::Call::CreateListener { load_balancer: balancer.to_owned(), group: group.to_owned(), port, tags: owned() }
}

pub(super) fn modify_listener(listener: &str, group: &str) -> listeners::Call<String> {
    listeners::Call::ModifyListener { listener: listener.to_owned(), group: group.to_owned() }
}

pub(super) fn delete_listener(listener: &str) -> listeners::Call<String> {
    listeners::Call::DeleteListener { listener: listener.to_owned() }
}

/// An observation that names load balancers.
pub(super) fn observe_load_balancers(account: &FakeAccount, vpc: Option<&str>, names: &[&str]) -> Observed {
    let scope = Scope {
        cluster: "dev".to_owned(),
        vpc: vpc.map(str::to_owned),
        load_balancers: texts(names),
        ..Scope::default()
    };
    let seen = account.observe(&scope).now_or_never();
    seen.expect("the observation completes").unwrap().elb
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Network {
    pub(super) fn make_balancer(&self) -> String {
        made(&self.account, create_balancer("dev-apiserver", &[&self.subnet], &[]))
    }

    pub(super) fn make_target_group(&self) -> String {
        made(&self.account, create_target_group(&self.vpc, "apiserver-target-1", 6443))
    }

    pub(super) fn observe(&self) -> Observed {
        observe_load_balancers(&self.account, Some(&self.vpc), &NAMES)
    }
}
