//! Inputs of a model in words: numbers, NumPy files, sentences, pictures.

use std::path::Path;

use anymetal::ElementFormat;
use anymetal_coreai::{Array, ElementType, InputSpec};
use tokenizers::Tokenizer;

use crate::npy;
use crate::spec::shortened;

/// What was given for the inputs of a function.
pub struct Inputs {
    fixed: Vec<(String, Array)>,
    /// Token ids of sentences for one input.
    sentences: Option<(String, Vec<Vec<u32>>)>,
}

/// Loads a tokenizer.
pub fn load_tokenizer(path: &Path) -> Result<Tokenizer, String> {
    Tokenizer::from_file(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn expected(specs: &[InputSpec]) -> String {
    let list: Vec<String> = specs
        .iter()
        .map(|spec| {
            let shape: Vec<String> = spec
                .shape
                .iter()
                .map(|n| n.map_or("?".to_string(), |n| n.to_string()))
                .collect();
            format!("{} {}[{}]", spec.name, spec.element, shape.join(", "))
        })
        .collect();
    list.join(", ")
}

impl Inputs {
    /// Reads all `NAME=VALUE` words.
    pub fn parse(words: &[String], specs: &[InputSpec], tokenizer: Option<&Tokenizer>) -> Result<Self, String> {
        let mut inputs = Inputs {
            fixed: Vec::new(),
            sentences: None,
        };
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("`{word}`: write NAME=VALUE; the inputs are {}", expected(specs)))?;
            let spec = specs
                .iter()
                .find(|spec| spec.name == name)
                .ok_or_else(|| format!("the function has no input `{name}`; it has {}", expected(specs)))?;
            let given = words
                .iter()
                .filter(|word| word.split_once('=').is_some_and(|(other, _)| other == name));
            if given.count() > 1 {
                return Err(format!("input {name} is given twice"));
            }
            let lines: Option<Vec<String>> = if let Some(sentence) = value.strip_prefix("text:") {
                Some(vec![sentence.to_string()])
            } else if let Some(file) = value.strip_prefix('@') {
                let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
                Some(
                    text.lines()
                        .filter(|line| !line.trim().is_empty())
                        .map(str::to_string)
                        .collect(),
                )
            } else {
                None
            };
            let Some(lines) = lines else {
                let place = |error: String| format!("input {name}: {error}");
                inputs
                    .fixed
                    .push((name.to_string(), array(spec, value).map_err(place)?));
                continue;
            };
            let tokenizer = tokenizer.ok_or("a text input needs --tokenizer tokenizer.json")?;
            if inputs.sentences.is_some() {
                return Err("only one input can be text".to_string());
            }
            if lines.is_empty() {
                return Err(format!("input {name}: there is no sentence in {value}"));
            }
            let encode = |line: &String| {
                let encoding = tokenizer
                    .encode(line.as_str(), true)
                    .map_err(|error| format!("cannot tokenise: {error}"))?;
                Ok(encoding.get_ids().to_vec())
            };
            let tokens = lines.iter().map(encode).collect::<Result<Vec<_>, String>>()?;
            inputs.sentences = Some((name.to_string(), tokens));
        }
        Ok(inputs)
    }

    /// The inputs of each call: sentences in batches, padded to the longest of each, with masks filled in.
    pub fn batches(&self, size: usize, specs: &[InputSpec]) -> Result<Vec<Vec<(String, Array)>>, String> {
        let Some((name, sentences)) = &self.sentences else {
            return Ok(vec![self.fixed.clone()]);
        };
        let mut out = Vec::new();
        for batch in sentences.chunks(size) {
            let longest = batch.iter().map(Vec::len).max().unwrap_or(0);
            let width = specs
                .iter()
                .find(|spec| spec.name == *name)
                .and_then(|spec| spec.shape.last().copied().flatten())
                .map_or(longest, |fixed| fixed as usize);
            if longest > width {
                return Err(format!("a sentence has {longest} tokens, the model takes {width}"));
            }
            let mut call = self.fixed.clone();
            let padded = |value: &dyn Fn(u32) -> i32| -> Vec<i32> {
                batch
                    .iter()
                    .flat_map(|ids| {
                        ids.iter()
                            .map(|&id| value(id))
                            .chain(std::iter::repeat_n(0, width - ids.len()))
                    })
                    .collect()
            };
            let shape = [batch.len(), width];
            for spec in specs {
                let values = if spec.name == *name {
                    padded(&|id| id as i32)
                } else if call.iter().any(|(given, _)| *given == spec.name) {
                    continue;
                } else if spec.name.contains("mask") {
                    padded(&|_| 1)
                } else if spec.name.contains("token_type") {
                    padded(&|_| 0)
                } else {
                    continue;
                };
                let numbers: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
                call.push((spec.name.clone(), numbers_as(spec.element, &shape, &numbers)?));
            }
            out.push(call);
        }
        Ok(out)
    }
}

