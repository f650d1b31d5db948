//! Changes of the tags of existing resources of managed clusters.

use capa_cloud::managed::Call as ManagedCall;
use capa_cloud::{ec2, elb};

use super::{OWNED, sent_of, tags};

/// A call of each kind.
pub(super) fn calls() -> [ManagedCall<String>; 4] {
    let keys = || ["team", "stage"].map(str::to_owned).into();
    let (vpc, group) = (|| "vpc-1".to_owned(), || "arn:tg/1".to_owned());
    [
        ec2::tag::Call::CreateTags { resource: vpc(), tags: tags() }.into(),
        ec2::tag::Call::DeleteTags { resource: vpc(), keys: keys() }.into(),
        elb::tag::Call::AddTags { resource: group(), tags: tags() }.into(),
        elb::tag::Call::RemoveTags { resource: group(), keys: keys() }.into(),
    ]
}

#[tokio::test]
async fn tags_are_set_and_removed_by_their_keys() {
    let sent = sent_of(&calls()).await;
    let expected: [(&str, Vec<(&str, &str)>); 4] = [
        ("CreateTags", vec![("ResourceId.1", "vpc-1"), ("Tag.1.Key", OWNED), ("Tag.1.Value", "owned")]),
        ("DeleteTags", vec![("ResourceId.1", "vpc-1"), ("Tag.1.Key", "stage"), ("Tag.2.Key", "team")]),
        (
            "AddTags",
            vec![("ResourceArns.member.1", "arn:tg/1"), ("Tags.member.1.Key", OWNED), ("Tags.member.1.Value", "owned")],
        ),
        (
            "RemoveTags",
            vec![("ResourceArns.member.1", "arn:tg/1"), ("TagKeys.member.1", "stage"), ("TagKeys.member.2", "team")],
        ),
    ];
    assert_eq!(sent.len(), expected.len());
    for (call, (action, fields)) in sent.iter().zip(expected) {
        assert_eq!(call.action, action);
        for (name, value) in fields {
            assert_eq!(call.field(name), value, "{action} {name}");
        }
    }
    // With a value, the call would keep a tag that somebody has changed.
    assert!(!sent[1].form.keys().any(|name| name.ends_with(".Value")));
}
