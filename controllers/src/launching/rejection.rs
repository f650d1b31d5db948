//! A launch that EC2 refuses, in the terms of the user: the field with its value, the region, the source of the value,
//! and the remedy; and whether the refusal concerns every launch of its kind. Pure.

use std::collections::BTreeMap;
use std::fmt;

use capa_api::cluster::AWSCluster;
use capa_api::common::{IdentityReference, MachineRole};
use capa_api::machine::AWSMachine;
use capa_api::network::MachineNetwork;
use capa_cloud::{CloudError, Fault, LaunchRequest, Parameter, Subject, Volume};
use kube::Resource as _;

use crate::identity;
use crate::launching::image::image_id;
use crate::launching::replacement::Replacement;

/// The longest part of a value that a message repeats.
const MAX_SHOWN_CHARACTERS: usize = 128;

/// The known facts of a refused launch.
pub(crate) struct RefusedLaunch<'a> {
    pub(crate) machine: &'a AWSMachine,
    pub(crate) request: &'a LaunchRequest,
    /// The network of the launch.
    pub(crate) network: &'a MachineNetwork,
    /// For each field of the network, the source that supplies it, as `Kind/name`.
    pub(crate) sources: &'a BTreeMap<String, String>,
    pub(crate) role: MachineRole,
    pub(crate) region: &'a str,
    pub(crate) account_id: &'a str,
    /// Zone of the subnet, if it is known.
    pub(crate) zone: Option<&'a str>,
    pub(crate) identity: &'a IdentityReference,
    pub(crate) error: &'a CloudError,
}

/// What EC2 refuses.
enum Refused<'a> {
    /// A field.
    Field(Field<'a>, Parameter, Fault),
    /// An action that the identity may not perform, with the instance profile if the action is about its role.
    Action(&'a str, Option<Field<'a>>),
    /// Only AWS's text says what it refuses.
    Unknown,
}

/// A field with its value in a launch.
struct Field<'a> {
    path: String,
    /// The value. `None` if it is not known which of several values is meant.
    value: Option<&'a str>,
    origin: Origin<'a>,
}

