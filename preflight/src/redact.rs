//! Replaces ids in saved facts, so that users can show them to others.

use std::collections::HashMap;

use serde_json::Value;

/// Prefixes of ids of AWS.
const PREFIXES: [&str; 17] = [
    "acl-", "ami-", "cr-", "dopt-", "eigw-", "eni-", "h-", "i-", "igw-", "nat-", "pcx-", "rtb-", "sg-", "subnet-",
    "tgw-", "vpc-", "vpce-",
];

/// The same document with replacements for resource ids, account ids and the hexadecimal ids of load balancers and
/// target groups. An id gets the same replacement everywhere, so that rules have the same findings.
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
            for (key, mut item) in entries {
                replace(&mut item, names);
                fields.insert(redacted(&key, names), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text with its ids replaced.
fn redacted(text: &str, names: &mut HashMap<String, String>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut result = String::new();
    let mut word = String::new();
    for c in text.chars() {
        if is_word(c) {
            word.push(c);
        } else {
            result.push_str(&replacement(&word, names));
            word.clear();
            result.push(c);
        }
    }
    result.push_str(&replacement(&word, names));
    result
}

/// The replacement of an id or an account; any other word is unchanged.
fn replacement(word: &str, names: &mut HashMap<String, String>) -> String {
    let is_account = word.len() == 12 && word.chars().all(|c| c.is_ascii_digit());
    let prefix = PREFIXES.iter().find(|prefix| {
        let rest = word.strip_prefix(**prefix).unwrap_or_default();
        rest.len() >= 8 && rest.chars().all(|c| c.is_ascii_hexdigit())
    });
    // The ARNs of load balancers and target groups end with such a number.
    let is_hexadecimal = word.len() == 16 && word.chars().all(|c| c.is_ascii_hexdigit());
    if !is_account && prefix.is_none() && !is_hexadecimal {
        return word.to_owned();
    }
    let number = names.len() + 1;
    let make = || match prefix {
        Some(prefix) => format!("{prefix}{number:08x}"),
        None if is_account => format!("{number:012}"),
        None => format!("{number:016x}"),
    };
    names.entry(word.to_owned()).or_insert_with(make).clone()
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
            "count": 3,
            "subnet-0a1b2c3d": "i-am-no-id",
        });
        let redacted = redact(document.clone());
        let text = redacted.to_string();
        for id in ["0a1b2c3d", "123456789012", "0123456789abcdef"] {
            assert!(!text.contains(id), "{id}: {text}");
        }
        for word in ["eu-west-1a", "10.0.0.0/16", "targetgroup/api/", "i-am-no-id", "lies in"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let vpc = redacted["vpc"].as_str().unwrap();
        assert!(
            vpc.starts_with("vpc-0000000") && redacted["text"].as_str().unwrap().contains(vpc),
            "{text}"
        );
        assert_eq!(redact(document), redacted, "always the same");
    }
}
