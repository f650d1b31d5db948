//! The labels, properties and other names that users and fleet engines see.

/// Default of `spec.clusterManager.name` of the ClusterProfiles that this process writes.
pub const CLUSTER_MANAGER: &str = "capa-rs";

/// Label of a ClusterProfile with the name of its cluster manager. Source: the API of ClusterProfile.
pub const CLUSTER_MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";

/// Property with the id of the cluster: the UID of its namespace `kube-system`, as KEP-2149 recommends.
pub const CLUSTER_ID_PROPERTY: &str = "cluster.clusterset.k8s.io";

/// Property with the provider of the cluster's infrastructure, for example `aws`.
pub const PROVIDER_PROPERTY: &str = "fleet.infrastructure.cluster.x-k8s.io/provider";

/// Property with the region of the cluster.
pub const REGION_PROPERTY: &str = "fleet.infrastructure.cluster.x-k8s.io/region";

/// Property with the sorted failure domains of the cluster, separated by commas.
pub const ZONES_PROPERTY: &str = "fleet.infrastructure.cluster.x-k8s.io/zones";

/// Property with the number of nodes that are ready and accept pods.
pub const READY_NODES_PROPERTY: &str = "fleet.infrastructure.cluster.x-k8s.io/ready-nodes";

/// Property with the CPU that these nodes have for pods, as a Kubernetes quantity.
pub const ALLOCATABLE_CPU_PROPERTY: &str = "fleet.infrastructure.cluster.x-k8s.io/allocatable-cpu";

/// Property with the memory that these nodes have for pods, as a Kubernetes quantity.
pub const ALLOCATABLE_MEMORY_PROPERTY: &str = "fleet.infrastructure.cluster.x-k8s.io/allocatable-memory";

/// Label of a Cluster that makes it a member of a Karmada. The value is the name of the Secret with the Karmada's
/// kubeconfig in the namespace of this process.
pub const KARMADA_LABEL: &str = "fleet.infrastructure.cluster.x-k8s.io/karmada";

/// Annotation of a Cluster. While it is present, the workloads of the Karmada move to other members.
pub const DRAIN_ANNOTATION: &str = "fleet.infrastructure.cluster.x-k8s.io/drain";

/// Annotation of a Cluster with its name as a member of a Karmada. Default: `<namespace>-<name>`.
pub const MEMBER_NAME_ANNOTATION: &str = "fleet.infrastructure.cluster.x-k8s.io/member-name";

/// Annotation of a Cluster that determines how it leaves its Karmada; [`FORCE`] is the only value.
pub const UNJOIN_ANNOTATION: &str = "fleet.infrastructure.cluster.x-k8s.io/unjoin";

/// Value of [`UNJOIN_ANNOTATION`]: the cluster leaves immediately, and its workloads end.
pub const FORCE: &str = "force";

/// Annotation of a Cluster in which this process records the membership as JSON before the Cluster joins.
pub const MEMBERSHIP_ANNOTATION: &str = "fleet.infrastructure.cluster.x-k8s.io/karmada-membership";

/// Finalizer of a Cluster that is a member of a Karmada.
pub const MEMBERSHIP_FINALIZER: &str = "fleet.infrastructure.cluster.x-k8s.io/karmada";

/// Annotation of the Secret with the kubeconfig of a Karmada: the namespaces whose Clusters may join, separated by
/// commas, or `*`.
pub const ALLOWED_NAMESPACES_ANNOTATION: &str = "fleet.infrastructure.cluster.x-k8s.io/allowed-namespaces";

/// Key of the taint of a member that is being drained. Its effect is `NoExecute`.
pub const DRAIN_TAINT: &str = "fleet.infrastructure.cluster.x-k8s.io/draining";

/// The field manager of server-side apply.
pub(crate) const FIELD_MANAGER: &str = "capa-rs-fleet";
