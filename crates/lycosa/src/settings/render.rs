//! How are settings written down?
//!
//! Four ways: the complete commented file (`config default`), every value with its origin
//! (`config show`), the file in a crawl's directory, and the manual (`docs/configuration.md`,
//! which a test compares with what this makes).

use std::fmt::Write as _;

use toml::Value;

use super::keys::{self, Key, Kind, SHEET, Table};
use super::layers::{Layers, Resolved};

/// A complete file with the defaults and the manual as comments.
pub fn default_file() -> String {
    let defaults = defaults();
    let mut out = String::from(
        "# All settings of lycosa with their defaults.\n\
         # Precedence: flag > environment > --config FILE > DIR/lycosa.toml > default.\n\
         # Any key can be given as -s politeness.delay=2s or LYCOSA_POLITENESS__DELAY=2s.\n",
    );
    for table in &defaults.tables {
        let _ = write!(out, "\n# {}\n[{}]\n", table.doc, table.name);
        for key in &table.keys {
            for line in wrapped(&key.doc, 96) {
                let _ = writeln!(out, "# {line}");
            }
            match defaults.value(&key.path) {
                Some(value) => {
                    let _ = writeln!(out, "{} = {}", key.name, multiline(value));
                }
                None => {
                    let _ = writeln!(out, "# {} = {}", key.name, example(key));
                }
            }
        }
    }
    out
}

/// The file that a crawl's directory keeps: every value in force.
pub fn kept_file(resolved: &Resolved) -> String {
    let mut out = String::from(
        "# The settings of this crawl, as they were in force when it last ran.\n\
         # They count again when it is resumed, below flags, environment and --config.\n",
    );
    for table in resolved.tables.iter().filter(|table| table.name != "api") {
        let _ = write!(out, "\n[{}]\n", table.name);
        for key in &table.keys {
            if let Some(value) = resolved.value(&key.path) {
                let _ = writeln!(out, "{} = {}", key.name, multiline(value));
            }
        }
    }
    push_sheets(&mut out, resolved);
    out
}

/// The sheets as a file has them, passwords and all.
fn push_sheets(out: &mut String, resolved: &Resolved) {
    for sheet in resolved.sheets() {
        out.push_str("\n[[sheet]]\n");
        for (name, value) in sheet {
            let _ = writeln!(out, "{name} = {}", multiline(value));
        }
    }
}

/// A value for others to see.
pub fn shown_value(name: &str, value: &Value) -> Value {
    let shown = |text: &str| match name {
        "basic_auth" => text.parse::<fetch::BasicAuth>().ok().map(|auth| auth.to_string()),
        _ => text.parse::<fetch::ProxyUrl>().ok().map(|proxy| proxy.to_string()),
    };
    let one = |value: &Value| value.as_str().and_then(shown).map_or(value.clone(), Value::String);
    match (name, value) {
        ("basic_auth", value) => one(value),
        ("proxies", Value::Array(items)) => Value::Array(items.iter().map(one).collect()),
        _ => value.clone(),
    }
}

/// One line a key: value and where it came from.
pub fn shown(resolved: &Resolved) -> String {
    let mut out = String::new();
    for key in resolved.tables.iter().flat_map(|table| &table.keys) {
        let value = match resolved.value(&key.path) {
            Some(_) if key.path == "api.token" => "\"…\"".to_owned(),
            Some(value) => inline(&shown_value(&key.name, value)),
            None => "none".to_owned(),
        };
        let _ = writeln!(out, "{} = {value}  # {}", key.path, resolved.origin(&key.path));
    }
    for (sheet, n) in resolved.sheets().zip(1..) {
        for (name, value) in sheet {
            let value = inline(&shown_value(name, value));
            let _ = writeln!(out, "sheet.{n}.{name} = {value}  # {}", resolved.origin(SHEET));
        }
    }
    out
}

/// The same as JSON lines.
pub fn shown_json(resolved: &Resolved) -> String {
    shown_values(resolved).iter().map(|value| format!("{value}\n")).collect()
}

