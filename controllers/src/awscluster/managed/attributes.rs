//! Attributes of load balancers and target groups: AWS's names, with texts as values. Pure.

use std::collections::BTreeMap;

use super::plan::Why;

/// The attributes that differ from the wanted ones, with the first of them.
pub(super) fn differing(
    shown: Option<&BTreeMap<String, String>>,
    mut wanted: BTreeMap<&'static str, String>,
) -> Option<(BTreeMap<&'static str, String>, Why)> {
    let shown = shown?;
    wanted.retain(|name, value| shown.get(*name) != Some(value));
    let (field, value) = wanted.first_key_value()?;
    let why = Why::Differs { field, is: shown.get(*field).cloned().unwrap_or_default(), wanted: value.clone() };
    Some((wanted, why))
}
