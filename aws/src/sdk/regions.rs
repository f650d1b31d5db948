//! The regions in which AWS has answered. Users name regions, and a well-formed name need not be a region. The
//! endpoints of such a name have no address, so they never answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Maximum number of remembered regions. AWS has less than half as many. If one endpoint answers for every region name,
/// the limit keeps users from filling the memory.
const MAX_REGIONS: usize = 100;

/// The label of all regions in which AWS has not answered.
pub(crate) const UNANSWERED: &str = "unanswered";

/// The regions in which AWS has answered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnsweringRegions(Arc<Mutex<BTreeSet<String>>>);

impl AnsweringRegions {
    /// Records that AWS has answered in this region, whatever the answer is.
    pub(crate) fn answered(&self, region: &str) {
        let mut regions = self.0.lock();
        if regions.len() < MAX_REGIONS && !regions.contains(region) {
            regions.insert(region.to_owned());
        }
    }

    /// Whether AWS has answered in this region.
    fn has_answered(&self, region: &str) -> bool {
        self.0.lock().contains(region)
    }

    /// The region's label in metrics. All regions in which AWS has not answered share one series.
    pub(crate) fn label(&self, region: &str) -> String {
        let label = if self.has_answered(region) { region } else { UNANSWERED };
        label.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_without_an_answer_share_one_label() {
        let regions = AnsweringRegions::default();
        assert_eq!(regions.label("xx-north-1"), UNANSWERED);
        regions.answered("eu-west-1");
        assert_eq!(regions.label("eu-west-1"), "eu-west-1");
        assert_eq!(regions.label("xx-north-1"), UNANSWERED);
    }

    #[test]
    fn answering_regions_are_bounded() {
        let regions = AnsweringRegions::default();
        for number in 0..10_000 {
            regions.answered(&format!("xx-north-{number}"));
        }
        let labels: BTreeSet<String> = (0..10_000).map(|number| regions.label(&format!("xx-north-{number}"))).collect();
        assert_eq!(labels.len(), MAX_REGIONS + 1);
    }
}
