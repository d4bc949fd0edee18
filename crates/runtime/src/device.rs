//! Devices: where memory comes from, and what a kernel may ask for.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anymetal_cpu::HostMemory;
use anymetal_cpu::tile::TilePath;
use anymetal_cuda::Target as Ptx;
pub use anymetal_cuda::driver::Properties as GpuProperties;
use anymetal_formats::TensorDescriptor;
use anymetal_ir::Kernel;
use anymetal_msl::CompileOptions;
use bytemuck::Pod;

use crate::backend::Target;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::library::{Library, LibraryInner};
use crate::pipeline::{ExecutionOptions, Pipeline};
use crate::queue::Queue;
use crate::tensor::{Attachments, PlaneMemory, Tensor};

pub(crate) const MAX_THREADS_PER_THREADGROUP: usize = 1024;
pub(crate) const MAX_THREADGROUP_MEMORY: usize = 32 * 1024;

/// Compiled libraries that the cache holds on to. The oldest goes first; pipelines in use stay alive by themselves.
const CACHED_LIBRARIES: usize = 256;

/// What a device allows. The numbers are those of Apple's GPUs, so that what runs here runs there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// Threads of a threadgroup.
    pub max_threads_per_threadgroup: usize,
    /// Bytes of threadgroup memory, declared and set by the dispatch together.
    pub max_threadgroup_memory_length: usize,
    /// Threads of a SIMD-group.
    pub thread_execution_width: usize,
    /// Buffer indices: 0 to one less than this.
    pub max_buffer_bindings: u32,
    /// Dimensions of a tensor.
    pub max_tensor_rank: usize,
    /// Bytes of a buffer.
    pub max_buffer_length: usize,
}

/// A place to run kernels (`MTLDevice`). Cheap to clone; clones share the cache of compiled kernels.
///
/// ```
/// let device = anymetal::Device::system_default();
/// println!("{} ({} on {} cores)", device.name(), device.tile_path(), device.cores());
/// assert_eq!(device.limits().thread_execution_width, 32);
/// ```
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    name: String,
    target: Target,
    libraries: Mutex<LibraryCache>,
}

/// Libraries by what they were compiled from.
#[derive(Default)]
struct LibraryCache {
    entries: HashMap<LibraryKey, Arc<LibraryInner>>,
    /// Keys from the oldest to the newest.
    order: std::collections::VecDeque<LibraryKey>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct LibraryKey {
    source: Arc<str>,
    file: String,
    /// The options' debug form, which shows every field.
    options: String,
}

impl Device {
    /// This machine's processor.
    pub fn cpu() -> Self {
        Self::new(processor_name(), Target::Cpu)
    }

    /// A CUDA device by its number, counted as the driver counts them (see `CUDA_VISIBLE_DEVICES`).
    ///
    /// # Errors
    /// [`Error::Device`] says what is missing: the driver, the device, or something that it needs to have.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        let target = Target::cuda(ordinal)?;
        let name = match &target {
            Target::Cuda(context) => context.properties().name.clone(),
            Target::Cpu => processor_name(),
        };
        Ok(Self::new(name, target))
    }

    /// The device of this [`id`](Self::id): `cpu`, `cuda` (the first one), `cuda:1`.
    ///
    /// ```
    /// let device = anymetal::Device::by_name("cpu")?;
    /// assert_eq!(device.id(), "cpu");
    /// let error = anymetal::Device::by_name("tpu").unwrap_err();
    /// assert_eq!(error.to_string(), "there is no device `tpu`: write cpu, cuda or cuda:N");
    /// # Ok::<(), anymetal::Error>(())
    /// ```
    pub fn by_name(name: &str) -> Result<Self> {
        let unknown = || Error::Device(format!("there is no device `{name}`: write cpu, cuda or cuda:N"));
        match name.split_once(':') {
            None if name == "cpu" => Ok(Self::cpu()),
            None if name == "cuda" => Self::cuda(0),
            Some(("cuda", number)) => Self::cuda(number.parse().map_err(|_| unknown())?),
            _ => Err(unknown()),
        }
    }

    fn new(name: String, target: Target) -> Self {
        Self(Arc::new(Inner {
            name,
            target,
            libraries: Mutex::default(),
        }))
    }

