//! Every coding comes back, and what is broken is kept as far as it goes.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

/// Decodes with steps of the given sizes; what came out, and whether it was the whole.
fn decode(codings: &[Coding], input: &[u8], in_max: usize, out_max: usize) -> (Vec<u8>, bool) {
    let mut decoding = Decoding::new(codings, &input[..input.len().min(4)], 64 << 20);
    let (mut rest, mut out) = (input, Vec::new());
    loop {
        let mut window = vec![0; out_max];
        let step = decoding.step(&rest[..rest.len().min(in_max)], &mut window);
        out.extend_from_slice(&window[..step.written]);
        rest = &rest[step.read..];
        let stuck = step.bytes() == 0;
        match step.state {
            State::Done => return (out, true),
            State::Broken => return (out, false),
            State::Pause if stuck || rest.is_empty() && step.written == 0 => {
                return (out, true);
            }
            State::More if stuck => return (out, false),
            _ => {}
        }
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn raw(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(plain, 3).unwrap()
}

/// Text that compresses, but not to nothing.
fn text() -> Vec<u8> {
    let words = ["wolf", "spider", "walks", "out", "and", "does", "not", "wait"];
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as usize
    };
    (0..80_000).flat_map(|_| words[random() % 8].bytes().chain(*b" ")).collect()
}

#[test]
fn every_coding_comes_back_whatever_the_size_of_the_steps() {
    let plain = text()[..20_000].to_vec();
    let cases: [(&[Coding], Vec<u8>); 7] = [
        (&[Coding::Gzip], gzip(&plain)),
        (&[Coding::Deflate], zlib(&plain)),
        (&[Coding::Deflate], raw(&plain)),
        (&[Coding::Zstd], zstd(&plain)),
        (&[Coding::Gzip, Coding::Gzip], gzip(&gzip(&plain))),
        (&[Coding::Deflate, Coding::Zstd], zstd(&zlib(&plain))),
        (&[Coding::Zstd, Coding::Gzip], gzip(&zstd(&plain))),
    ];
    for (codings, coded) in &cases {
        for (in_max, out_max) in [(usize::MAX, 1 << 20), (1000, 777), (1, 100), (50_000, 7)] {
            let (out, whole) = decode(codings, coded, in_max, out_max);
            assert!(whole, "{codings:?} {in_max} {out_max}");
            assert!(out == plain, "{codings:?} {in_max} {out_max}");
        }
    }
}

#[test]
fn a_broken_stream_keeps_what_was_decoded() {
    let plain = text();
    let cases: [(&[Coding], Vec<u8>); 5] = [
        (&[Coding::Gzip], gzip(&plain)),
        (&[Coding::Deflate], zlib(&plain)),
        (&[Coding::Deflate], raw(&plain)),
        (&[Coding::Zstd], zstd(&plain)),
        (&[Coding::Zstd, Coding::Gzip], gzip(&zstd(&plain))),
    ];
    for (codings, mut coded) in cases {
        let cut = coded.len() * 3 / 4;
        let (out, whole) = decode(codings, &coded[..cut], 4096, 4096);
        assert!(!whole && plain.starts_with(&out), "{codings:?} cut");
        assert!(out.len() > plain.len() / 4, "{codings:?} cut: {}", out.len());
        for byte in &mut coded[cut..] {
            *byte = 0xff;
        }
        let (out, _) = decode(codings, &coded, 4096, 4096);
        assert!(out.len() > plain.len() / 4, "{codings:?} damaged: {}", out.len());
    }
}

#[test]
fn members_and_frames_follow_each_other_and_garbage_behind_them_means_nothing() {
    for in_max in [1, 7, usize::MAX] {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(decode(&[Coding::Gzip], &two, in_max, 9), (b"one two".to_vec(), true));
        let two = [zstd(b"one "), zstd(b"two")].concat();
        assert_eq!(decode(&[Coding::Zstd], &two, in_max, 9), (b"one two".to_vec(), true));
        for garbage in [&b"\0\0\0\0"[..], b"garbage"] {
            let coded = [&gzip(b"one"), garbage].concat();
            assert_eq!(decode(&[Coding::Gzip], &coded, in_max, 9), (b"one".to_vec(), true));
            let coded = [&zlib(b"one"), garbage].concat();
            assert_eq!(decode(&[Coding::Deflate], &coded, in_max, 9), (b"one".to_vec(), true));
            let coded = [&zstd(b"one"), garbage].concat();
            assert_eq!(decode(&[Coding::Zstd], &coded, in_max, 9), (b"one".to_vec(), true));
        }
    }
    let many = gzip(b"x").repeat(GZIP_MEMBERS_MAX + 10);
    assert_eq!(decode(&[Coding::Gzip], &many, 999, 9).0.len(), GZIP_MEMBERS_MAX);
}

#[test]
fn brotli_is_understood() {
    // By hand from RFC 7932: one meta-block, not compressed, then the empty last one.
    let coded = [&[0xa0, 0x00, 0x10][..], b"wolf spider", &[0x03]].concat();
    assert_eq!(decode(&[Coding::Brotli], &coded, 3, 4), (b"wolf spider".to_vec(), true));
    assert!(!decode(&[Coding::Brotli], &coded[..9], 3, 4).1);
    let coded = include_bytes!("../../tests/fixtures/text.br");
    let text = b"wolf spider walks out ".repeat(2000);
    assert!(decode(&[Coding::Brotli], coded, 3, 1000) == (text, true));
    // The mark of a large window, which only an extension of the format knows.
    assert_eq!(decode(&[Coding::Brotli], &[0x11, 0x1e, 0, 0, 0], 9, 9), (vec![], false));
}

#[test]
fn a_zstd_window_beyond_eight_mebibytes_is_refused() {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&text()).unwrap();
    let coded = encoder.finish().unwrap();
    assert_eq!(decode(&[Coding::Zstd], &coded, 4096, 4096), (vec![], false));
}

#[test]
fn names_of_codings() {
    assert_eq!(Coding::of(b" GZip "), Some(Coding::Gzip));
    assert_eq!(Coding::of(b"x-gzip"), Some(Coding::Gzip));
    assert_eq!(Coding::of(b"br"), Some(Coding::Brotli));
    for plain in [&b"identity"[..], b"utf-8", b"none", b""] {
        assert_eq!(Coding::of(plain), None);
    }
    assert!(!Coding::Gzip.fits(b"<html>") && Coding::Gzip.fits(&gzip(b"x")));
    assert!(!Coding::Zstd.fits(b"<html>") && Coding::Zstd.fits(&zstd(b"x")));
}
