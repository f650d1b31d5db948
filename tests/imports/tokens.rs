//! The words and signs of a Rust source, without its comments and literals.

use proc_macro2::{Delimiter, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// A word or a sign, with the number of its line, counted from 1. `::` is one sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    fn new(text: impl Into<String>, span: Span) -> Self {
        Self { text: text.into(), line: span.start().line }
    }
}

/// The words and signs of a source. A string that consists of a path (`"crate::lenient::list"`, as serde's attributes
/// have them) counts as this path; every other literal is left out.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    flatten(source.parse().unwrap(), &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(word) => tokens.push(Token::new(word.to_string(), word.span())),
            TokenTree::Punct(sign) if is_path_separator(&sign, trees.peek()) => {
                trees.next();
                tokens.push(Token::new("::", sign.span()));
            }
            TokenTree::Punct(sign) => tokens.push(Token::new(sign.as_char(), sign.span())),
            TokenTree::Literal(literal) => tokens.extend(quoted_path(&literal)),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => continue,
                };
                tokens.push(Token::new(open, group.span_open()));
                flatten(group.stream(), tokens);
                tokens.push(Token::new(close, group.span_close()));
            }
        }
    }
}

/// Whether a sign is the first half of `::`.
fn is_path_separator(sign: &Punct, next: Option<&TokenTree>) -> bool {
    let is_joint = sign.as_char() == ':' && sign.spacing() == Spacing::Joint;
    is_joint && matches!(next, Some(TokenTree::Punct(next)) if next.as_char() == ':')
}

/// The words and signs of a string that consists of a path.
fn quoted_path(literal: &Literal) -> Vec<Token> {
    let text = literal.to_string();
    let path = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
    let words: Vec<&str> = path.split("::").collect();
    if words.len() < 2 || !words.iter().all(|word| is_word(word)) {
        return Vec::new();
    }
    let token = |text: &str| Token::new(text, literal.span());
    let separated = words.iter().flat_map(|word| [token("::"), token(word)]);
    separated.skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn tokens_are_words_and_signs_of_code_only() {
        let cases = [
            ("use a::{b, c};", "use a :: { b , c } ;"),
            ("a // use b\nc", "a c"),
            ("fn f(a: ::b::C) {}", "fn f ( a : :: b :: C ) { }"),
            ("a(\"use b\", r#\"use \"b\"\"#, b\"d\", 'e', 1) f", "a ( , , , , ) f"),
            (r#"#[serde(with = "crate::a::b", rename = "a-b")]"#, "# [ serde ( with = crate :: a :: b , rename = ) ]"),
        ];
        for (source, expected) in cases {
            let texts: Vec<String> = tokens(source).into_iter().map(|token| token.text).collect();
            assert_eq!(texts.join(" "), expected, "{source}");
        }
    }

    #[test]
    fn tokens_know_their_lines() {
        let lines: Vec<usize> = tokens("a\n/* \n */ b \"\n\"\nc").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }
}
