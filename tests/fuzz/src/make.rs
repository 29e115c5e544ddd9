//! Makes programs: one operator on inputs of its own, or up to [`CALLS_MOST`] of them on each other's results.
//!
//! Each step runs on the reference at once. So the shape and type of every tensor are known to what follows without a second
//! account of the framework's rules, and what the reference refuses is left out.

use rocfire_hal::DType;

use crate::choice::Choices;
use crate::machine::{Family, Machine, attempt};
use crate::program::{Call, Id, Meta, Params, Program, Step, Way};
use crate::shapes::{self, ELEMENTS_MOST, LARGE_MOST};
use crate::table::{Kind, Rule};
use crate::values::{Filling, Input};

/// The most operators of a program.
pub const CALLS_MOST: usize = 70;
/// One in so many operators that run alone is given large tensors: an emulated GPU takes seconds for them.
const LARGE_ONE_IN: usize = 24;
/// Results of more elements than so many times those of an operand are not kept.
const RESULT_MOST: usize = 4;
/// Frameworks have tensors of so many axes and no more.
const RANK_MOST: usize = 6;

/// A program and what was left out of it.
#[derive(Debug)]
pub struct Made {
    /// The program.
    pub program: Program,
    /// Rows that the reference refused, with its words.
    pub refused: Vec<(usize, String)>,
    /// Rows that were left out as known.
    pub known: Vec<(usize, &'static str)>,
}

/// A program of one operator, on views.
pub fn separate<F: Family>(family: &F, row: usize, choices: &mut Choices) -> Made {
    let is_large = choices.one_in(LARGE_ONE_IN);
    let mut maker = Maker::new(family, choices);
    if is_large {
        maker.elements_most = LARGE_MOST;
    }
    // The first tries may be refused.
    for _ in 0..4 {
        if maker.step(row) {
            break;
        }
    }
    maker.finish(false)
}

/// A program of several operators.
pub fn several<F: Family>(family: &F, rows: &[usize], choices: &mut Choices) -> Made {
    let most = if choices.one_in(4) { CALLS_MOST - 1 } else { 12 };
    let calls = 2 + choices.below(most);
    let mut maker = Maker::new(family, choices);
    maker.is_program = true;
    for _ in 0..calls {
        maker.choices.begin();
        let row = maker.choices.pick(rows);
        maker.step(row);
        maker.interlude();
        maker.choices.end();
    }
    maker.finish(true)
}

type Value<F> = <<F as Family>::Reference as Machine>::Value;

/// A program in the making.
pub(crate) struct Maker<'a, F: Family> {
    pub(crate) family: &'a F,
    pub(crate) choices: &'a mut Choices,
    program: Program,
    values: Vec<Option<Value<F>>>,
    refused: Vec<(usize, String)>,
    known: Vec<(usize, &'static str)>,
    /// Whether operands are taken from what is there.
    is_program: bool,
    /// The most elements of an operand.
    pub(crate) elements_most: usize,
}

impl<'a, F: Family> Maker<'a, F> {
    fn new(family: &'a F, choices: &'a mut Choices) -> Maker<'a, F> {
        let program = Program::default();
        Maker {
            family,
            choices,
            program,
            values: Vec::new(),
            refused: Vec::new(),
            known: Vec::new(),
            is_program: false,
            elements_most: ELEMENTS_MOST,
        }
    }

    /// Adds an operator if it is taken.
    fn step(&mut self, row: usize) -> bool {
        let Some((mut operands, params)) = self.arrange(&self.family.rows()[row]) else { return false };
        let taken = self.taken(&operands);
        match attempt(|| self.family.arriving(row, &taken, &params)) {
            Ok(None) => {}
            Ok(Some(meta)) => {
                let filling = self.choices.pick(&[Filling::Plain, Filling::Spread]);
                operands.push(self.operand(meta.kind, meta.dtype, &meta.shape, filling));
            }
            Err(said) => {
                self.refused.push((row, said));
                return false;
            }
        }
        self.call(row, operands, params).is_some()
    }

