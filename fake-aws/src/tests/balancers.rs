//! What tests of load balancers and their parts share.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_cloud::elb::{
    HealthCheck, Observed, Protocol, listener as listeners, load_balancer as balancers, target_group as target_groups,
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
        protocol: Protocol::Tcp,
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

    /// Checks which subnets and security groups a new load balancer may have. Returns a subnet of another VPC.
    pub(super) fn check_subnets_and_groups<C: Into<Call<String>>>(
        &self,
        create: impl Fn(&[&str], &[&str]) -> C,
    ) -> String {
        let account = &self.account;
        let other_vpc = account.add_vpc("10.0.0.0/16", owned());
        let elsewhere = account.add_subnet(&other_vpc, "10.0.1.0/24", "eu-west-1b", owned());
        let same_zone = account.add_subnet(&self.vpc, "10.0.1.0/24", "eu-west-1a", owned());
        let other_zone = account.add_subnet(&self.vpc, "10.0.2.0/24", "eu-west-1b", owned());
        let group = account.add_security_group(&self.vpc, "one", owned());
        let far = account.add_security_group(&other_vpc, "two", owned());
        let subnet: &str = &self.subnet;
        let table: [(&[&str], &[&str], &str); 8] = [
            (&["subnet-9"], &[], "SubnetNotFound"),
            (&[], &[], "ValidationError"),
            (&[subnet, &elsewhere], &[], "InvalidConfigurationRequest"),
            (&[subnet, &same_zone], &[], "InvalidConfigurationRequest"),
            (&[&elsewhere], &[], "InvalidSubnet"),
            (&[subnet], &["sg-9"], "InvalidSecurityGroup"),
            (&[subnet], &[&far], "InvalidSecurityGroup"),
            (&[subnet, &other_zone], &[&group], ""),
        ];
        for (subnets, groups, expected) in table {
            assert_eq!(self.call(create(subnets, groups)), expected, "{subnets:?} {groups:?}");
        }
        elsewhere
    }

    /// Checks that the network interfaces of a load balancer in the subnet, with this security group, are there for
    /// 20 seconds after its deletion.
    pub(super) fn check_interfaces_outlive(&self, delete: impl Into<Call<String>>, group: &str) {
        let delete_group = || capa_cloud::ec2::security_group::Call::DeleteSecurityGroup { group: group.to_owned() };
        let tear_down = || {
            [
                self.call(detach(&self.internet_gateway, &self.vpc)),
                self.call(delete_subnet(&self.subnet)),
                self.call(delete_group()),
                self.call(delete_vpc(&self.vpc)),
            ]
        };
        assert_eq!(tear_down(), ["DependencyViolation"; 4]);
        assert_eq!(self.call(delete), "");
        self.account.advance(seconds(19));
        assert_eq!(tear_down(), ["DependencyViolation"; 4]);
        self.account.advance(seconds(1));
        assert_eq!(tear_down(), [""; 4]);
    }

    pub(super) fn observe(&self) -> Observed {
        observe_load_balancers(&self.account, Some(&self.vpc), &NAMES)
    }
}
