package upstream

import (
	. "github.com/onsi/ginkgo/v2"
	"k8s.io/utils/ptr"

	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	capie2e "sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
)

// Flavors of templates: the first two are released with this provider, the others stand in data/.
const (
	flavorUnmanaged      = "unmanaged"
	flavorTopology       = "unmanaged-clusterclass"
	flavorNoWorkers      = "topology-no-workers"
	flavorTopologyTaints = "topology-taints"
	flavorUpgrade        = "topology-upgrade"
	flavorScaleIn        = "topology-scale-in"
	flavorTaints         = "kcp-md-taints"
	flavorRemediation    = "md-remediation"
	flavorAdoption       = "kcp-adoption"
	flavorScale          = "topology-scale"
)

// Each container has a label of its own, by which `make test-upstream` runs it in a management cluster of its own.

var _ = Describe("When following the quick start", Label("quick-start"), func() {
	capie2e.QuickStartSpec(ctx, func() capie2e.QuickStartSpecInput {
		input := quickStart()
		input.Flavor = ptr.To(flavorUnmanaged)
		input.PostMachinesProvisioned = isResilient(false, framework.CoreFinalizersAssertionWithLegacyClusters)
		return input
	})
})

var _ = Describe("When following the quick start with a ClusterClass", Label("quick-start-topology"), func() {
	capie2e.QuickStartSpec(ctx, func() capie2e.QuickStartSpecInput {
		input := quickStart()
		input.Flavor = ptr.To(flavorTopology)
		input.PostMachinesProvisioned = isResilient(true, framework.CoreFinalizersAssertionWithClassyClusters)
		return input
	})
})

var _ = Describe("When following the quick start with a ClusterClass without workers", Label("quick-start-no-workers"), func() {
	capie2e.QuickStartSpec(ctx, func() capie2e.QuickStartSpecInput {
		input := quickStart()
		input.Flavor = ptr.To(flavorNoWorkers)
		input.WorkerMachineCount = ptr.To[int64](0)
		return input
	})
})

func quickStart() capie2e.QuickStartSpecInput {
	return capie2e.QuickStartSpecInput{
		E2EConfig:             e2eConfig,
		ClusterctlConfigPath:  clusterctlConfigPath,
		BootstrapClusterProxy: managementCluster,
		ArtifactFolder:        artifactFolder,
	}
}

// isResilient checks, as Cluster API's own quick start does, that lost owner references and finalizers come back, that
// owner references with another API version are corrected, and that no object changes without a reason.
func isResilient(topologyManaged bool, coreFinalizers finalizerAssertions) func(framework.ClusterProxy, string, string) {
	return func(proxy framework.ClusterProxy, namespace, clusterName string) {
		ofCluster := clusterctlcluster.FilterClusterObjectsWithNameFilter(clusterName)
		owners := []ownerAssertions{
			framework.CoreOwnerReferenceAssertion,
			framework.ExpOwnerReferenceAssertions,
			awsOwnerReferenceAssertions(topologyManaged),
			framework.KubeadmBootstrapOwnerReferenceAssertions,
			framework.KubeadmControlPlaneOwnerReferenceAssertions(topologyManaged),
			framework.KubernetesReferenceAssertions,
		}
		By("Checking that owner references are resilient")
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, clusterName, ofCluster, owners...)
		By("Checking that owner references are updated to the correct API version")
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, clusterName, ofCluster, owners...)
		By("Checking that finalizers are resilient")
		framework.ValidateFinalizersResilience(ctx, proxy, namespace, clusterName, ofCluster,
			coreFinalizers,
			framework.KubeadmControlPlaneFinalizersAssertion,
			framework.ExpFinalizersAssertion,
			awsFinalizersAssertion,
		)
		By("Checking that resourceVersions are stable")
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy:             proxy,
			Namespace:                namespace,
			OwnerGraphFilterFunction: ofCluster,
			WaitToBecomeStable:       e2eConfig.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
			WaitToRemainStable:       e2eConfig.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
		})
	}
}

var _ = Describe("When scaling a MachineDeployment out and in", Label("md-scale"), func() {
	capie2e.MachineDeploymentScaleSpec(ctx, func() capie2e.MachineDeploymentScaleSpecInput {
		return capie2e.MachineDeploymentScaleSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                flavorUnmanaged,
		}
	})
})

var _ = Describe("When rolling a control plane and a MachineDeployment out", Label("kcp-md-rollout"), func() {
	capie2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() capie2e.KCPAndMachineDeploymentRolloutSpecInput {
		return capie2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                flavorTaints,
		}
	})
})

var _ = Describe("When remediating a MachineDeployment", Label("md-remediation"), func() {
	capie2e.MachineDeploymentRemediationSpec(ctx, func() capie2e.MachineDeploymentRemediationSpecInput {
		return capie2e.MachineDeploymentRemediationSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                ptr.To(flavorRemediation),
		}
	})
})