/// The element format of an element type, if there is one.
pub fn format_of(element: ElementType) -> Option<ElementFormat> {
    Some(match element {
        ElementType::Bool => ElementFormat::Bool,
        ElementType::F32 => ElementFormat::F32,
        ElementType::F16 => ElementFormat::F16,
        ElementType::BF16 => ElementFormat::BF16,
        ElementType::I64 => ElementFormat::I64,
        ElementType::I32 => ElementFormat::I32,
        ElementType::I16 => ElementFormat::I16,
        ElementType::I8 => ElementFormat::I8,
        ElementType::U64 => ElementFormat::U64,
        ElementType::U32 => ElementFormat::U32,
        ElementType::U16 => ElementFormat::U16,
        ElementType::U8 => ElementFormat::U8,
        ElementType::F8E4M3FN => ElementFormat::Fp8E4M3,
        ElementType::F8E5M2 => ElementFormat::Fp8E5M2,
        _ => return None,
    })
}

/// An output as a NumPy array.
pub fn to_npy(array: &Array) -> Result<npy::Array, String> {
    let format = format_of(array.element()).ok_or_else(|| format!("{} cannot be shown as numbers", array.element()))?;
    Ok(npy::Array {
        format,
        shape: array.shape().to_vec(),
        bytes: array.bytes().to_vec(),
    })
}

/// The least number of an integer format and the first one past its greatest; `None` for formats with fractions.
fn whole_numbers(format: ElementFormat) -> Option<(f64, f64)> {
    use ElementFormat::*;
    let bits = format.bits() as i32;
    match format {
        Bool => Some((0.0, 2.0)),
        I8 | I16 | I32 | I64 => Some((-(2f64.powi(bits - 1)), 2f64.powi(bits - 1))),
        U8 | U16 | U32 | U64 => Some((0.0, 2f64.powi(bits))),
        _ => None,
    }
}

fn numbers_as(element: ElementType, shape: &[usize], numbers: &[f64]) -> Result<Array, String> {
    let format = format_of(element).ok_or_else(|| format!("{element} inputs cannot be given in words"))?;
    if let Some((least, end)) = whole_numbers(format)
        && let Some(bad) = numbers
            .iter()
            .find(|&&n| n.fract() != 0.0 || !(least..end).contains(&n))
    {
        return Err(format!("{bad} is no {element}"));
    }
    let bytes = format.pack(numbers.iter().copied(), anymetal::Saturation::Default);
    Array::from_bytes(element, shape, &bytes).map_err(|error| error.to_string())
}

