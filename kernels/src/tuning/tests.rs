//! Tables: what is read, what is refused, what is found. Tuning itself runs on the emulated device, whose times mean nothing.

use rocfire_hal::{Config, DeviceId, Tensor};

use super::*;
use crate::gemm::tune::{Limits, tune};
use crate::gemm::{GemmParams, gemm};
use crate::quant::{CodedRows, MxRounding, ScaleKind, q_matmul_scaled};

fn shape(input: DType, lies: Lies, size: [usize; 3]) -> Shape {
    Shape { input, codes: None, output: input, lies, size, batches: 1 }
}

/// An emulated device of its own, with a table and a record in `folder`.
fn device(folder: &Path) -> Device {
    let config = Config::from_env().unwrap();
    let config = config.with_tuning(folder.join("tuning.csv")).with_tuning_record(folder.join("shapes.csv"));
    Device::open(DeviceId::emulated(rocfire_arch::DEFAULT_EMULATED).unwrap(), config).unwrap()
}

fn row(device: &Device, shape: Shape, candidate: Candidate) -> Row {
    Row {
        driver: driver_name(device).to_owned(),
        arch: device.arch(),
        units: device.info().compute_units as usize,
        shape: shape.bucket(),
        candidate,
        hash: crate::gemm::candidate_hash(device, candidate).unwrap_or_default(),
        repeats_agreed: true,
        microseconds: 12.5,
    }
}

fn multiply(device: &Device, [m, n, k]: [usize; 3]) {
    let tensor = |shape: [usize; 2]| Tensor::from_bytes(device, &shape, DType::F16, &vec![0; shape[0] * shape[1] * 2]);
    let (a, b, mut c) = (tensor([m, k]).unwrap(), tensor([k, n]).unwrap(), tensor([m, n]).unwrap());
    gemm(device.stream(), a.view(), b.view(), c.view_mut(), &GemmParams::default()).unwrap();
}

#[test]
fn shipped_tables_are_tables() {
    for shipped in SHIPPED {
        let rows = parse_table(Path::new("shipped"), shipped).unwrap();
        assert!(
            rows.iter().all(|row| row.driver != "emulated" && row.driver != "noop"),
            "only GPUs' times are shipped"
        );
        assert!(rows.iter().all(|row| row.shape == row.shape.bucket()), "a row stands for its bucket");
    }
}

#[test]
fn buckets_have_two_significant_bits() {
    let edges = [(1, 1), (3, 3), (4, 4), (5, 6), (7, 8), (9, 12), (13, 16), (4096, 4096), (4097, 6144), (14336, 16384)];
    for (extent, expected) in edges {
        assert_eq!(bucket(extent), expected, "{extent}");
        assert_eq!(bucket(expected), expected, "a bucket stands for itself");
    }
}

#[test]
fn a_table_that_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let device = device(folder.path());
    let path = folder.path().join("new/tuning.csv");
    assert_eq!(read_table(&path).unwrap(), [], "no file is an empty table");
    let rows: Vec<Row> = [
        Candidate::Tiling { number: 4, sliced: false },
        Candidate::Tiling { number: 7, sliced: true },
        Candidate::Vendor { choice: 3 },
    ]
    .into_iter()
    .zip(Lies::ALL)
    .map(|(candidate, lies)| row(&device, shape(DType::BF16, lies, [1, 14336, 4096]), candidate))
    .collect();
    write_table(&path, &rows).unwrap();
    assert_eq!(read_table(&path).unwrap(), rows);
}

#[test]
fn what_is_no_row_is_named_by_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuning.csv");
    let whole = "hip,gfx942,304,gemm,bf16,bf16,nt,1,16384,4096,1,tiling:7:sliced,00ff,agreed,12.5";
    let rows = [
        ("tiling:7:sliced", "tiling:x"),
        ("gfx942", "gfx9999"),
        ("agreed", "maybe"),
        (",nt,", ",n,"),
        ("12.5", "-1"),
        (",1,16384", ",0,16384"),
    ];
    let table = |row: &str| format!("{}\n{row}\n", HEADER.join(","));
    std::fs::write(&path, table(whole)).unwrap();
    assert_eq!(read_table(&path).unwrap().len(), 1);
    for (from, to) in rows {
        std::fs::write(&path, table(&whole.replace(from, to))).unwrap();
        let message = read_table(&path).unwrap_err().to_string();
        assert!(message.contains("tuning.csv, line 2"), "{to}: {message}");
    }
    std::fs::write(&path, "something else\n").unwrap();
    assert!(read_table(&path).unwrap_err().to_string().contains("header"));
}

