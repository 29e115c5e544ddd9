//! Attention written out: `softmax(q · kᵀ, scaled and masked) · v` as a product, elementwise operators, the operators of a
//! softmax over the last axis, and a product.
//!
//! ```text
//! scores  = q · kt
//! scores  = scores * n | scores / n | cast(scores)                 any number of times
//! scores  = tanh(scores), then again factors                       at most once: the soft-cap
//! scores  = scores + bias                                          any number of times
//! scores  = fill(scores, mask, n)                                  any number of times, casts between
//! scores  = fill(scores, all(mask), n)                             at most once, of the last mask: the guard
//! most    = row_max(scores);  e = exp(scores - most);  weights = e / row_sum(e)
//! weights = cast(weights)                                          any number of times
//! weights = fill(weights, mask, 0)                                 at most once, of the last mask
//! out     = weights · v
//! ```
//!
//! Filled scores count as minus infinity where they are filled with that, and a row that sees nothing gives zeros where the
//! operators give NaN. Filled with a number, they are filled with a lower one that absorbs every score, so that a row that
//! sees nothing is the mean of the values, as the operators make it. Where weights are filled with 0 behind, by the mask that filled
//! the scores with minus infinity, rows that see nothing are zeros in the operators, too; a guard makes their scores finite
//! meanwhile, which nobody sees.

use rocfire_fusion::{Draft, Graph, Scalar, Term, run};
use rocfire_hal::{DType, Layout, MAX_RANK, Stream, Tensor, View};

use crate::Result;
use crate::attention::{AttentionInputs, AttentionParams, attention, takes_depth};
use crate::family::{shape, sum_dtype};

/// Scores filled with more than this may have a weight beside others: such a pattern is left to the operators.
const FILLED_MOST: f64 = -1.0e3;
/// What finite fills become: added to a score of any size that occurs, it is itself.
const ABSORBING: f64 = -1.0e30;

/// One operator of a program. `V` names tensors; scalars have numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProgramOp<V> {
    /// A matrix product over the last two axes.
    Product(V, V),
    /// Times a scalar, or divided by it.
    Scale(V, Factor),
    /// The hyperbolic tangent.
    Tanh(V),
    /// A sum.
    Add(V, V),
    /// A difference.
    Sub(V, V),
    /// A quotient.
    Div(V, V),
    /// The second where the first, a mask, is true: a scalar.
    Fill(V, V, u64),
    /// The second in rows where the first, a mask, is true throughout: a scalar. Two operators, the other one that of the rows.
    FillRows(V, V, u64),
    /// Another float type.
    Cast(V),
    /// The exponential.
    Exp(V),
    /// The largest element along the last axis, which stays with extent 1.
    RowMax(V),
    /// The sum along the last axis, which stays with extent 1.
    RowSum(V),
}

/// A scalar that multiplies or divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Multiplies.
    Times(u64),
    /// Divides.
    Over(u64),
}

/// What is done to the scaled scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Masking<V> {
    Bias(V),
    Fill(V, u64),
}

/// How far a program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage<V> {
    Scores { now: V },
    Most { scores: V, most: V },
    Shifted { now: V },
    Exponentials { now: V },
    Summed { exponentials: V, sum: V },
    Weights { now: V },
    Whole { value: V, out: V },
}

/// Attention as far as a program has written it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention<V> {
    query: V,
    key_transposed: V,
    /// Of the products, and behind the soft-cap.
    factors: [Vec<Factor>; 2],
    is_capped: bool,
    masking: Vec<Masking<V>>,
    /// What rows that see nothing are filled with before the softmax.
    guard: Option<u64>,
    /// What weights that the last mask hides are filled with.
    cleared: Option<u64>,
    stage: Stage<V>,
    steps: usize,
}

impl<V: Copy + Eq> Attention<V> {
    /// A program whose last operator is `scores = query · key_transposed`.
    pub fn start(query: V, key_transposed: V, scores: V) -> Attention<V> {
        Attention {
            query,
            key_transposed,
            factors: [vec![], vec![]],
            is_capped: false,
            masking: vec![],
            guard: None,
            cleared: None,
            stage: Stage::Scores { now: scores },
            steps: 1,
        }
    }

    /// The mask that filled scores last, if nothing was done to them since.
    pub fn hides_by(&self) -> Option<V> {
        match self.masking.last() {
            Some(Masking::Fill(mask, _)) => Some(*mask),
            Some(Masking::Bias(_)) | None => None,
        }
    }

