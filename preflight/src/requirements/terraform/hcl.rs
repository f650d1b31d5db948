//! Blocks and expressions of the language of Terraform.

use hcl::expr::{FuncCall, ObjectKey, Traversal, TraversalOperator, Variable};
use hcl::structure::{Attribute, Block, BlockBuilder};
use hcl::{Expression, Identifier};

use crate::requirements::object::{Kind, Object};

/// Type of the resources and data sources of a kind; `None` if the configuration does not name objects of the kind.
pub(super) const fn type_of(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Vpc => "aws_vpc",
        Kind::Subnet => "aws_subnet",
        Kind::InternetGateway => "aws_internet_gateway",
        Kind::NatGateway => "aws_nat_gateway",
        Kind::SecurityGroup => "aws_security_group",
        Kind::TargetGroup => "aws_lb_target_group",
        Kind::LoadBalancer => "aws_lb",
        Kind::Image => "aws_ami",
        Kind::KeyPair => "aws_key_pair",
        Kind::InstanceProfile => "aws_iam_instance_profile",
        Kind::EncryptionKey => "aws_kms_key",
        Kind::Bucket => "aws_s3_bucket",
        Kind::Account
        | Kind::DnsName
        | Kind::InstanceType
        | Kind::PlacementGroup
        | Kind::CapacityReservation
        | Kind::DedicatedHost
        | Kind::ServiceLinkedRole => return None,
    })
}

/// Name of an object in the configuration. There is one VPC at most.
pub(super) fn label(object: &Object) -> String {
    if object.kind == Kind::Vpc {
        return "main".to_owned();
    }
    // In the ARN of a target group, the part after the type identifies the object.
    let name = object.name.rsplit_once(":targetgroup/").map_or(object.name.as_str(), |(_, name)| name);
    label_of(name)
}

/// A text converted to a name in the configuration.
pub(super) fn label_of(text: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let label: String = text.chars().map(letter).collect();
    if label.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        label
    } else {
        format!("_{label}")
    }
}

/// A block with two labels: a resource or a data source.
pub(super) fn block(kind: &str, of: &str, label: &str) -> BlockBuilder {
    Block::builder(kind).add_label(of).add_label(label)
}

/// A resource.
pub(super) fn resource(of: &str, label: &str) -> BlockBuilder {
    block("resource", of, label)
}

/// An attribute of a block.
pub(super) fn attribute(key: &str, value: impl Into<Expression>) -> Attribute {
    Attribute::new(key, value)
}

/// A path to a value, for example `aws_vpc.main.id`.
pub(super) fn path(parts: &[&str]) -> Traversal {
    let (first, rest) = parts.split_first().unwrap_or((&"", &[]));
    let rest = rest.iter().map(|part| TraversalOperator::GetAttr(Identifier::sanitized(part)));
    Traversal::new(Variable::sanitized(first), rest)
}

/// The value at a path and a key, for example `var.ranges["a"]`.
pub(super) fn at(parts: &[&str], key: impl Into<Expression>) -> Expression {
    let mut path = path(parts);
    path.operators.push(TraversalOperator::Index(key.into()));
    path.into()
}

/// A value of an object.
pub(super) fn value(object: &Object, name: &str) -> Expression {
    let label = label(object);
    let of = type_of(object.kind).unwrap_or_default();
    if object.exists { path(&["data", of, &label, name]).into() } else { path(&[of, &label, name]).into() }
}

/// The id of an object.
pub(super) fn id(object: &Object) -> Expression {
    value(object, "id")
}

/// A call of a function.
pub(super) fn call(name: &str, arguments: impl IntoIterator<Item = Expression>) -> Expression {
    let mut call = FuncCall::builder(name);
    for argument in arguments {
        call = call.arg(argument);
    }
    call.build().into()
}

/// An object whose keys are identifiers.
pub(super) fn object<'a>(entries: impl IntoIterator<Item = (&'a str, Expression)>) -> Expression {
    let entries = entries.into_iter().map(|(key, value)| (ObjectKey::Identifier(Identifier::sanitized(key)), value));
    entries.collect()
}

/// An object whose keys are strings.
pub(super) fn map(entries: impl IntoIterator<Item = (String, Expression)>) -> Expression {
    let entries = entries.into_iter().map(|(key, value)| (ObjectKey::Expression(key.into()), value));
    entries.collect()
}

/// A variable of the configuration.
pub(super) fn variable(name: &str, of: Expression, description: &str, default: Option<Expression>) -> Block {
    let block = Block::builder("variable")
        .add_label(name)
        .add_attribute(attribute("description", description))
        .add_attribute(attribute("type", of));
    let default = default.map(|value| attribute("default", value));
    block.add_attributes(default).build()
}

/// An output of the configuration.
pub(super) fn output(name: &str, value: impl Into<Expression>) -> Block {
    let block = Block::builder("output").add_label(name);
    block.add_attribute(attribute("value", value)).build()
}
