//! Tensors: shaped views of memory with a format, and planes of scales beside the data.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anymetal_cpu::HostMemory;
use anymetal_formats::{
    ElementFormat, Extents, PlaneLayout, PlaneType, Saturation, StorageMode, Strides, TensorDescriptor, TensorLayout,
    TensorUsage,
};
use bytemuck::Pod;

use crate::buffer::Buffer;
use crate::error::{Result, SliceError};

/// Which buffer holds which plane of a tensor (`MTLTensorBufferAttachments`).
///
/// ```
/// use anymetal::{Attachments, AuxiliaryPlaneDescriptor, Device, ElementFormat, PlaneType, TensorDescriptor};
///
/// let device = Device::cpu();
/// let data = device.new_buffer(64 * 4)?;
/// let scales = device.new_buffer(2 * 4)?;
/// let descriptor = TensorDescriptor::new([64, 4], ElementFormat::Fp8E4M3)
///     .with_plane(PlaneType::Scales, AuxiliaryPlaneDescriptor::new());
/// let attachments = Attachments::new().with(PlaneType::Data, &data, 0).with(PlaneType::Scales, &scales, 0);
/// let tensor = device.new_tensor_with_attachments(&descriptor, &attachments)?;
/// assert_eq!(tensor.plane(PlaneType::Scales).unwrap().dimensions.as_slice(), [2, 4]);
/// # Ok::<(), anymetal::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attachments {
    entries: Vec<(PlaneType, Buffer, usize)>,
}

impl Attachments {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the buffer of a plane and the byte offset where the plane starts, replacing an earlier one.
    pub fn set(&mut self, plane: PlaneType, buffer: &Buffer, offset: usize) {
        self.entries.retain(|(p, ..)| *p != plane);
        self.entries.push((plane, buffer.clone(), offset));
    }

    /// The same with one more plane.
    pub fn with(mut self, plane: PlaneType, buffer: &Buffer, offset: usize) -> Self {
        self.set(plane, buffer, offset);
        self
    }

    /// The buffer of a plane and its offset.
    pub fn get(&self, plane: PlaneType) -> Option<(&Buffer, usize)> {
        self.entries
            .iter()
            .find(|(p, ..)| *p == plane)
            .map(|(_, buffer, offset)| (buffer, *offset))
    }

    /// Removes every plane.
    pub fn reset(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn layout(&self, descriptor: &TensorDescriptor) -> Result<TensorLayout> {
        let places: Vec<_> = self
            .entries
            .iter()
            .map(|(p, buffer, offset)| (*p, *offset, buffer.length()))
            .collect();
        Ok(descriptor.attachments_layout(&places)?)
    }

    pub(crate) fn memories(&self, layout: &TensorLayout) -> Vec<PlaneMemory> {
        let find = |plane: &PlaneLayout| self.get(plane.plane).map(|(buffer, _)| PlaneMemory::of_buffer(buffer));
        layout.planes.iter().filter_map(find).collect()
    }
}

/// The memory of one plane, and the buffer that the caller knows it by.
#[derive(Clone, Debug)]
pub(crate) struct PlaneMemory {
    pub memory: HostMemory,
    pub buffer: Option<Buffer>,
}

impl PlaneMemory {
    pub fn of_buffer(buffer: &Buffer) -> Self {
        Self {
            memory: buffer.memory.clone(),
            buffer: Some(buffer.clone()),
        }
    }
}

/// A tensor: dimensions (innermost first), an element format, memory, and possibly a plane of scales. Cloning gives
/// another handle to the same tensor (`MTLTensor`).
///
/// ```
/// use anymetal::{Device, ElementFormat, TensorDescriptor};
///
/// let device = Device::cpu();
/// // A matrix of 2 rows and 3 columns.
/// let tensor = device.new_tensor(&TensorDescriptor::new([3, 2], ElementFormat::F16))?;
/// tensor.write_f32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(tensor.read_f32()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// // The second row.
/// let mut row = [half::f16::ZERO; 3];
/// tensor.get_slice(&mut row, &[0, 1], &[3, 1])?;
/// assert_eq!(row[2].to_f32(), 6.0);
/// # Ok::<(), anymetal::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    id: u64,
    descriptor: TensorDescriptor,
    layout: TensorLayout,
    memory: Vec<PlaneMemory>,
    label: OnceLock<String>,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({} {}, id {:#x})",
            self.data_type(),
            self.dimensions(),
            self.resource_id()
        )
    }
}

