//! An upper bound of the work of an evaluation, from the expression and the sizes of the source. The CEL interpreter
//! has no limit.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

/// Maximum work of one evaluation: visits of nodes of the expression, and copied parts of values. Work of this size
/// takes well under a second.
const WORK: u64 = 10_000_000;

/// Maximum size of a value that an evaluation creates, in nodes and characters.
const SIZE: u64 = 1 << 20;

/// Whether an evaluation stays within the limits for a source.
pub(crate) fn is_bounded(expression: &IdedExpr, object: &Value, data: &Value) -> bool {
    let mut variables = vec![("self", Shape::Input(vec![object])), ("data", Shape::Input(vec![data]))];
    let Estimate { shape, work } = estimate(expression, &mut variables);
    work.saturating_add(shape.size()) <= WORK && shape.size() <= SIZE
}

/// What is known about a value before the evaluation.
#[derive(Clone)]
enum Shape<'a> {
    /// One of these values of the source.
    Input(Vec<&'a Value>),
    /// A value that the expression creates.
    Made {
        /// The maximum size, in nodes and characters.
        size: u64,
        /// The maximum number of items or entries.
        length: u64,
        /// The items, if more than their size is known.
        item: Option<Box<Self>>,
    },
}

struct Estimate<'a> {
    shape: Shape<'a>,
    work: u64,
}

/// The shape with which a value in a comprehension's accumulator begins.
const EMPTY: Shape<'static> = Shape::Made { size: 0, length: 0, item: None };

/// The shape of a number or truth value.
const SCALAR: Shape<'static> = Shape::Made { size: 1, length: 0, item: None };

impl Shape<'_> {
    fn size(&self) -> u64 {
        match self {
            Self::Input(values) => values.iter().map(|value| size(value)).max().unwrap_or_default(),
            Self::Made { size, .. } => *size,
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Input(values) => values.iter().map(|value| length(value)).max().unwrap_or_default(),
            Self::Made { length, .. } => *length,
        }
    }

    /// The items of lists, and the values of objects under any key.
    fn items(&self) -> Self {
        match self {
            Self::Input(values) => Self::Input(values.iter().flat_map(|value| below(value)).collect()),
            Self::Made { item: Some(item), .. } => Self::clone(item),
            Self::Made { size, item: None, .. } => Self::anything_within(*size),
        }
    }

    /// The values over which comprehensions iterate: the items of lists, and the keys of objects.
    fn iterated(&self) -> Self {
        match self {
            Self::Input(values) => {
                let keys = values.iter().filter_map(|value| value.as_object()).flat_map(|object| object.keys());
                let longest = keys.map(|key| units(key.len())).max().unwrap_or_default();
                Self::joined(self.items(), Self::Made { size: longest.saturating_add(1), length: longest, item: None })
            }
            Self::Made { .. } => self.items(),
        }
    }

    fn field(&self, name: &str) -> Self {
        match self {
            Self::Input(values) => Self::Input(values.iter().filter_map(|value| value.get(name)).collect()),
            Self::Made { .. } => self.items(),
        }
    }

    fn anything_within(size: u64) -> Self {
        Self::Made { size, length: size, item: None }
    }

    /// Either of two values.
    fn joined(one: Self, other: Self) -> Self {
        match (one, other) {
            (Self::Input(mut one), Self::Input(other)) => {
                one.extend(other);
                Self::Input(one)
            }
            (one, other) => Self::Made {
                size: one.size().max(other.size()),
                length: one.length().max(other.length()),
                item: Some(Box::new(Self::anything_within(one.size().max(other.size())))),
            },
        }
    }
}

fn units(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Number of nodes and characters of a value.
fn size(value: &Value) -> u64 {
    let below = match value {
        Value::String(text) => units(text.len()),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| size(value) + units(key.len())).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    below + 1
}

fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => units(text.len()),
        Value::Array(items) => units(items.len()),
        Value::Object(fields) => units(fields.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn below(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => vec![],
    }
}

type Variables<'e, 'a> = Vec<(&'e str, Shape<'a>)>;

fn estimate<'e, 'a>(expression: &'e IdedExpr, variables: &mut Variables<'e, 'a>) -> Estimate<'a> {
    match &expression.expr {
        Expr::Literal(literal) => {
            let shape = match literal {
                LiteralValue::String(text) => Shape::anything_within(units(text.inner().len()).saturating_add(1)),
                _ => SCALAR,
            };
            Estimate { shape, work: 1 }
        }
        Expr::Ident(name) => {
            let variable = variables.iter().rev().find(|(known, _)| known == name);
            let shape = variable.map_or(SCALAR, |(_, shape)| shape.clone());
            Estimate { shape, work: 1 }
        }
        Expr::Select(select) => {
            let Estimate { shape, work } = estimate(&select.operand, variables);
            let shape = if select.test { SCALAR } else { shape.field(&select.field) };
            Estimate { shape, work: work.saturating_add(1) }
        }
        Expr::Call(call) => {
            let parts = call.target.as_deref().into_iter().chain(&call.args);
            let parts: Vec<_> = parts.map(|part| estimate(part, variables)).collect();
            called(&call.func_name, &parts)
        }
        Expr::List(list) => {
            let items: Vec<_> = list.elements.iter().map(|item| estimate(item, variables)).collect();
            collected(&items, items.iter())
        }
        Expr::Map(map) => {
            let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            });
            let parts: Vec<_> = entries.flatten().map(|part| estimate(part, variables)).collect();
            collected(&parts, parts.iter().skip(1).step_by(2))
        }
        Expr::Comprehension(inner) => comprehension(inner, variables),
        Expr::Struct(_) | Expr::Unspecified => Estimate { shape: SCALAR, work: 1 },
    }
}

