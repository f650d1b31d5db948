//! AWSNetworkMappings, compiled.

use capa_api::network::MachineNetwork;
use capa_api::network_mapping::{AWSNetworkMappingSpec, MappedFields, MappingAuthority};
use capa_api::network_schema::{Step, expected_type};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::Field;
use crate::expression::{Expression, NoValue};
use crate::parse::{WrongType, parse};

/// An expression of a mapping that does not compile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path} does not compile: {why}; correct the expression")]
pub struct InvalidExpression {
    /// Path of the expression in the mapping, for example `spec.fields.subnets`.
    pub path: String,
    /// The error of the compiler, or the limit that the expression exceeds.
    pub why: String,
}

/// A compiled AWSNetworkMapping.
#[derive(Debug)]
pub struct Mapping {
    name: String,
    authority: MappingAuthority,
    ready_when: Option<Expression>,
    leaves: Vec<Leaf>,
}

/// An expression and its place in the contract.
#[derive(Debug)]
struct Leaf {
    field: Field,
    /// The names in the path of the value, for example `vpc` and `id`.
    path: &'static [&'static str],
    expression: Expression,
}

/// The reason why a mapping yields no network for an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unmapped {
    /// `readyWhen` is not true.
    NotReady,
    /// A value does not have the type that the expression at this path of the mapping, or the contract, expects.
    WrongType(WrongType),
    /// The evaluation of the expression at this path would take too much work.
    TooMuchWork(String),
}

impl Mapping {
    /// Compiles the expressions of a mapping.
    ///
    /// # Errors
    /// The first expression that does not compile or exceeds the limits.
    pub fn compile(name: &str, spec: &AWSNetworkMappingSpec) -> Result<Self, InvalidExpression> {
        let compile =
            |path: String, text: &str| Expression::compile(text).map_err(|why| InvalidExpression { path, why });
        let ready_when = spec.ready_when.as_deref();
        let ready_when = ready_when.map(|text| compile("spec.readyWhen".to_owned(), text)).transpose()?;
        let leaves = texts(&spec.fields).into_iter().filter_map(|(field, path, text)| {
            let text = text?;
            let compiled = compile(format!("spec.fields.{}", path.join(".")), text);
            Some(compiled.map(|expression| Leaf { field, path, expression }))
        });
        Ok(Self {
            name: name.to_owned(),
            authority: spec.effective_authority(),
            ready_when,
            leaves: leaves.collect::<Result<_, _>>()?,
        })
    }

    /// Name of the AWSNetworkMapping.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn authority(&self) -> MappingAuthority {
        self.authority
    }

    /// The fields that the mapping supplies.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = self.leaves.iter().map(|leaf| leaf.field).collect();
        fields.dedup();
        fields
    }

    /// The network of an object. `data` are the values of a ConfigMap or Secret.
    pub(crate) fn network(&self, object: &Value, data: &Value) -> Result<MachineNetwork, Unmapped> {
        if let Some(ready_when) = &self.ready_when {
            match ready_when.evaluate(object, data) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) | Err(NoValue::Missing) => return Err(Unmapped::NotReady),
                Ok(_) | Err(NoValue::WrongType) => {
                    return Err(Unmapped::WrongType(WrongType {
                        path: "readyWhen".to_owned(),
                        expected: "true or false".to_owned(),
                    }));
                }
                Err(NoValue::TooMuchWork) => return Err(Unmapped::TooMuchWork("readyWhen".to_owned())),
            }
        }
        let mut network = json!({});
        for leaf in &self.leaves {
            let path = || leaf.path.join(".");
            match leaf.expression.evaluate(object, data) {
                Ok(value) => put(&mut network, leaf.path, value),
                Err(NoValue::Missing) => {}
                Err(NoValue::WrongType) => {
                    let steps = leaf.path.iter().map(|name| Step::Field(name));
                    let expected = expected_type(steps);
                    return Err(Unmapped::WrongType(WrongType { path: path(), expected }));
                }
                Err(NoValue::TooMuchWork) => return Err(Unmapped::TooMuchWork(path())),
            }
        }
        // A VPC without an id is useless.
        if let Some(fields) = network.as_object_mut()
            && fields.get("vpc").is_some_and(|vpc| vpc.get("id").is_none())
        {
            fields.remove("vpc");
        }
        parse(&network).map_err(Unmapped::WrongType)
    }
}

type Text<'a> = (Field, &'static [&'static str], Option<&'a str>);

