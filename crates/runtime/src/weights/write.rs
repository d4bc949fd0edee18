//! Writing a safetensors file tensor by tensor, so that it never exists half written.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::error::WeightsError;
use crate::WholeFile;

/// Tensors whose sizes allow it start at multiples of this many bytes of the file: what Metal wants of format-typed planes.
pub(super) const ALIGNMENT: usize = 128;

/// An entry to be written.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub name: String,
    pub dtype: Dtype,
    /// Outermost first.
    pub shape: Vec<usize>,
    pub bytes: usize,
}

/// The header: entries one after the other as given, padded with spaces so that the data starts at a multiple of [`ALIGNMENT`].
pub(super) fn header(entries: &[Planned], metadata: &BTreeMap<String, String>) -> Result<Vec<u8>, String> {
    let mut text = String::from("{");
    if !metadata.is_empty() {
        let metadata = serde_json::to_string(metadata).map_err(|error| error.to_string())?;
        text.push_str(&format!("\"__metadata__\":{metadata},"));
    }
    let mut offset = 0usize;
    for entry in entries {
        let name = serde_json::to_string(&entry.name).map_err(|error| error.to_string())?;
        let end = offset
            .checked_add(entry.bytes)
            .ok_or("the tensors are too large for one file")?;
        text.push_str(&format!(
            "{name}:{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{offset},{end}]}},",
            entry.dtype, entry.shape
        ));
        offset = end;
    }
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
    while !(8 + text.len()).is_multiple_of(ALIGNMENT) {
        text.push(' ');
    }
    // The limit of the format's own readers.
    if text.len() > 100_000_000 {
        return Err("the header would be longer than the 100 MB that readers accept".to_owned());
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.into_bytes());
    Ok(bytes)
}

/// The file that is being written, with the errors of weights files.
pub(super) struct Partial {
    file: WholeFile,
    target: PathBuf,
}

impl Partial {
    pub fn create(target: &Path) -> Result<Self, WeightsError> {
        let file = WholeFile::create(target).map_err(|source| io(target, source))?;
        Ok(Self {
            file,
            target: target.to_path_buf(),
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WeightsError> {
        self.file.write_all(bytes).map_err(|source| io(&self.target, source))
    }

    /// Makes the file appear under its name, complete.
    pub fn finish(self) -> Result<(), WeightsError> {
        self.file.finish().map_err(|source| io(&self.target, source))
    }
}

fn io(path: &Path, source: std::io::Error) -> WeightsError {
    WeightsError::Io {
        path: path.to_path_buf(),
        source,
    }
}