    /// Goes on with an operator that gives `out`; false if that is not how attention goes on.
    #[must_use]
    pub fn take(&mut self, step: ProgramOp<V>, out: V) -> bool {
        let next = match (self.stage, step) {
            (Stage::Scores { now }, step) => self.score(now, step, out),
            (Stage::Most { scores, most }, ProgramOp::Sub(a, b)) if [a, b] == [scores, most] => {
                Some(Stage::Shifted { now: out })
            }
            (Stage::Shifted { now }, ProgramOp::Exp(x)) if x == now => Some(Stage::Exponentials { now: out }),
            (Stage::Exponentials { now }, ProgramOp::RowSum(x)) if x == now => {
                Some(Stage::Summed { exponentials: now, sum: out })
            }
            (Stage::Summed { exponentials, sum }, ProgramOp::Div(a, b)) if [a, b] == [exponentials, sum] => {
                Some(Stage::Weights { now: out })
            }
            (Stage::Weights { now }, ProgramOp::Cast(x)) if x == now => Some(Stage::Weights { now: out }),
            (Stage::Weights { now }, ProgramOp::Fill(mask, x, number))
                if x == now && self.hides_by() == Some(mask) && self.cleared.is_none() =>
            {
                self.cleared = Some(number);
                Some(Stage::Weights { now: out })
            }
            (Stage::Weights { now }, ProgramOp::Product(a, b)) if a == now && b != now => {
                Some(Stage::Whole { value: b, out })
            }
            _ => None,
        };
        self.steps += if matches!(step, ProgramOp::FillRows(..)) { 2 } else { 1 };
        self.stage = next.unwrap_or(self.stage);
        next.is_some()
    }

    fn score(&mut self, now: V, step: ProgramOp<V>, out: V) -> Option<Stage<V>> {
        let is_unmasked = self.masking.is_empty();
        match step {
            ProgramOp::Scale(x, factor) if x == now && is_unmasked => {
                self.factors[usize::from(self.is_capped)].push(factor);
            }
            ProgramOp::Tanh(x) if x == now && is_unmasked && !self.is_capped => self.is_capped = true,
            ProgramOp::Add(a, b) if (a == now) != (b == now) => {
                // What is added to a filled score would have to be known.
                if self.masking.iter().any(|masking| matches!(masking, Masking::Fill(..))) {
                    return None;
                }
                self.masking.push(Masking::Bias(if a == now { b } else { a }));
            }
            ProgramOp::Fill(mask, x, number) if x == now && mask != now && self.guard.is_none() => {
                self.masking.push(Masking::Fill(mask, number))
            }
            ProgramOp::FillRows(mask, x, number)
                if x == now && self.hides_by() == Some(mask) && self.guard.is_none() =>
            {
                self.guard = Some(number);
            }
            ProgramOp::Cast(x) if x == now => {}
            ProgramOp::RowMax(x) if x == now => return Some(Stage::Most { scores: now, most: out }),
            _ => return None,
        }
        Some(Stage::Scores { now: out })
    }

    /// What the program gives, if it is whole.
    pub fn output(&self) -> Option<V> {
        match self.stage {
            Stage::Whole { out, .. } => Some(out),
            _ => None,
        }
    }

    /// How many operators it is.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The tensors that it reads, once it is whole.
    pub fn inputs(&self) -> Vec<V> {
        let masking = self.masking.iter().map(|masking| match masking {
            Masking::Bias(tensor) | Masking::Fill(tensor, _) => *tensor,
        });
        let value = match self.stage {
            Stage::Whole { value, .. } => Some(value),
            _ => None,
        };
        [self.query, self.key_transposed].into_iter().chain(value).chain(masking).collect()
    }

