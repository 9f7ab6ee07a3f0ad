//! Do documents speak of what exists?
//!
//! A path between backticks, the target of a link, a function named behind a path
//! (`engine/src/life.rs::visit`), every name in the drawn tree of ARCHITECTURE.md: all must be
//! there. Pages in `docs/decisions` are history and are never edited, so they may speak of what
//! is gone.

use std::collections::BTreeSet;

use crate::tidy::{Finding, Tree};

/// Endings that make a word a path even without a slash.
const ENDINGS: &[&str] = &["rs", "md", "toml", "py", "sh", "txt"];

/// First parts of a path below the document's own folder.
const OWN: &[&str] = &["src", "tests", "benches", "examples"];

/// Files of a crawl directory, which are not in this tree.
const OUTPUT: &[&str] = &["lycosa.toml"];

/// The tree is drawn in this document.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// `source` gives the text of a file, to look for a function in it.
pub fn check(
    path: &str,
    text: &str,
    tree: &Tree,
    source: &dyn Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    if path.starts_with("docs/decisions/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut fenced = false;
    for (n, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        let mut find = |what: String| findings.push(Finding::new(path, n + 1, what));
        for word in line.split('`').skip(1).step_by(2) {
            if let Err(what) = check_word(path, word, tree, source) {
                find(what);
            }
        }
        for target in link_targets(line) {
            if !link_exists(path, target, tree) {
                find(format!("the link to `{target}` leads nowhere"));
            }
        }
    }
    if path == ARCHITECTURE {
        findings.extend(check_tree(path, text, tree));
    }
    if path == "CHANGELOG.md" && !text.lines().any(is_unreleased) {
        findings.push(Finding::new(path, 0, "has no part `## Unreleased`"));
    }
    findings
}

/// Every crate has a README of its own.
pub fn missing_readmes(folders: &[&str], tree: &Tree) -> Vec<Finding> {
    let path = |folder: &&str| match *folder {
        "xtask" => "xtask/README.md".to_owned(),
        folder => format!("crates/{folder}/README.md"),
    };
    let missing = folders.iter().map(path).filter(|path| !tree.has(path));
    missing
        .map(|path| Finding::new(path, 0, "is missing: what, what not, where to start"))
        .collect()
}

fn is_unreleased(line: &str) -> bool {
    line.strip_prefix("## ").is_some_and(|title| title.trim_matches(['[', ']']) == "Unreleased")
}

fn check_word(
    document: &str,
    word: &str,
    tree: &Tree,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let (path, function) = match word.split_once("::") {
        Some((path, function)) if path.ends_with(".rs") => (path, Some(function)),
        Some(_) => return Ok(()),
        None => (word, None),
    };
    if !is_path(path, tree) {
        return Ok(());
    }
    let own = path.split('/').next().is_some_and(|first| OWN.contains(&first));
    let folder =
        document.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let near = format!("{folder}{path}");
    let exists = match path.split_once('*') {
        // Of a pattern only the folder before it is looked for.
        Some((before, _)) => {
            before.rsplit_once('/').is_none_or(|(folder, _)| tree.has_ending(folder))
        }
        None if own => tree.has(&near),
        None => tree.has(&near) || tree.has_ending(path),
    };
    if !exists {
        return Err(format!("`{path}` does not exist"));
    }
    let Some(function) = function else { return Ok(()) };
    let name = function.rsplit("::").next().unwrap_or(function).trim_end_matches("()");
    let ending = format!("/{path}");
    let mut files = tree.files.iter().filter(|file| **file == near || file.ends_with(&ending));
    let word = format!("fn {name}");
    let has = |text: String| {
        text.match_indices(&word).any(|(at, _)| {
            let next = text[at + word.len()..].chars().next();
            next.is_some_and(|next| next == '(' || next == '<')
        })
    };
    match files.any(|file| source(file).is_some_and(has)) {
        true => Ok(()),
        false => Err(format!("`{path}` has no function `{name}`")),
    }
}

/// Whether a word between backticks means a file or folder of this tree.
fn is_path(word: &str, tree: &Tree) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./*".contains(c);
    if !word.chars().all(plain) || word.contains("YYYY") || OUTPUT.contains(&word) {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    if let Some((stem, ending)) = name.rsplit_once('.')
        && !stem.is_empty()
        && ENDINGS.contains(&ending)
    {
        return true;
    }
    let Some((first, _)) = word.split_once('/') else { return false };
    !first.is_empty()
        && (OWN.contains(&first) || tree.has(first) || tree.has(&format!("crates/{first}")))
}

/// The targets of `[text](target)` that are paths.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices("](");
    ends.filter_map(move |(at, _)| {
        let target = line[at + 2..].split_once(')')?.0;
        let target = target.split('#').next().unwrap_or(target);
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

fn link_exists(document: &str, target: &str, tree: &Tree) -> bool {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            part => parts.push(part),
        }
    }
    tree.has(&parts.join("/"))
}

/// Every name in the drawn tree exists, and every crate is in it. A name's place is told by its
/// indentation; `src/` may be left out; a description follows after two blanks.
fn check_tree(path: &str, text: &str, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut drawn = BTreeSet::new();
    let mut folders: Vec<String> = Vec::new();
    let mut inside = false;
    for (n, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = false;
        } else if line == "lycosa/" {
            inside = true;
            folders.clear();
        }
        let Some(branch) = line.find("├── ").or(line.find("└── ")).filter(|_| inside)
        else {
            continue;
        };
        let depth = line[..branch].chars().count() / 4;
        let names = line[branch..].split_once("── ").map_or("", |(_, rest)| rest);
        let names = names.split("  ").next().unwrap_or(names);
        folders.truncate(depth);
        let parent = folders.last().map_or(String::new(), |folder| format!("{folder}/"));
        for name in names.split(' ').filter(|name| !name.is_empty()) {
            let name = name.trim_end_matches('/');
            let places = [format!("{parent}{name}"), format!("{parent}src/{name}")];
            match places.into_iter().find(|place| tree.has(place)) {
                Some(place) => {
                    drawn.insert(place.clone());
                    if folders.len() == depth {
                        folders.push(place);
                    }
                }
                None => {
                    let what = format!("the drawn tree has `{parent}{name}`, which does not exist");
                    findings.push(Finding::new(path, n + 1, what));
                }
            }
        }
    }
    let crates = tree
        .folders
        .iter()
        .filter(|folder| folder.strip_prefix("crates/").is_some_and(|name| !name.contains('/')));
    for missing in crates.filter(|folder| !drawn.contains(*folder)) {
        findings.push(Finding::new(path, 0, format!("the drawn tree does not show `{missing}`")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let files = [
            "README.md",
            "ARCHITECTURE.md",
            "docs/guide.md",
            "crates/engine/README.md",
            "crates/engine/src/life.rs",
            "crates/engine/src/stages/gate.rs",
            "crates/types/src/url.rs",
        ];
        Tree::of(files.iter().map(|&file| file.to_owned()).collect())
    }

    fn whats(path: &str, text: &str) -> Vec<String> {
        let source = |_: &str| Some("pub async fn visit(ctx: &Ctx) {}".to_owned());
        let findings = check(path, text, &tree(), &source);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    fn finds(path: &str, text: &str, word: &str) {
        let whats = whats(path, text);
        assert!(whats.len() == 1 && whats[0].contains(word), "{text}: {whats:?}");
    }

    fn passes(path: &str, text: &str) {
        assert_eq!(whats(path, text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn a_path_between_backticks_exists() {
        finds("README.md", "see `crates/engine/src/gone.rs`", "gone.rs");
        finds("README.md", "see `engine/gone`", "engine/gone");
        finds("README.md", "see `gone.md`", "gone.md");
        finds("crates/engine/README.md", "see `src/url.rs`", "src/url.rs");
        passes("README.md", "see `crates/engine/src/life.rs`, `engine/src/stages/`, `life.rs`");
        passes("crates/engine/README.md", "see `src/life.rs` and `types/src/url.rs`");
        passes(
            "README.md",
            "`text/html`, `archive/x.warc.gz`, `lycosa.toml`, `a::b`, `crates/*/src`",
        );
        passes("README.md", "```\n`crates/engine/src/gone.rs`\n```");
        passes("docs/decisions/2026-11-15-x.md", "see `crates/engine/src/gone.rs`");
    }

    #[test]
    fn a_function_behind_a_path_exists() {
        passes("README.md", "`engine/src/life.rs::visit`");
        finds("README.md", "`engine/src/life.rs::visi`", "no function `visi`");
        finds("README.md", "`engine/src/life.rs::Life::gone`", "no function `gone`");
    }

    #[test]
    fn a_link_leads_somewhere() {
        passes("README.md", "[guide](docs/guide.md#top) and [there](https://example.org/x)");
        passes("docs/guide.md", "[up](../README.md)");
        finds("docs/guide.md", "[up](README.md)", "nowhere");
        finds("README.md", "[out](../x.md)", "nowhere");
    }

    #[test]
    fn the_drawn_tree_is_the_real_one() {
        let tree = "```\nlycosa/\n├── crates/  parts\n│   ├── engine/  runs\n\
                    │   │   ├── life.rs stages/\n│   └── types/\n└── docs/\n    └── guide.md\n```";
        passes("ARCHITECTURE.md", tree);
        finds("ARCHITECTURE.md", &tree.replace("guide.md", "gone.md"), "gone.md");
        finds("ARCHITECTURE.md", &tree.replace("│   └── types/\n", ""), "crates/types");
    }

    #[test]
    fn the_changelog_has_a_place_for_what_comes_next() {
        passes("CHANGELOG.md", "# Changelog\n\n## Unreleased\n");
        passes("CHANGELOG.md", "## [Unreleased]\n");
        finds("CHANGELOG.md", "# Changelog\n\n## 0.1.0\n", "Unreleased");
    }

    #[test]
    fn a_crate_without_a_readme_is_found() {
        assert_eq!(missing_readmes(&["engine", "types"], &tree()).len(), 1);
        assert_eq!(missing_readmes(&["engine"], &tree()).len(), 0);
    }
}
