//! What a dispatch is given: arguments, grid, options; and what it reports.

use anymetal_formats::ElementFormat;

use crate::memory::HostMemory;

/// A scale plane of a bound tensor.
#[derive(Clone, Debug)]
pub struct ScaleBinding {
    /// Where the scales are.
    pub memory: HostMemory,
    /// Byte offset of the first scale.
    pub offset: usize,
    /// Always `Fp8UE8M0` today.
    pub format: ElementFormat,
    /// Elements of the data plane that share a scale, in each dimension, innermost first.
    pub block: Vec<u32>,
    /// Strides in scales.
    pub strides: Vec<i64>,
}

/// A bound tensor. Dimension 0 is the innermost.
#[derive(Clone, Debug)]
pub struct TensorBinding {
    /// The 8-byte handle that kernels see (`gpuResourceID`); not 0.
    pub handle: u64,
    /// Name for messages.
    pub name: String,
    /// Where the elements are.
    pub memory: HostMemory,
    /// Byte offset of element (0, …, 0).
    pub offset: usize,
    /// Element format.
    pub format: ElementFormat,
    /// Extents in elements.
    pub extents: Vec<u64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// The scale plane, if it is multi-plane.
    pub scales: Option<ScaleBinding>,
}

/// One argument of a dispatch, in the order of [`anymetal_ir::Kernel::arguments`].
#[derive(Clone, Debug, Default)]
pub enum BoundArgument {
    /// Nothing; fine only for an argument that the kernel does not use.
    #[default]
    Unbound,
    /// A range of memory.
    Buffer {
        /// The memory.
        memory: HostMemory,
        /// First byte.
        offset: usize,
        /// Bytes from there on that the kernel may use; `None` for all the rest.
        length: Option<usize>,
    },
    /// A copy of a few bytes (`setBytes`).
    Bytes(Vec<u8>),
    /// A tensor.
    Tensor(Box<TensorBinding>),
    /// A null tensor handle.
    NullTensor,
    /// Length in bytes of a `threadgroup T*` argument.
    Threadgroup(usize),
}

impl BoundArgument {
    /// A whole memory as a buffer.
    pub fn buffer(memory: &HostMemory) -> Self {
        BoundArgument::Buffer {
            memory: memory.clone(),
            offset: 0,
            length: None,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            BoundArgument::Unbound => "nothing",
            BoundArgument::Buffer { .. } => "a buffer",
            BoundArgument::Bytes(_) => "bytes",
            BoundArgument::Tensor(_) | BoundArgument::NullTensor => "a tensor",
            BoundArgument::Threadgroup(_) => "threadgroup memory",
        }
    }
}

/// Tensors that a kernel may reach by a handle that it reads from memory.
pub trait TensorTable: Sync {
    /// The tensor behind a handle, or `None`.
    fn tensor(&self, handle: u64) -> Option<TensorBinding>;

    /// Every memory that [`tensor`](Self::tensor) may lead to, and whether the kernel may write there; locked for the
    /// length of the dispatch.
    fn memories(&self) -> Vec<(HostMemory, bool)>;
}

/// No tensors but those bound as arguments.
pub struct NoTensors;

impl TensorTable for NoTensors {
    fn tensor(&self, _handle: u64) -> Option<TensorBinding> {
        None
    }

    fn memories(&self) -> Vec<(HostMemory, bool)> {
        Vec::new()
    }
}

/// How large the grid is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grid {
    /// `dispatchThreads`: exactly so many threads; threadgroups at the edges are smaller.
    Threads([u32; 3]),
    /// `dispatchThreadgroups`.
    Threadgroups([u32; 3]),
}

/// The shape of a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The grid.
    pub grid: Grid,
    /// Threads of a (full) threadgroup.
    pub threads_per_threadgroup: [u32; 3],
}

impl Launch {
    /// So many threads, in threadgroups of the given size.
    pub const fn threads(grid: [u32; 3], threads_per_threadgroup: [u32; 3]) -> Self {
        Launch {
            grid: Grid::Threads(grid),
            threads_per_threadgroup,
        }
    }

    /// So many threadgroups of the given size.
    pub const fn threadgroups(grid: [u32; 3], threads_per_threadgroup: [u32; 3]) -> Self {
        Launch {
            grid: Grid::Threadgroups(grid),
            threads_per_threadgroup,
        }
    }
}

/// How a dispatch runs.
#[derive(Clone, PartialEq, Debug)]
pub struct DispatchOptions {
    /// Workers to use at most; `None` for `ANYMETAL_THREADS` or all cores.
    pub threads: Option<usize>,
    /// Threadgroups in order on one worker.
    pub deterministic: bool,
    /// Lane-program instructions that a threadgroup may run in loops; `None` for no bound.
    pub budget: Option<u64>,
    /// Count bytes read and written.
    pub traffic: bool,
    /// Make `is_compatible_as_left_input` and its like answer false.
    pub force_incompatible: bool,
    /// Take elements past a static extent as zero instead of a fault.
    pub static_overhang_zero: bool,
    /// Products give the bits that Apple's tensor unit gives (slowly).
    pub tensor_unit: bool,
    /// Bytes of threadgroup memory, static and dynamic together.
    pub threadgroup_memory_limit: u64,
}

impl Default for DispatchOptions {
    fn default() -> Self {
        DispatchOptions {
            threads: None,
            deterministic: false,
            budget: None,
            traffic: false,
            force_incompatible: false,
            static_overhang_zero: false,
            tensor_unit: false,
            threadgroup_memory_limit: 32 * 1024,
        }
    }
}

/// Bytes that a kernel addressed. Tile operations count the valid part of each operand once a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Read from device and constant buffers.
    pub device_read: u64,
    /// Written to device buffers.
    pub device_written: u64,
    /// Read from threadgroup memory.
    pub threadgroup_read: u64,
    /// Written to threadgroup memory.
    pub threadgroup_written: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.device_read += other.device_read;
        self.device_written += other.device_written;
        self.threadgroup_read += other.threadgroup_read;
        self.threadgroup_written += other.threadgroup_written;
    }
}

/// What a finished dispatch tells.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DispatchReport {
    /// Counted bytes, when asked for.
    pub traffic: Option<Traffic>,
    /// Workers that took part.
    pub workers: usize,
    /// Threadgroups run.
    pub threadgroups: u64,
    /// What the sanitizer found; always empty without [`CpuOptions::sanitize`].
    pub findings: Vec<anymetal_ir::Finding>,
}

/// How a kernel is compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuOptions {
    /// Compile lane operations for plain instructions only, whatever the machine has. `ANYMETAL_CPU=portable` does the same.
    pub portable_lanes: bool,
    /// Compile for the sanitizer: dispatches run slowly, in order and on one thread, and report
    /// [findings](DispatchReport::findings). Faults are among them instead of errors of the dispatch.
    pub sanitize: Option<crate::sanitize::SanitizeOptions>,
}
