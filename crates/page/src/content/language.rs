//! In which language is a page?
//!
//! What the page declares (`lang`, `Content-Language`, `og:locale`) against what its main text
//! looks like. The text wins where there is enough of it and it is clear: half of the world's
//! templates say `en`.

use whatlang::Lang;

use crate::content::element::Element;
use crate::content::tree::Tree;

/// Enough for trigrams, and a tenth of a millisecond.
const SAMPLE_BYTES_MAX: usize = 4_000;

/// Shorter texts are guessed only where nothing is declared.
const CLEAR_BYTES_MIN: usize = 300;

/// The primary language as two letters where they exist.
pub(crate) fn language(tree: &Tree<'_>, text: &str) -> Option<String> {
    judged(declared(tree), text)
}

/// The same of a text whose language is declared, or not.
pub(crate) fn of_text(declared: Option<&str>, text: &str) -> Option<String> {
    judged(declared.and_then(primary), text)
}

fn judged(declared: Option<String>, text: &str) -> Option<String> {
    let sample = &text[..text.floor_char_boundary(SAMPLE_BYTES_MAX)];
    let Some(guess) = whatlang::detect(sample) else { return declared };
    let code = code(guess.lang());
    match declared {
        None => guess.is_reliable().then(|| code.to_owned()),
        Some(declared) => {
            let clear = sample.len() >= CLEAR_BYTES_MIN && guess.is_reliable();
            Some(if clear && !are_close(&declared, code) { code.to_owned() } else { declared })
        }
    }
}

/// What the page says.
pub(crate) fn declared(tree: &Tree<'_>) -> Option<String> {
    let root = (0..tree.nodes.len().min(8)).find(|&id| tree.element(id) == Element::Html)?;
    let of_root = tree.attribute(root, "lang").or_else(|| tree.attribute(root, "xml:lang"));
    if let Some(tag) = of_root.as_deref().and_then(primary) {
        return Some(tag);
    }
    let mut locale = None;
    for id in 1..tree.nodes.len() {
        match tree.element(id) {
            Element::Meta => {
                let named = ["http-equiv", "name", "property"]
                    .into_iter()
                    .find_map(|name| tree.attribute(id, name))
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                let content = tree.attribute(id, "content").unwrap_or_default();
                match named.as_str() {
                    "content-language" | "language" | "dc.language" => {
                        if let Some(tag) = primary(&content) {
                            return Some(tag);
                        }
                    }
                    "og:locale" => locale = primary(&content),
                    _ => {}
                }
            }
            Element::Body => {
                let tag = tree.attribute(id, "lang").as_deref().and_then(primary);
                return tag.or(locale);
            }
            _ => {}
        }
    }
    locale
}

/// `en-US`, `en_us`, `eng` → `en`.
fn primary(tag: &str) -> Option<String> {
    let tag = tag.split([',', ';']).next().unwrap_or("").trim();
    let first = tag.split(['-', '_']).next().unwrap_or("").to_ascii_lowercase();
    if !(2..=3).contains(&first.len()) || !first.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    if first.len() == 3 {
        let known = Lang::from_code(&first).map(code);
        return Some(known.map_or(first, str::to_owned));
    }
    Some(match first.as_str() {
        "iw" => "he".to_owned(),
        "in" => "id".to_owned(),
        _ => first,
    })
}

/// Languages that a few sentences cannot tell apart: the page knows better.
fn are_close(a: &str, b: &str) -> bool {
    const FAMILIES: [&[&str]; 7] = [
        &["no", "nb", "nn", "da"],
        &["hr", "sr", "bs", "sl", "sh", "me"],
        &["id", "ms", "jv"],
        &["cs", "sk"],
        &["pt", "gl", "es", "ca"],
        &["hi", "mr", "ne"],
        &["ru", "uk", "be", "bg", "mk"],
    ];
    a == b || FAMILIES.iter().any(|family| family.contains(&a) && family.contains(&b))
}

/// ISO 639-1, or 639-3 where there is none.
fn code(lang: Lang) -> &'static str {
    match lang.code() {
        "afr" => "af",
        "aka" => "ak",
        "amh" => "am",
        "ara" => "ar",
        "aze" => "az",
        "bel" => "be",
        "ben" => "bn",
        "bul" => "bg",
        "cat" => "ca",
        "ces" => "cs",
        "cmn" => "zh",
        "cym" => "cy",
        "dan" => "da",
        "deu" => "de",
        "ell" => "el",
        "eng" => "en",
        "epo" => "eo",
        "est" => "et",
        "fin" => "fi",
        "fra" => "fr",
        "guj" => "gu",
        "heb" => "he",
        "hin" => "hi",
        "hrv" => "hr",
        "hun" => "hu",
        "hye" => "hy",
        "ind" => "id",
        "ita" => "it",
        "jav" => "jv",
        "jpn" => "ja",
        "kan" => "kn",
        "kat" => "ka",
        "khm" => "km",
        "kor" => "ko",
        "lat" => "la",
        "lav" => "lv",
        "lit" => "lt",
        "mal" => "ml",
        "mar" => "mr",
        "mkd" => "mk",
        "mya" => "my",
        "nep" => "ne",
        "nld" => "nl",
        "nob" => "nb",
        "ori" => "or",
        "pan" => "pa",
        "pes" => "fa",
        "pol" => "pl",
        "por" => "pt",
        "ron" => "ro",
        "rus" => "ru",
        "sin" => "si",
        "slk" => "sk",
        "slv" => "sl",
        "sna" => "sn",
        "spa" => "es",
        "srp" => "sr",
        "swe" => "sv",
        "tam" => "ta",
        "tel" => "te",
        "tgl" => "tl",
        "tha" => "th",
        "tuk" => "tk",
        "tur" => "tr",
        "ukr" => "uk",
        "urd" => "ur",
        "uzb" => "uz",
        "vie" => "vi",
        "yid" => "yi",
        "zul" => "zu",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GERMAN: &str = "Der Zug hatte in Hannover eine halbe Stunde gestanden, und niemand wusste, \
        warum. Die Leute sahen aus den Fenstern, einige stiegen aus und liefen auf dem Bahnsteig hin \
        und her, als könnten sie damit etwas beschleunigen. Erst gegen Mittag kam ein Schaffner und \
        erklärte, dass auf der Strecke ein Baum liege, den man nun zersägen müsse.";

    fn judged(html: &str, text: &str) -> Option<String> {
        language(&Tree::parse(html, false), text)
    }

    #[test]
    fn what_is_declared_becomes_two_letters() {
        assert_eq!(judged("<html lang=en-US>", "").as_deref(), Some("en"));
        assert_eq!(judged("<html lang=deu>", "").as_deref(), Some("de"));
        assert_eq!(judged("<meta property=og:locale content=fr_FR>", "").as_deref(), Some("fr"));
        assert_eq!(judged("<html lang=''>", ""), None);
        assert_eq!(judged("<html lang='{{lang}}'>", ""), None);
    }

    #[test]
    fn a_clear_text_beats_a_template() {
        assert_eq!(judged("<html lang=en>", GERMAN).as_deref(), Some("de"));
        assert_eq!(judged("", GERMAN).as_deref(), Some("de"));
        assert_eq!(judged("<html lang=fr>", "Der Zug").as_deref(), Some("fr"));
    }
}
