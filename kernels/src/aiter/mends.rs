//! Code objects whose waits are one short, and what their waits are to be.
//!
//! A wave that reads a register before the `s_waitcnt` for the load that fills it has what was there before, if the load is late. On
//! an emulated device loads are never late, so that results are right; its check of waits finds such reads. A kernel of which this is
//! all that is wrong is launched with the wait that it lacks: other words of the file stay as they are.
//!
//! `pa_bf16_noquant_gqa8_1tg_4w`: in each of the four copies of the main loop the wait before the values' products leaves 24 loads
//! under way. That holds for what is multiplied; the load of the page numbers that are used behind the products is the 24th from the last. The
//! wait leaves 23.

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
const VMCNT: [u32; 2] = [0xbf8c_4f78, 0xbf8c_4f77];

const MENDS: [Mend; 2] = [
    Mend {
        hash: "77a2b0be620169129d91777e189e77ba0cb6a022dc20a4ef38c84bc5976d09b4",
        at: &[0x1e70, 0x2648, 0x2e30, 0x3608],
        words: VMCNT,
    },
    Mend {
        hash: "220b8ccfc2a9dfb98c1494c8dec2947743bb2403e986c44b3cfc91d1ace5a116",
        at: &[0x1e70, 0x2648, 0x2e30, 0x3608],
        words: VMCNT,
    },
];

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
        let other = VMCNT[0].to_le_bytes().repeat(4000);
        assert!(matches!(mended(&other), Cow::Borrowed(code) if code == other));
    }

    #[test]
    fn a_wait_becomes_one_of_a_load_less() {
        // The counter has four bits at the word's end and two at 14.
        let loads = |word: u32| (word & 15) | (word >> 14 & 3) << 4;
        assert_eq!(VMCNT.map(loads), [24, 23]);
        assert_eq!((VMCNT[0] ^ VMCNT[1]) & !0xc00f, 0, "and nothing else");
    }
}
