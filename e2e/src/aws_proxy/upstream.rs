//! The client of moto.

use std::collections::BTreeMap;

use http::{Request as HttpRequest, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::answer::{Answer, Refusal};
use super::request::CredentialScope;

/// A client of one moto server.
#[derive(Clone, Debug)]
pub(super) struct Moto {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Moto {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Sends a call to the account's part of moto. A failure of moto itself becomes an `InternalError` of AWS.
    pub(super) async fn call(
        &self,
        account: &str,
        scope: &CredentialScope,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Answer, Refusal> {
        let broken = |reason: &dyn std::fmt::Display| Refusal::new(500, "InternalError", format!("moto: {reason}"));
        let credential = format!("{}/20260101/{}/{}", scope.access_key_id, scope.region, scope.service);
        let request = HttpRequest::post(&self.url)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            // moto reads the credential scope and checks no signature.
            .header(
                header::AUTHORIZATION,
                format!("AWS4-HMAC-SHA256 Credential={credential}/aws4_request, SignedHeaders=host, Signature=0"),
            )
            .header("x-moto-account-id", account)
            .body(Full::from(
                form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(parameters)
                    .finish(),
            ))
            .map_err(|error| broken(&error))?;
        let response = self.client.request(request).await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| broken(&error))?
            .to_bytes()
            .to_vec();
        let answer = Answer { status, body };
        if status >= 500 && answer.error_code().is_none() {
            return Err(broken(&format!(
                "failed with {status}; it does not implement everything, its log says more"
            )));
        }
        Ok(answer)
    }
}
