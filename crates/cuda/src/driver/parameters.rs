//! What is bound to a kernel, and the bytes that a launch hands over for it (laid out by [`crate::abi`]).

use std::ops::Range;

use anymetal_formats::MAX_RANK;
use anymetal_ir::{Access, ArgumentKind, Kernel, Op};

use crate::abi::{self, ParameterBlock};
use crate::driver::dispatch::LaunchError;

/// One bound argument, by device address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BoundArgument {
    /// Nothing; for arguments that the kernel does not use.
    Unbound,
    /// Memory from an address on.
    Buffer {
        /// Where the argument points.
        address: u64,
        /// Bytes from there to the end.
        bytes: u64,
    },
    /// Bytes that nothing writes, in memory of their own too.
    Value {
        /// Where they are on the device.
        address: u64,
        /// The bytes.
        value: Vec<u8>,
    },
    /// A tensor.
    Tensor(Box<BoundTensor>),
    /// A null tensor handle.
    NullTensor,
    /// Length in bytes of a `threadgroup T*` argument.
    Threadgroup(u32),
}

/// A tensor by device address. Extents and strides are in elements, innermost first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoundTensor {
    /// What stands for it in memory; not 0.
    pub handle: u64,
    /// Its name, for messages.
    pub name: String,
    /// Address of element 0.
    pub address: u64,
    /// Bytes from there to the end of the memory.
    pub bytes: u64,
    /// Extents.
    pub extents: Vec<i64>,
    /// Strides.
    pub strides: Vec<i64>,
    /// The scale plane: address of the first scale, bytes from there on, strides in scales.
    pub scales: Option<(u64, u64, Vec<i64>)>,
}

/// The shape of a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Threads of the grid.
    pub threads: [u32; 3],
    /// Threads of a full threadgroup.
    pub threadgroup: [u32; 3],
}

impl Launch {
    /// Threadgroups in each dimension.
    pub fn threadgroups(&self) -> [u32; 3] {
        std::array::from_fn(|d| self.threads[d].div_ceil(self.threadgroup[d].max(1)))
    }

    /// The logarithm of the threads that each hardware thread should run of a kernel that can run so many: all, if enough hardware threads are left
    /// to fill a device; else 0.
    pub(super) fn coarse_shift(&self, most: u32) -> u32 {
        const ENOUGH: u64 = 1 << 17;
        let threads: u64 = self.threads.iter().map(|&n| u64::from(n)).product();
        if threads >> most >= ENOUGH && self.threads[0] >> most >= 32 {
            most
        } else {
            0
        }
    }

    /// The shape with hardware threads that run 2^shift neighbours in `x` each.
    pub(super) fn coarse(&self, shift: u32) -> Launch {
        let mut launch = *self;
        launch.threads[0] = self.threads[0].div_ceil(1 << shift);
        launch
    }

    /// Threads of a full threadgroup.
    pub fn threads_of_group(&self) -> u32 {
        self.threadgroup.iter().product()
    }
}

/// Addresses of what a launch needs beside its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// Of the fault record, 0 without checks.
    pub fault: u64,
    /// Of the table of tensors by handle, and its entries.
    pub handles: (u64, u32),
    /// Of the workspace.
    pub workspace: u64,
    /// Of the copies of arguments that were lent, and of their flags.
    pub images: Vec<(u64, u64)>,
    /// Logarithm of the threads in `x` that a hardware thread runs.
    pub coarse_shift: u32,
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, at: u32, bytes: &[u8]) {
        let at = at as usize;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn u32(&mut self, at: u32, value: u32) {
        self.put(at, &value.to_le_bytes());
    }

    fn u64(&mut self, at: u32, value: u64) {
        self.put(at, &value.to_le_bytes());
    }

    fn i64(&mut self, at: u32, value: i64) {
        self.put(at, &value.to_le_bytes());
    }
}

/// Where the dynamic threadgroup arguments lie in shared memory, from `first` on, and the end of the last one. One entry for each
/// argument of the kernel; only those of threadgroup arguments mean something.
pub(super) fn place_threadgroup(kernel: &Kernel, bound: &[BoundArgument], first: u32) -> (Vec<u32>, u64) {
    let mut at = u64::from(first);
    let mut places = Vec::with_capacity(bound.len());
    for (argument, bound) in kernel.arguments.iter().zip(bound) {
        let (ArgumentKind::Threadgroup { align, .. }, BoundArgument::Threadgroup(bytes)) = (&argument.kind, bound)
        else {
            places.push(0);
            continue;
        };
        // Sixteen bytes serve every vector type.
        at = at.next_multiple_of(u64::from((*align).max(16)));
        places.push(at as u32);
        at += u64::from(*bytes);
    }
    (places, at)
}

