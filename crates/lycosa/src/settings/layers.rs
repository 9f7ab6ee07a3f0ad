//! Which value counts, and where did it come from?
//!
//! Layers are laid on top of each other: default < DIR/lycosa.toml < `--config` < environment <
//! flag; inside a layer the last value wins. Every value is judged alone when it comes, so that a
//! complaint names the very place it came from.
//!
//! Always: a key that is not one of ours is an error, never ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table as Toml, Value};

use super::keys::{self, Key, Kind, SHEET, Table, suggest, tables};
use super::sheet::Sheet;
use super::{Settings, value};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    Environment(String),
    /// The flag as it was typed: `--delay`, `-s`.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A key or value that cannot be used: a sentence that ends with what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(pub String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

type Result<T> = std::result::Result<T, SettingsError>;

/// Values as they are collected.
#[derive(Debug, Clone)]
pub struct Layers {
    tables: Vec<Table>,
    tree: Toml,
    origins: BTreeMap<String, Origin>,
}

/// All settings, and where each came from.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub settings: Settings,
    pub tree: Toml,
    /// All keys there are.
    pub tables: Vec<Table>,
    origins: BTreeMap<String, Origin>,
}

/// Variables that start like ours and are no settings.
const OTHER_VARIABLES: [&str; 2] = ["LYCOSA_LOG", "LYCOSA_FAILPOINT"];

impl Default for Layers {
    fn default() -> Self {
        let tree = Toml::try_from(Settings::default()).expect("the defaults are plain values");
        Self { tables: tables(), tree, origins: BTreeMap::new() }
    }
}

