//! docs/fleet.md against the conditions that `capa-rs fleet` writes.

use capa_fleet::{ConditionType, Reason};
use strum::VariantArray as _;

use crate::read;

#[test]
fn the_page_has_each_condition_and_reason() {
    let page = read("docs/fleet.md");
    let types = ConditionType::VARIANTS.iter().map(ToString::to_string);
    let reasons = Reason::VARIANTS.iter().map(ToString::to_string);
    for word in types.chain(reasons) {
        assert!(page.contains(&format!("`{word}`")), "docs/fleet.md lacks {word}");
    }
}
