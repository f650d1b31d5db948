//! Instance types.

use capa_cloud::{CloudError, InstanceType};

use super::Ec2;

impl Ec2 {
    /// Adds an instance type, or replaces the one with the same name.
    pub(crate) fn put_instance_type(&mut self, instance_type: InstanceType) {
        self.instance_types.insert(instance_type.name.clone(), instance_type);
    }

    /// DescribeInstanceTypes with the name of one as the filter.
    pub(crate) fn describe_instance_type(&self, name: &str) -> Result<InstanceType, CloudError> {
        let known = self.instance_types.get(name).cloned();
        known.ok_or_else(|| CloudError::not_found("DescribeInstanceTypes", format!("there is no instance type {name}")))
    }
}