/// The object that supplies the value of a field.
enum Origin<'a> {
    /// The spec of the machine.
    Spec(Replacement<'a>),
    /// A source of the network, as `Kind/name`.
    Source(&'a str),
    /// An attempt that was recorded before the sources changed.
    Record,
}

impl<'a> RefusedLaunch<'a> {
    /// Whether the error names a parameter of the launch.
    pub(crate) fn is_about_a_field(&self) -> bool {
        matches!(self.error.subject.as_deref(), Some(Subject::Parameter { .. }))
    }

    fn refused(&self) -> Refused<'a> {
        match self.error.subject.as_deref() {
            Some(Subject::Parameter { parameter, fault, value }) => {
                Refused::Field(self.field(*parameter, value.as_deref()), *parameter, *fault)
            }
            Some(Subject::Permission(action)) => {
                let passes_role = action == "iam:PassRole" && self.request.iam_instance_profile.is_some();
                let profile = passes_role.then(|| self.field(Parameter::InstanceProfile, None));
                Refused::Action(action, profile)
            }
            None => Refused::Unknown,
        }
    }

    /// The field that supplies a parameter. `named` is the value in AWS's text, if there is one.
    fn field(&self, parameter: Parameter, named: Option<&str>) -> Field<'a> {
        let (spec, request) = (&self.machine.spec, self.request);
        match parameter {
            Parameter::Image if image_id(spec).is_none() => {
                let of_network = self.network.image_lookup.as_ref();
                let by = match spec.effective_eks_lookup_type(of_network) {
                    Some(_) => "spec.ami.eksLookupType",
                    None => "spec.imageLookupFormat",
                };
                self.of_spec(&format!("the image that {by} finds"), Some(&request.image_id))
            }
            Parameter::Image => self.of_spec("spec.ami.id", Some(&request.image_id)),
            Parameter::InstanceType => self.of_spec("spec.instanceType", Some(&request.instance_type)),
            Parameter::Subnet if spec.names_subnet() => self.of_spec("spec.subnet", Some(&request.subnet_id)),
            Parameter::Subnet => self.of_network("subnets", Some(&request.subnet_id)),
            Parameter::SecurityGroup => self.security_group(named),
            Parameter::InstanceProfile => {
                let profile = request.iam_instance_profile.as_deref();
                match spec.iam_instance_profile.as_deref() {
                    Some(own) if !own.is_empty() => self.of_spec("spec.iamInstanceProfile", profile),
                    _ => self.of_network("instanceProfiles", profile),
                }
            }
            Parameter::KeyPair if spec.ssh_key_name.is_some() => {
                self.of_spec("spec.sshKeyName", request.key_name.as_deref())
            }
            Parameter::KeyPair => self.of_network("sshKeyName", request.key_name.as_deref()),
            Parameter::Volume => self.volume(named),
            Parameter::Tags if spec.additional_tags.is_empty() => self.of_network("additionalTags", None),
            Parameter::Tags => self.of_spec("spec.additionalTags", None),
        }
    }

    fn of_spec(&self, path: &str, value: Option<&'a str>) -> Field<'a> {
        Field { path: path.to_owned(), value, origin: Origin::Spec(Replacement::of(&self.machine.metadata)) }
    }

    /// A field that a source of the network supplies. The spec of the machine is one of the sources.
    fn of_network(&self, field: &str, value: Option<&'a str>) -> Field<'a> {
        let own = self.machine.metadata.name.as_deref().unwrap_or_default();
        let source = self.sources.get(field).map(String::as_str);
        let (kind, name) = source.and_then(|source| source.split_once('/')).unzip();
        match source {
            Some(_) if kind == Some(&AWSMachine::kind(&())) && name == Some(own) => {
                let path = match field.strip_prefix("securityGroups.") {
                    Some(_) => "spec.securityGroupOverrides".to_owned(),
                    None => format!("spec.{field}"),
                };
                self.of_spec(&path, value)
            }
            source => {
                Field { path: path_in(kind, field), value, origin: source.map_or(Origin::Record, Origin::Source) }
            }
        }
    }

    /// The security group with this id, or the only one of the launch.
    fn security_group(&self, named: Option<&str>) -> Field<'a> {
        let ids = &self.request.security_group_ids;
        let named = ids.iter().find(|id| Some(id.as_str()) == named);
        let Some(id) = named.or_else(|| ids.first().filter(|_| ids.len() == 1)) else {
            return self.of_network("securityGroups", None);
        };
        let groups = self.network.security_groups.as_ref();
        let supplies = |ids: &[String]| ids.contains(id);
        let field = match groups {
            Some(groups) if supplies(&groups.all) => "securityGroups.all",
            Some(groups) if supplies(groups.of_role(self.role)) => match self.role {
                MachineRole::ControlPlane => "securityGroups.controlPlane",
                MachineRole::Worker => "securityGroups.worker",
            },
            _ if !self.machine.spec.additional_security_groups.is_empty() => {
                return self.of_spec("spec.additionalSecurityGroups", Some(id));
            }
            _ => "securityGroups",
        };
        self.of_network(field, Some(id))
    }

    /// The volume with this device, or the only one of the launch.
    fn volume(&self, named: Option<&str>) -> Field<'a> {
        let request = self.request;
        let root = request.root_volume.iter();
        let others = request.data_volumes.iter().enumerate();
        let others = others.map(|(index, volume)| (format!("spec.nonRootVolumes[{index}]"), volume));
        let volumes: Vec<_> = root.map(|volume| ("spec.rootVolume".to_owned(), volume)).chain(others).collect();
        let is_named = |(_, volume): &&(String, &Volume)| volume.device_name.as_deref() == named;
        let only = || volumes.first().filter(|_| volumes.len() == 1);
        match volumes.iter().find(is_named).or_else(only) {
            Some((path, volume)) => self.of_spec(path, volume.device_name.as_deref()),
            None => self.of_spec("spec.rootVolume or spec.nonRootVolumes", None),
        }
    }

    fn write_fault(&self, parameter: Parameter, fault: Fault, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (region, account) = (self.region, self.account_id);
        match (fault, parameter) {
            // IAM has no regions.
            (Fault::Missing, Parameter::InstanceProfile) => write!(formatter, " does not exist in account {account}"),
            (Fault::Missing, _) => write!(formatter, " does not exist in {region} of account {account}"),
            (Fault::NotShared, _) => write!(formatter, " may not be used in {region} by account {account}"),
            (Fault::OtherVpc, _) => {
                let subnet = &self.request.subnet_id;
                write!(formatter, " belongs to another VPC than {subnet} in {region}")
            }
            (Fault::NotOffered, _) => {
                write!(formatter, " is not offered in {}", self.zone.unwrap_or(region))
            }
            (Fault::Full, _) => write!(formatter, " in {region} has no free address"),
            (Fault::Quota, _) => write!(formatter, " exceeds a quota of account {account} in {region}"),
            (Fault::Refused, _) => write!(formatter, " is refused in {region} of account {account}"),
        }
    }
}

