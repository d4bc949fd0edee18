//! Comparing results with references.

use anymetal::ElementFormat;

use super::header::Tolerance;

/// How far results are from their reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Elements outside the tolerance.
    pub wrong: usize,
    /// Elements compared.
    pub count: usize,
    /// The first element outside: its index, what was found, what was expected.
    pub first: Option<(usize, f64, f64)>,
    /// Largest absolute difference of finite pairs.
    pub max_abs: f64,
    /// Root mean square of the differences over that of the reference, finite pairs only.
    pub relative_rms: f64,
}

/// Compares elements; the reference is rounded to the format for [`Tolerance::Exact`].
pub fn compare(got: &[f64], want: &[f64], format: ElementFormat, tolerance: Tolerance) -> Difference {
    let mut out = Difference {
        wrong: 0,
        count: want.len(),
        first: None,
        max_abs: 0.0,
        relative_rms: 0.0,
    };
    let (mut errors, mut norm) = (0.0, 0.0);
    for (index, (&got, &want)) in got.iter().zip(want).enumerate() {
        let fine = match tolerance {
            Tolerance::Exact => {
                let rounded = format.decode(format.encode(want));
                got == rounded || (got.is_nan() && rounded.is_nan())
            }
            Tolerance::Within { abs, rel } => {
                if !want.is_finite() || !got.is_finite() {
                    // A reference past the format's range rounds to infinity.
                    let rounded = format.decode(format.encode(want));
                    got == rounded || (got.is_nan() && want.is_nan())
                } else {
                    (got - want).abs() <= abs + rel * want.abs()
                }
            }
        };
        if got.is_finite() && want.is_finite() {
            out.max_abs = out.max_abs.max((got - want).abs());
            errors += (got - want) * (got - want);
            norm += want * want;
        }
        if !fine {
            out.wrong += 1;
            out.first.get_or_insert((index, got, want));
        }
    }
    if got.len() != want.len() {
        out.wrong += want.len().abs_diff(got.len());
    }
    out.relative_rms = if norm > 0.0 {
        (errors / norm).sqrt()
    } else {
        errors.sqrt()
    };
    out
}

impl Difference {
    /// One line for a failure.
    pub fn describe(&self) -> String {
        let first = self.first.map_or(String::new(), |(index, got, want)| {
            format!("; element {index} is {got}, expected {want}")
        });
        format!(
            "{} of {} elements are outside the tolerance (largest difference {:.3e}){first}",
            self.wrong, self.count, self.max_abs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances() {
        let within = Tolerance::Within { abs: 0.1, rel: 0.0 };
        let difference = compare(
            &[1.0, 2.0, f64::NAN],
            &[1.05, 2.2, f64::NAN],
            ElementFormat::F32,
            within,
        );
        assert_eq!((difference.wrong, difference.first), (1, Some((1, 2.0, 2.2))));
        let difference = compare(&[f64::INFINITY], &[1e6], ElementFormat::F16, within);
        assert_eq!(difference.wrong, 0);
        assert_eq!(
            compare(&[0.1f32 as f64], &[0.1], ElementFormat::F32, Tolerance::Exact).wrong,
            0
        );
        assert_eq!(compare(&[f64::NAN], &[1.0], ElementFormat::F32, within).wrong, 1);
    }
}
