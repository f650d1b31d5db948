//! User data of several parts, as cloud-init reads it: a MIME message.

use anyhow::Context;

/// One part of user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The type without its parameters, for example `text/cloud-boothook`.
    pub(super) content_type: String,
    pub(super) content: String,
}

/// How much of user data cloud-init searches for the mark of a message.
const SEARCHED: usize = 4096;

/// The parts of user data; `None` for user data that is no message.
pub(super) fn parse(user_data: &[u8]) -> anyhow::Result<Option<Vec<Part>>> {
    let head = user_data.get(..SEARCHED).unwrap_or(user_data);
    if !String::from_utf8_lossy(head).to_ascii_lowercase().contains("mime-version:") {
        return Ok(None);
    }
    let text = std::str::from_utf8(user_data).context("the user data is no text")?;
    let (headers, body) = message(text).context("the user data has no body")?;
    let content_type = header(headers, "content-type").context("the user data has no content type")?;
    let boundary = parameter(content_type, "boundary").context("the user data has no boundary")?;
    let delimiter = format!("\n--{boundary}");
    let body = format!("\n{body}");
    let (body, _) =
        body.split_once(&format!("{delimiter}--")).context("the user data does not end with its boundary")?;
    // What comes before the first boundary is for people.
    let parts = body.split(&delimiter).skip(1).map(part);
    parts.collect::<anyhow::Result<_>>().map(Some)
}

fn part(text: &str) -> anyhow::Result<Part> {
    let text = text.strip_prefix('\n').context("a boundary is not a line")?;
    let (headers, content) = message(text).context("a part of the user data has no body")?;
    let content_type = header(headers, "content-type").unwrap_or("text/plain");
    let (content_type, _) = content_type.split_once(';').unwrap_or((content_type, ""));
    Ok(Part { content_type: content_type.trim().to_ascii_lowercase(), content: content.to_owned() })
}

/// The headers and the body.
fn message(text: &str) -> Option<(&str, &str)> {
    text.split_once("\n\n")
}

fn header<'a>(headers: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = headers.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

fn parameter<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let mut parameters = value.split(';').filter_map(|parameter| parameter.split_once('='));
    let (_, value) = parameters.find(|(found, _)| found.trim() == name)?;
    Some(value.trim_matches('"'))
}
