//! Random objects for a structural schema: huge, odd and borderline values wherever the schema allows them.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Texts that a program may misinterpret.
const ODD_TEXTS: [&str; 46] = [
    "",
    " ",
    "\0",
    "\u{202e}desrever",
    "\u{feff}",
    "\u{ffff}",
    "e\u{301}",
    "ＡＷＳ",
    "🦀🦀",
    "\n",
    "a\r\nHost: b",
    "a\tb",
    "../../etc/passwd",
    "${HOME}",
    "{{ .Values }}",
    "%n%s%x",
    "'; DROP TABLE instances; --",
    "<![CDATA[x]]>",
    "&amp;",
    "+%2B",
    "null",
    "true",
    "-1",
    "0",
    "1e309",
    "NaN",
    "-",
    ".",
    "a.b.c",
    "i-",
    "i-0123456789abcdef0",
    "sg-",
    "vpc-",
    "ami-0123456789abcdef0",
    "arn:",
    ":::::::",
    "arn:aws:iam::111122223333:role/x",
    "aws:///",
    "aws:///eu-west-1a/i-0123456789abcdef0",
    "EU-WEST-1",
    "us-gov-west-1",
    "10.0.0.0/33",
    "::/0",
    "256.256.256.256",
    "https://example.invalid/a?b=c#d",
    "1970-01-01T00:00:00Z",
];

/// The most bytes that the texts of one object have together, except in a huge object.
const USUAL_BUDGET: usize = 8 * 1024;

/// The most bytes of a huge object's texts; the API server accepts about a megabyte and a half.
const HUGE_BUDGET: usize = 256 * 1024;

/// The longest text where the schema sets no limit.
const LONG_TEXT: usize = 100 * 1024;

/// The most entries of a list or map where the schema sets no limit.
const MANY: usize = 300;

/// A generator of objects: the same seed generates the same objects.
#[derive(Debug)]
pub struct Hostile {
    random: Rng,
    /// Texts with a meaning in the world of the objects: ids, names, zones.
    words: Vec<String>,
    budget: usize,
}

impl Hostile {
    /// A generator that starts at a seed.
    pub fn new(seed: u64, words: Vec<String>) -> Self {
        Self { random: Rng::with_seed(seed), words, budget: 0 }
    }

    /// A value for a schema; one in forty values is huge.
    pub fn value(&mut self, schema: &Value) -> Value {
        self.refill();
        self.any(schema, 0)
    }

    /// A value for a schema that equals `base` except for one to four hostile fields.
    pub fn spoiled(&mut self, base: &Value, schema: &Value) -> Value {
        self.refill();
        let mut spoiled = base.as_object().cloned().unwrap_or_default();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let names: Vec<&String> = properties.keys().collect();
        for _ in 0..self.random.usize(1..=4) {
            if let Some(name) = self.random.choice(names.iter().copied())
                && let Some(property) = properties.get(name)
            {
                spoiled.insert(name.clone(), self.any(property, 1));
            }
        }
        Value::Object(spoiled)
    }

    fn refill(&mut self) {
        let huge = self.one_in(40);
        self.budget = if huge { HUGE_BUDGET } else { USUAL_BUDGET };
    }

