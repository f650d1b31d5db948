//! The regions in which AWS has answered. Users name regions, and a name of the right form need not be a region: its
//! endpoints have no address then, so nobody answers there.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The most regions that are remembered. AWS has less than half as many; where one endpoint answers for every name of a
/// region, the bound keeps users from filling the memory.
const MOST: usize = 100;

/// The label of every region in which nobody has answered.
pub(crate) const UNANSWERED: &str = "unanswered";

/// The regions in which AWS has answered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnsweringRegions(Arc<Mutex<BTreeSet<String>>>);

impl AnsweringRegions {
    /// AWS has answered in this region, with whatever answer.
    pub(crate) fn answered(&self, region: &str) {
        let mut regions = self.0.lock();
        if regions.len() < MOST && !regions.contains(region) {
            regions.insert(region.to_owned());
        }
    }

    /// Whether AWS has answered in this region.
    fn has_answered(&self, region: &str) -> bool {
        self.0.lock().contains(region)
    }

    /// The region as metrics name it: all those in which nobody has answered are one series.
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
        let labels: BTreeSet<String> = (0..10_000)
            .map(|number| regions.label(&format!("xx-north-{number}")))
            .collect();
        assert_eq!(labels.len(), MOST + 1);
    }
}
