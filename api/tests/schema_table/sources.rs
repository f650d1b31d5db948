//! Finds tests in the sources of the workspace, so that a table can name tests and notice when they are removed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A test function.
#[derive(Default)]
pub(crate) struct Test {
    /// The strings in its body.
    strings: BTreeSet<String>,
    /// Whether it calls anything that asserts.
    asserts: bool,
}

impl Test {
    /// The test `name` of a source file, given from the root of the workspace. `Err` says why no such test runs.
    pub(crate) fn find(file: &str, name: &str) -> Result<Self, String> {
        let path = workspace().join(file);
        if !is_compiled(&path) {
            return Err(format!("{file} is no module of any crate"));
        }
        let body = test_body(tokens(&path)?, name);
        let body = body.ok_or_else(|| format!("{file} has no test {name} that always runs"))?;
        let mut test = Self::default();
        test.read(body);
        Ok(test)
    }

    /// Whether the body has this string and asserts something.
    pub(crate) fn speaks_of(&self, path: &str) -> bool {
        self.asserts && self.strings.contains(path)
    }

    fn read(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(ident) => self.asserts |= ident.to_string().starts_with("assert"),
                TokenTree::Literal(literal) => {
                    let literal = literal.to_string();
                    let text = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                    self.strings.extend(text.map(str::to_owned));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn tokens(path: &Path) -> Result<TokenStream, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether a file is the root of a crate, or is declared by a module that is compiled itself.
fn is_compiled(path: &Path) -> bool {
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem().and_then(|stem| stem.to_str())) else {
        return false;
    };
    if !path.exists() || ["lib", "main"].contains(&stem) || holds_test_programs(folder) {
        return path.exists();
    }
    let (module, folder) = match (stem, folder.file_name().and_then(|name| name.to_str()), folder.parent()) {
        ("mod", Some(name), Some(above)) => (name, above),
        _ => (stem, folder),
    };
    let beside = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name));
    let mut parents: Vec<PathBuf> = beside.into_iter().chain([folder.with_extension("rs")]).collect();
    if holds_test_programs(folder) {
        let programs = fs::read_dir(folder).into_iter().flatten();
        parents.extend(programs.filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_file())));
    }
    let mut parents = parents.iter().filter(|parent| *parent != path && parent.exists());
    parents.any(|parent| tokens(parent).is_ok_and(|tokens| declares(tokens, module)) && is_compiled(parent))
}

/// Whether every source file of a folder is a separate test program.
fn holds_test_programs(folder: &Path) -> bool {
    folder.ends_with("tests") && folder.with_file_name("Cargo.toml").exists()
}

/// Whether a file says `mod name;`.
fn declares(tokens: TokenStream, name: &str) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    tokens.windows(3).any(|three| {
        let words: Vec<String> = three.iter().map(ToString::to_string).collect();
        words == ["mod", name, ";"]
    })
}

/// The body of a function that is a test and is not ignored, in this module or one inside it.
fn test_body(tokens: TokenStream, name: &str) -> Option<TokenStream> {
    let mut attributes: Vec<String> = Vec::new();
    let mut is_test = false;
    let mut previous = String::new();
    for token in tokens {
        match &token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && previous == "#" => {
                attributes.push(group.stream().to_string());
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if is_test {
                    return Some(group.stream());
                }
                attributes.clear();
                if let Some(body) = test_body(group.stream(), name) {
                    return Some(body);
                }
            }
            TokenTree::Ident(ident) if previous == "fn" => {
                let runs = attributes.iter().any(|attribute| attribute.ends_with("test"))
                    && !attributes
                        .iter()
                        .any(|attribute| attribute.starts_with("ignore") || attribute.starts_with("cfg"));
                is_test = *ident == name && runs;
            }
            _ => {}
        }
        previous = token.to_string();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(source: &str) -> Option<TokenStream> {
        test_body(source.parse().unwrap(), "wanted")
    }

    #[test]
    fn only_a_test_that_runs_is_found() {
        assert!(find("#[test] fn wanted() { assert!(true) }").is_some());
        assert!(find("mod inner { #[tokio::test] async fn wanted() -> Result<()> { assert!(true) } }").is_some());
        assert!(find("struct S { a: u8 } fn helper() {} #[test] fn wanted() { assert!(true) }").is_some());
        for not_run in [
            "fn wanted() { assert!(true) }",
            "#[test] fn other() {} fn wanted() {}",
            "#[test] #[ignore] fn wanted() {}",
            "#[cfg(never)] #[test] fn wanted() {}",
            "#[test] fn renamed() {}",
        ] {
            assert!(find(not_run).is_none(), "{not_run}");
        }
    }

    #[test]
    fn a_test_mentions_a_path_as_a_string_and_asserts() {
        let test = |source: &str| {
            let mut test = Test::default();
            test.read(source.parse().unwrap());
            test
        };
        assert!(
            test(r#"assert_effects(&[("rootVolume.size", "rootVolume: {size: 40}")])"#).speaks_of("rootVolume.size")
        );
        assert!(!test(r#"assert_effects(&[("rootVolume", "rootVolume.size: 40")])"#).speaks_of("rootVolume.size"));
        assert!(!test(r#"observed("rootVolume.size")"#).speaks_of("rootVolume.size"));
        assert!(!test(r#"assert!(true) // "rootVolume.size""#).speaks_of("rootVolume.size"));
    }

    #[test]
    fn a_file_that_no_module_declares_is_not_compiled() {
        assert!(is_compiled(&workspace().join("api/src/unsupported/tests.rs")));
        assert!(is_compiled(&workspace().join("api/tests/schema_table/sources.rs")));
        assert!(is_compiled(&workspace().join("e2e/tests/stories/api.rs")));
        assert!(!is_compiled(&workspace().join("api/tests/data/effects.rs")));
    }
}