    /// The device that is used when nobody asks for another: the processor.
    pub fn system_default() -> Self {
        Self::cpu()
    }

    /// Every device of this machine: the processor, then the CUDA devices that can be used.
    pub fn all() -> Vec<Self> {
        let gpus = anymetal_cuda::driver::devices().unwrap_or_default();
        let gpus = gpus.iter().filter_map(|gpu| Self::cuda(gpu.ordinal).ok());
        std::iter::once(Self::cpu()).chain(gpus).collect()
    }

    /// `cpu`, `cuda:0`: what [`by_name`](Self::by_name) finds it by.
    pub fn id(&self) -> String {
        self.0.target.id()
    }

    /// What a GPU has; `None` for the processor.
    pub fn gpu(&self) -> Option<&GpuProperties> {
        match &self.0.target {
            Target::Cpu => None,
            Target::Cuda(context) => Some(context.properties()),
        }
    }

    /// Free bytes and all bytes of a GPU's memory; `None` for the processor.
    pub fn gpu_memory(&self) -> Result<Option<(u64, u64)>> {
        match &self.0.target {
            Target::Cpu => Ok(None),
            Target::Cuda(context) => {
                let info = context.memory_info();
                info.map(Some).map_err(|error| Error::Device(error.to_string()))
            }
        }
    }

    /// Waits until everything that was committed to the device has run.
    pub fn synchronize(&self) -> Result<()> {
        self.0.target.synchronize()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.0.target
    }

