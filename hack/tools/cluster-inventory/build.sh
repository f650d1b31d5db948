#!/usr/bin/env bash
# Builds the consumer of ClusterProfiles that cluster-inventory-api shows, and its plugin:
# `hack/tools/cluster-inventory/build.sh <bin>`. The folder gets cluster-inventory/ with both. Go keeps what it has compiled.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
bin="$(cd "$1" && pwd)"
module=sigs.k8s.io/cluster-inventory-api
"$here/../require.sh" go
export GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0
cd "$here"
mkdir -p "$bin/cluster-inventory"
echo "cluster-inventory: building a consumer of ClusterProfiles (a minute the first time)"
go build -ldflags "-s -w" -o "$bin/cluster-inventory/consumer" "$module/examples/controller-example"
go build -ldflags "-s -w" -o "$bin/cluster-inventory/kubeconfig-secretreader" "$module/plugins/kubeconfig-secretreader/cmd/plugin"
echo "cluster-inventory: ready in $bin/cluster-inventory"
