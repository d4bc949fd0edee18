//! Buffers: runs of bytes that kernels and the host share.

use anymetal_cpu::HostMemory;
use anymetal_formats::{TensorDescriptor, TensorLayout};
use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::tensor::{PlaneMemory, Tensor};

/// A run of bytes with a fixed length, made by a [`Device`](crate::Device). Cloning gives another handle to the same
/// bytes (`MTLBuffer` with shared storage).
///
/// A buffer belongs to no device: a GPU that uses it gets a copy of its bytes and keeps it, and bytes move only when one side looks
/// at what the other has written.
///
/// Reading and writing wait for dispatches that use the buffer. Numbers are little-endian, as on every device here.
///
/// ```
/// let device = anymetal::Device::cpu();
/// let buffer = device.new_buffer_with_slice(&[1.0f32, 2.0, 3.0])?;
/// buffer.write(4, &[5.0f32])?;
/// assert_eq!(buffer.to_vec::<f32>()?, [1.0, 5.0, 3.0]);
/// # Ok::<(), anymetal::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) memory: HostMemory,
    label: Option<std::sync::Arc<str>>,
}

impl Buffer {
    pub(crate) fn new(memory: HostMemory) -> Self {
        Self { memory, label: None }
    }

    /// The same buffer with a name for messages.
    pub fn with_label(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The name for messages.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.memory.len()
    }

    /// False for buffers over memory that belongs to somebody else, such as a mapped file.
    pub fn is_writable(&self) -> bool {
        self.memory.is_writable()
    }

    /// True when both handles mean the same bytes.
    pub fn same_as(&self, other: &Buffer) -> bool {
        self.memory.same_as(&other.memory)
    }

    /// Waits for what was committed and writes this buffer, and brings its bytes to the host if they are elsewhere. Reading does so by
    /// itself; this says first whether it can be done.
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.memory.settle()?)
    }

    /// Copies `values` in, from byte `offset` on.
    pub fn write<T: Pod>(&self, offset: usize, values: &[T]) -> Result<()> {
        Ok(self.memory.write(offset, bytemuck::cast_slice(values))?)
    }

    /// Copies values out into `into`, from byte `offset` on.
    pub fn read<T: Pod>(&self, offset: usize, into: &mut [T]) -> Result<()> {
        Ok(self.memory.read(offset, bytemuck::cast_slice_mut(into))?)
    }

    /// `count` values from byte `offset` on.
    pub fn read_vec<T: Pod>(&self, offset: usize, count: usize) -> Result<Vec<T>> {
        let (element_bytes, length) = (size_of::<T>(), self.length());
        // Checked before the allocation, which would follow an absurd count.
        let end = count.checked_mul(element_bytes).and_then(|n| n.checked_add(offset));
        if end.is_none_or(|end| end > length) {
            return Err(Error::BufferRange {
                offset,
                count,
                element_bytes,
                length,
            });
        }
        let mut values = vec![T::zeroed(); count];
        self.read(offset, &mut values)?;
        Ok(values)
    }

    /// The whole buffer as values; its length must be a multiple of their size.
    pub fn to_vec<T: Pod>(&self) -> Result<Vec<T>> {
        let (element_bytes, length) = (size_of::<T>(), self.length());
        if element_bytes == 0 || !length.is_multiple_of(element_bytes) {
            let count = length.div_ceil(element_bytes.max(1));
            return Err(Error::BufferRange {
                offset: 0,
                count,
                element_bytes,
                length,
            });
        }
        self.read_vec(0, length / element_bytes)
    }

    /// Sets `bytes` bytes from `offset` on to `value`.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        Ok(self.memory.fill(offset, bytes, value)?)
    }

    /// Lends the bytes to `body` without a copy on the host. (They are the ones that the host had last if the device that wrote them is
    /// lost, which [`synchronize`](Self::synchronize) says.) Do not write to the buffer or dispatch with it inside: that would wait
    /// forever.
    pub fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        self.memory.with_bytes(body)
    }

    /// Lends the bytes to `body` for writing, with the same caution.
    pub fn with_bytes_mut<R>(&self, body: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        Ok(self.memory.with_bytes_mut(body)?)
    }

    /// A tensor over this buffer's bytes from byte `offset` on (`-[MTLBuffer newTensorWithDescriptor:offset:error:]`).
    ///
    /// The descriptor needs strides and cannot have auxiliary planes. The offset must be a multiple of 128 for format
    /// types, else of the element size. Unlike Metal this checks that the tensor fits.
    pub fn new_tensor(&self, descriptor: &TensorDescriptor, offset: usize) -> Result<Tensor> {
        let layout = descriptor.buffer_layout(offset, self.length())?;
        Ok(Tensor::new(
            descriptor.clone(),
            layout,
            vec![PlaneMemory::of_buffer(self)],
        ))
    }

    /// Where a tensor of this descriptor would lie, without making it.
    pub fn tensor_layout(&self, descriptor: &TensorDescriptor, offset: usize) -> Result<TensorLayout> {
        Ok(descriptor.buffer_layout(offset, self.length())?)
    }
}
