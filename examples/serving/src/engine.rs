//! The engine: requests join and leave between steps, and each step is one forward pass over what all of them have to compute.
//!
//! A step has fixed extents, as one that is captured in a graph has: so many rows, so many seats. A seat's rows are the tokens of
//! its prompt that are not in the cache yet, as many as fit, or the token that was written last; what is left over is padding.
//! Lengths, pages and slots are arrays that the device reads.

use std::collections::VecDeque;

use crate::Result;

/// What a step can hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens of a step.
    pub rows: usize,
    /// Requests of a step.
    pub seats: usize,
    /// Pages of a cache.
    pub pages: usize,
    /// Tokens of a page.
    pub page: usize,
    /// Pages that a request may have.
    pub pages_each: usize,
}

impl Limits {
    /// Tokens that a request may have, prompt and answer.
    pub fn length(&self) -> usize {
        self.pages_each * self.page
    }
}

/// How a request's tokens are chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// What logits are divided by; 0: the likeliest token.
    pub temperature: f32,
    /// Draw from so many; 0: from all.
    pub top_k: i32,
    /// Draw from the likeliest that have this share together; 0: from all.
    pub top_p: f32,
    /// Of the draws.
    pub seed: i64,
}

/// A prompt, and how many tokens to write behind it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Tokens.
    pub prompt: Vec<u32>,
    /// How many are written.
    pub count: usize,
    /// How they are chosen.
    pub choice: Choice,
}

/// What a forward pass reads.
#[derive(Clone, Debug)]
pub struct Step {
    /// `[rows]`, 0 behind the last.
    pub tokens: Vec<u32>,
    /// The place of each in its request, `[rows]`.
    pub positions: Vec<i64>,
    /// Where a cache keeps it, -1 for padding, `[rows]`.
    pub slots: Vec<i64>,
    /// The seat of each row, `[rows]`; padding has the first.
    pub seats: Vec<i64>,
    /// The first row of each seat, and the end, `[seats + 1]`.
    pub starts: Vec<i64>,
    /// Tokens of each seat that are in the cache behind this step, 0 for a seat without rows, `[seats]`.
    pub lens: Vec<i64>,
    /// Pages of each seat, 0 behind the last, `[seats, pages_each]`.
    pub pages: Vec<i64>,
    /// The slot of each seat's states, -1 for a seat without rows, `[seats]`.
    pub states: Vec<i64>,
    /// 1 for a seat that begins, `[seats]`.
    pub fresh: Vec<i64>,
    /// The last row of each seat, `[seats]`.
    pub last: Vec<i64>,
    /// How each seat's token is chosen, and how many it has written.
    pub choices: Vec<(Choice, i64)>,
}

/// What a forward pass gives.
#[derive(Clone, Debug)]
pub struct Output {
    /// Of each seat, `[seats]`.
    pub tokens: Vec<u32>,
    /// `[seats, vocabulary]`.
    pub logits: Vec<f32>,
}

/// A model with its caches, as the engine sees it.
pub trait Model {
    /// One forward pass.
    ///
    /// # Errors
    /// The device's.
    fn step(&mut self, step: &Step) -> Result<Output>;
}

/// What was written for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// The logits that each was chosen by.
    pub logits: Vec<Vec<f32>>,
}

#[derive(Debug)]
struct Running {
    id: usize,
    /// The prompt and what was written.
    tokens: Vec<u32>,
    prompt: usize,
    count: usize,
    choice: Choice,
    /// How many tokens are in the cache.
    cached: usize,
    pages: Vec<i64>,
    answer: Answer,
}

impl Running {
    fn pages_most(&self, page: usize) -> usize {
        (self.prompt + self.count).div_ceil(page)
    }
}

/// Requests that wait, those that run, and the pages that are free.
#[derive(Debug)]
pub struct Engine<M> {
    model: M,
    limits: Limits,
    waiting: VecDeque<Running>,
    seats: Vec<Option<Running>>,
    free: Vec<i64>,
    submitted: usize,
}

impl<M: Model> Engine<M> {
    /// An engine without requests.
    pub fn new(model: M, limits: Limits) -> Engine<M> {
        let seats = (0..limits.seats).map(|_| None).collect();
        let free = (0..limits.pages as i64).collect();
        Engine { model, limits, waiting: VecDeque::new(), seats, free, submitted: 0 }
    }

