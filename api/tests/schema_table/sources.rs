//! Finds tests in the sources of the workspace, so that a table can name them and notice when they go.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A test function: the words of its body, without underscores and in lower case.
pub(crate) struct Test {
    words: BTreeSet<String>,
}

impl Test {
    /// The test `name` of a source file, given from the root of the workspace. `Err` says why there is none that runs.
    pub(crate) fn find(file: &str, name: &str) -> Result<Self, String> {
        let path = workspace().join(file);
        if !is_compiled(&path) {
            return Err(format!("{file} is no module of any crate"));
        }
        let body = test_body(tokens(&path)?, name);
        let body = body.ok_or_else(|| format!("{file} has no test {name} that always runs"))?;
        let mut words = BTreeSet::new();
        collect_words(body, &mut words);
        Ok(Self { words })
    }

    /// Whether the body names all parts of a path, in strings or as Rust fields, and asserts something.
    pub(crate) fn speaks_of(&self, path: &str) -> bool {
        let parts = path.split(['.', '[', ']', '{', '}']).filter(|part| !part.is_empty());
        let asserts = self.words.iter().any(|word| word.starts_with("assert"));
        asserts && parts.map(plain).all(|part| self.words.contains(&part))
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

/// Whether every source file of a folder is a test program of its own.
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

fn collect_words(tokens: TokenStream, words: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_words(group.stream(), words),
            TokenTree::Ident(ident) => {
                words.insert(plain(&ident.to_string()));
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let inner = text.split(|character: char| !character.is_alphanumeric() && character != '_');
                words.extend(inner.filter(|word| !word.is_empty()).map(plain));
            }
            TokenTree::Punct(_) => {}
        }
    }
}

/// A word as it is compared: `provider_id` and `providerID` are one.
fn plain(word: &str) -> String {
    word.replace('_', "").to_lowercase()
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
    fn a_test_speaks_of_a_path_if_it_names_all_parts_and_asserts() {
        let test = |source: &str| {
            let mut words = BTreeSet::new();
            collect_words(source.parse().unwrap(), &mut words);
            Test { words }
        };
        assert!(test(r#"assert_eq!(pass("rootVolume: {size: 40}"), 40)"#).speaks_of("rootVolume.size"));
        assert!(test("spec.provider_id = x; assert!(y)").speaks_of("providerID"));
        assert!(!test(r#"assert_eq!(pass("rootVolume: {sizes: 40}"), 40)"#).speaks_of("rootVolume.size"));
        assert!(!test(r#"pass("rootVolume: {size: 40}")"#).speaks_of("rootVolume.size"));
    }

    #[test]
    fn a_file_that_no_module_declares_is_not_compiled() {
        assert!(is_compiled(&workspace().join("api/src/unsupported/tests.rs")));
        assert!(is_compiled(&workspace().join("api/tests/schema_table/sources.rs")));
        assert!(is_compiled(&workspace().join("e2e/tests/stories/api.rs")));
        assert!(!is_compiled(&workspace().join("api/tests/data/effects.rs")));
    }
}