/// Every key with its value and where it came from; secrets are left out.
pub fn shown_values(resolved: &Resolved) -> Vec<serde_json::Value> {
    let keys = resolved.tables.iter().flat_map(|table| &table.keys);
    let values = keys.map(|key| {
        serde_json::json!({
            "key": key.path,
            "value": resolved
                .value(&key.path)
                .filter(|_| key.path != "api.token")
                .map(|value| shown_value(&key.name, value)),
            "origin": resolved.origin(&key.path).to_string(),
        })
    });
    let sheets = resolved.sheets().zip(1..).flat_map(|(sheet, n)| {
        sheet.iter().map(move |(name, value)| {
            serde_json::json!({
                "key": format!("sheet.{n}.{name}"),
                "value": shown_value(name, value),
                "origin": resolved.origin(SHEET).to_string(),
            })
        })
    });
    values.chain(sheets).collect()
}

/// The manual: `docs/configuration.md`.
pub fn manual() -> String {
    let defaults = defaults();
    let mut out = String::from(
        "# Configuration\n\n\
         <!-- Made from the settings' doc comments by `lycosa config docs`; a test fails when it is stale. -->\n\n\
         Settings live in `lycosa.toml`. None is needed: `lycosa crawl https://example.org --contact me@example.org`\n\
         works in an empty folder.\n\n\
         A value counts in this order: flag, environment, `--config FILE`, the `lycosa.toml` of the crawl's directory,\n\
         default. Any key can be given as `-s politeness.delay=2s` (the last one wins) or in the environment as\n\
         `LYCOSA_POLITENESS__DELAY=2s`. There, strings are written as they are (quotes optional), lists as a TOML array\n\
         or comma-separated, and `none` unsets a key that may be unset. Durations (`500ms`, `1s`, `5m`, `24h`, `30d`),\n\
         sizes (`512B`, `500KiB`, `15MiB`, `1GB`) and rates (`1KiB/s`) carry a unit; a bare `0` needs none. An unknown\n\
         key is an error. `lycosa config show` prints every value and where it came from, `lycosa config default` a\n\
         complete file to start from, `lycosa config check FILE` tells whether a file is right.\n",
    );
    for table in &defaults.tables {
        manual_table(&mut out, table, &defaults);
    }
    manual_sheet(&mut out);
    out
}

fn manual_sheet(out: &mut String) {
    let table = keys::sheet();
    let _ = write!(
        out,
        "\n## `[[sheet]]`\n\n{} They are written in a file, not as flags or in the environment. Where several mean\n\
         one host, the last that says something wins.\n\n\
         ```toml\n[[sheet]]\nhosts = [\"*.example.org\"]\ndelay = \"10s\"\nheaders = {{ Accept-Language = \"cs\" }}\n```\n\n",
        table.doc
    );
    out.push_str("| key | type | meaning |\n|---|---|---|\n");
    for key in &table.keys {
        let _ = writeln!(out, "| `{}` | {} | {} |", key.name, key.kind.describe(), key.doc);
    }
}

fn manual_table(out: &mut String, table: &Table, defaults: &Resolved) {
    let _ = write!(out, "\n## `[{}]`\n\n{}\n\n", table.name, table.doc);
    out.push_str("| key | default | type | meaning |\n|---|---|---|---|\n");
    for key in &table.keys {
        let default = match defaults.value(&key.path) {
            None => "none".to_owned(),
            Some(value) => match inline(value) {
                long if long.len() > 60 => format!("a list of {}", length(value)),
                short => format!("`{short}`"),
            },
        };
        let doc = key.doc.replace('|', "\\|");
        let kind = key.kind.describe();
        let _ = writeln!(out, "| `{}` | {default} | {kind} | {doc} |", key.path);
    }
}

fn length(value: &Value) -> usize {
    value.as_array().map_or(1, Vec::len)
}

