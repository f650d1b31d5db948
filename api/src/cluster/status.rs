//! Status of an AWSCluster.