    /// What programs do between operators: read, and forget.
    fn interlude(&mut self) {
        let live = self.live();
        if live.is_empty() {
            return;
        }
        if self.choices.one_in(8) {
            let id = live[self.choices.below(live.len())];
            self.program.steps.push(Step::Read(id));
        }
        // More is forgotten than kept, as in a program that somebody wrote.
        for _ in 0..self.choices.below(3) {
            let live = self.live();
            if live.len() > 3 {
                // The newest is what the next operator will most likely take.
                let id = live[1 + self.choices.below(live.len() - 1)];
                self.values[id] = None;
                self.program.steps.push(Step::Drop(id));
            }
        }
    }

    fn finish(mut self, is_program: bool) -> Made {
        if is_program {
            self.program.way = match self.choices.below(7) {
                4 => Way::Handed(self.choices.below(self.program.steps.len().max(1))),
                5 => Way::Together(2 + self.choices.below(2)),
                6 if self.family.beside().is_some() => Way::Beside,
                _ => Way::Straight,
            };
        }
        Made { program: self.program, refused: self.refused, known: self.known }
    }

    /// Tensors that are there, newest first.
    pub(crate) fn live(&self) -> Vec<Id> {
        (0..self.values.len()).rev().filter(|&id| self.values[id].is_some()).collect()
    }

    pub(crate) fn meta(&self, id: Id) -> &Meta {
        &self.program.metas[id]
    }

    fn add(&mut self, value: Value<F>) -> Id {
        self.program.metas.push(self.family.reference().meta(&value));
        self.values.push(Some(value));
        self.values.len() - 1
    }

    /// An input as it is.
    pub(crate) fn input(&mut self, dtype: DType, shape: &[usize], filling: Filling) -> Id {
        // A number of its own, low where the record is at its end.
        let seed = self.choices.below(1 << 16) as u64;
        let input = Input { dtype, shape: shape.to_vec(), filling, seed };
        let value = self.family.reference().input(&input.data());
        self.program.steps.push(Step::Input(input));
        self.add(value)
    }

    fn taken(&self, operands: &[Id]) -> Vec<Value<F>> {
        operands.iter().map(|&id| self.values[id].clone().expect("operands are live")).collect()
    }

    /// Calls an operator on the reference, and keeps it if it was taken and its results are of bearable size.
    pub(crate) fn call(&mut self, row: usize, operands: Vec<Id>, params: Params) -> Option<Vec<Id>> {
        let metas: Vec<Meta> = operands.iter().map(|&id| self.meta(id).clone()).collect();
        let reference = self.family.reference();
        let taken = self.taken(&operands);
        let values = || taken.iter().map(|value| reference.read(value.clone())).collect();
        if let Some(reason) = self.family.known(&self.family.rows()[row], &params, &metas, &values) {
            self.known.push((row, reason));
            return None;
        }
        let made = match attempt(|| {
            let made = reference.call(row, taken, &params);
            let metas: Vec<Meta> = made.iter().map(|value| reference.meta(value)).collect();
            (made, metas)
        }) {
            Ok((made, metas)) => {
                let most = RESULT_MOST * self.elements_most;
                let bearable =
                    |meta: &Meta| meta.shape.len() <= RANK_MOST && meta.shape.iter().product::<usize>() <= most;
                if !metas.iter().all(bearable) {
                    return None;
                }
                made
            }
            Err(said) => {
                self.refused.push((row, said));
                return None;
            }
        };
        self.program.steps.push(Step::Call(Call { row, operands, params, results: made.len() }));
        Some(made.into_iter().map(|value| self.add(value)).collect())
    }

    /// A type of a kind, the common ones more often.
    pub(crate) fn dtype(&mut self, kind: Kind) -> DType {
        let types = self.family.types();
        match kind {
            Kind::Float => self.choices.pick(types.floats),
            Kind::Int => self.choices.pick(types.ints),
            Kind::Bool => types.truth,
        }
    }

