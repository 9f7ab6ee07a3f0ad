//! Which characters does the name of a glyph stand for?
//!
//! Letters stand for themselves, `eacute` is a letter with an accent, `uni20AC` and `u1F600` tell
//! their number; the other names that fonts for text use are in a table.

use icu_normalizer::ComposingNormalizerBorrowed;

const ACCENTS: [(&str, char); 14] = [
    ("hungarumlaut", '\u{30b}'),
    ("commaaccent", '\u{327}'),
    ("circumflex", '\u{302}'),
    ("dotaccent", '\u{307}'),
    ("dieresis", '\u{308}'),
    ("cedilla", '\u{327}'),
    ("macron", '\u{304}'),
    ("ogonek", '\u{328}'),
    ("acute", '\u{301}'),
    ("grave", '\u{300}'),
    ("tilde", '\u{303}'),
    ("caron", '\u{30c}'),
    ("breve", '\u{306}'),
    ("ring", '\u{30a}'),
];

const NAMES: &[(&str, &str)] = &[
    ("space", " "),
    ("nbspace", " "),
    ("exclam", "!"),
    ("quotedbl", "\""),
    ("numbersign", "#"),
    ("dollar", "$"),
    ("percent", "%"),
    ("ampersand", "&"),
    ("quotesingle", "'"),
    ("parenleft", "("),
    ("parenright", ")"),
    ("asterisk", "*"),
    ("plus", "+"),
    ("comma", ","),
    ("hyphen", "-"),
    ("sfthyphen", "-"),
    ("period", "."),
    ("slash", "/"),
    ("zero", "0"),
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("colon", ":"),
    ("semicolon", ";"),
    ("less", "<"),
    ("equal", "="),
    ("greater", ">"),
    ("question", "?"),
    ("at", "@"),
    ("bracketleft", "["),
    ("backslash", "\\"),
    ("bracketright", "]"),
    ("asciicircum", "^"),
    ("underscore", "_"),
    ("grave", "`"),
    ("quoteleft", "‘"),
    ("quoteright", "’"),
    ("braceleft", "{"),
    ("bar", "|"),
    ("braceright", "}"),
    ("asciitilde", "~"),
    ("exclamdown", "¡"),
    ("cent", "¢"),
    ("sterling", "£"),
    ("currency", "¤"),
    ("yen", "¥"),
    ("brokenbar", "¦"),
    ("section", "§"),
    ("dieresis", "¨"),
    ("copyright", "©"),
    ("ordfeminine", "ª"),
    ("guillemotleft", "«"),
    ("logicalnot", "¬"),
    ("registered", "®"),
    ("macron", "¯"),
    ("degree", "°"),
    ("plusminus", "±"),
    ("twosuperior", "²"),
    ("threesuperior", "³"),
    ("acute", "´"),
    ("mu", "µ"),
    ("paragraph", "¶"),
    ("periodcentered", "·"),
    ("cedilla", "¸"),
    ("onesuperior", "¹"),
    ("ordmasculine", "º"),
    ("guillemotright", "»"),
    ("onequarter", "¼"),
    ("onehalf", "½"),
    ("threequarters", "¾"),
    ("questiondown", "¿"),
    ("AE", "Æ"),
    ("ae", "æ"),
    ("OE", "Œ"),
    ("oe", "œ"),
    ("Oslash", "Ø"),
    ("oslash", "ø"),
    ("germandbls", "ß"),
    ("Eth", "Ð"),
    ("eth", "ð"),
    ("Thorn", "Þ"),
    ("thorn", "þ"),
    ("Lslash", "Ł"),
    ("lslash", "ł"),
    ("Dcroat", "Đ"),
    ("dcroat", "đ"),
    ("dotlessi", "ı"),
    ("multiply", "×"),
    ("divide", "÷"),
    ("endash", "–"),
    ("emdash", "—"),
    ("quotesinglbase", "‚"),
    ("quotedblbase", "„"),
    ("quotedblleft", "“"),
    ("quotedblright", "”"),
    ("guilsinglleft", "‹"),
    ("guilsinglright", "›"),
    ("bullet", "•"),
    ("ellipsis", "…"),
    ("dagger", "†"),
    ("daggerdbl", "‡"),
    ("perthousand", "‰"),
    ("fraction", "⁄"),
    ("trademark", "™"),
    ("Euro", "€"),
    ("florin", "ƒ"),
    ("circumflex", "ˆ"),
    ("tilde", "˜"),
    ("breve", "˘"),
    ("dotaccent", "˙"),
    ("ring", "˚"),
    ("hungarumlaut", "˝"),
    ("ogonek", "˛"),
    ("caron", "ˇ"),
    ("minus", "−"),
    ("lessequal", "≤"),
    ("greaterequal", "≥"),
    ("notequal", "≠"),
    ("infinity", "∞"),
    ("summation", "∑"),
    ("product", "∏"),
    ("integral", "∫"),
    ("radical", "√"),
    ("partialdiff", "∂"),
    ("approxequal", "≈"),
    ("arrowright", "→"),
    ("arrowleft", "←"),
    ("ff", "ff"),
    ("fi", "fi"),
    ("fl", "fl"),
    ("ffi", "ffi"),
    ("ffl", "ffl"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("epsilon", "ε"),
    ("lambda", "λ"),
    ("pi", "π"),
    ("sigma", "σ"),
    ("tau", "τ"),
    ("phi", "φ"),
    ("omega", "ω"),
    ("theta", "θ"),
    ("Gamma", "Γ"),
    ("Delta", "Δ"),
    ("Sigma", "Σ"),
    ("Omega", "Ω"),
    ("Phi", "Φ"),
    ("Pi", "Π"),
];

/// None: it shows nothing, or nobody knows what.
pub(super) fn shown(name: &[u8]) -> Option<String> {
    let name = str::from_utf8(name).ok()?;
    // `a.alt` is an `a`.
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    if name.len() == 1 {
        return Some(name.to_owned());
    }
    if let Some((_, text)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some((*text).to_owned());
    }
    for (accent, mark) in ACCENTS {
        if let Some(letter) = name.strip_suffix(accent).filter(|letter| letter.len() == 1) {
            let letter = letter.to_owned() + mark.encode_utf8(&mut [0; 4]);
            return Some(ComposingNormalizerBorrowed::new_nfc().normalize(&letter).into_owned());
        }
    }
    let number = name.strip_prefix("uni").or_else(|| name.strip_prefix('u'))?;
    let number =
        number.get(..number.len().min(6).min(if name.starts_with("uni") { 4 } else { 6 }))?;
    let shown = char::from_u32(u32::from_str_radix(number, 16).ok()?)?;
    Some(unligated(shown.encode_utf8(&mut [0; 4])))
}

/// Letters that are set as one are searched for as several.
pub(super) fn unligated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'ﬀ' => out.push_str("ff"),
            'ﬁ' => out.push_str("fi"),
            'ﬂ' => out.push_str("fl"),
            'ﬃ' => out.push_str("ffi"),
            'ﬄ' => out.push_str("ffl"),
            'ﬅ' | 'ﬆ' => out.push_str("st"),
            '\0' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_their_characters() {
        for (name, text) in [
            ("A", "A"),
            ("eacute", "é"),
            ("Scaron", "Š"),
            ("uni20AC", "€"),
            ("u1F600", "😀"),
            ("fi", "fi"),
            ("uniFB03", "ffi"),
            ("one.oldstyle", "1"),
        ] {
            assert_eq!(shown(name.as_bytes()).as_deref(), Some(text), "{name}");
        }
        for name in ["", ".notdef", "g123x", "uniZZZZ", "\u{fffd}"] {
            assert_eq!(shown(name.as_bytes()), None, "{name}");
        }
    }
}
