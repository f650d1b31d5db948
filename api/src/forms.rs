//! The forms of AWS ids and of AWS and Kubernetes names. Pure.
//!
//! A value in another form names nothing. The provider refuses it before it becomes part of a request, because EC2
//! reads `*` and `?` in a filter as wildcards, and `..` in the path of a request to the API server leads to another
//! folder.

use crate::network::{ID_LENGTH, REGION_LENGTH, is_longer};

/// Maximum length of the name of a Kubernetes object, in characters.
const NAME_LENGTH: usize = 253;

/// A kind of EC2 resource that has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// `cr-…`
    CapacityReservation,
    /// `h-…`
    Host,
    /// `ami-…`
    Image,
    /// `i-…`
    Instance,
    /// `eni-…`
    NetworkInterface,
    /// `sg-…`
    SecurityGroup,
    /// `subnet-…`
    Subnet,
    /// `vpc-…`
    Vpc,
}

impl IdKind {
    /// Prefix of the ids of this kind.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::CapacityReservation => "cr-",
            Self::Host => "h-",
            Self::Image => "ami-",
            Self::Instance => "i-",
            Self::NetworkInterface => "eni-",
            Self::SecurityGroup => "sg-",
            Self::Subnet => "subnet-",
            Self::Vpc => "vpc-",
        }
    }

    /// Whether the text has the form of an id of this kind: the prefix and at least 8 hexadecimal digits in lower case.
    pub fn is_id(self, text: &str) -> bool {
        let is_hexadecimal = |digits: &str| digits.len() >= 8 && digits.bytes().all(is_hexadecimal_digit);
        text.len() <= ID_LENGTH && text.strip_prefix(self.prefix()).is_some_and(is_hexadecimal)
    }

    /// The form of the ids of this kind, for a message.
    pub fn form(self) -> String {
        format!("{} and at least 8 digits of 0-9a-f", self.prefix())
    }
}

/// Whether an AWS region can have this name: two or three words and a number, for example `us-gov-west-1`. Only a call
/// to the region shows whether it exists, because AWS adds regions.
pub fn is_region(text: &str) -> bool {
    let Some((words, number)) = text.rsplit_once('-') else {
        return false;
    };
    let words: Vec<&str> = words.split('-').collect();
    let is_word = |word: &&str| (2..=9).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let is_number = number.len() <= 2 && !number.starts_with('0') && is_decimal(number);
    is_number && (2..=3).contains(&words.len()) && words.iter().all(is_word) && !is_longer(text, REGION_LENGTH)
}

/// Whether an EC2 instance type can have this name: a family and a size, for example `m7i-flex.large`.
pub fn is_instance_type(text: &str) -> bool {
    let parts = text.split_once('.');
    parts.is_some_and(|(family, size)| is_label(family) && is_label(size)) && text.len() <= ID_LENGTH
}

/// Whether the text names a KMS key in a form that EC2 accepts: by its id, by an alias, or by the ARN of either.
pub fn is_kms_key(text: &str) -> bool {
    let Some(arn) = text.strip_prefix("arn:") else {
        return is_kms_key_id(text) || is_kms_alias(text);
    };
    let parts: Vec<&str> = arn.splitn(5, ':').collect();
    let [partition, "kms", region, account, resource] = parts.as_slice() else {
        return false;
    };
    let is_named = resource.strip_prefix("key/").is_some_and(is_kms_key_id) || is_kms_alias(resource);
    is_named && is_label(partition) && is_region(region) && account.len() == 12 && is_decimal(account)
}

/// Whether the text is a UUID or the id of a multi-Region key.
fn is_kms_key_id(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("mrk-") {
        return digits.len() == 32 && digits.bytes().all(is_hexadecimal_digit);
    }
    let groups = text.split('-');
    let is_hexadecimal = text.bytes().all(|byte| byte == b'-' || is_hexadecimal_digit(byte));
    is_hexadecimal && groups.map(str::len).eq([8, 4, 4, 4, 12])
}

fn is_kms_alias(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte);
    text.strip_prefix("alias/").is_some_and(|name| (1..=250).contains(&name.len()) && name.bytes().all(is_allowed))
}

/// Whether an S3 bucket can have this name: 3 to 63 lower case letters, digits, dots and hyphens.
pub fn is_bucket_name(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let bytes = text.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().copied().all(is_allowed)
        && is_end(bytes.first())
        && is_end(bytes.last())
}

/// Whether S3 keys with this prefix have the same spelling in every URL: letters, digits and `!_.'()*-` in parts
/// between single slashes.
pub fn is_key_prefix(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!_.'()*-".contains(&byte);
    let mut parts = text.split('/');
    parts.all(|part| !matches!(part, "" | "." | "..") && part.bytes().all(is_allowed))
}

/// Whether an object in Kubernetes can have this name: a DNS-1123 subdomain.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= NAME_LENGTH && text.split('.').all(is_label)
}

