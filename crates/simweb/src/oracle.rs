//! What must a correct crawl of a web come to?
//!
//! A walk over the web's own knowledge of itself, breadth first from the seeds: every URL that
//! can be reached, and what becomes of it. Nothing is requested and no crawler code is asked.
//!
//! The web should be finite: traps are named ([`Expectation::Trap`]) and not entered.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use crate::truth::{Access, Course, Home, Place, Truth};

/// The settings of the crawl that is foretold.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Links from a seed; redirects do not count.
    pub max_depth: u32,
    pub scope: Scope,
    /// The product token for robots.txt.
    pub agent: String,
    pub follow_nofollow: bool,
    /// Redirects in a row (`fetch.redirects_max`).
    pub redirects_max: u32,
    /// URLs on which the crawler gave up for reasons of its own; their links were never seen.
    pub given_up: BTreeSet<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_depth: u32::MAX,
            scope: Scope::Any,
            agent: "lycosa".to_owned(),
            follow_nofollow: false,
            redirects_max: 5,
            given_up: BTreeSet::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Any,
    /// The hosts of the seeds.
    Host,
    /// The registrable domains of the seeds.
    Domain,
}

/// What becomes of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "expect")]
pub enum Expectation {
    /// Exactly one answer with this status is kept.
    Archived { status: u16, truncated: bool },
    /// By robots.txt: never requested.
    Forbidden,
    /// By a rule of the crawler (address, redirects): never requested.
    Refused { why: String },
    /// The host or its robots.txt cannot be reached: never requested, for now.
    Deferred { why: String },
    /// Tried, and given up on.
    Fails { why: String },
    /// One of endlessly many; anything goes.
    Trap,
    /// Known only through a page that does not come to its end; anything goes.
    Maybe,
}

/// Every URL that can be reached, and what must become of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Oracle {
    pub expected: BTreeMap<String, Expectation>,
}

impl Oracle {
    pub fn foretell(web: &dyn Truth, seeds: &[String], rules: &Rules) -> Self {
        let mut courses = Courses::default();
        let certain = Walk::new(web, rules, false, &mut courses).run(seeds);
        let mut expected = Walk::new(web, rules, true, &mut courses).run(seeds);
        for (url, expectation) in &mut expected {
            if !certain.contains_key(url) {
                *expectation = Expectation::Maybe;
            }
        }
        Self { expected }
    }

    pub fn get(&self, url: &str) -> Option<&Expectation> {
        self.expected.get(url)
    }

    /// URLs that must be archived, with their statuses.
    pub fn archived(&self) -> impl Iterator<Item = (&str, u16)> {
        self.expected.iter().filter_map(|(url, expectation)| match expectation {
            Expectation::Archived { status, .. } => Some((url.as_str(), *status)),
            _ => None,
        })
    }

    /// How many of each kind.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for expectation in self.expected.values() {
            *counts.entry(expectation.name()).or_default() += 1;
        }
        counts
    }
}

impl crate::World {
    /// What a crawl of this world must come to.
    pub fn oracle(&self, seeds: &[String], rules: &Rules) -> Oracle {
        Oracle::foretell(self, seeds, rules)
    }
}

impl Expectation {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Archived { .. } => "archived",
            Self::Forbidden => "forbidden",
            Self::Refused { .. } => "refused",
            Self::Deferred { .. } => "deferred",
            Self::Fails { .. } => "fails",
            Self::Trap => "trap",
            Self::Maybe => "maybe",
        }
    }
}

/// What was asked for once; the second walk goes mostly where the first went.
type Courses = HashMap<Place, Rc<Course>, FixedState>;

struct Walk<'a> {
    web: &'a dyn Truth,
    rules: &'a Rules,
    courses: &'a mut Courses,
    /// Links that may or may not be seen are taken too.
    doubtful: bool,
    hosts: BTreeSet<String>,
    queue: VecDeque<Step>,
    /// Least redirects with which a URL was taken from the queue.
    seen: HashMap<Place, u32, FixedState>,
    expected: BTreeMap<String, Expectation>,
}

#[derive(Debug, Clone)]
struct Step {
    place: Place,
    depth: u32,
    hops: u32,
    /// Given by the user, or where such a URL redirects to.
    seed: bool,
}

