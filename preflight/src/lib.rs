//! Checks of infrastructure in AWS: [`facts`] are gathered once, and [`rules()`] are pure functions over them. The
//! controller and the command line use the same facts and the same rules. [`requirements`](mod@requirements) lists what
//! the rules demand, before there are facts. [`member`] has its own facts and rules, about an API server that is to be
//! a member of a fleet engine.

pub mod facts;
mod lookup;
pub mod member;
mod reach;
mod redact;
mod report;
pub mod requirements;
mod rule;
mod rules;
#[cfg(test)]
mod testing;
mod topology;
mod traffic_text;

use async_trait::async_trait;
use capa_cloud::Answers;

pub use redact::redact;
pub use report::{Finding, Outcome, Report, RuleAnswer, Selection, apply, check};
pub use requirements::{Requirements, requirements};
pub use rule::{Category, Checked, Problem, Rule, ShownBy, Skipped};
pub use rules::{rule, rules};
pub use topology::{dot, mermaid, svg};

/// Gathers facts with the credentials of one identity in one region.
#[async_trait]
pub trait FactsSource: Send + Sync {
    /// All facts about the demand. If a call fails, its fact contains the failure. `known` are the answers of AWS that
    /// the caller has got just before, with the same credentials in the same region. These reads are not made again.
    async fn facts(&self, demand: &facts::Demand, known: &Answers) -> facts::Facts;
}

/// A source that returns saved facts for every demand.
pub struct SavedFacts(pub facts::Facts);

#[async_trait]
impl FactsSource for SavedFacts {
    async fn facts(&self, _: &facts::Demand, _: &Answers) -> facts::Facts {
        self.0.clone()
    }
}
