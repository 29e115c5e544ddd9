//! A case as a kernel in HIP: assembly that takes the wave's state from memory, runs the case's words and puts the state back.
//!
//! Between two instructions of a case that has no jumps stand idle slots and waits for memory: what an instruction does is tested,
//! not how soon its result may be read, which on a card is the compiler's to know.

use std::fmt::Write as _;

use rocfire_arch::Family;
use rocfire_emulator::filetest::{Case, FRESH, LDS_BYTES, Location, SCRATCH_BYTES, Target, place, value};

use crate::registers::{LAST_SCALAR, Named, scalars, vectors};
use crate::state;

/// Scalar registers that the wrapping takes, the address of the state in the first two: enough of them for a block that starts at
/// a multiple of 8.
const OWN_SCALARS: u16 = 8;
/// Vector registers that the wrapping takes.
const OWN_VECTORS: u16 = 3;

/// Instructions whose effect depends on where they stand.
const JUMPS: &[&str] =
    &["s_branch", "s_cbranch", "s_call", "s_getpc", "s_setpc", "s_swappc", "s_subvector", "s_clause"];
/// Instructions whose results are in the scalar cache until it is written back.
const SCALAR_STORES: &[&str] = &["s_store", "s_buffer_store", "s_atomic", "s_buffer_atomic", "s_scratch_store"];
/// What a case may not do on a card, and why.
const NOT_THERE: &[(&str, &str)] = &[
    ("ttmp", "it reads registers of the trap handler, which are the driver's on a card"),
    ("s_sendmsg", "it sends a message to the host, or gives its registers back"),
    ("s_endpgm", "it ends in its midst, and nothing puts its state to memory"),
    ("s_trap", "it calls the trap handler"),
    ("hwreg(HW_REG_SH_MEM", "the apertures are the card's own"),
    ("hwreg(HW_REG_STATUS", "it reads what only this wave's place on the card says"),
    ("hwreg(HW_REG_HW_ID", "it reads what only this wave's place on the card says"),
    ("hwreg(HW_REG_WAVE_HW_ID", "it reads what only this wave's place on the card says"),
    ("hwreg(HW_REG_FLAT_SCR", "it reads where the driver has put the wave's private memory"),
    ("hwreg(HW_REG_SHADER_CYCLES", "it reads the card's clock"),
    ("s_memtime", "it reads the card's clock"),
    ("s_memrealtime", "it reads the card's clock"),
];

/// In the last dword of a buffer's descriptor: an address goes by the lane's number too, as in the one that a driver makes for scratch.
const ADD_LANE: u64 = 1 << 23;

/// Why a case is for the emulator alone.
fn refused(case: &Case) -> Option<&'static str> {
    if case.expect.iter().any(|(place, _)| place == "fault") {
        return Some("it ends in a fault, which on a card would end the process");
    }
    let has = |what: &str| case.code.iter().any(|(_, text)| text.contains(what));
    let of_scratch = |(place, text): &(String, String)| place.starts_with('s') && value(text, 0, 0) == Some(ADD_LANE);
    if has("buffer_") && case.init.iter().any(of_scratch) {
        return Some("it reaches scratch through a descriptor, which on a card has an address of the driver's");
    }
    NOT_THERE.iter().find(|(what, _)| has(what)).map(|(_, why)| *why)
}

/// The kernel's name.
pub fn name(case: &Case) -> String {
    format!("case_{}", case.line)
}

/// The kernel's text.
///
/// # Errors
/// Why the case is for the emulator alone.
pub fn text(case: &Case, target: Target) -> Result<String, &'static str> {
    if let Some(why) = refused(case) {
        return Err(why);
    }
    let named = Named::of(case);
    let own_scalar = named.scalar.map_or(0, |last| last / OWN_SCALARS + 1) * OWN_SCALARS;
    let own_vector = named.vector.map_or(0, |last| last + 1);
    if own_scalar + OWN_SCALARS > LAST_SCALAR || own_vector + OWN_VECTORS > 256 {
        return Err("it leaves no registers for the kernel around it");
    }
    let mut wrap = Wrap { case, target, named, s: own_scalar, v: own_vector, text: String::new() };
    wrap.before();
    wrap.code();
    wrap.after();
    Ok(wrap.kernel())
}

