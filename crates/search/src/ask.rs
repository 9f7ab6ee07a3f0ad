//! Which pages answer a question best?
//!
//! A page must have every word, wherever it stands. What a word counts is BM25 of each part of the page,
//! times what that part is worth; the sum is multiplied with the page's importance. A word is looked for as
//! it is written, and for less by the stems that the languages of this index give it; a phrase as it is
//! written only.
//!
//! The index is opened to read, which disturbs nobody who writes to it at the same time: what is searched
//! is the latest commit at the moment of the opening.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::path::Path;

use frostem::Stemmer;
use ports::PortResult;
use tantivy::collector::{Count, TopDocs};
use tantivy::directory::MmapDirectory;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, DisjunctionMaxQuery, Occur, PhraseQuery, Query,
    RangeQuery, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{
    DocAddress, DocId, Index, IndexReader, ReloadPolicy, Score, Searcher, SegmentReader,
    TantivyDocument, Term,
};

use crate::fault::port;
use crate::note::Note;
use crate::query::{BadQuery, Node, Part};
use crate::schema::{self, Fields, stored};
use crate::snippet::{Snippet, snippet};
use crate::words::{self, Kind, Word, Words};

/// Results that can be asked for, with those before them.
pub const RESULTS_MAX: usize = 100_000;

/// What a word is worth where it stands. A title is a few words that somebody chose for all others.
const TITLE: Score = 4.0;
const HEADINGS: Score = 2.0;
const URL: Score = 1.5;
const TEXT: Score = 1.0;
/// What a stem is worth, where the word itself is worth 1.
const STEM: Score = 0.6;
/// What the other forms of a word add to the best one.
const TIE: Score = 0.1;

/// A question with its bounds.
#[derive(Debug, Clone)]
pub struct Question {
    pub query: Node,
    pub site: Option<String>,
    pub language: Option<String>,
    /// Seconds since 1970: from this moment on.
    pub after: Option<i64>,
    /// And before this one.
    pub before: Option<i64>,
    pub offset: usize,
    pub limit: usize,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Pages that answer, shown or not.
    pub total: usize,
    pub hits: Vec<Hit>,
}

/// A page that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// 1 is the best of all.
    pub rank: usize,
    pub score: f32,
    pub url: String,
    pub title: Option<String>,
    pub snippet: Snippet,
    pub language: Option<String>,
    /// When it was published, or else fetched; ISO 8601.
    pub date: String,
}

/// An index that is open to be asked.
pub struct Asked {
    fields: Fields,
    searcher: Searcher,
    /// Of the languages that its pages have.
    stemmers: Vec<Stemmer>,
    partial: bool,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("pages", &self.pages()).finish_non_exhaustive()
    }
}