#[test]
fn a_row_is_found_for_its_device_hash_and_bits_only() {
    let folder = tempfile::tempdir().unwrap();
    let device = device(folder.path());
    let (wanted, candidate) =
        (shape(DType::F16, Lies::Nn, [33, 64, 64]), Candidate::Tiling { number: 3, sliced: false });
    let good = row(&device, wanted, candidate);
    let find = |row: Row| Tables::from_rows(&device, vec![row]).find(&device, wanted);
    assert_eq!(find(good.clone()), Some(candidate));
    assert_eq!(find(Row { hash: "0123".to_owned(), ..good.clone() }), None, "another version was measured");
    assert_eq!(find(Row { driver: "cuda".to_owned(), ..good.clone() }), None, "on another device");
    assert_eq!(find(Row { units: 1, ..good.clone() }), None, "on another card");
    assert_eq!(find(Row { repeats_agreed: false, ..good.clone() }), None, "emulated runs are deterministic");
    let other = Shape { size: [65, 64, 64], ..wanted };
    assert_eq!(Tables::from_rows(&device, vec![good]).find(&device, other), None, "another bucket");
}

#[test]
fn shapes_without_a_row_are_noted_once() {
    let folder = tempfile::tempdir().unwrap();
    let device = device(folder.path());
    for size in [[5, 7, 9], [5, 7, 9], [6, 8, 10], [40, 7, 9]] {
        multiply(&device, size);
    }
    let shapes = read_shapes(&folder.path().join("shapes.csv")).unwrap();
    let sizes: Vec<_> = shapes.iter().map(|shape| shape.size).collect();
    assert_eq!(sizes, [[5, 7, 9], [40, 7, 9]], "the third is of the first one's bucket");
    assert_eq!(shapes[0], shape(DType::F16, Lies::Nn, [5, 7, 9]));
}

/// A product of these codes, as its launcher is called.
fn multiply_codes(device: &Device, codes: Codes, [m, n, k]: [usize; 3]) {
    let side = |rows: usize| {
        let codes = Tensor::from_bytes(device, &[rows, k], DType::U8, &vec![0; rows * k]).unwrap();
        (codes, Tensor::from_bytes(device, &[rows, 1], DType::F32, &vec![0; rows * 4]).unwrap())
    };
    let ((a, a_scales), (b, b_scales)) = (side(m), side(n));
    let rows = |format, codes, scales| CodedRows { format, codes, scales, kind: ScaleKind::F32, block: [1, k] };
    let (a, b) = (rows(codes.formats[0], a.view(), a_scales.view()), rows(codes.formats[1], b.view(), b_scales.view()));
    let mut c = Tensor::empty(device, &[m, n], DType::BF16).unwrap();
    q_matmul_scaled(device.stream(), &a, &b, c.view_mut()).unwrap();
}

#[test]
fn products_of_codes_have_rows_shapes_and_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let device = device(folder.path());
    let sides = [(Format::E4M3, Granularity::Token), (Format::E5M2, Granularity::Token)];
    let codes = Codes::of(sides, [5, 7, 64]).unwrap();
    let wanted = Shape::of_codes(codes, DType::BF16, [5, 7, 64]);
    assert_eq!((wanted.operator(), wanted.names()), ("codes", ["e4m3:e5m2", "line:line"].map(str::to_owned)));
    assert_eq!(Codes::of([(Format::E4M3, Granularity::Group(64)); 2], [5, 7, 640]), None, "no library's");
    for _ in 0..2 {
        multiply_codes(&device, codes, [5, 7, 64]);
    }
    assert_eq!(read_shapes(&folder.path().join("shapes.csv")).unwrap(), [wanted]);
    let path = folder.path().join("tuning.csv");
    let rows: Vec<Row> =
        [Candidate::Ours, Candidate::Vendor { choice: 9 }].map(|candidate| row(&device, wanted, candidate)).into();
    write_table(&path, &rows).unwrap();
    assert_eq!(read_table(&path).unwrap(), rows);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("line:line", "line:lines")).unwrap();
    assert!(read_table(&path).is_err(), "no such scales");
}