/// The expressions of a mapping, each with the path of its value in the contract.
fn texts(fields: &MappedFields) -> Vec<Text<'_>> {
    let groups = fields.security_groups.as_ref();
    let vpc = fields.vpc.as_ref();
    vec![
        (Field::Region, &["region"], fields.region.as_deref()),
        (Field::Subnets, &["subnets"], fields.subnets.as_deref()),
        (Field::SecurityGroupsAll, &["securityGroups", "all"], groups.and_then(|groups| groups.all.as_deref())),
        (
            Field::SecurityGroupsControlPlane,
            &["securityGroups", "controlPlane"],
            groups.and_then(|groups| groups.control_plane.as_deref()),
        ),
        (
            Field::SecurityGroupsWorker,
            &["securityGroups", "worker"],
            groups.and_then(|groups| groups.worker.as_deref()),
        ),
        (Field::Vpc, &["vpc", "id"], vpc.map(|vpc| vpc.id.as_str())),
        (Field::Vpc, &["vpc", "cidrBlocks"], vpc.and_then(|vpc| vpc.cidr_blocks.as_deref())),
        (Field::Vpc, &["vpc", "ipv6CidrBlocks"], vpc.and_then(|vpc| vpc.ipv6_cidr_blocks.as_deref())),
        (Field::AdditionalTags, &["additionalTags"], fields.additional_tags.as_deref()),
        (Field::ClusterTag, &["clusterTag"], fields.cluster_tag.as_deref()),
        (Field::SshKeyName, &["sshKeyName"], fields.ssh_key_name.as_deref()),
        (Field::ImageLookup, &["imageLookup"], fields.image_lookup.as_deref()),
        (Field::ControlPlaneTargets, &["controlPlaneTargets"], fields.control_plane_targets.as_deref()),
        (Field::IdentityRef, &["identityRef"], fields.identity_ref.as_deref()),
        (Field::InstanceProfiles, &["instanceProfiles"], fields.instance_profiles.as_deref()),
        (Field::BootstrapStorage, &["bootstrapStorage"], fields.bootstrap_storage.as_deref()),
    ]
}