impl Layers {
    /// Takes all values of a file.
    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| SettingsError(format!("cannot read {shown}: {error}")))?;
        self.add_toml(path, &text)
    }

    /// The same of a text; `path` is where it lies.
    pub(super) fn add_toml(&mut self, path: &Path, text: &str) -> Result<()> {
        let content: Toml = toml::from_str(text).map_err(|error| {
            SettingsError(format!("{} is not TOML: {}", path.display(), error.to_string().trim()))
        })?;
        let origin = Origin::File(path.to_owned());
        for (name, value) in content {
            match value {
                Value::Table(keys) if self.tables.iter().any(|table| table.name == name) => {
                    for (key, value) in keys {
                        self.set_value(&format!("{name}.{key}"), value, origin.clone())?;
                    }
                }
                Value::Array(sheets) if name == SHEET => self.set_sheets(sheets, &origin)?,
                _ => return Err(self.unknown(&name, &origin)),
            }
        }
        Ok(())
    }

    /// Takes the sheets of a file; those of a file below it count no more.
    fn set_sheets(&mut self, sheets: Vec<Value>, origin: &Origin) -> Result<()> {
        let table = keys::sheet();
        let mut taken = Vec::with_capacity(sheets.len());
        for (sheet, n) in sheets.into_iter().zip(1..) {
            let said = |key: &str, why: &str| {
                SettingsError(format!("sheet {n}, {key} ({origin}): {}", why.trim()))
            };
            let Value::Table(entries) = sheet else {
                return Err(said("all of it", "write [[sheet]] and a key a line below it"));
            };
            let mut known = Toml::new();
            for (name, value) in entries {
                let Some(key) = table.keys.iter().find(|key| key.name == name) else {
                    let names = table.keys.iter().map(|key| key.name.as_str());
                    let hint = match suggest(&name, names.clone()) {
                        Some(like) => format!("unknown key; did you mean {like}?"),
                        None => {
                            let all: Vec<_> = names.collect();
                            format!("unknown key; a sheet has {}", all.join(", "))
                        }
                    };
                    return Err(said(&name, &hint));
                };
                let value = value::from_file(key, value).map_err(|hint| said(&name, &hint))?;
                let Some(value) = value else { continue };
                let mut alone = Toml::new();
                alone.insert(name.clone(), value.clone());
                if let Err(error) = Sheet::deserialize(alone) {
                    return Err(said(&name, &why(key, error.message())));
                }
                known.insert(name, value);
            }
            taken.push(Value::Table(known));
        }
        self.tree.insert(SHEET.to_owned(), Value::Array(taken));
        self.origins.insert(SHEET.to_owned(), origin.clone());
        Ok(())
    }

    /// Takes the variables that are ours: `LYCOSA_POLITENESS__DELAY`.
    pub fn add_environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<()> {
        for (name, text) in variables {
            let Some(rest) = name.strip_prefix("LYCOSA_") else { continue };
            if OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let path = rest.replace("__", ".").to_lowercase();
            let origin = Origin::Environment(name.clone());
            if path.contains('.') {
                self.set_text(&path, &text, origin)?;
            } else if let Some(key) = self.keys().find(|key| key.path.replace('.', "_") == path) {
                let right = key.path.replace('.', "__").to_uppercase();
                return Err(SettingsError(format!(
                    "{name}: two underscores stand between table and key; write LYCOSA_{right}"
                )));
            }
        }
        Ok(())
    }

    /// Takes one `-s key=value`.
    pub fn add_pair(&mut self, pair: &str) -> Result<()> {
        let Some((path, text)) = pair.split_once('=') else {
            return Err(SettingsError(format!(
                "-s {pair}: there is no `=`; write it as -s politeness.delay=2s"
            )));
        };
        self.set_text(path.trim(), text, Origin::Flag("-s".to_owned()))
    }

    /// Takes the value of a flag that has a name of its own; it is well-formed already.
    pub fn add_flag(&mut self, flag: &str, path: &str, value: impl Into<Value>) -> Result<()> {
        self.set_value(path, value.into(), Origin::Flag(flag.to_owned()))
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.tables.iter().flat_map(|table| &table.keys)
    }

    fn set_text(&mut self, path: &str, text: &str, origin: Origin) -> Result<()> {
        let Some(key) = self.keys().find(|key| key.path == path).cloned() else {
            return self.set_entry(path, Value::String(text.trim().to_owned()), origin);
        };
        match value::from_text(&key, text) {
            Ok(value) => self.put(&key, value, origin),
            Err(why) => Err(complaint(path, &why, &origin)),
        }
    }

    fn set_value(&mut self, path: &str, value: Value, origin: Origin) -> Result<()> {
        let Some(key) = self.keys().find(|key| key.path == path).cloned() else {
            return self.set_entry(path, value, origin);
        };
        match value::from_file(&key, value) {
            Ok(value) => self.put(&key, value, origin),
            Err(why) => Err(complaint(path, &why, &origin)),
        }
    }

    /// One entry of a key that is a map itself: `fetch.headers.Accept-Language`.
    fn set_entry(&mut self, path: &str, value: Value, origin: Origin) -> Result<()> {
        let map = self.keys().find(|key| {
            key.kind == Kind::Map
                && path.strip_prefix(&key.path).is_some_and(|rest| rest.starts_with('.'))
        });
        let Some(key) = map.cloned() else { return Err(self.unknown(path, &origin)) };
        let entry = &path[key.path.len() + 1..];
        let mut entries = match lookup(&self.tree, &key.path) {
            Some(Value::Table(entries)) => entries.clone(),
            _ => Toml::new(),
        };
        entries.insert(entry.to_owned(), value);
        self.put(&key, Some(Value::Table(entries)), origin)
    }

    fn put(&mut self, key: &Key, value: Option<Value>, origin: Origin) -> Result<()> {
        let (table, name) = key.path.split_once('.').expect("a key has a table");
        if let Some(value) = &value {
            let mut inner = Toml::new();
            inner.insert(name.to_owned(), value.clone());
            let mut alone = Toml::new();
            alone.insert(table.to_owned(), Value::Table(inner));
            if let Err(error) = Settings::deserialize(alone) {
                return Err(complaint(&key.path, &why(key, error.message()), &origin));
            }
        }
        let Some(Value::Table(keys)) = self.tree.get_mut(table) else {
            unreachable!("every table has its defaults")
        };
        match value {
            Some(value) => keys.insert(name.to_owned(), value),
            None => keys.remove(name),
        };
        self.origins.insert(key.path.clone(), origin);
        Ok(())
    }

    fn unknown(&self, path: &str, origin: &Origin) -> SettingsError {
        if path == SHEET || path.starts_with("sheet.") {
            return SettingsError(format!(
                "{path} ({origin}): sheets are written in a file, as [[sheet]] tables; give it by --config"
            ));
        }
        let keys = self.keys().map(|key| key.path.as_str());
        let tables = self.tables.iter().map(|table| table.name.as_str());
        let like: Option<String> = if path.contains('.') {
            suggest(path, keys).map(str::to_owned)
        } else {
            let table = suggest(path, tables).map(|table| format!("[{table}]"));
            table.or_else(|| suggest(path, keys).map(str::to_owned))
        };
        let hint = match like {
            Some(like) => format!("did you mean {like}?"),
            None => "`lycosa config default` lists all keys".to_owned(),
        };
        SettingsError(format!("unknown key {path} ({origin}); {hint}"))
    }

    /// Puts everything together.
    pub fn finish(self) -> Result<Resolved> {
        let mut tree = self.tree;
        // The crawl may be resumed from another folder, so the file in its directory must not
        // hold paths that begin where we are now.
        if let Some(Value::Array(paths)) =
            tree.get_mut("network").and_then(|table| table.get_mut("tls_ca"))
        {
            for path in paths {
                let whole = path.as_str().and_then(|path| std::path::absolute(path).ok());
                if let Some(whole) = whole.as_deref().and_then(Path::to_str) {
                    *path = Value::from(whole);
                }
            }
        }
        let settings = Settings::deserialize(tree.clone())
            .map_err(|error| SettingsError(error.message().to_owned()))?;
        let resolved = Resolved { tree, tables: self.tables, origins: self.origins, settings };
        match resolved.settings.check() {
            Ok(()) => Ok(resolved),
            Err(bad) => Err(complaint(bad.key, &bad.why, resolved.origin(bad.key))),
        }
    }
}

