//! Runs work that recurses as deeply as a text is nested, without a stack overflow in other threads.

use std::thread;

/// The stack of the thread in bytes: enough for the deepest text that the limits of expressions allow.
const STACK: usize = 64 << 20;

/// Runs `work` on a thread with a large stack. `None` if the thread cannot be started or `work` panics.
pub(crate) fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_work_is_no_panic_of_the_caller() {
        assert_eq!(on_deep_stack(|| 1), Some(1));
        let panics: Option<()> = on_deep_stack(|| panic!("a bug in the parser"));
        assert_eq!(panics, None);
    }
}
