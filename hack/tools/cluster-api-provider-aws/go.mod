// The manifests of CAPA that a story offers to the API server; no program is built from this.
module capa-rs/hack/tools/cluster-api-provider-aws

go 1.26.0

require sigs.k8s.io/cluster-api-provider-aws/v2 v2.13.0
