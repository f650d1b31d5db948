// Package upstream runs the end-to-end specs that Cluster API publishes for infrastructure providers, unchanged,
// against this provider. docs/contributing/upstream.md lists the specs, and says what they run on.
package upstream

import (
	"context"
	"flag"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
)

// The flags have the names that they have in Cluster API's own suite.
var (
	configPath           string
	clusterctlConfigPath string
	artifactFolder       string
)

var (
	ctx = context.Background()

	e2eConfig *clusterctl.E2EConfig

	// The management cluster that KUBECONFIG names. The providers run there already.
	managementCluster framework.ClusterProxy
)

func init() {
	flag.StringVar(&configPath, "e2e.config", "config.yaml",
		"file with the variables and intervals of the specs")
	flag.StringVar(&clusterctlConfigPath, "e2e.clusterctl-config", "",
		"configuration of clusterctl that names the repositories of all providers")
	flag.StringVar(&artifactFolder, "e2e.artifacts-folder", "",
		"folder for the objects and events of each spec")
}

func TestUpstream(t *testing.T) {
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	RunSpecs(t, "Cluster API's specs")
}

var _ = BeforeSuite(func() {
	Expect(clusterctlConfigPath).To(BeAnExistingFile(), "-e2e.clusterctl-config has to name a file")
	Expect(os.MkdirAll(artifactFolder, 0o755)).To(Succeed(), "-e2e.artifacts-folder has to name a folder")
	e2eConfig = clusterctl.LoadE2EConfig(ctx, clusterctl.LoadE2EConfigInput{ConfigPath: configPath})
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	managementCluster = framework.NewClusterProxy("management", os.Getenv("KUBECONFIG"), scheme)
})