/// A list or object of these parts. `items` are the values in the list or object.
fn collected<'p, 'a: 'p>(parts: &[Estimate<'a>], items: impl Iterator<Item = &'p Estimate<'a>>) -> Estimate<'a> {
    let size = sum(parts.iter().map(|part| part.shape.size())).saturating_add(1);
    let work = sum(parts.iter().map(|part| part.work)).saturating_add(size);
    let item = items.map(|item| item.shape.clone()).reduce(Shape::joined);
    Estimate { shape: Shape::Made { size, length: units(parts.len()), item: item.map(Box::new) }, work }
}

fn called<'a>(function: &str, parts: &[Estimate<'a>]) -> Estimate<'a> {
    let sizes = sum(parts.iter().map(|part| part.shape.size()));
    let before = sum(parts.iter().map(|part| part.work)).saturating_add(1);
    let shape = |number: usize| parts.get(number).map_or(SCALAR, |part| part.shape.clone());
    match function {
        operators::CONDITIONAL => Estimate { shape: Shape::joined(shape(1), shape(2)), work: before },
        operators::INDEX => Estimate { shape: shape(0).items(), work: before },
        operators::ADD => Estimate {
            shape: Shape::Made {
                size: sizes,
                length: sum(parts.iter().map(|part| part.shape.length())),
                item: Some(Box::new(Shape::joined(shape(0).items(), shape(1).items()))),
            },
            work: before.saturating_add(sizes),
        },
        "string" => {
            Estimate { shape: Shape::anything_within(sizes.saturating_add(32)), work: before.saturating_add(sizes) }
        }
        // Comparisons and predicates read all of their arguments at most once, but `in` compares with each item.
        operators::IN => Estimate {
            shape: SCALAR,
            work: before
                .saturating_add(sizes.saturating_mul(2))
                .saturating_add(shape(0).size().saturating_mul(shape(1).length())),
        },
        _ => Estimate { shape: SCALAR, work: before.saturating_add(sizes) },
    }
}

/// The work of `map`, `filter` and the other macros. The step of a macro adds something to the accumulator, so what one
/// step adds to an empty accumulator bounds what each step adds.
fn comprehension<'e, 'a>(inner: &'e ComprehensionExpr, variables: &mut Variables<'e, 'a>) -> Estimate<'a> {
    let range = estimate(&inner.iter_range, variables);
    let start = estimate(&inner.accu_init, variables);
    let times = range.shape.length();
    let outside = variables.len();
    variables.push((&inner.iter_var, range.shape.iterated()));
    variables.extend(inner.iter_var2.as_deref().map(|name| (name, range.shape.items())));
    variables.push((&inner.accu_var, EMPTY));
    let step = estimate(&inner.loop_step, variables).shape;
    let accumulated = Shape::Made {
        size: start.shape.size().saturating_add(times.saturating_mul(step.size())),
        length: start.shape.length().saturating_add(times.saturating_mul(step.length())),
        item: Some(Box::new(step.items())),
    };
    variables.pop();
    variables.push((&inner.accu_var, accumulated));
    let condition = estimate(&inner.loop_cond, variables).work;
    let once = estimate(&inner.loop_step, variables).work.saturating_add(condition);
    let result = estimate(&inner.result, variables);
    variables.truncate(outside);
    let work = [range.work, range.shape.size(), start.work, times.saturating_mul(once), result.work];
    Estimate { shape: result.shape, work: sum(work.into_iter()) }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use cel::Program;
    use serde_json::json;

    use super::*;

    fn bounded(text: &str, object: &Value) -> bool {
        is_bounded(Program::compile(text).unwrap().expression(), object, &json!({}))
    }

    #[test]
    fn ordinary_mappings_of_ordinary_objects_are_bounded() {
        let subnets: Vec<Value> =
            (0..200).map(|number| json!({"id": format!("subnet-{number}"), "zone": "a"})).collect();
        let object = json!({
            "status": {"subnets": subnets, "conditions": [{"type": "Ready", "status": "True"}]},
            "metadata": {"annotations": {"x": "y".repeat(100_000)}},
        });
        for text in [
            "self.status.subnets.map(s, {'id': s.id, 'availabilityZone': s.zone, 'public': s.zone == 'a'})",
            "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
            "self.status.subnets.filter(s, s.zone == 'a').map(s, s.id)",
            "self.status.conditions.map(c, self.status.subnets.map(s, s.id + c.type))[0]",
        ] {
            assert!(bounded(text, &object), "{text}");
        }
    }

    #[test]
    fn expressions_that_would_run_for_ever_are_not_bounded() {
        let many: Vec<u32> = (0..20_000).collect();
        let object = json!({"many": many, "big": "x".repeat(200_000), "few": [1, 2, 3]});
        let doubled = format!("[self.big]{}", ".map(x, x + x)".repeat(40));
        let listed = format!("[self.few]{}", ".map(x, [x, x, x, x])".repeat(40));
        for text in [
            "self.many.map(a, self.many.map(b, a + b))",
            "self.many.filter(a, self.many.exists(b, b == a))",
            "self.many.map(a, self.big)",
            doubled.as_str(),
            listed.as_str(),
        ] {
            assert!(!bounded(text, &object), "{text}");
        }
        assert!(bounded("self.few.map(a, self.few.map(b, a + b))", &object));
    }
}
