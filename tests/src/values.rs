//! Numbers that are made when somebody reads them: a list of all cases is had without one of them.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

type Make = Box<dyn FnOnce() -> Vec<f64> + Send>;

/// A row of numbers, made at the first access. Clones share them until one is written.
#[derive(Clone)]
pub struct Values(Arc<LazyLock<Vec<f64>, Make>>);

impl Values {
    /// Those that `make` gives.
    pub fn when_read(make: impl FnOnce() -> Vec<f64> + Send + 'static) -> Values {
        Values(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Values {
        Values::when_read(move || values)
    }
}

impl FromIterator<f64> for Values {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Values {
        values.into_iter().collect::<Vec<_>>().into()
    }
}

impl Deref for Values {
    type Target = Vec<f64>;

    fn deref(&self) -> &Vec<f64> {
        &self.0
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Vec<f64> {
        if Arc::get_mut(&mut self.0).is_none() {
            *self = self.to_vec().into();
        }
        LazyLock::force_mut(Arc::get_mut(&mut self.0).expect("nobody shares it any more"))
    }
}

impl<'a> IntoIterator for &'a Values {
    type Item = &'a f64;
    type IntoIter = std::slice::Iter<'a, f64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn numbers_are_made_once_and_by_whoever_reads() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let values = Values::when_read(|| {
            MADE.fetch_add(1, Ordering::Relaxed);
            vec![1.0, 2.0]
        });
        let mut other = values.clone();
        assert_eq!(MADE.load(Ordering::Relaxed), 0);
        other[0] = 3.0;
        assert_eq!((&values[..], &other[..]), (&[1.0, 2.0][..], &[3.0, 2.0][..]));
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
    }
}
