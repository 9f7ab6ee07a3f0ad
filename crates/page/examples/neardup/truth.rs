//! Texts of which is known what copies what, and how many of the copies are found.
//!
//! Each round takes every source text once: as it is, then as a copy by one of the families, which
//! take turns; and texts that must not be taken for copies, of the same sites, stand between. The
//! held-out half has other sources, other templates and advertisements, and other kinds of edits.

use std::collections::BTreeMap;

use lycosa_page::fingerprint::{NearIndex, Prints};

use crate::Chance;
use crate::sources::Text;

/// What was done to a text. The first four are edits at random places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Family {
    Edits1,
    Edits2,
    Edits5,
    Edits10,
    /// Advertisements between the paragraphs, and another date.
    AdsAndDate,
    /// The same text under the header and footer of another site, up to a sixth of it.
    OtherTemplate,
    /// The last tenth to fifth is missing.
    Truncated,
    /// Case, white space, ways to write a character.
    Form,
}

const FAMILIES: [Family; 8] = [
    Family::Edits1,
    Family::Edits2,
    Family::Edits5,
    Family::Edits10,
    Family::AdsAndDate,
    Family::OtherTemplate,
    Family::Truncated,
    Family::Form,
];

const ROUNDS: usize = 8;

pub fn run(texts: &[Text]) {
    for held_out in [false, true] {
        let half: Vec<&Text> = texts.iter().filter(|text| text.held_out == held_out).collect();
        let half = without_real_copies(&half);
        let name = if held_out { "held out" } else { "development" };
        let mut tally = Tally::default();
        for round in 0..ROUNDS {
            judge_round(&half, round, held_out, &mut tally);
        }
        println!("── {name}: {} different texts, {ROUNDS} rounds", half.len());
        tally.print();
    }
}

/// Real pages hold copies of each other already, which nobody has marked. Whoever shares half of its
/// runs of four words with an earlier text is left out; counted exactly, not by prints.
fn without_real_copies<'a>(texts: &[&'a Text]) -> Vec<&'a Text> {
    let mut kept: Vec<(&Text, Vec<&[String]>)> = Vec::new();
    for text in texts {
        let mut runs: Vec<&[String]> = text.words.windows(4).collect();
        runs.sort();
        runs.dedup();
        let is_copy = kept.iter().any(|(_, others)| {
            let common = runs.iter().filter(|run| others.binary_search(run).is_ok()).count();
            2 * common > runs.len().min(others.len())
        });
        if !is_copy {
            kept.push((text, runs));
        }
    }
    kept.into_iter().map(|(text, _)| text).collect()
}

#[derive(Default)]
struct Count {
    all: usize,
    found: usize,
    by_simhash: usize,
    by_bands: usize,
    distance: usize,
}

#[derive(Default)]
struct Tally {
    families: BTreeMap<Family, Count>,
    said: usize,
    said_rightly: usize,
    strangers: usize,
    wrong_templates: usize,
}

impl Tally {
    fn print(&self) {
        println!("family           copies   found   SimHash alone   bands alone   bits, mean");
        for (family, count) in &self.families {
            let share = |part: usize| part as f64 / count.all as f64;
            println!(
                "{:<16} {:>6}  {:.4}          {:.4}        {:.4}         {:4.1}",
                format!("{family:?}"),
                count.all,
                share(count.found),
                share(count.by_simhash),
                share(count.by_bands),
                share(count.distance)
            );
        }
        let within = |family: &&Family| **family != Family::Edits10;
        let (all, found) =
            self.families.keys().filter(within).fold((0, 0), |(all, found), family| {
                let count = &self.families[family];
                (all + count.all, found + count.found)
            });
        println!("recall without 10 % edits    {:.4} of {all}", found as f64 / all as f64);
        println!(
            "precision                    {:.4} of {} verdicts; {} texts that copy nothing, {} of the wrong ones by template\n",
            self.said_rightly as f64 / self.said as f64,
            self.said,
            self.strangers,
            self.wrong_templates
        );
    }
}

/// A document of a round: whose it is, and by which family, if it is a copy.
struct Document {
    words: Vec<String>,
    group: usize,
    family: Option<Family>,
}

