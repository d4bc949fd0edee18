//! What a host describes before a tensor exists: shape, strides, element format, usage, auxiliary planes, and the
//! rules that Metal puts on them.
//!
//! The rules and their defaults are those of the `MTLTensor*` headers of the 27 SDKs. Where Metal reports an error it
//! does so in the domain `MTLTensorDomain`; [`DescriptorError::code`] gives the number.

use std::fmt;

use crate::extents::{Extents, Strides};
use crate::format::ElementFormat;

/// The planes a tensor can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PlaneType {
    /// The elements themselves (host value 0).
    Data,
    /// One scale for a block of elements (host value 1).
    Scales,
}

impl PlaneType {
    /// The value of `MTLTensorPlaneType`.
    pub const fn host_value(self) -> u32 {
        match self {
            PlaneType::Data => 0,
            PlaneType::Scales => 1,
        }
    }
}

impl fmt::Display for PlaneType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PlaneType::Data => "data",
            PlaneType::Scales => "scales",
        })
    }
}

/// What a tensor may be used for: a set of flags. The default is render and compute.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorUsage(u32);

impl TensorUsage {
    /// Compute kernels (1).
    pub const COMPUTE: Self = Self(1);
    /// Render functions (2). Kept for completeness: there is no renderer here.
    pub const RENDER: Self = Self(2);
    /// Machine-learning encoders (4), with stricter rules on strides.
    pub const MACHINE_LEARNING: Self = Self(4);

    /// The bits, as in `MTLTensorUsage`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these bits, or `None` if one is unknown.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !7 == 0 { Some(Self(bits)) } else { None }
    }

    /// True when every flag of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together; also spelled `|`.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Default for TensorUsage {
    fn default() -> Self {
        Self::COMPUTE.union(Self::RENDER)
    }
}

impl std::ops::BitOr for TensorUsage {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl fmt::Debug for TensorUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::COMPUTE, "Compute"),
            (Self::RENDER, "Render"),
            (Self::MACHINE_LEARNING, "MachineLearning"),
        ];
        let mut set = f.debug_set();
        for (flag, name) in names {
            if self.contains(flag) {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// Who can reach a tensor's memory (`MTLStorageMode`). Metal's other modes, cache modes and hazard tracking change no result and are
/// not modelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum StorageMode {
    /// Host and device (0). The default, and the only one for tensors in buffers here.
    #[default]
    Shared,
    /// The device alone (2): kernels use it, copies from and to the host are refused.
    Private,
}

impl StorageMode {
    /// The value of `MTLStorageMode`.
    pub const fn host_value(self) -> u32 {
        match self {
            StorageMode::Shared => 0,
            StorageMode::Private => 2,
        }
    }
}

impl fmt::Display for StorageMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StorageMode::Shared => "shared",
            StorageMode::Private => "private",
        })
    }
}

/// An auxiliary plane: one element of `data_type` for each block of `block_factors` data elements.
///
/// The default is Metal's: UE8M0 scales for blocks of 32 along dimension 0. Factors for the outer dimensions may be
/// left out; they count as 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AuxiliaryPlaneDescriptor {
    /// Format of the plane's elements.
    pub data_type: ElementFormat,
    /// How many data elements share one element of the plane in each dimension, innermost first.
    pub block_factors: Extents,
}

impl Default for AuxiliaryPlaneDescriptor {
    fn default() -> Self {
        Self {
            data_type: ElementFormat::Fp8UE8M0,
            block_factors: Extents::from([32]),
        }
    }
}

impl AuxiliaryPlaneDescriptor {
    /// UE8M0 scales for blocks of 32 along dimension 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with another element format. Metal takes only UE8M0 for scales.
    pub fn with_data_type(mut self, data_type: ElementFormat) -> Self {
        self.data_type = data_type;
        self
    }

    /// The same with other block factors, innermost first. Metal takes only 32 and then ones.
    pub fn with_block_factors(mut self, factors: impl Into<Extents>) -> Self {
        self.block_factors = factors.into();
        self
    }
}

