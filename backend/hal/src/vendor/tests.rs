//! The orientation that libraries are given, and what the stream makes of planned products, over a driver that notes them.

use std::sync::atomic::{AtomicU64, Ordering};

use rocfire_arch::Arch;

use super::*;
use crate::noop::Noop;
use crate::{Config, DeviceId, DriverKind, Error, Tensor};

/// What a library would do with stored matrices, element by element.
fn multiply_as_a_library(columns: &ColumnMajor, k: usize, batches: usize, x: &[f64], y: &[f64]) -> Vec<f64> {
    let [rows, cols] = columns.size;
    let mut d = vec![0.0; x.len() + y.len() + rows * cols * batches * 2];
    let at = |which: usize, batch: usize, row: usize, col: usize| {
        assert!(row < columns.stored[which][0] && col < columns.stored[which][1], "outside of matrix {which}");
        (batch as i64 * columns.batch_stride[which] + row as i64 + col as i64 * columns.leading[which]) as usize
    };
    for batch in 0..batches {
        for row in 0..rows {
            for col in 0..cols {
                d[at(2, batch, row, col)] = (0..k)
                    .map(|depth| {
                        let x_at = if columns.transposed[0] { (depth, row) } else { (row, depth) };
                        let y_at = if columns.transposed[1] { (col, depth) } else { (depth, col) };
                        x[at(0, batch, x_at.0, x_at.1)] * y[at(1, batch, y_at.0, y_at.1)]
                    })
                    .sum();
            }
        }
    }
    d
}

#[test]
fn every_layout_of_the_operands_is_named_as_the_library_stores_it() {
    let (m, n, k, batches) = (3, 5, 4, 2);
    for (a_along_k, b_along_k) in [(true, false), (true, true), (false, false), (false, true)] {
        // Room beyond the rows, so that a leading stride taken for an extent shows.
        let operand = |along_k: bool, lines: usize| {
            let leading = if along_k { k } else { lines } as i64 + 2;
            let batch_stride = leading * if along_k { lines } else { k } as i64 + 7;
            Operand { leading, along_k, batch_stride, alignment_bytes: 256 }
        };
        let (a, b) = (operand(a_along_k, m), operand(b_along_k, n));
        let c = Operand { leading: n as i64 + 1, along_k: false, batch_stride: 40, alignment_bytes: 256 };
        let product = Product {
            input: DType::F32,
            coded: None,
            output: DType::F32,
            end: End::default(),
            tf32: false,
            m,
            n,
            k,
            batches,
            a,
            b,
            c,
        };
        let value = |salt: usize, at: usize| ((at * 7 + salt) % 13) as f64 - 6.0;
        let (a_data, b_data): (Vec<f64>, Vec<f64>) =
            ((0..200).map(|at| value(1, at)).collect(), (0..200).map(|at| value(5, at)).collect());
        let got = multiply_as_a_library(&product.column_major(), k, batches, &b_data, &a_data);
        let at = |operand: &Operand, batch: usize, line: usize, depth: usize| {
            let (line, depth) = (line as i64, depth as i64);
            let inner = if operand.along_k { line * operand.leading + depth } else { depth * operand.leading + line };
            (batch as i64 * operand.batch_stride + inner) as usize
        };
        for (batch, row, col) in (0..batches).flat_map(|b| (0..m).flat_map(move |r| (0..n).map(move |c| (b, r, c)))) {
            let expected: f64 =
                (0..k).map(|depth| a_data[at(&a, batch, row, depth)] * b_data[at(&b, batch, col, depth)]).sum();
            let index = batch * 40 + row * (n + 1) + col;
            assert_eq!(got[index], expected, "{a_along_k} {b_along_k}: batch {batch}, row {row}, column {col}");
        }
    }
}

#[test]
fn alignment_is_the_largest_power_of_two_up_to_256() {
    assert_eq!([0, 4096, 256, 128, 6, 1].map(alignment_of), [256, 256, 256, 128, 2, 1]);
}

/// A library that notes what it is given.
#[derive(Default)]
struct Noting {
    planned: AtomicU64,
    launched: Arc<AtomicU64>,
}

struct NotedPlan(Arc<AtomicU64>);