fn defaults() -> Resolved {
    Layers::default().finish().expect("the defaults are usable")
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Table(entries) => {
            let entries =
                entries.iter().map(|(name, value)| format!("{} = {}", quoted(name), inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) if text.contains(['\n', '\r']) => quoted(text),
        value => value.to_string(),
    }
}

/// A text between double quotes, on one line: the only form that a name may have as well.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            char if char.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

/// A value in a file: a long list takes a line each.
fn multiline(value: &Value) -> String {
    match value {
        Value::Array(items) if inline(value).len() > 90 => {
            let lines: String =
                items.iter().map(|item| format!("    {},\n", inline(item))).collect();
            format!("[\n{lines}]")
        }
        value => inline(value),
    }
}

/// What an unset key could be set to.
fn example(key: &Key) -> &'static str {
    match (key.path.as_str(), &key.kind) {
        ("identity.contact", _) => "\"https://example.org/bot\"",
        ("recrawl.budget", _) => "\"10/s\"",
        ("api.token", _) => "\"a long random text\"",
        (_, Kind::Size) => "\"10GB\"",
        (_, Kind::Duration) => "\"1h\"",
        _ => "1000",
    }
}

/// Breaks a paragraph into lines.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.len() + word.len() >= width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn read_back(text: &str) -> Resolved {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("lycosa.toml");
        std::fs::write(&path, text).unwrap();
        let mut layers = Layers::default();
        layers.add_file(&path).unwrap();
        layers.finish().unwrap()
    }

    #[test]
    fn the_default_file_is_the_defaults() {
        assert_eq!(read_back(&default_file()).tree, defaults().tree);
    }

    #[test]
    fn a_kept_file_reads_back_without_the_secrets_of_the_run() {
        let mut layers = Layers::default();
        for pair in [
            "politeness.delay=7s",
            "crawl.include=a,b",
            "fetch.headers.X-A=\"q",
            "network.tls_ca=ours.pem",
            "api.listen=127.0.0.1:1",
            "api.token=secret",
        ] {
            layers.add_pair(pair).unwrap();
        }
        let resolved = layers.finish().unwrap();
        let text = kept_file(&resolved);
        assert!(!text.contains("secret") && !text.contains("listen"));
        // Whoever resumes may stand in another folder.
        let ca = std::path::absolute("ours.pem").unwrap();
        assert!(text.contains(&format!("tls_ca = [{:?}]", ca.display().to_string())), "{text}");
        let again = read_back(&text);
        assert_eq!(again.value("politeness.delay"), resolved.value("politeness.delay"));
        assert_eq!(again.value("crawl.include"), resolved.value("crawl.include"));
        assert_eq!(again.value("fetch.headers"), resolved.value("fetch.headers"));
        assert!(!shown(&resolved).contains("secret") && !shown_json(&resolved).contains("secret"));
    }

    /// Found by a seed of the fuzzer: such a name was written over several lines, which no name may be, and
    /// a value so that `config show` had more lines than keys.
    #[test]
    fn a_text_with_line_ends_stays_on_its_line() {
        let mut layers = Layers::default();
        let text = "[fetch.headers]\n\"a\\nb\" = \"c\\r\\u0001\\\"\\\\\"\n[crawl]\ninclude = [\"d\\ne\\u0085\"]";
        layers.add_toml(std::path::Path::new("x.toml"), text).unwrap();
        let resolved = layers.finish().unwrap();
        assert_eq!(resolved.settings.fetch.headers["a\nb"], "c\r\u{1}\"\\");
        assert_eq!(read_back(&kept_file(&resolved)).tree, resolved.tree);
        let keys: usize = resolved.tables.iter().map(|table| table.keys.len()).sum();
        assert_eq!(shown(&resolved).lines().count(), keys);
    }

    #[test]
    fn the_manual_is_fresh() {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == manual(),
            "docs/configuration.md is stale: lycosa config docs > docs/configuration.md"
        );
    }
}
