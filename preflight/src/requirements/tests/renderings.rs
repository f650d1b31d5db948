//! The requirements as text and as a Terraform configuration.

use std::collections::BTreeSet;

use ::hcl::expr::{ForExpr, FuncCall, ObjectKey, Traversal, TraversalOperator};
use ::hcl::structure::{Block, Structure};
use ::hcl::{Body, Expression};
use serde_json::json;

use super::super::*;
use super::demands::{all, of_spec};

fn configuration(demand: &Demand) -> (String, Body) {
    let text = terraform(&requirements(demand)).unwrap();
    let body = ::hcl::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, body)
}

/// Blocks that others refer to, as `aws_vpc.main`, `data.aws_vpc.main` and `var.name`.
fn declared(body: &Body) -> Vec<String> {
    let blocks = body.blocks().filter_map(|block| {
        let labels: Vec<&str> = block.labels().iter().map(::hcl::structure::BlockLabel::as_str).collect();
        match block.identifier() {
            "resource" => Some(labels.join(".")),
            "data" => Some(format!("data.{}", labels.join("."))),
            "variable" => Some(format!("var.{}", labels.join("."))),
            _ => None,
        }
    });
    blocks.collect()
}

fn references(body: &Body, found: &mut BTreeSet<String>) {
    for structure in body {
        match structure {
            Structure::Attribute(attribute) => of_expression(attribute.expr(), found),
            Structure::Block(block) => references(block.body(), found),
        }
    }
}

fn of_expression(expression: &Expression, found: &mut BTreeSet<String>) {
    match expression {
        Expression::Array(values) => values.iter().for_each(|value| of_expression(value, found)),
        Expression::Object(entries) => {
            for (key, value) in entries {
                if let ObjectKey::Expression(key) = key {
                    of_expression(key, found);
                }
                of_expression(value, found);
            }
        }
        Expression::FuncCall(call) => {
            let FuncCall { args, .. } = call.as_ref();
            for value in args {
                of_expression(value, found);
            }
        }
        Expression::ForExpr(of) => {
            let ForExpr { collection_expr, .. } = of.as_ref();
            of_expression(collection_expr, found);
        }
        Expression::Traversal(traversal) => found.extend(of_traversal(traversal)),
        Expression::TemplateExpr(template) => panic!("no text has expressions: {template}"),
        _ => {}
    }
}

/// The block to which a path leads; `None` for the iterator of a repetition.
fn of_traversal(traversal: &Traversal) -> Option<String> {
    let names = traversal.operators.iter().filter_map(|operator| match operator {
        TraversalOperator::GetAttr(name) => Some(name.as_str().to_owned()),
        _ => None,
    });
    let names: Vec<String> = [traversal.expr.to_string()].into_iter().chain(names).collect();
    match names[0].as_str() {
        "each" | "association" => None,
        "data" => Some(names[..3].join(".")),
        _ => Some(names[..2].join(".")),
    }
}

#[test]
fn every_reference_of_a_configuration_leads_to_a_block() {
    for (name, demand) in all() {
        let (text, body) = configuration(&demand);
        let declared = declared(&body);
        let unique: BTreeSet<String> = declared.iter().cloned().collect();
        assert_eq!(unique.len(), declared.len(), "{name}: {declared:#?}");
        let mut found = BTreeSet::new();
        references(&body, &mut found);
        assert!(found.is_subset(&unique), "{name}: {:?}\n{text}", &found - &unique);
    }
}

#[test]
fn everything_that_has_to_be_created_is_a_resource() {
    for (name, demand) in all() {
        let needed = requirements(&demand);
        let (text, body) = configuration(&demand);
        let number = |of: &str| {
            let resources = declared(&body);
            resources.iter().filter(|resource| resource.starts_with(&format!("{of}."))).count()
        };
        let new = || needed.requirements.iter().filter(|requirement| !requirement.object.exists);
        let objects = |kind| -> BTreeSet<&Object> {
            let of_kind = new().map(|requirement| &requirement.object);
            of_kind.filter(|object| object.kind == kind).collect()
        };
        for (kind, of) in [
            (Kind::Vpc, "aws_vpc"),
            (Kind::Subnet, "aws_subnet"),
            (Kind::Subnet, "aws_route"),
            (Kind::InternetGateway, "aws_internet_gateway"),
            (Kind::NatGateway, "aws_nat_gateway"),
            (Kind::SecurityGroup, "aws_security_group"),
            (Kind::TargetGroup, "aws_lb_target_group"),
            (Kind::LoadBalancer, "aws_lb"),
            (Kind::LoadBalancer, "aws_lb_listener"),
        ] {
            let routes_of_ipv6 = usize::from(of == "aws_route" && name == "IPv6") * objects(kind).len();
            assert_eq!(number(of), objects(kind).len() + routes_of_ipv6, "{name}: {of}\n{text}");
        }
        let admitted = new().filter(|requirement| matches!(requirement.wanted, Wanted::Admits { .. }));
        assert_eq!(number("aws_vpc_security_group_ingress_rule"), admitted.count(), "{name}\n{text}");
    }
}

