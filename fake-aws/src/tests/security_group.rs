use capa_cloud::ec2::security_group::{Call, Rule, Source, Traffic};
use capa_cloud::ec2::{IpProtocol, SecurityGroup};

use super::*;

fn create_group(vpc: &str, name: &str) -> Call<String> {
    Call::CreateSecurityGroup {
        vpc: vpc.to_owned(),
        name: name.to_owned(),
        description: format!("the group {name}"),
        tags: owned(),
    }
}

fn authorize(group: &str, rules: &[Rule<String>]) -> Call<String> {
    Call::AuthorizeSecurityGroupIngress { group: group.to_owned(), rules: rules.to_vec() }
}

fn revoke(group: &str, rules: &[Rule<String>]) -> Call<String> {
    Call::RevokeSecurityGroupIngress { group: group.to_owned(), rules: rules.to_vec() }
}

fn delete_group(group: &str) -> Call<String> {
    Call::DeleteSecurityGroup { group: group.to_owned() }
}

fn rule(port: i64, source: Source<String>) -> Rule<String> {
    Rule { traffic: Traffic::new(IpProtocol::Tcp, port, port), source, description: "a rule".to_owned() }
}

fn from_range(port: i64, range: &str) -> Rule<String> {
    rule(port, Source::Cidr(range.to_owned()))
}

fn from_group(port: i64, group: &str) -> Rule<String> {
    rule(port, Source::Group(group.to_owned()))
}

/// The same rule with another description.
fn described(rule: &Rule<String>) -> Rule<String> {
    Rule { description: "the same rule".to_owned(), ..rule.clone() }
}

impl Network {
    fn make_group(&self, name: &str) -> String {
        made(&self.account, create_group(&self.vpc, name))
    }

    fn group(&self, id: &str) -> SecurityGroup {
        let mut groups = self.account.security_groups().into_iter();
        groups.find(|group| group.id == id).unwrap()
    }

    /// Asserts the codes of the refusals of these calls, in this order.
    fn assert_answers(&self, calls: &[(Call<String>, &str)]) {
        for (call, expected) in calls {
            assert_eq!(self.call(call.clone()), *expected, "{call:?}");
        }
    }
}

#[test]
fn a_vpc_has_a_default_security_group_that_goes_with_it() {
    for by_hand in [true, false] {
        let account = FakeAccount::new();
        let vpc =
            if by_hand { account.add_vpc("10.0.0.0/16", owned()) } else { made(&account, create_vpc("10.0.0.0/16")) };
        let seen = observe(&account, Some(&vpc)).security_groups.shown().unwrap().clone();
        assert_eq!(seen, account.security_groups());
        let [group] = &seen[..] else {
            panic!("one group: {seen:?}");
        };
        assert_eq!((&group.name[..], &group.vpc_id), ("default", &vpc));
        assert_eq!(group.tags, Tags::new());
        let from_itself = Rule {
            traffic: Traffic::new(IpProtocol::All, -1, -1),
            source: Source::Group(group.id.clone()),
            description: String::new(),
        };
        assert_eq!(group.ingress, [from_itself]);
        assert_eq!(code(call(&account, delete_group(&group.id))), "CannotDelete");
        assert!(!account.remove_security_group(&group.id));
        assert_eq!(account.foreign_writes(), []);
        call(&account, delete_vpc(&vpc)).unwrap();
        assert_eq!(account.security_groups(), []);
        assert!(account.is_empty());
    }
}

#[test]
fn contents_have_a_default_security_group_only_if_changed() {
    let network = Network::new();
    let account = &network.account;
    let default = account.security_groups().remove(0);
    let https = from_range(443, "0.0.0.0/0");
    let changes: [&dyn Fn(bool) -> bool; 3] = [
        &|is_changed| account.set_tags(&default.id, if is_changed { owned() } else { Tags::new() }),
        &|is_changed| {
            if is_changed {
                account.add_rule(&default.id, https.clone())
            } else {
                account.remove_rule(&default.id, &https)
            }
        },
        &|is_changed| {
            if is_changed {
                account.remove_rule(&default.id, &default.ingress[0])
            } else {
                account.add_rule(&default.id, default.ingress[0].clone())
            }
        },
    ];
    for change in changes {
        assert!(change(true));
        assert_eq!(account.contents().vpcs[0].security_groups[0].name, "default");
        assert!(change(false));
        assert_eq!(account.contents().vpcs[0].security_groups, []);
    }
}

#[test]
fn a_security_group_has_a_name_of_its_own_and_a_quota() {
    let network = Network::new();
    let group = network.make_group("one");
    assert_eq!(network.group(&group).ingress, []);
    assert_eq!(network.group(&group).tags, owned());
    let other = network.account.add_vpc("10.0.0.0/16", owned());
    network.account.set(|behaviour| behaviour.security_group_quota = 4);
    network.assert_answers(&[
        (create_group("vpc-9", "one"), "InvalidVpcID.NotFound"),
        (create_group(&network.vpc, "one"), "InvalidGroup.Duplicate"),
        (create_group(&network.vpc, "default"), "InvalidGroup.Duplicate"),
        (create_group(&other, "one"), ""),
        (create_group(&other, "two"), "SecurityGroupLimitExceeded"),
    ]);
    network.account.set(|behaviour| behaviour.security_group_quota = 5);
    network.assert_answers(&[(create_group(&other, "two"), "")]);
}

