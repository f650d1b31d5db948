//! Security groups of managed clusters.

use capa_api::common::Tags;
use capa_cloud::ec2::security_group::{Rule, Source, Traffic};
use capa_cloud::ec2::{IpProtocol, SecurityGroup, security_group};
use capa_cloud::managed;

use super::super::fake::{Answer, Call, answer};
use super::{OWNED, assert_pages_of_vpc, assert_sent, observe_as, scope, sent_of, tag_set, tags};

fn rule(traffic: Traffic, source: Source<String>, description: &str) -> Rule<String> {
    Rule { traffic, source, description: description.to_owned() }
}

fn cidr(range: &str) -> Source<String> {
    Source::Cidr(range.to_owned())
}

fn ipv6_cidr(range: &str) -> Source<String> {
    Source::Ipv6Cidr(range.to_owned())
}

fn list(id: &str) -> Source<String> {
    Source::PrefixList(id.to_owned())
}

fn group(id: &str) -> Source<String> {
    Source::Group(id.to_owned())
}

/// Rules with every kind of source for the same traffic, and a rule for each kind of protocol.
fn all_rules() -> Vec<Rule<String>> {
    let https = Traffic::new(IpProtocol::Tcp, 443, 444);
    let any = || cidr("0.0.0.0/0");
    vec![
        rule(https, cidr("10.0.0.0/8"), "private"),
        rule(Traffic::new(IpProtocol::All, -1, -1), group("sg-1"), ""),
        rule(https, cidr("203.0.113.1/32"), ""),
        rule(https, ipv6_cidr("2001:db8::/32"), "IPv6"),
        rule(Traffic::new(IpProtocol::IP_IN_IP, -1, -1), any(), "IP in IP"),
        rule(https, list("pl-1"), "list"),
        rule(https, group("sg-2"), "group"),
        rule(https, group("sg-3"), ""),
        rule(Traffic::new(IpProtocol::Icmp, 8, -1), any(), ""),
        rule(Traffic::new(IpProtocol::Icmpv6, -1, -1), ipv6_cidr("::/0"), ""),
        rule(Traffic::new(IpProtocol::Udp, 53, 53), any(), ""),
    ]
}

/// A call of each kind.
pub(super) fn calls() -> [managed::Call<String>; 5] {
    let group = || "sg-1".to_owned();
    let create = security_group::Call::CreateSecurityGroup {
        vpc: "vpc-1".to_owned(),
        name: "dev-node".to_owned(),
        description: "Kubernetes cluster dev: node".to_owned(),
        tags: tags(),
    };
    let authorize = security_group::Call::AuthorizeSecurityGroupIngress { group: group(), rules: all_rules() };
    let revoke = security_group::Call::RevokeSecurityGroupIngress { group: group(), rules: all_rules() };
    let revoke_egress = security_group::Call::RevokeSecurityGroupEgress { group: group(), rules: all_rules() };
    [
        create.into(),
        authorize.into(),
        revoke.into(),
        revoke_egress.into(),
        security_group::Call::DeleteSecurityGroup { group: group() }.into(),
    ]
}

/// The answers to the calls.
pub(super) fn serve(call: &Call) -> Answer {
    let body = match call.action.as_str() {
        "CreateSecurityGroup" => "<return>true</return><groupId>sg-1</groupId>",
        _ => "<return>true</return>",
    };
    answer(&call.action, body, None)
}

#[tokio::test]
async fn every_field_of_a_call_about_a_security_group_is_sent() {
    assert_sent(
        &calls(),
        &[
            (
                "CreateSecurityGroup",
                &[
                    ("VpcId", "vpc-1"),
                    ("GroupName", "dev-node"),
                    ("GroupDescription", "Kubernetes cluster dev: node"),
                    ("TagSpecification.1.ResourceType", "security-group"),
                ],
            ),
            ("DeleteSecurityGroup", &[("GroupId", "sg-1")]),
        ],
    )
    .await;
}

