//! Independent references in f64: what an argument must hold after a kernel ran.

use std::collections::HashMap;
use std::path::Path;

use anymetal::ElementFormat;

use super::convolution::Convolution;
use super::formula::{Formula, Scope};
use super::{Fill, Scan};

/// An argument's elements before the run, as numbers (scales applied), with its extents, innermost first.
#[derive(Clone, Debug)]
pub struct Values {
    /// Element format.
    pub format: ElementFormat,
    /// Extents, innermost first.
    pub extents: Vec<usize>,
    /// Elements, dimension 0 fastest.
    pub elements: Vec<f64>,
}

/// A rule for the expected contents of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Expectation {
    /// The values of a fill.
    Fill(Fill),
    /// Unchanged.
    Same,
    /// Equal to another argument before the run.
    Argument(usize),
    /// One formula for each element.
    Formula(String),
    /// A matrix product of two arguments.
    Matmul {
        /// Argument numbers.
        operands: (usize, usize),
        /// A is (M, K).
        transpose_left: bool,
        /// B is (K, N).
        transpose_right: bool,
        /// Plus the destination's elements before the run.
        accumulate: bool,
    },
    /// Attention.
    Attention(Attention),
    /// A two-dimensional convolution.
    Convolution(Convolution),
}

/// Parameters of the attention reference.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Attention {
    /// Argument number of the queries.
    pub q: usize,
    /// Argument number of the keys.
    pub k: usize,
    /// Argument number of the values.
    pub v: usize,
    /// Factor of the scores; D^−½ by default.
    pub scale: Option<f64>,
    /// Key j takes part in row i if j ≤ i + offset.
    pub causal: Option<i64>,
    /// Argument number of the mask.
    pub mask: Option<usize>,
}

impl Expectation {
    /// Parses the value of an `expect` line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut scan = Scan::new(text);
        let expectation = if scan.take_word("same") {
            Expectation::Same
        } else if scan.take_word("arg") {
            Expectation::Argument(scan.integer()?)
        } else if scan.take_word("formula") {
            Expectation::Formula(scan.quoted()?)
        } else if scan.take_word("matmul") {
            scan.expect("(")?;
            let left = scan.integer()?;
            scan.expect(",")?;
            let right = scan.integer()?;
            let (mut transpose_left, mut transpose_right, mut accumulate) = (false, false, false);
            while scan.take(",") || !scan.take(")") {
                match scan.word()?.as_str() {
                    "transpose_left" => transpose_left = true,
                    "transpose_right" => transpose_right = true,
                    "accumulate" => accumulate = true,
                    other => return Err(format!("matmul has no option `{other}`")),
                }
            }
            while let Ok(option) = scan.word() {
                match option.as_str() {
                    "transpose_left" => transpose_left = true,
                    "transpose_right" => transpose_right = true,
                    "accumulate" => accumulate = true,
                    other => return Err(format!("matmul has no option `{other}`")),
                }
                scan.take(",");
            }
            Expectation::Matmul {
                operands: (left, right),
                transpose_left,
                transpose_right,
                accumulate,
            }
        } else if scan.take_word("attention") {
            Expectation::Attention(Attention::parse(&mut scan)?)
        } else if scan.take_word("conv2d") {
            Expectation::Convolution(Convolution::parse(&mut scan)?)
        } else {
            Expectation::Fill(Fill::parse(&mut scan)?)
        };
        scan.end()?;
        Ok(expectation)
    }

    /// The expected elements of argument `target`, or of a part of it.
    pub fn values(
        &self,
        target: usize,
        arguments: &HashMap<usize, Values>,
        part: Option<std::ops::Range<usize>>,
        folder: &Path,
    ) -> Result<Vec<f64>, String> {
        let count = arguments.get(&target).map_or(0, |values| values.elements.len());
        let part = part.unwrap_or(0..count);
        if part.start > part.end || part.end > count {
            return Err(format!(
                "the part {}..{} is outside {count} elements",
                part.start, part.end
            ));
        }
        if let Expectation::Formula(text) = self {
            return evaluate(text, arguments, part);
        }
        let mut all = self.all(target, arguments, folder)?;
        if all.len() < part.end {
            return Err(format!(
                "the reference has {} elements, {} are wanted",
                all.len(),
                part.end
            ));
        }
        all.truncate(part.end);
        Ok(all.split_off(part.start))
    }

    fn all(&self, target: usize, arguments: &HashMap<usize, Values>, folder: &Path) -> Result<Vec<f64>, String> {
        let get = |number: usize| {
            arguments
                .get(&number)
                .ok_or_else(|| format!("the reference reads argument {number}, which has no values"))
        };
        let output = get(target)?;
        match self {
            Expectation::Fill(fill) => fill.values(output.format, output.elements.len(), folder),
            Expectation::Same => Ok(output.elements.clone()),
            Expectation::Argument(number) => Ok(get(*number)?.elements.clone()),
            Expectation::Formula(text) => evaluate(text, arguments, 0..output.elements.len()),
            Expectation::Matmul {
                operands,
                transpose_left,
                transpose_right,
                accumulate,
            } => matmul(
                get(operands.0)?,
                get(operands.1)?,
                output,
                *transpose_left,
                *transpose_right,
                *accumulate,
            ),
            Expectation::Convolution(conv) => {
                let bias = conv.bias.map(get).transpose()?;
                conv.values(get(conv.activation)?, get(conv.weights)?, bias, output)
            }
            Expectation::Attention(attention) => {
                let mask = attention.mask.map(get).transpose()?;
                attention.values(get(attention.q)?, get(attention.k)?, get(attention.v)?, mask)
            }
        }
    }
}

