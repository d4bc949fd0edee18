//! What can be wrong with a weights file or with what is to be done to it.

use std::path::{Path, PathBuf};

/// A weights file that cannot be read, understood, converted or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The system refused to read or write.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not a safetensors file, or one that contradicts itself.
    #[error("{}: not a usable safetensors file: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A tensor that cannot be used or converted.
    #[error("{}: tensor `{name}`: {reason}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Nothing to do, so that the output would be a copy.
    #[error("{}: {what}", path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: String,
    },
    /// Reading from and writing to one file.
    #[error("{}: the output is the input; give another file name", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
}

impl WeightsError {
    pub(super) fn invalid(path: &Path, what: impl Into<String>) -> Self {
        WeightsError::Invalid {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }
}

impl From<WeightsError> for crate::Error {
    fn from(error: WeightsError) -> Self {
        crate::Error::Weights(Box::new(error))
    }
}
