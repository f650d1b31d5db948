package upstream

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
)

// The kinds of this provider.
const (
	awsCluster         = "AWSCluster"
	awsClusterTemplate = "AWSClusterTemplate"
	awsMachine         = "AWSMachine"
	awsMachineTemplate = "AWSMachineTemplate"
)

type ownerAssertions = map[string]func(types.NamespacedName, []metav1.OwnerReference) error

type finalizerAssertions = map[string]func(types.NamespacedName) []string

// awsOwnerReferenceAssertions says of this provider's kinds what framework.DevInfraOwnerReferenceAssertions says of
// those of Cluster API's development provider.
func awsOwnerReferenceAssertions(topologyManaged bool) ownerAssertions {
	cluster := owner("Cluster")
	class := owner("ClusterClass")
	ofCluster := cluster
	if topologyManaged {
		ofCluster = controller("Cluster")
	}
	return ownerAssertions{
		awsMachine: func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasExactOwners(owners, controller("Machine"))
		},
		awsMachineTemplate: func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			// A template of a ClusterClass belongs to the class. The topology controller makes others from it.
			return framework.HasOneOfExactOwners(owners, []metav1.OwnerReference{cluster}, []metav1.OwnerReference{class})
		},
		awsCluster: func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasExactOwners(owners, ofCluster)
		},
		awsClusterTemplate: func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasExactOwners(owners, class)
		},
	}
}

// awsFinalizersAssertion names the finalizers of this provider's kinds. An unmanaged AWSCluster has one while its Cluster
// has machines.
var awsFinalizersAssertion = finalizerAssertions{
	awsCluster: func(types.NamespacedName) []string {
		return []string{"awscluster.infrastructure.cluster.x-k8s.io"}
	},
	awsMachine: func(types.NamespacedName) []string {
		return []string{"awsmachine.infrastructure.cluster.x-k8s.io"}
	},
}

func owner(kind string) metav1.OwnerReference {
	return metav1.OwnerReference{Kind: kind, APIVersion: clusterv1.GroupVersion.String()}
}

func controller(kind string) metav1.OwnerReference {
	reference := owner(kind)
	reference.Controller = ptr.To(true)
	return reference
}