    /// Whether the kernel is these operators for tensors of these shapes and types, and these scalars.
    pub fn fits<'a>(&self, shape: impl Fn(V) -> (&'a [usize], DType), number: impl Fn(u64) -> f64) -> bool {
        let Stage::Whole { value, .. } = self.stage else { return false };
        let [(q, dtype), (kt, kt_dtype), (v, v_dtype)] = [self.query, self.key_transposed, value].map(&shape);
        let rank = q.len();
        if ![3, 4].contains(&rank) || kt.len() != rank || v.len() != rank || !dtype.is_float() {
            return false;
        }
        let heads = |shape: &[usize]| if rank == 4 { shape[1] } else { 1 };
        let (depth, columns) = (q[rank - 1], kt[rank - 1]);
        let is_empty = [q, kt, v].iter().any(|shape| shape.contains(&0));
        let shapes = kt[0] == q[0]
            && v[0] == q[0]
            && heads(v) == heads(kt)
            && kt[rank - 2] == depth
            && v[rank - 2] == columns
            && !is_empty
            && heads(q).is_multiple_of(heads(kt));
        let masks = self.masking.iter().all(|masking| match masking {
            Masking::Bias(bias) => shape(*bias).0.len() == rank && shape(*bias).1.is_float(),
            Masking::Fill(mask, by) => {
                let by = number(*by);
                shape(*mask).0.len() == rank && shape(*mask).1 == DType::Bool && by <= FILLED_MOST
            }
        });
        let masks = masks && self.clears(&number);
        let depths = takes_depth(depth) && takes_depth(v[rank - 1]);
        shapes && depths && masks && self.params(number).is_some() && kt_dtype == dtype && v_dtype == dtype
    }

    /// Whether rows that see nothing are zeros, where something was done about them.
    fn clears(&self, number: impl Fn(u64) -> f64) -> bool {
        let hidden = match self.masking.last() {
            Some(Masking::Fill(_, by)) => number(*by) == f64::NEG_INFINITY,
            Some(Masking::Bias(_)) | None => false,
        };
        match (self.guard, self.cleared) {
            (None, None) => true,
            (Some(_), None) => false,
            (guard, Some(by)) => hidden && number(by) == 0.0 && guard.is_none_or(|by| number(by).is_finite()),
        }
    }

    /// Scale and soft-cap; `None` where the kernel has none like them.
    pub fn params(&self, number: impl Fn(u64) -> f64) -> Option<AttentionParams> {
        let (scale, cap) = (self.factor(0, &number), self.factor(1, &number));
        let fits = scale.is_finite() && cap.is_finite() && !(self.is_capped && cap <= 0.0);
        let softcap = self.is_capped.then_some(cap);
        fits.then(|| AttentionParams { scale: Some(scale * cap), softcap, ..AttentionParams::default() })
    }

    /// What is added to the scores, if nothing else is done to them once they are scaled.
    pub fn biases(&self) -> Option<Vec<V>> {
        let bias = |masking: &Masking<V>| match *masking {
            Masking::Bias(bias) => Some(bias),
            Masking::Fill(..) => None,
        };
        self.masking.iter().map(bias).collect()
    }

    fn factor(&self, at: usize, number: impl Fn(u64) -> f64) -> f64 {
        let factors = self.factors[at].iter();
        factors.fold(1.0, |product, factor| match factor {
            Factor::Times(by) => product * number(*by),
            Factor::Over(by) => product / number(*by),
        })
    }

    /// The output, in one launch, or two where several masks and biases must be made one. Its rows lie as `[batch, rows, heads,
    /// depth]`, which is what a program wants that goes on to join the heads.
    ///
    /// # Errors
    /// As [`attention`]'s, for tensors that [`Attention::fits`] refuses too.
    pub fn run<'a>(
        &self,
        stream: &Stream,
        tensor: impl Fn(V) -> &'a Tensor,
        number: impl Fn(u64) -> f64,
    ) -> Result<Tensor> {
        let Stage::Whole { value, .. } = self.stage else { unreachable!("only a whole pattern is run") };
        let [q, kt, v] = [self.query, self.key_transposed, value].map(|input| tensor(input).view());
        let dtype = q.dtype();
        let rank = q.shape().len();
        let k = kt.with_layout(swapped(kt.layout())?)?;
        let [q, k, v] = [with_heads(q)?, with_heads(k)?, with_heads(v)?];
        let unfit = || shape("attention", "scale", "finite, with a positive soft-cap", self.factor(0, &number));
        let mut params = self.params(&number).ok_or_else(unfit)?;
        let masking = self.masks(stream, dtype, &tensor, &number)?;
        let mut inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        match &masking {
            None => {}
            Some(Mask::Hidden(mask)) => inputs.mask = Some(with_heads(tensor(*mask).view())?),
            Some(Mask::Filled(mask)) => {
                inputs.mask = Some(with_heads(tensor(*mask).view())?);
                params.masked = Some(ABSORBING);
            }
            Some(Mask::Added(bias)) => inputs.bias = Some(with_heads(tensor(*bias).view())?),
            Some(Mask::Made(bias)) => inputs.bias = Some(with_heads(bias.view())?),
        }
        let (own, depth) = (q.shape(), v.shape()[3]);
        let [batch, heads, rows] = [own[0], own[1], own[2]];
        let mut out = Tensor::empty(&stream.device(), &[batch, rows, heads, depth], dtype)?;
        let strides = [rows * heads * depth, depth, heads * depth, 1].map(|stride| stride as i64);
        let layout = Layout::strided(&[batch, heads, rows, depth], &strides, 0)?;
        attention(stream, &inputs, &params, out.view_mut().with_layout(layout)?, None)?;
        if rank == 3 {
            return Ok(out.with_layout(Layout::contiguous(&[batch, rows, depth])?)?);
        }
        Ok(out.with_layout(layout)?)
    }

    /// All masks and biases as one tensor.
    fn masks<'a>(
        &self,
        stream: &Stream,
        dtype: DType,
        tensor: &impl Fn(V) -> &'a Tensor,
        number: &impl Fn(u64) -> f64,
    ) -> Result<Option<Mask<V>>> {
        match self.masking.as_slice() {
            [] => return Ok(None),
            [Masking::Bias(bias)] => return Ok(Some(Mask::Added(*bias))),
            [Masking::Fill(mask, by)] if number(*by) == f64::NEG_INFINITY => return Ok(Some(Mask::Hidden(*mask))),
            [Masking::Fill(mask, _)] => return Ok(Some(Mask::Filled(*mask))),
            _ => {}
        }
        let real = sum_dtype(dtype);
        let sources: Vec<&Tensor> = self
            .masking
            .iter()
            .map(|masking| match masking {
                Masking::Bias(source) | Masking::Fill(source, _) => tensor(*source),
            })
            .collect();
        let shape = broadcast(&sources);
        let inputs = sources.iter().map(|source| Ok(source.view().with_layout(expanded(source.layout(), &shape)?)?));
        let inputs = inputs.collect::<Result<Vec<View<'_>>>>()?;
        let fills = self.masking.iter().filter_map(|masking| match masking {
            Masking::Fill(_, by) => Some(number(*by)),
            Masking::Bias(_) => None,
        });
        let fills = fills.map(|by| Scalar::Float(if by == f64::NEG_INFINITY { by } else { ABSORBING }));
        let mut made = Tensor::empty(&stream.device(), &shape, real)?;
        let graph = self.mask_graph(real, &sources);
        run(stream, &graph, &shape, &inputs, &fills.collect::<Vec<_>>(), &mut [made.view_mut()])?;
        Ok(Some(Mask::Made(made)))
    }

    fn mask_graph(&self, real: DType, sources: &[&Tensor]) -> Graph {
        Draft::graph("attention_mask", |g| {
            let inputs: Vec<Term<'_>> = sources.iter().map(|source| g.input(source.dtype())).collect();
            let mut now: Option<Term<'_>> = None;
            for (masking, input) in self.masking.iter().zip(inputs) {
                now = Some(match (masking, now) {
                    (Masking::Bias(_), None) => input.cast(real),
                    (Masking::Bias(_), Some(sum)) => sum + input.cast(real),
                    (Masking::Fill(..), now) => {
                        let below = now.unwrap_or_else(|| g.constant(real, 0.0));
                        input.choose(g.scalar(real), below)
                    }
                });
            }
            now.expect("there is something to make one of")
        })
    }
}

