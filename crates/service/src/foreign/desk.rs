//! What is done for others, one thing after the other.
//!
//! The queues in memory say who may be served and when; the store knows what stands in them. Here
//! both meet: a put, a serving, a deletion each become one commit, and only then does what is held
//! in memory follow. Long work (lists, counts, purges) is done in steps, so that nobody waits for
//! somebody else's walk over a hundred million URLs.

use std::collections::{BTreeMap, HashMap};

use frontier::queues::{Queues, Round, Which};
use ports::foreign_store::{
    FirstWant, ForeignBatch, ForeignChange, ForeignCursor, ForeignSettings, ForeignUrl, QueueName,
    QueueState, Seconds, Space,
};
use ports::{ForeignStore, PortResult};
use types::UrlId;

/// URLs that are read, and given out, in one step.
const STEP_URLS: usize = 1_024;

/// A URL that somebody brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    pub crawl: Box<str>,
    pub key: Box<str>,
    pub url: Box<str>,
    pub metadata: Vec<(Box<str>, Vec<Box<str>>)>,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Taken if it is new.
    Discovered,
    /// Taken whatever is known of it; none means that it is done with.
    Known { due: Option<Seconds> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Ok,
    /// Nothing was done, and nothing will be if it is sent again.
    Skipped,
    /// It may be sent again.
    Failed,
}

/// A URL with its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub crawl: Box<str>,
    pub key: Box<str>,
    pub url: ForeignUrl,
}

/// What a call for URLs asks for.
#[derive(Debug, Clone)]
pub struct Call {
    /// None asks all crawls.
    pub crawl: Option<Box<str>>,
    /// None asks all queues.
    pub key: Option<Box<str>>,
    /// URLs of one queue, and queues; 0 means all.
    pub urls_max: u32,
    pub queues_max: u32,
    /// Seconds for which nobody else is given them.
    pub hold: u32,
}

/// A call that is being answered.
#[derive(Debug)]
pub struct Serving {
    round: Round,
    now: Seconds,
    until: Seconds,
    urls_max: usize,
    queues_left: usize,
    /// The queue whose URLs did not fit into one step, and how many of them were given out.
    open: Option<(QueueName, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    pub active: u64,
    pub completed: u64,
    pub held: u64,
    pub queues: u64,
    pub active_queues: u64,
}

/// A walk over URLs.
#[derive(Debug)]
pub struct Walk {
    space: Space,
    crawl: Box<str>,
    key: Option<Box<str>>,
    cursor: ForeignCursor,
}

pub struct Desk {
    store: Box<dyn ForeignStore>,
    queues: Queues,
    settings: ForeignSettings,
    spaces: BTreeMap<Box<str>, Space>,
    crawls: BTreeMap<Space, Box<str>>,
    options: DeskOptions,
}

#[derive(Debug, Clone, Copy)]
pub struct DeskOptions {
    /// Whether a put is on the disk when it is acknowledged.
    pub durable: bool,
    /// Queues that are kept; some 300 bytes of memory each.
    pub queues_max: usize,
}

/// What a group of puts does to one queue.
struct QueueDraft {
    name: QueueName,
    state: QueueState,
    first: Option<Seconds>,
    changed: bool,
}

/// What it does to one URL.
struct UrlDraft {
    place: Option<Seconds>,
    /// Another text has its hash.
    taken: bool,
    url: Option<ForeignUrl>,
    changed: bool,
}

impl Desk {
    /// # Errors
    /// When the state cannot be read.
    pub fn open(mut store: Box<dyn ForeignStore>, options: DeskOptions) -> PortResult<Self> {
        let settings = store.settings()?;
        let mut queues = Queues::new(settings.delay);
        store.each_queue(&mut |name, state, first| {
            queues.insert(name, state, first);
        })?;
        let spaces = settings.crawls.iter().cloned().collect();
        let crawls = settings.crawls.iter().map(|(name, space)| (*space, name.clone())).collect();
        Ok(Self { store, queues, settings, spaces, crawls, options })
    }

    // ── what comes in ────────────────────────────────────────────────────────────────────────

