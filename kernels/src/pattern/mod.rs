//! Patterns: several operators of a program that one kernel here is.
//!
//! A pattern is told the operators one by one, in the caller's numbers of tensors and scalars, and says whether it goes on. It
//! knows neither shapes nor who asks: whoever records a program (Burn's adapter) translates it into steps, sees to it that
//! nobody else reads what is computed inside, and runs the pattern with real tensors in place of the operators.
//!
//! A pattern changes the mathematics' order, not what is computed: its results are held to the tolerance of its kernel, not to
//! the bits of the operators. Whether one runs is a function of the program and of shapes alone.

pub mod attention;
