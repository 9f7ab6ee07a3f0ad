//! Which of a page's links go on to the frontier, and to whose?
//!
//! Links are joined, brought into canonical form, judged by scope and sorted by shard. A link is
//! a piece of one buffer until the store accepts it: no allocation for the nine of ten that are
//! known already.

use std::borrow::Cow;
use std::collections::BTreeMap;

use frontier::{Scope, priority};
use page::Document;
use ports::shard_store::{Found, FoundSet};
use types::{Base, Canon, CrawlUrl, Discovery, Refusal, ShardId, UrlError, UrlId, UrlRef, host};
use warc::WarcFields;

/// Links sorted by the shard that owns them.
#[derive(Debug, Default)]
pub struct Followed {
    pub by_shard: BTreeMap<ShardId, FoundSet>,
    /// A redirect's target that was not taken, and why.
    pub refused: Option<Refusal>,
    /// The target of a seed's redirect, which joins the seeds.
    pub joined: Option<CrawlUrl>,
    /// Links that were not taken, by the reason: they are counted, not stored.
    pub skipped: BTreeMap<Box<str>, u64>,
}

impl Followed {
    fn skip(&mut self, reason: &str, links: u64) {
        if links == 0 {
            return;
        }
        match self.skipped.get_mut(reason) {
            Some(count) => *count += links,
            None => drop(self.skipped.insert(reason.into(), links)),
        }
    }

    /// Takes a link if it is ours to visit.
    fn consider(&mut self, found: Found<'_>, scope: &Scope, shards: u16) {
        let Ok(url) = UrlRef::from_canonical(found.url) else { return };
        match scope.judge(url, found.depth) {
            Ok(()) => self.push(url, found, shards),
            Err(refusal) => self.skip(refusal.class(), 1),
        }
    }

    fn push(&mut self, url: UrlRef<'_>, found: Found<'_>, shards: u16) {
        let shard = if shards == 1 { ShardId(0) } else { host::shard_of(url.site(), shards) };
        self.by_shard.entry(shard).or_default().push(found);
    }
}

/// The links of a page. Every link is written to `outlinks` as well, taken or not: the archive
/// is what a changed scope is judged by again.
pub fn links(
    document: &Document,
    from: &Discovery,
    canon: &Canon,
    scope: &Scope,
    shards: u16,
    outlinks: &mut WarcFields,
) -> Followed {
    let mut followed = Followed::default();
    let Some(base) = document.base().map(Base::from) else {
        return followed;
    };
    let depth = from.depth.saturating_add(1);
    // A query is written in the page's own encoding, as browsers do.
    let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|text| document.encode_query(text);
    let encode = document.charset.filter(|charset| charset.name != "UTF-8").map(|_| encode);
    let mut text = String::new();
    let mut line = String::new();
    let mut here = std::collections::HashSet::with_hasher(foldhash::fast::FixedState::default());
    let mut nofollow = 0;
    for link in document.links() {
        if let Err(error) = canon.join_into(&base, link.href, encode, &mut text) {
            followed.skip(unusable(&error), 1);
            continue;
        }
        let id = UrlId::of(&text);
        // One link may be marked, another to the same page not.
        if !here.insert((id, link.kind.leads_to_page(), link.nofollow)) {
            continue;
        }
        line.clear();
        line.push_str(&text);
        line.push(' ');
        line.push_str(hop(link.kind));
        if link.nofollow {
            line.push_str(" nofollow");
        }
        outlinks.push("outlink", &line);
        if !link.kind.leads_to_page() {
            continue;
        }
        if link.nofollow || document.robots.nofollow {
            nofollow += 1;
            continue;
        }
        let band = priority::band_of_depth(depth);
        let found = Found { url: &text, id, depth, hops: 0, band, seed: false };
        followed.consider(found, scope, shards);
    }
    followed.skip("nofollow", nofollow);
    followed.skip("too-many-on-page", document.links_dropped());
    followed
}

/// The links of a page that was read where our scope is not known: a worker in another process
/// hands on all that could be visited at all. `skipped` is what it could not.
pub fn judge(
    links: &FoundSet,
    from: &Discovery,
    scope: &Scope,
    shards: u16,
    skipped: BTreeMap<Box<str>, u64>,
) -> Followed {
    let mut followed = Followed { skipped, ..Followed::default() };
    let depth = from.depth.saturating_add(1);
    let band = priority::band_of_depth(depth);
    for link in links.iter() {
        let found = Found { depth, hops: 0, band, seed: false, ..link };
        followed.consider(found, scope, shards);
    }
    followed
}

/// In one word, why a link is no URL that anybody could visit.
pub(super) const fn unusable(error: &UrlError) -> &'static str {
    match error {
        UrlError::Scheme(_) => "scheme",
        UrlError::Syntax(_) | UrlError::NoHost(_) => "syntax",
        UrlError::TooLong(_) => "length",
    }
}

/// One letter for what a link is to its page, as archive crawlers write it: `L` for a link to
/// follow, `E` for something the page embeds.
const fn hop(kind: page::LinkKind) -> &'static str {
    use page::LinkKind as K;
    match kind {
        K::Stylesheet | K::Icon | K::Image | K::Script | K::Media | K::Object => "E",
        _ => "L",
    }
}

/// The target of a redirect: a URL like any other, but at the same depth and one hop further.
pub fn redirect(
    url: &CrawlUrl,
    to: &CrawlUrl,
    from: &Discovery,
    hops_max: u8,
    scope: &Scope,
    shards: u16,
) -> Followed {
    let mut followed = Followed::default();
    let hops = from.hops.saturating_add(1);
    let verdict = if to == url {
        Err(Refusal::Loop)
    } else if hops > hops_max {
        Err(Refusal::Hops { hops_max })
    } else if from.seed {
        followed.joined = Some(to.clone());
        Ok(())
    } else {
        scope.judge(to.into(), from.depth)
    };
    match verdict {
        Ok(()) => {
            let found = Found {
                url: to.as_str(),
                id: to.id(),
                depth: from.depth,
                hops,
                band: from.band,
                seed: from.seed,
            };
            followed.push(to.into(), found, shards);
        }
        Err(refusal) => {
            followed.skip(refusal.class(), 1);
            followed.refused = Some(refusal);
        }
    }
    followed
}
