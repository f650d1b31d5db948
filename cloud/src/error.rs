//! Errors of AWS calls, classified in one table by code. Pure.

use std::fmt;
use std::time::Duration;

use capa_api::conditions::Reason;

use crate::error_text::{self, Fault, Parameter, Subject};

/// The meaning of an error for the caller. The class depends on AWS's error *code* and not on the HTTP status: EC2
/// reports insufficient capacity with HTTP 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The resource in the request does not exist.
    NotFound,
    /// AWS throttles the provider.
    Throttled,
    /// The credentials are missing, expired, refused, or not allowed to make this call.
    Unauthorized,
    /// AWS has no capacity for this instance type in this zone now, or the subnet has no free address.
    InsufficientCapacity,
    /// A service quota of the account is used up.
    QuotaExceeded,
    /// A launch token was used before, with other parameters or for an instance that has since been terminated.
    IdempotentParameterMismatch,
    /// The name of the resource in the request is taken.
    AlreadyExists,
    /// AWS refuses the request because of its content.
    Invalid,
    /// AWS gave no answer, or an answer without an outcome. The call may have taken effect.
    NoAnswer,
}

impl ErrorClass {
    /// Whether AWS's error code says that the call took no effect. After a refusal a new launch is allowed. After any
    /// other error the same call must be repeated with the same token, or its instance must be looked up.
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::NotFound
                | Self::Unauthorized
                | Self::InsufficientCapacity
                | Self::QuotaExceeded
                | Self::AlreadyExists
                | Self::Invalid
        )
    }

    /// Whether AWS gives the same answer to the same call until somebody changes the parameters of the call, or the
    /// account.
    pub fn is_permanent(self) -> bool {
        matches!(self, Self::NotFound | Self::Unauthorized | Self::QuotaExceeded | Self::AlreadyExists | Self::Invalid)
    }

    /// The condition reason for this class. All conditions about AWS calls use these reasons.
    pub fn reason(self) -> Reason {
        match self {
            Self::NotFound => Reason::NotFound,
            Self::Throttled => Reason::Throttled,
            Self::Unauthorized => Reason::Unauthorized,
            Self::InsufficientCapacity => Reason::InsufficientCapacity,
            Self::QuotaExceeded => Reason::QuotaExceeded,
            Self::AlreadyExists => Reason::Conflict,
            Self::Invalid => Reason::InvalidSpec,
            Self::IdempotentParameterMismatch | Self::NoAnswer => Reason::Failed,
        }
    }
}

/// A failed AWS call: the action, AWS's error code and the class of the error. The text contains no request id and no
/// secret, so that it can be part of a condition and does not change between retries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudError {
    /// The API action, for example `RunInstances`.
    pub operation: &'static str,
    /// AWS's error code; `None` without an answer.
    pub code: Option<String>,
    /// The class of the error.
    pub class: ErrorClass,
    /// The part of the request that AWS's error is about, as far as its code and message say.
    pub subject: Option<Box<Subject>>,
    /// AWS's message without request ids, or our own in place of one that is withheld ([`withheld_words`]).
    pub message: String,
    /// Time after which the caller can make the call. Set if the provider's own limits or new credentials deferred the
    /// call; no instance was launched.
    pub retry_after: Option<Duration>,
}

/// What lacks capacity for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The zone, for the instance type.
    InstanceType,
    /// The Capacity Reservation that the request names.
    Reservation,
    /// The Dedicated Host that the request names.
    NamedHost,
    /// All Dedicated Hosts, of which the request names none.
    AnyHost,
    /// The Dedicated Host that the request names, or else all Dedicated Hosts.
    Host,
}

impl CloudError {
    /// An error that AWS answered with a code.
    pub fn answered(operation: &'static str, code: &str, message: &str) -> Self {
        let subject = error_text::subject(code, message);
        let own = error_text::is_denial(code).then(|| own_words(subject.as_ref()));
        Self {
            operation,
            code: Some(code.to_owned()),
            class: classify(code),
            subject: subject.map(Box::new),
            message: own.unwrap_or_else(|| error_text::shown(message)),
            retry_after: None,
        }
    }

