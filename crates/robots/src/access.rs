//! What does the answer to a request for robots.txt mean for its site?
//!
//! The decisions of RFC 9309, 2.3, without the requests. The caller follows redirects (their
//! rules hold for the authority that was asked first), keeps copies and times, and asks here.
//!
//! Not here: when to ask again after a failure, nor backoff (the frontier).

use std::time::Duration;

/// Redirects that are followed before a robots.txt counts as unavailable (2.3.1.2: at least 5).
pub const REDIRECTS_MAX: u32 = 5;

/// Longest use of a copy while robots.txt can be reached (2.4: 24 hours).
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Longest use of a copy while robots.txt cannot be reached (2.3.1.4 names 30 days).
pub const COPY_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How the request for a robots.txt ended, after redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The status of the last answer. A 3xx here is one that could not be followed.
    Status(u16),
    /// More than [`REDIRECTS_MAX`] redirects.
    TooManyRedirects,
    /// No answer: DNS, connection, TLS, timeout.
    Silence,
}

/// What a robots.txt request gives access to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The body holds the rules: parse and obey them.
    Parse,
    /// There is no robots.txt ("unavailable"): everything is allowed.
    AllowAll,
    /// Nobody knows what it would say ("unreachable"): nothing is allowed; see [`Meanwhile`].
    Unreachable,
}

impl Access {
    /// 2xx parses. 4xx allows, as do too many redirects. Everything else is unreachable: 5xx and
    /// silence by the RFC; 429 because it asks to slow down, not to come in (Google and Nutch do
    /// the same); undefined codes by the RFC's drafts, which is the careful reading.
    pub fn of(reply: Reply) -> Access {
        match reply {
            Reply::Status(200..=299) => Access::Parse,
            Reply::Status(429) => Access::Unreachable,
            Reply::Status(400..=499) | Reply::TooManyRedirects => Access::AllowAll,
            Reply::Status(_) | Reply::Silence => Access::Unreachable,
        }
    }
}

/// What holds for a site while its robots.txt is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// The last good copy still speaks for the site.
    UseCopy,
    /// Fetch nothing; its URLs wait.
    Wait,
}

impl Meanwhile {
    /// Decides by the age of the last good copy, if there is one. The RFC lets a crawler treat a
    /// long outage as "no robots.txt"; we do not on our own, that is for a setting to say.
    pub fn of(copy_age: Option<Duration>) -> Meanwhile {
        match copy_age {
            Some(age) if age <= COPY_AGE_MAX => Meanwhile::UseCopy,
            _ => Meanwhile::Wait,
        }
    }
}

/// The robots.txt that speaks for `url`: one for each scheme, host and port. `None` for anything
/// but an `http` or `https` URL with a host.
pub fn robots_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host_and_port = authority.rsplit('@').next()?;
    let has_host = !host_and_port.is_empty() && !host_and_port.starts_with(':');
    has_host.then(|| format!("{scheme}://{host_and_port}/robots.txt").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Point 1: per scheme, host and port, lower case.
    #[test]
    fn each_scheme_host_and_port_has_its_own_robots_txt() {
        for (url, expected) in [
            ("http://a.test/x?y#z", Some("http://a.test/robots.txt")),
            ("HTTPS://A.Test:8443", Some("https://a.test:8443/robots.txt")),
            ("https://u:p@a.test?q=@b", Some("https://a.test/robots.txt")),
            ("http://[::1]:80/x", Some("http://[::1]:80/robots.txt")),
            ("ftp://a.test/x", None),
            ("http:///x", None),
            ("http://:80/", None),
            ("/x", None),
        ] {
            assert_eq!(robots_url(url).as_deref(), expected, "{url}");
        }
    }

    // Points 3, 5, 6 and 8.
    #[test]
    fn the_status_decides_what_is_allowed() {
        for (statuses, access) in [
            (200..=299, Access::Parse),
            (400..=428, Access::AllowAll),
            (429..=429, Access::Unreachable),
            (430..=499, Access::AllowAll),
            (500..=599, Access::Unreachable),
            (600..=999, Access::Unreachable),
            (100..=199, Access::Unreachable),
            (300..=399, Access::Unreachable),
        ] {
            for status in statuses {
                assert_eq!(Access::of(Reply::Status(status)), access, "{status}");
            }
        }
        assert_eq!(Access::of(Reply::Silence), Access::Unreachable);
    }

    // Points 4 and 12: five are followed, a sixth means that there is none.
    #[test]
    fn too_many_redirects_count_as_no_robots_txt() {
        assert_eq!(REDIRECTS_MAX, 5);
        assert_eq!(Access::of(Reply::TooManyRedirects), Access::AllowAll);
    }

    // Points 7 and 9.
    #[test]
    fn a_copy_bridges_an_outage_of_thirty_days_and_no_longer() {
        let day = Duration::from_secs(86_400);
        assert_eq!(TTL_MAX, day);
        assert_eq!(Meanwhile::of(Some(day * 30)), Meanwhile::UseCopy);
        assert_eq!(Meanwhile::of(Some(day * 31)), Meanwhile::Wait);
        assert_eq!(Meanwhile::of(None), Meanwhile::Wait);
    }
}
