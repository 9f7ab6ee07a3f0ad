//! A web of our own, against which the crawler is tested, measured and shown.
//!
//! Two webs answer through one trait, [`Web`]: a [`World`] is computed from a seed, as large as
//! one likes and with every fault we know; a [`Fixture`] is tiny and written as a string. Both
//! can be visited in process and in virtual time ([`SimFetcher`]), or over real sockets in a
//! process of their own ([`serve`]). Whatever was asked stands in a [`Journal`], kept on the
//! server's side, and [`checks`] tells from it whether the visitor was polite.
//!
//! Nothing here uses the crawler's own code for robots, links or politeness: a judge must not
//! ask the accused.

pub mod web;
pub mod wire;

mod chance;
pub mod text;

pub mod faults;
pub mod spec;
pub mod world;

mod answer;
mod page;
mod path;
mod robots_txt;

pub mod crowd;
pub mod fixture;

pub mod clock;
pub mod journal;

pub mod fetcher;
mod receive;
pub mod resolver;

pub mod serve;

pub mod checks;
pub mod oracle;
mod plain;
pub mod truth;

pub use clock::SimClock;
pub use crowd::Crowd;
pub use faults::{FaultKind, Faults};
pub use fetcher::{Limits, SimFetcher};
pub use fixture::Fixture;
pub use journal::{Entry, Journal};
pub use oracle::{Expectation, Oracle, Rules, Scope};
pub use resolver::SimResolver;
pub use spec::WorldSpec;
pub use truth::{Place, Truth};
pub use web::{Ask, Body, Dns, Door, Plan, Web};
pub use world::World;
