#!/usr/bin/env bash
# Builds the programs of the local world and links them into bin/: `hack/tools/build.sh [bin directory]`.
#
# What is built lives in a cache outside the checkout, one folder per tool and hash of everything that decides its
# content, so that a second clone links in a moment and an upgrade rebuilds only what it touches.
# KUBEBUILDER_ASSETS, when set, supplies etcd, kube-apiserver and kubectl instead.
set -euo pipefail

tools="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin="${1:-$(dirname "$(dirname "$tools")")/bin}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/capa-rs/tools"
assets="${KUBEBUILDER_ASSETS:+$(cd "$KUBEBUILDER_ASSETS" && pwd)}"

version_of() { # version_of <module folder> <module path>: the version that go.mod requires
  sed -n "s|^\(require \)\{0,1\}[[:space:]]*$2 v\([^ ]*\).*|\2|p" "$tools/$1/go.mod" | head -n 1
}
kubernetes="$(version_of kubernetes k8s.io/kubernetes)"
cluster_api="$(version_of cluster-api sigs.k8s.io/cluster-api)"
cert_manager="$(version_of cert-manager github.com/cert-manager/cert-manager)"
etcd="$(version_of etcd go.etcd.io/etcd/server/v3)"
capa="$(version_of cluster-api-provider-aws sigs.k8s.io/cluster-api-provider-aws/v2)"

stamp_flags() { # stamp_flags <package> <version>: linker flags that make a program report its version
  local minor="${2#*.}"
  echo "-s -w -X $1.gitVersion=v$2 -X $1.gitMajor=${2%%.*} -X $1.gitMinor=${minor%%.*}"
}
kubernetes_flags="$(stamp_flags k8s.io/component-base/version "$kubernetes")"
cluster_api_flags="$(stamp_flags sigs.k8s.io/cluster-api/version "$cluster_api")"
etcd_flags="-s -w"

sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-16; }

key() { # key <folder> [flags]: hash of all that decides what the folder builds
  { uname -sm; echo "${2:-}"; cat "$tools/$1"/*; } | sha256
}
etcd_cache="$cache/etcd-$(key etcd "$etcd_flags")"
etcd_stub_cache="$cache/etcd-stub-$(key etcd-stub "$etcd_flags")"
kubernetes_cache="$cache/kubernetes-$(key kubernetes "$kubernetes_flags")"
cluster_api_cache="$cache/cluster-api-$(key cluster-api "$cluster_api_flags")"
cert_manager_cache="$cache/cert-manager-$(key cert-manager)"
cluster_inventory_cache="$cache/cluster-inventory-$(key cluster-inventory)"
capa_cache="$cache/cluster-api-provider-aws-$(key cluster-api-provider-aws)"
# A virtual environment belongs to its Python.
python="$(python3 -c 'import sys; print(sys.version_info[:2], sys.base_prefix)' 2>/dev/null || true)"
moto_cache="$cache/moto-$(key moto "$python")"

from_assets() { # from_assets <program> <own build>: where the program comes from
  if [ -n "$assets" ]; then echo "$assets/$1"; else echo "$2/$1"; fi
}
wanted=(
  "$(from_assets etcd "$etcd_cache")"
  "$(from_assets kube-apiserver "$kubernetes_cache")"
  "$(from_assets kubectl "$kubernetes_cache")"
  "$kubernetes_cache/kube-controller-manager"
  "$etcd_stub_cache/etcd-stub"
  "$cluster_api_cache/cluster-api-core"
  "$cluster_api_cache/cluster-api-kubeadm-bootstrap"
  "$cluster_api_cache/cluster-api-kubeadm-control-plane"
  "$cluster_api_cache/clusterctl"
  "$cluster_api_cache/core-components.yaml"
  "$cluster_api_cache/bootstrap-components.yaml"
  "$cluster_api_cache/control-plane-components.yaml"
  "$cluster_api_cache/cluster-api-metadata.yaml"
  "$cert_manager_cache/cert-manager.yaml"
  "$cluster_inventory_cache/cluster-profiles.yaml"
  "$capa_cache/capa-manifests"
  "$moto_cache/moto"
)

up_to_date() {
  local file
  for file in "${wanted[@]}"; do
    [ -e "$file" ] && [ "$(readlink "$bin/${file##*/}")" = "$file" ] || return 1
  done
}

