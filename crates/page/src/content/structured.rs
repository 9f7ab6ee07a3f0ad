//! What does a page say of itself for machines?
//!
//! JSON-LD, microdata, RDFa Lite, OpenGraph and Twitter cards, brought into one form, that of
//! JSON-LD: an object with `@type` and properties; `@source` says which of them it came from. What
//! a `@graph` or a list holds stands on its own. Types and properties lose the address of
//! schema.org in front of them.
//!
//! Always: bounded by [`ITEMS_MAX`] items, [`VALUE_BYTES_MAX`] a value and the parser's own depth;
//! data that is no JSON is passed over.

use serde_json::{Map, Value};

use crate::content::element::Element;
use crate::content::portrait::is_linked_data;
use crate::content::tree::{NodeId, Tree};

/// Shops mark up a hundred products on a page; more is a dump.
const ITEMS_MAX: usize = 500;

/// A value of microdata beyond this is the page itself.
const VALUE_BYTES_MAX: usize = 20_000;

/// JSON-LD of a page beyond this is not read.
const DATA_BYTES_MAX: usize = 2 << 20;

/// All items of a page, in the order of the sources; `linked` is its JSON-LD.
pub(crate) fn items(tree: &Tree<'_>, linked: Vec<Value>) -> Vec<Value> {
    let mut items = linked;
    items.extend(marked_up(tree, &MICRODATA));
    items.extend(marked_up(tree, &RDFA));
    items.extend(cards(tree));
    items.truncate(ITEMS_MAX);
    items
}

/// The objects of all JSON-LD scripts.
pub(crate) fn linked_data(tree: &Tree<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    let mut bytes_left = DATA_BYTES_MAX;
    for id in 1..tree.nodes.len() {
        if tree.element(id) != Element::Script || !is_linked_data(tree, id) {
            continue;
        }
        let raw = tree.raw_text(id);
        bytes_left = bytes_left.saturating_sub(raw.len());
        if bytes_left == 0 {
            break;
        }
        if let Some(value) = parse(raw) {
            flatten(value, &mut items, 0);
        }
        if items.len() >= ITEMS_MAX {
            break;
        }
    }
    items
}

/// JSON as pages write it: wrapped in comments, with a semicolon, with line breaks in strings.
fn parse(raw: &str) -> Option<Value> {
    let mut text = raw.trim();
    for wrapper in ["<!--", "//<![CDATA[", "<![CDATA[", "/*<![CDATA[*/"] {
        text = text.strip_prefix(wrapper).unwrap_or(text).trim();
    }
    for wrapper in ["-->", "//]]>", "]]>", "/*]]>*/", ";"] {
        text = text.strip_suffix(wrapper).unwrap_or(text).trim();
    }
    serde_json::from_str(text).ok().or_else(|| {
        let mended: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        serde_json::from_str(&mended).ok()
    })
}

/// Depth of lists in lists that are taken apart.
const LISTS_MAX: usize = 4;

fn flatten(value: Value, items: &mut Vec<Value>, depth: usize) {
    match value {
        Value::Array(list) if depth < LISTS_MAX => {
            list.into_iter().for_each(|value| flatten(value, items, depth + 1));
        }
        Value::Object(mut object) => {
            if let Some(graph) = object.remove("@graph") {
                flatten(graph, items, depth + 1);
                if object.keys().all(|key| key == "@context" || key == "@id") {
                    return;
                }
            }
            object.remove("@context");
            shorten_type(&mut object);
            object.insert("@source".to_owned(), "json-ld".into());
            items.push(Value::Object(object));
        }
        _ => {}
    }
}

fn shorten_type(object: &mut Map<String, Value>) {
    match object.get_mut("@type") {
        Some(Value::String(name)) => *name = short_name(name).to_owned(),
        Some(Value::Array(names)) => {
            for name in names {
                if let Value::String(name) = name {
                    *name = short_name(name).to_owned();
                }
            }
        }
        _ => {}
    }
}

fn short_name(name: &str) -> &str {
    name.trim().trim_end_matches('/').rsplit(['/', '#', ':']).next().unwrap_or(name)
}

/// How two syntaxes name the same things.
struct Syntax {
    source: &'static str,
    scope: &'static str,
    kind: &'static str,
    property: &'static str,
}

const MICRODATA: Syntax =
    Syntax { source: "microdata", scope: "itemscope", kind: "itemtype", property: "itemprop" };
const RDFA: Syntax =
    Syntax { source: "rdfa", scope: "typeof", kind: "typeof", property: "property" };