struct Wrap<'a> {
    case: &'a Case,
    target: Target,
    named: Named,
    /// The first of [`OWN_SCALARS`].
    s: u16,
    /// The first of [`OWN_VECTORS`].
    v: u16,
    /// Assembly so far, a line each.
    text: String,
}

impl Wrap<'_> {
    fn family(&self) -> Family {
        self.target.arch.info().family
    }

    fn put(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// Waits until nothing of the wave is under way in memory.
    fn wait(&mut self) {
        match self.family() {
            Family::Rdna4 => {
                for counter in ["load", "store", "sample", "bvh", "ds", "km"] {
                    self.put(&format!("s_wait_{counter}cnt 0"));
                }
            }
            family if family.is_rdna() => {
                self.put("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)");
                self.put("s_waitcnt_vscnt null, 0");
            }
            _ => self.put("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)"),
        }
    }

    /// More cycles than any result needs to arrive.
    fn idle(&mut self) {
        self.put("s_nop 15");
        self.put("s_nop 15");
    }

    /// Puts the address of a part of the state into two scalar registers of its own.
    fn base(&mut self, offset: usize) -> String {
        let (from, to) = (self.s, self.s + 6);
        self.put(&format!("s_add_u32 s{to}, s{from}, {offset}"));
        self.put(&format!("s_addc_u32 s{}, s{}, 0", to + 1, from + 1));
        format!("s[{to}:{}]", to + 1)
    }

    /// EXEC full, and the byte of each lane in a slot in a register of its own.
    fn lanes(&mut self) {
        let v = self.v;
        self.put(if self.target.lanes() == 64 { "s_mov_b64 exec, -1" } else { "s_mov_b32 exec_lo, -1" });
        self.put(&format!("v_mbcnt_lo_u32_b32 v{v}, -1, 0"));
        if self.target.lanes() == 64 {
            self.put(&format!("v_mbcnt_hi_u32_b32 v{v}, -1, v{v}"));
        }
        self.put(&format!("v_lshlrev_b32_e32 v{v}, 2, v{v}"));
    }

    fn before(&mut self) {
        self.wait();
        self.lanes();
        let (v, lanes) = (self.v, self.target.lanes());
        let set = vectors(&self.case.init, lanes);
        for register in 0..self.named.accumulation.map_or(0, |last| last + 1) {
            if set.contains(&(256 + register)) {
                let base = self.base(state::vector(256 + register));
                self.put(&format!("global_load_dword v{}, v{v}, {base}", v + 1));
                self.wait();
            } else {
                self.put(&format!("v_mov_b32_e32 v{}, 0", v + 1));
            }
            self.put(&format!("v_accvgpr_write_b32 a{register}, v{}", v + 1));
        }
        for register in 0..self.v {
            if set.contains(&register) {
                let base = self.base(state::vector(register));
                self.put(&format!("global_load_dword v{register}, v{v}, {base}"));
            } else {
                self.put(&format!("v_mov_b32_e32 v{register}, 0"));
            }
        }
        self.wait();
        for own in 0..OWN_VECTORS {
            self.put(&format!("v_mov_b32_e32 v{}, 0", v + own));
        }
        self.scalars_before();
    }

    /// Everything scalar; SCC at the end, as the others may change it.
    fn scalars_before(&mut self) {
        let (s, lanes) = (self.s, self.target.lanes());
        let set = scalars(&self.case.init, lanes);
        for register in (0..=LAST_SCALAR).filter(|register| !(s..s + OWN_SCALARS).contains(register)) {
            if set.contains(&register) {
                self.put(&format!("s_load_dword s{register}, s[{s}:{}], {}", s + 1, state::scalar(register)));
            } else {
                self.put(&format!("s_mov_b32 s{register}, 0"));
            }
        }
        let number = |name| first(name, lanes);
        let [vcc, m0, exec] = ["vcc", "m0", "exec"].map(number);
        for (to, offset) in [
            (2, state::scalar(vcc)),
            (3, state::scalar(vcc + 1)),
            (4, state::scalar(exec)),
            (5, state::scalar(exec + 1)),
        ] {
            self.put(&format!("s_load_dword s{}, s[{s}:{}], {offset}", s + to, s + 1));
        }
        self.put(&format!("s_load_dword s{}, s[{s}:{}], {}", s + 6, s + 1, state::scalar(m0)));
        self.put(&format!("s_load_dword s{}, s[{s}:{}], {}", s + 7, s + 1, state::mode()));
        self.wait();
        self.put(&format!("s_mov_b32 vcc_lo, s{}", s + 2));
        self.put(&format!("s_mov_b32 vcc_hi, s{}", s + 3));
        self.put(&format!("s_mov_b32 m0, s{}", s + 6));
        self.put(&format!("s_setreg_b32 hwreg(HW_REG_MODE), s{}", s + 7));
        self.put(&format!("s_load_dword s{}, s[{s}:{}], {}", s + 7, s + 1, state::scc()));
        self.wait();
        self.put(&format!("s_mov_b32 exec_lo, s{}", s + 4));
        self.put(&format!("s_mov_b32 exec_hi, s{}", s + 5));
        self.put(&format!("s_cmp_lg_u32 s{}, 0", s + 7));
        self.idle();
    }

    fn code(&mut self) {
        let jumps = self.has(JUMPS);
        for (words, _) in &self.case.code {
            for word in words {
                let _ = writeln!(self.text, ".long {word:#010x}");
            }
            if !jumps {
                self.idle();
                self.wait();
            }
        }
    }

    /// Whether one of the case's instructions begins so.
    fn has(&self, words: &[&str]) -> bool {
        self.case.code.iter().any(|(_, text)| words.iter().any(|word| text.starts_with(word)))
    }

    fn after(&mut self) {
        let s = self.s;
        self.put(&format!("s_cselect_b32 s{}, 1, 0", s + 2));
        self.put(&format!("s_mov_b32 s{}, exec_lo", s + 4));
        self.put(&format!("s_mov_b32 s{}, exec_hi", s + 5));
        self.put(&format!("s_getreg_b32 s{}, hwreg(HW_REG_MODE)", s + 3));
        if self.has(&["s_setvskip"]) {
            self.put(&format!("s_mov_b32 s{}, 0", s + 6));
            self.put(&format!("s_setvskip s{}, 0", s + 6));
        }
        self.idle();
        self.wait();
        if self.has(SCALAR_STORES) {
            self.put("s_dcache_wb");
            self.wait();
        }
        self.lanes();
        self.vectors_after();
        self.scalars_after();
        self.lds_after();
        self.put("s_endpgm");
    }

    fn vectors_after(&mut self) {
        let v = self.v;
        for register in vectors(&self.case.expect, self.target.lanes()) {
            let Some(accumulation) = register.checked_sub(256) else {
                self.store(register, state::vector(register));
                continue;
            };
            self.put(&format!("v_accvgpr_read_b32 v{}, a{accumulation}", v + 1));
            self.idle();
            self.store(v + 1, state::vector(register));
        }
    }

    fn scalars_after(&mut self) {
        let (s, v, lanes) = (self.s, self.v, self.target.lanes());
        let [vcc, m0, exec] = ["vcc", "m0", "exec"].map(|name| first(name, lanes));
        for register in scalars(&self.case.expect, lanes) {
            let source = match register {
                _ if register == vcc => "vcc_lo".to_owned(),
                _ if register == vcc + 1 => "vcc_hi".to_owned(),
                _ if register == m0 => "m0".to_owned(),
                _ if register == exec => format!("s{}", s + 4),
                _ if register == exec + 1 => format!("s{}", s + 5),
                _ => format!("s{register}"),
            };
            self.put(&format!("v_mov_b32_e32 v{}, {source}", v + 1));
            self.store(v + 1, state::scalar(register));
        }
        for (own, offset) in [(2, state::scc()), (3, state::mode())] {
            self.put(&format!("v_mov_b32_e32 v{}, s{}", v + 1, s + own));
            self.store(v + 1, offset);
        }
    }

    fn lds_after(&mut self) {
        let (v, lanes) = (self.v, self.target.lanes());
        for (name, _) in &self.case.expect {
            let Some(Location::Lds(offset)) = place(name, lanes) else { continue };
            self.put(&format!("v_mov_b32_e32 v{}, {offset}", v + 1));
            self.put(&format!("ds_read_b32 v{}, v{}", v + 1, v + 1));
            self.wait();
            let base = self.base(state::LDS + offset as usize);
            self.put(&format!("v_mov_b32_e32 v{}, 0", v + 2));
            self.put(&format!("global_store_dword v{}, v{}, {base}", v + 2, v + 1));
            self.wait();
        }
    }

    /// A register into its slot.
    fn store(&mut self, register: u16, offset: usize) {
        let base = self.base(offset);
        self.put(&format!("global_store_dword v{}, v{register}, {base}", self.v));
        self.wait();
    }

    fn kernel(&self) -> String {
        // The highest of each kind: the compiler counts registers by them, and lets nothing live across the assembly.
        let mut clobbers = vec![format!("\"v{}\"", self.v + OWN_VECTORS - 1), format!("\"s{LAST_SCALAR}\"")];
        clobbers.extend(self.named.accumulation.map(|last| format!("\"a{last}\"")));
        clobbers.extend(["\"vcc\"".to_owned(), "\"memory\"".to_owned()]);
        let lines: Vec<String> = self.text.lines().map(|line| format!("        \"{line}\\n\"")).collect();
        let is_private = self.case.code.iter().any(|(_, text)| text.contains("scratch_"));
        let private = if is_private { "    private_memory();\n" } else { "" };
        format!(
            "extern \"C\" __global__ __launch_bounds__({lanes}) void {name}(FiletestArgs a) {{\n\
             {private}\
             \x20   shared_memory<{lanes}>(a.state);\n\
             \x20   asm volatile(\n{asm}\n        :: \"{{s[{s}:{s1}]}}\"(a.state) : {clobbers});\n}}\n",
            lanes = self.target.lanes(),
            name = name(self.case),
            asm = lines.join("\n"),
            s = self.s,
            s1 = self.s + 1,
            clobbers = clobbers.join(", "),
        )
    }
}

