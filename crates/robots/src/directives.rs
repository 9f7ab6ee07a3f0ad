//! What may be done with a page once it is fetched?
//!
//! `X-Robots-Tag` headers and `<meta name=robots>` carry lists of rules, for everyone or for one
//! crawler. What forbids adds up and what permits (`index`, `follow`, `all`) changes nothing, so
//! the most restrictive reading wins and the order does not matter.
//!
//! Always: at most [`DIRECTIVE_BYTES_MAX`] bytes are read of a page's headers and of each meta
//! element, cut back to whole rules; unknown rules are skipped.
//!
//! Not here: where in a page a meta element counts, nor what a crawl does about a rule.

use crate::agent::{leading_token, product_token};

/// Bytes of directives that are read: 8 KiB, the least that draft-illyes-repext asks for.
pub const DIRECTIVE_BYTES_MAX: usize = 8 * 1024;

/// Longest `unavailable_after` kept; a date has about 30 bytes.
const DATE_BYTES_MAX: usize = 64;

/// The page-level rules that hold for us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Do not show the page in a search.
    pub noindex: bool,
    /// Do not follow the page's links.
    pub nofollow: bool,
    /// Do not show a stored copy (`noarchive`, `nocache`).
    pub noarchive: bool,
    /// Do not show an extract.
    pub nosnippet: bool,
    /// Do not index the page's images.
    pub noimageindex: bool,
    /// Do not offer a translation.
    pub notranslate: bool,
    /// May be indexed when embedded in another page, in spite of `noindex`.
    pub indexifembedded: bool,
    /// Longest extract in characters; the smallest that was asked for.
    pub max_snippet: Option<u32>,
    /// Date from which the page is not to be shown, as written; the first one found.
    pub unavailable_after: Option<String>,
}

impl Directives {
    /// The rules of all `X-Robots-Tag` values of one answer, for `agent` (a product token or a
    /// whole `User-Agent` header).
    ///
    /// A value is a comma list. `token:` before a rule addresses the rules from there on to one
    /// crawler, up to the next such prefix or the value's end.
    pub fn from_headers<V: AsRef<[u8]>>(
        values: impl IntoIterator<Item = V>,
        agent: &str,
    ) -> Directives {
        let mut directives = Directives::default();
        let mut bytes_left = DIRECTIVE_BYTES_MAX;
        for value in values {
            let value = cut_list(value.as_ref(), bytes_left);
            // An empty value costs as well, or their number would have no bound.
            bytes_left = bytes_left.saturating_sub(value.len().max(1));
            directives.add_header(&String::from_utf8_lossy(value), product_token(agent));
        }
        directives
    }

    /// Adds the rules of a meta element if its `name` is `robots` or the token of `agent`.
    pub fn add_meta(&mut self, name: &str, content: &str, agent: &str) {
        if speaks_to(name.trim(), product_token(agent)) {
            let content = cut_list(content.as_bytes(), DIRECTIVE_BYTES_MAX);
            let content = String::from_utf8_lossy(content);
            Items { rest: &content }.for_each(|item| self.add_item(item));
        }
    }

    /// Adds the rules of `other`, say the headers' to the page's.
    pub fn add(&mut self, other: &Directives) {
        self.noindex |= other.noindex;
        self.nofollow |= other.nofollow;
        self.noarchive |= other.noarchive;
        self.nosnippet |= other.nosnippet;
        self.noimageindex |= other.noimageindex;
        self.notranslate |= other.notranslate;
        self.indexifembedded |= other.indexifembedded;
        self.max_snippet = smaller(self.max_snippet, other.max_snippet);
        if self.unavailable_after.is_none() {
            self.unavailable_after.clone_from(&other.unavailable_after);
        }
    }

    fn add_header(&mut self, value: &str, token: &str) {
        let mut is_ours = true;
        for item in (Items { rest: value }) {
            let rule = match split_addressee(item) {
                Some((addressee, rule)) => {
                    is_ours = speaks_to(addressee, token);
                    rule
                }
                None => item,
            };
            if is_ours {
                self.add_item(rule);
            }
        }
    }

