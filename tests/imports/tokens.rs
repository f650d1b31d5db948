//! The words and signs of a Rust source, without its comments and literals.

/// A word or a sign, with the number of its line, counted from 1. `::` is one sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'source> {
    pub(crate) text: &'source str,
    pub(crate) line: usize,
}

/// The words and signs of a source. A string that consists of a path (`"crate::lenient::list"`, as serde's attributes
/// have them) counts as this path; every other string, character, lifetime and comment is left out.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while !rest.is_empty() {
        let (length, code) = next(rest);
        let (text, after) = rest.split_at(length);
        if code {
            tokens.push(Token { text, line });
        } else if let Some(path) = quoted_path(text) {
            let segments = path
                .split_inclusive("::")
                .flat_map(|segment| match segment.strip_suffix("::") {
                    Some(word) => vec![word, "::"],
                    None => vec![segment],
                });
            tokens.extend(segments.map(|text| Token { text, line }));
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// How long the first thing of a source is, and whether it is code.
fn next(source: &str) -> (usize, bool) {
    let first = source.chars().next().unwrap();
    if source.starts_with("//") {
        (source.find('\n').unwrap_or(source.len()), false)
    } else if source.starts_with("/*") {
        (block_comment(source), false)
    } else if let Some(length) = string(source) {
        (length, false)
    } else if first == '\'' {
        (character_or_lifetime(source), false)
    } else if is_word(first) {
        (source.find(|sign| !is_word(sign)).unwrap_or(source.len()), true)
    } else if source.starts_with("::") {
        (2, true)
    } else {
        (first.len_utf8(), !first.is_whitespace())
    }
}

fn is_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

fn block_comment(source: &str) -> usize {
    let (mut depth, mut length) = (0_usize, 0);
    loop {
        let rest = &source[length..];
        match rest {
            "" => return length,
            _ if rest.starts_with("/*") => depth += 1,
            _ if rest.starts_with("*/") => depth -= 1,
            _ => {
                length += rest.chars().next().unwrap().len_utf8();
                continue;
            }
        }
        length += 2;
        if depth == 0 {
            return length;
        }
    }
}

/// The length of the string literal that a source begins with: plain, byte, C or raw.
fn string(source: &str) -> Option<usize> {
    let prefix = source
        .find(|sign| !matches!(sign, 'b' | 'c' | 'r'))
        .filter(|length| *length <= 2)?;
    let hashes = source[prefix..].find(|sign| sign != '#')?;
    let raw = source[..prefix].ends_with('r');
    let start = prefix + hashes + 1;
    if !source[prefix + hashes..].starts_with('"') || (hashes > 0 && !raw) {
        return None;
    }
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(start + source[start..].find(&end)? + end.len());
    }
    Some(start + end_of_escaped(&source[start..], '"'))
}

/// The length of the text up to and with the first quote that no backslash escapes.
fn end_of_escaped(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, sign) in text.char_indices() {
        match sign {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if sign == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn character_or_lifetime(source: &str) -> usize {
    let mut after = source.chars().skip(1);
    let (first, second) = (after.next(), after.next());
    if first == Some('\\') || second == Some('\'') {
        return 1 + end_of_escaped(&source[1..], '\'');
    }
    source[1..]
        .find(|sign| !is_word(sign))
        .map_or(source.len(), |length| length + 1)
}

fn quoted_path(literal: &str) -> Option<&str> {
    let path = literal.strip_prefix('"')?.strip_suffix('"')?;
    let words = path
        .split("::")
        .all(|word| !word.is_empty() && word.chars().all(is_word));
    (words && path.contains("::")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn tokens_are_words_and_signs_of_code_only() {
        let cases = [
            ("use a::{b, c};", "use a :: { b , c } ;"),
            ("a // use b\nc", "a c"),
            ("a /* b /* c */ d */ e", "a e"),
            (r#"a("use b \" c", b"d", 'e', '\'', '"') f"#, "a ( , , , , ) f"),
            ("a(r#\"use \"b\" \"#, r\"\\\") c", "a ( , ) c"),
            ("fn a<'b>(c: &'b str) -> d", "fn a < > ( c : & str ) - > d"),
            (
                r#"#[serde(with = "crate::a::b", rename = "a-b")]"#,
                "# [ serde ( with = crate :: a :: b , rename = ) ]",
            ),
            ("brace(b, c)", "brace ( b , c )"),
        ];
        for (source, expected) in cases {
            let texts: Vec<&str> = tokens(source).iter().map(|token| token.text).collect();
            assert_eq!(texts.join(" "), expected, "{source}");
        }
    }

    #[test]
    fn tokens_know_their_lines() {
        let lines: Vec<usize> = tokens("a\n/* \n */ b \"\n\"\nc")
            .iter()
            .map(|token| token.line)
            .collect();
        assert_eq!(lines, [1, 3, 5]);
    }
}
