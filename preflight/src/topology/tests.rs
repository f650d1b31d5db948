use quick_xml::Reader;
use quick_xml::events::Event;

use super::picture::Picture;
use super::*;
use crate::facts::Answer;
use crate::report::{Selection, check};
use crate::testing::good;

/// A VPC without DNS, a subnet without its tag, a security group without rules, and hostile names.
fn bad() -> Facts {
    let mut facts = good();
    if let Answer::Found(dns) = &mut facts.vpc_dns {
        dns.support = false;
    }
    if let Answer::Found(subnets) = &mut facts.subnets {
        subnets[0].tags.clear();
    }
    if let Answer::Found(groups) = &mut facts.security_groups {
        groups[0].name = "\"]<b>&\nx".to_owned();
        groups[0].ingress.clear();
    }
    facts
}

fn pictures(facts: &Facts) -> [String; 3] {
    let report = check(facts, &Selection::default());
    [mermaid(facts, &report), dot(facts, &report), svg(facts, &report)]
}

#[test]
fn every_object_and_finding_is_in_every_picture() {
    let facts = bad();
    let report = check(&facts, &Selection::default());
    assert!(report.findings().count() > 4);
    for text in pictures(&facts) {
        for id in ["vpc-0000000a", "subnet-0000000a", "subnet-0000000c", "sg-0000000b", "AWSMachineTemplate/workers"] {
            assert!(text.contains(id), "{id} is not in {text}");
        }
        for finding in report.findings() {
            assert!(text.contains(finding.rule), "{} is not in {text}", finding.rule);
        }
        assert!(text.contains("#c62828") && text.contains("eu-west-1b"));
    }
}

#[test]
fn names_cannot_leave_their_place() {
    let [mermaid, dot, svg] = pictures(&bad());
    assert!(mermaid.contains("#quot;]#lt;b#gt;& x"), "{mermaid}");
    assert!(dot.contains(r#"\"]<b>&\nx"#), "{dot}");
    assert!(svg.contains("&quot;]&lt;b&gt;&amp; x"), "{svg}");
    let mut reader = Reader::from_str(&svg);
    let mut texts = 0;
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(element) if element.name().as_ref() == "text" => texts += 1,
            _ => {}
        }
    }
    assert!(texts > 30, "{texts} texts");
}

#[test]
fn boxes_do_not_overlap() {
    for facts in [good(), bad(), Facts::default()] {
        let report = check(&facts, &Selection::default());
        let boxes = svg::layout(&Picture::new(&facts, &report)).boxes;
        for (number, one) in boxes.iter().enumerate() {
            for other in &boxes[number + 1..] {
                let apart = one.x + one.width <= other.x
                    || other.x + other.width <= one.x
                    || one.y + one.height <= other.y
                    || other.y + other.height <= one.y;
                assert!(apart, "{one:?} and {other:?}");
            }
        }
    }
}

#[test]
fn what_is_not_known_is_drawn_as_such() {
    let facts = Facts { demand: good().demand, ..Facts::default() };
    for text in pictures(&facts) {
        assert!(text.contains("not known") && text.contains("subnet-0000000a"), "{text}");
    }
}

/// The facts that `make quickstart` saves, with redacted ids.
#[test]
fn the_documentation_has_the_picture_of_the_quickstart() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures/quickstart.svg");
    let facts: Facts = serde_json::from_str(include_str!("../../fixtures/quickstart.json")).unwrap();
    let drawn = svg(&facts, &check(&facts, &Selection::default()));
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(file, &drawn).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), drawn, "run the test with UPDATE_FIXTURES=1");
}
