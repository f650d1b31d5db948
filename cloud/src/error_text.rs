//! Finds out which parameter of a request an EC2 error is about. Pure.
//!
//! EC2 has one code for many parameters (`InvalidParameterValue`) and does not document its texts. So the provider
//! bases no decision on the text of an error; it only uses the text to name the parameter in a message. If the text is
//! unknown, the caller shows the text itself.

/// A parameter of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// The machine image.
    Image,
    /// The instance type.
    InstanceType,
    /// The subnet.
    Subnet,
    /// A security group.
    SecurityGroup,
    /// The IAM instance profile.
    InstanceProfile,
    /// The key pair.
    KeyPair,
    /// A volume.
    Volume,
    /// The tags.
    Tags,
}

/// The fault of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The resource does not exist.
    Missing,
    /// The owner of the resource does not let the account use it.
    NotShared,
    /// The resource belongs to another VPC than the subnet.
    OtherVpc,
    /// The zone does not have the resource.
    NotOffered,
    /// The subnet has no free address.
    Full,
    /// A quota of the account is used up.
    Quota,
    /// Another fault, which only AWS's text describes.
    Refused,
}

/// The part of a request that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A parameter of the request.
    Parameter {
        /// The parameter.
        parameter: Parameter,
        /// Its fault.
        fault: Fault,
        /// The id of the resource, or the device of the volume, if the text names it.
        value: Option<String>,
    },
    /// The identity does not have the permission for this action, for example `iam:PassRole`.
    Permission(String),
}

/// Prefixes of EC2 error codes, each with its parameter. [`Parameter::of_text`] finds the parameters of other codes.
const CODES: [(&str, Parameter); 18] = [
    ("InvalidAMIID", Parameter::Image),
    ("InvalidSubnet", Parameter::Subnet),
    ("InsufficientFreeAddressesInSubnet", Parameter::Subnet),
    ("InvalidGroup", Parameter::SecurityGroup),
    ("InvalidSecurityGroup", Parameter::SecurityGroup),
    ("SecurityGroupsPerI", Parameter::SecurityGroup),
    ("InvalidKeyPair", Parameter::KeyPair),
    ("InvalidInstanceType", Parameter::InstanceType),
    ("VcpuLimitExceeded", Parameter::InstanceType),
    ("InstanceLimitExceeded", Parameter::InstanceType),
    ("InvalidBlockDevice", Parameter::Volume),
    ("InvalidSnapshot", Parameter::Volume),
    ("InvalidVolume", Parameter::Volume),
    ("VolumeTypeNotAvailable", Parameter::Volume),
    ("VolumeLimitExceeded", Parameter::Volume),
    ("MaxIOPSLimitExceeded", Parameter::Volume),
    ("TagPolicyViolation", Parameter::Tags),
    ("TagLimitExceeded", Parameter::Tags),
];

/// Parts of texts, in lower case. The first part that a text contains counts: the texts about an instance type may also
/// name the image.
const TEXTS: [(&str, Parameter); 15] = [
    ("iam instance profile", Parameter::InstanceProfile),
    ("parameter iaminstanceprofile", Parameter::InstanceProfile),
    ("belong to different networks", Parameter::SecurityGroup),
    ("parameter groupid", Parameter::SecurityGroup),
    ("for instancetype", Parameter::InstanceType),
    ("parameter instancetype", Parameter::InstanceType),
    ("requested instance type", Parameter::InstanceType),
    ("specified instance type", Parameter::InstanceType),
    ("not authorized for images", Parameter::Image),
    ("marketplace product", Parameter::Image),
    ("parameter imageid", Parameter::Image),
    ("parameter subnetid", Parameter::Subnet),
    ("parameter keyname", Parameter::KeyPair),
    ("parameter blockdevicemapping", Parameter::Volume),
    ("volume", Parameter::Volume),
];

/// The part of a request that an error with this code and text is about, as far as it is known.
pub(crate) fn subject(code: &str, text: &str) -> Option<Subject> {
    if is_denial(code) {
        return denied_action(text).map(|action| Subject::Permission(action.to_owned()));
    }
    let of_text = || Parameter::of_text(text).filter(|_| is_of_many_parameters(code));
    let parameter = Parameter::of_code(code).or_else(of_text)?;
    Some(Subject::Parameter {
        parameter,
        fault: parameter.fault(code),
        value: parameter.value(text).map(str::to_owned),
    })
}

/// Whether AWS refuses a call with this code because the caller lacks a permission.
pub(crate) fn is_denial(code: &str) -> bool {
    matches!(code, "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException")
}

/// Whether EC2 uses this code for faults of several parameters.
fn is_of_many_parameters(code: &str) -> bool {
    code.starts_with("Invalid") || matches!(code, "AuthFailure" | "OptInRequired" | "Unsupported")
}

impl Parameter {
    fn of_code(code: &str) -> Option<Self> {
        let known = CODES.iter().find(|(beginning, _)| code.starts_with(beginning));
        known.map(|(_, parameter)| *parameter)
    }

