//! The modelled profile of kernels whose counts can be worked out by hand.

mod common;

use common::{Args, Bench};
use rocfire_emulator::{Binding, Launch, Limit, Options, Pipe, Profile, Residents, Sample, Tally, Timeline};

fn profile(bench: &Bench, kernel: &str, grid: u32, block: u32, args: &Args, sample: Sample) -> Profile {
    let kernel = bench.module.kernel(kernel).unwrap();
    let launch = Launch { grid: [grid, 1, 1], block: [block, 1, 1], dynamic_lds_bytes: 0, kernarg: args.bytes() };
    bench.gpu.profile(&kernel, &launch, sample).unwrap_or_else(|error| panic!("{error}"))
}

fn whole(bench: &Bench, kernel: &str, grid: u32, block: u32, args: &Args) -> Profile {
    profile(bench, kernel, grid, block, args, Sample::default())
}

/// What was counted of the first instruction whose text starts so.
fn tally(profile: &Profile, text: &str) -> Tally {
    profile.rows.iter().find(|row| profile.text(row).starts_with(text)).unwrap().tally
}

/// Four waves and a hundred rounds more: each round 32 clocks of the matrix unit, four of them outside its shadow, and ten
/// vector instructions of four clocks.
#[test]
fn a_matrix_loop_is_as_busy_as_worked_out_by_hand() {
    let Some(bench) = Bench::new("model") else { return };
    let out = bench.upload(&[0f32; 256]);
    let run = |rounds: i32| whole(&bench, "matrix_loop", 1, 256, &Args::new().with(out).with(rounds));
    let (few, many) = (run(100), run(200));
    let more = |name: &str| many.counter(name) - few.counter(name);
    assert_eq!(more("SQ_INSTS_MFMA"), 400);
    assert_eq!(more("SQ_INSTS_VALU"), 400 * 11);
    assert_eq!(more("SQ_VALU_MFMA_BUSY_CYCLES"), 400 * 32);
    assert_eq!(more("SQ_INSTS_VALU_MFMA_MOPS_F16"), 400 * 16384 / 512);
    assert_eq!(many.clocks().valu - few.clocks().valu, 400 * 44);
    assert_eq!(many.counter("SQ_WAVES"), 4);
    let bound = run(10_000).bound();
    // Vector lanes 44 clocks a round; one wave a SIMD also has its turns: a multiple of four for each instruction.
    assert!(matches!(bound.longest, Pipe::Valu | Pipe::Issue), "{bound:?}");
    let valu = bound.pipes.iter().find(|(pipe, _)| *pipe == Pipe::Valu).unwrap().1;
    let matrix = bound.pipes.iter().find(|(pipe, _)| *pipe == Pipe::Matrix).unwrap().1;
    assert_eq!(matrix, 320_000.0);
    assert!((matrix / valu - 32.0 / 44.0).abs() < 0.001, "{}", matrix / valu);
}

/// A dword of each of 64 lanes takes two phases of LDS. With 128 bytes between lanes, each phase meets 32 dwords in one of
/// 32 banks: 31 more.
#[test]
fn strides_conflict_in_lds_as_worked_out_by_hand() {
    let Some(bench) = Bench::new("model") else { return };
    let out = bench.upload(&[0u32; 64]);
    let run = |stride: u32| whole(&bench, "lds_stride", 1, 64, &Args::new().with(out).with(stride));
    let base = run(4).counter("SQ_LDS_IDX_ACTIVE");
    for (stride, conflicts) in [(4, 0), (8, 2), (12, 0), (64, 2 * 15), (128, 2 * 31), (132, 0)] {
        let profile = run(stride);
        assert_eq!(profile.counter("SQ_LDS_BANK_CONFLICT"), conflicts, "stride {stride}");
        assert_eq!(profile.counter("SQ_LDS_IDX_ACTIVE"), base + conflicts, "stride {stride}");
    }
    let row = tally(&run(128), "ds_read_b32");
    assert_eq!((row.lds_phases, row.lds_conflicts()), (2, 62));
}

