//! stub
use super::requirement::Requirements;
/// t
pub fn terraform(_: &Requirements) -> String {
    String::new()
}