    /// Takes URLs, all in one commit.
    pub fn put(&mut self, puts: &[Put], now: Seconds) -> PortResult<Vec<Taken>> {
        let mut settings = self.settings.clone();
        let mut places = Vec::with_capacity(puts.len());
        let mut queues: Vec<QueueDraft> = Vec::new();
        let mut queue_of: HashMap<(Space, &str), usize> = HashMap::new();
        let mut spaces: HashMap<&str, Space> = HashMap::new();
        for put in puts {
            let space = *spaces.entry(&put.crawl).or_insert_with(|| {
                self.spaces.get(&put.crawl).copied().unwrap_or_else(|| {
                    settings.last_space.0 += 1;
                    settings.crawls.push((put.crawl.clone(), settings.last_space));
                    settings.last_space
                })
            });
            let at = *queue_of.entry((space, &put.key)).or_insert_with(|| {
                queues.push(self.draft(space, &put.key));
                queues.len() - 1
            });
            places.push(at);
        }
        let wants: Vec<(&QueueName, &str)> =
            places.iter().zip(puts).map(|(at, put)| (&queues[*at].name, &*put.url)).collect();
        let found = self.store.find(&wants)?;

        let mut urls: HashMap<(usize, UrlId), UrlDraft> = HashMap::new();
        for ((at, put), old) in places.iter().zip(puts).zip(found) {
            urls.entry((*at, UrlId::of(&put.url))).or_insert_with(|| UrlDraft {
                place: old.as_ref().and_then(ForeignUrl::place),
                taken: old.as_ref().is_some_and(|old| old.url != put.url),
                url: old,
                changed: false,
            });
        }
        let mut room = self.options.queues_max.saturating_sub(self.queues.len());
        let mut taken = Vec::with_capacity(puts.len());
        for (at, put) in places.iter().zip(puts) {
            let queue = &mut queues[*at];
            let draft = urls.get_mut(&(*at, UrlId::of(&put.url))).expect("made above");
            let new_queue =
                !queue.changed && self.queues.slot(queue.name.space, &queue.name.key).is_none();
            if new_queue && room == 0 {
                taken.push(Taken::Failed);
                continue;
            }
            let answer = apply(put, queue, draft, now);
            if answer == Taken::Ok && new_queue {
                room -= 1;
            }
            taken.push(answer);
        }

        // A crawl of which nothing was taken does not begin.
        let used = |space| queues.iter().any(|queue| queue.changed && queue.name.space == space);
        settings.crawls.retain(|(name, space)| self.spaces.contains_key(name) || used(*space));
        let changes = urls.into_iter().filter(|(_, draft)| draft.changed);
        let changes = changes.filter_map(|((at, _), draft)| {
            let url = draft.url?;
            let queue = queues[at].name.clone();
            Some(ForeignChange { queue, place: draft.place, url: url.url.clone(), new: Some(url) })
        });
        let changed = queues.iter().filter(|queue| queue.changed);
        let batch = ForeignBatch {
            urls: changes.collect(),
            queues: changed.map(|queue| (queue.name.clone(), queue.state.clone())).collect(),
            settings: (settings.crawls.len() != self.settings.crawls.len())
                .then(|| settings.clone()),
            durable: self.options.durable,
        };
        if !batch.urls.is_empty() {
            self.store.commit(&batch)?;
            if batch.settings.is_some() {
                self.adopt(settings);
            }
            queues.into_iter().filter(|queue| queue.changed).for_each(|queue| self.keep(queue));
        }
        Ok(taken)
    }

    fn draft(&self, space: Space, key: &str) -> QueueDraft {
        let name = QueueName { space, key: key.into() };
        let known = self.queues.slot(space, key).map(|slot| self.queues.get(slot));
        let (state, first) = known.map(|queue| (queue.state.clone(), queue.first)).unzip();
        QueueDraft {
            name,
            state: state.unwrap_or_default(),
            first: first.flatten(),
            changed: false,
        }
    }

    fn keep(&mut self, draft: QueueDraft) {
        let QueueDraft { name, state, first, .. } = draft;
        match self.queues.slot(name.space, &name.key) {
            Some(slot) => self.queues.update(slot, |old, old_first| {
                *old = state;
                *old_first = first;
            }),
            None => {
                self.queues.insert(name, state, first);
            }
        }
    }

    fn adopt(&mut self, settings: ForeignSettings) {
        self.spaces = settings.crawls.iter().cloned().collect();
        self.crawls = settings.crawls.iter().map(|(name, space)| (*space, name.clone())).collect();
        self.settings = settings;
    }

    // ── what goes out ────────────────────────────────────────────────────────────────────────