impl<'a> Walk<'a> {
    fn new(web: &'a dyn Truth, rules: &'a Rules, doubtful: bool, courses: &'a mut Courses) -> Self {
        Self {
            web,
            rules,
            courses,
            doubtful,
            hosts: BTreeSet::new(),
            queue: VecDeque::new(),
            seen: HashMap::default(),
            expected: BTreeMap::new(),
        }
    }

    fn run(mut self, seeds: &[String]) -> BTreeMap<String, Expectation> {
        for place in seeds.iter().filter_map(|seed| Place::parse(seed)) {
            self.hosts.insert(self.unit(&place.host));
            self.queue.push_back(Step { place, depth: 0, hops: 0, seed: true });
        }
        while let Some(step) = self.queue.pop_front() {
            if self.is_settled(&step.place, step.hops) {
                continue;
            }
            self.seen.insert(step.place.clone(), step.hops);
            let expectation = self.judge(&step);
            self.expected.insert(step.place.to_string(), expectation);
        }
        self.expected
    }

    /// Whether it was walked already. A URL that was too many redirects away may be found nearer.
    fn is_settled(&self, place: &Place, hops: u32) -> bool {
        let before = self.seen.get(place);
        before.is_some_and(|&before| before <= hops || before <= self.rules.redirects_max)
    }

    fn course(&mut self, place: &Place) -> Rc<Course> {
        if let Some(known) = self.courses.get(place) {
            return Rc::clone(known);
        }
        let course = Rc::new(self.web.course(place));
        self.courses.insert(place.clone(), Rc::clone(&course));
        course
    }

    /// What the scope counts by.
    fn unit(&self, host: &str) -> String {
        match self.rules.scope {
            Scope::Any => String::new(),
            Scope::Host => host.to_owned(),
            // All of our webs live below `.test`, so the last two labels are the domain.
            Scope::Domain => {
                let mut labels: Vec<_> = host.rsplit('.').take(2).collect();
                labels.reverse();
                labels.join(".")
            }
        }
    }

    fn judge(&mut self, step: &Step) -> Expectation {
        if step.hops > self.rules.redirects_max {
            return Expectation::Refused { why: "redirects".to_owned() };
        }
        let given_up = &self.rules.given_up;
        if !given_up.is_empty() && given_up.contains(&step.place.to_string()) {
            return Expectation::Maybe;
        }
        match self.web.home(&step.place) {
            Home::Lives => {}
            Home::Away(why) => return Expectation::Deferred { why: why.to_owned() },
            Home::OffLimits => return Expectation::Refused { why: "address".to_owned() },
        }
        match self.web.robots(&step.place, &self.rules.agent) {
            Access::Allowed => {}
            Access::Forbidden => return Expectation::Forbidden,
            Access::Unreachable => {
                return Expectation::Deferred { why: "robots.txt".to_owned() };
            }
        }
        match &*self.course(&step.place) {
            Course::Fails(why) => Expectation::Fails { why: (*why).to_owned() },
            Course::Trap => Expectation::Trap,
            Course::Answers { status, truncated, links, redirect } => {
                self.follow_redirect(step, redirect.clone());
                for link in links {
                    if (link.certain || self.doubtful)
                        && (!link.nofollow || self.rules.follow_nofollow)
                    {
                        self.follow(step, &link.to);
                    }
                }
                Expectation::Archived { status: *status, truncated: *truncated }
            }
        }
    }

    fn follow_redirect(&mut self, step: &Step, redirect: Option<Place>) {
        let Some(place) = redirect else { return };
        if step.seed {
            self.hosts.insert(self.unit(&place.host));
        }
        if self.hosts.contains(&self.unit(&place.host)) || self.rules.scope == Scope::Any {
            let (depth, hops) = (step.depth, step.hops + 1);
            // In front: it is as near as the page that named it.
            self.queue.push_front(Step { place, depth, hops, seed: step.seed });
        }
    }

    fn follow(&mut self, step: &Step, place: &Place) {
        if self.is_settled(place, 0) {
            return;
        }
        let in_scope =
            self.rules.scope == Scope::Any || self.hosts.contains(&self.unit(&place.host));
        if in_scope && step.depth < self.rules.max_depth {
            let (place, depth) = (place.clone(), step.depth + 1);
            self.queue.push_back(Step { place, depth, hops: 0, seed: false });
        }
    }
}
