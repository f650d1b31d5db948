#!/usr/bin/env bash
# Builds the programs of a Karmada control plane: `hack/tools/karmada/build.sh <bin>`. The folder gets karmada/ with the
# programs, the definitions of Karmada's kinds and the configuration of its webhooks. Go keeps what it has compiled.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
bin="$(cd "$1" && pwd)"
module=github.com/karmada-io/karmada
"$here/../require.sh" go
export GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0
cd "$here"
rm -rf "$bin/karmada/definitions"
mkdir -p "$bin/karmada/definitions"
go mod download "$module"
source="$(go list -m -f '{{.Dir}}' "$module")"
install -m 644 "$source"/charts/karmada/_crds/bases/*/*.yaml "$bin/karmada/definitions/"
install -m 644 "$source/artifacts/deploy/webhook-configuration.yaml" "$bin/karmada/"
version="$(go list -m -f '{{.Version}}' "$module")"
for program in aggregated-apiserver controller-manager scheduler webhook; do
  echo "karmada: building $program $version (minutes the first time)"
  go build -ldflags "-s -w -X $module/pkg/version.gitVersion=$version" -o "$bin/karmada/$program" "$module/cmd/$program"
done
echo "karmada: ready in $bin/karmada"
