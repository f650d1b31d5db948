//go:build tools

// Package tools pins the Cluster API that the local world runs.
package tools

import _ "sigs.k8s.io/cluster-api/core"
