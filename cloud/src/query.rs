//! The filters of a describe call.

/// The filters of a describe call, all of which must match. Ids are filters too: an unknown id in a filter is left out
/// of the answer, whereas EC2 refuses a whole call because of one unknown id parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// Names of filters with their values, one of which must match.
    pub filters: Vec<(String, Vec<String>)>,
}

impl Query {
    /// A query with the filter `name`, which matches any of `values`.
    pub fn filter<V: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::default().and(name, values)
    }

    /// This query with one more filter.
    #[must_use]
    pub fn and<V: Into<String>>(mut self, name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        self.filters.push((name.into(), values.into_iter().map(Into::into).collect()));
        self
    }
}
