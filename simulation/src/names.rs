//! The names of the objects of a history.

/// The namespace of everything.
pub(crate) const NAMESPACE: &str = "team-a";
/// Where Secrets of static identities would be.
pub(crate) const IDENTITY_NAMESPACE: &str = "capa-rs-system";
/// Name of the Cluster and of its AWSCluster.
pub(crate) const CLUSTER: &str = "dev";
/// Keeps a Machine until its infrastructure is gone.
pub(crate) const CORE_FINALIZER: &str = "machine.cluster.x-k8s.io";

/// Name of the machine with a number.
pub(crate) fn machine_name(number: usize) -> String {
    format!("m{number}")
}

/// The number of a machine; none for a name that is no machine's.
pub(crate) fn machine_number(name: &str) -> Option<usize> {
    name.strip_prefix('m')?.parse().ok()
}

/// Name of an AWSMachine that is no machine's: a copy of the one with this number, or a forged one.
pub(crate) fn impostor_name(number: usize) -> String {
    format!("impostor-{number}")
}

/// Whether an AWSMachine is a copied or a forged one.
pub(crate) fn is_impostor(name: &str) -> bool {
    name.starts_with("impostor-")
}

/// Whether a machine is of the control plane: every other one is, beginning with the first.
pub(crate) fn is_control_plane(machine: &str) -> bool {
    machine.ends_with(['0', '2', '4', '6', '8'])
}

/// Name of the Secret with a machine's bootstrap data.
pub(crate) fn secret_name(machine: &str) -> String {
    format!("boot-{machine}")
}

/// A machine as the tag of its instance names it.
pub(crate) fn machine_key(name: &str) -> String {
    format!("{NAMESPACE}/{name}")
}
