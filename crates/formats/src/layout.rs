//! Where the planes of a described tensor lie: validation, strides, byte sizes and alignments.

use crate::descriptor::{DescriptorError, PlaneType, StorageMode, TensorDescriptor, TensorUsage};
use crate::extents::{Extents, Strides};
use crate::format::ElementFormat;

/// Alignment in bytes of the start of a format-typed plane and of its outer strides.
pub const FORMAT_ALIGNMENT: usize = 128;

/// How many elements the innermost dimension of a format-typed tensor must be a multiple of.
pub const FORMAT_ROW_ELEMENTS: usize = 32;

/// One plane of a tensor: its own shape (data coordinates divided by the block factors), strides and place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaneLayout {
    /// Which plane.
    pub plane: PlaneType,
    /// Format of its elements.
    pub format: ElementFormat,
    /// Its shape in its own elements, innermost first.
    pub dimensions: Extents,
    /// Its strides in its own elements.
    pub strides: Strides,
    /// Data elements for each of its elements, by dimension; all ones for the data plane.
    pub block_factors: Extents,
    /// Where it starts in its buffer (or in the device's one allocation), in bytes.
    pub offset: usize,
    /// How many bytes it covers from there: up to the end of its last element, gaps between rows included.
    pub byte_size: usize,
    /// What its start must be a multiple of, in bytes.
    pub alignment: usize,
}

/// All planes of a tensor, the data plane first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorLayout {
    /// The planes in the order of [`PlaneType`].
    pub planes: Vec<PlaneLayout>,
    /// Bytes that one allocation holding all planes needs. For buffer-backed tensors, of the data plane alone.
    pub byte_size: usize,
    /// What the allocation's address must be a multiple of.
    pub alignment: usize,
}

impl TensorLayout {
    /// The plane of this type, if the tensor has it.
    pub fn plane(&self, plane: PlaneType) -> Option<&PlaneLayout> {
        self.planes.iter().find(|p| p.plane == plane)
    }

    /// The data plane, which every tensor has.
    pub fn data(&self) -> &PlaneLayout {
        &self.planes[0]
    }
}

/// What a plane's start must be a multiple of, in bytes: 128 for format types, else the element's size.
pub const fn plane_alignment(format: ElementFormat) -> usize {
    if format.is_format_type() {
        FORMAT_ALIGNMENT
    } else {
        format.alignment()
    }
}

impl TensorDescriptor {
    /// Checks what holds for every tensor, wherever its memory comes from: dimensions, planes, usage, and the strides if
    /// there are any.
    pub fn validate(&self) -> Result<(), DescriptorError> {
        let format = self.data_type;
        if let Some(dimension) = self.dimensions.iter().position(|&n| n == 0) {
            return Err(DescriptorError::ZeroDimension { dimension });
        }
        let fits = self
            .dimensions
            .element_count()
            .and_then(|n| n.checked_mul(format.bits().max(8)))
            .is_some_and(|bits| bits <= isize::MAX as usize);
        if !fits {
            return Err(DescriptorError::TooLarge {
                dimensions: Box::new(self.dimensions),
            });
        }
        if format.is_format_type() {
            let Some(&size) = self.dimensions.first() else {
                return Err(DescriptorError::RankZero {
                    what: format!("a format data type ({format})"),
                });
            };
            if size % FORMAT_ROW_ELEMENTS != 0 {
                return Err(DescriptorError::InnermostNotMultipleOf32 { size, format });
            }
        }
        self.validate_planes()?;
        match &self.strides {
            Some(strides) => self.validate_strides(strides),
            None => Ok(()),
        }
    }