    /// Lets a request wait for a seat; its number.
    ///
    /// # Errors
    /// One that is empty, or that no cache could ever hold.
    pub fn submit(&mut self, request: Request) -> Result<usize> {
        let Request { prompt: tokens, count, choice } = request;
        let (prompt, most) = (tokens.len(), self.limits.length().min(self.limits.pages * self.limits.page));
        if prompt == 0 || count == 0 || prompt + count > most {
            return Err(format!("a request has 1 to {most} tokens, got {prompt} and {count}").into());
        }
        let id = self.submitted;
        self.submitted += 1;
        let (cached, pages, answer) = (0, Vec::new(), Answer::default());
        self.waiting.push_back(Running { id, tokens, prompt, count, choice, cached, pages, answer });
        Ok(id)
    }

    /// Ends a request before its time; what it has written.
    pub fn cancel(&mut self, id: usize) -> Option<Answer> {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) {
            return self.waiting.remove(at).map(|waiting| waiting.answer);
        }
        let seat = self.seats.iter_mut().find(|seat| seat.as_ref().is_some_and(|running| running.id == id))?;
        let running = seat.take()?;
        self.free.extend(running.pages);
        Some(running.answer)
    }

    /// Whether nothing waits and nothing runs.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.seats.iter().all(Option::is_none)
    }

    /// What a step can hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Pages that nobody has.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// Those that wait take free seats while every page that they may come to need is there.
    fn admit(&mut self) {
        let page = self.limits.page;
        loop {
            let promised: usize =
                self.seats.iter().flatten().map(|running| running.pages_most(page) - running.pages.len()).sum();
            let Some(seat) = self.seats.iter_mut().find(|seat| seat.is_none()) else { return };
            let fits = |waiting: &Running| promised + waiting.pages_most(page) <= self.free.len();
            if !self.waiting.front().is_some_and(fits) {
                return;
            }
            *seat = self.waiting.pop_front();
        }
    }

    /// One forward pass over everybody who has a seat; the requests that ended with it.
    ///
    /// # Errors
    /// The model's.
    pub fn step(&mut self) -> Result<Vec<(usize, Answer)>> {
        self.admit();
        if self.seats.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let step = self.plan()?;
        let output = self.model.step(&step)?;
        let vocabulary = output.logits.len() / self.limits.seats;
        let mut ended = Vec::new();
        for (at, seat) in self.seats.iter_mut().enumerate() {
            let Some(running) = seat else { continue };
            running.cached += (step.starts[at + 1] - step.starts[at]) as usize;
            if step.lens[at] == 0 || running.cached < running.tokens.len() {
                continue;
            }
            running.tokens.push(output.tokens[at]);
            running.answer.tokens.push(output.tokens[at]);
            running.answer.logits.push(output.logits[at * vocabulary..][..vocabulary].to_vec());
            if running.answer.tokens.len() == running.count
                && let Some(running) = seat.take()
            {
                self.free.extend(running.pages);
                ended.push((running.id, running.answer));
            }
        }
        Ok(ended)
    }

    /// Gives rows to seats, and to rows their places in the cache.
    fn plan(&mut self) -> Result<Step> {
        let Limits { rows, seats, page, pages_each, .. } = self.limits;
        let mut step = Step {
            tokens: Vec::new(),
            positions: Vec::new(),
            slots: Vec::new(),
            seats: Vec::new(),
            starts: vec![0],
            lens: vec![0; seats],
            pages: vec![0; seats * pages_each],
            states: vec![-1; seats],
            fresh: vec![0; seats],
            last: vec![0; seats],
            choices: vec![(Choice::default(), 0); seats],
        };
        for (at, seat) in self.seats.iter_mut().enumerate() {
            if let Some(running) = seat {
                let own = (running.tokens.len() - running.cached).min(rows - step.tokens.len());
                for place in running.cached..running.cached + own {
                    if place / page == running.pages.len() {
                        running.pages.push(self.free.pop().ok_or("a promised page is not there")?);
                    }
                    step.tokens.push(running.tokens[place]);
                    step.positions.push(place as i64);
                    step.slots.push(running.pages[place / page] * page as i64 + (place % page) as i64);
                    step.seats.push(at as i64);
                }
                if own > 0 {
                    step.lens[at] = (running.cached + own) as i64;
                    step.pages[at * pages_each..][..running.pages.len()].copy_from_slice(&running.pages);
                    step.states[at] = at as i64;
                    step.fresh[at] = i64::from(running.cached == 0);
                    step.last[at] = step.tokens.len() as i64 - 1;
                    step.choices[at] = (running.choice, running.answer.tokens.len() as i64);
                }
            }
            step.starts.push(step.tokens.len() as i64);
        }
        step.tokens.resize(rows, 0);
        step.positions.resize(rows, 0);
        step.slots.resize(rows, -1);
        step.seats.resize(rows, 0);
        Ok(step)
    }
}

impl Model for Box<dyn Model> {
    fn step(&mut self, step: &Step) -> Result<Output> {
        (**self).step(step)
    }
}