/// Items that are marked in the text. An item within an item is both a value and nested there.
fn marked_up(tree: &Tree<'_>, syntax: &Syntax) -> Vec<Value> {
    struct Open {
        end: NodeId,
        object: Map<String, Value>,
        property: Option<String>,
    }
    let mut items = Vec::new();
    // Most pages have none, and a search for the word costs less than a look at every tag.
    if memchr::memmem::find(tree.page.as_bytes(), syntax.scope.as_bytes()).is_none() {
        return items;
    }
    let mut open: Vec<Open> = Vec::new();
    let close = |open: &mut Vec<Open>, items: &mut Vec<Value>| {
        let Some(Open { object, property, .. }) = open.pop() else { return };
        match (property, open.last_mut()) {
            (Some(property), Some(outer)) => {
                add(&mut outer.object, &property, Value::Object(object))
            }
            _ => {
                let mut object = object;
                object.insert("@source".to_owned(), syntax.source.into());
                items.push(Value::Object(object));
            }
        }
    };
    for id in 1..tree.nodes.len() {
        while open.last().is_some_and(|item| item.end <= id) {
            close(&mut open, &mut items);
        }
        if tree.element(id).is_text() || items.len() >= ITEMS_MAX {
            continue;
        }
        let mut marks: [Option<&str>; 3] = [None; 3];
        for (name, value) in tree.attributes(id) {
            for (mark, wanted) in marks.iter_mut().zip([syntax.scope, syntax.kind, syntax.property])
            {
                if mark.is_none() && name.eq_ignore_ascii_case(wanted) {
                    *mark = Some(value);
                }
            }
        }
        let [scope, kind, property] = marks;
        // `<meta property="og:…">` is OpenGraph, not RDFa.
        let property = property.map(|name| short_name(name).to_owned());
        let property = property.filter(|name| !name.is_empty() && !open.is_empty());
        if scope.is_some() && open.len() < NESTED_MAX {
            let mut object = Map::new();
            if let Some(kind) = kind.map(short_name).filter(|kind| !kind.is_empty()) {
                object.insert("@type".to_owned(), kind.into());
            }
            open.push(Open { end: tree.nodes[id].end(), object, property });
        } else if let (Some(property), Some(item)) = (property, open.last_mut()) {
            let value = value_of(tree, id);
            if !value.is_empty() {
                add(&mut item.object, &property, value.into());
            }
        }
    }
    while !open.is_empty() {
        close(&mut open, &mut items);
    }
    items.retain(|item| item.as_object().is_some_and(|object| object.len() > 2));
    items
}

/// Items within items; real pages nest a few.
const NESTED_MAX: usize = 16;

