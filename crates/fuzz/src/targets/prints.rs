//! Any text, and any two texts: the fingerprints of page.
//!
//! An input is one text, or two.
//!
//! Holds: the normal form of a normal form is itself, and has the prints of the text; case and white
//! space change nothing; similarity and distance are the same both ways and in their bounds; an index
//! finds what it was given as equal, and never names what was not given; a stored sketch reads back.

use page::fingerprint::{NearIndex, Prints, Sketch, normalise};

use crate::{Shape, Target, parts};

pub const TARGET: Target =
    Target { name: "prints", words: WORDS, seeds: Vec::new, check, inputs: 10_000 };

const WORDS: &[&[u8]] = &[
    b"the quick brown fox jumps over the lazy dog ",
    b"lorem ipsum dolor sit amet ",
    b" ",
    b"\n\n",
    b"\t",
    b"word",
    b"2024-01-05",
    b".,;:!?",
    b"\0",
    b"\n----\n",
    "ä".as_bytes(),
    "e\u{301}".as_bytes(),
    "\u{345}".as_bytes(),
    "İ".as_bytes(),
    "Σ".as_bytes(),
    "ẞ".as_bytes(),
    "ﬁ".as_bytes(),
    "Ａ".as_bytes(),
    "Å".as_bytes(),
    "\u{ad}".as_bytes(),
    "\u{200d}".as_bytes(),
    "\u{3000}".as_bytes(),
    "東京".as_bytes(),
    "ภาษา".as_bytes(),
    "한국어".as_bytes(),
    "ㄱ".as_bytes(),
    "ﷺ".as_bytes(),
    "\u{fffd}".as_bytes(),
    b"\xff",
];

fn check(input: &[u8]) -> Shape {
    let (one, other) = parts(input);
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    let (a, b) = (check_one(&one), check_one(&other));

    let distance = a.simhash.distance(b.simhash);
    assert_eq!(distance, b.simhash.distance(a.simhash));
    let similarity = a.sketch.similarity(&b.sketch);
    assert_eq!(similarity, b.sketch.similarity(&a.sketch));
    assert!(similarity.is_none_or(|share| (0.0..=1.0).contains(&share)));

    let mut index = NearIndex::new(2);
    assert_eq!(index.judge(&a), (None, Some(0)));
    let (copy, number) = index.judge(&b);
    let same = a.digest == b.digest;
    assert_eq!(number.is_none(), same, "an equal text adds nothing");
    if let Some(copy) = copy {
        assert_eq!((copy.of, copy.exact, copy.distance), (0, same, distance));
        assert!(same || similarity.is_some_and(|share| share > 0.5));
    }
    assert!(!same || copy.is_some());
    for prints in [&a, &b] {
        let copy = index.find(prints).expect("it was given");
        assert!(copy.of < 2 && (copy.of == 0 || copy.exact));
    }

    let mut shape = Shape::default();
    shape.add(
        u64::from(same) | u64::from(copy.is_some()) << 1 | u64::from(similarity.is_some()) << 2,
    );
    shape.add(similarity.map_or(0, |share| (share * 8.0) as u64));
    shape.add(u64::from(distance / 8));
    shape.add_size(normalise(&other).len());
    shape.add(u64::from(other.is_ascii()));
    shape
}

fn check_one(text: &str) -> Prints {
    let prints = Prints::of(text);
    assert_eq!(Prints::of(text), prints, "the same text");
    let normal = normalise(text);
    assert_eq!(normalise(&normal), normal, "the form of the form");
    assert!(!normal.contains("  ") && normal.trim() == normal, "{normal:?}");
    assert_eq!(Prints::of(&normal), prints, "the form has the text's prints");
    if text.is_ascii() {
        assert_eq!(Prints::of(&text.to_ascii_uppercase()), prints, "upper case");
        assert_eq!(Prints::of(&format!("\n{} ", text.replace(' ', " \t"))), prints, "white space");
    }
    assert_eq!(Sketch::from_bytes(prints.sketch.to_bytes()), prints.sketch);
    if let Some(share) = prints.sketch.similarity(&prints.sketch) {
        assert_eq!(share, 1.0, "like itself");
    }
    prints
}