    /// How an input is filled where nothing depends on it.
    pub(crate) fn filling(&mut self) -> Filling {
        use Filling::{Plain, Positive, Special, Spread, Wide};
        self.choices.pick(&[Plain, Spread, Plain, Spread, Positive, Special, Wide])
    }

    /// A tensor that fits: one that is there, or an input, mostly as a view.
    pub(crate) fn operand(&mut self, kind: Kind, dtype: DType, shape: &[usize], filling: Filling) -> Id {
        self.operand_like(kind, |meta| meta.dtype == dtype && meta.shape == shape, dtype, shape, filling)
    }

    /// As [`Maker::operand`], where more than one shape or type fits.
    pub(crate) fn operand_like(
        &mut self,
        kind: Kind,
        fits: impl Fn(&Meta) -> bool,
        dtype: DType,
        shape: &[usize],
        filling: Filling,
    ) -> Id {
        // Indices have to be in range: they are never what happens to be there.
        if self.is_program && !matches!(filling, Filling::Below(_)) && !self.choices.one_in(4) {
            let meta = |&id: &Id| self.meta(id).kind == kind && fits(self.meta(id));
            let fitting: Vec<Id> = self.live().into_iter().filter(meta).take(8).collect();
            if !fitting.is_empty() {
                return self.choices.pick(&fitting);
            }
        }
        self.placed(kind, dtype, shape, filling)
    }

    /// An input that lies in memory in one of several ways, as views made by the family's own operators.
    fn placed(&mut self, kind: Kind, dtype: DType, shape: &[usize], filling: Filling) -> Id {
        let rank = shape.len();
        let way = if rank == 0 { 0 } else { self.choices.below(8) };
        let mut params = Params::default();
        let mut stored = shape.to_vec();
        let rule = match way {
            3 if rank >= 2 => {
                let (a, b) = (self.choices.below(rank), self.choices.below(rank));
                params.axes = (0..rank).collect();
                params.axes.swap(a, b);
                stored.swap(a, b);
                Rule::Permute
            }
            4 => {
                params.axes = vec![self.choices.below(rank)];
                Rule::Flip
            }
            5 => {
                // Every second one, from the second on.
                let axis = self.choices.below(rank);
                params.slices = shape.iter().map(|_| (0, None, 1)).collect();
                params.slices[axis] = (1, None, 2);
                stored[axis] = 2 * shape[axis] + 1;
                Rule::Slice
            }
            6 => {
                // Some way into a larger block.
                let axis = self.choices.below(rank);
                params.slices = shape.iter().map(|_| (0, None, 1)).collect();
                params.slices[axis] = (1, Some(1 + shape[axis] as isize), 1);
                stored[axis] += 3;
                Rule::Slice
            }
            7 => {
                let axis = self.choices.below(rank);
                stored[axis] = 1;
                params.shape = shape.to_vec();
                Rule::Expand
            }
            _ => return self.input(dtype, shape, filling),
        };
        let view = self.family.rows().iter().position(|row| row.rule == rule && row.operands == [kind]);
        let Some(view) = view else { return self.input(dtype, shape, filling) };
        let block = self.input(dtype, &stored, filling);
        match self.call(view, vec![block], params) {
            Some(made) if self.meta(made[0]).shape == shape => made[0],
            _ => self.input(dtype, shape, filling),
        }
    }

    /// A tensor of a kind, of any shape.
    pub(crate) fn any(&mut self, kind: Kind) -> Id {
        self.any_like(kind, |_| true)
    }

    /// A tensor of a kind and of any shape that fits.
    pub(crate) fn any_like(&mut self, kind: Kind, fits: impl Fn(&Meta) -> bool) -> Id {
        let dtype = self.dtype(kind);
        let filling = self.filling();
        let rank = shapes::rank(self.choices);
        let mut shape = shapes::shape(self.choices, rank, self.elements_most);
        if !fits(&Meta { kind, dtype, shape: shape.clone() }) {
            shape.iter_mut().for_each(|extent| *extent = (*extent).max(1));
        }
        self.operand_like(kind, fits, dtype, &shape, filling)
    }
}
