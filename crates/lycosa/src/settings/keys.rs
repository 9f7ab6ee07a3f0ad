//! Which keys are there, and how is the text of each read?
//!
//! Read from the schema of [`Settings`], so that a new field is a new key, a flag by `-s`, an
//! environment variable and a paragraph of the manual without another word.

use schemars::schema_for;
use serde_json::Value as Json;

use super::Settings;
use super::sheet::Sheet;

/// A table of the file, such as `[politeness]`.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub doc: String,
    pub keys: Vec<Key>,
}

#[derive(Debug, Clone)]
pub struct Key {
    /// `politeness.delay`.
    pub path: String,
    /// `delay`.
    pub name: String,
    pub kind: Kind,
    /// It may be unset, which is written as `none`.
    pub optional: bool,
    pub doc: String,
}

/// How a value is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// One of these words.
    Choice(Vec<String>),
    Duration,
    Size,
    Rate,
    Integer,
    Number,
    Flag,
    /// A number or a text, such as a port or a range of them.
    Either,
    List(Box<Kind>),
    /// Names and texts, such as header fields.
    Map,
}

impl Kind {
    /// For the manual.
    pub fn describe(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Choice(words) => words.join(" \\| "),
            Self::Duration => "duration".to_owned(),
            Self::Size => "size".to_owned(),
            Self::Rate => "rate".to_owned(),
            Self::Integer | Self::Number => "number".to_owned(),
            Self::Flag => "true \\| false".to_owned(),
            Self::Either => "number or text".to_owned(),
            Self::List(of) => format!("list of {}", plural(&of.describe())),
            Self::Map => "table of texts".to_owned(),
        }
    }
}

fn plural(word: &str) -> String {
    match word {
        "number or text" => "numbers or texts".to_owned(),
        word => format!("{word}s"),
    }
}

/// The name of the tables that there may be several of.
pub const SHEET: &str = "sheet";

/// All tables with their keys, in the order of their declaration; sheets are not among them.
pub fn tables() -> Vec<Table> {
    let schema = Json::from(schema_for!(Settings));
    let defs = &schema["$defs"];
    let properties = schema["properties"].as_object().into_iter().flatten();
    let once = properties.filter(|(name, _)| *name != SHEET);
    once.map(|(name, property)| read_table(name, resolve(property, defs), defs)).collect()
}

/// What a `[[sheet]]` may say.
pub fn sheet() -> Table {
    let schema = Json::from(schema_for!(Sheet));
    read_table(SHEET, &schema, &schema["$defs"])
}

fn read_table(name: &str, table: &Json, defs: &Json) -> Table {
    let keys = table["properties"].as_object().into_iter().flatten();
    Table {
        name: name.to_owned(),
        doc: text(table, "description"),
        keys: keys.map(|(key, schema)| read_key(name, key, schema, defs)).collect(),
    }
}

fn read_key(table: &str, name: &str, schema: &Json, defs: &Json) -> Key {
    let (kind, optional) = read_kind(schema, defs);
    Key {
        path: format!("{table}.{name}"),
        name: name.to_owned(),
        kind,
        optional,
        doc: text(schema, "description"),
    }
}

/// How the value is written, and whether there may be none.
fn read_kind(schema: &Json, defs: &Json) -> (Kind, bool) {
    if let Some(options) = schema["anyOf"].as_array() {
        let optional = options.iter().any(|option| option["type"] == "null");
        let real = options.iter().find(|option| option["type"] != "null");
        return (real.map_or(Kind::Text, |real| read_kind(real, defs).0), optional);
    }
    let schema = resolve(schema, defs);
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        return (Kind::Choice(words), false);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let words = options.iter().filter_map(|o| o["const"].as_str()).map(str::to_owned);
        return (Kind::Choice(words.collect()), false);
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let optional = types.contains(&"null");
    let mut real = types.iter().copied().filter(|&name| name != "null");
    let kind = match (real.next(), real.next()) {
        (Some("string"), None) => match schema["format"].as_str() {
            Some("duration") => Kind::Duration,
            Some("size") => Kind::Size,
            Some("rate") => Kind::Rate,
            _ => Kind::Text,
        },
        (Some("integer"), None) => Kind::Integer,
        (Some("number"), None) => Kind::Number,
        (Some("boolean"), None) => Kind::Flag,
        (Some("array"), None) => Kind::List(Box::new(read_kind(&schema["items"], defs).0)),
        (Some("object"), None) => Kind::Map,
        _ => Kind::Either,
    };
    (kind, optional)
}

/// Follows a reference into the definitions.
fn resolve<'a>(schema: &'a Json, defs: &'a Json) -> &'a Json {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        Some(name) => &defs[name],
        None => schema,
    }
}

