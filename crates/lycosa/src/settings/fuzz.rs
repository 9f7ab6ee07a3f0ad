//! Any TOML, any `KEY=VALUE`, any variable: the fuzzer's target for settings.
//!
//! It is here because nobody can see into a binary; the hunt itself is the crate `fuzz`'s. An input
//! is a file, or a file and lines behind it: `LYCOSA_…=…` is a variable, anything else a `-s`.
//!
//! Holds: no text panics; what is accepted, written as the directory's file and read again, is the
//! same but for `api`, which is never written; a complaint names the key, or the line of the file.

use std::path::Path;
use std::sync::LazyLock;

use fuzz::{Shape, Target, parts};

use super::layers::{Layers, Resolved, SettingsError};
use super::render;

const TARGET: Target = Target { name: "settings", words: WORDS, seeds, check, inputs: 1_000 };

const WORDS: &[&[u8]] = &[
    b"[crawl]",
    b"[politeness]",
    b"[network]",
    b"[fetch.headers]",
    b"crawl.scope=custom",
    b"crawl.include=",
    b"crawl.max_pages=none",
    b"crawl.max_time=",
    b"politeness.delay=",
    b"politeness.delay_factor=",
    b"politeness.shared_networks=",
    b"identity.contact=me@example.org",
    b"identity.user_agent=",
    b"network.allow=",
    b"network.ports=",
    b"network.rate_min=",
    b"network.tls_ca=",
    b"dns.upstreams=",
    b"fetch.headers.",
    b"fetch.headers={ A = \"b\" }",
    b"robots.bytes_max=",
    b"store.shards=",
    b"api.listen=",
    b"api.token=",
    b"url.strip_parameters=",
    b"LYCOSA_POLITENESS__DELAY=",
    b"LYCOSA_",
    b"\n----\n",
    b"none",
    b"true",
    b"1e309",
    b"nan",
    b"-inf",
    b"0.1us",
    b"18446744073709551615s",
    b"1.5KiB",
    b"1KiB/s",
    b"127.0.0.0/8",
    b"::/0",
    b"8000-8999",
    b"9-1",
    b"\"\"\"",
    b"'''",
    b"\"\\u0000\"",
    b"\\n",
    b"{ a.b = 1 }",
    b"[[",
    b"1979-05-27T07:32:00Z",
    b"0x10",
    b"(",
    b"(?:a{1000}){1000}",
    "é".as_bytes(),
];

/// The complete file is the best seed there is.
fn seeds() -> Vec<Vec<u8>> {
    vec![render::default_file().into_bytes()]
}

/// Nothing set yet.
static UNSET: LazyLock<Layers> = LazyLock::new(Layers::default);

/// Lines that are taken: each is compared with every key, and eight tell as much as a hundred.
const LINES_MAX: usize = 8;

fn check(input: &[u8]) -> Shape {
    let (file, lines) = match parts(input) {
        (b"", file) => (file, &b""[..]),
        both => both,
    };
    let (file, lines) = (String::from_utf8_lossy(file), String::from_utf8_lossy(lines));
    let mut shape = Shape::default();
    let mut layers = UNSET.clone();
    if let Err(error) = layers.add_toml(Path::new("x.toml"), &file) {
        assert!(names_a_key_of_file(&error, &file), "{error} does not say where");
        shape.add_text(&error.0);
        layers = UNSET.clone();
    }
    for line in lines.lines().take(LINES_MAX) {
        let result = match line.split_once('=').filter(|_| line.starts_with("LYCOSA_")) {
            Some((name, value)) => {
                let variable = (name.to_owned(), value.to_owned());
                layers.add_environment(std::iter::once(variable))
            }
            None => layers.add_pair(line),
        };
        if let Err(error) = result {
            assert!(names_the_key_of_line(&error, line), "{line:?}: {error} does not name the key");
            shape.add_text(&error.0);
        }
    }
    match layers.finish() {
        Ok(resolved) => check_written(&resolved, &mut shape),
        Err(error) => {
            let named = UNSET.keys().any(|key| names(&error, &key.path));
            assert!(named, "{error} names no key");
            shape.add_text(&error.0);
        }
    }
    shape
}

/// Of broken TOML its own parser tells the line.
fn names_a_key_of_file(error: &SettingsError, file: &str) -> bool {
    let Ok(file) = file.parse::<toml::Table>() else { return error.0.contains("is not TOML: ") };
    file.iter().any(|(table, value)| {
        let mut keys = value.as_table().into_iter().flat_map(toml::Table::keys);
        names(error, table) || keys.any(|key| names(error, &format!("{table}.{key}")))
    })
}

/// A line without `=` is shown whole.
fn names_the_key_of_line(error: &SettingsError, line: &str) -> bool {
    let Some((typed, _)) = line.split_once('=') else { return error.0.contains(line) };
    let path = match typed.strip_prefix("LYCOSA_") {
        Some(variable) => variable.replace("__", ".").to_lowercase(),
        None => typed.trim().to_owned(),
    };
    // What is wrong with one header is told of all of them.
    let map = path.match_indices('.').any(|(dot, _)| names(error, &path[..dot]));
    map || names(error, &path) || error.0.starts_with(&format!("{typed}: two underscores"))
}

fn names(error: &SettingsError, key: &str) -> bool {
    let told = error.0.strip_prefix("unknown key ").unwrap_or(&error.0);
    told.strip_prefix(key).is_some_and(|rest| rest.starts_with(" ("))
}

fn check_written(resolved: &Resolved, shape: &mut Shape) {
    let written = render::kept_file(resolved);
    let mut layers = UNSET.clone();
    if let Err(error) = layers.add_toml(Path::new("kept.toml"), &written) {
        panic!("our own file cannot be read: {error}\n{written}");
    }
    let again = layers.finish().unwrap_or_else(|error| panic!("{error}\n{written}"));
    let without_api = |resolved: &Resolved| {
        let mut tree = resolved.tree.clone();
        tree.remove("api");
        tree
    };
    assert_eq!(without_api(&again), without_api(resolved), "written and read");
    assert_eq!(render::kept_file(&again), written, "written twice");
    let keys: usize = resolved.tables.iter().map(|table| table.keys.len()).sum();
    assert_eq!(render::shown(resolved).lines().count(), keys, "a line a key");
    assert_eq!(render::shown_json(resolved).lines().count(), keys, "a line a key");
    let header = resolved.settings.identity.header();
    assert!(!header.contains(['\r', '\n']), "{header:?}");
    shape.add(1);
    for (table, keys) in &resolved.tree {
        shape.add_size(table.len() + keys.as_table().map_or(0, toml::Table::len));
    }
}

#[test]
fn no_text_breaks_the_settings() {
    fuzz::hunt(&TARGET);
}