/// The parameter block of a launch.
pub(super) fn block(
    kernel: &Kernel,
    layout: &ParameterBlock,
    launch: &Launch,
    bound: &[BoundArgument],
    places: &[u32],
    extras: &Extras,
) -> Result<Vec<u8>, LaunchError> {
    if bound.len() != kernel.arguments.len() {
        return Err(LaunchError::ArgumentCount {
            expected: kernel.arguments.len(),
            given: bound.len(),
        });
    }
    let mut out = Bytes(vec![0; layout.size as usize]);
    for (at, sizes) in [
        (abi::GRID_THREADS, launch.threads),
        (abi::THREADGROUP, launch.threadgroup),
        (abi::THREADGROUPS, launch.threadgroups()),
    ] {
        for (dimension, size) in (0..).zip(sizes) {
            out.u32(at + 4 * dimension, size);
        }
    }
    out.u32(abi::THREADS, launch.threads_of_group());
    out.u64(abi::FAULT, extras.fault);
    out.u64(abi::HANDLES, extras.handles.0);
    out.u32(abi::HANDLE_COUNT, extras.handles.1);
    out.u64(abi::WORKSPACE, extras.workspace);
    for (&at, &(image, flags)) in layout.images.iter().zip(&extras.images) {
        out.u64(at, image);
        out.u64(at + 8, flags);
    }
    out.u32(abi::COARSE_SHIFT, extras.coarse_shift);
    for (i, (argument, bound)) in kernel.arguments.iter().zip(bound).enumerate() {
        let at = layout.arguments[i];
        match (&argument.kind, bound) {
            (_, BoundArgument::Unbound) if argument.access == Access::Unused => {}
            (ArgumentKind::Tensor(_), BoundArgument::NullTensor) => {}
            (ArgumentKind::Buffer { .. }, BoundArgument::Buffer { address, bytes }) => {
                out.u64(at, *address);
                out.u64(at + 8, *bytes);
            }
            (ArgumentKind::Buffer { size, .. }, BoundArgument::Value { address, value }) => {
                out.u64(at, *address);
                out.u64(at + 8, value.len() as u64);
                if let (Some(place), Some(copy)) = (layout.values[i], value.get(..*size as usize)) {
                    out.put(place, copy);
                }
            }
            (ArgumentKind::Threadgroup { .. }, BoundArgument::Threadgroup(bytes)) => {
                out.u32(at, places[i]);
                out.u32(at + 4, *bytes);
            }
            (ArgumentKind::Tensor(spec), BoundArgument::Tensor(tensor)) => {
                let rank = spec.extents.len();
                if tensor.extents.len() != rank || tensor.strides.len() != rank {
                    return Err(LaunchError::Rank {
                        name: argument.name.clone(),
                        expected: rank,
                        given: tensor.extents.len(),
                    });
                }
                let (rank, put) = (rank as u32, abi::tensor::HANDLE);
                out.u64(at + put, tensor.handle);
                out.u64(at + abi::tensor::ADDRESS, tensor.address);
                out.u64(at + abi::tensor::BYTES, tensor.bytes);
                for d in 0..rank {
                    out.i64(at + abi::tensor::extent(d), tensor.extents[d as usize]);
                    out.i64(at + abi::tensor::stride(rank, d), tensor.strides[d as usize]);
                }
                if let (Some(_), Some((address, bytes, strides))) = (&spec.scale_block, &tensor.scales) {
                    out.u64(at + abi::tensor::scale_address(rank), *address);
                    out.u64(at + abi::tensor::scale_bytes(rank), *bytes);
                    for (d, &stride) in strides.iter().take(rank as usize).enumerate() {
                        out.i64(at + abi::tensor::scale_stride(rank, d as u32), stride);
                    }
                }
            }
            _ => {
                return Err(LaunchError::WrongKind {
                    name: argument.name.clone(),
                    index: argument.index,
                });
            }
        }
    }
    Ok(out.0)
}