/// A doc comment as one paragraph of text.
fn text(schema: &Json, field: &str) -> String {
    let text = schema[field].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// No key is half as long, and a comparison takes the product of both lengths: a text that was
/// pasted into the wrong place would be compared for seconds.
const TYPED_BYTES_MAX: usize = 100;

/// The known key or table that a mistyped one was most likely meant to be.
pub fn suggest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > TYPED_BYTES_MAX {
        return None;
    }
    let typed = typed.to_lowercase().replace('-', "_");
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let score = |key: &str| {
        let whole = strsim::jaro_winkler(&typed, key);
        // `delay` alone, or in the wrong table, is meant for `politeness.delay`.
        let end = strsim::jaro_winkler(&last(&typed), &last(key)) - 0.05;
        whole.max(end)
    };
    known
        .map(|key| (score(key), key))
        .filter(|(score, _)| *score > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> Key {
        let tables = tables();
        let mut keys = tables.into_iter().flat_map(|table| table.keys);
        keys.find(|key| key.path == path).unwrap_or_else(|| panic!("{path} is no key"))
    }

    /// Checks outside of this tree use these names exactly as they are written here.
    #[test]
    fn every_contract_key_is_there() {
        for path in "crawl.scope crawl.include crawl.exclude crawl.max_depth crawl.max_pages \
            crawl.max_bytes crawl.max_time crawl.concurrency crawl.patience identity.contact \
            identity.product identity.user_agent politeness.delay politeness.delay_factor \
            politeness.delay_max politeness.crawl_delay_max politeness.backoff_max \
            politeness.ip_delay politeness.ip_connections politeness.shared_networks \
            politeness.domain_pages_max politeness.host_pages_max robots.obey robots.ttl \
            robots.bytes_max network.allow network.ports network.tls_ca network.tls_verify \
            network.timeout_connect network.timeout_first_byte network.timeout_total \
            network.rate_min dns.upstreams dns.ttl_min dns.ttl_max fetch.html_bytes_max \
            fetch.stored_bytes_max fetch.pdf_bytes_max fetch.redirects_max fetch.attempts_max \
            fetch.memory_max fetch.proxies fetch.headers fetch.http2 archive.enabled \
            archive.file_bytes_max archive.compression archive.level table.enabled \
            search.enabled pages.enabled recrawl.policy recrawl.budget store.engine store.fsync \
            store.disk_free_min api.listen api.token"
            .split_whitespace()
        {
            key(path);
        }
    }

    #[test]
    fn every_key_and_table_has_a_manual() {
        for table in tables().into_iter().chain([sheet()]) {
            assert!(!table.doc.is_empty(), "[{}]", table.name);
            for key in table.keys {
                assert!(!key.doc.is_empty(), "{}", key.path);
            }
        }
    }

    #[test]
    fn the_type_of_a_field_decides_how_it_is_read() {
        assert_eq!(key("politeness.delay").kind, Kind::Duration);
        assert_eq!(key("robots.bytes_max").kind, Kind::Size);
        assert_eq!(key("network.rate_min").kind, Kind::Rate);
        assert_eq!(key("crawl.max_depth").kind, Kind::Integer);
        assert_eq!(key("politeness.delay_factor").kind, Kind::Number);
        assert_eq!(key("robots.obey").kind, Kind::Flag);
        assert_eq!(key("crawl.include").kind, Kind::List(Box::new(Kind::Text)));
        assert_eq!(key("network.ports").kind, Kind::List(Box::new(Kind::Either)));
        assert_eq!(key("fetch.headers").kind, Kind::Map);
        let pages = key("crawl.max_pages");
        assert_eq!((pages.kind, pages.optional), (Kind::Integer, true));
        let bytes = key("crawl.max_bytes");
        assert_eq!((bytes.kind, bytes.optional), (Kind::Size, true));
        let Kind::Choice(scopes) = key("crawl.scope").kind else { panic!() };
        assert_eq!(scopes, ["page", "prefix", "host", "domain", "any", "custom"]);
    }

    #[test]
    fn a_mistyped_key_finds_its_neighbour() {
        let tables = tables();
        let known = || tables.iter().flat_map(|t| &t.keys).map(|key| key.path.as_str());
        let check = |typed: &str, want: Option<&str>| assert_eq!(suggest(typed, known()), want);
        check("politeness.dealy", Some("politeness.delay"));
        check("politness.delay", Some("politeness.delay"));
        check("delay", Some("politeness.delay"));
        check("crawl.maxdepth", Some("crawl.max_depth"));
        check("crawl.max-depth", Some("crawl.max_depth"));
        check("zzz.qqq", None);
        check(&"politeness.delay".repeat(1_000_000), None);
    }
}
