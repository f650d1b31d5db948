//go:build tools

// Package tools pins the CAPA that this provider is compared with.
package tools

import (
	_ "sigs.k8s.io/cluster-api-provider-aws/v2"
)