/// The table of tensors that a kernel may reach by handle.
pub(super) fn handle_table(tensors: &[&BoundTensor]) -> Vec<u8> {
    let entry = abi::HANDLE_ENTRY;
    let mut out = Bytes(vec![0; tensors.len() * entry as usize]);
    for (i, tensor) in tensors.iter().enumerate() {
        let at = i as u32 * entry;
        let (scale_address, scale_bytes, none) = (0, 0, Vec::new());
        let (scale_address, scale_bytes, scale_strides) = match &tensor.scales {
            Some((address, bytes, strides)) => (*address, *bytes, strides),
            None => (scale_address, scale_bytes, &none),
        };
        for (word, value) in [tensor.handle, tensor.address, tensor.bytes, scale_address, scale_bytes]
            .into_iter()
            .enumerate()
        {
            out.u64(at + 8 * word as u32, value);
        }
        for (part, values) in [&tensor.extents, &tensor.strides, scale_strides]
            .into_iter()
            .enumerate()
        {
            for (d, &value) in values.iter().take(MAX_RANK).enumerate() {
                out.i64(at + 40 + 8 * (part * MAX_RANK + d) as u32, value);
            }
        }
    }
    out.0
}

/// True if the kernel asks for tensors behind handles that are not simply its arguments.
pub(super) fn needs_handles(kernel: &Kernel) -> bool {
    let mut arguments = std::collections::HashSet::new();
    kernel.body.for_each_inst(&mut |inst| {
        if matches!(inst.op, Op::ArgumentTensor(_)) {
            arguments.extend(inst.results());
        }
    });
    let mut needs = false;
    kernel.body.for_each_inst(&mut |inst| {
        if let Op::TensorQuery { handle, .. } = &inst.op {
            needs |= !arguments.contains(handle);
        }
    });
    needs
}

/// True if memory that the dispatch writes is bound a second time.
pub(super) fn aliased(kernel: &Kernel, bound: &[BoundArgument], handles: &[BoundTensor]) -> bool {
    let mut ranges: Vec<(u64, u64, bool)> = Vec::new();
    let mut add =
        |address: u64, bytes: u64, writes: bool| ranges.push((address, address.saturating_add(bytes), writes));
    for (argument, bound) in kernel.arguments.iter().zip(bound) {
        let writes = matches!(argument.access, Access::WriteOnly | Access::ReadWrite);
        match bound {
            BoundArgument::Buffer { address, bytes } => add(*address, *bytes, writes),
            BoundArgument::Value { address, value } => add(*address, value.len() as u64, writes),
            BoundArgument::Tensor(tensor) => {
                add(tensor.address, tensor.bytes, writes);
                if let Some((address, bytes, _)) = &tensor.scales {
                    // Beside its data in one allocation more often than not; scales are never written.
                    let shares = *address >= tensor.address && *address < tensor.address.saturating_add(tensor.bytes);
                    if !shares {
                        add(*address, *bytes, false);
                    }
                }
            }
            BoundArgument::Unbound | BoundArgument::NullTensor | BoundArgument::Threadgroup(_) => {}
        }
    }
    for tensor in handles {
        add(tensor.address, tensor.bytes, true);
    }
    ranges.sort_unstable();
    ranges
        .iter()
        .enumerate()
        .any(|(i, a)| ranges[i + 1..].iter().any(|b| (a.2 || b.2) && a.0 < b.1 && b.0 < a.1))
}

/// True if every argument that the parameter block has room for is bound as bytes.
pub(super) fn has_values(kernel: &Kernel, layout: &ParameterBlock, bound: &[BoundArgument]) -> bool {
    let arguments = kernel.arguments.iter().zip(&layout.values).zip(bound);
    arguments
        .into_iter()
        .all(|((argument, place), bound)| match (&argument.kind, place, bound) {
            (ArgumentKind::Buffer { size, .. }, Some(_), BoundArgument::Value { value, .. }) => {
                value.len() >= *size as usize
            }
            (_, Some(_), bound) => matches!(bound, BoundArgument::Unbound),
            (_, None, _) => true,
        })
}

/// The memory that is bound to an argument.
pub(super) fn memory_of(bound: &BoundArgument) -> Vec<Range<u64>> {
    let range = |address: u64, bytes: u64| address..address.saturating_add(bytes);
    match bound {
        BoundArgument::Buffer { address, bytes } => vec![range(*address, *bytes)],
        BoundArgument::Value { address, value } => vec![range(*address, value.len() as u64)],
        BoundArgument::Tensor(tensor) => {
            let scales = tensor.scales.iter().map(|(address, bytes, _)| range(*address, *bytes));
            scales.chain([range(tensor.address, tensor.bytes)]).collect()
        }
        BoundArgument::Unbound | BoundArgument::NullTensor | BoundArgument::Threadgroup(_) => Vec::new(),
    }
}

