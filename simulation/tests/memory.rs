//! The memory of a manager after all objects are gone.

use capa_simulation::soak;

const ROUNDS: usize = 5;
const MACHINES: usize = 20;

#[test]
fn nothing_is_kept_of_what_is_gone() {
    let soak = soak::run(ROUNDS, MACHINES, 20);
    assert_eq!(soak.violation, None);
    // Of every five machines two run: the others lack an image, capacity and bootstrap data.
    assert_eq!(soak.launched, ROUNDS * MACHINES * 2 / 5);
    // Three zones for each of the clusters of the last hour, of which each was there for twenty minutes.
    let shortages = 3 * 4;
    for (part, entries) in &soak.left {
        let bound = if *part == "shortages" { shortages } else { 0 };
        assert!(*entries <= bound, "{part}: {:?}", soak.left);
    }
    for (part, first) in &soak.most[0] {
        assert!(*first > 0, "{part} were not used at all: {:?}", soak.most);
        // Back-off is random, so that rounds differ a little.
        let bound = if *part == "shortages" { shortages } else { first + first / 5 + 2 };
        for later in &soak.most {
            assert!(later[part] <= bound, "{part} grow from round to round: {:?}", soak.most);
        }
    }
}
