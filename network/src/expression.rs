//! CEL expressions of AWSNetworkMappings, within limits.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};
use cel::{Context, ExecutionError, Program};
use serde_json::Value;

use crate::deep_stack::on_deep_stack;
use crate::work;

/// The variables of an expression.
const VARIABLES: [&str; 2] = ["self", "data"];

/// The operators and functions that an expression may call. The time of each is at most proportional to the size of its
/// arguments, and its result is at most as large as its arguments together.
const FUNCTIONS: [&str; 21] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::NOT_STRICTLY_FALSE,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::ADD,
    operators::SUBSTRACT,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "string",
];

/// Maximum number of nested comprehensions (`map`, `filter`, `exists` and so on).
const NESTED_COMPREHENSIONS: usize = 2;

/// Maximum depth of the syntax tree. An evaluation recurses to this depth.
const DEPTH: usize = 48;

/// Maximum number of opening brackets in a text. The time of the parser grows with their nesting.
const BRACKETS: usize = 128;

/// Maximum nesting of brackets in a text.
const NESTED_BRACKETS: usize = 24;

/// An expression that compiles.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
}

/// The reason why an evaluation has no value. The reason never contains a value of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoValue {
    /// The source lacks a key or an item that the expression reads.
    Missing,
    /// A value of the source does not have the type that the expression expects.
    WrongType,
    /// The evaluation would take too much work for this source.
    TooMuchWork,
}

impl Expression {
    /// Compiles a text.
    ///
    /// # Errors
    /// A message for the administrator: the text is not valid CEL, or exceeds a limit.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        check_brackets(text)?;
        let compiled = on_deep_stack(|| {
            let program = Program::compile(text).map_err(|errors| first_line(&errors.to_string()))?;
            check(program.expression(), &mut Vec::new(), 0, 0)?;
            Ok(Self { program })
        });
        compiled.unwrap_or_else(|| Err("the parser has failed on the expression".to_owned()))
    }

    /// The value of the expression for a source.
    pub(crate) fn evaluate(&self, object: &Value, data: &Value) -> Result<Value, NoValue> {
        if !work::is_bounded(self.program.expression(), object, data) {
            return Err(NoValue::TooMuchWork);
        }
        let mut context = Context::default();
        let added = context.add_variable("self", object);
        let added = added.and_then(|()| context.add_variable("data", data));
        added.map_err(|_| NoValue::WrongType)?;
        let value = self.program.execute(&context).map_err(|error| match error {
            ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_) => NoValue::Missing,
            _ => NoValue::WrongType,
        })?;
        value.json().map_err(|_| NoValue::WrongType)
    }
}

/// The first line of the parser's message. The other lines quote the expression.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

