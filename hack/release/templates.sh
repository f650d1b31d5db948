#!/usr/bin/env bash
# Writes the cluster templates from the objects in templates/parts: `hack/release/templates.sh <folder>`.
# `make generate` writes them into templates/, and a test holds them equal.
#
# A flavor that names subnets has three files. A part is one or more whole objects. `+part` is the further lines of the
# object before it.
set -euo pipefail
export LC_ALL=C

parts="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../templates/parts" && pwd)"
folder="$1"

variables() { # variables <pattern> <file…>: names of variables in the files, as a list
  { grep -ohE "$1" "${@:2}" || true; } | grep -oE '[A-Z][A-Z0-9_]*' | sort -u | paste -sd, | sed 's/,/, /g'
}

comment() { # comment <first prefix> <other prefix>: the text of standard input, wrapped and commented
  fold -s -w 116 | sed "1s/^/$1/; 2,\$s/^/$2/; s/ *\$//"
}

flavor() { # flavor <name> <description> <part…>: with three, two and one subnets
  with_subnets "$1" "$2" none "${@:3}"
  with_subnets "$1-two-subnets" "$2 With two subnets in place of three." C "${@:3}"
  with_subnets "$1-one-subnet" "$2 With one subnet in place of three." '[BC]' "${@:3}"
}

flavor_without_subnets() { # flavor_without_subnets <name> <description> <part…>: its subnets are named elsewhere
  with_subnets "$1" "$2" none "${@:3}"
}

with_subnets() { # with_subnets <name> <description> <letters of subnets to leave out> <part…>
  local name="$1" description="$2" separator="" objects part
  objects="$(mktemp)"
  for part in "${@:4}"; do
    [[ "$part" == +* ]] || printf '%s' "$separator"
    grep -v "[$]{AWS_SUBNET_ID_$3}" "$parts/${part#+}.yaml"
    separator=$'---\n'
  done >"$objects"
  {
    comment '# ' '# ' <<<"$description"
    comment '# ' '#   ' <<<"Required variables: $(variables '[$][{][A-Z0-9_]+[}]' "$objects")"
    comment '# ' '#   ' <<<"Variables with a default: $(variables '[$][{][A-Z0-9_]+:=' "$objects")"
    echo "# docs/templates.md explains the variables. Generated from templates/parts by \`make generate\`."
    cat "$objects"
  } >"$folder/cluster-template-$name.yaml"
  rm "$objects"
}

flavor_without_subnets managed "A kubeadm cluster on a network that is created for it and deleted with it: a VPC with \
subnets in three zones, gateways, security groups and a network load balancer." \
  cluster +cluster-on-aws-cluster aws-cluster-managed control-plane workers
flavor_without_subnets managed-clusterclass "The flavor managed as a Cluster of the ClusterClass in \
clusterclass-managed.yaml. clusterctl adds the ClusterClass where it is missing. Install Cluster API with \
CLUSTER_TOPOLOGY=true." \
  cluster-of-managed-class
flavor unmanaged "A kubeadm cluster on infrastructure that you bring: three subnets, best in three zones, and a target \
group in which the control plane machines are registered." \
  cluster +cluster-on-aws-cluster aws-cluster +aws-cluster-targets +aws-cluster-network control-plane workers
flavor unmanaged-external-endpoint "A kubeadm cluster on infrastructure that you bring, whose endpoint needs no \
registration: a DNS name, kube-vip, or a load balancer that finds its targets itself." \
  cluster +cluster-on-aws-cluster aws-cluster +aws-cluster-network control-plane workers
flavor unmanaged-machine-health-check "The flavor unmanaged with MachineHealthChecks, which replace a machine whose \
node does not come up or stops being ready." \
  cluster +cluster-on-aws-cluster aws-cluster +aws-cluster-targets +aws-cluster-network control-plane workers \
  machine-health-checks
flavor unmanaged-clusterclass "The flavor unmanaged as a Cluster of the ClusterClass in clusterclass-unmanaged.yaml. \
clusterctl adds the ClusterClass where it is missing. Install Cluster API with CLUSTER_TOPOLOGY=true." \
  cluster-of-class
flavor unmanaged-external-control-plane "Workers on infrastructure that you bring, for a control plane that another \
provider runs elsewhere. You create the control plane object." \
  cluster-external-control-plane workers
flavor_without_subnets unmanaged-discovery "A kubeadm cluster on infrastructure that you bring, whose VPC, subnets, \
security groups and target group are found by their tags." \
  cluster +cluster-on-aws-cluster aws-cluster +aws-cluster-discovery control-plane workers
flavor no-infrastructure-object "A kubeadm cluster without an infrastructure object: a ConfigMap has the network." \
  cluster +cluster-endpoint network-config-map control-plane +machine-targets +machine-network-config-map \
  workers +machine-network-config-map
flavor_without_subnets terraform "A kubeadm cluster on a network whose Terraform outputs are in a Secret. You create \
the infrastructure object, which may be of any kind." \
  cluster +cluster-on-foreign-kind control-plane +machine-targets +machine-network-secret \
  workers +machine-network-secret
flavor_without_subnets crossplane "A kubeadm cluster on a network that Crossplane makes from a composite. An \
administrator first installs its definition, its Composition and an AWSNetworkMapping." \
  cluster +cluster-on-composite composite control-plane +machine-public-ip workers +machine-public-ip
flavor_without_subnets ack "A kubeadm cluster on a network of VPC, Subnet and SecurityGroup objects of AWS \
Controllers for Kubernetes. It has no infrastructure object." \
  cluster +cluster-endpoint control-plane +machine-targets +machine-network-ack +machine-network-ack-control-plane \
  workers +machine-network-ack
flavor_without_subnets managed-by "A kubeadm cluster on an AWSCluster whose network another controller makes, which \
also writes the status of the AWSCluster." \
  cluster +cluster-on-aws-cluster aws-cluster-managed-by control-plane workers
# `clusterctl generate cluster` without --flavor takes this one.
cp "$folder/cluster-template-managed.yaml" "$folder/cluster-template.yaml"
