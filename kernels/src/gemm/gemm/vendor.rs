//! Products that go to the vendor's library: which, and how they are described to it.

use rocfire_hal::vendor::{End, Operand as Described, Plan, Product as Whole, VendorLaunch, alignment_of};
use rocfire_hal::{Buffer, DType, Device, DriverKind, Stream, Tensor, View, ViewMut};

use super::{GemmParams, OP, Operand, Product, check, check_output, lowered, machine, output_shape};
use crate::Result;
use crate::attached::Attached;
use crate::gemm::choice::{apart_pays, is_sliced, oblong_pays, vendor_pays};
use crate::tuning::Candidate;

/// Whether [`gemm`](super::gemm) would take our own kernels for this product, as [`gemm_fused`](super::gemm_fused) always does:
/// for callers who may put the operators behind a product into its launch, or leave it to the vendor's library where that is
/// faster. Runs nothing; `c` is only looked at.
///
/// # Errors
/// As [`gemm`](super::gemm), but for those of compilation and launch.
pub fn is_ours(stream: &Stream, a: View<'_>, b: View<'_>, c: ViewMut<'_>, params: &GemmParams) -> Result<bool> {
    check(stream, &a, &b, c.dtype())?;
    check_output(stream, &a, &b, "c", &c)?;
    let lowered = lowered(stream, a.dtype());
    let product = Product::new(stream, a, b, c.view(), None);
    let tf32 = params.tf32 && product.input == DType::F32;
    Ok(c.is_empty() || Product { tf32, input: lowered.unwrap_or(product.input), ..product }.is_ours())
}

/// `a · b` in memory of its own, contiguous, where the vendor's library and a launch for what follows take less time than
/// [`gemm_fused`](super::gemm_fused) does; `None` elsewhere: nothing was launched. The bits are those of [`gemm`](super::gemm).
///
/// # Errors
/// As [`gemm`](super::gemm).
pub fn gemm_apart(stream: &Stream, a: View<'_>, b: View<'_>) -> Result<Option<Tensor>> {
    check(stream, &a, &b, a.dtype())?;
    let device = stream.device();
    let shape = output_shape(a.shape(), b.shape())?;
    let pairs = shape.iter().product::<usize>().saturating_mul(a.shape()[a.shape().len() - 1]);
    let may_pay = |sliced| apart_pays(device.arch(), a.dtype(), pairs, sliced);
    if !is_real(&device) || !may_pay(true) {
        return Ok(None);
    }
    let mut c = Tensor::empty(&device, &shape, a.dtype())?;
    let view = c.view_mut();
    let product = Product::new(stream, a, b, view.view(), None);
    let plan = if may_pay(product.is_sliced()?) { product.dispatched() } else { None };
    let Some(plan) = plan else { return Ok(None) };
    product.multiply_by(&plan)?;
    Ok(Some(c))
}

/// Whether the device is a card.
pub(crate) fn is_real(device: &Device) -> bool {
    matches!(device.id().driver(), DriverKind::Hip | DriverKind::Cuda)
}