#[test]
fn rules_are_added_once_and_all_or_none() {
    let network = Network::new();
    let group = network.make_group("one");
    let (ssh, https) = (from_range(22, "10.0.0.0/8"), from_range(443, "0.0.0.0/0"));
    let both = [ssh.clone(), https.clone()];
    network.assert_answers(&[
        (authorize("sg-9", &both), "InvalidGroup.NotFound"),
        (authorize(&group, &[from_range(22, "all")]), "InvalidParameterValue"),
        (authorize(&group, &[ssh.clone(), https.clone(), described(&ssh)]), "InvalidParameterValue"),
        (authorize(&group, &both[..1]), ""),
        (authorize(&group, &both[..1]), "InvalidPermission.Duplicate"),
        (authorize(&group, &[https.clone(), described(&ssh)]), "InvalidPermission.Duplicate"),
        (authorize(&group, &[from_range(22, "10.9.9.9/8")]), "InvalidPermission.Duplicate"),
    ]);
    assert_eq!(network.group(&group).ingress, both[..1]);
    network.assert_answers(&[(authorize(&group, &both[1..]), "")]);
    assert_eq!(network.group(&group).ingress, both);
}

#[test]
fn a_rule_has_the_first_address_of_its_range() {
    let network = Network::new();
    let group = network.make_group("one");
    let ipv6 = |range: &str| rule(22, Source::Ipv6Cidr(range.to_owned()));
    let rules = [from_range(22, "100.68.0.18/18"), ipv6("2001:DB8::1/32")];
    network.assert_answers(&[
        (authorize(&group, &rules), ""),
        (authorize(&group, &[ipv6("10.0.0.0/8")]), "InvalidParameterValue"),
        (authorize(&group, &[ipv6("2001:db8:1::/32")]), "InvalidPermission.Duplicate"),
    ]);
    let stored = [from_range(22, "100.68.0.0/18"), ipv6("2001:db8::/32")];
    assert_eq!(network.group(&group).ingress, stored);
    network.assert_answers(&[(revoke(&group, &rules), "")]);
    assert_eq!(network.group(&group).ingress, []);
}

#[test]
fn a_security_group_has_a_quota_of_rules() {
    let network = Network::new();
    network.account.set(|behaviour| behaviour.rules_quota = 2);
    let group = network.make_group("one");
    let rules = [1, 2, 3].map(|port| from_range(port, "0.0.0.0/0"));
    let exceeded = "RulesPerSecurityGroupLimitExceeded";
    network.assert_answers(&[
        (authorize(&group, &rules), exceeded),
        (authorize(&group, &rules[..2]), ""),
        (authorize(&group, &rules[2..]), exceeded),
        (revoke(&group, &rules[..1]), ""),
        (authorize(&group, &rules[2..]), ""),
    ]);
    assert_eq!(network.group(&group).ingress, rules[1..]);
}

#[test]
fn the_source_of_a_rule_is_a_group_of_the_same_vpc() {
    let network = Network::new();
    let [one, two] = ["one", "two"].map(|name| network.make_group(name));
    let other = network.account.add_vpc("10.0.0.0/16", owned());
    let elsewhere = made(&network.account, create_group(&other, "one"));
    network.assert_answers(&[
        (authorize(&one, &[from_group(22, "sg-9")]), "InvalidGroup.NotFound"),
        (authorize(&one, &[from_group(22, &elsewhere)]), "InvalidGroup.NotFound"),
        (authorize(&one, &[from_group(22, &two), from_group(22, &one)]), ""),
    ]);
    let rules = [from_group(22, &two), from_group(22, &one)];
    assert_eq!(network.group(&one).ingress, rules);
}

#[test]
fn rules_are_removed_whatever_their_descriptions_are() {
    let network = Network::new();
    let group = network.make_group("one");
    let (ssh, https) = (from_range(22, "10.0.0.0/8"), from_range(443, "0.0.0.0/0"));
    call(&network.account, authorize(&group, &[ssh.clone(), https.clone()])).unwrap();
    let other = from_range(23, "10.0.0.0/8");
    network.assert_answers(&[
        (revoke("sg-9", std::slice::from_ref(&ssh)), "InvalidGroup.NotFound"),
        (revoke(&group, &[ssh.clone(), other]), "InvalidPermission.NotFound"),
        (revoke(&group, &[from_range(22, "10.0.0.0/9")]), "InvalidPermission.NotFound"),
    ]);
    assert_eq!(network.group(&group).ingress.len(), 2);
    network.assert_answers(&[
        (revoke(&group, &[described(&ssh)]), ""),
        (revoke(&group, &[ssh]), "InvalidPermission.NotFound"),
    ]);
    assert_eq!(network.group(&group).ingress, [https]);
}

