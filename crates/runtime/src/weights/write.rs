//! Writing a safetensors file tensor by tensor, so that it never exists half written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::error::WeightsError;

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

/// A file under a temporary name beside its place, which it takes when it is complete and leaves no trace of otherwise.
pub(super) struct Partial {
    temporary: PathBuf,
    target: PathBuf,
    writer: BufWriter<File>,
    done: bool,
}

impl Partial {
    pub fn create(target: &Path) -> Result<Self, WeightsError> {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".partial-{}", std::process::id()));
        let temporary = target.with_file_name(name);
        let file = File::create(&temporary).map_err(|source| WeightsError::Io {
            path: target.to_path_buf(),
            source,
        })?;
        Ok(Self {
            temporary,
            target: target.to_path_buf(),
            writer: BufWriter::with_capacity(1 << 20, file),
            done: false,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WeightsError> {
        self.writer.write_all(bytes).map_err(|source| self.io(source))
    }

    /// Makes the file appear under its name, complete.
    pub fn finish(mut self) -> Result<(), WeightsError> {
        let flushed = self.writer.flush().and_then(|()| self.writer.get_ref().sync_all());
        let renamed = flushed.and_then(|()| std::fs::rename(&self.temporary, &self.target));
        renamed.map_err(|source| self.io(source))?;
        self.done = true;
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> WeightsError {
        WeightsError::Io {
            path: self.target.clone(),
            source,
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            // Nothing more can be done about a file that cannot be removed either.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}
