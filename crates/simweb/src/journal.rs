//! What did the visitor do, as the server saw it?
//!
//! One entry a request: when its first byte came, when the last byte of its answer was handed
//! over, to whom and what. The journal also counts how often a URL was asked, since some answers
//! depend on it, and it outlives the visitor: a crawler may crash and come back, its entries
//! stay.
//!
//! Always: a request that arrived has an entry, even if nobody waited for its answer.
//!
//! Not here: whether the visitor was polite (`checks`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::fast::FixedState;
use ports::Clock;
use serde::{Deserialize, Serialize};
use types::Timestamp;

use crate::chance::mix;

/// One request, from the server's side. Times are microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When the first byte of the request was there.
    pub arrived: Timestamp,
    /// When the last byte of the answer had left, or it was clear that none would.
    pub ended: Option<Timestamp>,
    pub host: Arc<str>,
    /// The address that was connected.
    pub address: IpAddr,
    pub port: u16,
    pub tls: bool,
    /// Path and query.
    pub path: Box<str>,
    /// 0 where nothing was answered.
    pub status: u16,
    /// Bytes of the answer after its head.
    pub body_bytes: u64,
    /// Bytes of its head, in the form of HTTP/1.1.
    #[serde(default)]
    pub head_bytes: u64,
    /// Requests to this host under way when this one came, itself included.
    pub in_flight: u32,
    pub user_agent: Arc<str>,
    pub connection: u64,
    /// The answer did not reach its end, whoever broke it off.
    pub aborted: bool,
}

impl Entry {
    pub fn url(&self) -> String {
        let (scheme, usual) = if self.tls { ("https://", 443) } else { ("http://", 80) };
        // Checks ask for it again and again; formatting would cost three times as much.
        let mut url = String::with_capacity(scheme.len() + self.host.len() + self.path.len() + 6);
        url.push_str(scheme);
        url.push_str(&self.host);
        if self.port != usual {
            url.push(':');
            url.push_str(&self.port.to_string());
        }
        url.push_str(&self.path);
        url
    }

    pub fn is_robots(&self) -> bool {
        &*self.path == "/robots.txt"
    }
}

/// What is known of a request when it comes.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    pub at: Timestamp,
    pub host: &'a str,
    pub address: IpAddr,
    pub port: u16,
    pub tls: bool,
    pub path: &'a str,
    pub user_agent: &'a str,
    pub connection: u64,
}

/// The journal; clones write into the same book.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    begun: Timestamp,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// Requests under way, by number.
    open: HashMap<u64, Entry>,
    next_number: u64,
    next_connection: u64,
    /// Ended entries, unless they only go to the file.
    entries: Option<Vec<Entry>>,
    file: Option<BufWriter<File>>,
    hosts: HashMap<Arc<str>, HostBook, FixedState>,
    /// How often a URL was asked, by its hash: a book of a million URLs stays small.
    asked: HashMap<u64, u32, FixedState>,
    agent: Option<Arc<str>>,
}

#[derive(Default)]
struct HostBook {
    in_flight: u32,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("begun", &self.shared.begun).finish_non_exhaustive()
    }
}

