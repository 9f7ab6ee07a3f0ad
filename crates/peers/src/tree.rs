//! Which links does the tree of a page have?
//!
//! The tree is built as the HTML standard says, without scripts. What is a link is decided here
//! once more, from the standard and not from our own reader: elements, attributes, `srcset` and
//! refresh, each in a few lines.
//!
//! The tree's builder is listened to: a link whose start tag it was given and which is neither in the
//! tree nor in a template was dropped by it.

use std::cell::RefCell;

use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, ns};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use url::Url;

use crate::{Found, Kind, absolute};

#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) links: Vec<Found>,
    /// Links of start tags that were read, but are not in the tree.
    pub(crate) dropped: Vec<Found>,
}

pub(crate) fn read(url: &str, html: &str) -> Reading {
    let (document, seen) = parse(html);
    let mut walk = Walk::default();
    walk.run(&document);
    let page = Url::parse(url).ok();
    let base = walk.base.and_then(|href| page.as_ref()?.join(href.trim()).ok()).or(page);
    let finish = |links: Vec<Found>| -> Vec<Found> {
        links.into_iter().map(|(kind, href)| (kind, absolute(base.as_ref(), &href))).collect()
    };
    let links = finish(walk.links);
    let mut dropped = finish(seen);
    for known in links.iter().chain(&finish(walk.inert)) {
        if let Some(place) = dropped.iter().position(|link| link == known) {
            dropped.swap_remove(place);
        }
    }
    Reading { links, dropped }
}

/// The tree, and the links of all start tags that it was built from.
fn parse(html: &str) -> (Handle, Vec<Found>) {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let builder = TreeBuilder::new(RcDom::default(), options);
    let listener = Listener { builder, seen: RefCell::default() };
    let tokenizer = Tokenizer::new(listener, Default::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html.strip_prefix('\u{feff}').unwrap_or(html)));
    // It stops after each script, which a browser would run now.
    while !input.is_empty() {
        // What it stopped for is a script or an encoding; we have neither.
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    let Listener { builder, seen } = tokenizer.sink;
    (builder.sink.document, seen.into_inner())
}

struct Listener {
    builder: TreeBuilder<Handle, RcDom>,
    seen: RefCell<Vec<Found>>,
}

impl TokenSink for Listener {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        if let Token::TagToken(tag) = &token
            && tag.kind == TagKind::StartTag
        {
            let mut seen = self.seen.borrow_mut();
            links_of(&tag.name, false, &tag.attrs, &mut seen);
            links_of(&tag.name, true, &tag.attrs, &mut seen);
        }
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

#[derive(Default)]
struct Walk {
    links: Vec<Found>,
    /// Links in templates.
    inert: Vec<Found>,
    base: Option<String>,
}

impl Walk {
    /// The document is borrowed, because a node that is dropped takes its children along, also those
    /// that somebody else holds.
    fn run(&mut self, document: &Handle) {
        let mut waiting = vec![(document.clone(), false)];
        while let Some((node, inert)) = waiting.pop() {
            if let NodeData::Element { name, attrs, template_contents, .. } = &node.data {
                let attrs = attrs.borrow();
                let foreign = name.ns != ns!(html);
                let links = if inert { &mut self.inert } else { &mut self.links };
                links_of(&name.local, foreign, &attrs, links);
                if &*name.local == "base" && !foreign && !inert && self.base.is_none() {
                    self.base = value(&attrs, "href").map(str::to_owned);
                }
                if let Some(contents) = &*template_contents.borrow() {
                    // One that declares a shadow root is shown.
                    let mode = value(&attrs, "shadowrootmode").unwrap_or("");
                    let shown = ["open", "closed"].iter().any(|m| mode.eq_ignore_ascii_case(m));
                    waiting.push((contents.clone(), inert || !shown));
                }
            }
            waiting.extend(node.children.borrow().iter().rev().map(|child| (child.clone(), inert)));
        }
    }
}

fn value<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    attributes.iter().find(|attribute| &*attribute.name.local == name).map(|a| &*a.value)
}