impl Asked {
    /// Opens the index in a folder; none if there is none.
    pub fn open(folder: &Path) -> PortResult<Option<Self>> {
        let doing = || format!("open the index in {}", folder.display());
        if !folder.is_dir() {
            return Ok(None);
        }
        let directory = MmapDirectory::open(folder).map_err(|error| port(doing())(error.into()))?;
        if !Index::exists(&directory).map_err(|error| port(doing())(error.into()))? {
            return Ok(None);
        }
        let (index, fields) = schema::open(directory).map_err(port(doing()))?;
        let note = Note::of(&index).map_err(port(doing()))??;
        let open = || -> tantivy::Result<Self> {
            let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual);
            let reader: IndexReader = reader.try_into()?;
            let searcher = reader.searcher();
            let stemmers = stemmers(&searcher, fields)?;
            Ok(Self { fields, searcher, stemmers, partial: note.partial })
        };
        open().map(Some).map_err(port(doing()))
    }

    /// Pages that it has.
    pub fn pages(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// Whether the crawl had begun before the index did, so that pages of before are missing.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// # Errors
    /// `Ok(Err(_))` if the question has no word that could be looked for.
    pub fn ask(&self, question: &Question) -> PortResult<Result<Answer, BadQuery>> {
        let mut stemmers = self.stemmers.clone();
        if let Some(language) = &question.language {
            stemmers = words::stemmer(language).into_iter().collect();
        }
        let builder = Builder { fields: self.fields, stemmers };
        let Some(found) = builder.build(&question.query) else {
            return Ok(Err(BadQuery::no_words()));
        };
        let query = self.bounded(found, question);
        let doing = "search";
        let limit = question.limit.clamp(1, RESULTS_MAX);
        let offset = question.offset.min(RESULTS_MAX);
        let best = TopDocs::with_limit(limit).and_offset(offset).tweak_score(by_importance);
        let (hits, total) = self.searcher.search(&query, &(best, Count)).map_err(port(doing))?;
        let wanted = builder.wanted(&question.query);
        let hits = (offset + 1..).zip(hits).map(|(rank, (score, address))| {
            self.hit((rank, score), address, &wanted).map_err(port(doing))
        });
        Ok(Ok(Answer { total, hits: hits.collect::<PortResult<_>>()? }))
    }

    fn bounded(&self, found: Box<dyn Query>, question: &Question) -> BooleanQuery {
        let mut all = vec![(Occur::Must, found)];
        let mut only = |query: Box<dyn Query>| all.push((Occur::Must, filter(query)));
        if let Some(site) = &question.site {
            only(exact(self.fields.site, site));
        }
        if let Some(language) = &question.language {
            only(exact(self.fields.language, language));
        }
        if question.after.is_some() || question.before.is_some() {
            let term = |seconds| Term::from_field_i64(self.fields.date, seconds);
            let after = question.after.map_or(Bound::Unbounded, |at| Bound::Included(term(at)));
            let before = question.before.map_or(Bound::Unbounded, |at| Bound::Excluded(term(at)));
            only(Box::new(RangeQuery::new(after, before)));
        }
        BooleanQuery::new(all)
    }

    fn hit(
        &self,
        (rank, score): (usize, Score),
        address: DocAddress,
        wanted: &HashMap<String, usize>,
    ) -> tantivy::Result<Hit> {
        let document: TantivyDocument = self.searcher.doc(address)?;
        let shown = self.fields.shown;
        let text = |field| stored(&document, field);
        let own = |field| text(field).map(str::to_owned);
        let stemmer = text(shown.language).and_then(words::stemmer);
        Ok(Hit {
            rank,
            score,
            url: own(self.fields.url).unwrap_or_default(),
            title: own(shown.title),
            snippet: snippet(text(shown.text).unwrap_or_default(), stemmer, wanted),
            language: own(shown.language),
            date: own(shown.date).unwrap_or_default(),
        })
    }
}

/// What the best come first by.
fn by_importance(segment: &SegmentReader) -> impl Fn(DocId, Score) -> Score + use<> {
    let column = segment.fast_fields().column_first_or_default::<f64>(schema::IMPORTANCE);
    // Without the column, which every document of ours has, they are all of one importance.
    let column = column.ok();
    move |document, score| {
        let importance = column.as_ref().map_or(1.0, |column| column.get_val(document));
        score * importance as Score
    }
}

/// The stemmers of all languages that an index has pages of. These are some dozens at most.
fn stemmers(searcher: &Searcher, fields: Fields) -> tantivy::Result<Vec<Stemmer>> {
    let mut tags = BTreeSet::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(fields.language)?;
        let mut stream = index.terms().stream()?;
        while let Some((term, _)) = stream.next() {
            let tag = String::from_utf8_lossy(term);
            tags.extend(tag.split('-').next().map(str::to_owned));
        }
    }
    Ok(tags.iter().filter_map(|tag| words::stemmer(tag)).collect())
}

fn exact(field: Field, text: &str) -> Box<dyn Query> {
    Box::new(TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::Basic))
}

/// Decides who is there, and says nothing about how good.
fn filter(query: Box<dyn Query>) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(query, 0.0))
}

/// Makes tantivy's query of ours.
struct Builder {
    fields: Fields,
    stemmers: Vec<Stemmer>,
}

/// One word or phrase of a question, cut up as a page is.
enum Cut {
    /// Nothing but punctuation.
    Nothing,
    /// The word, and what it may be a form of.
    Word { word: String, stems: BTreeSet<String> },
    /// Words with their places.
    Phrase(Vec<(usize, String)>),
}

impl Builder {
    /// None if there is no word in it.
    fn build(&self, node: &Node) -> Option<Box<dyn Query>> {
        match node {
            Node::Words { text, phrase, part } => self.words(text, *phrase, *part),
            Node::Site(site) => Some(filter(exact(self.fields.site, site))),
            Node::Language(language) => Some(filter(exact(self.fields.language, language))),
            Node::Any(nodes) => {
                let queries: Vec<_> = nodes.iter().filter_map(|node| self.build(node)).collect();
                (!queries.is_empty())
                    .then(|| -> Box<dyn Query> { Box::new(BooleanQuery::union(queries)) })
            }
            Node::All(nodes) => {
                let mut clauses = Vec::new();
                for node in nodes {
                    let (occur, node) = match node {
                        Node::Not(node) => (Occur::MustNot, &**node),
                        node => (Occur::Must, node),
                    };
                    clauses.extend(self.build(node).map(|query| (occur, query)));
                }
                let wants = clauses.iter().any(|(occur, _)| *occur == Occur::Must);
                wants.then(|| -> Box<dyn Query> { Box::new(BooleanQuery::new(clauses)) })
            }
            // Alone it says nothing; `query` refuses that.
            Node::Not(_) => None,
        }
    }

