//! Which crates are there, and whom do they see?
//!
//! Read from the manifests themselves: cargo's own answer would not say whether a dependency is
//! for tests only without being asked for the whole graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result};
use toml::Table;

use crate::repo::Repo;

/// One crate of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Crate {
    /// Its folder below `crates/`, or `xtask`.
    pub folder: String,
    pub package: String,
    /// Crates of ours that it is built with.
    pub sees: BTreeSet<String>,
    /// Crates of ours that only its tests see.
    pub tests_see: BTreeSet<String>,
    /// Crates of others that it is built with.
    pub foreign: BTreeSet<String>,
    pub features: BTreeSet<String>,
}

/// All crates, in the order of their names.
pub fn crates(repo: &Repo) -> Result<Vec<Crate>> {
    let root: Table = repo.read("Cargo.toml")?.parse().context("parse Cargo.toml")?;
    let ours = our_names(&root);
    let mut folders = vec!["xtask".to_owned()];
    for entry in fs::read_dir(repo.path("crates")).context("list crates/")? {
        let path = entry.context("list crates/")?.path();
        if path.join("Cargo.toml").is_file()
            && let Some(name) = path.file_name()
        {
            folders.push(format!("crates/{}", name.to_string_lossy()));
        }
    }
    folders.sort();
    folders.iter().map(|folder| one(repo, folder, &ours)).collect()
}

/// The names under which the root offers our own crates, and the folders they stand for.
fn our_names(root: &Table) -> BTreeMap<String, String> {
    let table = root.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let Some(table) = table.and_then(toml::Value::as_table) else { return BTreeMap::new() };
    let ours = table.iter().filter_map(|(name, value)| {
        let path = value.get("path")?.as_str()?;
        Some((name.clone(), path.strip_prefix("crates/")?.to_owned()))
    });
    ours.collect()
}

fn one(repo: &Repo, folder: &str, ours: &BTreeMap<String, String>) -> Result<Crate> {
    let path = format!("{folder}/Cargo.toml");
    let manifest: Table = repo.read(&path)?.parse().with_context(|| format!("parse {path}"))?;
    Ok(parse(folder, &manifest, ours))
}

fn parse(folder: &str, manifest: &Table, ours: &BTreeMap<String, String>) -> Crate {
    let name = folder.strip_prefix("crates/").unwrap_or(folder);
    let mut found = Crate { folder: name.to_owned(), ..Crate::default() };
    if let Some(package) = manifest.get("package").and_then(|package| package.get("name")) {
        found.package = package.as_str().unwrap_or_default().to_owned();
    }
    if let Some(features) = manifest.get("features").and_then(toml::Value::as_table) {
        found.features = features.keys().cloned().collect();
    }
    add_tables(&mut found, manifest, ours);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    for target in targets.into_iter().flat_map(|targets| targets.values()) {
        if let Some(table) = target.as_table() {
            add_tables(&mut found, table, ours);
        }
    }
    found
}

fn add_tables(found: &mut Crate, table: &Table, ours: &BTreeMap<String, String>) {
    for (kind, tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        let Some(dependencies) = table.get(kind).and_then(toml::Value::as_table) else { continue };
        for (name, value) in dependencies {
            let by_path = value.get("path").and_then(toml::Value::as_str);
            let by_path = by_path.and_then(|path| path.rsplit('/').next()).map(str::to_owned);
            match by_path.or_else(|| ours.get(name).cloned()) {
                Some(crate_name) if tests => found.tests_see.insert(crate_name),
                Some(crate_name) => found.sees.insert(crate_name),
                None if tests => continue,
                None => found.foreign.insert(name.clone()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_ours_is_known_by_its_alias_and_by_its_path() {
        let root: Table = "[workspace.dependencies]\n\
             types = { package = \"lycosa-types\", path = \"crates/types\" }\n\
             serde = \"1\""
            .parse()
            .unwrap();
        let manifest: Table = "[package]\nname = \"lycosa-x\"\n\
             [features]\nfailpoints = []\n\
             [dependencies]\ntypes.workspace = true\nserde.workspace = true\n\
             [target.'cfg(unix)'.dependencies]\nhidden = { path = \"../engine\" }\n\
             [dev-dependencies]\nsimweb = { path = \"../simweb\" }\nproptest = \"1\""
            .parse()
            .unwrap();
        let found = parse("crates/x", &manifest, &our_names(&root));
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(
            found,
            Crate {
                folder: "x".to_owned(),
                package: "lycosa-x".to_owned(),
                sees: set(&["types", "engine"]),
                tests_see: set(&["simweb"]),
                foreign: set(&["serde"]),
                features: set(&["failpoints"]),
            }
        );
    }
}
