//! Who may see whom?
//!
//! `types` ← pure crates ← `engine`; `types` ← `ports` ← `engine` and the adapters; everything ←
//! `lycosa`. A crate that is not in the table is not allowed to exist: whoever makes one says here
//! where it stands.

use crate::manifest::Crate;
use crate::tidy::Finding;

struct Rule {
    name: &'static str,
    sees: &'static [&'static str],
    /// Beside those, what its tests may see.
    tests_see: &'static [&'static str],
}

const fn rule(
    name: &'static str,
    sees: &'static [&'static str],
    tests_see: &'static [&'static str],
) -> Rule {
    Rule { name, sees, tests_see }
}

const RULES: &[Rule] = &[
    rule("types", &[], &[]),
    // Pure.
    rule("robots", &["types"], &[]),
    rule("warc", &["types"], &[]),
    rule("page", &["types", "robots"], &[]),
    rule("frontier", &["types"], &[]),
    // The line between.
    rule("ports", &["types"], &[]),
    rule(
        "engine",
        &["types", "robots", "warc", "page", "frontier", "ports"],
        // The simulation runs the real shard store over the memory engine.
        &["simweb", "local"],
    ),
    // Adapters: never the engine, never each other. What `local` archives is WARC, and it keeps prints
    // of texts, which `page` compares.
    rule("fetch", &["types", "ports"], &["simweb"]),
    rule("local", &["types", "ports", "warc", "page"], &["simweb"]),
    // Parquet, which nobody else needs.
    rule("tables", &["types", "ports", "warc"], &[]),
    rule("search", &["types", "ports"], &[]),
    // What others ask of us over a socket.
    rule("wire", &[], &[]),
    rule("service", &["types", "frontier", "ports", "engine", "wire"], &[]),
    // A web of our own; only tests, benches and `lycosa demo` see it.
    rule("simweb", &["types", "ports"], &["robots"]),
    // What takes input from outside is fuzzed; nobody but tests sees the fuzzer.
    rule("fuzz", &["types", "robots", "warc", "page", "ports", "local"], &[]),
    // How others read the same pages; nobody sees it.
    rule("peers", &["page"], &[]),
    // The binary and the chores know everybody.
    rule("lycosa", ALL, &["fuzz"]),
    rule("xtask", ALL, &[]),
];

const ALL: &[&str] = &[
    "types", "robots", "warc", "page", "frontier", "ports", "engine", "fetch", "local", "tables",
    "search", "service", "simweb", "wire",
];

/// Crates without I/O, async, clock or hidden chance, and words in a manifest that bring them in.
const PURE: &[&str] = &["types", "robots", "warc", "page", "frontier"];
const IMPURE: &[&str] = &[
    "async-trait",
    "fjall",
    "futures",
    "hickory-resolver",
    "hyper",
    "mio",
    "rand",
    "reqwest",
    "rocksdb",
    "socket2",
    "tokio",
];

pub fn check(crates: &[Crate]) -> Vec<Finding> {
    crates.iter().flat_map(check_one).collect()
}

fn check_one(found: &Crate) -> Vec<Finding> {
    let path = match found.folder.as_str() {
        "xtask" => "xtask/Cargo.toml".to_owned(),
        folder => format!("crates/{folder}/Cargo.toml"),
    };
    let Some(rule) = RULES.iter().find(|rule| rule.name == found.folder) else {
        let what = format!(
            "crate `{}` has no place in the order of crates; give it one in \
             xtask/src/tidy/direction.rs",
            found.folder
        );
        return vec![Finding::new(path, 0, what)];
    };
    let mut findings = Vec::new();
    let mut find = |what: String| findings.push(Finding::new(path.clone(), 0, what));
    for seen in &found.sees {
        if !rule.sees.contains(&seen.as_str()) {
            find(format!("`{}` must not see `{seen}`", rule.name));
        }
    }
    for seen in &found.tests_see {
        if !rule.sees.contains(&seen.as_str()) && !rule.tests_see.contains(&seen.as_str()) {
            find(format!("the tests of `{}` must not see `{seen}`", rule.name));
        }
    }
    if PURE.contains(&rule.name) {
        for foreign in found.foreign.iter().filter(|name| IMPURE.contains(&name.as_str())) {
            find(format!("`{}` is pure and must not depend on `{foreign}`", rule.name));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, sees: &[&str], tests_see: &[&str], foreign: &[&str]) -> Crate {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Crate {
            folder: folder.to_owned(),
            sees: set(sees),
            tests_see: set(tests_see),
            foreign: set(foreign),
            ..Crate::default()
        }
    }

    fn count(found: Crate) -> usize {
        check(&[found]).len()
    }

    #[test]
    fn an_adapter_sees_neither_the_engine_nor_another_adapter() {
        assert_eq!(count(found("local", &["types", "ports", "warc"], &[], &["fjall"])), 0);
        assert_eq!(count(found("fetch", &["types", "ports", "engine"], &[], &[])), 1);
        assert_eq!(count(found("fetch", &["local"], &["engine"], &[])), 2);
    }

    #[test]
    fn the_simulated_web_is_for_tests() {
        assert_eq!(count(found("engine", &["types"], &["simweb", "local"], &[])), 0);
        assert_eq!(count(found("engine", &["simweb"], &[], &[])), 1);
        assert_eq!(count(found("lycosa", &["simweb", "engine", "local"], &["fuzz"], &[])), 0);
        assert_eq!(count(found("lycosa", &["fuzz"], &[], &[])), 1);
    }

    #[test]
    fn a_pure_crate_brings_in_no_runtime() {
        assert_eq!(count(found("frontier", &["types"], &[], &["regex"])), 0);
        assert_eq!(count(found("frontier", &["types"], &[], &["tokio"])), 1);
        assert_eq!(count(found("engine", &["types"], &[], &["tokio"])), 0);
    }

    #[test]
    fn a_crate_nobody_has_placed_is_found() {
        let findings = check(&[found("utils", &[], &[], &[])]);
        assert!(findings[0].what.contains("no place"), "{}", findings[0]);
    }
}
