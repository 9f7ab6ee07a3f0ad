//! An index fed with lines of visit logs: what is found, what is not, and what a new life finds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use lycosa_search::{
    Answer, Asked, Family, Helpers, Question, Recalled, SearchIndex, Snapshot, erase, query,
};
use ports::Sink;
use ports::shard_store::VisitLine;
use types::{
    CrawlUrl, News, PageLine, Published, Reading, ShardId, TextFacts, Timestamp, VisitId, WarcRef,
};

const MEMORY: u64 = 16 << 20;
const SHARD: ShardId = ShardId(0);
const DAY: u64 = 24 * 60 * 60;

/// A crawl around an index: the log of one shard, families by URL, and an archive.
struct Crawl {
    folder: tempfile::TempDir,
    log: Vec<VisitLine>,
    families: Arc<Mutex<BTreeMap<String, Family>>>,
    archive: Arc<Mutex<BTreeMap<String, Recalled>>>,
    index: Option<SearchIndex>,
}

#[derive(Clone)]
struct Page {
    title: &'static str,
    text: String,
    language: Option<&'static str>,
    depth: u16,
}

fn page(title: &'static str, text: &str) -> Page {
    Page { title, text: text.to_owned(), language: Some("en"), depth: 1 }
}

fn url(path: &str) -> CrawlUrl {
    CrawlUrl::parse(&format!("http://www.a.test/{path}")).expect("a URL")
}

impl Crawl {
    fn new() -> Self {
        let mut crawl = Self {
            folder: tempfile::tempdir().expect("a folder"),
            log: Vec::new(),
            families: Arc::default(),
            archive: Arc::default(),
            index: None,
        };
        crawl.open();
        crawl
    }

    fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("search")
    }

    /// A new life: what was not committed is told again.
    fn open(&mut self) {
        self.index = None;
        let families = Arc::clone(&self.families);
        let archive = Arc::clone(&self.archive);
        let helpers = Helpers {
            judge: Some(Box::new(move |url| {
                Ok(families.lock().expect("no panic").get(url.as_str()).copied())
            })),
            recall: Box::new(move |_, line| {
                let archive = archive.lock().expect("no panic");
                archive.get(line.url.as_str()).cloned().unwrap_or(Recalled::Nothing)
            }),
        };
        let index = SearchIndex::open(&self.folder(), MEMORY, helpers).expect("it opens");
        let mut sink = index.sink(SHARD);
        let after = sink.cursor();
        let lines: Vec<_> = self.log.iter().filter(|line| line.seq > after).cloned().collect();
        sink.feed(&lines).expect("it takes the log");
        self.index = Some(index);
    }

    fn tell(&mut self, line: VisitLine) {
        let seq = self.log.len() as u64 + 1;
        let line = VisitLine { seq, visit: VisitId(seq), ..line };
        let mut sink = self.index.as_ref().expect("it is open").sink(SHARD);
        sink.feed(std::slice::from_ref(&line)).expect("it takes a line");
        // The log does not have the texts.
        let page = line.page.map(|page| Box::new(PageLine { reading: None, ..*page }));
        self.log.push(VisitLine { page, ..line });
    }

    fn visit(&mut self, path: &str, page: Page) {
        let line = line(path, page);
        let page = line.page.as_ref().expect("a page");
        let reading = page.reading.clone().expect("it was read");
        let name = line.url.as_str().to_owned();
        self.archive.lock().expect("no panic").insert(name, Recalled::Page(reading));
        self.tell(line);
    }

    fn family(&self, path: &str, number: u64, original: bool) {
        let family = Family { number, original };
        self.families.lock().expect("no panic").insert(url(path).as_str().to_owned(), family);
    }

    fn commit(&self) {
        self.index.as_ref().expect("it is open").sink(SHARD).close().expect("it commits");
    }

    fn ask(&self, text: &str) -> Answer {
        self.commit();
        ask(&self.folder(), &question(text))
    }

    /// The paths that answer, the best first.
    fn find(&self, text: &str) -> Vec<String> {
        paths(&self.ask(text))
    }
}