/// Checks the nesting of a text before the parser sees it. Brackets in string literals count too.
fn check_brackets(text: &str) -> Result<(), String> {
    let (mut open, mut all) = (0_usize, 0_usize);
    for character in text.chars() {
        match character {
            '(' | '[' | '{' => (open, all) = (open + 1, all + 1),
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > NESTED_BRACKETS {
            return Err(format!("more than {NESTED_BRACKETS} brackets are nested"));
        }
    }
    if all > BRACKETS {
        return Err(format!("there are more than {BRACKETS} brackets"));
    }
    Ok(())
}

/// Checks a syntax tree against the limits. `bound` are the variables of the comprehensions around it.
fn check<'a>(
    expression: &'a IdedExpr,
    bound: &mut Vec<&'a str>,
    depth: usize,
    comprehensions: usize,
) -> Result<(), String> {
    if depth > DEPTH {
        return Err(format!("operators and calls are nested more than {DEPTH} times"));
    }
    let each = |expression: &'a IdedExpr, bound: &mut Vec<&'a str>| check(expression, bound, depth + 1, comprehensions);
    match &expression.expr {
        Expr::Literal(_) => Ok(()),
        Expr::Ident(name) => {
            let is_known = VARIABLES.contains(&name.as_str()) || bound.contains(&name.as_str());
            is_known.then_some(()).ok_or_else(|| format!("there is no variable {name}: there are self and data"))
        }
        Expr::Select(select) => each(&select.operand, bound),
        Expr::Call(call) => {
            if !FUNCTIONS.contains(&call.func_name.as_str()) {
                return Err(format!("the function {} is not available", call.func_name));
            }
            let mut parts = call.target.as_deref().into_iter().chain(&call.args);
            parts.try_for_each(|part| each(part, bound))
        }
        Expr::List(list) => list.elements.iter().try_for_each(|element| each(element, bound)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => each(&entry.key, bound).and_then(|()| each(&entry.value, bound)),
            EntryExpr::StructField(_) => Err("messages are not available".to_owned()),
        }),
        Expr::Comprehension(inner) => {
            if comprehensions >= NESTED_COMPREHENSIONS {
                return Err(format!(
                    "more than {NESTED_COMPREHENSIONS} of map, filter, exists, exists_one and all are nested"
                ));
            }
            each(&inner.iter_range, bound)?;
            each(&inner.accu_init, bound)?;
            let outside = bound.len();
            bound.extend([inner.iter_var.as_str(), inner.accu_var.as_str()]);
            bound.extend(inner.iter_var2.as_deref());
            let parts = [&inner.loop_cond, &inner.loop_step, &inner.result];
            let checked = parts.into_iter().try_for_each(|part| check(part, bound, depth + 1, comprehensions + 1));
            bound.truncate(outside);
            checked
        }
        Expr::Struct(_) | Expr::Unspecified => Err("messages are not available".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str, object: &Value) -> Result<Value, NoValue> {
        Expression::compile(text).unwrap().evaluate(object, &json!({}))
    }

    #[test]
    fn an_expression_yields_json() {
        let object = json!({
            "spec": {"region": "eu-west-1", "count": 3},
            "subnets": [{"id": "a", "tier": "public"}, {"id": "b", "tier": "private"}],
        });
        let table = [
            ("self.spec.region", json!("eu-west-1")),
            ("'arn:' + self.spec.region", json!("arn:eu-west-1")),
            ("[self.spec.region]", json!(["eu-west-1"])),
            ("self.subnets.map(s, s.id)", json!(["a", "b"])),
            ("self.subnets.filter(s, s.tier == 'public').map(s, {'id': s.id})", json!([{"id": "a"}])),
            ("self.subnets.map(s, {'id': s.id, 'public': s.tier == 'public'})[1].public", json!(false)),
            ("self.subnets.exists(s, s.id == 'b') && size(self.subnets) == 2", json!(true)),
            ("has(self.spec.zone) ? self.spec.zone : 'none'", json!("none")),
            ("'a' in self.subnets.map(s, s.id)", json!(true)),
            ("self.spec.count", json!(3)),
            ("string(self.spec.count)", json!("3")),
            ("self['spec']['region'].startsWith('eu')", json!(true)),
        ];
        for (text, expected) in table {
            assert_eq!(value(text, &object), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_missing_key_is_told_from_a_wrong_type() {
        let object = json!({"list": [], "text": "hunter2"});
        for text in ["self.absent", "self.absent.deeper", "self.list[0]", "[self.absent]"] {
            assert_eq!(value(text, &object), Err(NoValue::Missing), "{text}");
        }
        for text in ["self.text.map(x, x)", "self.text + 1", "self.list < 'a'"] {
            assert_eq!(value(text, &object), Err(NoValue::WrongType), "{text}");
        }
    }

    #[test]
    fn a_text_beyond_the_limits_does_not_compile() {
        let nested = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
        let table = [
            ("self.".to_owned(), "ERROR"),
            (nested("(", ")", 600), "brackets are nested"),
            (nested("[", "]", 600), "brackets are nested"),
            ("[],".repeat(300), "more than 128 brackets"),
            (format!("self{}", ".a".repeat(900)), "nested more than"),
            (format!("{}1", "true ? 1 : ".repeat(180)), "Recursion limit"),
            (format!("1{}", " + 1".repeat(500)), "nested more than"),
            ("self.a.map(x, self.a.map(y, self.a.map(z, z)))".to_owned(), "are nested"),
            ("self.a.matches('(a+)+$')".to_owned(), "matches is not available"),
            ("other.region".to_owned(), "no variable other"),
            ("x.map(x, x)".to_owned(), "no variable x"),
            ("duration('1h')".to_owned(), "duration is not available"),
        ];
        for (text, part) in table {
            let refused = Expression::compile(&text).unwrap_err();
            assert!(refused.contains(part), "{refused}: {}", text.get(..40).unwrap_or(&text));
            assert!(refused.len() < 300, "{refused}");
        }
    }
}