/// 256 lanes by 16 bytes: a wave's load is 1024 bytes, 8 segments of 128 and 16 of 64; so is its store.
#[test]
fn a_copy_counts_its_segments_and_lines() {
    let Some(bench) = Bench::new("model") else { return };
    let from = bench.upload(&vec![1f32; 16 * 1024]);
    let to = bench.upload(&vec![0f32; 16 * 1024]);
    let args = Args::new().with(from).with(to);
    let (four, eight) = (whole(&bench, "copy16", 4, 256, &args), whole(&bench, "copy16", 8, 256, &args));
    for (profile, waves) in [(&four, 16), (&eight, 32)] {
        assert_eq!(profile.counter("SQ_INSTS_VMEM_RD"), waves);
        assert_eq!(profile.counter("SQ_INSTS_VMEM_WR"), waves);
        assert_eq!(profile.counter("VMEM_REQUESTED_BYTES"), 2 * waves * 1024);
        assert_eq!(profile.counter("VMEM_SEGMENTS_128B"), 2 * waves * 8);
        assert_eq!(profile.counter("VMEM_SEGMENTS_64B"), 2 * waves * 16);
        assert_eq!(profile.counter("VMEM_ACCESS_CYCLES"), 2 * waves * 8);
        assert_eq!(profile.counter("UNIQUE_LINES_WRITTEN"), waves * 8);
    }
    // What both read once besides: the arguments.
    assert_eq!(eight.lines.read - four.lines.read, 16 * 8);
    assert_eq!(four.memory_bytes().0, four.memory_bytes().1);
    let card = eight.bound().card.unwrap();
    assert_eq!(card.name, "Instinct MI300X");
    assert!(card.roofline <= 1.0 && card.roofline > 0.0, "{card:?}");
}

/// Lanes 512 bytes apart touch a segment each: 64 clocks of the pipeline instead of 4.
#[test]
fn strided_loads_take_a_clock_for_each_line() {
    let Some(bench) = Bench::new("model") else { return };
    let from = bench.upload(&vec![1u32; 64 * 128]);
    let to = bench.upload(&[0u32; 64]);
    let load = |stride: i32| {
        let profile = whole(&bench, "strided", 1, 64, &Args::new().with(from).with(to).with(stride));
        tally(&profile, "global_load_dword ")
    };
    assert_eq!((load(1).segments_128, load(1).segments_64, load(1).vmem_clocks), (2, 4, 4));
    assert_eq!((load(128).segments_128, load(128).segments_64, load(128).vmem_clocks), (64, 64, 64));
}

#[test]
fn lanes_that_are_off_lower_the_utilisation() {
    let Some(bench) = Bench::new("model") else { return };
    let x = bench.upload(&[1f32; 64]);
    let profile = whole(&bench, "some_lanes", 1, 64, &Args::new().with(x).with(10_000));
    assert!((profile.lane_utilisation() - 0.25).abs() < 0.01, "{}", profile.lane_utilisation());
    assert_eq!(profile.counter("VALU_OPERATIONS_F32"), 16 * 10_000);
    let text = profile.annotated();
    let line = text.lines().find(|line| line.contains("v_mul_f32")).unwrap();
    assert!(line.contains("10000") && line.contains("25.0%") && line.contains("40000"), "{line}");
}

#[test]
fn results_do_not_depend_on_threads() {
    let run = |threads: usize| {
        let mut options = Options::default();
        options.threads = Some(threads);
        let bench = Bench::with_options("model", options)?;
        let from = bench.upload(&vec![1u32; 4096 * 7]);
        let to = bench.upload(&vec![0u32; 4096]);
        let args = Args::new().with(from).with(to).with(7);
        let sample = Sample { timeline: true, ..Sample::default() };
        let profile = profile(&bench, "strided", 64, 64, &args, sample);
        let rows: Vec<_> = profile.rows.iter().map(|row| (row.code_offset_bytes, row.tally)).collect();
        Some((rows, profile.lines, profile.counters(), profile.summary(), profile.annotated()))
    };
    let Some(one) = run(1) else { return };
    assert!(one.2.iter().any(|&(name, value)| name == "VMEM_SEGMENTS_128B" && value > 64));
    for threads in [2, 3, 5] {
        assert_eq!(run(threads).unwrap(), one, "{threads} threads");
    }
}

