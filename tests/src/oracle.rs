//! Sums for oracles: in twice the precision of f64, since the oracle of f64 must be better than what it judges.

/// Σ a·b (Ogita, Rump, Oishi, "Accurate sum and dot product", 2005).
pub fn dot(pairs: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for (a, b) in pairs {
        let product = a * b;
        let next = sum + product;
        let part = next - sum;
        lost += (sum - (next - part)) + (product - part) + a.mul_add(b, -product);
        sum = next;
    }
    sum + lost
}

/// Σ values.
pub fn sum<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    dot(values.into_iter().map(|&value| (value, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_plain_summation_loses_is_kept() {
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        let epsilon = f64::EPSILON;
        assert_eq!(dot([(1.0 + epsilon, 1.0 - epsilon), (-1.0, 1.0)]), -epsilon * epsilon);
    }
}
