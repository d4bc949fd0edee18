//! How much quantisation lost.

use super::block::BlockError;

/// The difference between values and what is read back after quantisation, over the elements of blocks without NaN or infinity.
///
/// ```
/// use anymetal::quantise::{QuantiseOptions, quantise_with};
/// use anymetal::{ElementFormat, Extents};
///
/// let values = [1.0f32, 1.0625, 3.0, 448.0].repeat(8);
/// let options = QuantiseOptions::new(ElementFormat::Fp8E4M3).with_metrics(true);
/// let (_, metrics) = quantise_with(&values, &Extents::from([32]), &options)?;
/// let metrics = metrics.expect("asked for");
/// // 1.0625 lies between 1 and 1.125 and goes to the even one.
/// assert_eq!(metrics.max_error, 0.0625);
/// assert_eq!(metrics.rms_error, 0.0625 / 2.0);
/// # Ok::<(), anymetal::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct ErrorMetrics {
    /// Elements compared.
    pub elements: u64,
    /// Elements left out: those of blocks with a NaN or an infinity, which become NaN throughout.
    pub non_finite: u64,
    /// Largest |value − result|.
    pub max_error: f64,
    /// √(mean of (value − result)²); 0 without elements.
    pub rms_error: f64,
    /// √(mean of value²): what the error is to be compared with.
    pub rms_value: f64,
    /// Signal to quantisation noise, 20·log10(rms value / rms error), in decibels; infinite where nothing is lost.
    pub sqnr_db: f64,
}

impl ErrorMetrics {
    /// The metrics of two sets of elements together.
    pub fn merged(&self, other: &ErrorMetrics) -> ErrorMetrics {
        let sums = |m: &ErrorMetrics| {
            let count = m.elements as f64;
            Sums {
                elements: m.elements,
                non_finite: m.non_finite,
                largest: m.max_error,
                error: m.rms_error * m.rms_error * count,
                signal: m.rms_value * m.rms_value * count,
            }
        };
        sums(self).join(sums(other)).finish()
    }
}

/// Sums that several threads fill and add up.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    elements: u64,
    non_finite: u64,
    largest: f64,
    error: f64,
    signal: f64,
}

impl Sums {
    /// Adds a block of `count` values (padding, which is zero and exact, not counted).
    #[inline(always)]
    pub fn add(&mut self, count: usize, block: &BlockError) {
        let scale = f64::from(block.scale);
        self.elements += count as u64;
        self.largest = self.largest.max(f64::from(block.largest) * scale);
        self.error += f64::from(block.error) * (scale * scale);
        self.signal += f64::from(block.signal) * (scale * scale);
    }

    /// Counts a block with a NaN or an infinity.
    pub fn skip(&mut self, count: usize) {
        self.non_finite += count as u64;
    }

    /// Adds another thread's sums.
    pub fn join(self, other: Sums) -> Sums {
        Sums {
            elements: self.elements + other.elements,
            non_finite: self.non_finite + other.non_finite,
            largest: self.largest.max(other.largest),
            error: self.error + other.error,
            signal: self.signal + other.signal,
        }
    }

    pub fn finish(self) -> ErrorMetrics {
        let count = self.elements.max(1) as f64;
        ErrorMetrics {
            elements: self.elements,
            non_finite: self.non_finite,
            max_error: self.largest,
            rms_error: (self.error / count).sqrt(),
            rms_value: (self.signal / count).sqrt(),
            sqnr_db: if self.error == 0.0 {
                f64::INFINITY
            } else {
                10.0 * (self.signal / self.error).log10()
            },
        }
    }
}
