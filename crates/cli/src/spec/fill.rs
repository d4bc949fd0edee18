//! What an argument holds before the kernel runs.

use std::path::{Path, PathBuf};

use anymetal::ElementFormat;

use super::Scan;
use super::formula::{Formula, Scope};
use crate::npy;

/// A rule for the contents of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// All zero.
    Zeros,
    /// All of one value.
    Value(f64),
    /// `start + step · i`.
    Iota {
        /// The first value.
        start: f64,
        /// The difference of neighbours.
        step: f64,
    },
    /// Uniform, the same on every machine for a seed.
    Random {
        /// The seed.
        seed: u64,
        /// Lower and upper end; by default [−1, 1) for floats and −8…7 or 0…15 for integers.
        range: Option<(f64, f64)>,
    },
    /// The values given; repeated if there are fewer than elements.
    List(Vec<f64>),
    /// A formula of the index.
    Formula(String),
    /// A NumPy file.
    File(PathBuf),
}

impl Fill {
    /// Parses a fill.
    pub fn parse(scan: &mut Scan) -> Result<Self, String> {
        if scan.take("[") {
            let mut values = Vec::new();
            while !scan.take("]") {
                values.push(scan.number()?);
                if !scan.take(",") {
                    scan.expect("]")?;
                    break;
                }
            }
            return Ok(Fill::List(values));
        }
        let mut ahead = Scan::new(scan.rest_of_line());
        let path = ahead.until_space();
        if path.ends_with(".npy") {
            scan.until_space();
            return Ok(Fill::File(PathBuf::from(path)));
        }
        let name = scan.word()?;
        if name == "formula" {
            return Ok(Fill::Formula(scan.quoted()?));
        }
        let numbers = scan.optional_numbers()?;
        Ok(match (name.as_str(), numbers.as_slice()) {
            ("zeros", []) => Fill::Zeros,
            ("ones", []) => Fill::Value(1.0),
            ("nan", []) => Fill::Value(f64::NAN),
            ("fill", &[value]) => Fill::Value(value),
            ("iota", []) => Fill::Iota { start: 0.0, step: 1.0 },
            ("iota", &[start]) => Fill::Iota { start, step: 1.0 },
            ("iota", &[start, step]) => Fill::Iota { start, step },
            ("random", &[seed]) => Fill::Random {
                seed: seed as u64,
                range: None,
            },
            ("random", &[seed, low, high]) => Fill::Random {
                seed: seed as u64,
                range: Some((low, high)),
            },
            (other, given) => {
                return Err(format!(
                    "`{other}` with {} numbers is no fill: zeros, ones, nan, iota(start, step), fill(x), \
                     random(seed, low, high), [v, …], formula \"…\" or FILE.npy",
                    given.len()
                ));
            }
        })
    }

    /// The values of `count` elements of a format, not yet rounded to it; files are looked up beside `folder`.
    pub fn values(&self, format: ElementFormat, count: usize, folder: &Path) -> Result<Vec<f64>, String> {
        Ok(match self {
            Fill::Zeros => vec![0.0; count],
            Fill::Value(value) => vec![*value; count],
            Fill::Iota { start, step } => (0..count).map(|i| start + step * i as f64).collect(),
            Fill::Random { seed, range } => (0..count).map(|i| random(*seed, i, format, *range)).collect(),
            Fill::List(values) if values.is_empty() => vec![0.0; count],
            Fill::List(values) => values.iter().copied().cycle().take(count).collect(),
            Fill::Formula(text) => {
                let formula = Formula::parse(text)?;
                let arguments = |_| None;
                let mut scope = Scope::new(&arguments);
                let mut out = Vec::with_capacity(count);
                for i in 0..count {
                    scope.names.insert("i".to_string(), i as f64);
                    out.push(formula.evaluate(&mut scope)?);
                }
                out
            }
            Fill::File(path) => {
                let array = npy::read(&folder.join(path)).map_err(|error| error.to_string())?;
                let values = array.values();
                if values.len() != count {
                    return Err(format!(
                        "{} holds {} elements, the argument has {count}",
                        path.display(),
                        values.len()
                    ));
                }
                values
            }
        })
    }
}

/// Element `index` of `random(seed)`: one step of SplitMix64 from `seed · 2³² + index`, the same everywhere.
fn random(seed: u64, index: usize, format: ElementFormat, range: Option<(f64, f64)>) -> f64 {
    let z = bits(seed, index);
    let integer = format.is_integer();
    let (low, high) = range.unwrap_or(match (integer, format.is_signed()) {
        (true, true) => (-8.0, 8.0),
        (true, false) => (0.0, 16.0),
        (false, _) => (-1.0, 1.0),
    });
    if format == ElementFormat::Bool {
        (z & 1) as f64
    } else if integer {
        low + (z % ((high - low) as u64).max(1)) as f64
    } else {
        low + (z >> 11) as f64 / (1u64 << 53) as f64 * (high - low)
    }
}

/// Code `index` of the scale plane of a tensor filled by `random(seed)`: 125…129, that is 2⁻² to 2².
pub fn random_scale(seed: u64, index: usize) -> u8 {
    125 + (bits(seed, index) % 5) as u8
}

fn bits(seed: u64, index: usize) -> u64 {
    let mut z = (seed << 32)
        .wrapping_add(index as u64)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
