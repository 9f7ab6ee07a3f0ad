//! How is a page laid down in the index?
//!
//! One document a page. What is looked for in a text is cut into words by `words`; the language of a
//! document comes to the tokenizer as a mark before the text, because tantivy has one tokenizer a field
//! and a web has many languages. What is shown of a page is stored beside that: its address, its title,
//! its text.
//!
//! Changes here need another [`FORMAT`].

use frostem::Stemmer;
use ports::shard_store::VisitLine;
use tantivy::directory::MmapDirectory;
use tantivy::schema::{
    BytesOptions, FAST, Field, INDEXED, IndexRecordOption, NumericOptions, STORED, STRING, Schema,
    TextFieldIndexing, TextOptions, Value as _,
};
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexSettings, TantivyDocument, Term};
use types::{CrawlUrl, Reading, Timestamp, UrlId};

use crate::words::{self, Words};

/// The version of the layout.
pub(crate) const FORMAT: u32 = 1;

const TOKENIZER: &str = "words";

/// Before the language of a text, and behind it. No text has them: they are no characters of XML.
const LANGUAGE_BEGIN: char = '\u{2}';
const LANGUAGE_END: char = '\u{3}';

/// What stands where in a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    /// Names the document: sixteen bytes of the URL's hash.
    pub id: Field,
    /// The family of texts that the page is the original of.
    pub family: Field,
    pub url: Field,
    pub title: Field,
    pub headings: Field,
    pub text: Field,
    pub url_words: Field,
    /// Its host, and every host above that.
    pub site: Field,
    /// Its tag, and the language of the tag.
    pub language: Field,
    /// Seconds since 1970.
    pub date: Field,
    pub importance: Field,
    /// What is shown.
    pub shown: Shown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub title: Field,
    pub text: Field,
    pub language: Field,
    pub date: Field,
}

/// The names of those that are columns.
pub(crate) const DATE: &str = "date";
pub(crate) const IMPORTANCE: &str = "importance";

pub(crate) fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let words = || {
        TextOptions::default().set_indexing_options(
            TextFieldIndexing::default()
                .set_tokenizer(TOKENIZER)
                .set_index_option(IndexRecordOption::WithFreqsAndPositions),
        )
    };
    let column = || NumericOptions::default() | FAST;
    let fields = Fields {
        id: schema.add_bytes_field("id", BytesOptions::default().set_indexed()),
        family: schema.add_u64_field("family", INDEXED),
        url: schema.add_text_field("url", STORED),
        title: schema.add_text_field("title", words()),
        headings: schema.add_text_field("headings", words()),
        text: schema.add_text_field("text", words()),
        url_words: schema.add_text_field("url_words", words()),
        site: schema.add_text_field("site", STRING),
        language: schema.add_text_field("language", STRING),
        date: schema.add_i64_field(DATE, column()),
        importance: schema.add_f64_field(IMPORTANCE, column()),
        shown: Shown {
            title: schema.add_text_field("shown_title", STORED),
            text: schema.add_text_field("shown_text", STORED),
            language: schema.add_text_field("shown_language", STORED),
            date: schema.add_text_field("shown_date", STORED),
        },
    };
    (schema.build(), fields)
}

/// Opens the index in a folder that is there, or begins one.
pub(crate) fn open_or_begin(directory: MmapDirectory) -> tantivy::Result<(Index, Fields)> {
    let (schema, fields) = schema();
    // Texts are compressed by the thread that writes: one of their own would hide its errors from it.
    let settings =
        IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
    let index = Index::builder().schema(schema).settings(settings).open_or_create(directory)?;
    register(&index);
    Ok((index, fields))
}

/// Opens the index in a folder. One of another layout is an error.
pub(crate) fn open(directory: MmapDirectory) -> tantivy::Result<(Index, Fields)> {
    let (schema, fields) = schema();
    let index = Index::open(directory)?;
    if index.schema() != schema {
        let why = "it has other fields".to_owned();
        return Err(tantivy::TantivyError::SchemaError(why));
    }
    register(&index);
    Ok((index, fields))
}

fn register(index: &Index) {
    index.tokenizers().register(TOKENIZER, TextAnalyzer::from(Cutter));
}

impl Fields {
    pub fn id_term(&self, id: UrlId) -> Term {
        Term::from_field_bytes(self.id, &id.to_be_bytes())
    }

    pub fn family_term(&self, family: u64) -> Term {
        Term::from_field_u64(self.family, family)
    }

    /// The document of a page.
    pub fn document(
        &self,
        line: &VisitLine,
        reading: &Reading,
        family: Option<u64>,
    ) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        let page = line.page.as_deref();
        let language = page.and_then(|page| page.text.as_ref()?.language.as_deref());
        let marked = |text: &str| {
            format!("{LANGUAGE_BEGIN}{}{LANGUAGE_END}{text}", language.unwrap_or_default())
        };
        document.add_bytes(self.id, &line.url.id().to_be_bytes());
        if let Some(family) = family {
            document.add_u64(self.family, family);
        }
        document.add_text(self.url, line.url.as_str());
        document.add_text(self.url_words, marked(&words_of(&line.url)));
        for site in sites(line.url.host()) {
            document.add_text(self.site, site);
        }
        if let Some(title) = page.and_then(|page| page.title.as_deref()) {
            document.add_text(self.title, marked(title));
            document.add_text(self.shown.title, title);
        }
        if !reading.headings.is_empty() {
            document.add_text(self.headings, marked(&reading.headings));
        }
        if !reading.text.is_empty() {
            document.add_text(self.text, marked(&reading.text));
            document.add_text(self.shown.text, &*reading.text);
        }
        if let Some(language) = language {
            document.add_text(self.shown.language, language);
            let tag = language.to_ascii_lowercase();
            if let Some((primary, _)) = tag.split_once('-') {
                document.add_text(self.language, primary);
            }
            document.add_text(self.language, tag);
        }
        let (text, seconds) = date(reading, line.at);
        document.add_i64(self.date, seconds);
        document.add_text(self.shown.date, text);
        let (depth, seed) = page.map_or((0, false), |page| (page.depth, page.seed));
        document.add_f64(self.importance, importance(depth, seed));
        document
    }
}

