//! What tests of Classic Load Balancers share.

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_cloud::elb::classic_load_balancer as classic;
use capa_cloud::elb::{
    ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer, Observed, Protocol,
};
use capa_cloud::managed::Seen;

use super::balancers::texts;
use super::*;

pub(super) const NAME: &str = "dev-apiserver";

pub(super) fn listener(port: i32, instance_port: i32) -> ClassicListener {
    ClassicListener { port, protocol: Protocol::Tcp, instance_port, instance_protocol: Protocol::Tcp }
}

pub(super) fn create(name: &str, subnets: &[&str], groups: &[&str]) -> classic::Call<String> {
    create_as(LoadBalancerScheme::InternetFacing, name, subnets, groups)
}

pub(super) fn create_as(
    scheme: LoadBalancerScheme,
    name: &str,
    subnets: &[&str],
    groups: &[&str],
) -> classic::Call<String> {
    classic::Call::CreateLoadBalancer {
        name: name.to_owned(),
        scheme,
        subnets: texts(subnets),
        security_groups: texts(groups),
        listener: listener(6443, 6443),
        tags: owned(),
    }
}

pub(super) fn add_listener(name: &str, listener: ClassicListener) -> classic::Call<String> {
    classic::Call::CreateLoadBalancerListeners { load_balancer: name.to_owned(), listener }
}

pub(super) fn check(target: &str) -> ClassicHealthCheck {
    ClassicHealthCheck {
        target: target.to_owned(),
        timing: HealthCheckTiming {
            interval_seconds: 10,
            timeout_seconds: 5,
            threshold_count: 5,
            unhealthy_threshold_count: 3,
        },
    }
}

pub(super) fn configure(name: &str) -> classic::Call<String> {
    classic::Call::ConfigureHealthCheck { load_balancer: name.to_owned(), health_check: check("HTTPS:6443/readyz") }
}

pub(super) const CROSS_ZONE: ClassicAttributes = ClassicAttributes { is_cross_zone: true, idle_timeout_seconds: 600 };

pub(super) fn modify(name: &str) -> classic::Call<String> {
    classic::Call::ModifyLoadBalancerAttributes { load_balancer: name.to_owned(), attributes: CROSS_ZONE }
}

pub(super) fn attach_subnets(name: &str, subnets: &[&str]) -> classic::Call<String> {
    classic::Call::AttachLoadBalancerToSubnets { load_balancer: name.to_owned(), subnets: texts(subnets) }
}

pub(super) fn apply_groups(name: &str, groups: &[&str]) -> classic::Call<String> {
    classic::Call::ApplySecurityGroupsToLoadBalancer { load_balancer: name.to_owned(), security_groups: texts(groups) }
}

pub(super) fn delete(name: &str) -> classic::Call<String> {
    classic::Call::DeleteLoadBalancer { load_balancer: name.to_owned() }
}

/// An observation that names load balancers of both generations.
pub(super) fn observe_named(
    account: &FakeAccount,
    vpc: Option<&str>,
    names: &[&str],
    classic_names: &[&str],
) -> Observed {
    let scope = Scope {
        cluster: "dev".to_owned(),
        vpc: vpc.map(str::to_owned),
        load_balancers: texts(names),
        classic_load_balancers: texts(classic_names),
        ..Scope::default()
    };
    let seen = account.observe(&scope).now_or_never();
    seen.expect("the observation completes").unwrap().elb
}

impl Network {
    pub(super) fn make_classic(&self) -> String {
        made(&self.account, create(NAME, &[&self.subnet], &[]))
    }

    pub(super) fn classic(&self) -> ClassicLoadBalancer {
        self.account.classic_load_balancers().remove(0)
    }

    pub(super) fn observe_classic(&self) -> Seen<Vec<ClassicLoadBalancer>> {
        observe_named(&self.account, Some(&self.vpc), &[], &[NAME]).classic_load_balancers
    }
}
