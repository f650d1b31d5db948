//! The list of requirements while it is built.

use super::object::Object;
use super::requirement::Requirement;
use super::sentence::sentence;
use super::wanted::Wanted;
use crate::rule::Category;

/// Requirements in the order in which they are added.
#[derive(Default)]
pub(super) struct List(Vec<Requirement>);

impl List {
    /// Adds a requirement for an object. The rules belong to `category`.
    pub(super) fn add(&mut self, category: Category, rules: &[&'static str], object: &Object, wanted: Wanted) {
        self.0.push(Requirement {
            category,
            rules: rules.to_vec(),
            sentence: sentence(object, &wanted),
            object: object.clone(),
            wanted,
        });
    }

    /// The requirements, ordered by category.
    pub(super) fn into_requirements(mut self) -> Vec<Requirement> {
        self.0.sort_by_key(|requirement| requirement.category);
        self.0
    }
}
