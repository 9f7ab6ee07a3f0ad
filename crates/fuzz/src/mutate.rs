//! How does a good input become a bad one?
//!
//! By a few small changes, one after the other: bits, bytes, numbers, pieces that are taken out,
//! doubled, moved or repeated, lines (most of our formats are made of them), words that mean
//! something to the target, and pieces of another input.
//!
//! Always: an input never grows beyond its room, and what comes out follows from seed and pool.

use std::ops::Range;

use crate::chance::Chance;

/// What an input is made from.
#[derive(Debug)]
pub struct Material<'a> {
    /// Inputs that are worth a change; never empty.
    pub pool: &'a [Vec<u8>],
    /// What means something to the target.
    pub words: &'a [&'a [u8]],
    /// No input is longer.
    pub bytes_max: usize,
}

/// Writes a new input to `out`.
pub fn mutate(chance: &mut Chance, from: &Material<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&from.pool[chance.below(from.pool.len())]);
    for _ in 0..1 + chance.small(32) {
        change(chance, from, out);
        out.truncate(from.bytes_max);
    }
}

fn change(chance: &mut Chance, from: &Material<'_>, out: &mut Vec<u8>) {
    let at = chance.below(out.len() + 1);
    match chance.below(18) {
        0 => flip_bit(chance, out),
        1 => overwrite(out, at, &[odd_byte(chance)]),
        2 => insert(out, at, &[odd_byte(chance)]),
        3 | 4 => drop(out.drain(piece(chance, out))),
        5 => {
            let copy = out[piece(chance, out)].to_vec();
            insert(out, at, &copy);
        }
        6 => repeat(chance, from.bytes_max, out),
        7 => out.truncate(at),
        8 | 9 => insert(out, at, chance.pick(from.words).unwrap_or_default()),
        10 => overwrite(out, at, chance.pick(from.words).unwrap_or_default()),
        11 => insert_between_lines(chance, from.words, out),
        12 => swap_lines(chance, out),
        13 => {
            let lines = line(chance, out);
            drop(out.drain(lines));
        }
        14 => insert(out, at, &odd_number(chance)),
        15 => change_decimal(chance, out),
        way => {
            let other = &from.pool[chance.below(from.pool.len())];
            match way {
                16 => splice(chance, other, out),
                _ => insert(out, at, &other[piece(chance, other)]),
            }
        }
    }
}

fn flip_bit(chance: &mut Chance, out: &mut [u8]) {
    let at = chance.below(out.len());
    if let Some(byte) = out.get_mut(at) {
        *byte ^= 1 << chance.below(8);
    }
}

/// Bytes at which a parser may turn.
const ODD_BYTES: &[u8] =
    b"\0\x01\x09\n\r\x1f \"#$%&'*+,-./0179:;<=>?@AZ[\\]^_`az{|}~\x7f\x80\xbf\xc3\xe2\xef\xf0\xfe\xff";

fn odd_byte(chance: &mut Chance) -> u8 {
    match chance.one_in(4) {
        true => chance.next() as u8,
        false => ODD_BYTES[chance.below(ODD_BYTES.len())],
    }
}

/// Numbers at which arithmetic may turn.
const ODD_NUMBERS: &[u64] = &[
    0,
    1,
    2,
    9,
    10,
    16,
    80,
    127,
    128,
    255,
    256,
    443,
    512,
    1_000,
    4_096,
    32_767,
    32_768,
    65_535,
    65_536,
    2_147_483_647,
    2_147_483_648,
    4_294_967_295,
    4_294_967_296,
    9_007_199_254_740_993,
    9_223_372_036_854_775_807,
    9_223_372_036_854_775_808,
    u64::MAX,
];

/// One of them in one of the forms in which formats write numbers.
fn odd_number(chance: &mut Chance) -> Vec<u8> {
    let number = ODD_NUMBERS[chance.below(ODD_NUMBERS.len())];
    match chance.below(7) {
        0 => number.to_le_bytes()[..2].to_vec(),
        1 => number.to_le_bytes()[..4].to_vec(),
        2 => number.to_le_bytes().to_vec(),
        3 => number.to_be_bytes().to_vec(),
        4 => format!("{number:x}").into_bytes(),
        5 => varint(number),
        _ => number.to_string().into_bytes(),
    }
}

