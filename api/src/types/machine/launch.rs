//! The launch record of an AWSMachine: the progress of its launch. The provider stores the record before it calls EC2.

use std::num::NonZeroU32;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Progress of the launch of an instance. The record is stored flat, with the phase as a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchRecord {
    /// No call to EC2 has been made: attempt 0.
    Planned,
    /// The provider is about to call EC2, or has no answer yet. The attempt may have launched an instance.
    Requested(LaunchAttempt),
    /// The attempt has no instance: EC2 refused the attempt with an error code, or the attempt's instance ended before
    /// it ran.
    Refused(LaunchAttempt),
    /// EC2 answered with an instance.
    Answered {
        /// The attempt that launched the instance.
        attempt: LaunchAttempt,
        /// The instance.
        instance_id: String,
    },
    /// The stored record is incomplete or contradicts itself. An unknown attempt may have launched an instance.
    Unreadable(UnreadableRecord),
}

/// One attempt to launch an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchAttempt {
    /// Number of the attempt, counted from 1.
    pub number: NonZeroU32,
    /// The call to EC2.
    pub request: RecordedRequest,
    /// The random id of the manager process that wrote the record or claimed it later. A process draws its id when it
    /// starts. Before a process repeats the call of another process, it claims the record; the API server then refuses
    /// every later write of the other process.
    pub holder: String,
    /// Number of instances of earlier attempts that ended before they ran.
    pub failed_instances: u32,
}

/// A stored record that cannot be read. The provider writes the record back unchanged until another attempt replaces
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecord(Map<String, Value>);

/// The launch parameters that a repeated call must repeat unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// EC2's idempotency token, `<UID of the AWSMachine>-<attempt>`.
    pub client_token: String,
    /// Subnet, which determines the zone.
    #[serde(rename = "subnetID")]
    pub subnet_id: String,
    /// Machine image. `None` in a record that was recovered from an instance, if the spec names no image.
    #[serde(rename = "imageID", default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Instance type.
    pub instance_type: String,
    /// All security groups.
    #[serde(rename = "securityGroupIDs")]
    pub security_group_ids: Vec<String>,
    /// Hash of all parameters of the request. `None` in a record that was recovered from an instance, because the
    /// provider repeats no call from such a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_hash: Option<String>,
    /// Time at which the record was written.
    pub requested_at: Time,
}

/// The phases of a launch, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
enum LaunchPhase {
    Planned,
    Requested,
    Refused,
    Answered,
}

/// The flat shape of a record.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    phase: LaunchPhase,
    attempt: u32,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    request: Option<RecordedRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_instances: Option<u32>,
    #[serde(default, rename = "instanceID", skip_serializing_if = "Option::is_none")]
    instance_id: Option<String>,
}

impl LaunchRecord {
    /// Number of the recorded attempt; 0 before the first attempt.
    pub fn attempt_number(&self) -> u32 {
        match self {
            Self::Planned => 0,
            Self::Unreadable(record) => record.attempt_number(),
            Self::Requested(attempt) | Self::Refused(attempt) | Self::Answered { attempt, .. } => attempt.number.get(),
        }
    }

    /// The attempt, if the record contains one.
    pub fn attempt(&self) -> Option<&LaunchAttempt> {
        match self {
            Self::Planned | Self::Unreadable(_) => None,
            Self::Requested(attempt) | Self::Refused(attempt) | Self::Answered { attempt, .. } => Some(attempt),
        }
    }

    /// The call of the attempt, if the record contains one.
    pub fn request(&self) -> Option<&RecordedRequest> {
        self.attempt().map(|attempt| &attempt.request)
    }

    /// The instance that EC2 answered with.
    pub fn instance_id(&self) -> Option<&str> {
        match self {
            Self::Answered { instance_id, .. } => Some(instance_id),
            Self::Unreadable(record) => record.instance_id(),
            Self::Planned | Self::Requested(_) | Self::Refused(_) => None,
        }
    }

    /// Whether the attempt may have launched an instance whose id is not stored.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Requested(_) => true,
            Self::Unreadable(record) => record.instance_id().is_none(),
            Self::Planned | Self::Refused(_) | Self::Answered { .. } => false,
        }
    }

    /// Whether the record has an attempt without an instance: the attempt is open, or was refused.
    pub fn is_without_instance(&self) -> bool {
        self.is_open() || matches!(self, Self::Refused(_))
    }

    fn read(stored: &Map<String, Value>) -> Option<Self> {
        let fields: Stored = serde_json::from_value(Value::Object(stored.clone())).ok()?;
        if fields.phase == LaunchPhase::Planned {
            let stands_alone = fields.attempt == 0 && stored.len() == 2;
            return stands_alone.then_some(Self::Planned);
        }
        let attempt = LaunchAttempt {
            number: NonZeroU32::new(fields.attempt)?,
            request: fields.request?,
            holder: fields.holder?,
            failed_instances: fields.failed_instances.unwrap_or_default(),
        };
        match (fields.phase, fields.instance_id) {
            (LaunchPhase::Requested, None) => Some(Self::Requested(attempt)),
            (LaunchPhase::Refused, None) => Some(Self::Refused(attempt)),
            (LaunchPhase::Answered, Some(instance_id)) => Some(Self::Answered { attempt, instance_id }),
            _ => None,
        }
    }
}