impl Journal {
    /// Kept in memory.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, Book { entries: Some(Vec::new()), ..Book::default() })
    }

    /// Written to a file as requests end, one JSON line each; in memory only if asked.
    pub fn to_file(clock: Arc<dyn Clock>, path: &Path, in_memory: bool) -> io::Result<Self> {
        let file = Some(BufWriter::new(File::create(path)?));
        let entries = in_memory.then(Vec::new);
        Ok(Self::with(clock, Book { file, entries, ..Book::default() }))
    }

    /// Counts, and keeps nothing.
    pub fn nowhere(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, Book::default())
    }

    fn with(clock: Arc<dyn Clock>, book: Book) -> Self {
        let begun = clock.now();
        Self { shared: Arc::new(Shared { clock, begun, book: Mutex::new(book) }) }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book()
    }

    /// A number for a new connection.
    pub fn connection(&self) -> u64 {
        let mut book = self.book();
        book.next_connection += 1;
        book.next_connection
    }

    /// A request has come (or is certain to). Ends when the answer is [`Pending::finish`]ed or
    /// the guard is dropped.
    pub fn begin(&self, arrival: &Arrival<'_>) -> Pending {
        let mut book = self.book();
        let nth = book.count(arrival);
        let host = book.enter(arrival.host);
        let user_agent = book.agent(arrival.user_agent);
        let in_flight = book.hosts.get(&host).map_or(1, |known| known.in_flight);
        let number = book.next_number;
        book.next_number += 1;
        let entry = Entry {
            arrived: arrival.at,
            ended: None,
            host,
            address: arrival.address,
            port: arrival.port,
            tls: arrival.tls,
            path: arrival.path.into(),
            status: 0,
            body_bytes: 0,
            head_bytes: 0,
            in_flight,
            user_agent,
            connection: arrival.connection,
            aborted: false,
        };
        book.open.insert(number, entry);
        Pending { journal: self.clone(), number, nth, arrived: arrival.at, done: false }
    }

    /// All entries in the order of arrival, those under way included.
    pub fn entries(&self) -> Vec<Entry> {
        let book = self.book();
        let ended = book.entries.iter().flatten();
        let mut entries: Vec<_> = ended.chain(book.open.values()).cloned().collect();
        drop(book);
        sort(&mut entries);
        entries
    }

    /// Requests so far, ended or not.
    pub fn requests(&self) -> u64 {
        self.book().next_number
    }

    /// As JSON lines.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for entry in self.entries() {
            write_line(&mut file, &entry)?;
        }
        file.flush()
    }

    /// What a journal's file says so far; a last line that is not whole yet is left out.
    pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for line in BufReader::new(File::open(path)?).split(b'\n') {
            match serde_json::from_slice(&line?) {
                Ok(entry) => entries.push(entry),
                Err(error) if error.is_eof() => break,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        sort(&mut entries);
        Ok(entries)
    }

    /// Hands what is buffered to the operating system.
    pub fn flush(&self) -> io::Result<()> {
        self.book().file.as_mut().map_or(Ok(()), Write::flush)
    }

    /// The entries as people read them, times from the beginning of the journal.
    pub fn table(&self) -> String {
        table(&self.entries(), self.shared.begun)
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic elsewhere leaves the book whole: every change to it is a single step.
        self.book.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Book {
    fn count(&mut self, arrival: &Arrival<'_>) -> u32 {
        use std::hash::BuildHasher;
        let state = FixedState::default();
        let origin = mix(u64::from(arrival.port) * 2 + u64::from(arrival.tls), 1);
        let url = mix(state.hash_one(arrival.host), state.hash_one(arrival.path));
        let asked = self.asked.entry(mix(origin, url)).or_default();
        *asked += 1;
        *asked - 1
    }

    fn enter(&mut self, host: &str) -> Arc<str> {
        if let Some((known, _)) = self.hosts.get_key_value(host) {
            let known = Arc::clone(known);
            if let Some(book) = self.hosts.get_mut(host) {
                book.in_flight += 1;
            }
            return known;
        }
        let name: Arc<str> = host.into();
        self.hosts.insert(Arc::clone(&name), HostBook { in_flight: 1 });
        name
    }

    fn agent(&mut self, name: &str) -> Arc<str> {
        match &self.agent {
            Some(known) if **known == *name => Arc::clone(known),
            _ => Arc::clone(self.agent.insert(name.into())),
        }
    }

    fn close(&mut self, number: u64, end: &End) {
        let Some(mut entry) = self.open.remove(&number) else { return };
        if let Some(host) = self.hosts.get_mut(&entry.host) {
            host.in_flight = host.in_flight.saturating_sub(1);
        }
        entry.ended = Some(end.at);
        entry.status = end.status;
        (entry.head_bytes, entry.body_bytes) = (end.head_bytes, end.body_bytes);
        entry.aborted = end.aborted;
        if let Some(file) = &mut self.file
            && let Err(error) = write_line(file, &entry)
        {
            // The journal is what tests judge by: half of one would acquit the guilty.
            panic!("write the journal: {error}");
        }
        if let Some(entries) = &mut self.entries {
            entries.push(entry);
        }
    }
}

fn write_line(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    serde_json::to_writer(&mut *out, entry)?;
    out.write_all(b"\n")
}

fn sort(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| (entry.arrived, entry.connection));
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub at: Timestamp,
    pub status: u16,
    pub head_bytes: u64,
    pub body_bytes: u64,
    pub aborted: bool,
}

/// A request under way. Dropped without a finish, it counts as broken off at that moment.
#[derive(Debug)]
pub struct Pending {
    journal: Journal,
    number: u64,
    nth: u32,
    arrived: Timestamp,
    done: bool,
}

impl Pending {
    /// How often this URL was asked before.
    pub fn nth(&self) -> u32 {
        self.nth
    }

    pub fn finish(mut self, end: &End) {
        self.done = true;
        self.journal.book().close(self.number, end);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            let at = self.journal.shared.clock.now().max(self.arrived);
            let end = End { at, status: 0, head_bytes: 0, body_bytes: 0, aborted: true };
            self.journal.book().close(self.number, &end);
        }
    }
}

/// `00:01  a.test  /  200`, one line a request, columns aligned.
pub fn table(entries: &[Entry], begun: Timestamp) -> String {
    let rows: Vec<[String; 4]> = entries
        .iter()
        .map(|entry| {
            let status = match (entry.status, entry.ended) {
                (_, None) => "open".to_owned(),
                (0, _) => "no answer".to_owned(),
                (status, _) if entry.aborted => format!("{status} broken off"),
                (status, _) => status.to_string(),
            };
            let host =
                if entry.tls { format!("https://{}", entry.host) } else { entry.host.to_string() };
            [clock_face(entry.arrived, begun), host, entry.path.to_string(), status]
        })
        .collect();
    let mut widths = [0; 3];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |[time, host, path, status]: &[String; 4]| {
        let [t, h, p] = widths;
        format!("{time:<t$}  {host:<h$}  {path:<p$}  {status}\n")
    };
    rows.iter().map(line).collect()
}

/// Minutes and seconds, with milliseconds where there are any.
fn clock_face(at: Timestamp, begun: Timestamp) -> String {
    let since = at.since(begun);
    let (secs, millis) = (since.as_secs(), since.subsec_millis());
    let face = format!("{:02}:{:02}", secs / 60, secs % 60);
    if millis == 0 { face } else { format!("{face}.{millis:03}") }
}