impl Product<'_> {
    /// Whether the dispatch takes our own kernels.
    fn is_ours(&self) -> bool {
        self.dispatched().is_none()
    }

    /// Whether our own kernels would cut K.
    fn is_sliced(&self) -> Result<bool> {
        let device = self.stream.device();
        let machine = machine(&device);
        let tiling = self.tiling(&GemmParams::default(), self.unit(), machine)?;
        Ok(is_sliced(&tiling, machine, [self.m, self.n, self.k], self.extents.iter().product()))
    }

    /// The library's plan, where the dispatch takes that.
    fn dispatched(&self) -> Option<Plan> {
        match self.tuned() {
            Some(Candidate::Tiling { .. } | Candidate::Ours) => None,
            Some(Candidate::Vendor { choice }) => self.plan(choice),
            None => self.preferred_plan(),
        }
    }

    /// What the tables say of it: nothing of rounded factors, with which nothing was measured.
    pub(super) fn tuned(&self) -> Option<Candidate> {
        let device = self.stream.device();
        (!self.tf32).then(|| Attached::of(&device).tables(&device).find(&device, self.shape())).flatten()
    }

    /// The library's plan for this product where the heuristic sends it there: large enough, and the bits may be the library's.
    /// What is tuned decides in a deterministic run, since only there repeats were compared.
    pub(super) fn preferred_plan(&self) -> Option<Plan> {
        let device = self.stream.device();
        let batches = self.extents.iter().product();
        let (arch, size) = (device.arch(), [self.m, self.n, self.k]);
        let pays = vendor_pays(arch, self.input, size, batches)
            && (self.tf32 || !oblong_pays(arch, self.input, size, batches, machine(&device)));
        (is_real(&device) && pays && !device.deterministic()).then(|| self.plan(0)).flatten()
    }

    /// The library's plan number `choice`; `None` where there is no library, or it cannot do this product.
    pub(super) fn plan(&self, choice: usize) -> Option<Plan> {
        let (whole, _) = self.described()?;
        self.stream.device().vendor_plan(&whole, choice)
    }

    /// Multiplies by a plan.
    pub(super) fn multiply_by(&self, plan: &Plan) -> Result<()> {
        let (_, swapped) = self.described().expect("what was planned was described");
        let device = self.stream.device();
        let workspace = match plan.workspace_bytes() {
            0 => None,
            bytes => Some(Buffer::new(&device, bytes)?),
        };
        let batches: usize = self.extents.iter().product();
        let shape = [batches, self.m, self.n, self.k];
        let (a, b) = if swapped { (&self.b, &self.a) } else { (&self.a, &self.b) };
        let launch = VendorLaunch {
            label: OP,
            a: a.address,
            b: b.address,
            c: self.c.address,
            scales: [0; 2],
            end: [0; 2],
            output: self.c_buffer,
            workspace: workspace.as_ref(),
            work: self.work(&shape),
        };
        // SAFETY:
        // - The plan is for this product's description, whose shapes and strides are those of checked views, each inside its
        //   buffer, and whose alignment is that of these addresses; C is in `c_buffer`, apart from A and B.
        unsafe { self.stream.launch_vendor(plan, &launch)? };
        Ok(())
    }

    /// The product as libraries take it, and whether it is the transposed one, with the operands exchanged: C is then stored by
    /// columns. `None` for what they cannot express: an operand without a contiguous axis, or read backwards, more than one
    /// batch axis, an epilogue.
    fn described(&self) -> Option<(Whole, bool)> {
        if self.epilogue.is_some() || self.axes > 1 || self.k == 0 {
            return None;
        }
        let rows_lie = self.c.depth == 1 || self.n == 1;
        let swapped = !rows_lie;
        let turned = Operand { line: self.c.depth, depth: self.c.line, ..self.c };
        let ([a, b, c], [m, n]) = match swapped {
            false => ([&self.a, &self.b, &self.c], [self.m, self.n]),
            true => ([&self.b, &self.a, &turned], [self.n, self.m]),
        };
        let batches = self.extents[0];
        let along_k = |operand: &Operand, lines: usize| {
            if operand.depth == 1 || self.k == 1 && operand.line != 1 {
                describe(operand, true, [operand.line, lines as i64], self.k, batches)
            } else if operand.line == 1 || lines == 1 {
                describe(operand, false, [operand.depth, self.k as i64], lines, batches)
            } else {
                None
            }
        };
        let (a, b) = (along_k(a, m)?, along_k(b, n)?);
        if c.depth != 1 && n > 1 {
            return None;
        }
        let c = describe(c, false, [c.line, m as i64], n, batches)?;
        let whole = Whole {
            input: self.input,
            coded: None,
            output: self.output,
            end: End::default(),
            tf32: self.tf32,
            m,
            n,
            k: self.k,
            batches,
            a,
            b,
            c,
        };
        Some((whole, swapped))
    }
}

/// An operand whose runs of `run` contiguous elements are `leading` apart, `count` of them; `None` where they overlap or run
/// backwards.
fn describe(
    operand: &Operand,
    along_k: bool,
    [leading, count]: [i64; 2],
    run: usize,
    batches: usize,
) -> Option<Described> {
    // A single run has no stride of its own.
    let leading = if count == 1 { run as i64 } else { leading };
    let batch_stride = if batches == 1 { 0 } else { operand.batch[0] };
    let fits = leading >= run as i64 && batch_stride >= 0;
    let alignment_bytes = alignment_of(operand.address);
    fits.then_some(Described { leading, along_k, batch_stride, alignment_bytes })
}

#[cfg(test)]
mod tests {
    use rocfire_hal::Layout;

    use super::*;
    use crate::testing::device;