fn line(path: &str, page: Page) -> VisitLine {
    let text = TextFacts {
        digest: [1; 32],
        simhash: 2,
        words: 3,
        language: page.language.map(Into::into),
    };
    let headings = format!("Heading of {}\n", page.title);
    let reading = Reading { headings: headings.into(), text: page.text.into(), published: None };
    VisitLine {
        seq: 0,
        visit: VisitId(0),
        url: url(path),
        at: Timestamp::from_secs(1_800_000_000),
        status: 200,
        content_type: Some("text/html".into()),
        digest: None,
        warc: Some(WarcRef { file: 0, offset: 0, length: 1 }),
        page: Some(Box::new(PageLine {
            news: News::Other,
            depth: page.depth,
            seed: false,
            title: Some(page.title.into()),
            body_bytes: 9,
            truncated: None,
            noindex: false,
            nofollow: false,
            noarchive: false,
            text: Some(text),
            sketch: None,
            reading: Some(Arc::new(reading)),
        })),
    }
}

fn edited(mut line: VisitLine, edit: impl FnOnce(&mut PageLine)) -> VisitLine {
    edit(line.page.as_mut().expect("a page"));
    line
}

fn question(text: &str) -> Question {
    Question {
        query: query::parse(text).expect(text),
        site: None,
        language: None,
        after: None,
        before: None,
        offset: 0,
        limit: 100,
    }
}

fn ask(folder: &Path, question: &Question) -> Answer {
    let asked = Asked::open(folder).expect("it opens").expect("it is there");
    asked.ask(question).expect("it answers").expect("a question with words")
}

fn paths(answer: &Answer) -> Vec<String> {
    assert!(answer.hits.len() <= answer.total);
    let hits = answer.hits.iter();
    hits.map(|hit| hit.url.strip_prefix("http://www.a.test/").expect("ours").to_owned()).collect()
}

#[test]
fn a_page_is_found_by_its_title_its_headings_its_text_and_its_address() {
    let mut crawl = Crawl::new();
    crawl.visit("dens/map.html", page("Of wolves", "Spiders live in burrows."));
    crawl.visit("other", page("Of foxes", "They live in dens."));
    for text in
        ["wolves", "WOLVES", "title:wolves", "heading:wolves", "spider", "text:burrows", "map"]
    {
        assert_eq!(crawl.find(text), ["dens/map.html"], "{text}");
    }
    for text in ["title:burrows", "url:spiders", "wolves foxes", "\"live burrows\"", "cat"] {
        assert_eq!(crawl.find(text), [""; 0], "{text}");
    }
    assert_eq!(crawl.find("wolves OR foxes").len(), 2);
    assert_eq!(crawl.find("live -spiders"), ["other"]);
    assert_eq!(crawl.find("\"live in burrows\""), ["dens/map.html"]);
    assert_eq!(crawl.find("heading of site:a.test").len(), 2);
    assert_eq!(crawl.find("live site:b.test"), [""; 0]);
    let hit = &crawl.ask("spiders").hits[0];
    assert_eq!((hit.rank, hit.title.as_deref()), (1, Some("Of wolves")));
    assert_eq!((hit.language.as_deref(), hit.date.as_str()), (Some("en"), "2027-01-15T08:00:00Z"));
    assert_eq!(hit.snippet.text, "Spiders live in burrows.");
    assert_eq!(hit.snippet.highlights.len(), 1);
    assert_eq!(hit.snippet.highlights[0], 0..7);
}

