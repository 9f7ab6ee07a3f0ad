//! What is set for some hosts only?
//!
//! A `[[sheet]]` table names hosts and what holds for them. Several may mean one host: the last that
//! says something wins. Sheets are written in files, not in flags or the environment.
//!
//! Not here: who uses which part (`frontier::HostSheet`, `fetch::RequestSheet`).

use std::collections::BTreeMap;

use fetch::{BasicAuth, ProxyUrl, RequestSheet};
use frontier::{HostSheet, HostSheets};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{ByHost, HostGlob, HumanDuration};

use super::Settings;
use super::check::BadSetting;

/// Settings for some hosts only; as many tables as there are things to say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sheet {
    /// The hosts that are meant: names, or patterns such as `*.example.org`.
    pub hosts: Vec<HostGlob>,
    /// Least pause of these hosts, in the place of `politeness.delay`. A shorter one needs `hasty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<HumanDuration>,
    /// Lets `delay` be shorter than for all others: for your own sites only.
    #[serde(skip_serializing_if = "is_false")]
    pub hasty: bool,
    /// Whether their robots.txt is ignored: for your own sites only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_robots: Option<bool>,
    /// Header fields for these hosts, beside those of `fetch.headers` or in their place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// `"user:password"`, sent to these hosts as HTTP basic authentication, over TLS only. The archive
    /// holds stars in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Whether the password may also be sent without TLS.
    #[serde(skip_serializing_if = "is_false")]
    pub basic_auth_plain: bool,
    /// Whether cookies are kept and sent back: to the host that set them alone, in memory, until the
    /// end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<bool>,
    /// Proxies for these hosts, in the place of `fetch.proxies`; `[]` goes straight to their servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxies: Option<Vec<ProxyUrl>>,
}

impl Sheet {
    /// Whether it holds what others must not see.
    pub fn has_secret(&self) -> bool {
        let mut proxies = self.proxies.iter().flatten();
        self.basic_auth.is_some() || proxies.any(ProxyUrl::has_password)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The part that decides who goes when.
pub fn for_hosts(sheets: &[Sheet]) -> HostSheets {
    let sheets = sheets.iter().map(|sheet| {
        let delay = sheet.delay.map(HumanDuration::get);
        let obey_robots = sheet.ignore_robots.map(|ignored| !ignored);
        (sheet.hosts.clone(), HostSheet { delay, obey_robots })
    });
    HostSheets(sheets.collect())
}

/// The part that decides what a request looks like.
pub fn for_requests(sheets: &[Sheet]) -> ByHost<RequestSheet> {
    let sheets = sheets.iter().map(|sheet| {
        let said = RequestSheet {
            headers: sheet.headers.clone(),
            basic_auth: sheet.basic_auth.clone(),
            basic_auth_plain: sheet.basic_auth_plain,
            cookies: sheet.cookies,
        };
        (sheet.hosts.clone(), said)
    });
    sheets.collect()
}

/// The part that decides through whom a request goes.
pub fn for_proxies(sheets: &[Sheet]) -> ByHost<Option<Vec<ProxyUrl>>> {
    sheets.iter().map(|sheet| (sheet.hosts.clone(), sheet.proxies.clone())).collect()
}

impl Settings {
    /// Whether there is a password in it.
    pub fn has_secret(&self) -> bool {
        self.sheet.iter().any(Sheet::has_secret)
            || self.fetch.proxies.iter().any(ProxyUrl::has_password)
    }

    /// Whether the robots.txt of this host counts.
    pub fn obeys_robots(&self, host: &str) -> bool {
        let said = for_hosts(&self.sheet).obeys_robots(host);
        said.unwrap_or(self.robots.obey)
    }

    pub(super) fn check_sheets(&self) -> Result<(), BadSetting> {
        for (sheet, n) in self.sheet.iter().zip(1..) {
            let bad = |why: String| Err(BadSetting { key: "sheet", why: format!("{n}: {why}") });
            if sheet.hosts.is_empty() {
                return bad("it names no host; write hosts = [\"example.org\"]".to_owned());
            }
            let usual = self.politeness.delay;
            if let Some(delay) = sheet.delay.filter(|delay| *delay < usual && !sheet.hasty) {
                return bad(format!(
                    "delay = {delay} is shorter than politeness.delay = {usual}; if these hosts are \
                     yours, say so with hasty = true"
                ));
            }
        }
        Ok(())
    }

    /// What whoever starts a crawl must not overlook.
    pub fn sheet_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for sheet in &self.sheet {
            let hosts: Vec<_> = sheet.hosts.iter().map(ToString::to_string).collect();
            let hosts = hosts.join(", ");
            if sheet.ignore_robots == Some(true) {
                warnings
                    .push(format!("robots.txt is NOT obeyed at {hosts}: for your own sites only"));
            }
            if let Some(delay) = sheet.delay.filter(|delay| *delay < self.politeness.delay) {
                warnings.push(format!(
                    "only {delay} between requests at {hosts}: for your own sites only"
                ));
            }
            if sheet.basic_auth.is_some() && sheet.basic_auth_plain {
                warnings.push(format!("the password for {hosts} may be sent without TLS"));
            }
        }
        warnings
    }
}