/// A value that is not text.
fn array(spec: &InputSpec, value: &str) -> Result<Array, String> {
    if let Some(file) = value.strip_prefix("image:") {
        return image(spec, Path::new(file));
    }
    if value.ends_with(".npy") {
        let read = npy::read(Path::new(value)).map_err(|error| error.to_string())?;
        let same = format_of(spec.element) == Some(read.format);
        return if same {
            Array::from_bytes(spec.element, &read.shape, &read.bytes).map_err(|error| error.to_string())
        } else if spec.element == ElementType::BF16 && read.format == ElementFormat::F32 {
            // NumPy has no bfloat16.
            numbers_as(spec.element, &read.shape, &read.values())
        } else if spec.element == ElementType::I32 && read.format == ElementFormat::I64 {
            numbers_as(spec.element, &read.shape, &read.values())
        } else {
            Err(format!(
                "{value} holds {}, the model takes {}",
                read.format.short_name(),
                spec.element
            ))
        };
    }
    let (shape, list) = match value.split_once(':') {
        Some((shape, list)) => {
            let extents = shape
                .split('x')
                .map(|n| n.trim().parse::<usize>())
                .collect::<Result<Vec<_>, _>>();
            (
                Some(extents.map_err(|_| format!("`{shape}` is no shape; write 2x3:1,2,3,4,5,6"))?),
                list,
            )
        }
        None => (None, value),
    };
    let numbers = list
        .split(',')
        .map(|word| match word.trim() {
            "true" => Ok(1.0),
            "false" => Ok(0.0),
            word => word.parse::<f64>().map_err(|_| {
                let word = shortened(word);
                format!(
                    "`{word}` is no number (numbers are separated by commas; files end in .npy; text begins with text:)"
                )
            }),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let shape = shape.unwrap_or_else(|| infer(spec, numbers.len()));
    let count = shape
        .iter()
        .try_fold(1usize, |product, &extent| product.checked_mul(extent));
    if count != Some(numbers.len()) {
        return Err(format!("{} numbers are given for the shape {shape:?}", numbers.len()));
    }
    numbers_as(spec.element, &shape, &numbers)
}

/// The shape of a plain list: the input's, with its last free dimension taking what is left and the others 1.
fn infer(spec: &InputSpec, count: usize) -> Vec<usize> {
    let fixed: usize = spec
        .shape
        .iter()
        .flatten()
        .fold(1usize, |product, &n| product.saturating_mul(n as usize))
        .max(1);
    let free = spec.shape.iter().rposition(Option::is_none);
    spec.shape
        .iter()
        .enumerate()
        .map(|(at, extent)| match extent {
            Some(extent) => *extent as usize,
            None if Some(at) == free => count / fixed,
            None => 1,
        })
        .collect()
}

/// A picture, resized to the input's size: RGB from 0 to 1 (0 to 255 for `uint8`), planes first or last as the shape says.
fn image(spec: &InputSpec, path: &Path) -> Result<Array, String> {
    let picture = image::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let extents: Vec<usize> = spec.shape.iter().map(|n| n.map_or(0, |n| n as usize)).collect();
    let (height, width, planes_first) = match extents.as_slice() {
        [.., 3, height, width] => (*height, *width, true),
        [.., height, width, 3] => (*height, *width, false),
        _ => {
            return Err("a picture needs an input of shape [.., 3, H, W] or [.., H, W, 3]".to_string());
        }
    };
    let (height, width) = if height == 0 || width == 0 {
        (picture.height() as usize, picture.width() as usize)
    } else {
        (height, width)
    };
    let resized = image::imageops::resize(
        &picture.to_rgb8(),
        width as u32,
        height as u32,
        image::imageops::FilterType::Triangle,
    );
    let scale = if spec.element == ElementType::U8 {
        1.0
    } else {
        1.0 / 255.0
    };
    let pixels = resized.as_raw();
    let numbers: Vec<f64> = if planes_first {
        (0..3)
            .flat_map(|plane| pixels.iter().skip(plane).step_by(3))
            .map(|&value| f64::from(value) * scale)
            .collect()
    } else {
        pixels.iter().map(|&value| f64::from(value) * scale).collect()
    };
    let mut shape = vec![1; extents.len() - 3];
    shape.extend(if planes_first {
        [3, height, width]
    } else {
        [height, width, 3]
    });
    numbers_as(spec.element, &shape, &numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_not_made_of_other_numbers() {
        let refused = |element, number| numbers_as(element, &[1], &[number]).unwrap_err();
        assert_eq!(refused(ElementType::I32, f64::NAN), "NaN is no int32");
        assert_eq!(refused(ElementType::I32, 1.5), "1.5 is no int32");
        assert_eq!(refused(ElementType::I32, 2147483648.0), "2147483648 is no int32");
        assert!(numbers_as(ElementType::I32, &[2], &[-2147483648.0, 2147483647.0]).is_ok());
        assert!(numbers_as(ElementType::F32, &[1], &[f64::NAN]).is_ok());
    }
}
