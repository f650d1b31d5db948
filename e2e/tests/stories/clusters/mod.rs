//! Whole clusters: nodes that join, scale, roll, heal and go away.

mod growth;
mod whole;