/// A formula at each index of a part.
fn evaluate(text: &str, arguments: &HashMap<usize, Values>, part: std::ops::Range<usize>) -> Result<Vec<f64>, String> {
    let formula = Formula::parse(text)?;
    let lookup = |number: usize| arguments.get(&number).map(|values| values.elements.as_slice());
    let mut scope = Scope::new(&lookup);
    part.map(|i| {
        scope.names.insert("i".to_string(), i as f64);
        formula.evaluate(&mut scope)
    })
    .collect()
}

fn extent(values: &Values, dimension: usize) -> usize {
    values.extents.get(dimension).copied().unwrap_or(1)
}

/// C[n, m] = Σₖ A[k, m] · B[n, k]; extents of C as the destination has them.
fn matmul(a: &Values, b: &Values, c: &Values, ta: bool, tb: bool, accumulate: bool) -> Result<Vec<f64>, String> {
    let (k, m) = if ta {
        (extent(a, 1), extent(a, 0))
    } else {
        (extent(a, 0), extent(a, 1))
    };
    let (kb, n) = if tb {
        (extent(b, 0), extent(b, 1))
    } else {
        (extent(b, 1), extent(b, 0))
    };
    if k != kb {
        return Err(format!("the reference's operands have {k} and {kb} elements along K"));
    }
    let (columns, rows) = (extent(c, 0), extent(c, 1));
    if rows > m || columns > n {
        return Err(format!(
            "the destination is {columns} × {rows}, the product {n} × {m} (columns × rows)"
        ));
    }
    let mut out = if accumulate {
        c.elements.clone()
    } else {
        vec![0.0; c.elements.len()]
    };
    for row in 0..rows {
        for inner in 0..k {
            let x = a.elements[if ta { inner * m + row } else { row * k + inner }];
            for column in 0..columns {
                let y = b.elements[if tb { column * k + inner } else { inner * n + column }];
                out[row * columns + column] += x * y;
            }
        }
    }
    Ok(out)
}

impl Attention {
    fn parse(scan: &mut Scan) -> Result<Self, String> {
        let mut out = Attention {
            q: 0,
            k: 1,
            v: 2,
            ..Attention::default()
        };
        scan.expect("(")?;
        let mut closed = false;
        while !closed || !scan.rest_of_line().is_empty() {
            if !closed && scan.take(")") {
                closed = true;
                continue;
            }
            scan.take(",");
            let name = scan.word()?;
            scan.expect("=")?;
            match name.as_str() {
                "q" => out.q = scan.integer()?,
                "k" => out.k = scan.integer()?,
                "v" => out.v = scan.integer()?,
                "mask" => out.mask = Some(scan.integer()?),
                "scale" => out.scale = Some(scan.number()?),
                "causal" => out.causal = Some(scan.number()? as i64),
                other => return Err(format!("attention has no option `{other}`")),
            }
        }
        Ok(out)
    }