#[test]
fn a_word_is_found_whatever_the_language_of_the_asker() {
    let mut crawl = Crawl::new();
    let of = |language, title, text: &str| Page { language, ..page(title, text) };
    crawl.visit("de", of(Some("de"), "Häuser", "Die Gärten der Straßen."));
    crawl.visit("fr", of(Some("fr-CA"), "Les étudiantes", "Elles mangeaient."));
    crawl.visit("ja", of(Some("ja"), "東京都の図書館", "図書館は月曜日に休みます。"));
    crawl.visit("th", of(Some("th"), "ภาษาไทย", "ประเทศไทยมีสี่ภาค"));
    crawl.visit("ko", of(Some("ko"), "대한민국", "서울은 수도이다."));
    crawl.visit("none", of(None, "Unknown running", "nobody knows"));
    for (text, path) in [
        ("häuser", "de"),
        ("hauser", "de"),
        ("Haus", "de"),
        ("strassen", "de"),
        ("etudiantes", "fr"),
        ("étudiante", "fr"),
        ("東京", "ja"),
        ("図書館", "ja"),
        ("月", "ja"),
        ("lang:ja 休み", "ja"),
        ("ไทย", "th"),
        ("민국", "ko"),
        ("서울은", "ko"),
        ("running", "none"),
        ("lang:fr mangeaient", "fr"),
        ("lang:fr-CA mangeaient", "fr"),
    ] {
        assert_eq!(crawl.find(text), [path], "{text}");
    }
    // Both characters are there, but not side by side.
    assert_eq!(crawl.find("京図"), [""; 0]);
    let hit = &crawl.ask("図書館").hits[0];
    let marked: Vec<_> =
        hit.snippet.highlights.iter().map(|range| &hit.snippet.text[range.clone()]).collect();
    assert_eq!(marked, ["図書館"]);
}

#[test]
fn the_latest_visit_of_a_page_is_what_is_found() {
    let mut crawl = Crawl::new();
    crawl.visit("a", page("First", "one"));
    crawl.visit("b", page("Second", "two"));
    crawl.commit();
    crawl.visit("a", page("Third", "three"));
    crawl.visit("a", page("Fourth", "four"));
    assert_eq!(crawl.find("first OR third"), [""; 0]);
    assert_eq!(crawl.find("fourth"), ["a"]);
    assert_eq!(crawl.ask("heading").total, 2);

    let gone = |status| {
        let line = edited(line("a", page("", "")), |page| {
            (page.title, page.text, page.reading) = (None, None, None);
        });
        VisitLine { status, ..line }
    };
    crawl.tell(gone(404));
    assert_eq!(crawl.find("heading"), ["b"]);
    crawl.visit("a", page("Fifth", "five"));
    assert_eq!(crawl.find("fifth"), ["a"]);
    crawl.tell(edited(line("a", page("Fifth", "five")), |page| page.noindex = true));
    assert_eq!(crawl.find("fifth"), [""; 0]);
    // A server that is unwell says nothing of its page, and one that has not changed it neither.
    crawl.tell(VisitLine {
        status: 503,
        ..edited(line("b", page("x", "x")), |page| page.news = News::Nothing)
    });
    crawl.family("b", 7, true);
    crawl.tell(edited(line("b", page("x", "x")), |page| page.news = News::Same));
    assert_eq!(crawl.find("second"), ["b"]);
    assert_eq!(crawl.find("x"), [""; 0]);
}

#[test]
fn of_pages_with_one_text_the_most_important_is_there() {
    let mut crawl = Crawl::new();
    let copy = page("Same", "the very same text");
    crawl.family("a", 1, true);
    crawl.visit("a", copy.clone());
    crawl.family("b", 1, false);
    crawl.visit("b", copy.clone());
    assert_eq!(crawl.find("same"), ["a"]);
    // A better one comes, in this commit or in a later one.
    crawl.family("a", 1, false);
    crawl.family("c", 1, true);
    crawl.visit("c", copy.clone());
    assert_eq!(crawl.find("same"), ["c"]);
    crawl.family("c", 1, false);
    crawl.family("d", 1, true);
    crawl.visit("d", copy.clone());
    crawl.family("d", 1, false);
    crawl.family("e", 1, true);
    crawl.visit("e", copy.clone());
    assert_eq!(crawl.find("same"), ["e"]);
    // The best one goes; the next is found at its next visit, though it has not changed by then.
    let gone = edited(line("e", page("", "")), |page| (page.text, page.reading) = (None, None));
    crawl.tell(VisitLine { status: 410, content_type: None, ..gone });
    assert_eq!(crawl.find("same"), [""; 0]);
    crawl.family("a", 1, true);
    let unchanged = edited(line("a", copy), |page| {
        (page.news, page.text, page.reading) = (News::Same, None, None);
    });
    crawl.tell(VisitLine { status: 304, content_type: None, ..unchanged.clone() });
    assert_eq!(crawl.find("same"), ["a"], "read from the archive");
    crawl.tell(VisitLine { status: 304, ..unchanged });
    assert_eq!(crawl.ask("same").total, 1);
}