impl Resolved {
    pub fn origin(&self, path: &str) -> &Origin {
        self.origins.get(path).unwrap_or(&Origin::Default)
    }

    /// The sheets, as they are written.
    pub fn sheets(&self) -> impl Iterator<Item = &Toml> {
        let sheets = self.tree.get(SHEET).and_then(Value::as_array);
        sheets.into_iter().flatten().filter_map(Value::as_table)
    }

    /// The value of a key; none where it is unset.
    pub fn value(&self, path: &str) -> Option<&Value> {
        lookup(&self.tree, path)
    }
}

fn lookup<'a>(tree: &'a Toml, path: &str) -> Option<&'a Value> {
    let (table, name) = path.split_once('.')?;
    tree.get(table)?.get(name)
}

fn complaint(path: &str, why: &str, origin: &Origin) -> SettingsError {
    SettingsError(match why.strip_prefix(&format!("{path}: ")) {
        // Some parts name their key themselves.
        Some(rest) => format!("{path} ({origin}): {rest}"),
        None => format!("{path} ({origin}): {why}"),
    })
}

/// What the field's type said, with a hint where its words are those of a machine.
fn why(key: &Key, message: &str) -> String {
    let message = message.trim();
    match &key.kind {
        Kind::Choice(words) => format!("write one of {}", words.join(", ")),
        Kind::Integer if message.starts_with("invalid value") => {
            "the number is out of range".to_owned()
        }
        Kind::Integer => "write a whole number, such as 1000".to_owned(),
        Kind::Flag => "write true or false".to_owned(),
        Kind::Duration if message.starts_with("invalid type") => {
            "write a duration in quotes, such as \"1s\"".to_owned()
        }
        Kind::Size if message.starts_with("invalid type") => {
            "write a size in quotes, such as \"15MiB\"".to_owned()
        }
        // Serde only knows that neither form fits.
        Kind::List(of) if **of == Kind::Either && message.contains("untagged") => {
            "a port is a number up to 65535: write 8080 or \"8000-8999\"".to_owned()
        }
        Kind::Map => "write a table of texts, such as { Accept-Language = \"en\" }".to_owned(),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml_of(text: &str) -> Result<Layers> {
        let mut layers = Layers::default();
        layers.add_toml(Path::new("x.toml"), text).map(|()| layers)
    }

    fn error_of(pair: &str) -> String {
        let mut layers = Layers::default();
        match layers.add_pair(pair) {
            Ok(()) => layers.finish().unwrap_err().0,
            Err(error) => error.0,
        }
    }

    #[test]
    fn each_layer_covers_the_one_below() {
        let mut layers = toml_of("[politeness]\ndelay = \"2s\"\nip_delay = \"3s\"").unwrap();
        let environment = [("LYCOSA_POLITENESS__DELAY".to_owned(), "4s".to_owned())];
        layers.add_environment(environment.into_iter()).unwrap();
        layers.add_pair("crawl.max_pages=7").unwrap();
        layers.add_pair("crawl.max_pages=8").unwrap();
        let resolved = layers.finish().unwrap();
        let politeness = &resolved.settings.politeness;
        assert_eq!(politeness.delay.to_string(), "4s");
        assert_eq!(politeness.ip_delay.to_string(), "3s");
        assert_eq!(resolved.settings.crawl.max_pages, Some(8));
        assert_eq!(
            resolved.origin("politeness.delay").to_string(),
            "environment LYCOSA_POLITENESS__DELAY"
        );
        assert_eq!(resolved.origin("politeness.ip_delay").to_string(), "x.toml");
        assert_eq!(resolved.origin("crawl.max_pages").to_string(), "-s");
        assert_eq!(resolved.origin("crawl.max_depth"), &Origin::Default);
    }

    #[test]
    fn a_limit_can_be_lifted_again() {
        let mut layers = toml_of("[crawl]\nmax_pages = 5").unwrap();
        layers.add_pair("crawl.max_pages=none").unwrap();
        assert_eq!(layers.finish().unwrap().settings.crawl.max_pages, None);
    }

    #[test]
    fn a_header_is_set_by_its_name() {
        let mut layers = toml_of("[fetch.headers]\nX-A = \"1\"").unwrap();
        layers.add_pair("fetch.headers.X-B=2").unwrap();
        let headers = layers.finish().unwrap().settings.fetch.headers;
        assert_eq!(
            headers.into_iter().collect::<Vec<_>>(),
            [("X-A".to_owned(), "1".to_owned()), ("X-B".to_owned(), "2".to_owned())]
        );
    }

    #[test]
    fn a_complaint_names_key_place_and_remedy() {
        for (pair, want) in [
            (
                "politeness.delay=5",
                "politeness.delay (-s): `5` is not a duration: write a number with a unit, such as 500ms, 1s, 5m, 24h or 30d",
            ),
            ("robots.bytes_max=5", "such as 512B, 500KiB, 15MiB or 1GB"),
            (
                "politeness.dealy=5s",
                "unknown key politeness.dealy (-s); did you mean politeness.delay?",
            ),
            ("nonsense", "there is no `=`"),
            (
                "crawl.scope=planet",
                "crawl.scope (-s): write one of page, prefix, host, domain, any, custom",
            ),
            ("crawl.max_depth=-1", "crawl.max_depth (-s): the number is out of range"),
            ("crawl.max_depth=x", "not a whole number"),
            ("network.allow=everything", "write it as 127.0.0.0/8"),
            ("crawl.include=(", "crawl.include (-s): "),
            ("crawl.exclude=(", "crawl.exclude (-s): "),
            ("crawl.scope=custom", "crawl.scope (-s): crawl.scope = custom needs crawl.include or"),
            ("render.mode=always", "render.mode (-s): not available in this version"),
            ("search.memory_max=1MiB", "search.memory_max (-s): must be at least 16MiB"),
            ("recrawl.policy=value", "not available in this version"),
            ("archive.compression=zstd", "not available in this version"),
            (
                "fetch.proxies=p.test:1",
                "fetch.proxies (-s): this is no proxy: write http://host:port",
            ),
            (
                "network.ports=99999",
                "network.ports (-s): a port is a number up to 65535: write 8080",
            ),
            ("network.ports=80,-1", "a port is a number up to 65535: write 8080"),
            ("network.ports=80,x", "`x` is not a port: write 8080 or 8000-8999"),
            ("store.fsync=sometimes", "write one of batch, visit, off"),
            ("api.listen=0.0.0.0:1", "api.token"),
        ] {
            let error = error_of(pair);
            assert!(error.contains(want), "{pair}: {error}");
        }
    }

    #[test]
    fn a_file_is_read_strictly() {
        let error = |text: &str| match toml_of(text) {
            Ok(layers) => layers.finish().unwrap_err().0,
            Err(error) => error.0,
        };
        assert!(error("[politness]\ndelay = \"1s\"").contains("did you mean [politeness]?"));
        assert!(error("delay = \"1s\"").contains("did you mean politeness.delay?"));
        assert!(error("[politeness]\ndelay = 5").contains("\"5s\""));
        assert!(error("[robots]\nobey = \"yes\"").contains("true or false"));
        assert!(error("[network]\nports = [80, 99999]").contains("up to 65535"));
        assert!(error("[network]\nports = [true]").contains("up to 65535"));
        assert!(error("[crawl").contains("x.toml is not TOML"));
        assert!(toml_of("[politeness]\ndelay = 0").is_ok());
    }

    #[test]
    fn a_sheet_is_read_as_strictly_as_the_rest() {
        let read = |text: &str| match toml_of(text) {
            Ok(layers) => layers.finish().map(|resolved| resolved.settings).map_err(|e| e.0),
            Err(error) => Err(error.0),
        };
        let good = "[[sheet]]\nhosts = \"*.a.test\"\ndelay = \"5s\"\ncookies = true\n\
                    headers = { X-A = \"1\" }\nbasic_auth = \"ann:secret\"\n\
                    [[sheet]]\nhosts = [\"b.test\"]\nignore_robots = true\n";
        let settings = read(good).unwrap();
        assert_eq!(settings.sheet.len(), 2);
        assert!(settings.obeys_robots("x.a.test") && !settings.obeys_robots("b.test"));
        assert_eq!(settings.sheet_warnings().len(), 1);
        for (text, want) in [
            ("[[sheet]]\ndelay = \"5s\"", "sheet (x.toml): 1: it names no host"),
            (
                "[[sheet]]\nhosts = [\"a.test\"]\ndelay = \"5ms\"",
                "shorter than politeness.delay = 1s",
            ),
            (
                "[[sheet]]\nhosts = [\"a.test\"]\ndelay = 5",
                "sheet 1, delay (x.toml): 5 has no unit",
            ),
            ("[[sheet]]\nhosts = [\"a.test\"]\ndealy = \"5s\"", "did you mean delay?"),
            ("[[sheet]]\nhosts = [\"http://a.test\"]", "is not a host"),
            ("[[sheet]]\nhosts = [\"a.test\"]\nbasic_auth = \"geheim\"", "\"user:password\""),
            ("[sheet]\nhosts = [\"a.test\"]", "as [[sheet]] tables"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
            assert!(!error.contains("geheim"), "{error}");
        }
        let hasty = "[[sheet]]\nhosts = [\"a.test\"]\ndelay = \"5ms\"\nhasty = true";
        assert!(read(hasty).unwrap().sheet_warnings()[0].contains("only 5ms"));
        assert!(error_of("sheet.delay=5s").contains("--config"));
    }

    #[test]
    fn other_variables_are_left_alone_but_a_near_miss_is_told() {
        let environment = |name: &str| {
            let variables = [(name.to_owned(), "5s".to_owned())];
            Layers::default().add_environment(variables.into_iter())
        };
        assert!(environment("LYCOSA_BIN").is_ok());
        assert!(environment("LYCOSA_LOG").is_ok());
        assert!(environment("PATH").is_ok());
        let miss = environment("LYCOSA_POLITENESS_DELAY").unwrap_err().0;
        assert!(miss.contains("write LYCOSA_POLITENESS__DELAY"), "{miss}");
        assert!(environment("LYCOSA_POLITENESS__DEALY").unwrap_err().0.contains("did you mean"));
    }
}
