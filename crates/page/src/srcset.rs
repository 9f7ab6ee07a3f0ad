//! Which images does a `srcset` offer?
//!
//! The HTML standard's "parse a srcset attribute", as far as the URLs go. Descriptors are stepped
//! over unchecked: an image with a wrong width is an image still.

/// The URLs of a `srcset`, in order. `value` has its character references decoded.
pub(crate) fn urls(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let url = &rest[..end];
        rest = &rest[end..];
        // A comma inside a URL belongs to it; at its end it closes the candidate.
        let bare = url.trim_end_matches(',');
        if bare.len() == url.len() {
            rest = &rest[descriptors_end(rest)..];
        }
        Some(bare)
    })
}

/// The comma behind the descriptors, parentheses apart, or the end.
fn descriptors_end(rest: &str) -> usize {
    let mut in_parentheses = false;
    let end = rest.bytes().position(|byte| {
        match byte {
            b'(' => in_parentheses = true,
            b')' => in_parentheses = false,
            _ => {}
        }
        byte == b',' && !in_parentheses
    });
    end.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_split_as_the_standard_says() {
        for (value, expected) in [
            ("", vec![]),
            (" , ,", vec![]),
            ("a.png", vec!["a.png"]),
            ("a.png 1x, b.png 2x", vec!["a.png", "b.png"]),
            ("a.png 100w,b.png 200w", vec!["a.png", "b.png"]),
            ("a.png, b.png", vec!["a.png", "b.png"]),
            ("a.png,b.png 2x", vec!["a.png,b.png"]),
            ("a,,, b", vec!["a", "b"]),
            ("data:image/png;base64,AA 1x, b 2x", vec!["data:image/png;base64,AA", "b"]),
            ("a.png calc(1px, 2px) 3x, b.png", vec!["a.png", "b.png"]),
            ("a.png (, b.png", vec!["a.png"]),
            ("\n\ta.png\n\t1x\n,\n\tb.png\n", vec!["a.png", "b.png"]),
            (
                "/w_100,h_50/a.jpg 1x, /w_200,h_100/a.jpg 2x",
                vec!["/w_100,h_50/a.jpg", "/w_200,h_100/a.jpg"],
            ),
        ] {
            assert_eq!(urls(value).collect::<Vec<_>>(), expected, "{value:?}");
        }
    }
}