/// The fields that are sent for [`all_rules`], with the descriptions.
const SENT: [(&str, &str); 34] = [
    ("GroupId", "sg-1"),
    ("1.Groups.1.GroupId", "sg-1"),
    ("1.IpProtocol", "-1"),
    ("2.IpProtocol", "4"),
    ("2.IpRanges.1.CidrIp", "0.0.0.0/0"),
    ("2.IpRanges.1.Description", "IP in IP"),
    ("3.FromPort", "8"),
    ("3.IpProtocol", "icmp"),
    ("3.IpRanges.1.CidrIp", "0.0.0.0/0"),
    ("3.ToPort", "-1"),
    ("4.FromPort", "-1"),
    ("4.IpProtocol", "icmpv6"),
    ("4.Ipv6Ranges.1.CidrIpv6", "::/0"),
    ("4.ToPort", "-1"),
    ("5.FromPort", "443"),
    ("5.IpProtocol", "tcp"),
    ("5.IpRanges.1.CidrIp", "10.0.0.0/8"),
    ("5.IpRanges.1.Description", "private"),
    ("5.IpRanges.2.CidrIp", "203.0.113.1/32"),
    ("5.Ipv6Ranges.1.CidrIpv6", "2001:db8::/32"),
    ("5.Ipv6Ranges.1.Description", "IPv6"),
    ("5.PrefixListIds.1.Description", "list"),
    ("5.PrefixListIds.1.PrefixListId", "pl-1"),
    ("5.ToPort", "444"),
    ("6.FromPort", "443"),
    ("6.Groups.1.Description", "group"),
    ("6.Groups.1.GroupId", "sg-2"),
    ("6.Groups.2.GroupId", "sg-3"),
    ("6.IpProtocol", "tcp"),
    ("6.ToPort", "444"),
    ("7.FromPort", "53"),
    ("7.IpProtocol", "udp"),
    ("7.IpRanges.1.CidrIp", "0.0.0.0/0"),
    ("7.ToPort", "53"),
];

