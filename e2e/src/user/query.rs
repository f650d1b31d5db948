//! Calls without the SDK: the answer is complete and generic, and the request may be invalid.

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

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
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let (status, body) = send(url, &credential(access_key_id, region, service), &headers, form).await?;
    let answer =
        Element::parse(&String::from_utf8_lossy(&body)).with_context(|| format!("parsing the answer of {url}"))?;
    Ok((status, answer))
}

/// Calls an action of a service that takes JSON, like [`query`]. The target is for example
/// `secretsmanager.GetSecretValue`.
pub async fn json(
    url: &str,
    access_key_id: &str,
    region: &str,
    service: &str,
    target: &str,
    parameters: &Value,
) -> anyhow::Result<(u16, Value)> {
    let headers = [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", target)];
    let credential = credential(access_key_id, region, service);
    let (status, body) = send(url, &credential, &headers, parameters.to_string()).await?;
    let answer = serde_json::from_slice(&body).with_context(|| format!("parsing the answer of {url}"))?;
    Ok((status, answer))
}

/// Calls S3 as somebody, and returns the HTTP status and the answer, which may be empty. The path has the bucket.
pub(super) async fn s3(
    method: http::Method,
    url: &str,
    access_key_id: &str,
    region: &str,
    path: &str,
    body: &str,
) -> anyhow::Result<(u16, Option<Element>)> {
    let credential = credential(access_key_id, region, "s3");
    let request = http::Request::builder().method(method).uri(format!("{url}{path}"));
    let (status, body) = send_signed(request, &credential, body.to_owned()).await?;
    let text = String::from_utf8_lossy(&body);
    let answer = (!text.is_empty()).then(|| Element::parse(&text)).transpose();
    Ok((status, answer.with_context(|| format!("parsing the answer of {url}{path}"))?))
}

fn credential(access_key_id: &str, region: &str, service: &str) -> String {
    format!("{access_key_id}/20260101/{region}/{service}/aws4_request")
}

async fn send(url: &str, credential: &str, headers: &[(&str, &str)], body: String) -> anyhow::Result<(u16, Bytes)> {
    let mut request = http::Request::post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = send_signed(request, credential, body).await;
    answer.with_context(|| format!("calling {url}"))
}

async fn send_signed(request: http::request::Builder, credential: &str, body: String) -> anyhow::Result<(u16, Bytes)> {
    let authorization = format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0");
    let request = request.header("authorization", authorization);
    let request = request.body(Full::<Bytes>::from(body)).context("composing the request")?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await.context("sending the request")?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.context("reading the answer")?;
    Ok((status, body.to_bytes()))
}
