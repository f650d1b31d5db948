//go:build tools

// Package tools pins the consumer of ClusterProfiles that a story runs.
package tools

import (
	_ "sigs.k8s.io/cluster-inventory-api/examples/controller-example"
	_ "sigs.k8s.io/cluster-inventory-api/plugins/kubeconfig-secretreader/cmd/plugin"
)