    fn validate_planes(&self) -> Result<(), DescriptorError> {
        if self.auxiliary_planes.is_empty() {
            return Ok(());
        }
        if self.auxiliary_planes.get(PlaneType::Data).is_some() {
            return Err(DescriptorError::DataAsAuxiliaryPlane);
        }
        if self.usage.contains(TensorUsage::MACHINE_LEARNING) {
            return Err(DescriptorError::MachineLearningPlanes);
        }
        if self.data_type.bits() > 8 {
            return Err(DescriptorError::PlanesOnWideType { format: self.data_type });
        }
        if self.rank() == 0 {
            return Err(DescriptorError::RankZero {
                what: "auxiliary planes".to_owned(),
            });
        }
        let plane = PlaneType::Scales;
        let Some(scales) = self.auxiliary_planes.get(plane) else {
            return Ok(());
        };
        if scales.data_type != ElementFormat::Fp8UE8M0 {
            return Err(DescriptorError::ScalesFormat {
                format: scales.data_type,
            });
        }
        let factors = scales.block_factors;
        if factors.rank() > self.rank() || factors.rank() == 0 {
            return Err(DescriptorError::BlockFactorsRank {
                plane,
                factors: factors.rank(),
                rank: self.rank(),
            });
        }
        for (dimension, (&factor, &size)) in factors.iter().zip(self.dimensions.iter()).enumerate() {
            let wanted = if dimension == 0 { 32 } else { 1 };
            if factor != wanted {
                return Err(DescriptorError::BlockFactor {
                    plane,
                    dimension,
                    factor,
                    wanted,
                });
            }
            if size % factor != 0 {
                return Err(DescriptorError::NotWholeBlocks {
                    dimension,
                    size,
                    plane,
                    factor,
                });
            }
        }
        Ok(())
    }

    fn validate_strides(&self, strides: &Strides) -> Result<(), DescriptorError> {
        let format = self.data_type;
        if strides.rank() != self.rank() {
            return Err(DescriptorError::StridesRank {
                rank: self.rank(),
                strides: strides.rank(),
            });
        }
        if let Some(&stride) = strides.first()
            && stride != 1
        {
            return Err(DescriptorError::InnermostStride { stride });
        }
        let span = strides
            .span(&self.dimensions)
            .and_then(|n| n.checked_mul(format.bits().max(8)));
        if span.is_none_or(|bits| bits > isize::MAX as usize) {
            return Err(DescriptorError::TooLarge {
                dimensions: Box::new(self.dimensions),
            });
        }
        if format.is_format_type() {
            let elements = FORMAT_ALIGNMENT * 8 / format.bits();
            for (dimension, &stride) in strides.iter().enumerate().skip(1) {
                if stride % elements != 0 {
                    return Err(DescriptorError::StrideAlignment {
                        dimension,
                        stride,
                        format,
                        elements,
                    });
                }
            }
        }
        if self.usage.contains(TensorUsage::MACHINE_LEARNING) {
            for (dimension, &stride) in strides.iter().enumerate().skip(1) {
                if dimension == 1 {
                    if stride.checked_mul(format.bits()).is_none_or(|bits| bits % 512 != 0) {
                        return Err(DescriptorError::MachineLearningRowAlignment { stride, format });
                    }
                    continue;
                }
                let packed = strides[dimension - 1].saturating_mul(self.dimensions[dimension - 1]);
                if stride != packed {
                    return Err(DescriptorError::MachineLearningNotPacked {
                        dimension,
                        stride,
                        packed,
                    });
                }
            }
        }
        Ok(())
    }

    /// The layout of a tensor that the device allocates: strides must be absent. Every plane is packed, and the planes
    /// follow each other in one allocation, each at a multiple of 128 bytes.
    pub fn device_layout(&self) -> Result<TensorLayout, DescriptorError> {
        if self.strides.is_some() {
            return Err(DescriptorError::StridesOnDeviceTensor);
        }
        self.validate()?;
        let mut layout = self.planes(self.packed()?)?;
        let mut end = 0;
        for plane in &mut layout.planes {
            plane.offset = usize::next_multiple_of(end, FORMAT_ALIGNMENT);
            end = plane.offset + plane.byte_size;
        }
        layout.byte_size = end;
        layout.alignment = FORMAT_ALIGNMENT;
        Ok(layout)
    }

    /// The layout of a tensor in one buffer of `length` bytes, from byte `offset` on: strides are required, planes are
    /// not possible. Unlike Metal this also checks that the tensor fits.
    pub fn buffer_layout(&self, offset: usize, length: usize) -> Result<TensorLayout, DescriptorError> {
        let strides = self
            .strides
            .ok_or(DescriptorError::StridesMissing { rank: self.rank() })?;
        self.validate()?;
        if self.is_multi_plane() {
            return Err(DescriptorError::PlanesInOneBuffer);
        }
        let mut layout = self.planes(strides)?;
        self.place(&mut layout.planes[0], offset, length)?;
        Ok(layout)
    }