/// Every fourth workgroup: a quarter of the counts, and the bound of the whole.
#[test]
fn a_sample_is_scaled_to_the_launch() {
    let Some(bench) = Bench::new("model") else { return };
    let from = bench.upload(&vec![1f32; 64 * 1024]);
    let to = bench.upload(&vec![0f32; 64 * 1024]);
    let args = Args::new().with(from).with(to);
    let all = whole(&bench, "copy16", 64, 256, &args);
    bench.gpu.fill(to, 0, 64 * 4096).unwrap();
    let sample = Sample { groups: Some(16), skip_others: false, timeline: false };
    let some = profile(&bench, "copy16", 64, 256, &args, sample);
    assert_eq!((some.groups, some.counted_groups), (64, 16));
    assert_eq!(4 * some.counter("VMEM_SEGMENTS_128B"), all.counter("VMEM_SEGMENTS_128B"));
    let vmem = |profile: &Profile| profile.bound().pipes.iter().find(|(pipe, _)| *pipe == Pipe::Vmem).unwrap().1;
    assert_eq!(vmem(&some), vmem(&all));
    // The others ran, unwatched.
    assert_eq!(bench.download::<f32>(to, 64 * 1024), vec![1f32; 64 * 1024]);
    // The least is what the sample touched, the most four times that, but for the arguments that all read.
    let (least, most) = some.memory_bytes();
    assert!(least * 4 <= most + 4 * 128 * 4 && least < all.memory_bytes().0, "{least} {most}");
    bench.gpu.fill(to, 0, 64 * 4096).unwrap();
    let skipping =
        profile(&bench, "copy16", 64, 256, &args, Sample { groups: Some(16), skip_others: true, timeline: false });
    assert_eq!(skipping.counters(), some.counters());
    let written = bench.download::<f32>(to, 64 * 1024);
    assert_eq!(written.iter().filter(|&&value| value == 1.0).count(), 16 * 1024);
    assert!(some.summary().contains("counted in 16 of them"), "{}", some.summary());
}

/// 16 KiB of LDS a workgroup of one wave: four of them in 64 KiB, one a SIMD.
#[test]
fn occupancy_is_that_of_the_code_object() {
    let Some(bench) = Bench::new("model") else { return };
    let out = bench.upload(&[0u32; 64]);
    let profile = whole(&bench, "lds_stride", 1, 64, &Args::new().with(out).with(4u32));
    assert_eq!((profile.occupancy.waves_per_unit, profile.occupancy.limit), (4, Limit::Lds));
    assert_eq!(profile.resources.lds_bytes, 16384);
    let text = profile.summary();
    assert!(text.contains("1 of 8 waves a SIMD, limited by LDS"), "{text}");
}

/// 64 MiB in and out cannot be faster than memory.
#[test]
fn a_large_copy_is_bound_by_memory() {
    let Some(bench) = Bench::new("model") else { return };
    let bytes = 16 << 20;
    let (from, to) = (bench.gpu.allocate(bytes).unwrap(), bench.gpu.allocate(bytes).unwrap());
    let args = Args::new().with(from).with(to);
    let profile = whole(&bench, "copy16", (bytes / 4096) as u32, 256, &args);
    let bound = profile.bound();
    let card = bound.card.unwrap();
    assert_eq!(card.binding, Binding::Memory);
    assert_eq!((card.roofline, card.roofline_is_memory), (1.0, true));
    // Both buffers once, and the line of the arguments.
    assert_eq!(profile.memory_bytes().0 / 128, 2 * bytes / 128 + 1);
}

/// 64 matrix instructions more of eight passes, each adding to what the one before left: 32 clocks each. Sixteen loads more, each
/// waited for: a turn, four clocks of addresses, 320 to the counter, and the turn of the wait; they lie in L1, so that it is as far.
#[test]
fn timelines_are_as_long_as_worked_out_by_hand() {
    let Some(bench) = Bench::new("timeline") else { return };
    let out = bench.upload(&[1f32; 64]);
    let run = |kernel: &str, groups: u32| -> Timeline {
        let sample = Sample { timeline: true, ..Sample::default() };
        let profile = profile(&bench, kernel, groups, 64, &Args::new().with(out), sample);
        assert!(profile.summary().contains("timeline"), "{}", profile.summary());
        profile.timeline(Residents::OfLaunch).unwrap()
    };
    let more = |few: &str, many: &str| {
        let (few, many) = (run(few, 1), run(many, 1));
        [many.near.clocks - few.near.clocks, many.far.clocks - few.far.clocks]
    };
    assert_eq!(more("chain_of_8", "chain_of_72"), [64 * 32; 2]);
    assert_eq!(more("loads_of_4", "loads_of_20"), [16 * (4 + 320 + 4); 2]);
    // Four waves a compute unit have a SIMD each, so that they are hardly later than one.
    let (one, four) = (run("chain_of_8", 1), run("chain_of_8", 4 * 304));
    assert_eq!((one.resident, four.resident), (1, 4));
    assert!(four.near.clocks - one.near.clocks < 32, "{} {}", one.near.clocks, four.near.clocks);
    assert_eq!(run("chain_of_8", 4 * 304), four);
    assert!(whole(&bench, "chain_of_8", 1, 64, &Args::new().with(out)).timeline(Residents::Full).is_none());
}
