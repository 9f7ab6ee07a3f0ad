//! What does a site ask of crawlers, and may we fetch this URL?
//!
//! The Robots Exclusion Protocol (RFC 9309) and the page-level directives, as a pure library:
//! bytes in, verdicts out. The way through it:
//!
//! ```
//! use lycosa_robots::Robots;
//!
//! let robots = Robots::parse(b"User-agent: *\nDisallow: /p # private\nCrawl-delay: 2");
//! let group = robots.group("lycosa"); // kept for the host; `robots` may go
//! let verdict = group.judge("http://a.test/p/1");
//!
//! assert!(!verdict.allowed);
//! assert_eq!(verdict.rule.map(|rule| rule.text), Some("Disallow: /p"));
//! assert_eq!(group.crawl_delay(), Some(2.0));
//! ```
//!
//! Always: no input panics, and work and memory are linear in its size (`parse`, `matching`).
//! Where Google's parser forgives what the RFC leaves open we follow it, where it skips a MUST we
//! follow the RFC; each such choice is a test in `tests/google.rs`.
//!
//! Not here: fetching, redirects and caches (the engine's gate), nor when to ask again; only
//! what an answer means (`access`).

mod access;
mod agent;
mod directives;
mod form;
mod group;
mod lines;
mod matching;
mod parse;
mod probe;

pub use access::{Access, COPY_AGE_MAX, Meanwhile, REDIRECTS_MAX, Reply, TTL_MAX, robots_url};
pub use agent::product_token;
pub use directives::{DIRECTIVE_BYTES_MAX, Directives, Rel};
pub use group::{Group, RuleText, Verdict};
pub use lines::LINE_BYTES_MAX;
pub use parse::{BYTES_MAX, CRAWL_DELAY_MAX, Robots};
