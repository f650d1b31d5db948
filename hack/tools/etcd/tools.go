//go:build tools

// Package tools pins the etcd that the local world runs on.
package tools

import _ "go.etcd.io/etcd/server/v3"