# Runs a command with its output in a log, and says once a second (on a terminal) or every half minute (in a CI log)
# what is being waited for.
step() { # step <description> <command…>
  local description="$1" log pid started=$SECONDS said=0 failed=0
  shift
  log="$(mktemp)"
  set -m # a process group of its own, so that an interrupt reaches the compiler too
  "$@" >"$log" 2>&1 8>&- &
  pid=$!
  set +m
  trap 'kill -- "-$pid" 2>/dev/null || true; exit 130' INT TERM
  [ -t 1 ] || echo "tools: $description"
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    if [ -t 1 ]; then
      printf '\rtools: %s … %d s ' "$description" $((SECONDS - started))
    elif [ $((SECONDS - started - said)) -ge 30 ]; then
      said=$((SECONDS - started))
      echo "tools:   … $said s: $(tail -n 1 "$log" | cut -c 1-80)"
    fi
  done
  wait "$pid" || failed=$?
  trap - INT TERM
  if [ -t 1 ]; then printf '\r'; fi
  if [ "$failed" -ne 0 ]; then
    echo "tools: $description: failed after $((SECONDS - started)) s; the end of its output:" >&2
    tail -n 30 "$log" >&2
    exit "$failed"
  fi
  echo "tools: $description: $((SECONDS - started)) s"
  rm -f "$log"
}

go_build() { # go_build <module folder> <flags> <output folder> <name=package…>: one `go build` per module and program
  local module="$1" flags="$2" output="$3" target
  shift 3
  mkdir -p "$output"
  for target in "$@"; do
    # Built under another name and renamed: a build that was interrupted never looks complete.
    (cd "$tools/$module" && GOFLAGS=-buildvcs=false GOWORK=off CGO_ENABLED=0 \
      go build -ldflags "$flags" -o "$output/${target%%=*}.$$" "${target#*=}")
    mv "$output/${target%%=*}.$$" "$output/${target%%=*}"
  done
}

module_source() { # module_source <module folder> <module path>: where the source of the module lies, after fetching it
  (cd "$tools/$1" && GOWORK=off go mod download "$2" && GOWORK=off go list -m -f '{{.Dir}}' "$2")
}

cluster_api_manifests() { # the manifests of Cluster API as its releases ship them; metadata.yaml is the last to appear
  local source provider
  source="$(module_source cluster-api sigs.k8s.io/cluster-api)"
  for provider in core=core bootstrap=bootstrap/kubeadm control-plane=controlplane/kubeadm; do
    "$(from_assets kubectl "$kubernetes_cache")" kustomize "$source/${provider#*=}/config/default" \
      >"$cluster_api_cache/${provider%%=*}-components.yaml"
  done
  install -m 644 "$source/metadata.yaml" "$cluster_api_cache/cluster-api-metadata.yaml"
}

cert_manager_definitions() { # the CustomResourceDefinitions only: clusterctl asks for no more, and nothing needs to run
  local source
  source="$(module_source cert-manager github.com/cert-manager/cert-manager)"
  mkdir -p "$cert_manager_cache"
  cat "$source"/deploy/crds/*.yaml >"$cert_manager_cache/cert-manager.yaml.$$"
  mv "$cert_manager_cache/cert-manager.yaml.$$" "$cert_manager_cache/cert-manager.yaml"
}

cluster_profile_definition() {
  local source
  source="$(module_source cluster-inventory sigs.k8s.io/cluster-inventory-api)"
  mkdir -p "$cluster_inventory_cache"
  install -m 644 "$source/config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml" \
    "$cluster_inventory_cache/cluster-profiles.yaml.$$"
  mv "$cluster_inventory_cache/cluster-profiles.yaml.$$" "$cluster_inventory_cache/cluster-profiles.yaml"
}

capa_manifests() { # the templates of CAPA's releases and of its end-to-end tests, without the parts that these are made from
  local source place
  source="$(module_source cluster-api-provider-aws sigs.k8s.io/cluster-api-provider-aws/v2)"
  mkdir -p "$capa_cache"
  place="$(mktemp -d "$capa_cache/manifests.XXXXXX")"
  cp -R "$source/templates" "$source/test/e2e/data/infrastructure-aws" "$place"
  chmod -R u+w "$place"
  rm -rf "$place"/infrastructure-aws/*/kustomize_sources
  mv "$place" "$capa_cache/capa-manifests"
}

