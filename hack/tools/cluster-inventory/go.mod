// The CustomResourceDefinition of ClusterProfile; no program is built from this.
module capa-rs/hack/tools/cluster-inventory

go 1.26.0

require sigs.k8s.io/cluster-inventory-api v0.1.2
