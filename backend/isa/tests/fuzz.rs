//! Random words through every family's decoder: never a panic, and never a length that is not whole words.
//!
//! Two million words of each instruction set, ten million with `ROCFIRE_TEST_FULL=1`. Seeds are fixed, so that a failure
//! comes back; its words are in the message.

mod common;

use common::Random;
use rocfire_arch::Arch;
use rocfire_isa::{DecodeError, WaveSize, decode_dual, disassemble_dual};

const FULL: &str = "ROCFIRE_TEST_FULL";
const WORDS: u64 = 2_000_000;
const WORDS_FULL: u64 = 10_000_000;
/// What is printed costs twenty times what is decoded: one in so many.
const PRINTED: u64 = 16;

fn fuzz(name: &str, wave: WaveSize) {
    let arch = Arch::parse(name).unwrap();
    let count = if std::env::var_os(FULL).is_some() { WORDS_FULL } else { WORDS };
    let mut random = Random::new(arch.row() as u64 * 2 + u64::from(wave == WaveSize::Wave64));
    let (mut decoded, mut lengths) = (0u64, [0u64; 5]);
    let began = std::time::Instant::now();
    for n in 0..count {
        let words = random.words();
        let mut bytes = [0; 16];
        bytes.chunks_mut(4).zip(words).for_each(|(four, word)| four.copy_from_slice(&word.to_le_bytes()));
        // A panic names the test; this names the words.
        let guard = Words(words);
        match decode_dual(arch, wave, &bytes) {
            Ok(inst) => {
                let length = usize::from(inst.bytes());
                assert!(length.is_multiple_of(4) && (4..=16).contains(&length), "{words:08x?}: {length} bytes");
                decoded += 1;
                lengths[length / 4] += 1;
                if n % PRINTED == 0 {
                    assert!(!disassemble_dual(arch, &inst).is_empty(), "{words:08x?}");
                    assert_eq!(decode_dual(arch, wave, &bytes[..length]), Ok(inst), "{words:08x?} looked further");
                    let short = decode_dual(arch, wave, &bytes[..length - 1]);
                    assert!(matches!(short, Err(DecodeError::Truncated { .. })), "{words:08x?} cut short: {short:?}");
                }
            }
            Err(DecodeError::Invalid { .. }) => {}
            Err(other) => panic!("{words:08x?}: four words cannot be {other}"),
        }
        std::mem::forget(guard);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{name} {wave:?}: {count} words, {decoded} decode, by length {:?}, {seconds:.1} s", &lengths[1..]);
    assert!(decoded > count / 20, "only {decoded} of {count} decode");
}

/// Says which words were being decoded if decoding panics.
struct Words([u32; 4]);

impl Drop for Words {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while decoding {:08x?}", self.0);
        }
    }
}

macro_rules! families {
    ($($test:ident: $name:literal $wave:ident;)*) => {$(
        #[test]
        fn $test() {
            fuzz($name, WaveSize::$wave);
        }
    )*};
}
families! {
    gcn_5: "gfx906" Wave64;
    cdna_1: "gfx908" Wave64;
    cdna_2: "gfx90a" Wave64;
    cdna_3: "gfx942" Wave64;
    cdna_4: "gfx950" Wave64;
    rdna_1: "gfx1010" Wave32;
    rdna_1_with_dot_products: "gfx1012" Wave32;
    rdna_2: "gfx1030" Wave32;
    rdna_2_wave64: "gfx1030" Wave64;
    rdna_3: "gfx1100" Wave32;
    rdna_3_wave64: "gfx1100" Wave64;
    rdna_35: "gfx1150" Wave32;
    rdna_4: "gfx1201" Wave32;
    rdna_4_wave64: "gfx1201" Wave64;
}