/// Inserts a value into an object at a path, and creates the objects on the path.
fn put(object: &mut Value, path: &[&str], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if let Some(fields) = object.as_object_mut() {
        let field = fields.entry(*name).or_insert_with(|| Map::new().into());
        put(field, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(fields: &str) -> AWSNetworkMappingSpec {
        serde_saphyr::from_str(&format!("{{source: {{apiGroup: example.org, kind: Landscape}}, {fields}}}")).unwrap()
    }

    fn network(fields: &str, object: &Value) -> Result<MachineNetwork, Unmapped> {
        Mapping::compile("m", &spec(fields)).unwrap().network(object, &json!({}))
    }

    #[test]
    fn each_expression_supplies_its_field() {
        let table = [
            ("fields.region", "region: \"'x'\"", "/region", json!("x")),
            ("fields.subnets", "subnets: \"[{'id': 'x'}]\"", "/subnets/0/id", json!("x")),
            ("fields.securityGroups.all", "securityGroups: {all: \"['x']\"}", "/securityGroups/all", json!(["x"])),
            (
                "fields.securityGroups.controlPlane",
                "securityGroups: {controlPlane: \"['x']\"}",
                "/securityGroups/controlPlane",
                json!(["x"]),
            ),
            (
                "fields.securityGroups.worker",
                "securityGroups: {worker: \"['x']\"}",
                "/securityGroups/worker",
                json!(["x"]),
            ),
            ("fields.vpc.id", "vpc: {id: \"'x'\"}", "/vpc/id", json!("x")),
            ("fields.vpc.cidrBlocks", "vpc: {id: \"'x'\", cidrBlocks: \"['y']\"}", "/vpc/cidrBlocks", json!(["y"])),
            (
                "fields.vpc.ipv6CidrBlocks",
                "vpc: {id: \"'x'\", ipv6CidrBlocks: \"['y']\"}",
                "/vpc/ipv6CidrBlocks",
                json!(["y"]),
            ),
            ("fields.additionalTags", "additionalTags: \"{'a': 'x'}\"", "/additionalTags/a", json!("x")),
            ("fields.clusterTag", "clusterTag: \"'x'\"", "/clusterTag", json!("x")),
            ("fields.sshKeyName", "sshKeyName: \"'x'\"", "/sshKeyName", json!("x")),
            ("fields.imageLookup", "imageLookup: \"{'org': 'x'}\"", "/imageLookup/org", json!("x")),
            (
                "fields.controlPlaneTargets",
                "controlPlaneTargets: \"[{'classicLoadBalancerName': 'x'}]\"",
                "/controlPlaneTargets/0/classicLoadBalancerName",
                json!("x"),
            ),
            (
                "fields.identityRef",
                "identityRef: \"{'kind': 'AWSClusterRoleIdentity', 'name': 'x'}\"",
                "/identityRef/name",
                json!("x"),
            ),
            (
                "fields.instanceProfiles",
                "instanceProfiles: \"{'worker': 'x'}\"",
                "/instanceProfiles/worker",
                json!("x"),
            ),
            (
                "fields.bootstrapStorage",
                "bootstrapStorage: \"{'s3': {'bucket': 'x'}}\"",
                "/bootstrapStorage/s3/bucket",
                json!("x"),
            ),
        ];
        for (field, set, pointer, expected) in table {
            let network = network(&format!("fields: {{{set}}}"), &json!({})).unwrap();
            let network = serde_json::to_value(network).unwrap();
            assert_eq!(network.pointer(pointer), Some(&expected), "{field}");
        }
    }

    #[test]
    fn a_field_whose_expression_reads_a_missing_key_is_absent() {
        let fields = "fields: {region: self.spec.region, vpc: {id: self.status.vpc, cidrBlocks: \"['10.0.0.0/16']\"}}";
        let mapped = network(fields, &json!({"spec": {"region": "eu-west-1"}})).unwrap();
        assert_eq!(mapped.region.as_deref(), Some("eu-west-1"));
        assert_eq!(mapped.vpc, None, "a VPC without an id");
    }

    #[test]
    fn an_object_that_is_not_ready_is_waited_for() {
        let fields = "readyWhen: self.status.ready, fields: {region: self.spec.region}";
        let object = |status: Value| json!({"spec": {"region": "eu-west-1"}, "status": status});
        assert!(network(fields, &object(json!({"ready": true}))).is_ok());
        assert_eq!(network(fields, &object(json!({"ready": false}))), Err(Unmapped::NotReady));
        assert_eq!(network(fields, &object(json!({}))), Err(Unmapped::NotReady));
        let Err(Unmapped::WrongType(wrong)) = network(fields, &object(json!({"ready": "hunter2"}))) else {
            panic!("a text is no truth value");
        };
        assert_eq!((wrong.path.as_str(), wrong.expected.as_str()), ("readyWhen", "true or false"));
    }

    #[test]
    fn a_wrong_type_names_the_leaf_and_no_value() {
        let object = json!({"spec": {"region": ["hunter2"], "subnets": "hunter2"}});
        let table = [
            ("fields: {region: self.spec.region}", "region", "a string"),
            ("fields: {region: \"self.spec.region + 'x'\"}", "region", "a string"),
            ("fields: {subnets: \"self.spec.subnets.map(s, s.id)\"}", "subnets", "a list of objects with id"),
            ("fields: {subnets: \"[{'id': 1}]\"}", "subnets[0].id", "a string"),
            ("fields: {vpc: {id: self.spec.region}}", "vpc.id", "a string"),
        ];
        for (fields, path, expected) in table {
            let Err(Unmapped::WrongType(wrong)) = network(fields, &object) else {
                panic!("{fields} fits");
            };
            assert_eq!((wrong.path.as_str(), wrong.expected.as_str()), (path, expected), "{fields}");
        }
    }

    #[test]
    fn an_invalid_expression_is_named_by_its_path() {
        let table = [
            ("readyWhen: 'self.', fields: {region: self.a}", "spec.readyWhen"),
            ("fields: {vpc: {id: 'self.'}}", "spec.fields.vpc.id"),
            ("fields: {region: self.a, securityGroups: {all: other}}", "spec.fields.securityGroups.all"),
        ];
        for (fields, path) in table {
            assert_eq!(Mapping::compile("m", &spec(fields)).unwrap_err().path, path);
        }
    }

    #[test]
    fn a_mapping_supplies_the_fields_that_it_declares() {
        let fields = "fields: {region: self.a, vpc: {id: self.b, cidrBlocks: self.c}, identityRef: self.d}";
        let mapping = Mapping::compile("m", &spec(fields)).unwrap();
        assert_eq!(mapping.fields(), [Field::Region, Field::Vpc, Field::IdentityRef]);
    }
}