#[test]
fn a_group_that_a_rule_of_another_one_names_stays() {
    let network = Network::new();
    let [one, two] = ["one", "two"].map(|name| network.make_group(name));
    call(&network.account, authorize(&one, &[from_group(22, &one)])).unwrap();
    call(&network.account, authorize(&two, &[from_group(22, &one)])).unwrap();
    network.assert_answers(&[
        (delete_group("sg-9"), "InvalidGroup.NotFound"),
        (delete_group(&one), "DependencyViolation"),
        (revoke(&two, &[from_group(22, &one)]), ""),
        (delete_group(&one), ""),
        (delete_group(&one), "InvalidGroup.NotFound"),
        (delete_group(&two), ""),
    ]);
}

#[test]
fn a_vpc_with_another_security_group_stays() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let group = made(&account, create_group(&vpc, "one"));
    assert_eq!(code(call(&account, delete_vpc(&vpc))), "DependencyViolation");
    call(&account, delete_group(&group)).unwrap();
    call(&account, delete_vpc(&vpc)).unwrap();
    assert!(account.is_empty());
}

#[test]
fn a_fresh_security_group_is_hidden_and_its_tags_come_later() {
    let network = Network::new();
    let account = &network.account;
    let other = network.make_group("other");
    account.set(|behaviour| {
        behaviour.hidden = seconds(10);
        behaviour.hidden_tags = seconds(20);
    });
    account.advance(seconds(10));
    let group = network.make_group("one");
    let seen = || {
        let groups = observe(account, Some(&network.vpc)).security_groups.shown().unwrap().clone();
        groups.into_iter().find(|known| known.id == group).map(|known| known.tags)
    };
    let https = [from_range(443, "0.0.0.0/0")];
    let calls = || {
        let calls = [
            authorize(&group, &https),
            authorize(&other, &[from_group(443, &group)]),
            revoke(&group, &https),
            revoke(&other, &[from_group(443, &group)]),
            delete_group(&group),
        ];
        calls.map(|call| network.call(call))
    };
    assert_eq!(seen(), None);
    let missing = "InvalidGroup.NotFound";
    let no_rule = "InvalidPermission.NotFound";
    assert_eq!(calls(), [missing, missing, missing, no_rule, missing]);
    assert_eq!(network.call(create_group(&network.vpc, "one")), "InvalidGroup.Duplicate");
    account.advance(seconds(10));
    assert_eq!(seen(), Some(Tags::new()));
    account.advance(seconds(10));
    assert_eq!(seen(), Some(owned()));
    assert_eq!(calls(), [""; 5]);
}

#[test]
fn the_default_security_group_of_a_fresh_vpc_is_hidden_with_it() {
    let account = FakeAccount::new();
    account.set(|behaviour| behaviour.hidden = seconds(10));
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let count = || observe(&account, Some(&vpc)).security_groups.shown().unwrap().len();
    assert_eq!(count(), 0);
    account.advance(seconds(10));
    assert_eq!(count(), 1);
}

#[test]
fn contents_name_the_groups_that_are_sources() {
    let network = Network::new();
    let account = &network.account;
    let [two, one] = ["two", "one"].map(|name| network.make_group(name));
    let list = Source::PrefixList("pl-1".to_owned());
    let rules = [from_group(22, &two), rule(22, list), from_range(22, "10.0.0.0/8")];
    call(account, authorize(&one, &rules)).unwrap();
    assert!(account.add_rule(&two, from_group(22, "sg-9")));
    let groups = account.contents().vpcs.remove(0).security_groups;
    let words = |number: usize| {
        let group = &groups[number];
        let sources = group.rules.iter().map(|rule| rule.source.as_str());
        (&group.name[..], &group.description[..], sources.collect::<Vec<_>>())
    };
    assert_eq!(words(0), ("one", "the group one", vec!["10.0.0.0/8", "group two", "pl-1"]));
    assert_eq!(words(1), ("two", "the group two", vec!["no group"]));
    assert_eq!((groups.len(), &groups[0].tags), (2, &owned()));
    assert_eq!(groups[0].rules[0].description, "a rule");
}

#[test]
fn a_rule_that_names_a_foreign_group_is_a_foreign_write() {
    let network = Network::new();
    let account = &network.account;
    let foreign = account.add_security_group(&network.vpc, "foreign", Tags::new());
    let group = network.make_group("one");
    let before = account.foreign_writes().len();
    call(account, authorize(&group, &[from_group(22, &group)])).unwrap();
    assert_eq!(account.foreign_writes().len(), before);
    call(account, authorize(&group, &[from_group(22, &foreign)])).unwrap();
    assert_eq!(account.foreign_writes().len(), before + 1);
}
