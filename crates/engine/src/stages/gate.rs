//! May this URL be requested, now that its turn has come?
//!
//! Scope is judged again, because settings may have changed since the URL was accepted; then
//! robots.txt, whose rules the frontier has made sure are known. A refusal here costs the host
//! nothing: we never knocked.

use std::sync::Arc;

use types::{CrawlUrl, Origin, Refusal, Task, UrlRef};

use crate::ctx::Ctx;
use crate::robots_book::Rules;

#[derive(Debug)]
pub enum Gate {
    Open,
    Closed(Refusal),
    /// The rules are gone from memory and store: the frontier must ask for them again.
    NoRules(Origin),
}

pub async fn check(ctx: &Ctx, task: &Task) -> Gate {
    let found = &task.record.found;
    if !found.seed {
        let scope = ctx.scope.read().expect("no panic while locked");
        if let Err(refusal) = scope.judge(UrlRef::from(&task.record.url), found.depth) {
            return Gate::Closed(refusal);
        }
    }
    if !ctx.options.obeys_robots(task.record.url.host()) {
        return Gate::Open;
    }
    let origin = task.record.url.origin();
    match rules(ctx, &origin).await {
        Some(rules) if rules.reachable => judge(&rules, &task.record.url),
        _ => Gate::NoRules(origin),
    }
}

fn judge(rules: &Rules, url: &CrawlUrl) -> Gate {
    let verdict = rules.group.judge(url.path_and_query());
    match (verdict.allowed, verdict.rule) {
        (true, _) => Gate::Open,
        (false, Some(rule)) => {
            Gate::Closed(Refusal::Robots { rule: rule.text.into(), line: rule.line })
        }
        (false, None) => unreachable!("only a rule forbids"),
    }
}

async fn rules(ctx: &Ctx, origin: &Origin) -> Option<Arc<Rules>> {
    if let Some(rules) = ctx.robots.get(origin) {
        return Some(rules);
    }
    let keeper = ctx.keeper(origin.host.site().shard(ctx.options.shards));
    let entry = keeper.robots(origin.clone()).await?;
    let rules = Arc::new(Rules::of(&entry, &ctx.options.product, &ctx.options.robots));
    ctx.robots.put(origin.clone(), rules.clone());
    Some(rules)
}
