//! A profile as text: the counters and bounds of a kernel, and its instructions with what each of them costs.

use std::fmt::Write as _;

use crate::model::bound::Bound;
use crate::model::issue::Pipe;
use crate::model::timeline::Lost;

use super::{Profile, Residents, Row, Timeline};

/// A share as text.
fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// `part` of `whole` as text, or a dash.
fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) }
}

impl Profile {
    /// What the profile comes to, in lines: size, occupancy, how busy each pipe is, memory, the roofline.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let line = |text: &mut String, name: &str, value: String| {
            let _ = writeln!(text, "  {name:<18} {value}");
        };
        let [gx, gy, gz] = self.grid;
        let [bx, by, bz] = self.block;
        let _ = writeln!(text, "{} on {}, modelled", self.kernel, self.arch);
        let sampled = match self.counted_groups == self.groups {
            true => String::new(),
            false => format!("; counted in {} of them, chosen evenly, and scaled", self.counted_groups),
        };
        let size = format!("{gx}x{gy}x{gz} workgroups of {bx}x{by}x{bz}{sampled}");
        line(&mut text, "launch", size);
        line(&mut text, "occupancy", self.occupancy_text());
        let bound = self.bound();
        line(&mut text, "pipes, at most", pipes_text(&bound));
        line(&mut text, "matrix busy", format!("at most {} of the longest pipe's clocks", percent(bound.matrix_busy)));
        line(&mut text, "lanes on", format!("{} in vector instructions", percent(self.lane_utilisation())));
        let total = self.total();
        if total.lds_phases > 0 {
            let conflicts: u64 = self.rows.iter().map(|row| row.tally.lds_conflicts()).sum();
            let (one, other) = (total.lds_conflicts_sequential, total.lds_conflicts_interleaved);
            let both = if one == other { String::new() } else { format!(" ({one} in order, {other} interleaved)") };
            let share = ratio(conflicts, total.lds_phases + conflicts);
            line(&mut text, "LDS conflicts", format!("{share} of LDS clocks are conflicts: {conflicts}{both}"));
        }
        let moved = self.counter("VMEM_SEGMENTS_128B") * 128;
        let requested = self.counter("VMEM_REQUESTED_BYTES");
        line(&mut text, "coalescing", format!("{} of the bytes of 128-byte segments touched", ratio(requested, moved)));
        self.card_lines(&bound, &mut text);
        if let Some(timeline) = self.timeline(Residents::OfLaunch) {
            line(&mut text, "timeline", timeline_text(&timeline));
        }
        text
    }

    fn card_lines(&self, bound: &Bound, text: &mut String) {
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<18} {value}");
        };
        let (least, most) = self.memory_bytes();
        let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
        line("memory, at least", format!("{range} bytes in lines of 128, each once"));
        let Some(card) = &bound.card else {
            line("bound", format!("{}; no card is recorded for {}", bound.longest.name(), self.arch));
            return;
        };
        let intensity = card.intensity.map_or_else(String::new, |n| format!(", {n:.1} operations a byte"));
        let side = if card.roofline_is_memory { "memory" } else { "arithmetic" };
        line("card", format!("{}, {} of its units filled", card.name, percent(card.units_filled)));
        let other = self.bound_with(most).card.filter(|other| other.binding != card.binding);
        let other = other.map_or_else(String::new, |other| {
            format!(", or {}, if no two workgroups share a line", other.binding.name())
        });
        line("bound by", format!("{}{other}{intensity}", card.binding.name()));
        line("roofline", format!("at most {} of the card's, which is that of {side}", percent(card.roofline)));
    }

    fn occupancy_text(&self) -> String {
        let (occupancy, resources) = (&self.occupancy, &self.resources);
        let registers = match resources.agprs {
            0 => format!("{} VGPRs", resources.vgprs),
            agprs => format!("{} + {agprs} VGPRs", resources.vgprs),
        };
        format!(
            "{} of {} waves a SIMD, limited by {}: {registers}, {} SGPRs, {} bytes of LDS, {} waves a workgroup",
            occupancy.waves_per_simd(),
            occupancy.slots_per_simd,
            occupancy.limit.name(),
            resources.sgprs,
            resources.lds_bytes,
            resources.waves_per_group,
        )
    }

    /// The kernel's instructions, one a line, with what was counted of each in the workgroups looked at.
    ///
    /// Columns: share of its pipe's clocks, clocks, executions by waves, lanes on, LDS clocks that are conflicts, 128-byte
    /// segments of an access, and the text, below the source line where the code object has line tables. Instructions between others that no wave reached have no numbers.
    pub fn annotated(&self) -> String {
        let clocks = self.clocks();
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:>6} {:>6} {:>12} {:>10} {:>6} {:>9} {:>8}  {}",
            "pipe", "share", "clocks", "waves", "lanes", "conflict", "seg/acc", self.kernel
        );
        let mut before = None;
        for row in &self.rows {
            let here = self.source(row);
            if let Some(source) = here.as_ref().filter(|_| here != before) {
                let _ = writeln!(text, "{:63}  ; {source}", "");
            }
            before = here;
            let of_pipe = row.pipe().map(|pipe| (pipe, pipe.clocks_in(&row.clocks()), pipe.clocks_in(&clocks)));
            let _ = writeln!(text, "{}  {:6x}: {}", self.columns(row, of_pipe), row.code_offset_bytes, self.text(row));
        }
        text
    }

    fn columns(&self, row: &Row, of_pipe: Option<(Pipe, u64, u64)>) -> String {
        let tally = &row.tally;
        if tally.executions == 0 {
            return " ".repeat(63);
        }
        let (pipe, share, clocks) = match of_pipe {
            Some((pipe, clocks, all)) => (pipe.short(), ratio(clocks, all), clocks.to_string()),
            None => ("", String::new(), String::new()),
        };
        let lanes = match row.pipe() {
            Some(Pipe::Scalar | Pipe::Branch) | None => String::new(),
            Some(_) => ratio(tally.lanes, tally.executions * u64::from(self.resources.wave_size)),
        };
        let conflict = match tally.lds_phases {
            0 => String::new(),
            phases => ratio(tally.lds_conflicts(), phases + tally.lds_conflicts()),
        };
        let segments = match (tally.accesses, row.pipe()) {
            (1.., Some(Pipe::Vmem)) => format!("{:.1}", tally.segments_128 as f64 / tally.accesses as f64),
            _ => String::new(),
        };
        format!("{pipe:>6} {share:>6} {clocks:>12} {:>10} {lanes:>6} {conflict:>9} {segments:>8}", tally.executions)
    }
}

fn pipes_text(bound: &Bound) -> String {
    let mut pipes: Vec<Pipe> = Pipe::ALL.into_iter().filter(|&pipe| bound.share(pipe) > 0.0).collect();
    pipes.sort_by(|&a, &b| bound.share(b).total_cmp(&bound.share(a)));
    let shares = pipes.into_iter().map(|pipe| format!("{} {}", pipe.name(), percent(bound.share(pipe))));
    shares.collect::<Vec<_>>().join(", ")
}

fn timeline_text(timeline: &Timeline) -> String {
    let [near, far] = timeline.clocks();
    let lost = Lost::ALL.map(|lost| {
        let [near, far] = [timeline.near, timeline.far].map(|found| percent(found.share(lost)));
        format!("{} {near}, {far}", lost.name())
    });
    format!(
        "{near:.0} clocks of a unit with data in caches, {far:.0} in memory, {} workgroups resident; lost by waves: {}",
        timeline.resident,
        lost.join("; ")
    )
}