/// Ids look like nothing that a kernel would make by accident, and are never reused.
fn next_resource_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    0x7e50_0000_0000_0000 | NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Tensor {
    /// `memory` has one entry for each plane of `layout`.
    pub(crate) fn new(descriptor: TensorDescriptor, layout: TensorLayout, memory: Vec<PlaneMemory>) -> Self {
        Self(Arc::new(Inner {
            id: next_resource_id(),
            descriptor,
            layout,
            memory,
            label: OnceLock::new(),
        }))
    }

    /// Size of each dimension in elements, innermost first.
    pub fn dimensions(&self) -> Extents {
        self.0.descriptor.dimensions
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.descriptor.rank()
    }

    /// Format of the data plane's elements.
    pub fn data_type(&self) -> ElementFormat {
        self.0.descriptor.data_type
    }

    /// The usage it was made with.
    pub fn usage(&self) -> TensorUsage {
        self.0.descriptor.usage
    }

    /// The strides it was made with: `None` for a tensor that the device allocated.
    pub fn strides(&self) -> Option<Strides> {
        self.0.descriptor.strides
    }

    /// The descriptor it was made from.
    pub fn descriptor(&self) -> &TensorDescriptor {
        &self.0.descriptor
    }

    /// Shape, strides and place of a plane, if the tensor has it.
    pub fn plane(&self, plane: PlaneType) -> Option<&PlaneLayout> {
        self.0.layout.plane(plane)
    }

    /// All planes, the data plane first.
    pub fn planes(&self) -> &[PlaneLayout] {
        &self.0.layout.planes
    }

    /// The buffer of a plane and the byte where the plane starts in it; `None` for a tensor that the device allocated.
    pub fn buffer(&self, plane: PlaneType) -> Option<(&Buffer, usize)> {
        let (layout, memory) = self.find(plane).ok()?;
        memory.buffer.as_ref().map(|buffer| (buffer, layout.offset))
    }

    /// The eight bytes that stand for this tensor in an argument buffer (`gpuResourceID`). A kernel that finds the tensor
    /// that way needs [`CommandEncoder::use_resource`](crate::CommandEncoder::use_resource) as well. Never zero: zero is
    /// the null tensor.
    pub fn resource_id(&self) -> u64 {
        self.0.id
    }

    /// Names the tensor for messages. The first name stays.
    pub fn set_label(&self, label: &str) {
        // A second name loses the race and is dropped, as documented.
        let _ = self.0.label.set(label.to_owned());
    }

    /// The name for messages.
    pub fn label(&self) -> Option<&str> {
        self.0.label.get().map(String::as_str)
    }

    /// The data plane, which every tensor has.
    pub(crate) fn data(&self) -> (&PlaneLayout, &PlaneMemory) {
        (&self.0.layout.planes[0], &self.0.memory[0])
    }

    /// True when both handles mean the same tensor.
    pub fn same_as(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Elements in all, scales not counted.
    pub fn element_count(&self) -> usize {
        self.dimensions().element_count().unwrap_or(0)
    }

    pub(crate) fn find(&self, plane: PlaneType) -> Result<(&PlaneLayout, &PlaneMemory), SliceError> {
        let position = self.0.layout.planes.iter().position(|p| p.plane == plane);
        let position = position.ok_or(SliceError::NoSuchPlane { plane })?;
        Ok((&self.0.layout.planes[position], &self.0.memory[position]))
    }

    /// Who can reach its memory.
    pub fn storage_mode(&self) -> StorageMode {
        self.0.descriptor.storage_mode
    }

    fn check_shared(&self) -> Result<(), SliceError> {
        match self.storage_mode() {
            StorageMode::Shared => Ok(()),
            mode => Err(SliceError::NotShared { mode }),
        }
    }

    /// Copies host bytes into a part of a plane (`replaceSliceOrigin:sliceDimensions:withBytes:strides:` and its plane
    /// variant).
    ///
    /// `origin` and `dimensions` are in the plane's own coordinates, innermost first. `strides` describe the **host** bytes
    /// in elements: at least `strides[i−1] · dimensions[i−1]` each, the first 1; `None` means packed. With sub-byte
    /// formats, origin and size in dimension 0 must be whole bytes.
    pub fn replace_bytes(
        &self,
        plane: PlaneType,
        origin: &[usize],
        dimensions: &[usize],
        bytes: &[u8],
        strides: Option<&[usize]>,
    ) -> Result<()> {
        self.check_shared()?;
        let (layout, memory) = self.find(plane)?;
        let copy = Copy::plan(layout, origin, dimensions, strides, bytes.len())?;
        memory.memory.with_bytes_mut(|all| {
            copy.for_each_row(|device, host, length| {
                all[device..device + length].copy_from_slice(&bytes[host..host + length]);
            });
        })?;
        Ok(())
    }

    /// Copies a part of a plane into host bytes (`getBytes:strides:fromSliceOrigin:sliceDimensions:` and its plane variant), with the
    /// rules of [`replace_bytes`](Self::replace_bytes). Bytes between host rows are left as they are.
    pub fn get_bytes(
        &self,
        plane: PlaneType,
        origin: &[usize],
        dimensions: &[usize],
        bytes: &mut [u8],
        strides: Option<&[usize]>,
    ) -> Result<()> {
        self.check_shared()?;
        let (layout, memory) = self.find(plane)?;
        let copy = Copy::plan(layout, origin, dimensions, strides, bytes.len())?;
        memory.memory.with_bytes(|all| {
            copy.for_each_row(|device, host, length| {
                bytes[host..host + length].copy_from_slice(&all[device..device + length]);
            });
        });
        Ok(())
    }

    /// Copies packed values into a part of the data plane. The size of `T` must be that of the elements.
    pub fn replace_slice<T: Pod>(&self, values: &[T], origin: &[usize], dimensions: &[usize]) -> Result<()> {
        self.check_element::<T>()?;
        self.replace_bytes(PlaneType::Data, origin, dimensions, bytemuck::cast_slice(values), None)
    }

    /// Copies a part of the data plane into packed values. The size of `T` must be that of the elements.
    pub fn get_slice<T: Pod>(&self, values: &mut [T], origin: &[usize], dimensions: &[usize]) -> Result<()> {
        self.check_element::<T>()?;
        self.get_bytes(
            PlaneType::Data,
            origin,
            dimensions,
            bytemuck::cast_slice_mut(values),
            None,
        )
    }

    fn check_element<T>(&self) -> Result<(), SliceError> {
        let (format, given) = (self.data_type(), size_of::<T>());
        // A plain byte slice serves the formats of a byte or less.
        if given * 8 == format.bits() || (given == 1 && format.bits() < 8) {
            return Ok(());
        }
        Err(SliceError::ElementSize {
            plane: PlaneType::Data,
            format,
            given,
        })
    }

    /// A whole plane as packed bytes, whatever its strides.
    pub fn read_plane(&self, plane: PlaneType) -> Result<Vec<u8>> {
        let (layout, _) = self.find(plane)?;
        let dimensions = layout.dimensions;
        let mut bytes = vec![0; layout.format.bytes_for(dimensions.element_count().unwrap_or(0))];
        self.get_bytes(plane, &vec![0; dimensions.rank()], &dimensions, &mut bytes, None)?;
        Ok(bytes)
    }

    /// Replaces a whole plane by packed bytes, whatever its strides.
    pub fn write_plane(&self, plane: PlaneType, bytes: &[u8]) -> Result<()> {
        let (layout, _) = self.find(plane)?;
        let dimensions = layout.dimensions;
        self.replace_bytes(plane, &vec![0; dimensions.rank()], &dimensions, bytes, None)
    }

    /// The data plane's elements as numbers, packed, dimension 0 fastest. Codes only: scales are not applied, see
    /// [`dequantise`](Self::dequantise).
    pub fn read_f32(&self) -> Result<Vec<f32>> {
        let bytes = self.read_plane(PlaneType::Data)?;
        let count = self.element_count();
        Ok(self.data_type().unpack(&bytes, count).unwrap_or_default())
    }

    /// Encodes numbers into the data plane (nearest even, Metal's default saturation). Scales are left as they are, see
    /// [`quantise`](Self::quantise).
    pub fn write_f32(&self, values: &[f32]) -> Result<()> {
        let (format, count) = (self.data_type(), self.element_count());
        if values.len() != count {
            let (needed, given) = (format.bytes_for(count), format.bytes_for(values.len()));
            return Err(SliceError::HostBytes { needed, given }.into());
        }
        self.write_plane(PlaneType::Data, &format.pack_f32(values, Saturation::Default))
    }

    /// Quantises packed values by the OCP MX rule into data and scales. The tensor needs a scales plane and elements of one
    /// of [`quantise::FORMATS`](crate::quantise::FORMATS).
    pub fn quantise(&self, values: &[f32]) -> Result<()> {
        self.find(PlaneType::Scales)?;
        let quantised = crate::quantise::quantise(values, &self.dimensions(), self.data_type())?;
        self.write_plane(PlaneType::Data, &quantised.data)?;
        self.write_plane(PlaneType::Scales, &quantised.scales)
    }

    /// The values of a multi-plane tensor, packed: each element times the scale of its block.
    pub fn dequantise(&self) -> Result<Vec<f32>> {
        let (layout, _) = self.find(PlaneType::Scales)?;
        let block = layout.block_factors.extent(0).unwrap_or(1).max(1);
        let mut values = self.read_f32()?;
        let scales = self.read_plane(PlaneType::Scales)?;
        for (values, code) in values.chunks_mut(block).zip(scales) {
            let scale = layout.format.decode_f32(code.into());
            values.iter_mut().for_each(|v| *v *= scale);
        }
        Ok(values)
    }
}

/// A copy between a box of a plane and host bytes, as whole rows.
struct Copy {
    device_start: usize,
    row_bytes: usize,
    /// Rows in each outer dimension, with the distance in bytes on both sides.
    outer: Vec<(usize, usize, usize)>,
}

impl Copy {
    fn plan(
        layout: &PlaneLayout,
        origin: &[usize],
        dimensions: &[usize],
        strides: Option<&[usize]>,
        host_bytes: usize,
    ) -> Result<Self, SliceError> {
        let (plane, format, rank) = (layout.plane, layout.format, layout.dimensions.rank());
        let given = [
            ("origin", Some(origin)),
            ("dimensions", Some(dimensions)),
            ("strides", strides),
        ];
        for (what, values) in given {
            if let Some(values) = values
                && values.len() != rank
            {
                return Err(SliceError::Rank {
                    rank,
                    what,
                    given: values.len(),
                });
            }
        }
        for (dimension, (&origin, &length)) in origin.iter().zip(dimensions).enumerate() {
            let size = layout.dimensions[dimension];
            if origin.checked_add(length).is_none_or(|end| end > size) {
                return Err(SliceError::OutOfBounds {
                    plane,
                    dimension,
                    origin,
                    length,
                    size,
                });
            }
        }
        let multiple = format.elements_per_byte();
        if rank > 0 {
            for (what, value) in [("origin", origin[0]), ("size", dimensions[0])] {
                if !value.is_multiple_of(multiple) {
                    return Err(SliceError::InsideByte {
                        what,
                        value,
                        format,
                        multiple,
                    });
                }
            }
        }
        // Packed strides cannot overflow: the box lies inside the plane.
        let packed = Extents::new(dimensions)
            .ok()
            .and_then(|d| d.packed_strides())
            .unwrap_or(Strides::scalar());
        let host = strides.unwrap_or(&packed);
        let mut least = 1usize;
        for (dimension, (&stride, &length)) in host.iter().zip(dimensions).enumerate() {
            if strides.is_some() && (stride < least || (dimension == 0 && stride != 1)) {
                return Err(SliceError::HostStrides {
                    dimension,
                    stride,
                    least,
                });
            }
            if dimension > 0 && !stride.is_multiple_of(multiple) {
                return Err(SliceError::HostStrideBits {
                    dimension,
                    stride,
                    format,
                });
            }
            least = stride.saturating_mul(length.max(1));
        }
        let bytes = |elements: usize| format.bytes_for(elements);
        // The row of a rank-0 tensor is its one element.
        let row = dimensions.first().copied().unwrap_or(1);
        let mut copy = Self {
            device_start: layout.offset,
            row_bytes: bytes(row),
            outer: Vec::new(),
        };
        let mut needed = if dimensions.contains(&0) { 0 } else { bytes(row) };
        for dimension in 0..rank {
            let step = bytes(layout.strides[dimension]);
            if dimension == 0 {
                copy.device_start += bytes(origin[0]);
                continue;
            }
            // Outer strides of sub-byte planes are whole bytes: their rows are multiples of 32 elements. A stride of
            // zero or of part of a byte cannot occur in a validated layout.
            copy.device_start += origin[dimension] * step;
            copy.outer.push((dimensions[dimension], step, bytes(host[dimension])));
            if needed != 0 {
                needed = (dimensions[dimension] - 1)
                    .saturating_mul(bytes(host[dimension]))
                    .saturating_add(needed);
            }
        }
        // With strides of its own the caller's slice may reach further, as rows with gaps do.
        if host_bytes < needed || (strides.is_none() && host_bytes != needed) {
            return Err(SliceError::HostBytes {
                needed,
                given: host_bytes,
            });
        }
        Ok(copy)
    }

    /// Calls `body` with the place of each row in the plane's memory, its place in the host bytes, and its length.
    fn for_each_row(&self, mut body: impl FnMut(usize, usize, usize)) {
        if self.row_bytes == 0 || self.outer.iter().any(|(n, ..)| *n == 0) {
            return;
        }
        let mut index = vec![0usize; self.outer.len()];
        loop {
            let (mut device, mut host) = (self.device_start, 0);
            for (&i, &(_, device_step, host_step)) in index.iter().zip(&self.outer) {
                device += i * device_step;
                host += i * host_step;
            }
            body(device, host, self.row_bytes);
            let mut d = 0;
            loop {
                let Some(i) = index.get_mut(d) else { return };
                *i += 1;
                if *i < self.outer[d].0 {
                    break;
                }
                *i = 0;
                d += 1;
            }
        }
    }
}
