//! NumPy's `.npy` files: versions 1 to 3, C order, little-endian numbers and booleans.
//!
//! The format is described in NumPy's documentation (`numpy.lib.format`). A `.npy` file has no bfloat16 and no 8-bit
//! floats; those are written as `float32`.

use std::path::{Path, PathBuf};

use anymetal::{ElementFormat, WholeFile};

/// What can be wrong with a `.npy` file.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The file could not be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: not a usable .npy file: {what}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// An array as a file holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Element type. `Bool`, the integers, `F16` and `F32`; `f8` (f64) is narrowed to `F32` when read.
    pub format: ElementFormat,
    /// Extents, outermost first, as NumPy has them.
    pub shape: Vec<usize>,
    /// Elements in C order, little-endian.
    pub bytes: Vec<u8>,
}

impl Array {
    /// The elements as numbers.
    pub fn values(&self) -> Vec<f64> {
        let size = self.format.bits() / 8;
        self.bytes
            .chunks_exact(size)
            .map(|chunk| {
                let mut code = [0u8; 8];
                code[..size].copy_from_slice(chunk);
                self.format.decode(u64::from_le_bytes(code))
            })
            .collect()
    }

    /// An array of `F32` from numbers.
    pub fn from_f64(shape: Vec<usize>, values: &[f64]) -> Self {
        let bytes = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
        Array {
            format: ElementFormat::F32,
            shape,
            bytes,
        }
    }
}

fn descr(format: ElementFormat) -> Option<&'static str> {
    Some(match format {
        ElementFormat::Bool => "|b1",
        ElementFormat::I8 => "|i1",
        ElementFormat::U8 => "|u1",
        ElementFormat::I16 => "<i2",
        ElementFormat::U16 => "<u2",
        ElementFormat::I32 => "<i4",
        ElementFormat::U32 => "<u4",
        ElementFormat::I64 => "<i8",
        ElementFormat::U64 => "<u8",
        ElementFormat::F16 => "<f2",
        ElementFormat::F32 => "<f4",
        _ => return None,
    })
}

/// The quoted or bracketed text after `'key':` in the header's dictionary.
fn field<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let at = header.find(&format!("'{key}'"))? + key.len() + 2;
    let rest = header[at..].trim_start().strip_prefix(':')?.trim_start();
    match rest.chars().next()? {
        quote @ ('\'' | '"') => rest[1..].split(quote).next(),
        '(' => rest[1..].split(')').next(),
        _ => rest.split([',', '}']).next().map(str::trim),
    }
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Array, NpyError> {
    let bytes = std::fs::read(path).map_err(|error| NpyError::Io {
        path: path.to_path_buf(),
        error,
    })?;
    parse(&bytes).map_err(|what| NpyError::Format {
        path: path.to_path_buf(),
        what,
    })
}

/// Reads the bytes of a file.
pub fn parse(bytes: &[u8]) -> Result<Array, String> {
    if bytes.len() < 10 || &bytes[..6] != b"\x93NUMPY" {
        return Err("it does not start with the NumPy magic".to_string());
    }
    let (length, start) = match bytes[6] {
        1 => (usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), 10),
        2 | 3 if bytes.len() < 12 => return Err("the header is cut off".to_string()),
        2 | 3 => (
            u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize,
            12,
        ),
        version => return Err(format!("version {version} is unknown")),
    };
    let header = bytes.get(start..start + length).ok_or("the header is cut off")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    let missing = |key: &str| format!("the header has no '{key}'");
    let descr_text = field(header, "descr").ok_or_else(|| missing("descr"))?;
    if field(header, "fortran_order").ok_or_else(|| missing("fortran_order"))? != "False" {
        return Err("Fortran order; save it with numpy.ascontiguousarray".to_string());
    }
    let shape_text = field(header, "shape").ok_or_else(|| missing("shape"))?;
    let shape = shape_text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.parse::<usize>().map_err(|_| format!("shape ({shape_text})")))
        .collect::<Result<Vec<_>, _>>()?;
    let count = shape
        .iter()
        .try_fold(1usize, |product, &extent| product.checked_mul(extent))
        .ok_or("the shape is too large")?;
    let data = &bytes[start + length..];
    let need = |size: usize| {
        let wanted = count.checked_mul(size).ok_or("the shape is too large")?;
        data.get(..wanted)
            .ok_or_else(|| format!("{wanted} bytes of data are needed, {} are there", data.len()))
    };
    if descr_text == "<f8" {
        let narrowed = need(8)?.chunks_exact(8).flat_map(|chunk| {
            let mut word = [0u8; 8];
            word.copy_from_slice(chunk);
            (f64::from_le_bytes(word) as f32).to_le_bytes()
        });
        return Ok(Array {
            format: ElementFormat::F32,
            shape,
            bytes: narrowed.collect(),
        });
    }
    let format = ElementFormat::ALL
        .into_iter()
        .find(|&format| descr(format) == Some(descr_text))
        .ok_or_else(|| {
            format!("element type '{descr_text}' is not supported (big-endian, complex and objects are not)")
        })?;
    let bytes = need(format.bits() / 8)?.to_vec();
    Ok(Array { format, shape, bytes })
}

/// Writes a file; formats that NumPy lacks become `float32`.
pub fn write(path: &Path, array: &Array) -> Result<(), NpyError> {
    let io = |error| NpyError::Io {
        path: path.to_path_buf(),
        error,
    };
    let widened;
    let (array, descr) = match descr(array.format) {
        Some(descr) => (array, descr),
        None => {
            widened = Array::from_f64(array.shape.clone(), &array.values());
            (&widened, "<f4")
        }
    };
    let extents: Vec<String> = array.shape.iter().map(usize::to_string).collect();
    let comma = if extents.len() == 1 { "," } else { "" };
    let mut header = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        extents.join(", ")
    );
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(&array.bytes);
    WholeFile::write_all_to(path, &out).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusals() {
        let folder = std::env::temp_dir().join(format!("anymetal-npy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.npy");
        for shape in [vec![], vec![3], vec![2, 3], vec![0, 4]] {
            let count: usize = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|i| i as f64 * 0.5 - 1.0).collect();
            let array = Array::from_f64(shape, &values);
            write(&path, &array).unwrap();
            assert_eq!(read(&path).unwrap(), array);
            assert_eq!(array.values(), values);
        }
        let good = std::fs::read(&path).unwrap();
        assert_eq!(parse(&good[..8]).unwrap_err(), "it does not start with the NumPy magic");
        let mut big = Array::from_f64(vec![2], &[1.0, 2.0]);
        big.shape = vec![3];
        write(&path, &big).unwrap();
        assert!(
            read(&path)
                .unwrap_err()
                .to_string()
                .ends_with("12 bytes of data are needed, 8 are there")
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