#[tokio::test]
async fn groups_and_ranges_are_sent_apart_for_each_kind_of_traffic() {
    let sent = sent_of(&calls()).await;
    for (action, has_descriptions) in [
        ("AuthorizeSecurityGroupIngress", true),
        ("RevokeSecurityGroupIngress", false),
        ("RevokeSecurityGroupEgress", false),
    ] {
        let calls: Vec<_> = sent.iter().filter(|call| call.action == action).collect();
        assert_eq!(calls.len(), 1, "{action}");
        let fields = calls[0].form.iter();
        let fields = fields.filter(|(name, _)| !["Action", "Version"].contains(&name.as_str()));
        let fields = fields.map(|(name, value)| (name.trim_start_matches("IpPermissions."), value.as_str()));
        let expected = SENT.into_iter();
        let expected = expected.filter(|(name, _)| has_descriptions || !name.ends_with("Description"));
        assert_eq!(fields.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{action}");
    }
}

fn permission_xml(protocol: &str, ports: &str, sources: &str) -> String {
    format!("<item><ipProtocol>{protocol}</ipProtocol>{ports}{sources}</item>")
}

fn ports_xml(first: i32, last: i32) -> String {
    format!("<fromPort>{first}</fromPort><toPort>{last}</toPort>")
}

fn group_xml(id: &str, vpc: &str, name: &str, permissions: &str, tags: &str) -> String {
    format!(
        "<item><groupId>{id}</groupId><vpcId>{vpc}</vpcId><groupName>{name}</groupName>\
         <groupDescription>described</groupDescription><ipPermissions>{permissions}</ipPermissions>\
         <ipPermissionsEgress>{}</ipPermissionsEgress>{tags}</item>",
        permission_xml("-1", "", "<ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>")
    )
}

/// The security groups of a VPC on two pages, with a security group of another VPC.
fn groups(call: &Call) -> Answer {
    let (items, next) = match (call.action.as_str(), call.field("NextToken")) {
        ("DescribeSecurityGroups", "") => {
            let groups = "<item><userId>1</userId><groupId>sg-2</groupId><description>group</description></item>\
                          <item><userId>2</userId><groupId>sg-9</groupId></item><item><userId>3</userId></item>";
            let ranges = "<item><cidrIp>10.0.0.0/8</cidrIp><description>private</description></item>\
                          <item><cidrIp>203.0.113.1/32</cidrIp></item>";
            let ipv6 = "<item><cidrIpv6>2001:db8::/32</cidrIpv6><description>IPv6</description></item>";
            let list = "<item><prefixListId>pl-1</prefixListId><description>list</description></item>";
            let sources = format!(
                "<groups>{groups}</groups><ipRanges>{ranges}</ipRanges><ipv6Ranges>{ipv6}</ipv6Ranges>\
                 <prefixListIds>{list}</prefixListIds>"
            );
            let range = "<ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>";
            let permissions = permission_xml("tcp", &ports_xml(443, 444), &sources)
                + &permission_xml("4", "", range)
                + &permission_xml("50", &ports_xml(0, 65535), range)
                + &permission_xml("icmp", &ports_xml(8, -1), range)
                + &permission_xml("icmpv6", "", range);
            let owned = tag_set(OWNED, "owned");
            let items = group_xml("sg-1", "vpc-1", "dev-node", &permissions, &owned)
                + &group_xml("sg-foreign", "vpc-2", "dev-node", &permissions, &owned);
            (items, Some("page-2"))
        }
        ("DescribeSecurityGroups", _) => {
            let itself = "<groups><item><groupId>sg-5</groupId></item></groups>";
            let permissions = permission_xml("-1", "", itself);
            (group_xml("sg-5", "vpc-1", "default", &permissions, ""), None)
        }
        _ => return answer(&call.action, "", None),
    };
    answer(&call.action, &format!("<securityGroupInfo>{items}</securityGroupInfo>"), next)
}

#[tokio::test]
async fn security_groups_of_a_vpc_show_a_rule_for_each_source() {
    let (fake, seen) = observe_as(&scope(Some("vpc-1")), groups).await;
    let https = Traffic::new(IpProtocol::Tcp, 443, 444);
    let any = || cidr("0.0.0.0/0");
    let own = SecurityGroup {
        id: "sg-1".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        name: "dev-node".to_owned(),
        owner_id: String::new(),
        ingress: vec![
            rule(https, cidr("10.0.0.0/8"), "private"),
            rule(https, cidr("203.0.113.1/32"), ""),
            rule(https, ipv6_cidr("2001:db8::/32"), "IPv6"),
            rule(https, list("pl-1"), "list"),
            rule(https, group("sg-2"), "group"),
            rule(https, group("sg-9"), ""),
            rule(Traffic::new(IpProtocol::IP_IN_IP, -1, -1), any(), ""),
            rule(Traffic::new(IpProtocol::ESP, -1, -1), any(), ""),
            rule(Traffic::new(IpProtocol::Icmp, 8, -1), any(), ""),
            rule(Traffic::new(IpProtocol::Icmpv6, -1, -1), any(), ""),
        ],
        egress: vec![rule(Traffic::new(IpProtocol::All, -1, -1), any(), "")],
        tags: tags(),
    };
    let default = SecurityGroup {
        id: "sg-5".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        name: "default".to_owned(),
        ingress: vec![rule(Traffic::new(IpProtocol::All, -1, -1), group("sg-5"), "")],
        egress: vec![rule(Traffic::new(IpProtocol::All, -1, -1), any(), "")],
        tags: Tags::new(),
        ..SecurityGroup::default()
    };
    assert_eq!(seen.security_groups.shown(), Some(&vec![own, default]));
    assert_pages_of_vpc(&fake, "DescribeSecurityGroups", "1000");
}