impl VendorGemm for Noting {
    fn name(&self) -> &str {
        "noting 1.2.3"
    }

    fn plan(&self, product: &Product, choice: usize) -> Result<Option<Arc<dyn VendorPlan>>> {
        self.planned.fetch_add(1, Ordering::Relaxed);
        if product.k == 13 {
            return Err(Error::Driver { call: "plan", name: "refused".to_owned(), code: 7 });
        }
        Ok((choice == 0).then(|| Arc::new(NotedPlan(Arc::clone(&self.launched))) as _))
    }
}

impl VendorPlan for NotedPlan {
    fn library(&self) -> &'static str {
        "noting"
    }

    fn workspace_bytes(&self) -> u64 {
        64
    }

    unsafe fn launch(&self, _at: &Addresses) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn device(config: Config) -> (Device, Arc<AtomicU64>) {
    let arch = Arch::parse("gfx942").unwrap();
    let library = Noting::default();
    let launched = Arc::clone(&library.launched);
    let mut driver = Noop::new(arch);
    driver.gemm = Some(Box::new(library));
    (Device::with_driver(DeviceId::new(DriverKind::Noop, arch, 0), config, Arc::new(driver)), launched)
}

fn square(k: usize) -> Product {
    let operand = Operand { leading: k as i64, along_k: true, batch_stride: 0, alignment_bytes: 256 };
    let (a, b, c) = (operand, operand, operand);
    Product {
        input: DType::F16,
        coded: None,
        output: DType::F16,
        end: End::default(),
        tf32: false,
        m: k,
        n: k,
        k,
        batches: 1,
        a,
        b,
        c,
    }
}

#[test]
fn a_planned_product_is_launched_profiled_and_captured_like_a_kernel() {
    let (device, launched) = device(Config::default());
    assert_eq!(device.vendor_gemm().unwrap(), "noting 1.2.3");
    let plan = device.vendor_plan(&square(16), 0).unwrap();
    let c = Tensor::empty(&device, &[16, 16], DType::F16).unwrap();
    let workspace = Buffer::new(&device, 64).unwrap();
    let work = Work { category: crate::profile::Category::Gemm, shape: &[1, 16, 16, 16], ..Work::default() };
    let address = c.view().device_address();
    let launch = |workspace: Option<&Buffer>| {
        let launch = VendorLaunch {
            label: "gemm",
            a: address,
            b: address,
            c: address,
            scales: [0; 2],
            end: [0; 2],
            output: c.buffer(),
            workspace,
            work,
        };
        // SAFETY: nothing is accessed.
        unsafe { device.stream().launch_vendor(&plan, &launch) }
    };
    assert!(matches!(launch(None), Err(Error::Shape { arg: "workspace", .. })));
    device.start_profile().unwrap();
    launch(Some(&workspace)).unwrap();
    let timeline = device.take_profile().unwrap().unwrap();
    assert_eq!((timeline.launches[0].kernel.as_str(), timeline.launches[0].operator.as_str()), ("noting", "gemm"));
    assert_eq!((device.launches(), launched.load(Ordering::Relaxed)), (1, 1));

    device.begin_capture().unwrap();
    launch(Some(&workspace)).unwrap();
    let graph = device.end_capture().unwrap();
    assert_eq!((graph.len(), launched.load(Ordering::Relaxed)), (1, 1), "recorded, not launched");
    // SAFETY: the buffers live on.
    unsafe { graph.replay() }.unwrap();
    assert_eq!(launched.load(Ordering::Relaxed), 2);
}

#[test]
fn plans_are_asked_for_once_and_refusals_are_no_errors() {
    let (device, _) = device(Config::default());
    assert!(device.vendor_plan(&square(16), 1).is_none(), "a number beyond the list");
    assert!(device.vendor_plan(&square(13), 0).is_none(), "an error of the library's");
    for _ in 0..3 {
        assert!(device.vendor_plan(&square(16), 0).is_some());
    }
}

#[test]
fn a_library_that_is_switched_off_plans_nothing() {
    let (device, _) = device(Config::default().with_vendor(false));
    assert!(device.vendor_gemm().unwrap_err().contains("ROCFIRE_VENDOR"));
    assert!(device.vendor_plan(&square(16), 0).is_none());
}
