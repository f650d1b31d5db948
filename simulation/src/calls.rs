//! The way of a call out of a process: the future of a pass hands a call to the scheduler, and waits until the
//! scheduler answers.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::aws::View;
use crate::outside::Outside;

/// Whom a call goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Aws,
    Kubernetes,
    /// Nobody: the answer comes after so long, and nothing goes wrong.
    Clock(Duration),
}

/// The kind of a call, as far as the scheduler needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) service: Service,
    pub(crate) name: &'static str,
    pub(crate) writes: bool,
}

impl Action {
    pub(crate) const fn aws(name: &'static str, writes: bool) -> Self {
        Self { service: Service::Aws, name, writes }
    }

    /// Whether it asks EC2 for an instance.
    pub(crate) fn is_launch(self) -> bool {
        self.service == Service::Aws && self.name == "RunInstances"
    }

    pub(crate) const fn kubernetes(name: &'static str, writes: bool) -> Self {
        Self { service: Service::Kubernetes, name, writes }
    }
}

/// The effect of a call when it reaches its service. Returns the answer.
pub(crate) type Effect = Box<dyn FnOnce(&mut Outside, View) -> Box<dyn Any + Send> + Send>;

/// A call on its way.
pub(crate) struct Call {
    pub(crate) id: u64,
    pub(crate) action: Action,
    /// The subject of the call, for the trace.
    pub(crate) about: String,
    pub(crate) effect: Effect,
}

/// Why a call has no answer of its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// None came in time.
    NoAnswer,
    /// The service has turned it away.
    Throttled,
    /// The service has refused it by this code.
    Refused(&'static str),
}

/// The answer to a call.
pub(crate) enum Answer {
    Given(Box<dyn Any + Send>),
    Failed(Failure),
}

/// Between the futures of one process and the scheduler.
#[derive(Clone, Default)]
pub(crate) struct Mailbox {
    post: Arc<Mutex<Post>>,
}

#[derive(Default)]
struct Post {
    last: u64,
    asked: Vec<Call>,
    answers: BTreeMap<u64, Answer>,
}

impl Mailbox {
    /// Makes a call: `effect` runs when it reaches its service.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        action: Action,
        about: String,
        effect: impl FnOnce(&mut Outside, View) -> T + Send + 'static,
    ) -> Asking<T> {
        let effect: Effect = Box::new(move |outside, view| Box::new(effect(outside, view)));
        Asking {
            mailbox: self.clone(),
            state: Asked::NotYet(Some((action, about, effect))),
            answer: std::marker::PhantomData,
        }
    }

    /// Waits.
    pub(crate) async fn sleep(&self, long: Duration) {
        let action = Action { service: Service::Clock(long), name: "sleep", writes: false };
        let slept = self.ask(action, String::new(), |_, _| ()).await;
        debug_assert!(slept.is_ok(), "a clock does not fail");
    }

    /// The calls made since the last time.
    pub(crate) fn take_asked(&self) -> Vec<Call> {
        std::mem::take(&mut self.post().asked)
    }

    /// Delivers an answer; the future gets it when it is polled next.
    pub(crate) fn deliver(&self, call: u64, answer: Answer) {
        self.post().answers.insert(call, answer);
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        self.post.lock()
    }
}

enum Asked {
    NotYet(Option<(Action, String, Effect)>),
    Waiting(u64),
}

/// A call as its caller waits for it.
pub(crate) struct Asking<T> {
    mailbox: Mailbox,
    state: Asked,
    answer: std::marker::PhantomData<fn() -> T>,
}

impl<T: Send + 'static> Future for Asking<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let mailbox = self.mailbox.clone();
        let mut post = mailbox.post();
        match &mut self.state {
            Asked::NotYet(request) => {
                let Some((action, about, effect)) = request.take() else {
                    return Poll::Pending;
                };
                post.last += 1;
                let id = post.last;
                post.asked.push(Call { id, action, about, effect });
                self.state = Asked::Waiting(id);
                Poll::Pending
            }
            Asked::Waiting(id) => match post.answers.remove(id) {
                None => Poll::Pending,
                Some(Answer::Failed(failure)) => Poll::Ready(Err(failure)),
                Some(Answer::Given(answer)) => match answer.downcast::<T>() {
                    Ok(answer) => Poll::Ready(Ok(*answer)),
                    Err(_) => Poll::Ready(Err(Failure::NoAnswer)),
                },
            },
        }
    }
}
