#!/usr/bin/env bash
# Builds CAPA's own manager, and renders the manifests of its release: `hack/tools/cluster-api-provider-aws/build.sh <bin>`.
# The folder gets capa-manager and capa-components.yaml. Go keeps what it has compiled.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin="$1"
module=sigs.k8s.io/cluster-api-provider-aws/v2
"$here/../require.sh" go
export GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0
cd "$here"
echo "capa: building its manager (minutes the first time)"
go build -ldflags "-s -w" -o "$bin/capa-manager" "$module"
# Kustomize warns of the form of CAPA's files.
source="$(go list -m -f '{{.Dir}}' "$module")"
said="$("$bin/kubectl" kustomize "$source/config/default" 2>&1 >"$bin/capa-components.yaml.$$")" || {
  echo "capa: its manifests cannot be rendered: $said" >&2
  exit 1
}
mv "$bin/capa-components.yaml.$$" "$bin/capa-components.yaml"
echo "capa: ready in $bin"