    fn of_text(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let known = TEXTS.iter().find(|(part, _)| text.contains(part));
        known.map(|(_, parameter)| *parameter)
    }

    /// The fault of this parameter that a code indicates.
    fn fault(self, code: &str) -> Fault {
        match (self, code) {
            (Self::Image, "AuthFailure" | "OptInRequired") => Fault::NotShared,
            (Self::InstanceType, "Unsupported") | (Self::Volume, "VolumeTypeNotAvailableInZone") => Fault::NotOffered,
            (Self::SecurityGroup, "InvalidParameter") => Fault::OtherVpc,
            (Self::Subnet, "InsufficientFreeAddressesInSubnet") => Fault::Full,
            // EC2 has no code of its own for a missing profile.
            (Self::InstanceProfile, "InvalidParameterValue") | (Self::Image, "InvalidAMIID.Unavailable") => {
                Fault::Missing
            }
            _ if code.ends_with("NotFound") => Fault::Missing,
            _ if code.ends_with("LimitExceeded") => Fault::Quota,
            _ => Fault::Refused,
        }
    }

    /// The value of the parameter in a text, if the value has a known prefix.
    fn value(self, text: &str) -> Option<&str> {
        let beginning = match self {
            Self::Image => "ami-",
            Self::Subnet => "subnet-",
            Self::SecurityGroup => "sg-",
            Self::Volume => "/dev/",
            Self::InstanceType | Self::InstanceProfile | Self::KeyPair | Self::Tags => return None,
        };
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '/';
        let mut words = text.split(|letter| !is_part(letter));
        words.find(|word| word.starts_with(beginning) && word.len() > beginning.len())
    }
}

/// The action in a text such as `User: arn:… is not authorized to perform: iam:PassRole on resource: arn:…`.
fn denied_action(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("authorized to perform: ")?;
    let action = rest.split_whitespace().next()?.trim_end_matches(['.', ',']);
    let (service, name) = action.split_once(':')?;
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric());
    (is_word(service) && is_word(name)).then_some(action)
}

/// Maximum length of a text of AWS in a condition, in characters.
const MAX_CHARACTERS: usize = 400;