/// When it was published, or else when it was fetched.
fn date(reading: &Reading, fetched: Timestamp) -> (String, i64) {
    match &reading.published {
        Some(published) => (published.text.to_string(), published.seconds),
        None => (fetched.rfc3339(), i64::try_from(fetched.secs()).unwrap_or(i64::MAX)),
    }
}

/// What a page's place in its web says of it, between 0.5 and 1. A seed was named by a person; a page ten
/// links away counts two thirds, which a better match makes up for. Depth is all that is known while a
/// crawl runs.
fn importance(depth: u16, seed: bool) -> f64 {
    match seed {
        true => 1.0,
        false => 0.5 + 0.5 / f64::from(depth).mul_add(0.2, 1.0),
    }
}

/// A host and those above it: `a.b.test`, `b.test`, `test`. Addresses stand for themselves.
fn sites(host: &str) -> impl Iterator<Item = &str> {
    let is_address = host.starts_with('[') || host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let mut next = Some(host);
    std::iter::from_fn(move || {
        let site = next?;
        next = site.split_once('.').map(|(_, above)| above).filter(|_| !is_address);
        Some(site)
    })
}

/// The words of an address: its host, its path and its query, out of their percent signs.
pub(crate) fn words_of(url: &CrawlUrl) -> String {
    let (host, rest) = (url.host(), url.path_and_query());
    let mut bytes = Vec::with_capacity(host.len() + rest.len() + 1);
    bytes.extend_from_slice(host.as_bytes());
    bytes.push(b' ');
    let mut rest = rest.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let hex = hex.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|hex| str::from_utf8(hex).ok());
        let decoded = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    // An underscore joins words of names in addresses only.
    String::from_utf8_lossy(&bytes).replace('_', " ")
}

/// A stored text of a document.
pub(crate) fn stored(document: &TantivyDocument, field: Field) -> Option<&str> {
    document.get_first(field)?.as_str()
}

/// [`Words`] for tantivy.
#[derive(Debug, Clone)]
struct Cutter;

impl Tokenizer for Cutter {
    type TokenStream<'a> = Cut<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Cut<'a> {
        let (stemmer, text) = unmarked(text);
        Cut { words: Words::new(text, stemmer), token: Token::default() }
    }
}

/// A text without the mark before it, and the stemmer that the mark names.
fn unmarked(text: &str) -> (Option<Stemmer>, &str) {
    let marked = text.strip_prefix(LANGUAGE_BEGIN).and_then(|text| text.split_once(LANGUAGE_END));
    match marked {
        Some((language, text)) => (words::stemmer(language), text),
        None => (None, text),
    }
}

struct Cut<'a> {
    words: Words<'a>,
    token: Token,
}

impl TokenStream for Cut<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next() else { return false };
        self.token = Token {
            offset_from: word.start,
            offset_to: word.end,
            position: word.position,
            text: word.text,
            position_length: 1,
        };
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_by_every_host_above_it() {
        assert_eq!(sites("a.b.test").collect::<Vec<_>>(), ["a.b.test", "b.test", "test"]);
        assert_eq!(sites("127.0.0.1").collect::<Vec<_>>(), ["127.0.0.1"]);
        assert_eq!(sites("[::1]").collect::<Vec<_>>(), ["[::1]"]);
    }

    #[test]
    fn the_words_of_an_address_are_out_of_their_percent_signs() {
        let url =
            CrawlUrl::parse("http://www.a.test/gr%C3%B6%C3%9Fe_an/b-c.html?q=100%25x").unwrap();
        assert_eq!(words_of(&url), "www.a.test /größe an/b-c.html?q=100%x");
    }

    #[test]
    fn seeds_come_first_and_depth_counts_less_and_less() {
        let all: Vec<f64> =
            [0, 1, 2, 5, 10, 100, u16::MAX].map(|depth| importance(depth, false)).into();
        assert!(all.is_sorted_by(|a, b| a > b), "{all:?}");
        assert!(all[0] <= 1.0 && all[6] >= 0.5);
        assert_eq!(importance(7, true), 1.0);
    }

    #[test]
    fn the_mark_of_a_language_is_no_word() {
        let mut cutter = Cutter;
        let mut stream = cutter.token_stream("\u{2}en\u{3}running");
        let mut texts = Vec::new();
        while stream.advance() {
            texts.push(stream.token().text.clone());
        }
        assert_eq!(texts, ["running", "run"]);
        // A page's own control characters are no mark.
        let mut stream = cutter.token_stream("\u{2}\u{3}\u{2}en\u{3}running");
        assert!(stream.advance() && stream.token().text == "en");
    }
}