    /// One entry of a list: a rule with a value, or a word; also several words, for those who
    /// forget the commas.
    fn add_item(&mut self, item: &str) {
        let Some((name, value)) = item.split_once(':') else {
            return item.split([' ', '\t', ';']).for_each(|word| self.add_word(word));
        };
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("max-snippet") {
            // -1 means no limit.
            let limit = value.parse().ok();
            self.max_snippet = smaller(self.max_snippet, limit);
            self.nosnippet |= limit == Some(0);
        } else if name.eq_ignore_ascii_case("unavailable_after")
            && self.unavailable_after.is_none()
            && (1..=DATE_BYTES_MAX).contains(&value.len())
        {
            self.unavailable_after = Some(value.to_owned());
        }
    }

    fn add_word(&mut self, word: &str) {
        match word.to_ascii_lowercase().as_str() {
            "none" => (self.noindex, self.nofollow) = (true, true),
            "noindex" => self.noindex = true,
            "nofollow" => self.nofollow = true,
            "noarchive" | "nocache" => self.noarchive = true,
            "nosnippet" => self.nosnippet = true,
            "noimageindex" => self.noimageindex = true,
            "notranslate" => self.notranslate = true,
            "indexifembedded" => self.indexifembedded = true,
            _ => {}
        }
    }
}

/// What a link says about itself in its `rel`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rel {
    /// The author does not vouch for the target.
    pub nofollow: bool,
    /// The link was written by a user of the site.
    pub ugc: bool,
    /// The link was paid for.
    pub sponsored: bool,
}

impl Rel {
    /// Reads a `rel` attribute: words parted by white space (or, wrongly but often, commas).
    pub fn parse(rel: &str) -> Rel {
        let mut found = Rel::default();
        for word in rel.split(|c: char| c.is_ascii_whitespace() || c == ',') {
            found.nofollow |= word.eq_ignore_ascii_case("nofollow");
            found.ugc |= word.eq_ignore_ascii_case("ugc");
            found.sponsored |= word.eq_ignore_ascii_case("sponsored");
        }
        found
    }

    /// Does any of them ask not to count the link as a recommendation?
    pub fn disowns(self) -> bool {
        self.nofollow || self.ugc || self.sponsored
    }
}

/// Entries of a comma list, trimmed.
struct Items<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let comma = |from: usize| self.rest[from..].find(',').map(|at| from + at);
        let mut end = comma(0);
        // `unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT` is one entry.
        if let Some(first) = end.filter(|&first| ends_in_weekday(&self.rest[..first])) {
            end = comma(first + 1);
        }
        let item = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or("", |end| &self.rest[end + 1..]);
        Some(item.trim())
    }
}

/// Is this the start of a date rule, cut at the comma after the weekday?
fn ends_in_weekday(item: &str) -> bool {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let Some((name, day)) = item.rsplit_once(':') else { return false };
    let day = day.trim().to_ascii_lowercase();
    // An addressee may stand before the name.
    let name = name.rsplit(':').next().unwrap_or(name).trim();
    name.eq_ignore_ascii_case("unavailable_after") && DAYS.iter().any(|d| day.starts_with(d))
}

/// `token: rule` → both. A rule with a value (`max-snippet: 5`) has the same shape, so the part
/// before the colon must not be such a name and the part after must start with a rule we know.
/// If in doubt it is no addressee: then the rules behind it count for us, not for nobody.
fn split_addressee(item: &str) -> Option<(&str, &str)> {
    let (addressee, rule) = item.split_once(':')?;
    let (addressee, rule) = (addressee.trim(), rule.trim());
    let rule_name = rule.split([':', ' ', '\t', ';']).next().unwrap_or(rule);
    let is_one = !addressee.is_empty()
        && !addressee.contains(char::is_whitespace)
        && !has_value(addressee)
        && is_known(rule_name);
    is_one.then_some((addressee, rule))
}

fn has_value(name: &str) -> bool {
    let starts_max = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("max-"));
    starts_max || name.eq_ignore_ascii_case("unavailable_after")
}