    /// Whether AWS has refused the call because the identity lacks a permission. Such a call has done nothing.
    pub fn is_denial(&self) -> bool {
        self.code.as_deref().is_some_and(error_text::is_denial)
    }

    /// Whether the subnet of the call has no free address. Its zone may have capacity all the same.
    pub fn is_of_full_subnet(&self) -> bool {
        let subject = self.subject.as_deref();
        matches!(subject, Some(Subject::Parameter { parameter: Parameter::Subnet, fault: Fault::Full, .. }))
    }

    /// Whether the error has one of these codes.
    fn has_code(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }

    /// Whether a part of a resource exists already, for example a route or a listener. The next lookup shows the part.
    pub fn is_of_existing_part(&self) -> bool {
        const CODES: [&str; 4] =
            ["Resource.AlreadyAssociated", "RouteAlreadyExists", "InvalidPermission.Duplicate", "DuplicateListener"];
        self.has_code(&CODES)
    }

    /// Whether another resource has the name. A call without an answer may have created that resource.
    pub fn is_of_taken_name(&self) -> bool {
        self.has_code(&["InvalidGroup.Duplicate", "DuplicateLoadBalancerName", "DuplicateTargetGroupName"])
    }

    /// Whether AWS refuses to delete a resource that is in use.
    pub fn is_of_used_resource(&self) -> bool {
        self.has_code(&["DependencyViolation", "InvalidIPAddress.InUse", "ResourceInUse"])
    }

    /// Whether the internet gateway of a call that detaches it is not attached.
    pub fn is_of_detached_gateway(&self) -> bool {
        self.has_code(&["Gateway.NotAttached"])
    }

    /// Whether the Elastic IP of a call does not exist.
    pub fn is_of_missing_address(&self) -> bool {
        self.has_code(&["InvalidAllocationID.NotFound"])
    }

    /// Whether EC2 cannot use the Dedicated Host of a launch.
    pub fn is_of_host(&self) -> bool {
        self.code.as_deref().is_some_and(|code| code.starts_with("InvalidHost"))
    }

    /// What lacks capacity for a launch, if the class is [`ErrorClass::InsufficientCapacity`].
    pub fn shortage(&self) -> Shortage {
        match self.code.as_deref() {
            Some("ReservationCapacityExceeded") => Shortage::Reservation,
            Some("InsufficientCapacityOnHost") => Shortage::NamedHost,
            Some("UnavailableHostRequirements") => Shortage::AnyHost,
            Some("IncompatibleHostRequirements") => Shortage::Host,
            _ => Shortage::InstanceType,
        }
    }

