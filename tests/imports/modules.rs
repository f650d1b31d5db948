//! The modules of a crate: what each defines and imports, and in which file a path ends.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::Imports;
use crate::tokens::{Token, tokens};

/// Longer chains of re-exports are taken for a name that imports itself.
const MAX_CHAIN: usize = 12;

/// A path as it is written, with the line it stands on.
struct Path {
    segments: Vec<String>,
    line: usize,
}

/// A name that a `use` brings into a module; none for all names of the path (`*`).
struct Use {
    name: Option<String>,
    path: Path,
}

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths of two or more segments in its code.
    paths: Vec<Path>,
}

/// Where a path ends.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Module(usize),
    /// Something that this module defines.
    ItemOf(usize),
}

/// The modules of a crate; the first one is its root.
pub(crate) struct Crate {
    modules: Vec<Module>,
}

impl Crate {
    /// Reads `lib.rs` and every module that it declares, those for tests aside. `read` gives the text of a file.
    pub(crate) fn load(read: impl Fn(&str) -> Option<String>) -> Self {
        let mut loaded = Self { modules: Vec::new() };
        loaded.load_file("lib.rs", "", None, &read);
        loaded
    }

    /// `folder`: where the files of the children are, with a slash at its end.
    fn load_file(&mut self, file: &str, folder: &str, parent: Option<usize>, read: &dyn Fn(&str) -> Option<String>) {
        let source = read(file).unwrap_or_else(|| panic!("{file} cannot be read"));
        self.load_module(file, folder, parent, &tokens(&source), read);
    }

