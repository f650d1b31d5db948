//! Data sources for the objects that the cluster names.

use std::collections::BTreeSet;

use ::hcl::Expression;
use ::hcl::structure::{Block, BlockBuilder};

use super::Document;
use super::hcl::{attribute, block, id, label, type_of, value};
use crate::requirements::object::{Kind, Object};
use crate::requirements::plan::{OF_GROUPS, OF_SUBNETS, OF_TARGET_GROUPS};

pub(super) fn blocks(document: &Document<'_>) -> Vec<Block> {
    let mut done = BTreeSet::new();
    let objects = document.of(true).map(|requirement| &requirement.object);
    let objects = objects.filter(|object| done.insert(*object));
    let mut blocks: Vec<Block> = objects.filter_map(|object| data(document, object)).collect();
    blocks.extend(internet_gateway(document));
    blocks
}

fn data(document: &Document<'_>, object: &Object) -> Option<Block> {
    let data = block("data", type_of(object.kind)?, &label(object));
    let name = object.name.as_str();
    let key = match object.kind {
        Kind::Vpc => return Some(data.add_attribute(attribute("id", vpc_id(document, object))).build()),
        Kind::Subnet | Kind::SecurityGroup => "id",
        Kind::TargetGroup => "arn",
        Kind::Image => return Some(filtered(data, "image-id", name).build()),
        Kind::KeyPair => "key_name",
        Kind::InstanceProfile => "name",
        Kind::EncryptionKey => "key_id",
        Kind::Bucket => "bucket",
        _ => return None,
    };
    Some(data.add_attribute(attribute(key, name)).build())
}

/// The id of the VPC: the id that the cluster names, or the VPC id of a named part.
fn vpc_id(document: &Document<'_>, vpc: &Object) -> Expression {
    let part = match vpc.name.as_str() {
        OF_SUBNETS => Kind::Subnet,
        OF_GROUPS => Kind::SecurityGroup,
        OF_TARGET_GROUPS => Kind::TargetGroup,
        id => return id.into(),
    };
    let mut objects = document.of(true).map(|requirement| &requirement.object);
    let part = objects.find(|object| object.kind == part);
    part.map_or(Expression::Null, |part| value(part, "vpc_id"))
}

/// A data source with a filter.
fn filtered(data: BlockBuilder, name: &str, value: impl Into<Expression>) -> BlockBuilder {
    let filter = Block::builder("filter")
        .add_attribute(attribute("name", name))
        .add_attribute(attribute("values", vec![value.into()]));
    data.add_block(filter.build())
}

/// The internet gateway of an existing VPC, if new subnets need it.
fn internet_gateway(document: &Document<'_>) -> Option<Block> {
    let vpc = document.vpc().filter(|vpc| vpc.exists)?;
    let mut new = document.of(false);
    let is_needed = new.any(|requirement| super::network::leads_to_existing_gateway(&requirement.wanted));
    let data = block("data", "aws_internet_gateway", "main");
    is_needed.then(|| filtered(data, "attachment.vpc-id", id(vpc)).build())
}
