//! Access to diagnostics: the API server authenticates the token and authorizes its user for the path.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::repeated_failure::RepeatedFailure;

/// Maximum number of concurrent requests to the API server, so that unauthenticated clients cannot flood it.
const REVIEWS: usize = 4;

/// How long the check of one request may take, including the wait for its turn.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the API server about each request. Clones share the limit of concurrent requests.
#[derive(Clone)]
pub(super) struct Authorizer {
    client: Client,
    turns: Arc<Semaphore>,
    failure: Arc<Mutex<RepeatedFailure>>,
}

impl Authorizer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            turns: Arc::new(Semaphore::new(REVIEWS)),
            failure: Arc::new(Mutex::new(RepeatedFailure::new("ask who may read the metrics"))),
        }
    }

    /// Checks whether the user of the request's token may `get` the path; an `Err` is the response otherwise.
    pub(super) async fn check(&self, headers: &HeaderMap, path: &str) -> Result<(), StatusCode> {
        let Some(token) = token(headers) else {
            return Err(StatusCode::UNAUTHORIZED);
        };
        let judge = async {
            // No code closes the semaphore.
            let _turn = self.turns.acquire().await;
            self.judge(token, path).await
        };
        match timeout(REVIEW_TIMEOUT, judge).await {
            Ok(Ok(decision)) => {
                self.failure.lock().succeeded();
                match decision {
                    Decision::Allowed => Ok(()),
                    Decision::Refused(status) => Err(status),
                }
            }
            Ok(Err(error)) => {
                self.failure.lock().failed(&error);
                Err(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Err(_) => {
                self.failure.lock().timed_out();
                Err(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    async fn judge(&self, token: &str, path: &str) -> kube::Result<Decision> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let Some(user) = reviewed.user.filter(|_| reviewed.authenticated == Some(true)) else {
            return Ok(Decision::Refused(StatusCode::UNAUTHORIZED));
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = may_get(user, path);
        let reviewed = reviews.create(&PostParams::default(), &review).await?.status;
        if reviewed.is_some_and(|status| status.allowed) {
            return Ok(Decision::Allowed);
        }
        Ok(Decision::Refused(StatusCode::FORBIDDEN))
    }
}

/// The API server's decision about a user and a path.
enum Decision {
    Allowed,
    /// The response that the client gets instead of the page.
    Refused(StatusCode),
}

fn may_get(user: UserInfo, path: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use http::{Request, Response};
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// An API server that knows one token, whose user may get `/metrics`.
    fn client(status: StatusCode) -> Client {
        let answer = move |request: Request<kube::client::Body>| async move {
            let path = request.uri().path().to_owned();
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&sent).unwrap();
            let spec = &review["spec"];
            review["status"] = if path.ends_with("/tokenreviews") {
                let known = ["reader", "stranger"].contains(&spec["token"].as_str().unwrap());
                json!({
                    "authenticated": known,
                    "user": {"username": spec["token"], "groups": ["g"], "extra": {"k": ["v"]}},
                })
            } else {
                let wanted = json!({"user": "reader", "groups": ["g"], "extra": {"k": ["v"]},
                                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
                json!({"allowed": *spec == wanted})
            };
            let body = Body::from(review.to_string());
            Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
        };
        Client::new(service_fn(answer), "default")
    }

    async fn asked(status: StatusCode, authorization: Option<&str>, path: &str) -> Result<(), StatusCode> {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        }
        Authorizer::new(client(status)).check(&headers, path).await
    }

    #[tokio::test]
    async fn only_a_user_who_may_get_the_path_has_access() {
        let ok = StatusCode::CREATED;
        assert_eq!(asked(ok, Some("Bearer reader"), "/metrics").await, Ok(()));
        assert_eq!(asked(ok, Some("bearer reader"), "/metrics").await, Ok(()));
        for (authorization, path, denied) in [
            (None, "/metrics", StatusCode::UNAUTHORIZED),
            (Some("Bearer "), "/metrics", StatusCode::UNAUTHORIZED),
            (Some("Basic reader"), "/metrics", StatusCode::UNAUTHORIZED),
            (Some("Bearer unknown"), "/metrics", StatusCode::UNAUTHORIZED),
            (Some("Bearer stranger"), "/metrics", StatusCode::FORBIDDEN),
            (Some("Bearer reader"), "/secrets", StatusCode::FORBIDDEN),
        ] {
            assert_eq!(asked(ok, authorization, path).await, Err(denied), "{authorization:?} {path}");
        }
    }

    #[tokio::test]
    async fn no_user_has_access_while_the_api_server_does_not_answer() {
        let refused = asked(StatusCode::SERVICE_UNAVAILABLE, Some("Bearer reader"), "/metrics").await;
        assert_eq!(refused, Err(StatusCode::INTERNAL_SERVER_ERROR));
    }
}
