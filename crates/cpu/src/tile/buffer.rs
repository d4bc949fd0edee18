//! Memory that packing reuses: 64-byte aligned, grown and never shrunk.

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes aligned to 64, without a meaning of their own.
#[derive(Default)]
pub(crate) struct AlignedBuffer {
    lines: Vec<Line>,
}

impl AlignedBuffer {
    pub const fn new() -> Self {
        AlignedBuffer { lines: Vec::new() }
    }

    /// Makes room for `bytes` and gives the start. Contents are unspecified (but initialised).
    pub fn reserve(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(64);
        if self.lines.len() < lines {
            // The old contents are not needed, so do not copy them.
            self.lines.clear();
            self.lines.resize(lines, Line([0; 64]));
        }
        self.lines.as_mut_ptr().cast()
    }

    pub fn as_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    /// Bytes held.
    pub fn capacity(&self) -> usize {
        self.lines.len() * 64
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.capacity())
    }
}
