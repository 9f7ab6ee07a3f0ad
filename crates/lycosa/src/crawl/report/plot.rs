//! How is a list of numbers drawn, so that it needs nothing but the page it stands on?
//!
//! As SVG in the page, coloured by the classes of its style sheet, so that it follows light and dark. Every
//! plot stands beside a table of the same numbers, so to a screen reader it is one picture with a name.
//!
//! Always: what was given as text comes out as text ([`escape`]).

use std::fmt::Write as _;

/// A bar or a column.
#[derive(Debug, Clone)]
pub struct Bar {
    pub label: String,
    pub value: u64,
    /// How the value is written.
    pub shown: String,
    /// A class of the style sheet.
    pub tone: &'static str,
}

impl Bar {
    pub fn new(label: impl Into<String>, value: u64) -> Self {
        Self { label: label.into(), value, shown: grouped(value), tone: "bar" }
    }
}

const WIDTH: f64 = 640.0;
/// Where bars begin; some 27 letters fit before it.
const BARS_X: f64 = 200.0;
const BARS_WIDTH: f64 = 350.0;
const ROW_HEIGHT: f64 = 24.0;
const LABEL_CHARS_MAX: usize = 28;
/// Bars of a plot at most. The table has the rest.
pub const BARS_MAX: usize = 12;

/// Bars from left to right, one below the other.
pub fn bars(name: &str, bars: &[Bar]) -> String {
    let bars = &bars[..bars.len().min(BARS_MAX)];
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let height = ROW_HEIGHT * bars.len() as f64 + 4.0;
    let mut out = open(name, height);
    for (n, bar) in bars.iter().enumerate() {
        let top = ROW_HEIGHT * n as f64;
        let width = BARS_WIDTH * bar.value as f64 / most as f64;
        // Whatever there is can be seen.
        let width = if bar.value > 0 { width.max(2.0) } else { 0.0 };
        let (label, shown) = (escape(&cut(&bar.label, LABEL_CHARS_MAX)), escape(&bar.shown));
        let (text_y, bar_y, height) = (top + 17.0, top + 4.0, ROW_HEIGHT - 6.0);
        let (label_x, shown_x) = (BARS_X - 8.0, BARS_X + width + 6.0);
        let tone = bar.tone;
        push(&mut out, format_args!("<text x=\"{label_x}\" y=\"{text_y}\" class=\"label end\">"));
        push(&mut out, format_args!("{label}</text>"));
        push(
            &mut out,
            format_args!(
                "<rect x=\"{BARS_X}\" y=\"{bar_y}\" width=\"{width:.1}\" height=\"{height}\" rx=\"2\" \
                 class=\"{tone}\"/>"
            ),
        );
        push(&mut out, format_args!("<text x=\"{shown_x:.1}\" y=\"{text_y}\" class=\"value\">"));
        push(&mut out, format_args!("{shown}</text>\n"));
    }
    out.push_str("</svg>\n");
    out
}

const COLUMNS_HEIGHT: f64 = 180.0;
const COLUMNS_TOP: f64 = 18.0;
const COLUMNS_X: f64 = 64.0;
/// Room for a letter. Where not every column has room for its label, the first, the middle and the last have.
const LETTER_WIDTH: f64 = 7.0;

/// Columns from bottom to top, one beside the other.
pub fn columns(name: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
    let bottom = COLUMNS_TOP + COLUMNS_HEIGHT;
    let mut out = open(name, bottom + 26.0);
    let room = WIDTH - COLUMNS_X;
    let step = room / bars.len().max(1) as f64;
    let fits = bars.iter().all(|bar| bar.label.chars().count() as f64 * LETTER_WIDTH <= step);
    let gap = (step * 0.2).clamp(0.5, 4.0);
    for (share, value) in [(0.0, 0), (0.5, most / 2), (1.0, most)] {
        if share == 0.5 && most < 2 {
            continue;
        }
        let y = bottom - COLUMNS_HEIGHT * value as f64 / most as f64;
        let (text_x, text_y, value) = (COLUMNS_X - 8.0, y + 4.0, grouped(value));
        push(
            &mut out,
            format_args!(
                "<line x1=\"{COLUMNS_X}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>\
                 <text x=\"{text_x}\" y=\"{text_y:.1}\" class=\"label end\">{value}</text>\n"
            ),
        );
    }
    for (n, bar) in bars.iter().enumerate() {
        let x = COLUMNS_X + step * n as f64;
        let height = COLUMNS_HEIGHT * bar.value as f64 / most as f64;
        let height = if bar.value > 0 { height.max(1.5) } else { 0.0 };
        let (left, top, width) = (x + gap / 2.0, bottom - height, step - gap);
        let (label, shown) = (escape(&bar.label), escape(&bar.shown));
        push(
            &mut out,
            format_args!(
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                 class=\"{}\"><title>{label}: {shown}</title></rect>\n",
                bar.tone
            ),
        );
        let last = bars.len() - 1;
        let (x, class) = match n {
            _ if fits => (x + step / 2.0, "label middle"),
            0 => (x, "label"),
            _ if n == last => (x + step, "label end"),
            _ if n == last / 2 => (x + step / 2.0, "label middle"),
            _ => continue,
        };
        let y = bottom + 18.0;
        push(
            &mut out,
            format_args!("<text x=\"{x:.1}\" y=\"{y}\" class=\"{class}\">{label}</text>\n"),
        );
    }
    out.push_str("</svg>\n");
    out
}

fn open(name: &str, height: f64) -> String {
    let name = escape(name);
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{name}\">\n")
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes every write");
}

/// Text as HTML text or as a quoted attribute, whoever wrote it.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A control character has no look; one that turns the direction of what follows has too much.
            _ if letter.is_control() || is_direction(letter) => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

const fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most so many letters.
pub fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_wrote_is_text() {
        let evil = "</text><script>alert('1')</script>\" onload=\"x\u{202e}\n&";
        let bar = Bar { shown: evil.to_owned(), ..Bar::new(evil, 1) };
        for svg in [bars(evil, std::slice::from_ref(&bar)), columns(evil, &[bar])] {
            assert!(!svg.contains("<script") && !svg.contains("\" onload"), "{svg}");
            assert!(!svg.contains('\u{202e}') && svg.contains("&lt;script&gt;"), "{svg}");
        }
    }

    #[test]
    fn plots_of_nothing_and_of_much_have_no_broken_numbers() {
        let many: Vec<Bar> =
            (0..120).map(|n| Bar::new(n.to_string(), u64::MAX / 3 * (n % 4))).collect();
        for some in [&[][..], &[Bar::new("a", 0)], &many] {
            for svg in [bars("x", some), columns("x", some)] {
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
        assert_eq!(bars("x", &many).matches("<rect").count(), BARS_MAX);
    }

    #[test]
    fn numbers_are_grouped_and_names_are_cut() {
        let shown: Vec<String> = [0, 999, 1_000, 1_234_567].map(grouped).to_vec();
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((cut("abc", 3), cut("äöüß", 3)), ("abc".to_owned(), "äö…".to_owned()));
    }
}