    fn any(&mut self, schema: &Value, depth: usize) -> Value {
        if schema["nullable"] == true && self.one_in(8) {
            return Value::Null;
        }
        if let Some(choices) = schema["enum"].as_array() {
            return self.random.choice(choices).cloned().unwrap_or_default();
        }
        if schema["x-kubernetes-int-or-string"] == true {
            let number = json!({"type": if self.random.bool() { "integer" } else { "string" }});
            return self.any(&number, depth);
        }
        match schema["type"].as_str() {
            Some("object") => self.object(schema, depth),
            Some("array") => self.list(schema, depth),
            Some("string") => Value::String(self.text(schema)),
            Some("integer") => self.integer(schema),
            Some("boolean") => Value::Bool(self.random.bool()),
            Some("number") => json!(self.random.choice([0.0, -1.0, 1e308, 0.1]).unwrap_or_default()),
            _ => json!({"odd": [self.random.i64(..), null, {"": ""}]}),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(values) = schema["additionalProperties"].as_object() {
            return self.map(schema, &Value::Object(values.clone()), depth);
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let wanted = self.budget > 0 && self.random.usize(0..10) < if depth == 0 { 3 } else { 5 };
            if wanted || required.iter().any(|required| required == name) {
                object.insert(name.clone(), self.any(property, depth + 1));
            }
        }
        Value::Object(object)
    }

    fn map(&mut self, schema: &Value, values: &Value, depth: usize) -> Value {
        let mut map = Map::new();
        for number in 0..self.length(schema, "minProperties", "maxProperties") {
            let key = self.text(&json!({"maxLength": 128}));
            // Texts repeat, so numbers make the keys unique.
            map.insert(if number > 3 { format!("{key}{number}") } else { key }, self.any(values, depth + 1));
        }
        Value::Object(map)
    }

    fn list(&mut self, schema: &Value, depth: usize) -> Value {
        let length = self.length(schema, "minItems", "maxItems");
        Value::Array((0..length).map(|_| self.any(&schema["items"], depth + 1)).collect())
    }

    /// The number of entries: mostly few, at times zero or the most that the schema allows.
    fn length(&mut self, schema: &Value, least: &str, most: &str) -> usize {
        let least = bound(schema, least).unwrap_or(0);
        let most = bound(schema, most).unwrap_or(MANY).max(least);
        let length = match self.random.u8(0..20) {
            0 => most,
            1..5 => least,
            _ => self.random.usize(1..=3),
        };
        if self.budget == 0 { least } else { length.clamp(least, most) }
    }

    /// A text: meaningful, odd, or of the greatest allowed length.
    fn text(&mut self, schema: &Value) -> String {
        let least = bound(schema, "minLength").unwrap_or(0);
        let most = bound(schema, "maxLength").unwrap_or(LONG_TEXT).max(least);
        let text = match self.random.u8(0..20) {
            _ if self.budget == 0 => String::new(),
            0 => "\u{1f980}".repeat(most.min(self.budget / 4)),
            1 => "x".repeat(most.min(self.budget)),
            2..10 if !self.words.is_empty() => self.random.choice(&self.words).cloned().unwrap_or_default(),
            _ => self.random.choice(ODD_TEXTS).unwrap_or_default().to_owned(),
        };
        let missing = least.saturating_sub(text.chars().count());
        let text: String = text.chars().take(most).chain(std::iter::repeat_n('y', missing)).collect();
        self.budget = self.budget.saturating_sub(text.len());
        text
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let (lowest, highest) = match schema["format"].as_str() {
            Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let lowest = schema["minimum"].as_i64().unwrap_or(lowest);
        let highest = schema["maximum"].as_i64().unwrap_or(highest);
        let inner = [0, 1, -1, 22, 65_535, self.random.i64(..)];
        let inner = inner.into_iter().filter(|number| (lowest..=highest).contains(number));
        let numbers: Vec<i64> = inner.chain([lowest, highest]).collect();
        json!(self.random.choice(numbers).unwrap_or(lowest))
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.random.u32(0..many) == 0
    }
}

fn bound(schema: &Value, name: &str) -> Option<usize> {
    schema[name].as_u64().and_then(|bound| usize::try_from(bound).ok())
}

/// Removes from an object the value that its API server refused, by the path in the refusal, e.g. `spec.subnets[2].id`
/// or `spec.tags[a.b]`, or the ancestor `parents` levels above it. Returns whether the path existed.
pub fn remove(object: &mut Value, path: &str, parents: usize) -> bool {
    let mut steps = steps(object, path);
    steps.truncate(steps.len().saturating_sub(parents));
    let Some((last, way)) = steps.split_last() else {
        return false;
    };
    let mut holder = object;
    for step in way {
        holder = match step {
            Step::Field(name) => &mut holder[name.as_str()],
            Step::Entry(index) => &mut holder[*index],
        };
    }
    match (last, holder) {
        (Step::Field(name), Value::Object(fields)) => fields.remove(name).is_some(),
        (Step::Entry(index), Value::Array(entries)) if *index < entries.len() => {
            entries.remove(*index);
            true
        }
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Entry(usize),
}

/// The steps of the path that exist in the object; keys may contain the separators of steps.
fn steps(object: &Value, path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut here, mut rest) = (object, path);
    loop {
        rest = rest.trim_start_matches(['.', '[']);
        let next = match here {
            Value::Object(fields) => {
                let fitting = fields.keys().filter(|key| !key.is_empty() && rest.starts_with(key.as_str()));
                let longest = fitting.max_by_key(|key| key.len());
                longest.map(|key| (Step::Field(key.clone()), key.len()))
            }
            Value::Array(entries) => {
                let digits = rest.split(']').next().unwrap_or_default();
                let index = digits.parse().ok().filter(|index| *index < entries.len());
                index.map(|index| (Step::Entry(index), digits.len()))
            }
            _ => None,
        };
        let Some((step, length)) = next else {
            return steps;
        };
        here = match &step {
            Step::Field(name) => &here[name.as_str()],
            Step::Entry(index) => &here[*index],
        };
        steps.push(step);
        rest = rest.get(length..).unwrap_or_default().trim_start_matches(']');
    }
}
