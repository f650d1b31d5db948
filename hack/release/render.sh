#!/usr/bin/env bash
# Writes what a release consists of as a repository that clusterctl reads from disk, and a clusterctl configuration that
# names it: `hack/release/render.sh <folder> <version> <image>`, e.g. `… dist v0.1.0 localhost/capa-rs:v0.1.0`.
#
#   <folder>/clusterctl.yaml
#   <folder>/infrastructure-aws-rs/<version>/infrastructure-components.yaml   config/default
#   <folder>/infrastructure-aws-rs/<version>/metadata.yaml
#   <folder>/infrastructure-aws-rs/<version>/cluster-template*.yaml           one a flavor, from templates/parts
#   <folder>/infrastructure-aws-rs/<version>/clusterclass-*.yaml
#
# Other versions in the folder stay: `clusterctl upgrade` chooses among them.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
templates="$repository/templates"
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
version="$2"
image="$3"
release="$folder/infrastructure-aws-rs/$version"

[[ "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
  echo "$version is no version for clusterctl: v<major>.<minor>.<patch>" >&2
  exit 1
}
[[ "$image" =~ ^(localhost|[^/]*[.:][^/]*)/ ]] || {
  echo "clusterctl takes no image without a host: localhost/$image, for instance, instead of $image" >&2
  exit 1
}

variables() { # variables <pattern> <part…>: names in the parts, as a list
  grep -ohE "$1" "${@:2}" | grep -oE '[A-Z][A-Z0-9_]*' | sort -u | paste -sd, | sed 's/,/, /g'
}

flavor() { # flavor <name> <what it is> <part…>
  local name="$1" description="$2" separator="" part parts
  parts=("${@:3}")
  parts=("${parts[@]/#/$templates/parts/}")
  parts=("${parts[@]/%/.yaml}")
  {
    fold -s -w 116 <<<"$description" | sed 's/^/# /; s/ *$//'
    echo "# Needs: $(variables '[$][{][A-Z0-9_]+[}]' "${parts[@]}")" | fold -s -w 116 | sed '2,$s/^/#   /; s/ *$//'
    echo "# Has defaults for: $(variables '[$][{][A-Z0-9_]+:=' "${parts[@]}")" | fold -s -w 116 | sed '2,$s/^/#   /; s/ *$//'
    echo "# docs/templates.md of cluster-api-provider-aws-rs explains them."
    for part in "${parts[@]}"; do
      printf '%s' "$separator"
      cat "$part"
      separator=$'---\n'
    done
  } >"$release/cluster-template-$name.yaml"
}

mkdir -p "$release"
"$repository/bin/kubectl" kustomize "$repository/config/default" |
  sed "s|image: capa-rs:latest\$|image: $image|" >"$release/infrastructure-components.yaml"
cp "$repository/metadata.yaml" "$release/metadata.yaml"
cp "$templates"/clusterclass-*.yaml "$release/"

flavor unmanaged \
  "A cluster on infrastructure that you bring: three subnets, best in three zones, and a target group in which the control plane machines are registered." \
  cluster aws-cluster-target-group control-plane workers
flavor unmanaged-external-endpoint \
  "A cluster on infrastructure that you bring, whose endpoint needs no registration: a DNS name, kube-vip, or a load balancer that finds its targets itself." \
  cluster aws-cluster-external-endpoint control-plane workers
flavor unmanaged-machine-health-check \
  "The flavor unmanaged, and machines whose node does not come up or stops being ready are replaced." \
  cluster aws-cluster-target-group control-plane workers machine-health-checks
flavor unmanaged-clusterclass \
  "The flavor unmanaged as a cluster of the ClusterClass in clusterclass-unmanaged.yaml; clusterctl adds the class where it is missing. Cluster API needs CLUSTER_TOPOLOGY=true when it is installed." \
  cluster-of-class
flavor unmanaged-external-control-plane \
  "Workers on infrastructure that you bring, for a control plane that another provider runs elsewhere. Its object is yours to create." \
  cluster-external-control-plane workers
# What `clusterctl generate cluster` takes without --flavor.
cp "$release/cluster-template-unmanaged.yaml" "$release/cluster-template.yaml"

cat >"$folder/clusterctl.yaml" <<END
# For \`clusterctl --config\`: where the provider aws-rs is found. Written by \`make release-manifests\`.
providers:
- name: aws-rs
  type: InfrastructureProvider
  url: $folder/infrastructure-aws-rs/latest/infrastructure-components.yaml
END
echo "wrote $release; clusterctl --config $folder/clusterctl.yaml finds it"
