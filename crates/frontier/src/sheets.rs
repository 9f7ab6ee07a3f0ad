//! What did the user say about this host alone?
//!
//! Two things concern who goes when: a pause of its own, and whether its robots.txt counts. What a
//! request to it looks like is the fetcher's.

use std::time::Duration;

use types::ByHost;

use crate::politeness::Politeness;

/// What a sheet says of its hosts; silence leaves things as they are for all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostSheet {
    /// In the place of `politeness.delay`.
    pub delay: Option<Duration>,
    pub obey_robots: Option<bool>,
}

/// All sheets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSheets(pub ByHost<HostSheet>);

impl HostSheets {
    /// The least pause of a host.
    pub fn delay(&self, host: &str, policy: &Politeness) -> Duration {
        self.0.find(host, |sheet| sheet.delay).unwrap_or_else(|| policy.delay.get())
    }

    /// Whether its robots.txt is obeyed, if a sheet says so or otherwise.
    pub fn obeys_robots(&self, host: &str) -> Option<bool> {
        self.0.find(host, |sheet| sheet.obey_robots)
    }
}