fn judge_round(texts: &[&Text], round: usize, held_out: bool, tally: &mut Tally) {
    let mut maker = Maker { chance: Chance::new(100 + round as u64), held_out, texts };
    let mut documents = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        let family = FAMILIES[(n + round) % FAMILIES.len()];
        let (original, copy) = maker.pair(&text.words, family);
        documents.push(Document { words: original, group: 3 * n, family: None });
        documents.push(Document { words: copy, group: 3 * n, family: Some(family) });
        for (part, words) in maker.same_site(&text.words).into_iter().enumerate() {
            documents.push(Document { words, group: 3 * n + 1 + part, family: None });
        }
    }
    let mut index = NearIndex::new(1 << 20);
    let mut added: Vec<(usize, Prints)> = Vec::new();
    let mut originals: BTreeMap<usize, usize> = BTreeMap::new();
    for document in &documents {
        let prints = Prints::of(&document.words.join(" "));
        let (copy, number) = index.judge(&prints);
        let right = copy.is_some_and(|copy| added[copy.of as usize].0 == document.group);
        if copy.is_some() {
            tally.said += 1;
            // The parts of one site are not copies of its whole text: they stand in its template.
            tally.said_rightly += usize::from(right && document.family.is_some());
            tally.wrong_templates += usize::from(document.group % 3 != 0);
        }
        match document.family {
            Some(family) => {
                let original = &added[originals[&document.group]].1;
                let count = tally.families.entry(family).or_default();
                let distance = original.simhash.distance(prints.simhash);
                count.all += 1;
                count.found += usize::from(right);
                count.by_simhash += usize::from(distance <= 3);
                count.by_bands += usize::from(original.sketch.shares_band(&prints.sketch));
                count.distance += distance as usize;
            }
            None => tally.strangers += 1,
        }
        if number.is_some() {
            originals.entry(document.group).or_insert(added.len());
            added.push((document.group, prints));
        } else if document.family.is_none() {
            // Two sources that are equal after all; the group is that of the first.
            let of = copy.expect("what adds nothing equals something").of as usize;
            originals.insert(document.group, of);
        }
    }
}

struct Maker<'a> {
    chance: Chance,
    held_out: bool,
    texts: &'a [&'a Text],
}

impl Maker<'_> {
    /// A text as one site shows it, and its copy.
    fn pair(&mut self, words: &[String], family: Family) -> (Vec<String>, Vec<String>) {
        let copy = match family {
            Family::Edits1 => self.edited(words, 1),
            Family::Edits2 => self.edited(words, 2),
            Family::Edits5 => self.edited(words, 5),
            Family::Edits10 => self.edited(words, 10),
            Family::AdsAndDate => {
                let original = self.with_ads(words, 1);
                return (original, self.with_ads(words, 2));
            }
            Family::OtherTemplate => {
                let share = words.len() / 12;
                let (one, other) = (self.template(share), self.template(share));
                return (framed(&one, words), framed(&other, words));
            }
            Family::Truncated => {
                let percent = self.chance.between(80, 90);
                words[..words.len() * percent / 100].to_vec()
            }
            Family::Form => {
                let mut copy: Vec<_> =
                    words.iter().map(|word| word.to_uppercase().to_lowercase()).collect();
                copy.insert(copy.len() / 2, "\u{200b}\n".to_owned());
                copy
            }
        };
        (words.to_vec(), copy)
    }

    /// So many per cent of the words changed. For development they are replaced; held out, they are
    /// replaced, left out, doubled with a new one, or exchanged with their neighbour.
    fn edited(&mut self, words: &[String], percent: usize) -> Vec<String> {
        let mut out = words.to_vec();
        let edits = (words.len() * percent).div_ceil(100);
        for _ in 0..edits {
            let at = self.chance.below(out.len());
            let new = self.other_word();
            match if self.held_out { self.chance.below(4) } else { 0 } {
                0 => out[at] = new,
                1 => drop(out.remove(at)),
                2 => out.insert(at, new),
                _ => {
                    let next = (at + 1) % out.len();
                    out.swap(at, next);
                }
            }
        }
        out
    }

    fn other_word(&mut self) -> String {
        let text = self.texts[self.chance.below(self.texts.len())];
        text.words[self.chance.below(text.words.len())].clone()
    }

    /// A date on top and up to `most` advertisements, a twentieth of the text each at most.
    fn with_ads(&mut self, words: &[String], most: usize) -> Vec<String> {
        let mut out = words.to_vec();
        for _ in 0..self.chance.between(1, most) {
            let length = self.chance.between(3, (words.len() / 20).clamp(4, 25));
            let at = self.chance.below(out.len());
            let ad = self.phrase(length);
            out.splice(at..at, ad);
        }
        let (day, year) = (self.chance.between(1, 28), self.chance.between(2005, 2026));
        let date = match self.held_out {
            false => format!("{day} March {year}"),
            true => format!("Updated: {year}-07-{day:02} 12:{day:02}"),
        };
        out.splice(0..0, date.split(' ').map(str::to_owned));
        out
    }

    /// A piece of any text.
    fn phrase(&mut self, length: usize) -> Vec<String> {
        let text = self.texts[self.chance.below(self.texts.len())];
        let from = self.chance.below(text.words.len().saturating_sub(length));
        text.words.iter().skip(from).take(length).cloned().collect()
    }

    /// Header and footer of a site: short phrases, so many words in all.
    fn template(&mut self, words: usize) -> Vec<String> {
        let mut out = Vec::new();
        while out.len() < words {
            let length = if self.held_out { 2 } else { 3 };
            let phrase = self.phrase(length);
            out.extend(phrase);
        }
        out
    }

    /// Two pages of one site: the halves of a text, each in the same template, as long as a half.
    fn same_site(&mut self, words: &[String]) -> [Vec<String>; 2] {
        let (one, other) = words.split_at(words.len() / 2);
        let share = self.chance.between(one.len() / 4, one.len());
        let template = self.template(share);
        [framed(&template, one), framed(&template, other)]
    }
}

/// Half of the template above, half below.
fn framed(template: &[String], words: &[String]) -> Vec<String> {
    let (above, below) = template.split_at(template.len() / 2);
    [above, words, below].concat()
}