/// Seven bits a byte, the lowest first.
fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Writes another number where one stands.
fn change_decimal(chance: &mut Chance, out: &mut Vec<u8>) {
    let from = chance.below(out.len());
    let Some(start) = out[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else {
        return;
    };
    let len = out[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = ODD_NUMBERS[chance.below(ODD_NUMBERS.len())].to_string();
    out.splice(start..start + len, number.into_bytes());
}

fn insert(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at.min(out.len());
    out.splice(at..at, bytes.iter().copied());
}

fn overwrite(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at.min(out.len());
    let end = out.len().min(at + bytes.len());
    out.splice(at..end, bytes.iter().copied());
}

/// A short run, mostly.
fn piece(chance: &mut Chance, of: &[u8]) -> Range<usize> {
    let start = chance.below(of.len());
    start..start + chance.small(of.len() - start + 1)
}

/// The same a few times, or until there is no room: what is quadratic shows then.
fn repeat(chance: &mut Chance, bytes_max: usize, out: &mut Vec<u8>) {
    let piece = piece(chance, out);
    let room = bytes_max.saturating_sub(out.len());
    let most = room.checked_div(piece.len()).unwrap_or(0);
    let times = if chance.one_in(4) { most } else { chance.small(most + 1) };
    let copies = out[piece.clone()].repeat(times);
    insert(out, piece.end, &copies);
}

/// A whole line with its end.
fn line(chance: &mut Chance, of: &[u8]) -> Range<usize> {
    let at = chance.below(of.len());
    let start = of[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let end = of[start..].iter().position(|&byte| byte == b'\n');
    start..end.map_or(of.len(), |end| start + end + 1)
}

fn insert_between_lines(chance: &mut Chance, words: &[&[u8]], out: &mut Vec<u8>) {
    let at = line(chance, out).start;
    let word = chance.pick(words).unwrap_or_default();
    insert(out, at, &[word, b"\n"].concat());
}

fn swap_lines(chance: &mut Chance, out: &mut Vec<u8>) {
    let (one, other) = (line(chance, out), line(chance, out));
    let moved: Vec<u8> = out.drain(one).collect();
    insert(out, other.start, &moved);
}

/// The beginning of this one, the end of another.
fn splice(chance: &mut Chance, other: &[u8], out: &mut Vec<u8>) {
    out.truncate(chance.below(out.len() + 1));
    out.extend_from_slice(&other[chance.below(other.len() + 1)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(seed: u64, pool: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let from = Material { pool, words: &[b"word", b""], bytes_max: 200 };
        let mut chance = Chance::new(seed);
        let next = |_| {
            let mut out = Vec::new();
            mutate(&mut chance, &from, &mut out);
            out
        };
        (0..5_000).map(next).collect()
    }

    #[test]
    fn inputs_follow_from_the_seed_and_stay_in_their_room() {
        for pool in [vec![Vec::new()], vec![b"a: 17\nb: 2\n".to_vec(), b"x".repeat(300)]] {
            let made = inputs(7, &pool);
            assert_eq!(made, inputs(7, &pool));
            assert_ne!(made, inputs(8, &pool));
            assert!(made.iter().all(|input| input.len() <= 200));
        }
    }

    #[test]
    fn all_sorts_of_inputs_come_out() {
        let made = inputs(1, &[b"a: 17\nb: 2\n".to_vec()]);
        let has =
            |part: &[u8]| made.iter().any(|input| input.windows(part.len()).any(|w| w == part));
        assert!(has(b"word") && has(b"65536") && has(b"\xff\xff") && has(b"b: 2\na"));
        assert!(made.iter().any(|input| input.len() > 150) && made.iter().any(Vec::is_empty));
        assert_eq!(varint(300), [0xAC, 2]);
    }
}