    /// The device's name as the system tells it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it allows.
    pub fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            max_threads_per_threadgroup: MAX_THREADS_PER_THREADGROUP,
            max_threadgroup_memory_length: MAX_THREADGROUP_MEMORY,
            thread_execution_width: 32,
            max_buffer_bindings: 31,
            max_tensor_rank: anymetal_formats::MAX_RANK,
            max_buffer_length: isize::MAX as usize,
        }
    }

    /// The instructions that tile products use: `portable`, `avx2`, `avx512` or `amx`, the fastest that the processor
    /// has, unless the environment variable `ANYMETAL_CPU` names another; on a GPU its target, `cuda sm_90a`.
    pub fn tile_path(&self) -> String {
        match self.gpu() {
            None => tile_path(),
            Some(gpu) => format!("cuda {}", Ptx::of_capability(gpu.sm / 10, gpu.sm % 10)),
        }
    }

    /// Every path that this processor has, plainest first.
    pub fn available_tile_paths(&self) -> Vec<String> {
        if self.gpu().is_some() {
            return vec![self.tile_path()];
        }
        anymetal_cpu::tile::available_paths()
            .iter()
            .map(|p| p.to_string())
            .collect()
    }

    /// How many cores (multiprocessors of a GPU) may run threadgroups.
    pub fn cores(&self) -> usize {
        if let Some(gpu) = self.gpu() {
            return gpu.multiprocessors as usize;
        }
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// A buffer of `length` zero bytes.
    pub fn new_buffer(&self, length: usize) -> Result<Buffer> {
        Ok(Buffer::new(HostMemory::zeroed(length)?))
    }

    /// A buffer with a copy of `bytes`.
    pub fn new_buffer_with_bytes(&self, bytes: &[u8]) -> Result<Buffer> {
        Ok(Buffer::new(HostMemory::from_bytes(bytes)?))
    }

    /// A buffer with a copy of `values`.
    pub fn new_buffer_with_slice<T: Pod>(&self, values: &[T]) -> Result<Buffer> {
        self.new_buffer_with_bytes(bytemuck::cast_slice(values))
    }

    /// A read-only buffer over bytes that somebody else owns, a mapped file for example, without a copy. Kernels that
    /// write it are refused.
    pub fn new_buffer_no_copy(
        &self,
        owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        range: std::ops::Range<usize>,
    ) -> Result<Buffer> {
        Ok(Buffer::new(HostMemory::from_shared(owner, range)?))
    }

    /// A buffer over memory that another part of the program shares with the executor.
    pub fn new_buffer_with_memory(&self, memory: HostMemory) -> Buffer {
        Buffer::new(memory)
    }

    /// A tensor in memory of its own (`-[MTLDevice newTensorWithDescriptor:error:]`), all planes included and all bytes zero.
    /// The descriptor must not have strides.
    pub fn new_tensor(&self, descriptor: &TensorDescriptor) -> Result<Tensor> {
        let layout = descriptor.device_layout()?;
        let memory = HostMemory::zeroed(layout.byte_size)?;
        let planes = vec![PlaneMemory { memory, buffer: None }; layout.planes.len()];
        Ok(Tensor::new(descriptor.clone(), layout, planes))
    }

    /// A tensor whose planes lie in the given buffers (`-[MTLDevice newTensorWithDescriptor:attachments:error:]`). Every plane needs
    /// an entry. Strides are those of the data plane; without any it is packed.
    pub fn new_tensor_with_attachments(
        &self,
        descriptor: &TensorDescriptor,
        attachments: &Attachments,
    ) -> Result<Tensor> {
        let layout = attachments.layout(descriptor)?;
        let planes = attachments.memories(&layout);
        Ok(Tensor::new(descriptor.clone(), layout, planes))
    }

    /// Bytes and alignment that the data plane needs in a buffer (`tensorSizeAndAlignWithDescriptor:`). The descriptor must have
    /// strides.
    pub fn tensor_size_and_align(&self, descriptor: &TensorDescriptor) -> Result<(usize, usize)> {
        Ok(descriptor.size_and_align()?)
    }

    /// Compiles Metal source. `file_name` is what messages call it.
    ///
    /// The result is cached by source, name and options, unless the source may include files from the disk, which could
    /// change.
    pub fn new_library(&self, source: &str, file_name: &str, options: &CompileOptions) -> Result<Library> {
        let cacheable = !reads_files(source, options);
        let key = LibraryKey {
            source: source.into(),
            file: file_name.to_owned(),
            options: format!("{options:?}"),
        };
        if cacheable && let Some(found) = self.cache().entries.get(&key) {
            return Ok(Library::new(found.clone()));
        }
        let inner = Arc::new(LibraryInner::compile(&self.0.target, source, file_name, options)?);
        if cacheable {
            let mut cache = self.cache();
            if cache.entries.insert(key.clone(), inner.clone()).is_none() {
                cache.order.push_back(key);
            }
            while cache.order.len() > CACHED_LIBRARIES {
                if let Some(oldest) = cache.order.pop_front() {
                    cache.entries.remove(&oldest);
                }
            }
        }
        Ok(Library::new(inner))
    }

    /// Compiles the Metal source in a file. Its folder is searched for `#include "…"` as any compiler does.
    pub fn new_library_from_file(&self, path: impl AsRef<Path>, options: &CompileOptions) -> Result<Library> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let source = std::fs::read_to_string(path).map_err(|source| Error::ReadSource {
            path: name.clone(),
            source,
        })?;
        self.new_library(&source, &name, options)
    }

    /// A pipeline from kernel IR that was built by other means than Metal source. It is verified, but not optimised: see
    /// [`ir::passes::optimize`](anymetal_ir::passes::optimize).
    pub fn new_pipeline_from_ir(&self, kernel: Arc<Kernel>, options: &ExecutionOptions) -> Result<Pipeline> {
        crate::library::verify(&kernel)?;
        Pipeline::new(&self.0.target, kernel, options)
    }

    /// A queue.
    pub fn new_queue(&self) -> Queue {
        Queue::new(self.clone())
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, LibraryCache> {
        self.0.libraries.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// True when the compilation may read files that can change behind the cache's back.
fn reads_files(source: &str, options: &CompileOptions) -> bool {
    if !options.allow_files {
        return false;
    }
    let quoted = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix('#')
            .is_some_and(|rest| rest.trim_start().starts_with("include") && rest.contains('"'))
    };
    !options.include_dirs.is_empty() || !options.force_includes.is_empty() || source.lines().any(quoted)
}

pub(crate) fn tile_path() -> String {
    match TilePath::current() {
        Ok(path) => path.to_string(),
        // A bad value of the variable is reported by the first kernel that needs a tile product.
        Err(error) => format!("none ({error})"),
    }
}

fn processor_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    match model {
        Some((_, name)) => name.trim().to_owned(),
        None => format!("{} processor", std::env::consts::ARCH),
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}