    /// Begins to answer a call; none if there is nothing to be had.
    pub fn call(&mut self, call: &Call, now: Seconds) -> Option<Serving> {
        if !self.settings.active {
            return None;
        }
        let space = match &call.crawl {
            Some(crawl) => Some(*self.spaces.get(crawl)?),
            None => None,
        };
        let which = match (space, &call.key) {
            (Some(space), Some(key)) => Which::Queue(QueueName { space, key: key.clone() }),
            (Some(space), None) => Which::Crawl(space),
            (None, None) => Which::All,
            // Whose queue it is cannot be told.
            (None, Some(_)) => return None,
        };
        let all = |max: u32| if max == 0 { usize::MAX } else { max as usize };
        Some(Serving {
            round: self.queues.round(now, which, call.urls_max),
            now,
            until: now.saturating_add(u64::from(call.hold)),
            urls_max: all(call.urls_max),
            queues_left: all(call.queues_max),
            open: None,
        })
    }

    /// The next URLs of a call; nothing when it is answered. They are held by the caller when this
    /// returns, also after a crash.
    pub fn serve(&mut self, serving: &mut Serving) -> PortResult<Vec<Item>> {
        let mut items = Vec::new();
        while items.is_empty() {
            let turns = self.turns(serving);
            if turns.is_empty() {
                return Ok(items);
            }
            let wants = turns.iter().map(|(queue, limit)| FirstWant {
                queue: queue.clone(),
                now: serving.now,
                limit: *limit,
            });
            let wants: Vec<FirstWant> = wants.collect();
            let first = self.store.first(&wants)?;
            let mut batch = ForeignBatch::default();
            let mut served = Vec::with_capacity(turns.len());
            for ((queue, limit), first) in turns.into_iter().zip(first) {
                let count = first.urls.len();
                let crawl = self.crawls.get(&queue.space).cloned().unwrap_or_default();
                for url in first.urls {
                    let new = ForeignUrl { held_until: serving.until, ..url.clone() };
                    batch.urls.push(ForeignChange {
                        queue: queue.clone(),
                        place: url.place(),
                        url: url.url.clone(),
                        new: Some(new),
                    });
                    items.push(Item { crawl: crawl.clone(), key: queue.key.clone(), url });
                }
                self.note_served(serving, &queue, (count, limit), first.next);
                served.push((queue, count));
            }
            for (queue, count) in served {
                if let Some(slot) = self.queues.slot(queue.space, &queue.key)
                    && count > 0
                {
                    batch.queues.push((queue, self.queues.get(slot).state.clone()));
                }
            }
            self.store.commit(&batch)?;
        }
        Ok(items)
    }

    /// Queues whose turn it is, and how many URLs of each fit into one step.
    fn turns(&mut self, serving: &mut Serving) -> Vec<(QueueName, usize)> {
        if let Some((queue, sent)) = &serving.open {
            let limit = (serving.urls_max - sent).min(STEP_URLS);
            return vec![(queue.clone(), limit)];
        }
        let mut turns = Vec::new();
        let mut room = STEP_URLS;
        while room > 0 && turns.len() < serving.queues_left {
            let Some(slot) = self.queues.next(serving.now, &mut serving.round) else { break };
            let limit = serving.urls_max.min(room);
            room -= limit;
            turns.push((self.queues.get(slot).name.clone(), limit));
        }
        turns
    }

    fn note_served(
        &mut self,
        serving: &mut Serving,
        queue: &QueueName,
        (count, limit): (usize, usize),
        next: Option<Seconds>,
    ) {
        let held = (u32::try_from(count).unwrap_or(u32::MAX), serving.until);
        let sent_before = serving.open.take().filter(|(open, _)| open == queue);
        let sent = sent_before.as_ref().map_or(0, |(_, sent)| *sent) + count;
        if let Some(slot) = self.queues.slot(queue.space, &queue.key) {
            if sent_before.is_none() {
                self.queues.served(slot, serving.now, held, next);
                serving.queues_left -= usize::from(count > 0);
            } else {
                self.queues.update(slot, |state, first| {
                    state.hold(serving.now, serving.until, held.0);
                    *first = Some(next.map_or(serving.until, |next| next.min(serving.until)));
                });
            }
        }
        let more = next.is_some_and(|next| next <= serving.now);
        if count == limit && more && sent < serving.urls_max {
            serving.open = Some((queue.clone(), sent));
        }
    }

    // ── what is asked ────────────────────────────────────────────────────────────────────────

    pub fn crawls(&self) -> Vec<Box<str>> {
        let used = |space: &Space| self.queues.of(*space).next().is_some();
        self.spaces.iter().filter(|(_, space)| used(space)).map(|(name, _)| name.clone()).collect()
    }

