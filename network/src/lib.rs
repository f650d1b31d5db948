//! From network sources to a placement: merge, trust, subnet choice. Pure.
