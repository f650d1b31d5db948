//! Guards against a listing in which many instances are missing at once. A changed identity or endpoint causes such a
//! listing, and must not make the instances count as gone.

/// Number of listings in a row after which their missing instances count as gone.
const AGREEING: u32 = 3;

/// The number of instances that a listing should have shown, and the number of missing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Instances that are known to live, or that machines name.
    pub known: usize,
    /// The instances among them that the listing did not show.
    pub lost: usize,
}

impl Loss {
    /// Whether more than a fifth and more than five of the instances are missing. A single listing with such a loss is
    /// not trusted.
    fn is_too_much(self) -> bool {
        self.lost > 5 && self.lost * 5 > self.known
    }
}

/// Whether a listing proves that instances are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingTrust {
    /// Instances that the listing did not show count as missed.
    Believed,
    /// The listing proves nothing about the instances that it did not show.
    Doubted,
}

/// Decides whether a listing with many missing instances is trusted.
#[derive(Default)]
pub(super) struct DisappearanceGuard {
    /// Number of listings in a row with too many missing instances.
    listings: u32,
}

impl DisappearanceGuard {
    /// Whether the last listing was not trusted.
    pub(super) fn is_active(&self) -> bool {
        (1..AGREEING).contains(&self.listings)
    }

    /// Records a complete listing.
    pub(super) fn listed(&mut self, loss: Loss) -> ListingTrust {
        if !loss.is_too_much() {
            self.listings = 0;
            return ListingTrust::Believed;
        }
        self.listings = (self.listings + 1).min(AGREEING);
        if self.is_active() { ListingTrust::Doubted } else { ListingTrust::Believed }
    }
}