    fn words(&self, text: &str, phrase: bool, part: Option<Part>) -> Option<Box<dyn Query>> {
        let cut = self.cut(text, phrase);
        let in_field = |field: Field, worth: Score| -> Option<Box<dyn Query>> {
            let query = match &cut {
                Cut::Nothing => return None,
                Cut::Word { word, stems } => form(field, word, stems),
                Cut::Phrase(words) => {
                    let term = |word: &str| Term::from_field_text(field, word);
                    let words = words.iter().map(|(place, word)| (*place, term(word))).collect();
                    Box::new(PhraseQuery::new_with_offset(words))
                }
            };
            Some(Box::new(BoostQuery::new(query, worth)))
        };
        let fields = self.fields;
        let parts = [
            (Part::Title, fields.title, TITLE),
            (Part::Heading, fields.headings, HEADINGS),
            (Part::Url, fields.url_words, URL),
            (Part::Text, fields.text, TEXT),
        ];
        let parts = parts.into_iter().filter(|(name, ..)| part.is_none_or(|part| part == *name));
        let mut queries: Vec<_> =
            parts.filter_map(|(_, field, worth)| in_field(field, worth)).collect();
        match queries.len() {
            0 => None,
            1 => Some(queries.swap_remove(0)),
            _ => Some(Box::new(BooleanQuery::union(queries))),
        }
    }

    fn cut(&self, text: &str, phrase: bool) -> Cut {
        let all: Vec<Word> = Words::new(text, None).collect();
        // The first piece of a run of characters stands beside its pair, which says more.
        let is_covered = |word: &Word| {
            word.kind == Kind::Single
                && all.iter().any(|pair| {
                    pair.kind == Kind::Pair && pair.start <= word.start && word.end <= pair.end
                })
        };
        let mut pieces: Vec<&Word> = all.iter().filter(|word| !is_covered(word)).collect();
        if pieces.len() > 1 {
            let words = pieces.iter().map(|word| (word.position, word.text.clone())).collect();
            return Cut::Phrase(words);
        }
        let Some(word) = pieces.pop() else { return Cut::Nothing };
        let mut stems = BTreeSet::new();
        if word.kind == Kind::Word && !phrase {
            for stemmer in &self.stemmers {
                let stems_of =
                    Words::new(text, Some(*stemmer)).filter(|word| word.kind == Kind::Stem);
                stems.extend(stems_of.map(|stem| stem.text));
            }
        }
        Cut::Word { word: word.text.clone(), stems }
    }

    /// The words whose places are shown, each with the number of what it stands for.
    fn wanted(&self, node: &Node) -> HashMap<String, usize> {
        let mut wanted = HashMap::new();
        self.collect(node, &mut wanted);
        wanted
    }

    fn collect(&self, node: &Node, wanted: &mut HashMap<String, usize>) {
        match node {
            Node::Words { text, phrase, .. } => {
                let number = wanted.len();
                match self.cut(text, *phrase) {
                    Cut::Nothing => {}
                    Cut::Word { word, stems } => {
                        for text in stems.into_iter().chain([word]) {
                            wanted.entry(text).or_insert(number);
                        }
                    }
                    Cut::Phrase(words) => {
                        for (n, (_, word)) in words.into_iter().enumerate() {
                            wanted.entry(word).or_insert(number + n);
                        }
                    }
                }
            }
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter().for_each(|node| self.collect(node, wanted));
            }
            Node::Site(_) | Node::Language(_) | Node::Not(_) => {}
        }
    }
}

/// A word in a field, or one of its stems for less.
fn form(field: Field, word: &str, stems: &BTreeSet<String>) -> Box<dyn Query> {
    let term = |text: &str| -> Box<dyn Query> {
        let term = Term::from_field_text(field, text);
        Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
    };
    if stems.is_empty() {
        return term(word);
    }
    let mut forms = vec![term(word)];
    forms.extend(
        stems.iter().map(|stem| -> Box<dyn Query> { Box::new(BoostQuery::new(term(stem), STEM)) }),
    );
    Box::new(DisjunctionMaxQuery::with_tie_breaker(forms, TIE))
}