    fn load_module(
        &mut self,
        file: &str,
        folder: &str,
        parent: Option<usize>,
        tokens: &[Token],
        read: &dyn Fn(&str) -> Option<String>,
    ) {
        let here = self.modules.len();
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        let (mut at, mut depth) = (0, 0_usize);
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        while at < tokens.len() {
            match text(at) {
                "#" if is_for_tests(tokens, at) => {
                    at = end_of_item(tokens, at);
                    continue;
                }
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                "mod" if depth == 0 => {
                    let name = text(at + 1).to_owned();
                    let child = self.modules.len();
                    self.modules[here].children.insert(name.clone(), child);
                    let below = format!("{folder}{name}/");
                    if text(at + 2) == "{" {
                        let end = end_of_item(tokens, at);
                        self.load_module(file, &below, Some(here), &tokens[at + 3..end - 1], read);
                        at = end;
                        continue;
                    }
                    let files = [format!("{folder}{name}.rs"), format!("{below}mod.rs")];
                    let found = files.iter().find(|file| read(file).is_some());
                    let found = found.unwrap_or_else(|| panic!("{file}: no file of module {name}"));
                    self.load_file(found, &below, Some(here), read);
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" if depth == 0 => {
                    self.modules[here].items.insert(text(at + 1).to_owned());
                }
                "macro_rules" if depth == 0 => {
                    self.modules[here].items.insert(text(at + 2).to_owned());
                }
                "use" if text(at + 1) != "<" => {
                    let end = (at..tokens.len()).find(|end| text(*end) == ";").unwrap_or(tokens.len());
                    self.modules[here].uses.extend(use_tree(&[], &tokens[at + 1..end]));
                    at = end;
                    continue;
                }
                _ if text(at + 1) == "::" && (at == 0 || !["::", "."].contains(&text(at - 1))) => {
                    self.modules[here].paths.push(path_at(tokens, at));
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Which file imports which. An import of an ancestor module is left out.
    pub(crate) fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (here, module) in self.modules.iter().enumerate() {
            let from = imports.entry(module.file.clone()).or_default();
            for (path, glob) in module.all_paths() {
                let target = match self.resolve(here, &path.segments, 0) {
                    Some(Target::Module(target)) if glob => target,
                    Some(Target::ItemOf(target)) => target,
                    _ => continue,
                };
                let file = &self.modules[target].file;
                if *file != module.file && !self.is_ancestor(target, here) {
                    let line = from.entry(file.clone()).or_insert(path.line);
                    *line = path.line.min(*line);
                }
            }
        }
        imports
    }

    fn is_ancestor(&self, ancestor: usize, mut module: usize) -> bool {
        while let Some(parent) = self.modules[module].parent {
            if self.modules[parent].file == self.modules[ancestor].file {
                return true;
            }
            module = parent;
        }
        false
    }

    /// Where a path that stands in a module ends; nowhere for a path into another crate.
    fn resolve(&self, from: usize, segments: &[String], chain: usize) -> Option<Target> {
        let (first, mut rest) = segments.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.modules[from].parent?),
            name => self.lookup(from, name, rest.is_empty(), chain)?,
        };
        while let (Target::Module(module), Some((name, after))) = (target, rest.split_first()) {
            target = match name.as_str() {
                "super" => Target::Module(self.modules[module].parent?),
                // What a macro defines is not found: it is in this module or in the crate of the macro.
                name => self.lookup(module, name, after.is_empty(), chain).unwrap_or(Target::ItemOf(module)),
            };
            rest = after;
        }
        Some(target)
    }

    /// What a name means in a module. It may mean a module and a function: the function where the path ends.
    fn lookup(&self, module: usize, name: &str, ends: bool, chain: usize) -> Option<Target> {
        if chain == MAX_CHAIN {
            return None;
        }
        let within = &self.modules[module];
        let item = within.items.contains(name).then_some(Target::ItemOf(module));
        let child = within.children.get(name).map(|child| Target::Module(*child));
        let named = within.uses.iter().filter(|import| import.name.as_deref() == Some(name));
        let named = named.filter_map(|import| self.resolve(module, &import.path.segments, chain + 1));
        let globs = within.uses.iter().filter(|import| import.name.is_none());
        let globs = globs.filter_map(|glob| match self.resolve(module, &glob.path.segments, chain + 1)? {
            Target::Module(target) => self.lookup(target, name, ends, chain + 1),
            Target::ItemOf(_) => None,
        });
        let meanings: Vec<Target> = item.into_iter().chain(child).chain(named).chain(globs).collect();
        let wanted = meanings.iter().find(|target| matches!(target, Target::ItemOf(_)) == ends);
        wanted.or_else(|| meanings.first()).copied()
    }
}

impl Module {
    /// All paths of its code and imports, and whether all names at the path are meant.
    fn all_paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        let uses = self.uses.iter().map(|import| (&import.path, import.name.is_none()));
        uses.chain(self.paths.iter().map(|path| (path, false)))
    }
}

/// Whether an attribute begins here that keeps its item for tests.
fn is_for_tests(tokens: &[Token], at: usize) -> bool {
    let texts: Vec<&str> = tokens[at..].iter().take(6).map(|token| token.text.as_str()).collect();
    texts == ["#", "[", "cfg", "(", "test", ")"]
}

/// The place after the item that begins here: after its block, or its semicolon.
fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn path_at(tokens: &[Token], start: usize) -> Path {
    let mut segments = vec![tokens[start].text.clone()];
    let mut at = start + 1;
    while let [separator, segment, ..] = &tokens[at..]
        && separator.text == "::"
        && segment.text.starts_with(|sign: char| sign.is_alphabetic() || sign == '_')
    {
        segments.push(segment.text.clone());
        at += 2;
    }
    Path { segments, line: tokens[start].line }
}

/// The names that one tree of a `use` brings in: `a::b`, `a as b`, `a::*`, `a::{b, c::d, self}`.
fn use_tree(prefix: &[String], tree: &[Token]) -> Vec<Use> {
    let mut segments = prefix.to_vec();
    let mut rest = tree;
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        match token.text.as_str() {
            "::" => {}
            "{" => {
                let inner = &rest[..rest.len() - 1];
                return branches(inner).into_iter().flat_map(|branch| use_tree(&segments, branch)).collect();
            }
            "*" => {
                return vec![Use { name: None, path: Path { segments, line: token.line } }];
            }
            "as" => {
                let name = rest.first().map(|alias| alias.text.clone());
                return vec![Use { name, path: Path { segments, line: token.line } }];
            }
            "self" if !segments.is_empty() => {}
            word => segments.push(word.to_owned()),
        }
    }
    let Some(last) = tree.last() else {
        return Vec::new();
    };
    vec![Use { name: segments.last().cloned(), path: Path { segments, line: last.line } }]
}