#[test]
fn what_a_dead_process_had_not_committed_is_told_again_and_nothing_twice() {
    let mut crawl = Crawl::new();
    crawl.visit("a", page("Alpha", "committed"));
    crawl.commit();
    assert_eq!(crawl.index.as_ref().unwrap().sink(SHARD).cursor(), 1);
    crawl.visit("b", page("Beta", "not committed"));
    crawl.tell(edited(line("c", page("Gamma", "hidden")), |page| page.noindex = true));
    crawl.open();
    assert_eq!(crawl.find("alpha"), ["a"]);
    assert_eq!(crawl.find("beta"), ["b"]);
    assert_eq!(crawl.find("\"not committed\""), ["b"], "its text comes from the archive");
    assert_eq!(crawl.index.as_ref().unwrap().sink(SHARD).cursor(), 3);
    // All lines once more change nothing.
    let lines = crawl.log.clone();
    crawl.index.as_ref().unwrap().sink(SHARD).feed(&lines).expect("it takes them");
    assert_eq!(crawl.ask("heading").total, 2);
    crawl.open();
    assert_eq!(crawl.ask("heading").total, 2);
    // What the archive says by now counts.
    crawl.visit("d", page("Delta", "asks by a header"));
    let name = url("d").as_str().to_owned();
    crawl.archive.lock().unwrap().insert(name, Recalled::NoIndex);
    crawl.open();
    assert_eq!(crawl.find("delta"), [""; 0]);
    // And what it does not have is found by its title.
    crawl.visit("e", page("Epsilon", "lost"));
    crawl.archive.lock().unwrap().clear();
    crawl.open();
    assert_eq!(crawl.find("epsilon"), ["e"]);
    assert_eq!(crawl.find("lost"), [""; 0]);
}

#[test]
fn a_title_counts_more_than_a_text_and_a_near_page_more_than_a_far_one() {
    let mut crawl = Crawl::new();
    let filler = "some other words that are in every page of this little web";
    crawl.visit("text", page("Nothing", &format!("{filler} wolf")));
    crawl.visit("title", page("Wolf", filler));
    assert_eq!(crawl.find("wolf"), ["title", "text"]);
    let deep = |depth| Page { depth, ..page("Fox", filler) };
    crawl.visit("far", deep(14));
    crawl.visit("near", deep(1));
    crawl.visit("middle", deep(5));
    assert_eq!(crawl.find("fox"), ["near", "middle", "far"]);
    let scores: Vec<f32> = crawl.ask("fox").hits.iter().map(|hit| hit.score).collect();
    assert!(scores[0] > scores[1] && scores[1] > scores[2] && scores[2] > 0.0, "{scores:?}");
    // The word itself comes before another form of it.
    crawl.visit("form", page("Nothing", &format!("{filler} spiders spin")));
    crawl.visit("word", page("Nothing", &format!("{filler} spider spin")));
    assert_eq!(crawl.find("spider")[0], "word");
    assert_eq!(crawl.find("spider").len(), 2);
}

