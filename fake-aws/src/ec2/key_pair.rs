//! Key pairs.

use super::Ec2;

impl Ec2 {
    pub(crate) fn put_key_pair(&mut self, name: &str) {
        self.key_pairs.insert(name.to_owned());
    }

    pub(crate) fn has_key_pair(&self, name: &str) -> bool {
        self.key_pairs.contains(name)
    }
}