#[test]
fn names_of_users_stay_texts_in_a_configuration() {
    let mut demand = of_spec("workers", &[("sshKeyName", json!("a\"\n}${file(\"/etc/passwd\")} %{ if true }"))]);
    demand.cluster_tag = "${path.root}".to_owned();
    let (text, body) = configuration(&demand);
    let key = body.blocks().find(|block| block.labels().iter().any(|label| label.as_str() == "aws_key_pair"));
    let name: Vec<&Expression> = key.unwrap().body().attributes().map(::hcl::Attribute::expr).collect();
    let [Expression::String(name)] = name.as_slice() else {
        panic!("{name:?} is no text:\n{text}");
    };
    assert_eq!(name, "a\"\n}${file(\"/etc/passwd\")} %{ if true }");
    for escaped in ["$${file(", "%%{ if", "$${path.root}"] {
        assert!(text.contains(escaped), "{escaped}\n{text}");
    }
    let remarks = text.lines().filter(|line| line.contains("Key pair"));
    assert!(remarks.clone().count() == 1 && remarks.clone().all(|line| line.starts_with("# - ")), "{text}");
}

#[test]
fn an_existing_network_is_read_and_not_created() {
    let (_, demand) = all().into_iter().find(|(name, _)| *name == "IPv6, all named").unwrap();
    let (text, body) = configuration(&demand);
    let resources: Vec<&Block> = body.blocks().filter(|block| block.identifier() == "resource").collect();
    assert!(resources.is_empty(), "{text}");
    for line in [
        r#"data "aws_subnet" "subnet_0000000a" {"#,
        r#"  arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0000000000000001""#,
        "# - Subnet subnet-0000000a has the tag kubernetes.io/cluster/prod=shared (S9)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_security_group_rule_is_written_with_its_peer() {
    let text = configuration(&of_spec("cp", &[])).0;
    let rule = r#"resource "aws_vpc_security_group_ingress_rule" "control_plane_tcp_6443_from_load_balancer" {
  referenced_security_group_id = aws_security_group.load_balancer.id
  security_group_id = aws_security_group.control_plane.id
  description = "G4"
  ip_protocol = "tcp"
  from_port = 6443
  to_port = 6443
}
"#;
    assert!(text.contains(rule), "{text}");
}

#[test]
fn the_text_groups_requirements_and_ends_with_the_check() {
    let demand = of_spec("workers", &[("securityGroups", json!({"all": ["sg-0000000a"]}))]);
    let text = text(&requirements(&demand), "cluster.yaml");
    let expected = "security groups
---------------
= Security group sg-0000000a exists and is available in the VPC, for all machines (G1)
= Security group sg-0000000a has room for another rule (G3)
= Security group sg-0000000a has the tag kubernetes.io/cluster/prod=shared (G11)
= Security group sg-0000000a admits TCP 30000-32767 from the ranges of the VPC (G9)
= Security group sg-0000000a admits TCP 179 from security group sg-0000000a (G8)
= Security group sg-0000000a admits IP in IP (protocol 4) from security group sg-0000000a (G8)
= Security group sg-0000000a allows TCP 443 to everywhere (G10)
= Security group sg-0000000a allows TCP 6443 to the ranges of the VPC (G10)
= Security group sg-0000000a allows TCP 10250 to the ranges of the VPC (G10)
= Security group sg-0000000a allows TCP 8132 to everywhere (G12)
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\n+ Subnet private-1 has to be created, as a private subnet for machines (S1)\n"), "{text}");
    assert!(text.ends_with("\nWhen it is there, check it: capa-rs check network -f cluster.yaml\n"), "{text}");
}