/// The memory that a dispatch may write. What a kernel reaches by handle it may write.
pub(super) fn written(kernel: &Kernel, bound: &[BoundArgument], handles: &[BoundTensor]) -> Vec<Range<u64>> {
    let arguments = kernel.arguments.iter().zip(bound);
    let arguments = arguments.filter(|(argument, _)| matches!(argument.access, Access::WriteOnly | Access::ReadWrite));
    let handles = handles
        .iter()
        .map(|tensor| tensor.address..tensor.address.saturating_add(tensor.bytes));
    arguments
        .flat_map(|(_, bound)| memory_of(bound))
        .chain(handles)
        .collect()
}

#[cfg(test)]
mod tests {
    use anymetal_formats::ElementFormat;
    use anymetal_ir::{AddressSpace, Argument, Scalar, TensorSpec};

    use super::*;

    fn argument(name: &str, kind: ArgumentKind, access: Access) -> Argument {
        Argument {
            name: name.into(),
            index: 0,
            kind,
            access,
        }
    }

    fn buffer(name: &str, access: Access) -> Argument {
        let kind = ArgumentKind::Buffer {
            space: AddressSpace::Device,
            type_name: "float".into(),
            size: 4,
            align: 4,
            element_size: 4,
            reference: false,
        };
        argument(name, kind, access)
    }

    fn tensor(name: &str, rank: usize, scales: bool) -> Argument {
        let spec = TensorSpec {
            format: ElementFormat::F16,
            space: AddressSpace::Device,
            extents: vec![None; rank],
            index: Scalar::I32,
            scale_block: scales.then(|| vec![32; rank]),
        };
        argument(name, ArgumentKind::Tensor(spec), Access::ReadOnly)
    }

    fn kernel() -> Kernel {
        Kernel {
            name: "k".into(),
            arguments: vec![
                buffer("x", Access::ReadWrite),
                tensor("t", 2, true),
                argument(
                    "shared",
                    ArgumentKind::Threadgroup { size: 4, align: 4 },
                    Access::ReadWrite,
                ),
                argument(
                    "more",
                    ArgumentKind::Threadgroup { size: 64, align: 64 },
                    Access::ReadWrite,
                ),
                buffer("unused", Access::Unused),
            ],
            ..Kernel::default()
        }
    }

    fn bound() -> Vec<BoundArgument> {
        vec![
            BoundArgument::Buffer {
                address: 0x1000,
                bytes: 64,
            },
            BoundArgument::Tensor(Box::new(BoundTensor {
                handle: 7,
                name: "t".into(),
                address: 0x2000,
                bytes: 256,
                extents: vec![64, 2],
                strides: vec![1, 64],
                scales: Some((0x3000, 4, vec![1, 2])),
            })),
            BoundArgument::Threadgroup(100),
            BoundArgument::Threadgroup(64),
            BoundArgument::Unbound,
        ]
    }

