//! Arrays on the host: an element type, a row-major shape and shared bytes.

use std::fmt;

use half::{bf16, f16};

use crate::bytecode::ElementType;
use crate::bytes::{AlignedBytes, SharedBytes};
use crate::scalar;

/// The largest array that this crate makes, in bytes. A shape in a damaged asset may ask for anything.
pub const MAX_ARRAY_BYTES: usize = 1 << 34;

/// What is wrong with an array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// The number of bytes does not fit the shape.
    #[error("{element}{shape:?} needs {needed} bytes, {given} were given")]
    Size {
        /// Element type.
        element: ElementType,
        /// Shape.
        shape: Vec<usize>,
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The shape is larger than [`MAX_ARRAY_BYTES`].
    #[error("{element}{shape:?} is larger than the {MAX_ARRAY_BYTES} bytes that one array may have")]
    TooLarge {
        /// Element type.
        element: ElementType,
        /// Shape.
        shape: Vec<usize>,
    },
    /// Another element type was asked for than the array has.
    #[error("the array holds {found}, not {wanted}")]
    Element {
        /// The array's element type.
        found: ElementType,
        /// What was asked for.
        wanted: &'static str,
    },
}

/// A dense row-major array. Cloning shares the bytes. Types below eight bits are held one element to a byte
/// (low bits, zero-extended); bool is 0 or 1; complex numbers are two reals.
#[derive(Clone)]
pub struct Array {
    element: ElementType,
    shape: Vec<usize>,
    data: SharedBytes,
}

/// Rust types that have an element type.
pub trait Element: bytemuck::Pod {
    /// The element type.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($t:ty => $e:ident),*) => { $(impl Element for $t { const TYPE: ElementType = ElementType::$e; })* };
}
elements!(f64 => F64, f32 => F32, f16 => F16, bf16 => BF16, i64 => I64, i32 => I32, i16 => I16, i8 => I8,
          u64 => U64, u32 => U32, u16 => U16, u8 => U8);

/// The number of elements of `shape`, checked against overflow and [`MAX_ARRAY_BYTES`].
pub(crate) fn checked_len(element: ElementType, shape: &[usize]) -> Result<usize, ArrayError> {
    let too_large = || ArrayError::TooLarge {
        element,
        shape: shape.to_vec(),
    };
    if shape.contains(&0) {
        return Ok(0);
    }
    let len = shape
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(d))
        .ok_or_else(too_large)?;
    match len.checked_mul(element.size()) {
        Some(bytes) if bytes <= MAX_ARRAY_BYTES => Ok(len),
        _ => Err(too_large()),
    }
}

impl Array {
    /// An array over `data`, which must have exactly the shape's size. Data that is not aligned for the element
    /// type is copied once.
    pub fn new(element: ElementType, shape: &[usize], data: SharedBytes) -> Result<Self, ArrayError> {
        let needed = checked_len(element, shape)? * element.size();
        if data.len() != needed {
            return Err(ArrayError::Size {
                element,
                shape: shape.to_vec(),
                needed,
                given: data.len(),
            });
        }
        let data = if (data.as_ptr() as usize).is_multiple_of(element.size().min(8)) {
            data
        } else {
            SharedBytes::new(AlignedBytes::copy_of(&data))
        };
        Ok(Self {
            element,
            shape: shape.to_vec(),
            data,
        })
    }

    /// An array that copies `bytes`.
    pub fn from_bytes(element: ElementType, shape: &[usize], bytes: &[u8]) -> Result<Self, ArrayError> {
        let needed = checked_len(element, shape)? * element.size();
        if bytes.len() != needed {
            return Err(ArrayError::Size {
                element,
                shape: shape.to_vec(),
                needed,
                given: bytes.len(),
            });
        }
        Self::new(element, shape, SharedBytes::new(AlignedBytes::copy_of(bytes)))
    }

    /// An array of `values` in row-major order.
    pub fn from_values<T: Element + Send + Sync>(shape: &[usize], values: Vec<T>) -> Result<Self, ArrayError> {
        Self::from_vec(T::TYPE, shape, values)
    }

    /// Takes ownership of `values` as the bytes of `element`s (which may be packed differently from `T`).
    pub(crate) fn from_vec<T: bytemuck::Pod + Send + Sync>(
        element: ElementType,
        shape: &[usize],
        values: Vec<T>,
    ) -> Result<Self, ArrayError> {
        struct Owned<T>(Vec<T>);
        impl<T: bytemuck::Pod> AsRef<[u8]> for Owned<T> {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        Self::new(element, shape, SharedBytes::new(Owned(values)))
    }

    /// A rank-0 array.
    pub fn scalar<T: Element + Send + Sync>(value: T) -> Self {
        Self {
            element: T::TYPE,
            shape: Vec::new(),
            data: SharedBytes::new(AlignedBytes::copy_of(bytemuck::bytes_of(&value))),
        }
    }

    /// An array of bools.
    pub fn from_bools(shape: &[usize], values: &[bool]) -> Result<Self, ArrayError> {
        let bytes: Vec<u8> = values.iter().map(|&b| u8::from(b)).collect();
        Self::from_vec(ElementType::Bool, shape, bytes)
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.element.size()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The bytes with their owner.
    pub fn shared(&self) -> &SharedBytes {
        &self.data
    }

    /// The elements as `T`, which must be the array's element type.
    pub fn values<T: Element>(&self) -> Result<&[T], ArrayError> {
        let error = ArrayError::Element {
            found: self.element,
            wanted: T::TYPE.name(),
        };
        if self.element != T::TYPE {
            return Err(error);
        }
        bytemuck::try_cast_slice(&self.data).map_err(|_| error)
    }

    /// The elements as `T` whatever they mean, when the sizes agree. Only for data movement.
    pub(crate) fn raw<T: bytemuck::Pod>(&self) -> Option<&[T]> {
        bytemuck::try_cast_slice(&self.data).ok()
    }

    /// The same bytes under another shape with as many elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, ArrayError> {
        Self::new(self.element, shape, self.data.clone())
    }

    /// All elements as `f32` (f64 rounds; bool is 0 or 1; complex is refused).
    pub fn to_f32(&self) -> Result<Vec<f32>, ArrayError> {
        match scalar::decode(self)? {
            scalar::Numbers::F32(v) => Ok(v.into_owned()),
            scalar::Numbers::F64(v) => Ok(v.iter().map(|&x| x as f32).collect()),
            scalar::Numbers::Int(v) => Ok(v.iter().map(|&x| x as f32).collect()),
        }
    }

    /// All elements as integers; floats truncate.
    pub fn to_integers(&self) -> Result<Vec<i128>, ArrayError> {
        match scalar::decode(self)? {
            scalar::Numbers::F32(v) => Ok(v.iter().map(|&x| x as i128).collect()),
            scalar::Numbers::F64(v) => Ok(v.iter().map(|&x| x as i128).collect()),
            scalar::Numbers::Int(v) => Ok(v),
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.element, self.shape)
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.element, self.shape)?;
        if self.element.is_complex() {
            return Ok(());
        }
        let values = self.to_f32().map_err(|_| fmt::Error)?;
        let shown: Vec<String> = values.iter().take(16).map(|v| format!("{v}")).collect();
        write!(
            f,
            " [{}{}]",
            shown.join(", "),
            if values.len() > 16 { ", …" } else { "" }
        )
    }
}
