//! Calls without the SDK: the answer is complete and generic, and the request may be invalid.

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::aws_proxy::xml::Element;

/// Sends a form in AWS's Query protocol, and returns the HTTP status and the answer. The signature is a placeholder,
/// because the proxy checks the key id alone.
pub async fn query(
    url: &str,
    access_key_id: &str,
    region: &str,
    service: &str,
    form: &[(&str, &str)],
) -> anyhow::Result<(u16, Element)> {
    let credential = format!("{access_key_id}/20260101/{region}/{service}/aws4_request");
    let request = http::Request::post(url)
        .header("content-type", "application/x-www-form-urlencoded")
        .header(
            "authorization",
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"),
        )
        .body(Full::<Bytes>::from(
            form_urlencoded::Serializer::new(String::new())
                .extend_pairs(form)
                .finish(),
        ))
        .with_context(|| format!("composing a request to {url}"))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request)
        .await
        .with_context(|| format!("calling {url}"))?;
    let status = response.status().as_u16();
    let body = response
        .into_body()
        .collect()
        .await
        .with_context(|| format!("reading from {url}"))?
        .to_bytes();
    let answer =
        Element::parse(&String::from_utf8_lossy(&body)).with_context(|| format!("parsing the answer of {url}"))?;
    Ok((status, answer))
}
