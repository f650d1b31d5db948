package upstream

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	capie2e "sigs.k8s.io/cluster-api/test/e2e"
)

// deletionPhases are the phases in which Cluster API deletes the objects of a cluster: its workers, its control plane,
// and then its infrastructure.
var deletionPhases = []capie2e.ClusterDeletionPhase{
	{
		ObjectFilter: func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			isWorker := object.Kind == "Machine" && (isOwnedBy(owners, "MachineDeployment") || isOwnedBy(owners, "MachineSet"))
			return isWorker || object.Kind == "MachineDeployment" || object.Kind == "MachineSet"
		},
		BlockingObjectFilter: isMachine,
	},
	{
		ObjectFilter: func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			isControlPlane := object.Kind == "Machine" && isOwnedBy(owners, "KubeadmControlPlane")
			return isControlPlane || object.Kind == "KubeadmControlPlane"
		},
		BlockingObjectFilter: isMachine,
	},
	{
		ObjectFilter:         isAWSCluster,
		BlockingObjectFilter: isAWSCluster,
	},
}

func isMachine(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
	return object.Kind == "Machine"
}

func isAWSCluster(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
	return object.Kind == awsCluster
}

func isOwnedBy(owners []metav1.OwnerReference, kind string) bool {
	return slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind == kind })
}
