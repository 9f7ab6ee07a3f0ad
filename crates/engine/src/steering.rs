//! How do others steer a run, and put something into it?
//!
//! Whatever is brought goes the way of everything else: to the owner of its shard, into a group, and
//! is answered when that is in the store.

use std::path::PathBuf;
use std::sync::Arc;

use ports::PortResult;
use ports::shard_store::{Found, FoundSet, StoreCopy};
use tokio::sync::{mpsc, oneshot};
use types::{CrawlUrl, HostKey, HostRule, UrlRef};

use crate::keeper::KeptBack;
use crate::roles::frontier::{Note, Reviser, Revision};
use crate::{Ctx, Ending, Limits};

/// How others steer a run.
#[derive(Debug, Clone)]
pub struct Steering {
    pub(crate) control: mpsc::Sender<Ending>,
    pub(crate) owners: Vec<mpsc::Sender<Note>>,
    pub(crate) kept_back: KeptBack,
    pub ctx: Arc<Ctx>,
    pub limits: Arc<Limits>,
}

/// What became of a URL from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injected {
    /// It will be visited.
    Accepted(CrawlUrl),
    /// It was known before.
    Known(CrawlUrl),
    /// It will not be visited, and why.
    Refused(String),
}

impl Steering {
    /// Asks the run to end for this reason; [`Ending::Abandoned`] ends it at once.
    pub async fn stop(&self, ending: Ending) {
        // A run that is over needs no telling.
        let _ = self.control.send(ending).await;
    }

    /// Begins a copy of every shard's store, each in a folder of its own. Together they are one
    /// moment of the crawl. What the sinks have made is copied by `sinks` before that, so that it never
    /// has more than the shards; what it lacks is in their logs. None if the crawl is about to end.
    pub async fn copy<T>(
        &self,
        sinks: impl FnOnce() -> T,
        folder: impl Fn(usize) -> PathBuf,
    ) -> Option<(T, Vec<PortResult<StoreCopy>>)> {
        // A letter that its sender has forgotten must be in the copy of its receiver, whichever is
        // made first: so none is forgotten meanwhile, and no line of a log.
        let _kept = self.kept_back.keep();
        let sinks = sinks();
        let mut copies = Vec::new();
        for (shard, keeper) in self.ctx.keepers.iter().enumerate() {
            let folder = folder(shard);
            copies.push(keeper.ask(move |books| books.store.copy(&folder)).await?);
        }
        Some((sinks, copies))
    }

    /// URLs from outside while the crawl goes on: as seeds, which widen its scope, or as links, which
    /// must be in it. Answers for each when they are in the store; none if the crawl is about to end.
    pub async fn inject(&self, texts: &[String], seed: bool) -> Option<Vec<Injected>> {
        let mut sets = vec![(FoundSet::default(), Vec::new()); self.owners.len()];
        let mut injected = Vec::with_capacity(texts.len());
        for (at, text) in texts.iter().enumerate() {
            let judged = self.judge(text, seed);
            if let Injected::Known(url) = &judged {
                let band = frontier::priority::band_of_depth(0);
                let found =
                    Found { url: url.as_str(), id: url.id(), depth: 0, hops: 0, band, seed };
                let shard = url.site().shard(self.ctx.options.shards);
                let (links, places) = &mut sets[usize::from(shard.0)];
                links.push(found);
                places.push(at);
            }
            injected.push(judged);
        }
        let mut waits = Vec::new();
        for (owner, (links, places)) in self.owners.iter().zip(sets) {
            if !links.is_empty() {
                let (taken, told) = oneshot::channel();
                owner.send(Note::Offer { links, taken }).await.ok()?;
                waits.push((told, places));
            }
        }
        for (told, places) in waits {
            for (at, new) in places.into_iter().zip(told.await.ok()?) {
                if let (Injected::Known(url), true) = (&injected[at], new) {
                    injected[at] = Injected::Accepted(url.clone());
                }
            }
        }
        Some(injected)
    }

    /// A URL that may be offered counts as known until the store says that it was not.
    fn judge(&self, text: &str, seed: bool) -> Injected {
        let url = match self.ctx.canon.parse(text) {
            Ok(url) => url,
            Err(error) => return Injected::Refused(error.to_string()),
        };
        if seed {
            self.ctx.scope.write().expect("no panic while locked").add_seed(&url);
            return Injected::Known(url);
        }
        let judged =
            self.ctx.scope.read().expect("no panic while locked").judge(UrlRef::from(&url), 0);
        match judged {
            Ok(()) => Injected::Known(url),
            Err(refusal) => Injected::Refused(refusal.to_string()),
        }
    }

    /// Says something of a host; it holds when this is answered, also after a crash. None if the crawl
    /// is about to end.
    pub async fn rule(&self, host: HostKey, rule: HostRule) -> Option<()> {
        let shard = host.site().shard(self.ctx.options.shards);
        let (taken, told) = oneshot::channel();
        let owner = &self.owners[usize::from(shard.0)];
        owner.send(Note::Rule { host, rule, taken }).await.ok()?;
        told.await.ok()
    }

    /// Changes records while the crawl goes on; see [`ports::ShardStore::revise`]. `judge` is made
    /// once for each shard. Answers how many were changed; none if the crawl is about to end, or has
    /// many such wishes waiting.
    pub async fn revise(&self, judge: impl Fn() -> Reviser) -> Option<u64> {
        let mut changed = 0;
        for owner in &self.owners {
            let (tell, told) = oneshot::channel();
            owner.send(Note::Revise(Revision::new(judge(), tell))).await.ok()?;
            changed += told.await.ok()?;
        }
        Some(changed)
    }
}