    /// softmax(Q·Kᵀ·scale + mask)·V with extents (D, T, H, B); a row without a key gives zeros.
    pub fn values(&self, q: &Values, k: &Values, v: &Values, mask: Option<&Values>) -> Result<Vec<f64>, String> {
        let [d, tq, hq, batch] = [0, 1, 2, 3].map(|dimension| extent(q, dimension));
        let [dk, tk, hk, _] = [0, 1, 2, 3].map(|dimension| extent(k, dimension));
        let dv = extent(v, 0);
        let shape = |values: &Values| [1, 2, 3].map(|dimension| extent(values, dimension));
        let one_or = |size: usize, of: usize| size == 1 || size == of;
        if d != dk || hk == 0 || hq % hk != 0 || shape(k) != shape(v) || extent(k, 3) != batch {
            return Err("the reference's queries, keys and values do not fit each other".to_string());
        }
        if let Some(mask) = mask
            && !(one_or(extent(mask, 0), tk)
                && one_or(extent(mask, 1), tq)
                && one_or(extent(mask, 2), hq)
                && one_or(extent(mask, 3), batch))
        {
            return Err(format!(
                "the reference's mask {:?} does not fit {tk} keys, {tq} queries, {hq} heads and {batch} batches",
                mask.extents
            ));
        }
        let scale = self.scale.unwrap_or(1.0 / (d as f64).sqrt());
        let mut out = vec![0.0; dv * tq * hq * batch];
        let mut scores = vec![0.0; tk];
        for b in 0..batch {
            for h in 0..hq {
                let kv = h / (hq / hk);
                for row in 0..tq {
                    let query = &q.elements[((b * hq + h) * tq + row) * d..][..d];
                    for (key, score) in scores.iter_mut().enumerate() {
                        let keys = &k.elements[((b * hk + kv) * tk + key) * d..][..d];
                        *score = query.iter().zip(keys).map(|(x, y)| x * y).sum::<f64>() * scale;
                        if self.causal.is_some_and(|offset| key as i64 > row as i64 + offset) {
                            *score = f64::NEG_INFINITY;
                        }
                        if let Some(mask) = mask {
                            *score = masked(*score, mask, [key, row, h, b]);
                        }
                    }
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if top == f64::NEG_INFINITY {
                        continue;
                    }
                    let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
                    for (key, score) in scores.iter().enumerate() {
                        let weight = (score - top).exp() / total;
                        let values = &v.elements[((b * hk + kv) * tk + key) * dv..][..dv];
                        let row = &mut out[((b * hq + h) * tq + row) * dv..][..dv];
                        row.iter_mut().zip(values).for_each(|(o, x)| *o += weight * x);
                    }
                }
            }
        }
        Ok(out)
    }
}

/// Applies a mask element; extents of 1 are broadcast.
fn masked(score: f64, mask: &Values, at: [usize; 4]) -> f64 {
    let (mut index, mut stride) = (0, 1);
    for (dimension, &position) in at.iter().enumerate() {
        let size = extent(mask, dimension);
        index += if size == 1 { 0 } else { position * stride };
        stride *= size;
    }
    let value = mask.elements[index];
    if mask.format != ElementFormat::Bool {
        score + value
    } else if value != 0.0 {
        score
    } else {
        f64::NEG_INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        assert_eq!(
            Expectation::parse("matmul(0, 1) transpose_right, accumulate").unwrap(),
            Expectation::Matmul {
                operands: (0, 1),
                transpose_left: false,
                transpose_right: true,
                accumulate: true
            }
        );
        assert_eq!(
            Expectation::parse("attention(q=0, k=1, v=2, causal=0) mask=4").unwrap(),
            Expectation::Attention(Attention {
                q: 0,
                k: 1,
                v: 2,
                causal: Some(0),
                mask: Some(4),
                scale: None
            })
        );
        assert!(Expectation::parse("matmul(0, 1, sideways)").is_err());
    }

    #[test]
    fn attention_by_hand() {
        let v = |extents: &[usize], elements: &[f64]| Values {
            format: ElementFormat::F32,
            extents: extents.to_vec(),
            elements: elements.to_vec(),
        };
        let attention = Attention {
            causal: Some(-1),
            scale: Some(1.0),
            ..Attention::default()
        };
        let q = v(&[1, 2], &[0.0, 2f64.ln()]);
        let k = v(&[1, 2], &[1.0, 0.0]);
        let out = attention.values(&q, &k, &v(&[1, 2], &[3.0, 6.0]), None).unwrap();
        // Row 0 has no key, row 1 only key 0.
        assert_eq!(out, [0.0, 3.0]);
        let open = Attention {
            scale: Some(1.0),
            ..Attention::default()
        };
        let out = open.values(&q, &k, &v(&[1, 2], &[3.0, 6.0]), None).unwrap();
        assert!((out[0] - 4.5).abs() < 1e-12 && (out[1] - 4.0).abs() < 1e-12);
    }
}
