//! Replaces ids in saved facts, so that users can show them to others.

use std::collections::HashMap;

use serde_json::Value;

/// Prefixes of ids of AWS.
const PREFIXES: [&str; 24] = [
    "acl-",
    "ami-",
    "cagw-",
    "cr-",
    "dopt-",
    "eigw-",
    "eipalloc-",
    "eni-",
    "h-",
    "i-",
    "igw-",
    "lgw-",
    "mrk-",
    "nat-",
    "pcx-",
    "pl-",
    "rtb-",
    "rtbassoc-",
    "sg-",
    "subnet-",
    "tgw-",
    "vgw-",
    "vpc-",
    "vpce-",
];

/// The form of a UUID.
const UUID: &str = "00000000-0000-0000-0000-000000000000";

/// The public addresses of NAT gateways, which no rule needs.
const PUBLIC_ADDRESSES: &str = "publicIps";

/// The same document without public addresses of NAT gateways. Resource ids, account ids, and the ids in the ARNs and
/// DNS names of load balancers and target groups are replaced wherever they stand in a text. An id gets the same
/// replacement everywhere, so that rules have the same findings.
pub fn redact(mut document: Value) -> Value {
    let mut names = HashMap::new();
    replace(&mut document, &mut names);
    document
}

fn replace(value: &mut Value, names: &mut HashMap<String, String>) {
    match value {
        Value::String(text) => *text = redacted(text, names),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, names)),
        Value::Object(fields) => {
            let entries = std::mem::take(fields);
            for (key, mut item) in entries.into_iter().filter(|(key, _)| key != PUBLIC_ADDRESSES) {
                replace(&mut item, names);
                fields.insert(redacted(&key, names), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with its ids replaced.
fn redacted(text: &str, names: &mut HashMap<String, String>) -> String {
    let mut result = String::new();
    let mut before = "";
    let mut rest = text;
    while !rest.is_empty() {
        let word = uuid(rest).unwrap_or_else(|| rest.split(is_separator).next().unwrap_or_default());
        result += &replacement(before, word, names);
        let separator = rest[word.len()..].chars().next();
        result.extend(separator);
        let (part, behind) = rest.split_at(word.len() + separator.map_or(0, char::len_utf8));
        (before, rest) = (part, behind);
    }
    result
}

fn is_separator(letter: char) -> bool {
    !letter.is_ascii_alphanumeric()
}

/// The UUID with which the text begins. Keys of KMS have such ids.
fn uuid(text: &str) -> Option<&str> {
    let (uuid, behind) = text.split_at_checked(UUID.len())?;
    let has_form = uuid.chars().zip(UUID.chars()).all(|(letter, form)| match form {
        '-' => letter == '-',
        _ => letter.is_ascii_hexdigit(),
    });
    (has_form && !behind.starts_with(|next: char| !is_separator(next))).then_some(uuid)
}

/// The replacement of a word that is an id, or follows the prefix of an id; any other word is unchanged.
fn replacement(before: &str, word: &str, names: &mut HashMap<String, String>) -> String {
    let is_hexadecimal = word.chars().all(|c| c.is_ascii_hexdigit());
    let is_decimal = word.chars().all(|c| c.is_ascii_digit());
    let (key, form, width) = match word.len() {
        8.. if is_hexadecimal && PREFIXES.contains(&before) => (format!("{before}{word}"), "", 8),
        // An account.
        12 if is_decimal => (word.to_owned(), "", 12),
        // The ARNs of load balancers and target groups end with such an id, and the DNS names of network load balancers
        // contain it.
        16 if is_hexadecimal => (word.to_owned(), "", 16),
        // The DNS names of other load balancers contain such a number.
        9 | 10 if is_decimal => (word.to_owned(), "", 10),
        _ if uuid(word).is_some() => (word.to_owned(), "00000000-0000-0000-0000-", 12),
        _ => return word.to_owned(),
    };
    let number = names.len() + 1;
    names.entry(key).or_insert_with(|| format!("{form}{number:0width$}")).clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_id_gets_the_same_replacement_and_other_words_stay() {
        let document = json!({
            "vpc": "vpc-0a1b2c3d4e5f60718",
            "text": "subnet-0a1b2c3d lies in vpc-0a1b2c3d4e5f60718 of account 123456789012 (eu-west-1a, 10.0.0.0/16)",
            "arn": "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/api/0123456789abcdef",
            "host": "api-0123456789abcdef.elb.eu-west-1.amazonaws.com",
            "classic": "internal-api-1234567890.eu-west-1.elb.amazonaws.com",
            "bucket": "dev-123456789012-eu-west-1",
            "name": "of-vpc-0a1b2c3d4e5f60718",
            "key": "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            "replica": "mrk-1234abcd12ab34cd56ef1234567890ab",
            "count": 3,
            "publicIps": ["203.0.113.7"],
            "subnet-0a1b2c3d": "i-am-no-id",
        });
        let redacted = redact(document.clone());
        let text = redacted.to_string();
        for id in ["0a1b2c3d", "123456789012", "0123456789abcdef", "1234567890", "1234abcd", "203.0.113"] {
            assert!(!text.contains(id), "{id}: {text}");
        }
        for word in ["eu-west-1a", "10.0.0.0/16", "targetgroup/api/", "i-am-no-id", "lies in"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let vpc = redacted["vpc"].as_str().unwrap();
        assert!(vpc.starts_with("vpc-0000000") && redacted["text"].as_str().unwrap().contains(vpc), "{text}");
        let id = redacted["arn"].as_str().unwrap().rsplit_once('/').unwrap().1;
        assert!(redacted["host"].as_str().unwrap().starts_with(&format!("api-{id}.")), "{text}");
        assert_eq!(redacted["name"], format!("of-{vpc}"));
        let key = redacted["key"].as_str().unwrap();
        assert!(key.contains("key/00000000-0000-0000-0000-0000000000"), "{key}");
        assert_eq!(redact(document), redacted, "always the same");
    }
}