    /// The layout of a tensor whose planes lie in buffers of their own: `attachments` holds for each plane its offset and
    /// its buffer's length in bytes. Strides are those of the data plane; absent strides mean packed (sources differ on
    /// whether Metal wants them, both are taken). The scales plane is always packed.
    pub fn attachments_layout(
        &self,
        attachments: &[(PlaneType, usize, usize)],
    ) -> Result<TensorLayout, DescriptorError> {
        self.validate()?;
        let strides = match self.strides {
            Some(strides) => strides,
            None => self.packed()?,
        };
        let mut layout = self.planes(strides)?;
        for (plane, ..) in attachments {
            if layout.plane(*plane).is_none() {
                return Err(DescriptorError::AttachmentUnexpected { plane: *plane });
            }
        }
        for plane in &mut layout.planes {
            let found = attachments.iter().find(|(p, ..)| *p == plane.plane);
            let &(_, offset, length) = found.ok_or(DescriptorError::AttachmentMissing { plane: plane.plane })?;
            self.place(plane, offset, length)?;
        }
        Ok(layout)
    }

    /// Bytes and alignment of the data plane with the descriptor's strides, which must be present
    /// (`tensorSizeAndAlignWithDescriptor:`).
    pub fn size_and_align(&self) -> Result<(usize, usize), DescriptorError> {
        let strides = self
            .strides
            .ok_or(DescriptorError::StridesMissing { rank: self.rank() })?;
        self.validate()?;
        let layout = self.planes(strides)?;
        Ok((layout.data().byte_size, layout.data().alignment))
    }

    fn packed(&self) -> Result<Strides, DescriptorError> {
        self.dimensions.packed_strides().ok_or(DescriptorError::TooLarge {
            dimensions: Box::new(self.dimensions),
        })
    }

    fn place(&self, plane: &mut PlaneLayout, offset: usize, length: usize) -> Result<(), DescriptorError> {
        if self.storage_mode != StorageMode::Shared {
            return Err(DescriptorError::BufferStorageMode {
                mode: self.storage_mode,
            });
        }
        if self.usage.contains(TensorUsage::MACHINE_LEARNING) && offset != 0 {
            return Err(DescriptorError::MachineLearningOffset { offset });
        }
        if !offset.is_multiple_of(plane.alignment) {
            return Err(DescriptorError::OffsetAlignment {
                plane: plane.plane,
                format: plane.format,
                offset,
                alignment: plane.alignment,
            });
        }
        if offset.checked_add(plane.byte_size).is_none_or(|end| end > length) {
            let needed = plane.byte_size;
            return Err(DescriptorError::BufferTooSmall {
                plane: plane.plane,
                needed,
                offset,
                length,
            });
        }
        plane.offset = offset;
        Ok(())
    }

    fn planes(&self, strides: Strides) -> Result<TensorLayout, DescriptorError> {
        let too_large = DescriptorError::TooLarge {
            dimensions: Box::new(self.dimensions),
        };
        let ones = Extents::new(&vec![1; self.rank()]).unwrap_or(Extents::scalar());
        let mut planes = Vec::with_capacity(2);
        let mut add = |plane, format: ElementFormat, dimensions: Extents, strides: Strides, block_factors| {
            let byte_size = format.bytes_for(strides.span(&dimensions)?);
            let alignment = plane_alignment(format);
            planes.push(PlaneLayout {
                plane,
                format,
                dimensions,
                strides,
                block_factors,
                offset: 0,
                byte_size,
                alignment,
            });
            Some(())
        };
        add(PlaneType::Data, self.data_type, self.dimensions, strides, ones).ok_or(too_large.clone())?;
        if let Some(scales) = self.auxiliary_planes.get(PlaneType::Scales) {
            let mut factors = vec![1; self.rank()];
            for (all, &given) in factors.iter_mut().zip(scales.block_factors.iter()) {
                *all = given;
            }
            let factors = Extents::new(&factors).unwrap_or(Extents::scalar());
            let dimensions = self.dimensions.divided_by(&factors);
            let strides = dimensions.packed_strides().ok_or(too_large.clone())?;
            add(PlaneType::Scales, scales.data_type, dimensions, strides, factors).ok_or(too_large)?;
        }
        let (byte_size, alignment) = (planes[0].byte_size, planes[0].alignment);
        Ok(TensorLayout {
            planes,
            byte_size,
            alignment,
        })
    }
}