#[test]
fn bounds_of_a_question_hold() {
    let mut crawl = Crawl::new();
    for (n, path) in ["a", "b", "c"].into_iter().enumerate() {
        let mut line = line(path, page("Wolf", path));
        line.at = Timestamp::from_secs(1_800_000_000 + n as u64 * DAY);
        crawl.tell(line);
    }
    let old = Published { text: "1923-05".into(), seconds: -1_472_688_000 };
    let mut line = line("old", page("Wolf", "old"));
    let page = line.page.as_mut().unwrap();
    page.text.as_mut().unwrap().language = Some("la".into());
    let reading = Reading { published: Some(old), ..Reading::default() };
    page.reading = Some(Arc::new(reading));
    crawl.tell(line);
    crawl.commit();
    let find = |edit: &dyn Fn(&mut Question)| {
        let mut question = question("wolf");
        edit(&mut question);
        let mut paths = paths(&ask(&crawl.folder(), &question));
        paths.sort();
        paths
    };
    let day = |n: i64| Some(1_800_000_000 + n * DAY as i64);
    assert_eq!(find(&|question| question.after = day(1)), ["b", "c"]);
    assert_eq!(find(&|question| question.before = day(1)), ["a", "old"]);
    assert_eq!(find(&|question| (question.after, question.before) = (day(0), day(2))), ["a", "b"]);
    assert_eq!(find(&|question| question.language = Some("la".into())), ["old"]);
    assert_eq!(find(&|question| question.site = Some("a.test".into())).len(), 4);
    assert_eq!(find(&|question| question.site = Some("test".into())).len(), 4);
    assert_eq!(find(&|question| question.site = Some("w.a.test".into())).len(), 0);
    let all = paths(&ask(&crawl.folder(), &question("wolf")));
    let rest = ask(&crawl.folder(), &Question { offset: 1, limit: 2, ..question("wolf") });
    assert_eq!((rest.total, rest.hits[0].rank), (4, 2));
    assert_eq!(paths(&rest), all[1..3]);
    assert_eq!(crawl.ask("old").hits[0].date, "1923-05");
}

#[test]
fn a_question_without_words_is_refused_with_a_hint() {
    let crawl = Crawl::new();
    crawl.commit();
    let asked = Asked::open(&crawl.folder()).unwrap().unwrap();
    for text in ["!!!", "\"...\"", "… -wolf"] {
        let why = asked.ask(&question(text)).unwrap().unwrap_err().to_string();
        assert!(why.contains("type a word"), "{text}: {why}");
    }
    let found = asked.ask(&question("wolf ...")).unwrap().unwrap();
    assert_eq!(found.total, 0);
}

#[test]
fn an_index_that_began_after_its_crawl_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let recall: lycosa_search::Recall = Box::new(|_, _| Recalled::Nothing);
        SearchIndex::open(folder.path(), MEMORY, Helpers { judge: None, recall }).unwrap()
    };
    let index = open();
    let late = VisitLine { seq: 900, ..line("a", page("Wolf", "x")) };
    index.sink(SHARD).feed(&[late]).unwrap();
    index.sink(SHARD).close().unwrap();
    drop(index);
    assert!(Asked::open(folder.path()).unwrap().unwrap().is_partial());
    assert_eq!(open().sink(SHARD).cursor(), 900);
}

#[test]
fn a_snapshot_is_the_index_of_that_moment_and_can_be_gone_on_with() {
    let mut crawl = Crawl::new();
    crawl.visit("a", page("Alpha", "x"));
    crawl.commit();
    let snapshot = Snapshot::take(&crawl.folder()).unwrap().unwrap();
    for n in 0..20 {
        crawl.visit("a", page("Omega", &n.to_string()));
        crawl.commit();
    }
    let saved = crawl.folder.path().join("saved");
    snapshot.save(&saved).unwrap();
    assert_eq!(paths(&ask(&saved, &question("alpha"))), ["a"]);
    assert_eq!(ask(&saved, &question("omega")).total, 0);
    assert_eq!(crawl.find("omega"), ["a"]);
    let recall: lycosa_search::Recall = Box::new(|_, _| Recalled::Nothing);
    let index = SearchIndex::open(&saved, MEMORY, Helpers { judge: None, recall }).unwrap();
    let mut sink = index.sink(SHARD);
    assert_eq!(sink.cursor(), 1);
    sink.feed(&[VisitLine { seq: 2, ..line("b", page("Alpha", "y")) }]).unwrap();
    sink.close().unwrap();
    assert_eq!(ask(&saved, &question("alpha")).total, 2);
    assert!(Snapshot::take(&crawl.folder.path().join("nowhere")).unwrap().is_none());
}

