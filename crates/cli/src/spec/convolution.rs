//! The reference of `convolution2d` in f64, straight from its definition (reference 7.4).

use super::Scan;
use super::reference::Values;

/// Parameters of the convolution reference. Pairs are (x, y).
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Argument number of the activation, extents (C, W, H, N).
    pub activation: usize,
    /// Argument number of the weights, extents (O, C, KW, KH).
    pub weights: usize,
    /// Steps between destination elements.
    pub strides: [i64; 2],
    /// Steps between kernel elements.
    pub dilations: [i64; 2],
    /// What is added to source positions.
    pub offsets: [i64; 2],
    /// Argument number of one number for each output channel.
    pub bias: Option<usize>,
    /// Plus the destination's elements before the run.
    pub accumulate: bool,
}

impl Convolution {
    /// Parses `(A, W) option…`, after the word `conv2d`.
    pub fn parse(scan: &mut Scan<'_>) -> Result<Self, String> {
        scan.expect("(")?;
        let activation = scan.integer()?;
        scan.expect(",")?;
        let weights = scan.integer()?;
        scan.expect(")")?;
        let mut out = Convolution {
            activation,
            weights,
            strides: [1; 2],
            dilations: [1; 2],
            offsets: [0; 2],
            bias: None,
            accumulate: false,
        };
        while let Ok(option) = scan.word() {
            match option.as_str() {
                "strides" => out.strides = pair(scan)?,
                "dilations" => out.dilations = pair(scan)?,
                "offsets" => out.offsets = pair(scan)?,
                "bias" => out.bias = Some(scan.integer()?),
                "accumulate" => out.accumulate = true,
                other => return Err(format!("conv2d has no option `{other}`")),
            }
            scan.take(",");
        }
        Ok(out)
    }

    /// `out(o, x, y, n)`: the sum over kernel places and channels; what lies outside of the activation is zero. A kernel is
    /// centred at `floor((k − 1) · dilation / 2)`.
    pub fn values(&self, a: &Values, w: &Values, bias: Option<&Values>, out: &Values) -> Result<Vec<f64>, String> {
        let shape = |values: &Values| [0, 1, 2, 3].map(|d| values.extents.get(d).copied().unwrap_or(1));
        let ([channels, width, height, batch], [outputs, inputs, kw, kh]) = (shape(a), shape(w));
        let [o, x, y, n] = shape(out);
        if inputs != channels || o > outputs || n > batch {
            return Err(format!(
                "the reference's activation {:?}, weights {:?} and destination {:?} do not fit each other",
                a.extents, w.extents, out.extents
            ));
        }
        if bias.is_some_and(|bias| bias.elements.len() < o) {
            return Err(format!("the reference's bias has fewer than {o} elements"));
        }
        let centre = [kw, kh].map(|k| k as i64 - 1);
        let centre = [0, 1].map(|d| (centre[d] * self.dilations[d]).div_euclid(2));
        let source = |d: usize, at: usize, k: usize, size: usize| {
            let place = self.offsets[d] + self.strides[d] * at as i64 + self.dilations[d] * k as i64 - centre[d];
            usize::try_from(place).ok().filter(|&place| place < size)
        };
        let mut sums = Vec::with_capacity(out.elements.len());
        for index in 0..o * x * y * n {
            let (o_at, rest) = (index % o, index / o);
            let (x_at, rest) = (rest % x, rest / x);
            let (y_at, n_at) = (rest % y, rest / y);
            let mut sum = bias.map_or(0.0, |bias| bias.elements[o_at]);
            if self.accumulate {
                sum += out.elements[index];
            }
            for ky in 0..kh {
                let Some(sy) = source(1, y_at, ky, height) else {
                    continue;
                };
                for kx in 0..kw {
                    let Some(sx) = source(0, x_at, kx, width) else { continue };
                    let from = ((n_at * height + sy) * width + sx) * channels;
                    for c in 0..channels {
                        let weight = w.elements[((ky * kw + kx) * channels + c) * outputs + o_at];
                        sum += a.elements[from + c] * weight;
                    }
                }
            }
            sums.push(sum);
        }
        Ok(sums)
    }
}

fn pair(scan: &mut Scan<'_>) -> Result<[i64; 2], String> {
    scan.expect("(")?;
    let x = scan.number()? as i64;
    scan.expect(",")?;
    let y = scan.number()? as i64;
    scan.expect(")")?;
    Ok([x, y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use anymetal::ElementFormat;

    fn values(extents: &[usize], elements: &[f64]) -> Values {
        Values {
            format: ElementFormat::F32,
            extents: extents.to_vec(),
            elements: elements.to_vec(),
        }
    }

    #[test]
    fn parses() {
        let text = "(0, 1) strides (2, 1), offsets (-1, 3) bias 4 accumulate";
        let conv = Convolution::parse(&mut Scan::new(text)).unwrap();
        assert_eq!((conv.activation, conv.weights, conv.strides), (0, 1, [2, 1]));
        assert_eq!((conv.offsets, conv.dilations), ([-1, 3], [1, 1]));
        assert_eq!((conv.bias, conv.accumulate), (Some(4), true));
        assert!(Convolution::parse(&mut Scan::new("(0, 1) padding (1, 1)")).is_err());
    }

    #[test]
    fn by_hand() {
        let plain = Convolution::parse(&mut Scan::new("(0, 1)")).unwrap();
        let row = values(&[1, 4, 1, 1], &[1.0, 2.0, 3.0, 4.0]);
        let weights = values(&[1, 1, 3, 1], &[100.0, 10.0, 1.0]);
        let out = values(&[1, 4, 1, 1], &[0.0; 4]);
        // The middle of three weights is on the element itself, zeros at both ends.
        assert_eq!(
            plain.values(&row, &weights, None, &out).unwrap(),
            [12.0, 123.0, 234.0, 340.0]
        );
        let wide = Convolution {
            strides: [2, 1],
            dilations: [2, 1],
            offsets: [1, 0],
            ..plain
        };
        let out = values(&[1, 2, 1, 1], &[0.0; 2]);
        assert_eq!(wide.values(&row, &weights, None, &out).unwrap(), [24.0, 240.0]);
    }
}
