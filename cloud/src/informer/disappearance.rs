//! DisappearanceGuard about a listing that loses much at once: a changed identity or endpoint must never look like a
//! dead fleet.

/// Listings that must agree before what they lost is believed to be gone.
const AGREEING: u32 = 3;

/// How many instances a listing should have shown, and how many of them it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Instances that live as far as is known, or that machines say they have.
    pub known: usize,
    /// Those of them that the listing did not show.
    pub lost: usize,
}

impl Loss {
    /// More than a fifth of all and more than five: too much to be believed of one listing.
    fn is_too_much(self) -> bool {
        self.lost > 5 && self.lost * 5 > self.known
    }
}

/// Whether a listing proves that instances are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingTrust {
    /// What it did not show is missed.
    Believed,
    /// It says nothing against what it did not show.
    Doubted,
}

/// Decides whether a listing is believed that lost many instances at once.
#[derive(Default)]
pub(super) struct DisappearanceGuard {
    /// Listings in a row that lost so much; none while there is no doubt.
    listings: u32,
}

impl DisappearanceGuard {
    pub(super) fn is_cast(&self) -> bool {
        (1..AGREEING).contains(&self.listings)
    }

    pub(super) fn listed(&mut self, loss: Loss) -> ListingTrust {
        if !loss.is_too_much() {
            self.listings = 0;
            return ListingTrust::Believed;
        }
        self.listings = (self.listings + 1).min(AGREEING);
        if self.is_cast() {
            ListingTrust::Doubted
        } else {
            ListingTrust::Believed
        }
    }
}