    /// Of a queue, or of a whole crawl.
    pub fn stats(&self, crawl: &str, key: Option<&str>, now: Seconds) -> Stats {
        let mut stats = Stats::default();
        for queue in self.queues_of(crawl, key) {
            let held = u64::from(queue.state.held(now));
            stats.active += queue.state.active;
            stats.completed += queue.state.completed;
            stats.held += held;
            stats.queues += 1;
            stats.active_queues += u64::from(held > 0 || queue.state.active > 0);
        }
        stats
    }

    /// Keys of a crawl's queues, in their order. One that is blocked or has nothing to be fetched
    /// counts only where all are wanted.
    pub fn list_queues(
        &self,
        crawl: &str,
        all: bool,
        now: Seconds,
        (start, size): (usize, usize),
    ) -> Vec<Box<str>> {
        let wanted = |queue: &&frontier::queues::Queue| {
            all || (!queue.state.is_blocked(now) && queue.state.active > 0)
        };
        let queues = self.queues_of(crawl, None).filter(wanted).skip(start).take(size);
        queues.map(|queue| queue.name.key.clone()).collect()
    }

    fn queues_of<'a>(
        &'a self,
        crawl: &str,
        key: Option<&'a str>,
    ) -> impl Iterator<Item = &'a frontier::queues::Queue> {
        let space = self.spaces.get(crawl).copied();
        let one = space.zip(key).and_then(|(space, key)| self.queues.slot(space, key));
        let one = one.map(|slot| self.queues.get(slot));
        let all = space.filter(|_| key.is_none());
        one.into_iter().chain(all.into_iter().flat_map(|space| self.queues.of(space)))
    }

    pub fn url(&mut self, crawl: &str, key: &str, url: &str) -> PortResult<Option<ForeignUrl>> {
        let Some(space) = self.spaces.get(crawl).copied() else { return Ok(None) };
        let queue = QueueName { space, key: key.into() };
        let found = self.store.find(&[(&queue, url)])?.pop().flatten();
        Ok(found.filter(|found| &*found.url == url))
    }

    /// Begins to walk over the URLs of a crawl, or of one of its queues.
    pub fn walk(&self, crawl: &str, key: Option<&str>) -> Option<Walk> {
        let space = *self.spaces.get(crawl)?;
        let (crawl, key) = (crawl.into(), key.map(Box::from));
        Some(Walk { space, crawl, key, cursor: ForeignCursor::default() })
    }

    /// The next URLs of a walk; nothing when it is over.
    pub fn step(&mut self, walk: &mut Walk) -> PortResult<Vec<Item>> {
        let key = walk.key.as_deref();
        let urls = self.store.urls(walk.space, key, &mut walk.cursor, STEP_URLS)?;
        let item = |(queue, url): (QueueName, ForeignUrl)| Item {
            crawl: walk.crawl.clone(),
            key: queue.key,
            url,
        };
        Ok(urls.into_iter().map(item).collect())
    }

    // ── what is told ─────────────────────────────────────────────────────────────────────────

    /// Deletes those of a walk's next URLs that were made by then. None when the walk is over.
    pub fn purge(
        &mut self,
        walk: &mut Walk,
        made_by: Seconds,
        now: Seconds,
    ) -> PortResult<Option<u64>> {
        let items = self.step(walk)?;
        if items.is_empty() {
            return Ok(None);
        }
        let mut queues: BTreeMap<Box<str>, QueueDraft> = BTreeMap::new();
        let mut batch = ForeignBatch { durable: self.options.durable, ..ForeignBatch::default() };
        for item in items.into_iter().filter(|item| item.url.created <= made_by) {
            let draft =
                queues.entry(item.key.clone()).or_insert_with(|| self.draft(walk.space, &item.key));
            leave(&mut draft.state, &item.url, now);
            batch.urls.push(ForeignChange {
                queue: draft.name.clone(),
                place: item.url.place(),
                url: item.url.url,
                new: None,
            });
        }
        let gone = batch.urls.len() as u64;
        if gone > 0 {
            batch.queues =
                queues.values().map(|draft| (draft.name.clone(), draft.state.clone())).collect();
            self.store.commit(&batch)?;
            queues.into_values().for_each(|draft| self.keep(draft));
        }
        Ok(Some(gone))
    }

    /// Answers how many URLs it had.
    pub fn delete_queue(&mut self, crawl: &str, key: &str) -> PortResult<u64> {
        let Some(space) = self.spaces.get(crawl).copied() else { return Ok(0) };
        if self.queues.slot(space, key).is_none() {
            return Ok(0);
        }
        self.store.forget(space, Some(key))?;
        Ok(self.queues.remove(space, key).map_or(0, |state| state.active + state.completed))
    }

    /// Answers how many URLs it had.
    pub fn delete_crawl(&mut self, crawl: &str) -> PortResult<u64> {
        let Some(space) = self.spaces.get(crawl).copied() else { return Ok(0) };
        self.store.forget(space, None)?;
        let settings = self.store.settings()?;
        self.adopt(settings);
        let gone = self.queues.remove_crawl(space);
        Ok(gone.iter().map(|state| state.active + state.completed).sum())
    }

    pub fn is_active(&self) -> bool {
        self.settings.active
    }

    pub fn set_active(&mut self, active: bool) -> PortResult<()> {
        self.change_settings(|settings| settings.active = active)
    }

    /// Of a queue, or of all that have none of their own. None takes it from a queue.
    pub fn set_delay(
        &mut self,
        crawl: &str,
        key: Option<&str>,
        delay: Option<u32>,
    ) -> PortResult<()> {
        match (key, delay) {
            (Some(key), delay) => {
                self.change_queue(crawl, key, |state| state.delay = delay).map(|_| ())
            }
            (None, Some(delay)) => {
                self.change_settings(|settings| settings.delay = delay)?;
                self.queues.set_delay(delay);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    pub fn block(&mut self, crawl: &str, key: &str, until: Seconds) -> PortResult<()> {
        self.change_queue(crawl, key, |state| state.blocked_until = until).map(|_| ())
    }

    /// False if there is no such queue.
    pub fn set_limit(&mut self, crawl: &str, key: &str, limit: u32) -> PortResult<bool> {
        self.change_queue(crawl, key, |state| state.limit = limit)
    }

    fn change_queue(
        &mut self,
        crawl: &str,
        key: &str,
        change: impl FnOnce(&mut QueueState),
    ) -> PortResult<bool> {
        let space = self.spaces.get(crawl).copied();
        let Some(slot) = space.and_then(|space| self.queues.slot(space, key)) else {
            return Ok(false);
        };
        let queue = self.queues.get(slot);
        let mut state = queue.state.clone();
        change(&mut state);
        let queues = vec![(queue.name.clone(), state.clone())];
        let batch = ForeignBatch { queues, durable: true, ..ForeignBatch::default() };
        self.store.commit(&batch)?;
        self.queues.update(slot, |old, _| *old = state);
        Ok(true)
    }

    fn change_settings(&mut self, change: impl FnOnce(&mut ForeignSettings)) -> PortResult<()> {
        let mut settings = self.settings.clone();
        change(&mut settings);
        let batch = ForeignBatch {
            settings: Some(settings.clone()),
            durable: true,
            ..ForeignBatch::default()
        };
        self.store.commit(&batch)?;
        self.settings = settings;
        Ok(())
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("queues", &self.queues.len()).finish_non_exhaustive()
    }
}

/// One put, after all that came before it in its group.
fn apply(put: &Put, queue: &mut QueueDraft, draft: &mut UrlDraft, now: Seconds) -> Taken {
    if draft.taken {
        tracing::warn!(url = &*put.url, "another URL has its hash");
        return Taken::Skipped;
    }
    let due = match put.what {
        What::Discovered if draft.url.is_some() => return Taken::Skipped,
        What::Discovered => Some(now),
        What::Known { due } => due,
    };
    if let Some(old) = &draft.url {
        leave(&mut queue.state, old, now);
    }
    match due {
        Some(due) => {
            queue.state.active += 1;
            queue.first = Some(queue.first.map_or(due, |first| first.min(due)));
        }
        None => queue.state.completed += 1,
    }
    draft.url = Some(ForeignUrl {
        url: put.url.clone(),
        // Nobody fetches what is done with.
        metadata: if due.is_some() { put.metadata.clone() } else { Vec::new() },
        created: draft.url.as_ref().map_or(now, |old| old.created),
        due,
        held_until: 0,
    });
    draft.changed = true;
    queue.changed = true;
    Taken::Ok
}

/// The URL is not counted where it was any more.
fn leave(state: &mut QueueState, url: &ForeignUrl, now: Seconds) {
    match url.due {
        Some(_) => state.active = state.active.saturating_sub(1),
        None => state.completed = state.completed.saturating_sub(1),
    }
    if url.held_until > now {
        state.release(url.held_until);
    }
}