    /// A call without an answer, or with an unusable answer.
    pub fn no_answer(operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            operation,
            code: None,
            class: ErrorClass::NoAnswer,
            subject: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// An answer without the requested resource.
    pub fn not_found(operation: &'static str, message: impl Into<String>) -> Self {
        Self {
            operation,
            code: None,
            class: ErrorClass::NotFound,
            subject: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// An answer with more pages than the provider reads. The query has to be narrowed.
    pub fn too_many_pages(operation: &'static str, most: usize) -> Self {
        Self {
            operation,
            code: None,
            class: ErrorClass::Invalid,
            subject: None,
            message: format!("the answer has more than {most} pages: narrow the filters"),
            retry_after: None,
        }
    }

    /// Credentials that could not be obtained: STS gave no answer, or no credentials are configured.
    pub fn credentials(message: impl Into<String>) -> Self {
        Self {
            operation: "credentials",
            code: None,
            class: ErrorClass::Unauthorized,
            subject: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// A call that was not made, because the provider's own limits allow it only after `retry_after`. The text contains
    /// no time, so that a condition with the text does not change while the call waits.
    pub fn deferred(operation: &'static str, retry_after: Duration) -> Self {
        Self {
            operation,
            code: None,
            class: ErrorClass::Throttled,
            subject: None,
            message: "waits for its turn within the request rate that is left to this account and region".to_owned(),
            retry_after: Some(retry_after),
        }
    }

    /// A call that was not made, or has no valid answer, because the credentials have been replaced since the caller
    /// obtained their account. The caller must obtain the account again first.
    pub fn credentials_replaced(operation: &'static str) -> Self {
        Self {
            message: "the credentials were replaced meanwhile: the account is looked at again first".to_owned(),
            ..Self::deferred(operation, Duration::from_secs(1))
        }
    }
}

impl fmt::Display for CloudError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(formatter, "{}: {code}: {}", self.operation, self.message),
            None => write!(formatter, "{}: {}", self.operation, self.message),
        }
    }
}

impl std::error::Error for CloudError {}

/// AWS's message if a [`CloudError`] withholds the message of errors with this code; for the log of the manager.
/// Tenants must not see the message: a denial contains the ARN of the caller, which is the manager's role.
pub fn withheld_words(code: &str, message: &str) -> Option<String> {
    error_text::is_denial(code).then(|| error_text::without_request_id(message).to_owned())
}

/// The message in place of AWS's own message.
fn own_words(subject: Option<&Subject>) -> String {
    let denied = match subject {
        Some(Subject::Permission(action)) => action.as_str(),
        _ => "this call",
    };
    format!("AWS does not allow {denied} to the identity; its own words are in the log of the manager")
}

/// The class of an AWS error code. EC2 models no errors, so the codes of its reference are the interface
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>). With server-side and unknown codes
/// the outcome of the call is unknown.
pub fn classify(code: &str) -> ErrorClass {
    match code {
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "EC2ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "TooManyRequestsException"
        | "SlowDown"
        | "DependencyThrottle"
        | "ConcurrentTagAccess"
        | "TooManyUpdates" => ErrorClass::Throttled,
        "AuthFailure"
        | "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "InvalidClientTokenId"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException"
        | "MissingAuthenticationToken"
        | "OptInRequired"
        | "Blocked"
        | "PendingVerification"
        | "IncompleteSignature" => ErrorClass::Unauthorized,
        // `AuthFailure.ServiceLinkedRoleCreationNotPermitted`: the account has no role for Spot yet.
        _ if code.starts_with("AuthFailure.") => ErrorClass::Unauthorized,
        "InsufficientInstanceCapacity"
        | "InsufficientHostCapacity"
        | "InsufficientCapacity"
        | "InsufficientReservedInstanceCapacity"
        | "InsufficientReservedInstancesCapacity"
        | "InsufficientCapacityOnHost"
        | "IncompatibleHostRequirements"
        | "UnavailableHostRequirements"
        | "ReservationCapacityExceeded"
        | "InsufficientVolumeCapacity"
        | "InsufficientAddressCapacity"
        | "InsufficientFreeAddressesInSubnet"
        | "SpotMaxPriceTooLow"
        | "Unsupported" => ErrorClass::InsufficientCapacity,
        "MaxSpotInstanceCountExceeded"
        | "RequestResourceCountExceeded"
        | "ResourceCountExceeded"
        | "VolumeIOPSLimit" => ErrorClass::QuotaExceeded,
        "BootForVolumeTypeUnsupported"
        | "CustomerKeyHasBeenRevoked"
        | "DefaultVpcDoesNotExist"
        | "DependencyViolation"
        | "DisallowedForDedicatedTenancyNetwork"
        | "DuplicateTagKeys"
        | "DuplicateListener"
        | "DuplicateLoadBalancerName"
        | "DuplicateTargetGroupName"
        | "Gateway.NotAttached"
        | "InaccessibleStorageLocation"
        | "LegacySecurityGroup"
        | "NetworkInterfaceNotSupportedException"
        | "NonEBSInstance"
        | "PermanentRedirect"
        | "Resource.AlreadyAssigned"
        | "Resource.AlreadyAssociated"
        | "ResourceInUse"
        | "TagPolicyViolation"
        | "TargetGroupAssociationLimit"
        | "VPCIdNotSpecified"
        | "VPCResourceNotSpecified"
        | "VolumeInUse"
        | "ZonesMismatched" => ErrorClass::Invalid,
        "IdempotentParameterMismatch" | "IdempotentInstanceTerminated" => ErrorClass::IdempotentParameterMismatch,
        "ResourceExistsException" | "ParameterAlreadyExists" => ErrorClass::AlreadyExists,
        // Secrets Manager is still deleting a secret with this name; the name will be free later.
        "InvalidRequestException" => ErrorClass::NoAnswer,
        "InternalError" | "InternalFailure" | "Unavailable" | "ServiceUnavailable" | "Server.InternalError" => {
            ErrorClass::NoAnswer
        }
        _ if code.ends_with("LimitExceeded")
            || code.ends_with("LimitExceededException")
            || code.ends_with("QuotaExceeded") =>
        {
            ErrorClass::QuotaExceeded
        }
        // Of Elastic Load Balancing: `TooManyTargets`.
        _ if code.starts_with("TooMany") => ErrorClass::QuotaExceeded,
        // The codes of Elastic Load Balancing have no dot: `TargetGroupNotFound`. The codes of S3 and IAM begin with
        // `NoSuch`: `NoSuchBucket`.
        _ if code.ends_with("NotFound") || code.ends_with("NotFoundException") || code.starts_with("NoSuch") => {
            ErrorClass::NotFound
        }
        _ if code.starts_with("Invalid")
            || code.starts_with("Missing")
            || code.starts_with("Unknown")
            || code.starts_with("Incorrect")
            || code.starts_with("OperationNotPermitted")
            || code.starts_with("Validation")
            || code.starts_with("MalformedPolicyDocument")
            || code.starts_with("DryRun")
            || code.starts_with("Unsupported")
            // `AvailabilityZoneNotSupported`, `InstanceCreditSpecification.NotSupported`
            || code.ends_with("NotSupported")
            // `VolumeTypeNotAvailableInZone`
            || code.ends_with("NotAvailableInZone") =>
        {
            ErrorClass::Invalid
        }
        _ => ErrorClass::NoAnswer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_class_their_documentation_gives_them() {
        let table = [
            ("RequestLimitExceeded", ErrorClass::Throttled),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", ErrorClass::Unauthorized),
            ("VcpuLimitExceeded", ErrorClass::QuotaExceeded),
            ("TooManyUniqueTargetGroupsPerLoadBalancer", ErrorClass::QuotaExceeded),
            // SSM changes a parameter once at a time.
            ("TooManyUpdates", ErrorClass::Throttled),
            ("AvailabilityZoneNotSupported", ErrorClass::Invalid),
            ("NotAvailableInZone", ErrorClass::Invalid),
            // Secrets Manager says so of a name, and SSM of a name with the prefix `ssm`.
            ("ValidationException", ErrorClass::Invalid),
            ("InsufficientInstanceCapacity", ErrorClass::InsufficientCapacity),
            ("InsufficientFreeAddressesInSubnet", ErrorClass::InsufficientCapacity),
            ("InsufficientHostCapacity", ErrorClass::InsufficientCapacity),
            ("InsufficientCapacityOnHost", ErrorClass::InsufficientCapacity),
            ("IncompatibleHostRequirements", ErrorClass::InsufficientCapacity),
            ("UnavailableHostRequirements", ErrorClass::InsufficientCapacity),
            ("ReservationCapacityExceeded", ErrorClass::InsufficientCapacity),
            ("InsufficientReservedInstancesCapacity", ErrorClass::InsufficientCapacity),
            // EC2 says so of a type that a zone does not have; the other codes are about the content of the request.
            ("Unsupported", ErrorClass::InsufficientCapacity),
            ("UnsupportedOperation", ErrorClass::Invalid),
            ("UnsupportedTenancy", ErrorClass::Invalid),
            ("UnsupportedInstanceTypeOnHost", ErrorClass::Invalid),
            ("UnsupportedHibernationConfiguration", ErrorClass::Invalid),
            ("BootForVolumeTypeUnsupported", ErrorClass::Invalid),
            ("CustomerKeyHasBeenRevoked", ErrorClass::Invalid),
            ("DefaultVpcDoesNotExist", ErrorClass::Invalid),
            ("DependencyViolation", ErrorClass::Invalid),
            ("DuplicateListener", ErrorClass::Invalid),
            ("DuplicateLoadBalancerName", ErrorClass::Invalid),
            ("DuplicateTargetGroupName", ErrorClass::Invalid),
            ("ResourceInUse", ErrorClass::Invalid),
            ("TargetGroupAssociationLimit", ErrorClass::Invalid),
            ("TooManyLoadBalancers", ErrorClass::QuotaExceeded),
            ("TooManyTargetGroups", ErrorClass::QuotaExceeded),
            ("TooManyListeners", ErrorClass::QuotaExceeded),
            ("DisallowedForDedicatedTenancyNetwork", ErrorClass::Invalid),
            ("EncryptedVolumesNotSupported", ErrorClass::Invalid),
            ("Gateway.NotAttached", ErrorClass::Invalid),
            ("InaccessibleStorageLocation", ErrorClass::Invalid),
            ("InstanceCreditSpecification.NotSupported", ErrorClass::Invalid),
            ("LegacySecurityGroup", ErrorClass::Invalid),
            ("NetworkInterfaceNotSupportedException", ErrorClass::Invalid),
            ("NonEBSInstance", ErrorClass::Invalid),
            ("OperationNotPermitted", ErrorClass::Invalid),
            ("Resource.AlreadyAssigned", ErrorClass::Invalid),
            ("Resource.AlreadyAssociated", ErrorClass::Invalid),
            ("VPCIdNotSpecified", ErrorClass::Invalid),
            ("VPCResourceNotSpecified", ErrorClass::Invalid),
            ("VolumeInUse", ErrorClass::Invalid),
            ("VolumeTypeNotAvailableInZone", ErrorClass::Invalid),
            ("UnknownVolumeType", ErrorClass::Invalid),
            ("ZonesMismatched", ErrorClass::Invalid),
            ("InvalidPlacementGroup.Unknown", ErrorClass::Invalid),
            ("InvalidCapacityReservationIdNotFoundException", ErrorClass::NotFound),
            ("NetworkInterfaceLimitExceeded", ErrorClass::QuotaExceeded),
            ("RequestResourceCountExceeded", ErrorClass::QuotaExceeded),
            ("ResourceCountExceeded", ErrorClass::QuotaExceeded),
            ("VolumeIOPSLimit", ErrorClass::QuotaExceeded),
            ("ConcurrentTagAccess", ErrorClass::Throttled),
            ("HostLimitExceeded", ErrorClass::QuotaExceeded),
            ("UnsupportedHostConfiguration", ErrorClass::Invalid),
            ("InvalidHostID.NotFound", ErrorClass::NotFound),
            ("IdempotentInstanceTerminated", ErrorClass::IdempotentParameterMismatch),
            ("InvalidAMIID.NotFound", ErrorClass::NotFound),
            ("TargetGroupNotFound", ErrorClass::NotFound),
            ("NotFoundException", ErrorClass::NotFound),
            ("NoSuchBucket", ErrorClass::NotFound),
            ("NoSuchEntity", ErrorClass::NotFound),
            // The bucket lies in another region.
            ("PermanentRedirect", ErrorClass::Invalid),
            ("InvalidAccessKeyId", ErrorClass::Unauthorized),
            ("TooManyTargets", ErrorClass::QuotaExceeded),
            ("InvalidTarget", ErrorClass::Invalid),
            ("ResourceExistsException", ErrorClass::AlreadyExists),
            ("ParameterAlreadyExists", ErrorClass::AlreadyExists),
            ("InvalidRequestException", ErrorClass::NoAnswer),
            ("InvalidParameterValue", ErrorClass::Invalid),
            ("InvalidClientTokenId", ErrorClass::Unauthorized),
            ("UnauthorizedOperation", ErrorClass::Unauthorized),
            ("IdempotentParameterMismatch", ErrorClass::IdempotentParameterMismatch),
            ("InternalError", ErrorClass::NoAnswer),
            ("SomethingNew", ErrorClass::NoAnswer),
        ];
        for (code, class) in table {
            assert_eq!(classify(code), class, "{code}");
        }
    }

    #[test]
    fn what_only_a_change_can_end_is_permanent() {
        for code in ["InvalidAMIID.NotFound", "UnauthorizedOperation", "VcpuLimitExceeded", "InvalidParameterValue"] {
            assert!(classify(code).is_permanent(), "{code}");
        }
        for code in [
            "RequestLimitExceeded",
            "InsufficientInstanceCapacity",
            "IdempotentParameterMismatch",
            "InternalError",
            "SomethingNew",
        ] {
            assert!(!classify(code).is_permanent(), "{code}");
        }
    }

    #[test]
    fn only_a_rejecting_answer_is_a_refusal() {
        assert!(classify("InsufficientInstanceCapacity").is_refusal());
        assert!(!classify("InternalError").is_refusal());
        assert!(!classify("RequestLimitExceeded").is_refusal());
        assert!(!classify("IdempotentParameterMismatch").is_refusal());
    }

    #[test]
    fn a_deferred_call_reads_the_same_however_long_it_waits() {
        let texts =
            [1, 90].map(|seconds| CloudError::deferred("RunInstances", Duration::from_secs(seconds)).to_string());
        assert_eq!(texts[0], texts[1]);
    }

    #[test]
    fn messages_are_equal_from_one_try_to_the_next() {
        let [first, second] = ["abc", "xyz"].map(|id| {
            let words = format!("The volume is in use. (RequestId: {id})");
            CloudError::answered("RunInstances", "InvalidParameterValue", &words)
        });
        assert_eq!(first, second);
        assert_eq!(first.to_string(), "RunInstances: InvalidParameterValue: The volume is in use.");
    }

    #[test]
    fn words_that_name_the_caller_are_withheld_and_kept_for_the_log() {
        let words = "User: arn:aws:sts::111122223333:assumed-role/capa-manager/i-0 is not authorized to perform: \
                     ec2:RunInstances. Encoded authorization failure message: abc";
        for code in ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException"] {
            let error = CloudError::answered("RunInstances", code, words).to_string();
            assert!(error.starts_with(&format!("RunInstances: {code}: ")) && !error.contains("arn:"), "{error}");
            assert!(error.contains("AWS does not allow ec2:RunInstances to the identity"), "{error}");
            let withheld = withheld_words(code, words).unwrap_or_default();
            assert!(withheld.ends_with("ec2:RunInstances."), "{withheld}");
        }
        for code in ["InvalidParameterValue", "OptInRequired", "InternalError", "RequestLimitExceeded", "SomethingNew"]
        {
            assert_eq!(withheld_words(code, words), None, "{code}");
            let error = CloudError::answered("RunInstances", code, words).to_string();
            assert!(!error.contains("arn:"), "{error}");
            assert!(error.contains("is not authorized to perform"), "{error}");
        }
    }
}
