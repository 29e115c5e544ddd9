//! Code objects whose waits are one short, and what their waits are to be.
//!
//! A wave that reads a register before the `s_waitcnt` for the load that fills it has what was there before, if the load is late. On
//! an emulated device loads are never late, so that results are right; its check of waits finds such reads. A kernel of which this is
//! all that is wrong is launched with the wait that it lacks: other words of the file stay as they are.
//!
//! `pa_bf16_noquant_gqa8_1tg_4w`: in each of the four copies of the main loop the wait before the values' products leaves 24 loads
//! under way. That holds for what is multiplied; the load of the page numbers that are used behind the products is the 24th from the last. The
//! wait leaves 23.
//!
//! `mla_dec_stage1_bf16_a16w16_subQ16_mqa16`: in each of the four copies of the second half of the main loop the wait before the last
//! barrier leaves eight accesses of LDS under way. Four of them are stores of keys that other waves read behind it, the last four are a
//! wave's own loads. The wait leaves these.
//!
//! `mla_dec_stage1_bf16_a16w16_subQ128_mqa128`: the wait before the main loop leaves 19 loads under way, of which the first is that of the
//! numbers that the loop begins with. The wait leaves 18.

use std::borrow::Cow;

/// What is changed of a file.
struct Mend {
    /// BLAKE3 of the file.
    hash: &'static str,
    /// Where in it the words are, bytes.
    at: &'static [usize],
    /// The instruction there, and what it becomes.
    words: [u32; 2],
}

/// `s_waitcnt vmcnt(24)` and `s_waitcnt vmcnt(23)`.
const PAGES: [u32; 2] = [0xbf8c_4f78, 0xbf8c_4f77];
/// `s_waitcnt lgkmcnt(8)` and `s_waitcnt lgkmcnt(4)`.
const STORES: [u32; 2] = [0xbf8c_c87f, 0xbf8c_c47f];
/// `s_waitcnt vmcnt(19) lgkmcnt(0)` and `s_waitcnt vmcnt(18) lgkmcnt(0)`.
const NUMBERS: [u32; 2] = [0xbf8c_4073, 0xbf8c_4072];

/// Files of both architectures have the words in the same places.
const MENDS: [Mend; 6] = [
    Mend { hash: "77a2b0be620169129d91777e189e77ba0cb6a022dc20a4ef38c84bc5976d09b4", at: PAGES_AT, words: PAGES },
    Mend { hash: "220b8ccfc2a9dfb98c1494c8dec2947743bb2403e986c44b3cfc91d1ace5a116", at: PAGES_AT, words: PAGES },
    Mend { hash: "eaae4d333f2f13aef072da01dee5e1e372da06f962afb7f9c9de7cda1d537057", at: STORES_AT, words: STORES },
    Mend { hash: "bd311ae3152829fbd6882036d83c497ec8ede51ca00f2b3e1f1a659d5b03d937", at: STORES_AT, words: STORES },
    Mend { hash: "eb7f25d9bc6c634676f64d7a09c035eb3708ab163013eaa399bae7c150679156", at: NUMBERS_AT, words: NUMBERS },
    Mend { hash: "2c6ce8b4fe468b17e279bbd1423a5a571d50b3c3876337809af88d5f4c4704aa", at: NUMBERS_AT, words: NUMBERS },
];
const PAGES_AT: &[usize] = &[0x1e70, 0x2648, 0x2e30, 0x3608];
const STORES_AT: &[usize] = &[0x28d0, 0x34a4, 0x4008, 0x4bdc];
const NUMBERS_AT: &[usize] = &[0x2860];

/// A code object as it is loaded: with the waits that it lacks, if it is one of those.
pub fn mended(code: &[u8]) -> Cow<'_, [u8]> {
    let hash = blake3::hash(code);
    let Some(mend) = MENDS.iter().find(|mend| hash.to_hex().as_str() == mend.hash) else { return code.into() };
    let [was, is] = mend.words.map(u32::to_le_bytes);
    let mut code = code.to_vec();
    for &at in mend.at {
        let word = &mut code[at..at + was.len()];
        assert_eq!(word, was, "the file is known by its hash");
        word.copy_from_slice(&is);
    }
    code.into()
}

#[cfg(test)]
mod tests {
    use super::super::objects::known;
    use super::*;

    #[test]
    fn mends_are_of_listed_files_and_others_stay_as_they_are() {
        for mend in &MENDS {
            assert!(known().iter().any(|object| object.hash.to_hex().as_str() == mend.hash), "{}", mend.hash);
            assert!(mend.at.windows(2).all(|pair| pair[0] + size_of::<u32>() <= pair[1]), "words of their own");
        }
        let other = PAGES[0].to_le_bytes().repeat(4000);
        assert!(matches!(mended(&other), Cow::Borrowed(code) if code == other));
    }

    #[test]
    fn a_wait_becomes_one_that_leaves_less() {
        // The counter of loads has four bits at the word's end and two at 14, that of LDS four at 8.
        let loads = |word: u32| (word & 15) | (word >> 14 & 3) << 4;
        assert_eq!((PAGES.map(loads), NUMBERS.map(loads)), ([24, 23], [19, 18]));
        assert_eq!(STORES.map(|word| word >> 8 & 15), [8, 4]);
        for (words, counter) in [(PAGES, 0xc00f), (NUMBERS, 0xc00f), (STORES, 0xf00)] {
            assert_eq!((words[0] ^ words[1]) & !counter, 0, "and nothing else");
        }
    }
}