install_moto() {
  # A virtual environment cannot be moved, so it is built where it stays and only its link appears when it is complete.
  local place
  mkdir -p "$moto_cache"
  place="$(mktemp -d "$moto_cache/environment.XXXXXX")"
  python3 -m venv "$place"
  "$place/bin/pip" install --disable-pip-version-check --requirement "$tools/moto/requirements.txt"
  ln -sfn "$place" "$moto_cache/moto"
}

build() { # build <description> <first product> <command…>: unless the product is there
  if [ ! -e "$2" ]; then step "$1" "${@:3}"; fi
}

if up_to_date; then
  echo "tools: up to date"
  exit 0
fi
started=$SECONDS
mkdir -p "$cache" "$bin"
# Checkouts share the cache: one builds, and the others find it built. macOS has no flock.
exec 8>"$cache/.lock"
if command -v flock >/dev/null; then
  flock --nonblock 8 || { echo "tools: another run builds them; waiting for it"; flock 8; }
fi

for file in "${wanted[@]}"; do
  case "$file" in
    "$moto_cache"/*) [ -e "$file" ] || "$tools/require.sh" python3 ;;
    "$cache"/*) [ -e "$file" ] || "$tools/require.sh" go ;;
  esac
done
build "moto (EC2 and friends over the wire) and the AWS CLI" "$moto_cache/moto" install_moto
if [ -z "$assets" ]; then
  build "etcd $etcd" "$etcd_cache/etcd" go_build etcd "$etcd_flags" "$etcd_cache" etcd=go.etcd.io/etcd/server/v3
  build "kube-apiserver $kubernetes" "$kubernetes_cache/kube-apiserver" \
    go_build kubernetes "$kubernetes_flags" "$kubernetes_cache" kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver
  build "kubectl $kubernetes" "$kubernetes_cache/kubectl" \
    go_build kubernetes "$kubernetes_flags" "$kubernetes_cache" kubectl=k8s.io/kubernetes/cmd/kubectl
fi
build "kube-controller-manager $kubernetes" "$kubernetes_cache/kube-controller-manager" \
  go_build kubernetes "$kubernetes_flags" "$kubernetes_cache" kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager
build "etcd-stub (what runs on control plane nodes)" "$etcd_stub_cache/etcd-stub" \
  go_build etcd-stub "$etcd_flags" "$etcd_stub_cache" etcd-stub=.
for target in cluster-api-core=core cluster-api-kubeadm-bootstrap=bootstrap/kubeadm \
  cluster-api-kubeadm-control-plane=controlplane/kubeadm clusterctl=cmd/clusterctl; do
  build "${target%%=*} $cluster_api" "$cluster_api_cache/${target%%=*}" \
    go_build cluster-api "$cluster_api_flags" "$cluster_api_cache" "${target%%=*}=sigs.k8s.io/cluster-api/${target#*=}"
done
build "Cluster API manifests" "$cluster_api_cache/cluster-api-metadata.yaml" cluster_api_manifests
build "cert-manager $cert_manager definitions" "$cert_manager_cache/cert-manager.yaml" cert_manager_definitions
build "definition of ClusterProfile" "$cluster_inventory_cache/cluster-profiles.yaml" cluster_profile_definition
build "CAPA $capa manifests" "$capa_cache/capa-manifests" capa_manifests

for file in "${wanted[@]}"; do
  [ -e "$file" ] || { echo "tools: $file is missing (KUBEBUILDER_ASSETS=$assets)" >&2; exit 1; }
  ln -sfn "$file" "$bin/${file##*/}"
done
echo "tools: ready in $bin after $((SECONDS - started)) s"