/// A property that comes again becomes a list.
fn add(object: &mut Map<String, Value>, property: &str, value: Value) {
    match object.get_mut(property) {
        None => {
            object.insert(property.to_owned(), value);
        }
        Some(Value::Array(list)) => {
            if list.len() < ITEMS_MAX {
                list.push(value);
            }
        }
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

/// What an element says as the value of a property.
fn value_of(tree: &Tree<'_>, id: NodeId) -> String {
    use Element::*;
    let named = match tree.element(id) {
        Meta => "content",
        Img | Iframe | Embed | Source | Audio | Video | Track => "src",
        A | Link | Area => "href",
        Object => "data",
        Time => "datetime",
        Data | Meter => "value",
        _ => "content",
    };
    match tree.attribute(id, named) {
        Some(value) => value.trim().chars().take(VALUE_BYTES_MAX).collect(),
        None => tree.text_below(id, VALUE_BYTES_MAX),
    }
}

/// OpenGraph and Twitter cards: the metas of the page, an object each.
fn cards(tree: &Tree<'_>) -> Vec<Value> {
    let mut graph = Map::new();
    let mut twitter = Map::new();
    for id in 1..tree.nodes.len() {
        if tree.element(id) != Element::Meta {
            continue;
        }
        let Some(content) = tree.attribute(id, "content") else { continue };
        let content = content.trim();
        if content.is_empty() {
            continue;
        }
        for name in ["property", "name"].into_iter().filter_map(|name| tree.attribute(id, name)) {
            let name = name.trim().to_ascii_lowercase();
            if let Some(card) = name.strip_prefix("twitter:") {
                add(&mut twitter, card, content.into());
                break;
            }
            let spaces = ["og:", "article:", "product:", "book:", "profile:", "video:", "music:"];
            if spaces.iter().any(|space| name.starts_with(space)) {
                add(&mut graph, name.strip_prefix("og:").unwrap_or(&name), content.into());
                break;
            }
        }
    }
    let mut cards = Vec::new();
    for (source, mut object) in [("opengraph", graph), ("twitter", twitter)] {
        if object.is_empty() {
            continue;
        }
        let kind = object.get("type").or_else(|| object.get("card")).cloned();
        if let Some(Value::String(kind)) = kind {
            object.insert("@type".to_owned(), kind.into());
        }
        object.insert("@source".to_owned(), source.into());
        cards.push(Value::Object(object));
    }
    cards
}

/// The longer texts in JSON-LD, one after the other: what the page's text is compared with.
pub(crate) fn texts(items: &[Value]) -> String {
    let mut out = String::new();
    let mut waiting: Vec<&Value> = items.iter().collect();
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(list) => waiting.extend(list),
            Value::Object(object) => {
                for (name, value) in object {
                    match (name.as_str(), value) {
                        (
                            "articleBody" | "description" | "text" | "reviewBody",
                            Value::String(text),
                        ) => {
                            out.push_str(&plain(text));
                            out.push('\n');
                        }
                        (_, Value::Array(_) | Value::Object(_)) => waiting.push(value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if out.len() > DATA_BYTES_MAX {
            break;
        }
    }
    out
}

/// The longest body that an item has, with its paragraphs.
pub(crate) fn body(items: &[Value]) -> Option<String> {
    let bodies = items.iter().filter_map(|item| item.get("articleBody")?.as_str());
    let paragraphs = bodies.max_by_key(|body| body.len())?.split('\n').map(plain);
    let kept: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    Some(kept.join("\n\n")).filter(|body| !body.is_empty())
}

/// Texts in JSON-LD often hold markup, and entities within.
pub(crate) fn plain(text: &str) -> String {
    let unescaped = htmlize::unescape(text);
    let mut out = String::with_capacity(unescaped.len());
    let mut in_tag = false;
    let mut space = false;
    for c in unescaped.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                space = true;
            }
            _ if in_tag => {}
            _ if c.is_whitespace() => space = true,
            _ => {
                if space && !out.is_empty() {
                    out.push(' ');
                }
                space = false;
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(html: &str) -> Value {
        let tree = Tree::parse(html, false);
        Value::Array(items(&tree, linked_data(&tree)))
    }

    #[test]
    fn json_ld_is_taken_apart_and_mended() {
        let html = "<script type='application/ld+json'>//<![CDATA[\n\
            {\"@context\":\"https://schema.org\",\"@graph\":[{\"@type\":\"https://schema.org/Person\",\
            \"name\":\"A\nB\"},{\"@type\":[\"Article\"]}]};\n//]]></script>\
            <script type=application/ld+json>{broken</script>";
        assert_eq!(
            found(html),
            serde_json::json!([
                {"@type": "Person", "name": "A B", "@source": "json-ld"},
                {"@type": ["Article"], "@source": "json-ld"},
            ])
        );
    }

    #[test]
    fn microdata_nests_and_repeats() {
        let html = "<div itemscope itemtype='http://schema.org/Product'><b itemprop=name>Lamp</b>\
            <div itemprop=offers itemscope itemtype='http://schema.org/Offer'>\
            <meta itemprop=price content=5><time itemprop=until datetime=2026-01-01>soon</time></div>\
            <img itemprop=image src=a.png><img itemprop=image src=b.png></div>";
        assert_eq!(
            found(html),
            serde_json::json!([{
                "@type": "Product", "name": "Lamp", "@source": "microdata",
                "offers": {"@type": "Offer", "price": "5", "until": "2026-01-01"},
                "image": ["a.png", "b.png"],
            }])
        );
    }

    #[test]
    fn rdfa_and_cards_come_in_the_same_form() {
        let html = "<meta property=og:title content=T><meta property=og:type content=article>\
            <meta name=twitter:card content=summary>\
            <p vocab=http://schema.org/ typeof=Person><span property=name>Ann</span></p>";
        assert_eq!(
            found(html),
            serde_json::json!([
                {"@type": "Person", "name": "Ann", "@source": "rdfa"},
                {"@type": "article", "type": "article", "title": "T", "@source": "opengraph"},
                {"@type": "summary", "card": "summary", "@source": "twitter"},
            ])
        );
    }

    #[test]
    fn hostile_data_is_bounded() {
        found(&format!("<script type=application/ld+json>{}</script>", "[".repeat(100_000)));
        found(&"<div itemscope><p itemprop=a>".repeat(10_000));
        found(&"<p itemprop=a itemscope>x".repeat(10_000));
    }
}