fn links_of(name: &str, foreign: bool, attributes: &[Attribute], out: &mut Vec<Found>) {
    let get = |name: &str| value(attributes, name);
    if foreign {
        // In a tree the prefix of `xlink:href` is apart from its name, among tokens it is not.
        let href = get("href").or_else(|| get("xlink:href"));
        let kind = match name {
            "a" => Kind::Anchor,
            "image" | "use" => Kind::Image,
            "script" => Kind::Script,
            _ => return,
        };
        return add(out, kind, href);
    }
    match name {
        "a" => add(out, Kind::Anchor, get("href")),
        "area" => add(out, Kind::Area, get("href")),
        "iframe" | "frame" => add(out, Kind::Frame, get("src")),
        "img" | "image" => {
            add(out, Kind::Image, get("src"));
            add_set(out, get("srcset"));
        }
        "input" if get("type").is_some_and(|kind| kind.eq_ignore_ascii_case("image")) => {
            add(out, Kind::Image, get("src"));
        }
        "body" => add(out, Kind::Image, get("background")),
        "script" => add(out, Kind::Script, get("src")),
        "source" => {
            add(out, Kind::Media, get("src"));
            add_set(out, get("srcset"));
        }
        "audio" | "track" => add(out, Kind::Media, get("src")),
        "video" => {
            add(out, Kind::Media, get("src"));
            add(out, Kind::Image, get("poster"));
        }
        "embed" => add(out, Kind::Object, get("src")),
        "object" => add(out, Kind::Object, get("data")),
        "link" => {
            add_set(out, get("imagesrcset"));
            let Some(rel) = get("rel").map(str::to_ascii_lowercase) else { return };
            let loads = rel.contains("stylesheet") || rel.contains("icon");
            let href = get("href").filter(|href| !loads || !is_here(href));
            add(out, Kind::Link, href);
        }
        "meta" if get("http-equiv").is_some_and(|kind| kind.eq_ignore_ascii_case("refresh")) => {
            add(out, Kind::Refresh, get("content").and_then(refresh_target));
        }
        _ => {}
    }
}

fn add(out: &mut Vec<Found>, kind: Kind, href: Option<&str>) {
    use Kind::*;
    let Some(href) = href else { return };
    let href = href.trim_matches(|c: char| c <= ' ');
    // What loads nothing is no link: no file, this page, or the data itself.
    let loads = matches!(kind, Frame | Image | Script | Media | Object);
    let is_data = href.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("data:"));
    if !(is_data || loads && is_here(href)) {
        out.push((kind, href.to_owned()));
    }
}

/// Nothing, or a place in this page.
fn is_here(href: &str) -> bool {
    let href = href.trim_matches(|c: char| c <= ' ');
    href.is_empty() || href.starts_with('#')
}

/// The addresses of a `srcset`: up to white space, or to commas that end them; what describes one
/// goes to the next comma outside of parentheses.
fn add_set(out: &mut Vec<Found>, set: Option<&str>) {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    let mut rest = set.unwrap_or("");
    loop {
        rest = rest.trim_start_matches(|c| is_space(c) || c == ',');
        if rest.is_empty() {
            return;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        let (address, after) = rest.split_at(end);
        let whole = address.trim_end_matches(',');
        add(out, Kind::Image, Some(whole));
        rest = after;
        if whole.len() == address.len() {
            let mut depth = 0_u32;
            let comma = rest.find(|c| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                c == ',' && depth == 0
            });
            rest = comma.map_or("", |comma| &rest[comma + 1..]);
        }
    }
}

/// `5; url='x'` → `x`.
fn refresh_target(content: &str) -> Option<&str> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    let text = content.trim_start_matches(is_space);
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() == text.len() && !text.starts_with('.') {
        return None;
    }
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !rest.starts_with(|c| is_space(c) || c == ';' || c == ',') {
        return None;
    }
    let rest = rest.trim_start_matches(is_space);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(is_space);
    if rest.is_empty() {
        return None;
    }
    let named = rest.get(..3).filter(|start| start.eq_ignore_ascii_case("url"));
    let target = named.and_then(|_| {
        let after = rest[3..].trim_start_matches(is_space).strip_prefix('=')?;
        Some(after.trim_start_matches(is_space))
    });
    let target = target.unwrap_or(rest);
    let Some(quote) = target.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return Some(target);
    };
    let inner = &target[1..];
    Some(inner.split(quote).next().unwrap_or(inner))
}
