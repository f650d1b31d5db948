//! The networks that the sources of machine templates describe, and whether the manager may read the sources: for
//! commands, which read once, with the credentials of a user.

use capa_api::common::MachineRole;
use capa_api::contract::Cluster;
use capa_api::machine::AWSMachineSpec;
use capa_api::network::MachineNetwork;
use capa_api::network_mapping::AWSNetworkMapping;
use capa_cloud::Timing;
use capa_network::{Contribution, Source, merge};
use capa_preflight::facts::{Answer, Failure, FailureKind, SourceAccess};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{ListParams, PostParams};
use kube::runtime::{reflector, watcher};
use kube::{Api, Client, ResourceExt as _};

use super::sources::SourceReader;
use crate::kubernetes_api::{SourceObjects, SourceOutcome, SourceRead, SourceRequest};
use crate::launching::network_sources::{NamedBy, from_read, from_spec, requests};

/// Reads the sources of networks as the manager does, but with the credentials of a user.
pub struct SourceChecks {
    client: Client,
    reader: SourceReader,
    /// User name of the manager.
    manager: String,
}

/// The network that sources describe.
#[derive(Debug)]
pub struct DescribedNetwork {
    /// The fields that the sources supply.
    pub network: MachineNetwork,
    /// Each source, whether it can be read, and its problem.
    pub sources: Vec<SourceAccess>,
}

impl SourceChecks {
    /// Reads the AWSNetworkMappings. `service_account` is that of the manager, as namespace and name.
    ///
    /// # Errors
    /// The API server refuses to list the AWSNetworkMappings, or gives no answer.
    pub async fn new(client: Client, (namespace, name): (&str, &str)) -> Result<Self, kube::Error> {
        let mappings: Api<AWSNetworkMapping> = Api::all(client.clone());
        let (store, mut writer) = reflector::store();
        for mapping in mappings.list(&ListParams::default()).await?.items {
            writer.apply_watcher_event(&watcher::Event::Apply(mapping));
        }
        Ok(Self {
            reader: SourceReader::new(client.clone(), store, Timing::default()),
            client,
            manager: format!("system:serviceaccount:{namespace}:{name}"),
        })
    }

    /// User name of the manager.
    pub fn manager(&self) -> &str {
        &self.manager
    }

    /// The network of the machines of a template, as the manager would find it.
    pub async fn described(
        &self,
        cluster: &Cluster,
        template: &str,
        spec: &AWSMachineSpec,
        role: MachineRole,
    ) -> DescribedNetwork {
        let namespace = cluster.namespace().unwrap_or_default();
        let mut read = vec![from_spec(template.to_owned(), spec)];
        let mut accesses = Vec::new();
        for (named_by, request) in requests(spec, Some(role), cluster) {
            let answer = self.reader.read_once(&namespace, &request).await;
            let (source, access) = self.access(&namespace, named_by, &request, answer).await;
            read.push(source);
            accesses.push(access);
        }
        let merged = merge(&read);
        // An infrastructure object without the label is no source. This is a problem only if the other sources lack a
        // field.
        let is_complete = merged.network.region.is_some() && !merged.network.subnets.is_empty();
        for access in &mut accesses {
            access.is_described |= is_complete;
        }
        DescribedNetwork { network: merged.network, sources: accesses }
    }

    async fn access(
        &self,
        namespace: &str,
        named_by: NamedBy,
        request: &SourceRequest,
        read: SourceRead,
    ) -> (Source, SourceAccess) {
        let is_served = !matches!(read.outcome, SourceOutcome::NoKindMatch);
        let is_described = !matches!(read.outcome, SourceOutcome::Undescribed);
        let is_hidden = matches!(read.outcome, SourceOutcome::Forbidden);
        let source = from_read(named_by, request, read);
        let problem = match &source.contribution {
            Contribution::Unusable { .. } if is_hidden => Some(format!("the check itself may not read {request}")),
            Contribution::Unusable { problem, .. } if is_served && is_described => Some(problem.message.clone()),
            _ => None,
        };
        let resource = self.reader.resource(&request.kind).await;
        let resource = resource.unwrap_or_else(|| request.kind.kind.to_lowercase());
        let access = SourceAccess {
            object: request.to_string(),
            group: request.kind.group.clone(),
            is_served,
            is_described,
            is_readable_by_manager: self.manager_may_read(namespace, request, &resource).await,
            resource,
            problem,
        };
        (source, access)
    }

    /// Asks the API server whether the manager may read the objects of the request.
    async fn manager_may_read(&self, namespace: &str, request: &SourceRequest, resource: &str) -> Answer<bool> {
        let (verb, name) = match &request.objects {
            SourceObjects::Named(name) => ("get", Some(name.clone())),
            SourceObjects::Selected(_) => ("list", None),
        };
        let attributes = ResourceAttributes {
            group: Some(request.kind.group.clone()),
            resource: Some(resource.to_owned()),
            namespace: Some(namespace.to_owned()),
            verb: Some(verb.to_owned()),
            name,
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(self.manager.clone()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        match reviews.create(&PostParams::default(), &review).await {
            Ok(review) => Answer::Found(review.status.is_some_and(|status| status.allowed)),
            Err(error) => Answer::Failed(Failure {
                call: "SubjectAccessReview".to_owned(),
                kind: match &error {
                    kube::Error::Api(status) if status.is_forbidden() => FailureKind::Denied,
                    kube::Error::Api(_) => FailureKind::Other,
                    _ => FailureKind::Unreachable,
                },
                code: None,
                message: error.to_string(),
            }),
        }
    }
}
