//! The compression function of MD5 (RFC 1321, 3.4) for several streams side by side.
//!
//! Arrays of one word per stream, in loops of fixed length: the compiler makes vector instructions
//! of them on every machine, without any that only some processors have.

#![expect(
    clippy::inline_always,
    reason = "a step that is called instead takes its vectors through memory"
)]

use super::BLOCK;

/// Streams that are worked on side by side: a vector register of the smallest x86-64 and of
/// aarch64. Twice as many do not fit into the registers that both have.
pub(super) const LANES: usize = 4;

/// A word of each stream.
type Words<const L: usize> = [u32; L];

/// `floor(2^32 * abs(sin(i + 1)))`.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];
/// By how much the four steps of each round rotate.
const ROTATIONS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

/// Hashes the blocks of one stream; `bytes` are whole blocks.
pub(super) fn one(state: &mut [u32; 4], bytes: &[u8]) {
    let mut words = state.map(|word| [word]);
    compress(&mut words, [bytes]);
    *state = words.map(|[word]| word);
}

/// Hashes as many blocks of each stream as the shortest has.
pub(super) fn side_by_side(states: &mut [[u32; 4]; LANES], bytes: [&[u8]; LANES]) {
    let mut words = std::array::from_fn(|word| std::array::from_fn(|lane| states[lane][word]));
    compress(&mut words, bytes);
    for (lane, state) in states.iter_mut().enumerate() {
        *state = std::array::from_fn(|word| words[word][lane]);
    }
}

fn compress<const L: usize>(state: &mut [Words<L>; 4], bytes: [&[u8]; L]) {
    let streams = bytes.map(|bytes| bytes.as_chunks::<BLOCK>().0);
    let blocks = streams.iter().map(|blocks| blocks.len()).min();
    for number in 0..blocks.unwrap_or(0) {
        let message = transposed(streams.map(|blocks| &blocks[number]));
        let before = *state;
        round::<L, 0>(state, &message);
        round::<L, 1>(state, &message);
        round::<L, 2>(state, &message);
        round::<L, 3>(state, &message);
        for (now, before) in state.iter_mut().zip(before) {
            *now = each(|lane| now[lane].wrapping_add(before[lane]));
        }
    }
}

/// Word by word what the blocks hold stream by stream.
#[inline(always)]
fn transposed<const L: usize>(blocks: [&[u8; BLOCK]; L]) -> [Words<L>; 16] {
    let mut message = [[0; L]; 16];
    // Four words of each at a time: what a vector register holds.
    for quarter in 0..4 {
        let rows: [[u32; 4]; L] = each_of(|lane| {
            let (words, _) = blocks[lane][quarter * 16..][..16].as_chunks::<4>();
            each_of(|word| u32::from_le_bytes(words[word]))
        });
        for word in 0..4 {
            message[quarter * 4 + word] = each(|lane| rows[lane][word]);
        }
    }
    message
}

#[inline(always)]
fn round<const L: usize, const R: usize>(state: &mut [Words<L>; 4], message: &[Words<L>; 16]) {
    let [mut a, mut b, mut c, mut d] = *state;
    let word = |step: usize| match R {
        0 => step,
        1 => (5 * step + 1) % 16,
        2 => (3 * step + 5) % 16,
        _ => (7 * step) % 16,
    };
    let [s0, s1, s2, s3] = ROTATIONS[R];
    for four in 0..4 {
        let at = four * 4;
        let sine = |step| SINES[R * 16 + step];
        a = step::<L, R>([a, b, c, d], &message[word(at)], sine(at), s0);
        d = step::<L, R>([d, a, b, c], &message[word(at + 1)], sine(at + 1), s1);
        c = step::<L, R>([c, d, a, b], &message[word(at + 2)], sine(at + 2), s2);
        b = step::<L, R>([b, c, d, a], &message[word(at + 3)], sine(at + 3), s3);
    }
    *state = [a, b, c, d];
}

#[inline(always)]
fn step<const L: usize, const R: usize>(
    [a, b, c, d]: [Words<L>; 4],
    message: &Words<L>,
    sine: u32,
    rotation: u32,
) -> Words<L> {
    each(|lane| {
        let (b, c, d) = (b[lane], c[lane], d[lane]);
        let mixed = match R {
            0 => d ^ (b & (c ^ d)),
            // One operation more, of which only one waits for `b`: faster where nothing else is to do.
            1 if L == 1 => (c & !d).wrapping_add(b & d),
            1 => c ^ (d & (b ^ c)),
            2 => b ^ c ^ d,
            _ => c ^ (b | !d),
        };
        a[lane]
            .wrapping_add(mixed)
            .wrapping_add(message[lane])
            .wrapping_add(sine)
            .rotate_left(rotation)
            .wrapping_add(b)
    })
}

/// A word for each stream.
#[inline(always)]
fn each<const L: usize>(word: impl Fn(usize) -> u32) -> Words<L> {
    each_of(word)
}

/// As `std::array::from_fn`, as a loop that is unrolled before it is made vectors of.
#[inline(always)]
fn each_of<T: Copy + Default, const N: usize>(value: impl Fn(usize) -> T) -> [T; N] {
    let mut values = [T::default(); N];
    for (at, to) in values.iter_mut().enumerate() {
        *to = value(at);
    }
    values
}