/// Which auxiliary planes a tensor has. `MTLTensorAuxiliaryPlaneDescriptorMap` in Metal.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct AuxiliaryPlanes {
    scales: Option<AuxiliaryPlaneDescriptor>,
    data: Option<AuxiliaryPlaneDescriptor>,
}

impl AuxiliaryPlanes {
    /// No planes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the descriptor of a plane. `Data` is not allowed and is refused when the tensor descriptor is validated.
    pub fn set(&mut self, plane: PlaneType, descriptor: AuxiliaryPlaneDescriptor) {
        *self.slot(plane) = Some(descriptor);
    }

    /// The descriptor of a plane, if it was set.
    pub fn get(&self, plane: PlaneType) -> Option<&AuxiliaryPlaneDescriptor> {
        match plane {
            PlaneType::Data => self.data.as_ref(),
            PlaneType::Scales => self.scales.as_ref(),
        }
    }

    /// Removes every plane.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// True when no plane is set.
    pub fn is_empty(&self) -> bool {
        self.scales.is_none() && self.data.is_none()
    }

    fn slot(&mut self, plane: PlaneType) -> &mut Option<AuxiliaryPlaneDescriptor> {
        match plane {
            PlaneType::Data => &mut self.data,
            PlaneType::Scales => &mut self.scales,
        }
    }
}

/// Describes a tensor before it is made.
///
/// ```
/// use anymetal_formats::{AuxiliaryPlaneDescriptor, ElementFormat, PlaneType, TensorDescriptor};
///
/// // 64 rows of 128 columns in MXFP8: data in E4M3 and a scale for every 32 columns.
/// let descriptor = TensorDescriptor::new([128, 64], ElementFormat::Fp8E4M3)
///     .with_plane(PlaneType::Scales, AuxiliaryPlaneDescriptor::new().with_block_factors([32, 1]));
/// let layout = descriptor.device_layout()?;
/// assert_eq!(layout.plane(PlaneType::Scales).unwrap().dimensions.as_slice(), [4, 64]);
/// # Ok::<(), anymetal_formats::DescriptorError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorDescriptor {
    /// Size of each dimension in elements, innermost first. Default `[1]`.
    pub dimensions: Extents,
    /// Distance between neighbours in each dimension in elements. Default none, which is what device-owned tensors
    /// need; tensors in a buffer need them given.
    pub strides: Option<Strides>,
    /// Format of the elements. Default `F32`.
    pub data_type: ElementFormat,
    /// What the tensor may be used for. Default render and compute.
    pub usage: TensorUsage,
    /// Scale planes. Default none.
    pub auxiliary_planes: AuxiliaryPlanes,
    /// Who can reach its memory. Default host and device.
    pub storage_mode: StorageMode,
}

impl Default for TensorDescriptor {
    fn default() -> Self {
        Self {
            dimensions: Extents::from([1]),
            strides: None,
            data_type: ElementFormat::F32,
            usage: TensorUsage::default(),
            auxiliary_planes: AuxiliaryPlanes::default(),
            storage_mode: StorageMode::default(),
        }
    }
}

impl TensorDescriptor {
    /// A tensor of these dimensions (innermost first) and elements, everything else at its default.
    pub fn new(dimensions: impl Into<Extents>, data_type: ElementFormat) -> Self {
        Self {
            dimensions: dimensions.into(),
            data_type,
            ..Self::default()
        }
    }

    /// The same with explicit strides in elements, innermost first.
    pub fn with_strides(mut self, strides: impl Into<Strides>) -> Self {
        self.strides = Some(strides.into());
        self
    }

    /// The same with strides without gaps, as buffer-backed tensors often want. On overflow the strides stay unset, and
    /// validation reports the dimensions.
    pub fn with_packed_strides(mut self) -> Self {
        self.strides = self.dimensions.packed_strides();
        self
    }

