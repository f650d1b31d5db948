// The CustomResourceDefinitions that clusterctl wants to see; no program is built from this.
module capa-rs/hack/tools/cert-manager

go 1.26.0

require github.com/cert-manager/cert-manager v1.21.1