/// The number of a named scalar register.
fn first(name: &str, lanes: usize) -> u16 {
    match place(name, lanes) {
        Some(Location::Scalar { first, .. }) => first,
        _ => unreachable!("VCC, M0 and EXEC are places"),
    }
}

/// What stands before the kernels of a file.
pub fn head() -> String {
    format!(
        "using namespace rf;\n\
         struct FiletestArgs {{ u32* state; }};\n\
         // LDS as the case has it. Volatile: nothing that the compiler sees reads it.\n\
         template <u32 LANES> RF_FN void shared_memory(const u32* state) {{\n\
         \x20   __shared__ volatile u32 lds[{dwords}];\n\
         \x20   for (u32 i = thread_x(); i < {dwords}; i += LANES) lds[i] = state[{first} + i];\n\
         }}\n\
         // Private memory as the case has it.\n\
         RF_FN void private_memory() {{\n\
         \x20   volatile u32 frame[{frame}];\n\
         #pragma unroll 1\n\
         \x20   for (u32 i = 0; i < {frame}; ++i) frame[i] = {fresh:#x};\n\
         }}\n",
        frame = SCRATCH_BYTES / 4,
        fresh = u32::from_ne_bytes([FRESH; 4]),
        dwords = LDS_BYTES / 4,
        first = state::LDS / 4,
    )
}
