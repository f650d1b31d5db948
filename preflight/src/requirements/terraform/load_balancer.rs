//! The new load balancer of the control plane.

use ::hcl::Expression;
use ::hcl::structure::Block;

use super::Document;
use super::hcl::{attribute, id, label, resource, value};
use crate::requirements::object::Object;
use crate::requirements::wanted::{GroupUse, Wanted};
use crate::rules::load_balancers::{CONNECTION_TERMINATION, PRESERVE_CLIENT_ADDRESSES};

/// Maximum length of the names of load balancers and target groups.
const MAX_NAME: usize = 32;

pub(super) fn blocks(document: &Document<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for requirement in document.of(false) {
        let object = &requirement.object;
        match &requirement.wanted {
            Wanted::TargetGroup { port } => blocks.push(target_group(document, object, *port)),
            Wanted::LoadBalancer => blocks.push(load_balancer(document, object)),
            Wanted::Listener { port, target_groups } => {
                let actions = target_groups.iter().map(|group| {
                    Block::builder("default_action")
                        .add_attribute(attribute("type", "forward"))
                        .add_attribute(attribute("target_group_arn", value(group, "arn")))
                        .build()
                });
                let listener = resource("aws_lb_listener", &label(object))
                    .add_attribute(attribute("load_balancer_arn", value(object, "arn")))
                    .add_attribute(attribute("protocol", "TCP"))
                    .add_attribute(attribute("port", *port))
                    .add_blocks(actions);
                blocks.push(listener.build());
            }
            _ => {}
        }
    }
    blocks
}

/// A name with the characters that AWS allows for load balancers. It neither begins nor ends with a hyphen.
fn name(document: &Document<'_>, object: &Object) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let cluster: String = document.requirements.cluster.chars().map(letter).collect();
    let room = MAX_NAME.saturating_sub(object.name.len() + 1);
    let cluster: String = cluster.trim_start_matches('-').chars().take(room).collect();
    format!("{cluster}-{}", object.name).trim_start_matches('-').to_owned()
}

fn target_group<'a>(document: &Document<'a>, object: &'a Object, port: i32) -> Block {
    let mut block = resource("aws_lb_target_group", &label(object))
        .add_attribute(attribute("name", name(document, object)))
        .add_attribute(attribute("vpc_id", document.vpc().map_or(Expression::Null, id)))
        .add_attribute(attribute("protocol", "TCP"))
        .add_attribute(attribute("port", port))
        .add_attribute(attribute("target_type", "instance"));
    for wanted in document.wanted(object) {
        block = match wanted {
            Wanted::Attribute { key, value } if *key == PRESERVE_CLIENT_ADDRESSES => {
                block.add_attribute(attribute("preserve_client_ip", *value == "true"))
            }
            Wanted::Attribute { key, value } if *key == CONNECTION_TERMINATION => {
                block.add_attribute(attribute("connection_termination", *value == "true"))
            }
            Wanted::HealthCheck { path, interval_seconds, threshold } => block.add_block(
                Block::builder("health_check")
                    .add_attribute(attribute("protocol", "HTTPS"))
                    .add_attribute(attribute("path", *path))
                    .add_attribute(attribute("interval", *interval_seconds))
                    .add_attribute(attribute("healthy_threshold", *threshold))
                    .add_attribute(attribute("unhealthy_threshold", *threshold))
                    .build(),
            ),
            _ => block,
        };
    }
    block.build()
}

fn load_balancer<'a>(document: &Document<'a>, object: &'a Object) -> Block {
    let groups =
        document.of(false).filter(|requirement| requirement.wanted == Wanted::SecurityGroup(GroupUse::LoadBalancer));
    let groups: Vec<Expression> = groups.map(|requirement| id(&requirement.object)).collect();
    let subnets = document.wanted(object).find_map(|wanted| match wanted {
        Wanted::Subnets(subnets) => Some(subnets.iter().map(id).collect::<Vec<Expression>>()),
        _ => None,
    });
    let dual_stack = document.wants(object, &Wanted::DualStack);
    resource("aws_lb", &label(object))
        .add_attribute(attribute("name", name(document, object)))
        .add_attribute(attribute("load_balancer_type", "network"))
        .add_attribute(attribute("internal", true))
        .add_attributes(dual_stack.then(|| attribute("ip_address_type", "dualstack")))
        .add_attribute(attribute("subnets", subnets.unwrap_or_default()))
        .add_attribute(attribute("security_groups", groups))
        .build()
}