#[test]
fn where_there_is_no_index_there_is_none_and_one_of_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Asked::open(folder.path()).unwrap().is_none());
    assert!(Asked::open(&folder.path().join("nowhere")).unwrap().is_none());
    let schema = tantivy::schema::Schema::builder().build();
    tantivy::Index::create_in_dir(folder.path(), schema).unwrap();
    let kind = Asked::open(folder.path()).unwrap_err().kind;
    assert_eq!(kind, ports::PortErrorKind::Version);
    let recall: lycosa_search::Recall = Box::new(|_, _| Recalled::Nothing);
    let opened = SearchIndex::open(folder.path(), MEMORY, Helpers { judge: None, recall });
    assert_eq!(opened.unwrap_err().kind, ports::PortErrorKind::Version);
}

#[test]
fn two_shards_share_an_index_and_thousands_of_pages_make_more_than_one_segment() {
    let mut crawl = Crawl::new();
    let index = crawl.index.take().unwrap();
    let threads: Vec<_> = (0..2_u16)
        .map(|shard| {
            let mut sink = index.sink(ShardId(shard));
            std::thread::spawn(move || {
                for seq in 1..=3_000_u64 {
                    let text = format!("number {seq} of shard {shard} {}", "x".repeat(50));
                    let line = line(&format!("{shard}/{seq}"), page("Many", &text));
                    sink.feed(&[VisitLine { seq, ..line }]).unwrap();
                }
                sink.close().unwrap();
                assert_eq!(sink.cursor(), 3_000);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(index);
    let answer = ask(&crawl.folder(), &question("many"));
    assert_eq!((answer.total, answer.hits.len()), (6_000, 100));
    assert_eq!(paths(&ask(&crawl.folder(), &question("\"number 2999 of shard 1\""))), ["1/2999"]);
}

#[test]
fn what_is_erased_leaves_no_byte_in_any_file() {
    const MARKER: &str = "xyzzyplugh";
    let mut crawl = Crawl::new();
    // So many that no merge begins by itself meanwhile: its files would come and go.
    for n in 0..5 {
        crawl.visit(&format!("kept/{n}"), page("Kept", &format!("stays here as number {n}")));
    }
    crawl.visit("secret", page("Secret", &format!("the {MARKER} of somebody")));
    crawl.commit();
    crawl.visit("other", page("Other", "stays, too"));
    // An older text of the page, deleted but not merged.
    crawl.visit("secret", page("Secret", &format!("another {MARKER} of somebody")));
    crawl.commit();
    crawl.index = None;
    let with_marker = || {
        let files = std::fs::read_dir(crawl.folder()).unwrap().map(|entry| entry.unwrap().path());
        let has = |path: &std::path::PathBuf| {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
        };
        files.filter(has).collect::<Vec<_>>()
    };
    assert!(!with_marker().is_empty(), "texts are stored so that the marker can be seen");
    let mut secret = |url: &str| url.ends_with("/secret");
    assert_eq!(erase(&crawl.folder(), &mut secret).unwrap(), 1);
    assert_eq!(with_marker(), [""; 0].map(std::path::PathBuf::from));
    assert_eq!(erase(&crawl.folder(), &mut secret).unwrap(), 0);
    assert_eq!(ask(&crawl.folder(), &question(MARKER)).total, 0);
    assert_eq!(ask(&crawl.folder(), &question("stays")).total, 6);
    // The log is not told again.
    crawl.open();
    assert_eq!(crawl.index.as_ref().unwrap().sink(SHARD).cursor(), 8);
    assert_eq!(crawl.ask("heading").total, 6);
    assert_eq!(erase(&crawl.folder().join("nowhere"), &mut secret).unwrap(), 0);
}