impl UnreadableRecord {
    fn attempt_number(&self) -> u32 {
        let number = self.0.get("attempt").and_then(Value::as_u64);
        number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
    }

    fn instance_id(&self) -> Option<&str> {
        let id = self.0.get("instanceID").and_then(Value::as_str);
        id.filter(|id| !id.is_empty())
    }
}

impl Stored {
    fn new(phase: LaunchPhase, attempt: &LaunchAttempt, instance_id: Option<&String>) -> Self {
        Self {
            phase,
            attempt: attempt.number.get(),
            request: Some(attempt.request.clone()),
            holder: Some(attempt.holder.clone()),
            failed_instances: Some(attempt.failed_instances).filter(|failed| *failed > 0),
            instance_id: instance_id.cloned(),
        }
    }
}

impl<'de> Deserialize<'de> for LaunchRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Map::deserialize(deserializer)?;
        if !stored.get("attempt").is_some_and(Value::is_u64) {
            return Err(serde::de::Error::custom("attempt is no number"));
        }
        Ok(Self::read(&stored).unwrap_or(Self::Unreadable(UnreadableRecord(stored))))
    }
}

impl Serialize for LaunchRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match self {
            Self::Unreadable(record) => return record.0.serialize(serializer),
            Self::Planned => Stored {
                phase: LaunchPhase::Planned,
                attempt: 0,
                request: None,
                holder: None,
                failed_instances: None,
                instance_id: None,
            },
            Self::Requested(attempt) => Stored::new(LaunchPhase::Requested, attempt, None),
            Self::Refused(attempt) => Stored::new(LaunchPhase::Refused, attempt, None),
            Self::Answered { attempt, instance_id } => Stored::new(LaunchPhase::Answered, attempt, Some(instance_id)),
        };
        stored.serialize(serializer)
    }
}

impl JsonSchema for LaunchRecord {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LaunchRecord".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["phase", "attempt"],
            "properties": properties(),
            "x-kubernetes-validations": rules(),
        })
    }
}

/// The schemas of the fields. They are written by hand, because schemars cannot express flattened fields that are
/// either all set or all absent.
fn properties() -> Value {
    /// The schema of an id or a name.
    fn text(description: &str) -> Value {
        json!({ "description": description, "type": "string", "minLength": 1, "maxLength": 64 })
    }
    json!({
        "phase": {
            "description": "Phase of the launch. `Planned`: no call to EC2 has been made. `Requested`: the \
                call to EC2 is in progress and may have launched an instance. `Refused`: EC2 refused the \
                attempt, or the attempt's instance ended before it ran; another attempt follows. `Answered`: \
                EC2 answered with an instance.",
            "type": "string", "enum": ["Planned", "Requested", "Refused", "Answered"],
        },
        "attempt": {
            "description": "Number of the attempt, counted from 1; 0 if and only if the phase is `Planned`.",
            "type": "integer", "format": "int32", "minimum": 0,
        },
        "clientToken": text(
            "Idempotency token of the attempt's call to EC2, `<UID of the \
             AWSMachine>-<attempt>`. EC2 never launches two instances with the same token in one zone.",
        ),
        "subnetID": text("Subnet of the attempt. The subnet determines the zone."),
        "imageID": text(
            "Machine image of the instance. Absent where the record was recovered from the \
             instance, and the spec names no image.",
        ),
        "instanceType": text("EC2 instance type of the attempt."),
        "securityGroupIDs": {
            "description": "All security groups of the instance, those of the cluster and additional ones.",
            "type": "array", "minItems": 1, "maxItems": 64, "x-kubernetes-list-type": "atomic",
            "items": { "type": "string", "maxLength": 64 },
        },
        "parametersHash": {
            "description": "Hash of all parameters of the request. A repetition with another hash is not sent. \
                Absent where the record was recovered from the instance.",
            "type": "string", "minLength": 1, "maxLength": 128,
        },
        "requestedAt": {
            "description": "Time at which the attempt was recorded, just before the call to EC2.",
            "type": "string", "format": "date-time",
        },
        "holder": text(
            "Random id of the manager process that wrote the record or claimed it later. A \
             process claims the record of another process before it repeats the call.",
        ),
        "failedInstances": {
            "description": "Number of instances of earlier attempts that ended before they ran, because of \
                failures in EC2. Absent: none. After five such instances the machine has failed.",
            "type": "integer", "format": "int32", "minimum": 1,
        },
        "instanceID": text(
            "Instance in EC2's answer, for example `i-0123456789abcdef0`. Set if and only if \
             the phase is `Answered`.",
        ),
    })
}