var _ = Describe("When deleting a cluster", Label("cluster-deletion"), func() {
	capie2e.ClusterDeletionSpec(ctx, func() capie2e.ClusterDeletionSpecInput {
		return capie2e.ClusterDeletionSpecInput{
			E2EConfig:                e2eConfig,
			ClusterctlConfigPath:     clusterctlConfigPath,
			BootstrapClusterProxy:    managementCluster,
			ArtifactFolder:           artifactFolder,
			ControlPlaneMachineCount: ptr.To[int64](3),
			Flavor:                   ptr.To(flavorTopology),
			ClusterDeletionPhases:    deletionPhases,
		}
	})
})

var _ = Describe("When changing a ClusterClass", Label("clusterclass-changes"), func() {
	capie2e.ClusterClassChangesSpec(ctx, func() capie2e.ClusterClassChangesSpecInput {
		return capie2e.ClusterClassChangesSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                flavorTopology,
			ModifyControlPlaneFields: map[string]interface{}{
				"spec.kubeadmConfigSpec.verbosity": int64(4),
			},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]interface{}{
				"spec.template.spec.verbosity": int64(4),
			},
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]interface{}{
				"spec.template.spec.rootVolume.size": int64(40),
			},
		}
	})
})

var _ = Describe("When rolling a ClusterClass out", Label("clusterclass-rollout"), func() {
	capie2e.ClusterClassRolloutSpec(ctx, func() capie2e.ClusterClassRolloutSpecInput {
		return capie2e.ClusterClassRolloutSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                flavorTopologyTaints,
		}
	})
})

var _ = Describe("When upgrading a cluster", Label("upgrade"), func() {
	capie2e.ClusterUpgradeConformanceSpec(ctx, func() capie2e.ClusterUpgradeConformanceSpecInput {
		return upgrade(1, 2, flavorUpgrade)
	})
})

func upgrade(controlPlane, workers int64, flavor string) capie2e.ClusterUpgradeConformanceSpecInput {
	return capie2e.ClusterUpgradeConformanceSpecInput{
		E2EConfig:                e2eConfig,
		ClusterctlConfigPath:     clusterctlConfigPath,
		BootstrapClusterProxy:    managementCluster,
		ArtifactFolder:           artifactFolder,
		SkipConformanceTests:     true,
		ControlPlaneMachineCount: ptr.To(controlPlane),
		WorkerMachineCount:       ptr.To(workers),
		Flavor:                   ptr.To(flavor),
	}
}

var _ = Describe("When upgrading a cluster with three control plane machines", Label("upgrade-ha"), func() {
	capie2e.ClusterUpgradeConformanceSpec(ctx, func() capie2e.ClusterUpgradeConformanceSpecInput {
		return upgrade(3, 1, flavorUpgrade)
	})
})

var _ = Describe("When upgrading a cluster with three control plane machines by scaling in", Label("upgrade-scale-in"), func() {
	capie2e.ClusterUpgradeConformanceSpec(ctx, func() capie2e.ClusterUpgradeConformanceSpecInput {
		return upgrade(3, 1, flavorScaleIn)
	})
})

var _ = Describe("When a control plane adopts machines", Label("kcp-adoption"), func() {
	capie2e.KCPAdoptionSpec(ctx, func() capie2e.KCPAdoptionSpecInput {
		return capie2e.KCPAdoptionSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                ptr.To(flavorAdoption),
		}
	})
})

var _ = Describe("When a control plane adopts orphaned infrastructure", Label("kcp-infra-adoption"), func() {
	capie2e.KCPInfraAdoptionSpec(ctx, func() capie2e.KCPInfraAdoptionSpecInput {
		return capie2e.KCPInfraAdoptionSpecInput{
			E2EConfig:             e2eConfig,
			ClusterctlConfigPath:  clusterctlConfigPath,
			BootstrapClusterProxy: managementCluster,
			ArtifactFolder:        artifactFolder,
			Flavor:                ptr.To(flavorTopology),
		}
	})
})

var _ = Describe("When creating many clusters", Label("scale"), func() {
	capie2e.ScaleSpec(ctx, func() capie2e.ScaleSpecInput {
		return capie2e.ScaleSpecInput{
			E2EConfig:                       e2eConfig,
			ClusterctlConfigPath:            clusterctlConfigPath,
			BootstrapClusterProxy:           managementCluster,
			ArtifactFolder:                  artifactFolder,
			Flavor:                          ptr.To(flavorScale),
			ClusterCount:                    ptr.To[int64](10),
			Concurrency:                     ptr.To[int64](5),
			ControlPlaneMachineCount:        ptr.To[int64](1),
			MachineDeploymentCount:          ptr.To[int64](1),
			WorkerPerMachineDeploymentCount: ptr.To[int64](3),
		}
	})
})
