//! The client of moto.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, Request as HttpRequest, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::answer::{Answer, Refusal, unreadable};
use super::protocol::Protocol;
use super::request::{CredentialScope, Request};
use super::xml::Element;

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const JSON: &str = "application/x-amz-json-1.1";

/// The limit for an answer of moto: the calls of an account wait for each other.
const ANSWERS_WITHIN: Duration = Duration::from_mins(2);

/// A call as it goes to moto, without its signature.
struct HttpCall<'a> {
    method: &'a Method,
    /// With the query.
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: Vec<u8>,
}

/// A client of one moto server.
#[derive(Clone, Debug)]
pub(super) struct Moto {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Moto {
    pub(super) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Sends a call to the account's part of moto as it came.
    pub(super) async fn pass_on(&self, account: &str, request: &Request) -> Result<Answer, Refusal> {
        let scope = &request.scope;
        match &request.protocol {
            Protocol::Query => self.call(account, scope, &request.parameters).await,
            Protocol::Json { target, body } => {
                let headers = [(header::CONTENT_TYPE.as_str(), JSON), ("x-amz-target", target)];
                let call = HttpCall { method: &Method::POST, path: "/", headers: &headers, body: body.clone() };
                self.send(account, scope, call).await
            }
            Protocol::S3 { method, path, body } => {
                let call = HttpCall { method, path, headers: &[], body: body.clone() };
                self.send(account, scope, call).await
            }
        }
    }

    /// Sends a call in the Query protocol to the account's part of moto, and changes the answer of a success.
    pub(super) async fn edit(
        &self,
        account: &str,
        request: &Request,
        change: impl FnOnce(&mut Element),
    ) -> Result<Answer, Refusal> {
        let answer = self.call(account, &request.scope, &request.parameters).await?;
        if !answer.succeeded() {
            return Ok(answer);
        }
        let mut tree = answer.tree().map_err(unreadable)?;
        change(&mut tree);
        answer.with_tree(&tree).map_err(unreadable)
    }

    /// Asks EC2 in the account's part of moto. `None` if moto refuses the call.
    pub(super) async fn ask(
        &self,
        account: &str,
        scope: &CredentialScope,
        action: &str,
        parameters: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Option<Element>, Refusal> {
        let fixed =
            [("Action", action), ("Version", "2016-11-15")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let parameters = fixed.into_iter().chain(parameters).collect();
        let answer = self.call(account, scope, &parameters).await?;
        answer.succeeded().then(|| answer.tree().map_err(unreadable)).transpose()
    }

    /// Sends a call in the Query protocol to the account's part of moto.
    pub(super) async fn call(
        &self,
        account: &str,
        scope: &CredentialScope,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Answer, Refusal> {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let call = HttpCall {
            method: &Method::POST,
            path: "/",
            headers: &[(header::CONTENT_TYPE.as_str(), FORM)],
            body: form.into_bytes(),
        };
        self.send(account, scope, call).await
    }

    /// A failure of moto itself becomes an `InternalError` of AWS.
    async fn send(&self, account: &str, scope: &CredentialScope, call: HttpCall<'_>) -> Result<Answer, Refusal> {
        let broken = |reason: &dyn std::fmt::Display| Refusal::new(500, "InternalError", format!("moto: {reason}"));
        let credential = format!("{}/20260101/{}/{}", scope.access_key_id, scope.region, scope.service);
        let mut request = HttpRequest::builder()
            .method(call.method)
            .uri(format!("{}{}", self.url, call.path))
            // moto reads the credential scope and checks no signature.
            .header(
                header::AUTHORIZATION,
                format!("AWS4-HMAC-SHA256 Credential={credential}/aws4_request, SignedHeaders=host, Signature=0"),
            )
            .header("x-moto-account-id", account);
        for (name, value) in call.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(call.body)).map_err(|error| broken(&error))?;
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| broken(&error))?;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes().to_vec();
            Ok(Answer { status, body })
        };
        let answer = tokio::time::timeout(ANSWERS_WITHIN, answer).await;
        let answer = answer.unwrap_or_else(|_| Err(broken(&format!("no answer within {ANSWERS_WITHIN:?}"))))?;
        let status = answer.status;
        if status >= 500 && answer.error_code().is_none() {
            return Err(broken(&format!("failed with {status}; it does not implement everything, its log says more")));
        }
        Ok(answer)
    }
}