/// AWS's text for conditions, shortened: without the parts that change with every call, and without the names of
/// callers. The request id and the encoded authorization message, which has several kilobytes, are at the end of a
/// text. The ARN of a caller is the ARN of the manager's role.
pub(crate) fn shown(text: &str) -> String {
    let words = without_request_id(text).split(' ');
    let shown: Vec<&str> = words.map(|word| if is_principal(word) { "(an IAM principal)" } else { word }).collect();
    let text = shown.join(" ");
    match text.char_indices().nth(MAX_CHARACTERS) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

/// AWS's text without the parts that change with every call.
pub(crate) fn without_request_id(text: &str) -> &str {
    let end = ["(RequestId", "(Request ID", "Request ID:", "request id:", "Encoded authorization failure message"]
        .iter()
        .filter_map(|marker| text.find(marker))
        .min()
        .unwrap_or(text.len());
    text.get(..end).unwrap_or(text).trim()
}

/// Whether a word is, or contains, the ARN of a user or role.
fn is_principal(word: &str) -> bool {
    let kinds = [":assumed-role/", ":federated-user/", ":role/", ":user/"];
    word.contains("arn:") && kinds.iter().any(|kind| word.contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(parameter: Parameter, fault: Fault, value: Option<&str>) -> Subject {
        Subject::Parameter { parameter, fault, value: value.map(str::to_owned) }
    }

    /// Texts as EC2 writes them, found in public reports.
    #[test]
    fn the_parameter_of_an_error_is_read_from_code_and_text() {
        let table = [
            (
                "InvalidAMIID.NotFound",
                "The image id '[ami-0123456789abcdef0]' does not exist",
                parameter(Parameter::Image, Fault::Missing, Some("ami-0123456789abcdef0")),
            ),
            (
                "InvalidAMIID.Malformed",
                "Invalid id: \"ami-x\" (expecting \"ami-...\")",
                parameter(Parameter::Image, Fault::Refused, Some("ami-x")),
            ),
            (
                "AuthFailure",
                "Not authorized for images: [ami-0123456789abcdef0]",
                parameter(Parameter::Image, Fault::NotShared, Some("ami-0123456789abcdef0")),
            ),
            (
                "OptInRequired",
                "In order to use this AWS Marketplace product you need to accept terms and subscribe.",
                parameter(Parameter::Image, Fault::NotShared, None),
            ),
            (
                "InvalidSubnetID.NotFound",
                "The subnet ID 'subnet-0000000a' does not exist",
                parameter(Parameter::Subnet, Fault::Missing, Some("subnet-0000000a")),
            ),
            (
                "InsufficientFreeAddressesInSubnet",
                "There are not enough free addresses in subnet 'subnet-0000000a' to satisfy the requested number of \
                 instances.",
                parameter(Parameter::Subnet, Fault::Full, Some("subnet-0000000a")),
            ),
            (
                "InvalidGroup.NotFound",
                "The security group 'sg-0000000b' does not exist",
                parameter(Parameter::SecurityGroup, Fault::Missing, Some("sg-0000000b")),
            ),
            (
                "InvalidParameter",
                "Security group sg-0000000b and subnet subnet-0000000a belong to different networks.",
                parameter(Parameter::SecurityGroup, Fault::OtherVpc, Some("sg-0000000b")),
            ),
            (
                "InvalidKeyPair.NotFound",
                "The key pair 'ops' does not exist",
                parameter(Parameter::KeyPair, Fault::Missing, None),
            ),
            (
                "InvalidParameterValue",
                "Value (nope) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
                parameter(Parameter::InstanceProfile, Fault::Missing, None),
            ),
            (
                "InvalidParameterValue",
                "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of \
                 the specified AMI. Specify an instance type and an AMI that have matching architectures.",
                parameter(Parameter::InstanceType, Fault::Refused, None),
            ),
            (
                "InvalidParameterValue",
                "Invalid value 't9.huge' for InstanceType.",
                parameter(Parameter::InstanceType, Fault::Refused, None),
            ),
            (
                "Unsupported",
                "Your requested instance type (t3.micro) is not supported in your requested Availability Zone \
                 (us-east-1e). Please retry your request by not specifying an Availability Zone or choosing \
                 us-east-1a.",
                parameter(Parameter::InstanceType, Fault::NotOffered, None),
            ),
            (
                "VcpuLimitExceeded",
                "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance \
                 bucket that the specified instance type belongs to.",
                parameter(Parameter::InstanceType, Fault::Quota, None),
            ),
            (
                "InvalidBlockDeviceMapping",
                "Volume of size 15GB is smaller than snapshot 'snap-0123456789abcdef0', expect size >= 30GB",
                parameter(Parameter::Volume, Fault::Refused, None),
            ),
            (
                "InvalidBlockDeviceMapping",
                "Invalid device name '/dev/sdzz'",
                parameter(Parameter::Volume, Fault::Refused, Some("/dev/sdzz")),
            ),
            (
                "InvalidParameterCombination",
                "The parameter iops is not supported for gp2 volumes.",
                parameter(Parameter::Volume, Fault::Refused, None),
            ),
            (
                "TagPolicyViolation",
                "The tag policy does not allow the specified value.",
                parameter(Parameter::Tags, Fault::Refused, None),
            ),
        ];
        for (code, text, expected) in table {
            assert_eq!(subject(code, text), Some(expected), "{code}: {text}");
        }
    }

    #[test]
    fn a_denied_action_is_read_without_the_caller() {
        let caller = "You are not authorized to perform this operation. User: \
                      arn:aws:sts::111122223333:assumed-role/capa-manager/i-0 is not";
        let table = [
            (
                format!(
                    "{caller} authorized to perform: iam:PassRole on resource: arn:aws:iam::111122223333:role/nodes \
                     because no identity-based policy allows the iam:PassRole action"
                ),
                Some("iam:PassRole"),
            ),
            (format!("{caller} authorized to perform: ec2:RunInstances."), Some("ec2:RunInstances")),
            (format!("{caller} authorized to perform this action"), None),
            (format!("{caller} authorized to perform: arn:aws:iam::111122223333:role/x"), None),
            ("You are not authorized to perform this operation.".to_owned(), None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|action| Subject::Permission(action.to_owned()));
            assert_eq!(subject("UnauthorizedOperation", &text), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_text_names_no_parameter() {
        for (code, text) in [
            ("InvalidParameterValue", "Address 10.0.0.1 is in use."),
            ("InvalidParameterValue", ""),
            ("AuthFailure", "AWS was not able to validate the provided access credentials"),
            ("RequestLimitExceeded", "Request limit exceeded."),
            (
                "InsufficientInstanceCapacity",
                "We currently do not have sufficient m5.large capacity in the Availability Zone you requested.",
            ),
            ("InsufficientVolumeCapacity", "There is not enough capacity to fulfill your EBS volume request."),
        ] {
            assert_eq!(subject(code, text), None, "{code}: {text}");
        }
    }

    #[test]
    fn a_shown_text_has_neither_request_ids_nor_callers() {
        let table = [
            ("The volume is in use. (RequestId: abc)", "The volume is in use."),
            (
                "User: arn:aws:sts::111122223333:assumed-role/capa-manager/i-0 cannot use the key",
                "User: (an IAM principal) cannot use the key",
            ),
            (
                "Value (arn:aws:iam::111122223333:instance-profile/nodes) is invalid",
                "Value (arn:aws:iam::111122223333:instance-profile/nodes) is invalid",
            ),
            ("denied. Encoded authorization failure message: xyz", "denied."),
        ];
        for (text, expected) in table {
            assert_eq!(shown(text), expected);
        }
    }
}
