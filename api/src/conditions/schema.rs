//! The schema of a list of conditions in a CRD.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Schema of a list of conditions in the form of Kubernetes: one entry per type, at most 32.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "description": "A condition of the object.",
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "Type of the condition, for example Ready.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": concat!(
                        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
                        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    ),
                },
                "status": {
                    "description": "Status of the condition: True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "description": "Machine-readable reason for the status, in one word.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "Human-readable explanation: the affected object, the problem and the corrective \
                                    action. Empty if there is no problem.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "description": "Time at which the status last changed from one value to another.",
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "description": "Generation of the object (`metadata.generation`) to which the condition applies. A \
                                    condition of an older generation is out of date.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    })
}
