//! Why a kernel cannot be compiled.

/// A kernel that this backend refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Something that the backend does not run.
    #[error("{location}: {what} is not supported on CUDA devices")]
    Unsupported {
        /// What, as the subject of a sentence.
        what: String,
        /// `file:line:column`.
        location: String,
    },
}