    /// What a product of these layouts is described as; shapes are `[.., rows, cols]`, `true` for stored transposed.
    fn described(a: (&[usize], bool), b: (&[usize], bool), c: (&[usize], bool)) -> Option<(Whole, bool)> {
        let device = device();
        let tensor = |(shape, turned): (&[usize], bool)| {
            let rank = shape.len();
            let mut stored = shape.to_vec();
            if turned {
                stored.swap(rank - 2, rank - 1);
            }
            let tensor = Tensor::empty(&device, &stored, DType::F16).unwrap();
            let layout = if turned { tensor.layout().swap(rank - 2, rank - 1).unwrap() } else { *tensor.layout() };
            (tensor, layout)
        };
        let ((a, a_layout), (b, b_layout), (c, c_layout)) = (tensor(a), tensor(b), tensor(c));
        fn view(tensor: &Tensor, layout: Layout) -> rocfire_hal::View<'_> {
            tensor.view().with_layout(layout).unwrap()
        }
        let product = Product::new(device.stream(), view(&a, a_layout), view(&b, b_layout), view(&c, c_layout), None);
        product.described()
    }

    #[test]
    fn every_way_of_storing_is_described_without_a_copy() {
        let (plain, turned) = (false, true);
        for (a_turned, b_turned) in [(plain, plain), (plain, turned), (turned, plain), (turned, turned)] {
            let (whole, swapped) = described((&[3, 5], a_turned), (&[5, 7], b_turned), (&[3, 7], plain)).unwrap();
            assert_eq!((whole.m, whole.n, whole.k, swapped), (3, 7, 5, false));
            assert_eq!((whole.a.along_k, whole.a.leading), (!a_turned, if a_turned { 3 } else { 5 }));
            assert_eq!((whole.b.along_k, whole.b.leading), (b_turned, if b_turned { 5 } else { 7 }));
            assert_eq!(whole.c.leading, 7);
        }
    }

    #[test]
    fn a_result_stored_by_columns_is_the_transposed_product() {
        let (whole, swapped) = described((&[3, 5], false), (&[5, 7], false), (&[3, 7], true)).unwrap();
        assert_eq!((whole.m, whole.n, whole.k, swapped), (7, 3, 5, true));
        assert_eq!((whole.a.along_k, whole.a.leading), (false, 7), "the factor that comes first is B");
        assert_eq!((whole.b.along_k, whole.b.leading), (true, 5));
        assert_eq!(whole.c.leading, 3);
    }

    #[test]
    fn batches_have_one_stride_and_a_shared_factor_none() {
        let (whole, _) = described((&[4, 3, 5], false), (&[4, 5, 7], false), (&[4, 3, 7], false)).unwrap();
        let strides = [whole.a, whole.b, whole.c].map(|operand| operand.batch_stride);
        assert_eq!((whole.batches, strides), (4, [15, 35, 21]));
        let (whole, _) = described((&[1, 3, 5], false), (&[4, 5, 7], false), (&[4, 3, 7], false)).unwrap();
        assert_eq!((whole.batches, whole.a.batch_stride), (4, 0));
        // A batch over one B is one larger product.
        let (whole, _) = described((&[4, 3, 5], false), (&[5, 7], false), (&[4, 3, 7], false)).unwrap();
        assert_eq!((whole.batches, whole.m), (1, 12));
    }

    #[test]
    fn what_libraries_cannot_express_is_not_described() {
        assert!(described((&[2, 1, 3, 5], false), (&[1, 4, 5, 7], false), (&[2, 4, 3, 7], false)).is_none());
        assert!(described((&[3, 0], false), (&[0, 7], false), (&[3, 7], false)).is_none());
    }

    #[test]
    fn single_rows_and_columns_have_no_stride_to_go_wrong() {
        let (whole, _) = described((&[1, 5], true), (&[5, 7], false), (&[1, 7], false)).unwrap();
        assert!(whole.a.leading >= if whole.a.along_k { 5 } else { 1 });
        let (whole, _) = described((&[3, 1], false), (&[1, 7], false), (&[3, 7], false)).unwrap();
        assert_eq!((whole.k, whole.b.along_k, whole.b.leading), (1, false, 7));
        let (whole, _) = described((&[3, 5], false), (&[5, 1], false), (&[3, 1], false)).unwrap();
        assert_eq!((whole.n, whole.c.leading), (1, 1));
    }
}