#[test]
fn tuning_of_codes_verifies_and_the_dispatch_takes_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { seconds: 0.0, memory_bytes: 1 << 20 };
    let tuning = device(folder.path());
    let size = [17, 24, 128];
    let ways = [Granularity::Tensor, Granularity::Token, Granularity::Mx(MxRounding::Up)];
    for (format, granularity) in [Format::E4M3, Format::I8].iter().flat_map(|&f| ways.map(|way| (f, way))) {
        if format == Format::I8 && matches!(granularity, Granularity::Mx(_)) {
            continue;
        }
        let codes = Codes::of([(format, granularity); 2], size).unwrap();
        for output in [DType::BF16, DType::F32] {
            let wanted = Shape::of_codes(codes, output, size);
            let tuned = tune(&tuning, wanted, limits, &mut |_, _, _| {}).unwrap();
            assert_eq!(tuned.row.candidate, Candidate::Ours, "an emulated device has no library");
            let rows = Tables::from_rows(&tuning, vec![tuned.row]);
            assert_eq!(rows.find(&tuning, wanted), Some(Candidate::Ours));
        }
    }
    let blocks = [(Format::E4M3, Granularity::Group(128)), (Format::E4M3, Granularity::Block(128))];
    let wanted = Shape::of_codes(Codes::of(blocks, [20, 140, 272]).unwrap(), DType::F16, [20, 140, 272]);
    let tuned = tune(&tuning, wanted, limits, &mut |_, _, _| {}).unwrap();
    write_table(&folder.path().join("tuning.csv"), std::slice::from_ref(&tuned.row)).unwrap();
    assert_eq!(Tables::of(&device(folder.path())).find(&tuning, wanted), Some(Candidate::Ours));

    let little = Limits { memory_bytes: 100, ..limits };
    assert!(tune(&tuning, wanted, little, &mut |_, _, _| {}).unwrap_err().to_string().contains("memory"));
    let several = Shape { batches: 2, ..wanted };
    assert!(tune(&tuning, several, limits, &mut |_, _, _| {}).unwrap_err().to_string().contains("one product"));
}

#[test]
fn tuning_verifies_writes_a_row_and_the_dispatch_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { seconds: 0.0, memory_bytes: 1 << 20 };
    let tuning = device(folder.path());
    let wanted = shape(DType::F16, Lies::Nt, [17, 24, 32]);
    let mut told = Vec::new();
    let tuned = tune(&tuning, wanted, limits, &mut |done, all, next| told.push((done, all, next.to_owned()))).unwrap();
    assert_eq!(tuned.row.driver, "emulated", "no GPU reads it");
    assert_eq!(tuned.tried.len(), 2, "the time was up, but what is taken without a row was tried");
    assert!(tuned.left_out > 0 && tuned.tried.iter().all(|tried| tried.outcome.is_ok()), "{tuned:?}");
    assert_eq!(told.first().map(|told| told.2.as_str()), Some("reference"));
    write_table(&folder.path().join("tuning.csv"), std::slice::from_ref(&tuned.row)).unwrap();
    // A device that opens later finds it.
    let device = device(folder.path());
    assert_eq!(Tables::of(&device).find(&device, wanted), Some(tuned.row.candidate));
    multiply(&device, [17, 24, 32]);

    let little = Limits { memory_bytes: 100, ..limits };
    assert!(tune(&tuning, wanted, little, &mut |_, _, _| {}).unwrap_err().to_string().contains("memory"));
    assert!(tune(&tuning, shape(DType::I32, Lies::Nn, [4; 3]), limits, &mut |_, _, _| {}).is_err());
}