    /// The same with another usage.
    pub fn with_usage(mut self, usage: TensorUsage) -> Self {
        self.usage = usage;
        self
    }

    /// The same with another storage mode.
    pub fn with_storage_mode(mut self, mode: StorageMode) -> Self {
        self.storage_mode = mode;
        self
    }

    /// The same with an auxiliary plane.
    pub fn with_plane(mut self, plane: PlaneType, descriptor: AuxiliaryPlaneDescriptor) -> Self {
        self.auxiliary_planes.set(plane, descriptor);
        self
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dimensions.rank()
    }

    /// True when the tensor has planes besides its data.
    pub fn is_multi_plane(&self) -> bool {
        !self.auxiliary_planes.is_empty()
    }
}

/// Why a descriptor, or a descriptor with its buffers, is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// A dimension of zero.
    #[error("dimension {dimension} of the tensor is 0; every dimension must be greater than 0")]
    ZeroDimension {
        /// Which dimension, 0 innermost.
        dimension: usize,
    },
    /// The tensor is larger than memory can be.
    #[error("a tensor of dimensions {dimensions} does not fit the address space")]
    TooLarge {
        /// The dimensions asked for.
        dimensions: Box<Extents>,
    },
    /// Format types and multi-plane tensors cannot be scalars.
    #[error("a tensor of rank 0 cannot have {what}; give it at least one dimension")]
    RankZero {
        /// `a format data type (…)` or `auxiliary planes`.
        what: String,
    },
    /// Rows of format types are made of whole groups of 32 elements.
    #[error(
        "dimensions[0] is {size}, but a tensor of {format} needs a multiple of 32 elements there; pad the innermost dimension"
    )]
    InnermostNotMultipleOf32 {
        /// The innermost dimension.
        size: usize,
        /// The element format.
        format: ElementFormat,
    },
    /// A dimension that is not made of whole blocks.
    #[error("dimensions[{dimension}] is {size}, which is not a multiple of the {plane} plane's block factor {factor}")]
    NotWholeBlocks {
        /// Which dimension.
        dimension: usize,
        /// Its size.
        size: usize,
        /// The plane.
        plane: PlaneType,
        /// The plane's block factor there.
        factor: usize,
    },
    /// A device-owned tensor with strides.
    #[error(
        "Strides should be nil for a tensor that the device allocates; remove the strides, or create the tensor from a buffer"
    )]
    StridesOnDeviceTensor,
    /// A buffer-backed tensor without strides.
    #[error("strides should not be nil for a tensor in a buffer; give one stride for each of its {rank} dimensions")]
    StridesMissing {
        /// The tensor's rank.
        rank: usize,
    },
    /// Not one stride for each dimension.
    #[error("the tensor has {rank} dimensions but {strides} strides")]
    StridesRank {
        /// The tensor's rank.
        rank: usize,
        /// How many strides were given.
        strides: usize,
    },
    /// The innermost stride is not 1.
    #[error("strides[0] is {stride}; it must be 1")]
    InnermostStride {
        /// The stride given.
        stride: usize,
    },
    /// Rows of a format type that do not start at multiples of 128 bytes.
    #[error(
        "strides[{dimension}] is {stride} elements of {format}; it must be a multiple of 128 bytes ({elements} elements)"
    )]
    StrideAlignment {
        /// Which stride.
        dimension: usize,
        /// Its value in elements.
        stride: usize,
        /// The element format.
        format: ElementFormat,
        /// How many elements 128 bytes are.
        elements: usize,
    },
    /// Rows of a machine-learning tensor that do not start at multiples of 64 bytes.
    #[error(
        "strides[1] is {stride} elements of {format}; with machine-learning usage it must be a multiple of 64 bytes"
    )]
    MachineLearningRowAlignment {
        /// The stride in elements.
        stride: usize,
        /// The element format.
        format: ElementFormat,
    },
    /// Outer strides of a machine-learning tensor with gaps.
    #[error("strides[{dimension}] is {stride}; with machine-learning usage it must be strides[{}] times dimensions[{}], {packed}", dimension - 1, dimension - 1)]
    MachineLearningNotPacked {
        /// Which stride.
        dimension: usize,
        /// Its value.
        stride: usize,
        /// What it must be.
        packed: usize,
    },
    /// A machine-learning tensor that does not begin its buffer.
    #[error("a tensor with machine-learning usage must start at offset 0 of its buffer, not {offset}")]
    MachineLearningOffset {
        /// The offset given.
        offset: usize,
    },
    /// Planes with machine-learning usage.
    #[error("a tensor with auxiliary planes cannot have machine-learning usage")]
    MachineLearningPlanes,
    /// Planes beside wide elements.
    #[error("a tensor with auxiliary planes needs elements of at most one byte, {format} has {} bytes", format.bits() / 8)]
    PlanesOnWideType {
        /// The data plane's format.
        format: ElementFormat,
    },
    /// `Data` set as an auxiliary plane.
    #[error("the data plane cannot be an auxiliary plane; describe it with the tensor's data type")]
    DataAsAuxiliaryPlane,
    /// Scales of something else than UE8M0.
    #[error("the scales plane has data type {format}; only fp8_ue8m0 is supported")]
    ScalesFormat {
        /// The format asked for.
        format: ElementFormat,
    },
    /// Block factors for too many dimensions.
    #[error("the {plane} plane has {factors} block factors for a tensor of {rank} dimensions")]
    BlockFactorsRank {
        /// The plane.
        plane: PlaneType,
        /// How many factors were given.
        factors: usize,
        /// The tensor's rank.
        rank: usize,
    },
    /// Block factors other than 32, 1, 1, …
    #[error("block factor {dimension} of the {plane} plane is {factor}; it must be {wanted}")]
    BlockFactor {
        /// The plane.
        plane: PlaneType,
        /// Which dimension.
        dimension: usize,
        /// The factor given.
        factor: usize,
        /// 32 for dimension 0, else 1.
        wanted: usize,
    },
    /// More than one plane where a single one is possible.
    #[error("a tensor made from one buffer has only a data plane; use buffer attachments for auxiliary planes")]
    PlanesInOneBuffer,
    /// A tensor in a buffer with another storage mode than the buffer's.
    #[error(
        "a tensor in a buffer has the buffer's storage mode, shared, not {mode}; let the device allocate private tensors"
    )]
    BufferStorageMode {
        /// The mode asked for.
        mode: StorageMode,
    },
    /// A plane without its buffer.
    #[error("the {plane} plane has no buffer attached")]
    AttachmentMissing {
        /// The plane.
        plane: PlaneType,
    },
    /// A buffer for a plane that the descriptor lacks.
    #[error("a buffer is attached for the {plane} plane, but the descriptor has no such plane")]
    AttachmentUnexpected {
        /// The plane.
        plane: PlaneType,
    },
    /// A plane that starts at a bad offset.
    #[error(
        "the {plane} plane of {format} starts at byte {offset} of its buffer; the offset must be a multiple of {alignment}"
    )]
    OffsetAlignment {
        /// The plane.
        plane: PlaneType,
        /// Its format.
        format: ElementFormat,
        /// The offset in bytes.
        offset: usize,
        /// The alignment in bytes.
        alignment: usize,
    },
    /// A plane that does not fit its buffer. Metal does not check this.
    #[error("the {plane} plane needs {needed} bytes from byte {offset} on, but its buffer has {length}")]
    BufferTooSmall {
        /// The plane.
        plane: PlaneType,
        /// Bytes the plane covers.
        needed: usize,
        /// Where it starts.
        offset: usize,
        /// The buffer's length in bytes.
        length: usize,
    },
}

impl DescriptorError {
    /// The error number in Metal's domain `MTLTensorDomain`: 2, `MTLTensorErrorInvalidDescriptor`. (0 is no error and 1
    /// an internal error, which a descriptor cannot cause.)
    pub const fn code(&self) -> u32 {
        2
    }
}
