//! Which page does a `Link:` header name as the canonical one?
//!
//! RFC 8288, as far as `<url>; rel="canonical"` goes. Links about another resource (`anchor=`) are
//! not about this page.

/// The target of the first canonical link in a header's value.
pub(crate) fn canonical(value: &str) -> Option<&str> {
    let mut rest = value;
    loop {
        rest = &rest[rest.find('<')? + 1..];
        let (target, behind) = rest.split_once('>')?;
        let (about_us, is_canonical, behind) = parameters(behind);
        if about_us && is_canonical {
            return Some(target.trim());
        }
        rest = behind;
    }
}

/// Reads `; name=value …` up to the comma before the next link: is there no `anchor`, does `rel`
/// say canonical, and what is left.
fn parameters(mut rest: &str) -> (bool, bool, &str) {
    let mut about_us = true;
    let mut is_canonical = None;
    loop {
        let end = rest.find([';', ',']).unwrap_or(rest.len());
        let Some(behind) = rest[end..].strip_prefix(';') else {
            return (about_us, is_canonical.unwrap_or(false), &rest[end..]);
        };
        let name_end = behind.find(['=', ';', ',']).unwrap_or(behind.len());
        let name = behind[..name_end].trim();
        rest = &behind[name_end..];
        let Some(value) = rest.strip_prefix('=') else {
            continue;
        };
        let value = value.trim_start();
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_at(value.find([';', ',']).unwrap_or(value.len())),
        };
        rest = behind;
        if name.eq_ignore_ascii_case("anchor") {
            about_us = false;
        } else if name.eq_ignore_ascii_case("rel") {
            // Of several `rel` the first counts.
            is_canonical.get_or_insert_with(|| {
                value.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("canonical"))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_link_is_found_among_others() {
        for (value, expected) in [
            ("<https://a.test/x>; rel=\"canonical\"", Some("https://a.test/x")),
            ("</x>;rel=canonical", Some("/x")),
            ("< /x > ; REL = Canonical", Some("/x")),
            ("</p>; rel=prev, </x>; rel=\"up canonical\"; title=\"a, b; c\"", Some("/x")),
            ("</a,b;c>; title=\"<no>; rel=canonical\"; rel=next, </x>; rel=canonical", Some("/x")),
            ("</x>; rel=next; rel=canonical", None),
            ("</x>; rel=canonical; anchor=\"/y\"", None),
            ("</x>; rel", None),
            ("</x>", None),
            ("/x; rel=canonical", None),
            ("</x; rel=canonical", None),
            ("</x>; title=\"; rel=canonical", None),
            ("", None),
        ] {
            assert_eq!(canonical(value), expected, "{value:?}");
        }
    }
}
