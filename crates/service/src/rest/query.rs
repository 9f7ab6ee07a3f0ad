//! What stands behind the `?`, with names and bounds.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::answer::Refused;

/// The parameters of a request, each at most once and under a name that is known.
#[derive(Debug, Default)]
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(super) fn read(text: Option<&'a str>, names: &[&str]) -> Result<Self, Refused> {
        let mut found: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            if !names.contains(&&*name) {
                let why =
                    format!("`{name}` is not a parameter here; these are: {}", names.join(", "));
                return Err(Refused::bad(why));
            }
            if found.iter().any(|(known, _)| *known == name) {
                return Err(Refused::bad(format!("`{name}` is there twice; send it once")));
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(super) fn number(
        &self,
        name: &str,
        otherwise: u64,
        bounds: RangeInclusive<u64>,
    ) -> Result<u64, Refused> {
        let Some(text) = self.text(name) else { return Ok(otherwise) };
        text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
            let (from, to) = (bounds.start(), bounds.end());
            Refused::bad(format!("`{name}={text}`: send a whole number from {from} to {to}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_named_bounded_and_there_once() {
        let read = |text| Query::read(text, &["a", "b"]);
        let query = read(Some("a=7&b=x%20y")).unwrap();
        assert_eq!((query.number("a", 1, 1..=7).unwrap(), query.text("b")), (7, Some("x y")));
        assert!(query.number("a", 1, 1..=6).is_err() && query.number("b", 1, 1..=6).is_err());
        assert_eq!(read(None).unwrap().number("a", 5, 1..=6).unwrap(), 5);
        for bad in ["c=1", "a=1&a=2", "a&a"] {
            assert!(read(Some(bad)).is_err(), "{bad}");
        }
    }
}