/// Whether the text consists of lower case letters, digits, and dashes that are neither first nor last.
fn is_label(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_allowed)
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hexadecimal_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails unless the first texts have the form and the others have not.
    fn assert_form(has_form: impl Fn(&str) -> bool, right: &[&str], wrong: &[&str]) {
        for text in right {
            assert!(has_form(text), "{text}");
        }
        for text in wrong {
            assert!(!has_form(text), "{text:?}");
        }
    }

    #[test]
    fn an_id_is_its_prefix_and_lower_case_hexadecimal_digits() {
        let too_long = format!("subnet-{}", "a".repeat(64));
        let wrong = [
            "",
            "subnet-",
            "subnet-*",
            "subnet-0000000*",
            "subnet-0000000?",
            "subnet-foo",
            "subnet-0000000",
            "subnet-0000000A",
            "subnet-0000000a ",
            "vpc-0000000a",
            &too_long,
        ];
        let right = ["subnet-0000000a", "subnet-0123456789abcdef0"];
        assert_form(|text| IdKind::Subnet.is_id(text), &right, &wrong);
        assert!(IdKind::Image.is_id("ami-0123456789abcdef0"));
        assert!(!IdKind::Image.is_id("ami-*"));
        assert!(!IdKind::Image.is_id("resolve:ssm:/aws/service/image"));
    }

    #[test]
    fn a_region_is_two_or_three_words_and_a_number() {
        let right =
            ["eu-west-1", "us-gov-west-1", "us-isob-east-1", "eusc-de-east-1", "ap-southeast-7", "cn-northwest-1"];
        let wrong = [
            "",
            "../x",
            "US EAST",
            "US-EAST-1",
            "us-east",
            "us-east-",
            "us-east-0",
            "us-east-01",
            "us-east-100",
            "us--east-1",
            "east-1",
            "a-b-c-1",
            "us-east-1/x",
            "us-east-1.example.org",
            "us-east-1a",
            "one-two-three-four-1",
            "us-northeasterly-1",
        ];
        assert_form(is_region, &right, &wrong);
    }

    #[test]
    fn an_instance_type_is_a_family_and_a_size() {
        let right = ["t3.large", "m7i-flex.large", "u-6tb1.56xlarge", "c7g.metal-48xl"];
        let wrong = ["", "t3", "t3.", ".large", "t3.*", "T3.large", "t3.large.x", "-.x", "a b.c"];
        assert_form(is_instance_type, &right, &wrong);
    }

    #[test]
    fn a_kms_key_is_an_id_an_alias_or_the_arn_of_one() {
        let id = "1234abcd-12ab-34cd-56ef-1234567890ab";
        let arn = format!("arn:aws:kms:eu-west-1:111122223333:key/{id}");
        let right = [
            id,
            "mrk-1234abcd12ab34cd56ef1234567890ab",
            "alias/ExampleAlias",
            "alias/aws/ebs",
            &arn,
            "arn:aws-us-gov:kms:us-gov-west-1:111122223333:alias/disk",
        ];
        let other_service = arn.replace(":kms:", ":s3:");
        let bare = format!("key/{id}");
        let wrong = [
            "",
            "k",
            "alias/",
            "alias/a*",
            "1234abcd12ab34cd56ef1234567890ab",
            &bare,
            &other_service,
            "arn:aws:kms:eu-west-1:1:alias/disk",
            "arn:aws:kms:*:111122223333:alias/disk",
            "arn:aws:kms",
        ];
        assert_form(is_kms_key, &right, &wrong);
    }

    #[test]
    fn a_name_in_kubernetes_is_a_dns_subdomain() {
        let longest = "a".repeat(NAME_LENGTH);
        let too_long = "a".repeat(NAME_LENGTH + 1);
        let right = ["a", "dev-x7k2p", "a.b-c.1", &longest];
        let wrong = ["", "../../kube-system/secrets/x", "a/b", "a..b", ".a", "-a", "a-", "A", "a_b", "a?b", &too_long];
        assert_form(is_dns_subdomain, &right, &wrong);
    }

    #[test]
    fn buckets_and_keys_have_the_form_of_their_urls() {
        for (name, is) in [
            ("bootstrap", true),
            ("acme.prod-1", true),
            ("ab", false),
            ("-ab", false),
            ("ab.", false),
            ("Acme", false),
            ("a/b", false),
            ("a?b", false),
        ] {
            assert_eq!(is_bucket_name(name), is, "{name}");
        }
        for (prefix, is) in [
            ("clusters/dev", true),
            ("a", true),
            ("", false),
            ("/a", false),
            ("a//b", false),
            ("a/../b", false),
            ("a b", false),
            ("a%2f", false),
        ] {
            assert_eq!(is_key_prefix(prefix), is, "{prefix}");
        }
    }
}
