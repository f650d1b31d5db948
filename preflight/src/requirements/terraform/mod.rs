//! A Terraform configuration that creates the objects that the cluster does not name, and outputs the network for
//! machines.

mod existing;
mod hcl;
mod load_balancer;
mod network;
mod outputs;
mod security_groups;

use ::hcl::structure::{Block, Structure};
use ::hcl::{Body, Error};

use super::object::Object;
use super::requirement::{Requirement, Requirements};
use super::wanted::Wanted;
use hcl::{attribute, object};

/// The configuration. Comments at its end list the objects that exist already and those that Terraform does not create.
///
/// # Errors
/// The configuration cannot be written in Terraform's language.
pub fn terraform(requirements: &Requirements) -> Result<String, Error> {
    let document = Document { requirements };
    let blocks = [
        document.settings(),
        existing::blocks(&document),
        network::blocks(&document),
        security_groups::blocks(&document),
        load_balancer::blocks(&document),
        outputs::blocks(&document),
    ];
    let body: Body = blocks.into_iter().flatten().map(Structure::Block).collect();
    let text = ::hcl::format::to_string(&body)?;
    Ok(format!("{text}{}", document.remarks()))
}

/// The requirements in the form in which the parts of a configuration read them.
struct Document<'a> {
    requirements: &'a Requirements,
}

impl<'a> Document<'a> {
    /// The requirements for objects that exist, or for objects that have to be created.
    fn of(&self, exists: bool) -> impl Iterator<Item = &'a Requirement> {
        let requirements = self.requirements.requirements.iter();
        requirements.filter(move |requirement| requirement.object.exists == exists)
    }

    /// All demands of the requirements on an object.
    fn wanted(&self, object: &'a Object) -> impl Iterator<Item = &'a Wanted> {
        let requirements = self.requirements.requirements.iter();
        requirements.filter(move |requirement| requirement.object == *object).map(|requirement| &requirement.wanted)
    }

    fn wants(&self, object: &'a Object, wanted: &Wanted) -> bool {
        self.wanted(object).any(|other| other == wanted)
    }

    /// The VPC. Every list of requirements has one.
    fn vpc(&self) -> Option<&'a Object> {
        let mut requirements = self.requirements.requirements.iter();
        let of_vpc = requirements.find(|requirement| matches!(requirement.wanted, Wanted::Vpc { .. }));
        of_vpc.map(|requirement| &requirement.object)
    }

    /// Tags for a resource that is part of an object without tags of its own.
    fn tags_of_part(&self, of: &Object) -> ::hcl::Expression {
        let name = format!("{}-{}", self.requirements.cluster, of.name);
        hcl::map([("Name".to_owned(), name.into())])
    }

    /// Tags of a new object: its name and the required tags.
    fn tags(&self, of: &'a Object) -> ::hcl::Expression {
        let name = format!("{}-{}", self.requirements.cluster, of.name);
        let wanted = self.wanted(of).filter_map(|wanted| match wanted {
            Wanted::Tag { key, value } => Some((key.clone(), (*value).into())),
            _ => None,
        });
        hcl::map([("Name".to_owned(), name.into())].into_iter().chain(wanted))
    }

    fn settings(&self) -> Vec<Block> {
        let provider = object([("source", "hashicorp/aws".into()), ("version", ">= 5.0".into())]);
        let providers = Block::builder("required_providers").add_attribute(attribute("aws", provider));
        let terraform = Block::builder("terraform")
            .add_attribute(attribute("required_version", ">= 1.3"))
            .add_block(providers.build());
        let region = attribute("region", self.requirements.region.as_str());
        let aws = Block::builder("provider").add_label("aws").add_attribute(region);
        vec![terraform.build(), aws.build()]
    }

    /// Comments about the requirements that the configuration does not fulfil.
    fn remarks(&self) -> String {
        let all = self.requirements.requirements.iter();
        let left = all
            .filter(|requirement| requirement.object.exists || matches!(requirement.wanted, Wanted::AdmitsPodNetwork));
        let lines = left.map(|requirement| {
            // A name with a line break would end the comment.
            let sentence = requirement.sentence.replace(char::is_control, " ");
            format!("# - {sentence} ({})\n", requirement.rules.join(", "))
        });
        format!("\n# This configuration does not provide the following:\n{}", lines.collect::<String>())
    }
}