/// The rules that fields satisfy together.
fn rules() -> Value {
    json!([
        {
            "rule": "(self.phase == 'Planned') == (self.attempt == 0)",
            "message": "attempt is 0 exactly in the phase Planned",
        },
        {
            "rule": "self.attempt > 0 || !(has(self.clientToken) || has(self.subnetID) || has(self.imageID) || \
                has(self.instanceType) || has(self.securityGroupIDs) || has(self.parametersHash) || \
                has(self.requestedAt) || has(self.holder) || has(self.failedInstances) || \
                has(self.instanceID))",
            "message": "attempt 0 stands alone",
        },
        {
            "rule": "self.attempt == 0 || (has(self.clientToken) && has(self.subnetID) && \
                has(self.instanceType) && has(self.securityGroupIDs) && has(self.requestedAt) && has(self.holder))",
            "message": "from attempt 1 on clientToken, subnetID, instanceType, securityGroupIDs, requestedAt \
                and holder are required",
        },
        {
            "rule": "self.phase != 'Requested' || (has(self.imageID) && has(self.parametersHash))",
            "message": "imageID and parametersHash are required in the phase Requested",
        },
        {
            "rule": "(self.phase == 'Answered') == has(self.instanceID)",
            "message": "instanceID is set exactly in the phase Answered",
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(phase: &str) -> Value {
        json!({
            "phase": phase,
            "attempt": 1,
            "clientToken": "uid-1",
            "subnetID": "subnet-0000000b",
            "imageID": "ami-0123456789abcdef0",
            "instanceType": "m7i.large",
            "securityGroupIDs": ["sg-0000000a"],
            "parametersHash": "3b1f0c9a",
            "requestedAt": "2026-11-20T10:02:41Z",
            "holder": "a1b2",
        })
    }

    fn answered() -> Value {
        let mut answered = stored("Answered");
        answered["instanceID"] = json!("i-0123456789abcdef0");
        answered
    }

    fn read(stored: &Value) -> LaunchRecord {
        serde_json::from_value(stored.clone()).unwrap()
    }

    #[test]
    fn a_launch_record_keeps_its_flat_shape() {
        let mut failed_before = stored("Refused");
        failed_before["failedInstances"] = json!(2);
        let planned = json!({"phase": "Planned", "attempt": 0});
        for stored in [planned, stored("Requested"), failed_before, answered()] {
            let record = read(&stored);
            assert!(!matches!(record, LaunchRecord::Unreadable(_)), "{stored}");
            assert_eq!(serde_json::to_value(&record).unwrap(), stored);
        }
        let record = read(&stored("Requested"));
        assert_eq!(record.request().unwrap().subnet_id, "subnet-0000000b");
        assert_eq!(record.attempt().unwrap().holder, "a1b2");
    }

    #[test]
    fn an_attempt_is_open_until_an_id_or_a_refusal_is_stored() {
        let table = [
            (json!({"phase": "Planned", "attempt": 0}), false, false),
            (stored("Requested"), true, true),
            (stored("Refused"), false, true),
            (answered(), false, false),
            (json!({"attempt": 2}), true, true),
        ];
        for (stored, is_open, is_without_instance) in table {
            let record = read(&stored);
            assert_eq!(record.is_open(), is_open, "{stored}");
            assert_eq!(record.is_without_instance(), is_without_instance, "{stored}");
        }
    }

    #[test]
    fn a_contradictory_record_is_open_and_written_back_as_is() {
        let with = |mut stored: Value, field: &str, value: Value| {
            stored[field] = value;
            stored
        };
        let without = |mut stored: Value, field: &str| {
            stored.as_object_mut().unwrap().remove(field);
            stored
        };
        let table = [
            (json!({"attempt": 2, "clientToken": "uid-2"}), 2),
            (json!({"attempt": 0}), 0),
            (json!({"phase": "Requested", "attempt": 0}), 0),
            (json!({"phase": "Planned", "attempt": 0, "clientToken": "uid-1"}), 0),
            (stored("Planned"), 1),
            (stored("Answered"), 1),
            (stored("Pondered"), 1),
            (without(stored("Requested"), "phase"), 1),
            (without(stored("Requested"), "holder"), 1),
            (without(stored("Refused"), "subnetID"), 1),
            (with(stored("Requested"), "attempt", json!(0)), 0),
        ];
        for (stored, attempt) in table {
            let record = read(&stored);
            assert!(matches!(record, LaunchRecord::Unreadable(_)), "{stored}");
            assert!(record.is_open(), "{stored}");
            assert_eq!((record.request(), record.instance_id()), (None, None), "{stored}");
            assert_eq!(record.attempt_number(), attempt, "{stored}");
            assert_eq!(serde_json::to_value(&record).unwrap(), stored);
        }
    }

    #[test]
    fn the_instance_of_an_unreadable_record_is_known() {
        let record = read(&without_phase(answered()));
        assert_eq!(record.instance_id(), Some("i-0123456789abcdef0"));
        assert!(!record.is_open());
    }

    fn without_phase(mut stored: Value) -> Value {
        stored.as_object_mut().unwrap().remove("phase");
        stored
    }

    #[test]
    fn a_launch_without_an_attempt_number_is_no_record() {
        for stored in [json!({}), json!({"attempt": "first"}), json!({"attempt": -1}), json!(1)] {
            assert!(serde_json::from_value::<LaunchRecord>(stored.clone()).is_err(), "{stored}");
        }
    }
}
