//! How long does a question take, and how large is the index?
//!
//! `cargo run --release -p lycosa-search --example queries [DOCUMENTS] [QUERIES]`: an index of that many
//! documents (100,000) made of words with the frequencies of a language, then questions of one to four of
//! them, frequent and rare ones, words, phrases, alternatives and bounds. Prints sizes and quantiles.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lycosa_search::{Asked, Helpers, Question, Recalled, SearchIndex, query};
use ports::Sink;
use ports::shard_store::VisitLine;
use types::{CrawlUrl, News, PageLine, Reading, ShardId, TextFacts, Timestamp, VisitId};

/// Words of the language. A crawl of English news has some hundreds of thousands.
const WORDS: u64 = 200_000;
/// Words of a text; half of the texts have fewer.
const TEXT_WORDS: u64 = 500;

/// Numbers from a seed, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// The n-th word about n times less often than the first, as in any language.
    fn word(&mut self) -> String {
        let exponent = self.below(1 << 20) as f64 / f64::from(1 << 20);
        word((WORDS as f64).powf(exponent) as u64)
    }

    fn text(&mut self, words: u64) -> String {
        let words: Vec<String> = (0..words).map(|_| self.word()).collect();
        words.join(" ")
    }
}

/// A word of two to five syllables for every number.
fn word(number: u64) -> String {
    const ONSETS: &[u8] = b"bdfghklmnprstvwz";
    const VOWELS: &[u8] = b"aeiou";
    let mut rest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut word = String::new();
    for _ in 0..2 + number.max(1).ilog(10).min(3) {
        word.push(char::from(ONSETS[(rest % 16) as usize]));
        word.push(char::from(VOWELS[(rest / 16 % 5) as usize]));
        rest /= 80;
    }
    word
}

fn line(seq: u64, dice: &mut Dice) -> VisitLine {
    let words = 20 + dice.below(TEXT_WORDS * 2);
    let text = dice.text(words);
    let title = dice.text(5);
    let reading = Reading { headings: dice.text(10).into(), text: text.into(), published: None };
    let language = ["en", "en", "en", "de", "fr", "es"][dice.below(6) as usize];
    VisitLine {
        seq,
        visit: VisitId(seq),
        url: CrawlUrl::parse(&format!("http://host{}.test/{}/{seq}", seq % 500, word(seq)))
            .expect("a URL"),
        at: Timestamp::from_secs(1_700_000_000 + seq * 60),
        status: 200,
        content_type: Some("text/html".into()),
        digest: None,
        warc: None,
        page: Some(Box::new(PageLine {
            news: News::Other,
            depth: dice.below(12) as u16,
            seed: false,
            title: Some(title.into()),
            body_bytes: 0,
            truncated: None,
            noindex: false,
            nofollow: false,
            noarchive: false,
            text: Some(TextFacts {
                digest: [0; 32],
                simhash: 0,
                words: words as u32,
                language: Some(language.into()),
            }),
            sketch: None,
            reading: Some(Arc::new(reading)),
        })),
    }
}

fn question(dice: &mut Dice) -> String {
    let count = 1 + dice.below(4);
    let words = dice.text(count);
    match dice.below(8) {
        0 => format!("\"{}\"", dice.text(2)),
        1 => format!("{words} OR {}", dice.word()),
        2 => format!("{words} -{}", dice.word()),
        3 => format!("{words} site:host{}.test", dice.below(500)),
        4 => format!("{words} lang:en"),
        _ => words,
    }
}

fn bytes_of(folder: &Path) -> std::io::Result<u64> {
    std::fs::read_dir(folder)?.try_fold(0, |sum, entry| Ok(sum + entry?.metadata()?.len()))
}

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("queries: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let documents = numbers.next().transpose()?.unwrap_or(100_000);
    let queries = numbers.next().transpose()?.unwrap_or(2_000).max(1);
    let folder = std::env::temp_dir().join(format!("lycosa-queries-{}", std::process::id()));
    let mut dice = Dice(1);
    let mut text_bytes = 0;
    let recall: lycosa_search::Recall = Box::new(|_, _| Recalled::Nothing);
    let index = SearchIndex::open(&folder, 64 << 20, Helpers { judge: None, recall })?;
    let mut sink = index.sink(ShardId(0));
    let (mut making, mut feeding) = (Duration::ZERO, Duration::ZERO);
    for seq in 1..=documents {
        let begun = Instant::now();
        let line = line(seq, &mut dice);
        text_bytes += line
            .page
            .as_ref()
            .and_then(|page| page.reading.as_ref())
            .map_or(0, |reading| reading.text.len() as u64);
        making += begun.elapsed();
        let begun = Instant::now();
        sink.feed(&[line])?;
        feeding += begun.elapsed();
    }
    let begun = Instant::now();
    sink.close()?;
    feeding += begun.elapsed();
    drop((sink, index));
    let size = bytes_of(&folder)?;
    println!(
        "{documents} documents with {text_bytes} bytes of text: index of {size} bytes ({:.2} of the text), \
         fed in {:.1} s beside {:.1} s of making them up",
        size as f64 / text_bytes.max(1) as f64,
        feeding.as_secs_f64(),
        making.as_secs_f64(),
    );

    let opening = Instant::now();
    let asked = Asked::open(&folder)?.ok_or("the index is gone")?;
    println!("opened in {:.1} ms", opening.elapsed().as_secs_f64() * 1e3);
    let mut times = Vec::new();
    let mut found = 0;
    for _ in 0..queries {
        let text = question(&mut dice);
        let begun = Instant::now();
        let question = Question {
            query: query::parse(&text)?,
            site: None,
            language: None,
            after: None,
            before: None,
            offset: 0,
            limit: 10,
        };
        let answer = asked.ask(&question)??;
        times.push((begun.elapsed(), text));
        found += usize::from(answer.total > 0);
    }
    times.sort();
    let at = |share: f64| {
        let (time, _) = &times[((times.len() - 1) as f64 * share) as usize];
        time.as_secs_f64() * 1e3
    };
    println!(
        "{queries} questions, {found} with an answer: median {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, longest \
         {:.2} ms ({})",
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0),
        times[times.len() - 1].1,
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