    fn words(bytes: &[u8], at: u32, count: usize) -> Vec<u64> {
        bytes[at as usize..]
            .chunks_exact(8)
            .take(count)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    const LAUNCH: Launch = Launch {
        threads: [100, 3, 1],
        threadgroup: [32, 2, 1],
    };

    /// The layout that the generated code reads, byte by byte.
    #[test]
    fn the_block_is_what_abi_says() {
        let (kernel, bound) = (kernel(), bound());
        let layout = ParameterBlock::of(&kernel);
        let (places, end) = place_threadgroup(&kernel, &bound, 1028);
        assert_eq!((&places[2..4], end), (&[1040, 1152][..], 1216));
        let extras = Extras {
            coarse_shift: 0,
            fault: 0xf0,
            handles: (0xaa, 2),
            workspace: 0xbb,
            images: Vec::new(),
        };
        let bytes = block(&kernel, &layout, &LAUNCH, &bound, &places, &extras).unwrap();
        let head: Vec<u32> = bytes[..40]
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(head, [100, 3, 1, 32, 2, 1, 4, 2, 1, 64]);
        assert_eq!(words(&bytes, 40, 4), [0xf0, 0xaa, 2, 0xbb]);
        assert_eq!(words(&bytes, 72, 2), [0x1000, 64]);
        assert_eq!(layout.arguments, [72, 88, 176, 184, 192]);
        assert_eq!(
            words(&bytes, 88, 11),
            [7, 0x2000, 256, 64, 2, 1, 64, 0x3000, 4, 1, 2],
            "handle, address, bytes, extents, strides; scales: address, bytes, strides"
        );
        assert_eq!(words(&bytes, 176, 2), [1040 | 100 << 32, 1152 | 64 << 32]);
        assert_eq!(words(&bytes, 192, 2), [0, 0]);
        assert_eq!(bytes.len(), 208);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let kernel = kernel();
        let layout = ParameterBlock::of(&kernel);
        let make = |bound: &[BoundArgument]| block(&kernel, &layout, &LAUNCH, bound, &[0; 5], &Extras::default());
        assert_eq!(
            make(&bound()[..4]).unwrap_err().to_string(),
            "the kernel takes 5 arguments, 4 were bound"
        );
        let mut wrong = bound();
        wrong[0] = BoundArgument::NullTensor;
        assert_eq!(
            make(&wrong).unwrap_err().to_string(),
            "what is bound to 'x' at index 0 is of another kind than the kernel declares"
        );
        let mut rank = bound();
        if let BoundArgument::Tensor(tensor) = &mut rank[1] {
            tensor.extents.pop();
        }
        assert_eq!(
            make(&rank).unwrap_err().to_string(),
            "the tensor bound to 't' has rank 1, the kernel declares 2"
        );
        let mut null = bound();
        null[1] = BoundArgument::NullTensor;
        assert!(words(&make(&null).unwrap(), 88, 11).iter().all(|&word| word == 0));
    }

    #[test]
    fn tables_of_handles() {
        let mut with = BoundTensor {
            handle: 5,
            address: 10,
            bytes: 20,
            extents: vec![3, 4],
            strides: vec![1, 3],
            ..BoundTensor::default()
        };
        let without = with.clone();
        with.handle = 6;
        with.scales = Some((30, 40, vec![1, 9]));
        let table = handle_table(&[&without, &with]);
        assert_eq!(table.len() as u32, 2 * abi::HANDLE_ENTRY);
        assert_eq!(words(&table, 0, 7), [5, 10, 20, 0, 0, 3, 4]);
        let second = abi::HANDLE_ENTRY;
        assert_eq!(words(&table, second, 7), [6, 10, 20, 30, 40, 3, 4]);
        assert_eq!(words(&table, second + 40 + 8 * MAX_RANK as u32, 2), [1, 3]);
        assert_eq!(words(&table, second + 40 + 16 * MAX_RANK as u32, 2), [1, 9]);
    }

    #[test]
    fn overlaps() {
        let (kernel, mut bound) = (kernel(), bound());
        assert!(!aliased(&kernel, &bound, &[]));
        let at = |address| BoundArgument::Buffer { address, bytes: 64 };
        bound[0] = at(0x20c0);
        assert!(aliased(&kernel, &bound, &[]), "x is written and begins inside t");
        bound[0] = at(0x2100);
        assert!(!aliased(&kernel, &bound, &[]), "x begins where t ends");
        bound[0] = at(0x2ffc);
        assert!(aliased(&kernel, &bound, &[]), "x ends inside t's scales");
        bound[0] = at(0x1000);
        let reached = BoundTensor {
            handle: 9,
            address: 0x1000,
            bytes: 4,
            ..BoundTensor::default()
        };
        assert!(aliased(&kernel, &bound, &[reached]), "by handle");
    }

    #[test]
    fn small_constants_travel_by_value() {
        let mut size = buffer("size", Access::ReadOnly);
        size.kind = ArgumentKind::Buffer {
            space: AddressSpace::Constant,
            type_name: "sizes".into(),
            size: 12,
            align: 4,
            element_size: 4,
            reference: true,
        };
        let kernel = Kernel {
            arguments: vec![buffer("x", Access::ReadWrite), size],
            ..Kernel::default()
        };
        let layout = ParameterBlock::of(&kernel);
        let place = layout.values[1].unwrap();
        assert_eq!((layout.values[0], place % 16), (None, 0));
        assert!(place >= layout.arguments[1] + 16 && place + 12 <= layout.size);
        let value = BoundArgument::Value {
            address: 0x3000,
            value: (1..=12).collect(),
        };
        let memory = BoundArgument::Buffer {
            address: 0x1000,
            bytes: 64,
        };
        let bound = [memory.clone(), value];
        let launch = Launch {
            threads: [64, 1, 1],
            threadgroup: [64, 1, 1],
        };
        let bytes = block(&kernel, &layout, &launch, &bound, &[0, 0], &Extras::default()).unwrap();
        let (at, place) = (layout.arguments[1] as usize, place as usize);
        assert_eq!(bytes[place..place + 12], (1..=12).collect::<Vec<u8>>());
        assert_eq!(bytes[at..at + 8], 0x3000u64.to_le_bytes());
        assert!(has_values(&kernel, &layout, &bound) && !has_values(&kernel, &layout, &[memory.clone(), memory]));
        // What a launch behind it may not have read yet.
        let written = written(&kernel, &bound, &[]);
        assert_eq!((written.len(), &written[0]), (1, &(0x1000..0x1040)));
    }
}