/// Whether EC2 refuses all launches of a kind with this error. Errors about a subnet, a tag or user data concern one
/// machine, and so may errors about a permission.
pub(crate) fn concerns_kind(error: &CloudError) -> bool {
    let Some(Subject::Parameter { parameter, fault, .. }) = error.subject.as_deref() else {
        return false;
    };
    let is_common = match parameter {
        Parameter::Image
        | Parameter::InstanceType
        | Parameter::KeyPair
        | Parameter::InstanceProfile
        | Parameter::SecurityGroup
        | Parameter::Volume => true,
        Parameter::Subnet | Parameter::Tags => false,
    };
    let depends_on_subnet = matches!(fault, Fault::OtherVpc | Fault::NotOffered | Fault::Full);
    error.class.is_permanent() && is_common && !depends_on_subnet
}

/// The path of a field of the network in its source. For an AWSCluster, it is the field of the spec that a user writes,
/// if there is one.
fn path_in(kind: Option<&str>, field: &str) -> String {
    let is_cluster = kind == Some(&AWSCluster::kind(&()));
    let (first, _) = field.split_once('.').unwrap_or((field, ""));
    match first {
        "subnets" if is_cluster => "spec.network.subnets".to_owned(),
        "securityGroups" if is_cluster => "spec.network.securityGroupOverrides".to_owned(),
        "sshKeyName" | "additionalTags" if is_cluster => format!("spec.{first}"),
        _ => format!("status.network.{field}"),
    }
}

impl fmt::Display for RefusedLaunch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (region, account, error) = (self.region, self.account_id, self.error);
        let identity = format!("{}/{}", self.identity.kind, self.identity.name);
        match self.refused() {
            Refused::Field(field, parameter, fault) => {
                write!(formatter, "{field}")?;
                self.write_fault(parameter, fault, formatter)?;
                write!(formatter, ": {}; {error}", Remedy::of(parameter, fault, &field.origin))
            }
            Refused::Action(action, Some(profile)) => write!(
                formatter,
                "{identity} may not pass the role of {profile} to EC2 in account {account}: allow it {action} for this \
                 role; {error}"
            ),
            Refused::Action(action, None) => write!(
                formatter,
                "{identity} lacks the permission {action} in {region} of account {account}: allow it; {error}"
            ),
            Refused::Unknown => {
                let described = identity::described(error, self.identity);
                write!(formatter, "the launch in {region} of account {account} fails: {described}")
            }
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path)?;
        if let Origin::Source(source) = self.origin {
            write!(formatter, " of {source}")?;
        }
        let Some(value) = self.value else {
            return Ok(());
        };
        let shown: String = value.chars().take(MAX_SHOWN_CHARACTERS).flat_map(char::escape_debug).collect();
        write!(formatter, ": {shown}")
    }
}

/// What the user can do.
struct Remedy<'a> {
    in_aws: Option<&'static str>,
    /// The change of the field, if it helps.
    change: Option<&'a Origin<'a>>,
}

impl<'a> Remedy<'a> {
    fn of(parameter: Parameter, fault: Fault, origin: &'a Origin<'a>) -> Self {
        let in_aws = match (fault, parameter) {
            (Fault::Missing, Parameter::InstanceProfile) => Some("create it"),
            (Fault::Missing, Parameter::KeyPair) => Some("import it"),
            (Fault::Missing, Parameter::Image) => Some("copy the image there"),
            (Fault::NotShared, _) => Some("have its owner share it, or accept its terms"),
            (Fault::Full, _) => Some("release addresses"),
            (Fault::Quota, _) => Some("raise the quota, or delete what uses it"),
            _ => None,
        };
        Self { in_aws, change: (fault != Fault::Quota).then_some(origin) }
    }
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.in_aws.unwrap_or_default())?;
        if self.in_aws.is_some() && self.change.is_some() {
            formatter.write_str(", or ")?;
        }
        match self.change {
            None => Ok(()),
            Some(Origin::Spec(replacement)) => write!(formatter, "{replacement}"),
            Some(Origin::Source(source)) => write!(formatter, "correct {source}"),
            Some(Origin::Record) => formatter.write_str("correct the source of the network"),
        }
    }
}

#[cfg(test)]
mod tests;