/// The parts between the commas of a group.
fn branches(inner: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let split = inner.split(|token| {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    split.collect()
}

#[cfg(test)]
mod tests {
    use super::Crate;

    /// The imports of a crate of these files, as `from:line to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let read = |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned());
        let imports = Crate::load(read).imports();
        let lines =
            imports.iter().flat_map(|(from, to)| to.iter().map(move |(to, line)| format!("{from}:{line} {to}")));
        lines.collect()
    }

    /// A crate of three modules, of which `a` has this text.
    fn imports_of_a(text: &str) -> Vec<String> {
        imports(&[
            ("lib.rs", "pub struct Root; mod a; mod b; mod c;"),
            ("a.rs", text),
            ("b/mod.rs", "mod inner; mod more; pub use inner::{Inner, self as within}; pub use more::*; pub struct B;"),
            ("b/inner.rs", "pub struct Inner; pub enum Other { One }"),
            ("b/more.rs", "pub fn more() {} pub fn some() {}"),
            ("c.rs", "pub use crate::b::Inner as Outer; pub struct C;"),
        ])
        .into_iter()
        .filter(|line| line.starts_with("a.rs"))
        .collect()
    }

    #[test]
    fn imports_are_found_in_every_form() {
        let cases: [(&str, &[&str]); 20] = [
            ("use crate::b::B;", &["a.rs:1 b/mod.rs"]),
            ("use super::b::B;", &["a.rs:1 b/mod.rs"]),
            ("use crate::{c::C, b::{B as D}};", &["a.rs:1 b/mod.rs", "a.rs:1 c.rs"]),
            ("use crate::{\n  c::C,\n  b::B,\n};", &["a.rs:3 b/mod.rs", "a.rs:2 c.rs"]),
            ("use crate::b::Inner;", &["a.rs:1 b/inner.rs"]),
            ("use crate::c::Outer;", &["a.rs:1 b/inner.rs"]),
            ("use crate::b::within::Other::One;", &["a.rs:1 b/inner.rs"]),
            ("use crate::b::more;", &["a.rs:1 b/more.rs"]),
            ("use crate::b::more; fn f() { more::some() }", &["a.rs:1 b/more.rs"]),
            ("use crate::c::*;", &["a.rs:1 c.rs"]),
            ("use crate::b;\nfn f() { b::more() }", &["a.rs:2 b/more.rs"]),
            ("fn f() { crate::c::C; }", &["a.rs:1 c.rs"]),
            ("fn f() {\n  use super::c::C; C }", &["a.rs:2 c.rs"]),
            ("#[serde(with = \"crate::b::inner::Inner::new\")] struct A;", &["a.rs:1 b/inner.rs"]),
            ("mod x { use super::super::c::C; }", &["a.rs:1 c.rs"]),
            ("use crate::Root; use super::Root as R;", &[]),
            ("use std::c::C; use kube::b; // use crate::c::C;", &[]),
            ("#[cfg(test)] mod tests { use crate::c::C; } #[cfg(test)] use crate::b::B;", &[]),
            ("pub(in crate::b) fn f(c: C) -> impl Sized + use<'_> { c.b::<u8>() }", &[]),
            ("struct A; fn f() { A::b(); self::A::c(); }", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(imports_of_a(text), expected, "{text}");
        }
    }

    #[test]
    fn imports_of_children_count_and_those_of_ancestors_do_not() {
        let found = imports(&[
            ("lib.rs", "mod a; pub struct Root;"),
            ("a/mod.rs", "mod b; use b::B; pub struct A;"),
            ("a/b.rs", "use super::A; use crate::Root; pub struct B;"),
        ]);
        assert_eq!(found, ["a/mod.rs:1 a/b.rs"]);
    }
}
