//! The compiled AWSNetworkMappings.

use std::collections::HashMap;
use std::sync::Arc;

use capa_api::network_mapping::AWSNetworkMapping;
use capa_network::{InvalidExpression, Mapping};
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;

/// UID and generation of an AWSNetworkMapping: the version of its spec.
pub(super) type MappingVersion = (String, i64);

/// The result of compiling a mapping, shared by all sources that it reads.
pub(super) type Compiled = Arc<Result<Arc<Mapping>, InvalidExpression>>;

/// Compiles each version of an AWSNetworkMapping once.
pub(super) struct Mappings {
    objects: Store<AWSNetworkMapping>,
    compiled: Mutex<HashMap<String, (MappingVersion, Compiled)>>,
}

impl Mappings {
    pub(super) fn new(objects: Store<AWSNetworkMapping>) -> Self {
        Self { objects, compiled: Mutex::default() }
    }

    /// An AWSNetworkMapping by its name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<AWSNetworkMapping>> {
        self.objects.get(&ObjectRef::new(name))
    }

    /// The compiled form of a mapping.
    pub(super) fn compiled(&self, mapping: &AWSNetworkMapping) -> Compiled {
        let name = mapping.metadata.name.clone().unwrap_or_default();
        let version = version(mapping);
        let mut compiled = self.compiled.lock();
        if let Some((known, result)) = compiled.get(&name)
            && *known == version
        {
            return Arc::clone(result);
        }
        compiled.retain(|name, _| self.get(name).is_some());
        let result: Compiled = Arc::new(Mapping::compile(&name, &mapping.spec).map(Arc::new));
        compiled.insert(name, (version, Arc::clone(&result)));
        result
    }
}

/// The version of the spec of a mapping.
pub(super) fn version(mapping: &AWSNetworkMapping) -> MappingVersion {
    let uid = mapping.metadata.uid.clone().unwrap_or_default();
    (uid, mapping.metadata.generation.unwrap_or_default())
}