enum Mask<V> {
    Hidden(V),
    /// With what absorbs every score.
    Filled(V),
    Added(V),
    Made(Tensor),
}

/// A layout with its last two axes exchanged.
fn swapped(layout: &Layout) -> Result<Layout> {
    let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    let rank = shape.len();
    shape.swap(rank - 2, rank - 1);
    strides.swap(rank - 2, rank - 1);
    Ok(Layout::strided(&shape, &strides, layout.offset())?)
}

/// A tensor of three axes with one head.
fn with_heads(view: View<'_>) -> Result<View<'_>> {
    let layout = view.layout();
    if layout.rank() != 3 {
        return Ok(view);
    }
    let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
    shape.insert(1, 1);
    strides.insert(1, 0);
    let layout = Layout::strided(&shape, &strides, layout.offset())?;
    Ok(view.with_layout(layout)?)
}

/// The shape that tensors of equal rank broadcast to.
fn broadcast(tensors: &[&Tensor]) -> Vec<usize> {
    let rank = tensors.first().map_or(0, |tensor| tensor.shape().len());
    debug_assert!(rank <= MAX_RANK, "tensors have at most that many axes");
    let extent =
        |axis: usize| tensors.iter().map(|tensor| tensor.shape()[axis]).find(|extent| *extent != 1).unwrap_or(1);
    (0..rank).map(extent).collect()
}

fn expanded(layout: &Layout, shape: &[usize]) -> Result<Layout> {
    let own = layout.shape().iter().zip(layout.strides()).zip(shape);
    let strides: Vec<i64> = own.map(|((own, stride), extent)| if own == extent { *stride } else { 0 }).collect();
    Ok(Layout::strided(shape, &strides, layout.offset())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tensors are letters: q, k (transposed), m and b outside, capitals inside.
    fn matched(steps: &[(ProgramOp<char>, char)]) -> Option<Attention<char>> {
        let mut attention = Attention::start('q', 'k', 'S');
        steps.iter().all(|(step, out)| attention.take(*step, *out)).then_some(attention)
    }

    fn softmax(scores: char) -> [(ProgramOp<char>, char); 5] {
        [
            (ProgramOp::RowMax(scores), 'M'),
            (ProgramOp::Sub(scores, 'M'), 'D'),
            (ProgramOp::Exp('D'), 'E'),
            (ProgramOp::RowSum('E'), 'Z'),
            (ProgramOp::Div('E', 'Z'), 'W'),
        ]
    }

    fn whole(before: &[(ProgramOp<char>, char)], scores: char) -> Option<Attention<char>> {
        let last = [(ProgramOp::Product('W', 'v'), 'O')];
        matched(&before.iter().chain(&softmax(scores)).chain(&last).copied().collect::<Vec<_>>())
    }

    #[test]
    fn attention_with_everything_is_recognised() {
        let steps = [
            (ProgramOp::Scale('S', Factor::Over(0)), 'A'),
            (ProgramOp::Tanh('A'), 'B'),
            (ProgramOp::Scale('B', Factor::Times(1)), 'C'),
            (ProgramOp::Cast('C'), 'F'),
            (ProgramOp::Add('b', 'F'), 'G'),
            (ProgramOp::Fill('m', 'G', 2), 'H'),
        ];
        let attention = whole(&steps, 'H').unwrap();
        assert_eq!(attention.output(), Some('O'));
        assert_eq!(attention.inputs(), ['q', 'k', 'v', 'b', 'm']);
        assert_eq!(attention.steps(), 13);
        // q · k / 4 in the tangent, times 20: a soft-cap of 20 of scores times 5.
        let number = |at: u64| [4.0, 20.0][at as usize];
        assert_eq!(attention.factor(0, number) * attention.factor(1, number), 5.0);
    }

    #[test]
    fn what_is_not_attention_is_refused() {
        assert!(whole(&[], 'S').is_some());
        let bent = [(ProgramOp::Tanh('S'), 'A'), (ProgramOp::Tanh('A'), 'B')];
        assert!(matched(&bent).is_none(), "two soft-caps");
        let late = [(ProgramOp::Fill('m', 'S', 0), 'A'), (ProgramOp::Scale('A', Factor::Over(1)), 'B')];
        assert!(matched(&late).is_none(), "a fill that is scaled");
        let added = [(ProgramOp::Fill('m', 'S', 0), 'A'), (ProgramOp::Add('A', 'b'), 'B')];
        assert!(matched(&added).is_none(), "a fill that is added to");
        assert!(matched(&[(ProgramOp::Add('S', 'S'), 'A')]).is_none(), "scores twice");
        assert!(matched(&[(ProgramOp::Exp('S'), 'A')]).is_none(), "no maximum is taken off");
        let mut other = softmax('S');
        other[1].0 = ProgramOp::Sub('M', 'S');
        assert!(matched(&other).is_none(), "the difference the other way round");
        let mut chained = softmax('S').to_vec();
        chained.push((ProgramOp::Product('v', 'W'), 'O'));
        assert!(matched(&chained).is_none(), "weights on the right");
    }

    /// As Burn 0.23 has it.
    fn guarded() -> Vec<(ProgramOp<char>, char)> {
        let before = [(ProgramOp::Fill('m', 'S', 0), 'A'), (ProgramOp::FillRows('m', 'A', 1), 'B')];
        let behind = [(ProgramOp::Fill('m', 'W', 1), 'X'), (ProgramOp::Product('X', 'v'), 'O')];
        before.into_iter().chain(softmax('B')).chain(behind).collect()
    }

    #[test]
    fn rows_that_see_nothing_are_zeros_behind_a_guard() {
        let attention = matched(&guarded()).unwrap();
        assert_eq!((attention.output(), attention.steps()), (Some('O'), 11));
        assert_eq!(attention.inputs(), ['q', 'k', 'v', 'm']);
        let shape = |tensor| match tensor {
            'q' => (&[2, 4, 5, 8][..], DType::F32),
            'k' => (&[2, 4, 8, 7][..], DType::F32),
            'v' => (&[2, 4, 7, 16][..], DType::F32),
            _ => (&[2, 1, 1, 7][..], DType::Bool),
        };
        let fits = |attention: &Attention<char>, hides: f64, by: f64| {
            attention.fits(shape, |number| if number == 0 { hides } else { by })
        };
        assert!(fits(&attention, f64::NEG_INFINITY, 0.0));
        assert!(!fits(&attention, -1.0e4, 0.0), "a finite fill leaves the mean of the values");
        assert!(!fits(&attention, f64::NEG_INFINITY, 1.0), "weights are filled with something");
        let mut uncleared = guarded();
        uncleared.remove(7);
        uncleared[7].0 = ProgramOp::Product('W', 'v');
        assert!(
            !fits(&matched(&uncleared).unwrap(), f64::NEG_INFINITY, 0.0),
            "the guard's rows are the mean of the values"
        );
        let mut other = guarded();
        other[1].0 = ProgramOp::FillRows('n', 'A', 1);
        assert!(matched(&other).is_none(), "rows of another mask");
        let mut other = guarded();
        other[7].0 = ProgramOp::Fill('n', 'W', 1);
        assert!(matched(&other).is_none(), "weights of another mask");
        let late = [guarded()[0], guarded()[1], (ProgramOp::Fill('n', 'B', 0), 'C')];
        assert!(matched(&late).is_none(), "a fill behind the guard");
        let added = [guarded()[0], guarded()[1], (ProgramOp::Add('B', 'b'), 'C')];
        assert!(matched(&added).is_none(), "a bias behind the guard");
    }

    #[test]
    fn shapes_types_and_fills_decide_whether_it_fits() {
        let attention = whole(&[(ProgramOp::Fill('m', 'S', 0), 'A')], 'A').unwrap();
        let fits = |q: [usize; 4], k: [usize; 4], mask: DType, fill: f64| {
            let v = [k[0], k[1], k[3], 16];
            let shape = |tensor| match tensor {
                'q' => (&q[..], DType::F32),
                'k' => (&k[..], DType::F32),
                'v' => (&v[..], DType::F32),
                _ => (&[1, 1, 1, 7][..], mask),
            };
            // The shapes outlive the closure that lends them.
            let shapes = ['q', 'k', 'v', 'm'].map(|tensor| (tensor, shape(tensor).0.to_vec(), shape(tensor).1));
            let known = |tensor| {
                let (_, shape, dtype) = shapes.iter().find(|(name, ..)| *name == tensor).unwrap();
                (shape.as_slice(), *dtype)
            };
            attention.fits(known, |_| fill)
        };
        let (q, k) = ([2, 4, 5, 8], [2, 4, 8, 7]);
        assert!(fits(q, k, DType::Bool, -1.0e4));
        assert!(fits(q, k, DType::Bool, f64::NEG_INFINITY));
        assert!(fits(q, [2, 2, 8, 7], DType::Bool, -1.0e4), "shared heads");
        assert!(!fits(q, k, DType::Bool, -1.0), "a fill beside which others have no weight of one");
        assert!(!fits(q, k, DType::U8, -1.0e4), "no mask");
        assert!(!fits(q, [1, 4, 8, 7], DType::Bool, -1.0e4), "keys broadcast over the batch");
        assert!(!fits([2, 4, 5, 12], [2, 4, 12, 7], DType::Bool, -1.0e4), "a head size that the kernel has not");
        assert!(!fits([2, 4, 0, 8], k, DType::Bool, -1.0e4), "nothing");
    }
}