fn is_known(rule: &str) -> bool {
    const WORDS: [&str; 17] = [
        "all",
        "none",
        "index",
        "noindex",
        "follow",
        "nofollow",
        "noarchive",
        "nocache",
        "nosnippet",
        "noimageindex",
        "notranslate",
        "indexifembedded",
        "noodp",
        "noydir",
        "nositelinkssearchbox",
        "noai",
        "noimageai",
    ];
    has_value(rule) || WORDS.iter().any(|word| rule.eq_ignore_ascii_case(word))
}

fn speaks_to(addressee: &str, token: &str) -> bool {
    let is_everyone = addressee == "*" || addressee.eq_ignore_ascii_case("robots");
    let name = leading_token(addressee);
    is_everyone || (!name.is_empty() && name.eq_ignore_ascii_case(token))
}

/// The part of a list that may be read, cut at a comma: half a rule is another rule.
fn cut_list(list: &[u8], bytes_max: usize) -> &[u8] {
    match list.get(..bytes_max) {
        Some(start) if list.len() > bytes_max && list[bytes_max] != b',' => {
            &start[..memchr::memrchr(b',', start).unwrap_or(0)]
        }
        Some(start) => start,
        None => list,
    }
}

fn smaller(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn show(directives: &Directives) -> String {
        let d = directives;
        let flags = [
            (d.noindex, "noindex"),
            (d.nofollow, "nofollow"),
            (d.noarchive, "noarchive"),
            (d.nosnippet, "nosnippet"),
            (d.noimageindex, "noimageindex"),
            (d.notranslate, "notranslate"),
            (d.indexifembedded, "indexifembedded"),
        ];
        let mut words: Vec<String> =
            flags.iter().filter(|(set, _)| *set).map(|(_, name)| (*name).to_owned()).collect();
        words.extend(d.max_snippet.map(|n| format!("max-snippet={n}")));
        words.extend(d.unavailable_after.as_ref().map(|date| format!("until={date}")));
        words.join(" ")
    }

    #[expect(clippy::needless_pass_by_value, reason = "expect! makes a value, not a reference")]
    fn headers(values: &[&str], expected: Expect) {
        expected.assert_eq(&show(&Directives::from_headers(values, "lycosa/0.1")));
    }

    #[expect(clippy::needless_pass_by_value, reason = "expect! makes a value, not a reference")]
    fn meta(name: &str, content: &str, expected: Expect) {
        let mut directives = Directives::default();
        directives.add_meta(name, content, "lycosa");
        expected.assert_eq(&show(&directives));
    }

    #[test]
    fn what_forbids_adds_up_over_values_and_lists() {
        headers(&["noindex"], expect!["noindex"]);
        headers(&["NoIndex , nofollow", "noarchive"], expect!["noindex nofollow noarchive"]);
        headers(&["none"], expect!["noindex nofollow"]);
        headers(&["nocache, nosnippet"], expect!["noarchive nosnippet"]);
        headers(
            &["noimageindex,notranslate,indexifembedded"],
            expect!["noimageindex notranslate indexifembedded"],
        );
        headers(&[], expect![""]);
    }

    #[test]
    fn what_permits_changes_nothing() {
        headers(&["noindex", "index, follow, all"], expect!["noindex"]);
        headers(&["all, none"], expect!["noindex nofollow"]);
    }

    #[test]
    fn unknown_rules_are_skipped() {
        headers(&["foo, noindexer, bar=1,, noindex"], expect!["noindex"]);
        headers(&["\u{1F577}: x, noindex"], expect!["noindex"]);
    }

    #[test]
    fn a_prefix_addresses_one_crawler() {
        headers(&["otherbot: noindex, nofollow"], expect![""]);
        headers(&["lycosa: noindex, nofollow"], expect!["noindex nofollow"]);
        headers(&["LYCOSA : none"], expect!["noindex nofollow"]);
        headers(&["noarchive, otherbot: noindex, lycosa: nofollow"], expect!["nofollow noarchive"]);
        headers(&["otherbot: noindex", "nofollow"], expect!["nofollow"]);
        headers(&["*: noindex", "robots: nofollow"], expect!["noindex nofollow"]);
        headers(&["lycosabot: noindex"], expect![""]);
    }

    #[test]
    fn a_rule_with_a_value_is_no_prefix() {
        headers(&["max-snippet: 5, noindex"], expect!["noindex max-snippet=5"]);
        headers(&["max-image-preview: none, nofollow"], expect!["nofollow"]);
        headers(&["max-something: 5, noindex"], expect!["noindex"]);
        headers(
            &["unavailable_after: 25 Jun 2027 15:00:00 PST, noindex"],
            expect!["noindex until=25 Jun 2027 15:00:00 PST"],
        );
        headers(
            &["lycosa: unavailable_after: 25 Jun 2027 15:00:00 PST, nofollow"],
            expect!["nofollow until=25 Jun 2027 15:00:00 PST"],
        );
        headers(&["otherbot: unavailable_after: 25 Jun 2027 15:00:00 PST, nofollow"], expect![""]);
    }

    #[test]
    fn the_comma_after_a_weekday_belongs_to_the_date() {
        headers(
            &["unavailable_after: Fri, 25 Jun 2027 15:00:00 GMT, noindex"],
            expect!["noindex until=Fri, 25 Jun 2027 15:00:00 GMT"],
        );
        headers(
            &["lycosa: unavailable_after: Friday, 25-Jun-27 15:00:00 UTC"],
            expect!["until=Friday, 25-Jun-27 15:00:00 UTC"],
        );
        meta(
            "robots",
            "unavailable_after:sun, 1 Jan 2030 00:00:00 GMT",
            expect!["until=sun, 1 Jan 2030 00:00:00 GMT"],
        );
    }

    #[test]
    fn the_tightest_snippet_limit_wins() {
        headers(&["max-snippet: 50, max-snippet:20", "max-snippet: -1"], expect!["max-snippet=20"]);
        headers(&["max-snippet: 0"], expect!["nosnippet max-snippet=0"]);
        headers(&["max-snippet: many"], expect![""]);
    }

    #[test]
    fn a_meta_element_counts_by_its_name() {
        meta("robots", "noindex, nofollow", expect!["noindex nofollow"]);
        meta("ROBOTS", "NONE", expect!["noindex nofollow"]);
        meta("Lycosa", "noarchive", expect!["noarchive"]);
        meta("otherbot", "noindex", expect![""]);
        meta("description", "noindex", expect![""]);
        // No prefixes here: the name is the addressee.
        meta("robots", "otherbot: noindex, nofollow", expect!["nofollow"]);
        meta("robots", "noindex nofollow;noarchive", expect!["noindex nofollow noarchive"]);
    }

    #[test]
    fn headers_and_page_are_added_together() {
        let mut page = Directives::from_headers(["nofollow, max-snippet: 9"], "lycosa");
        let header = Directives::from_headers(["noindex, max-snippet: 3"], "lycosa");
        page.add(&header);
        assert_eq!(show(&page), "noindex nofollow max-snippet=3");
    }

    #[test]
    fn half_a_rule_at_the_limit_is_not_another_rule() {
        let mut list = "x,".repeat(DIRECTIVE_BYTES_MAX / 2 - 4);
        list.push_str("noindexing, nofollow");
        assert_eq!(&list[DIRECTIVE_BYTES_MAX - 8..][..10], "noindexing");
        headers(&[&list], expect![""]);
        meta("robots", &list, expect![""]);

        let fits = format!("{}noindex", "x,".repeat(DIRECTIVE_BYTES_MAX / 2 - 4));
        headers(&[&fits], expect!["noindex"]);
    }

    #[test]
    fn all_values_together_share_one_limit() {
        let list = "x,".repeat(DIRECTIVE_BYTES_MAX / 2);
        headers(&[&list, "noindex"], expect![""]);
    }

    #[test]
    fn a_date_without_end_is_not_kept() {
        headers(&[&format!("unavailable_after: {}", "9".repeat(1000))], expect![""]);
    }

    #[test]
    fn rel_knows_three_words() {
        let rel = Rel::parse("noopener NoFollow\tugc");
        assert_eq!(rel, Rel { nofollow: true, ugc: true, sponsored: false });
        assert!(rel.disowns());
        assert!(Rel::parse("nofollow,sponsored").sponsored);
        assert!(!Rel::parse("nofollowing alternate").disowns());
    }
}
