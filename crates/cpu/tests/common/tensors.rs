//! Tensor arguments and views for tests.

use anymetal_cpu::{BoundArgument, HostMemory, TensorBinding};
use anymetal_formats::{ElementFormat, Saturation};
use anymetal_ir::{
    Access, AddressSpace, Argument, ArgumentId, ArgumentKind, Builder, CoopId, CoopRole, Cooperative, Extent,
    LayoutKind, MatmulDescriptor, Op, Scalar, TensorField, TensorRef, TensorSpec, Type, ValueId,
};

/// A tensor argument of rank 2 with dynamic extents, and the view of all of it.
pub fn tensor(b: &mut Builder, name: &str, format: ElementFormat, access: Access) -> TensorRef {
    tensor_of_rank(b, name, format, access, 2)
}

pub fn tensor_of_rank(b: &mut Builder, name: &str, format: ElementFormat, access: Access, rank: u32) -> TensorRef {
    let index = b.kernel().arguments.len() as u32;
    let spec = TensorSpec {
        format,
        space: AddressSpace::Device,
        extents: vec![None; rank as usize],
        index: Scalar::I32,
        scale_block: None,
    };
    let argument: ArgumentId = b.argument(Argument {
        name: name.to_string(),
        index,
        kind: ArgumentKind::Tensor(spec.clone()),
        access,
    });
    let handle = b.emit(Op::ArgumentTensor(argument), &[Scalar::U64.into()]);
    let mut query = |field, ty: Type| {
        b.emit(
            Op::TensorQuery {
                handle,
                spec: Box::new(spec.clone()),
                field,
            },
            &[ty],
        )
    };
    let pointer = query(TensorField::Pointer, Type::Pointer(AddressSpace::Device));
    let base_extents = (0..rank)
        .map(|d| query(TensorField::Extent(d), Scalar::I64.into()))
        .collect();
    let strides = (0..rank)
        .map(|d| query(TensorField::Stride(d), Scalar::I64.into()))
        .collect();
    let zero = b.int(Scalar::I64, 0);
    TensorRef {
        pointer,
        space: AddressSpace::Device,
        format,
        base_extents,
        strides,
        origin: vec![zero; rank as usize],
        extents: vec![Extent::Rest; rank as usize],
        scales: None,
        root: Some(argument),
    }
}

/// The view moved by (x, y).
pub fn slice(b: &mut Builder, view: &TensorRef, at: &[ValueId], extents: &[Extent]) -> TensorRef {
    let mut out = view.clone();
    for (d, &offset) in at.iter().enumerate() {
        out.origin[d] = super::add(b, view.origin[d], offset);
    }
    out.extents = extents.to_vec();
    out
}

/// A bound tensor of packed rows (dimension 0 first), filled by a function of (x, y).
pub fn bind(
    format: ElementFormat,
    extents: [usize; 2],
    fill: impl Fn(usize, usize) -> f64,
) -> (HostMemory, BoundArgument) {
    let values = (0..extents[1]).flat_map(|y| (0..extents[0]).map(move |x| (x, y)));
    let bytes = format.pack(values.map(|(x, y)| fill(x, y)), Saturation::Default);
    let memory = HostMemory::from_bytes(&bytes).unwrap();
    let binding = TensorBinding {
        handle: 0,
        name: String::new(),
        memory: memory.clone(),
        offset: 0,
        format,
        extents: extents.iter().map(|&n| n as u64).collect(),
        strides: vec![1, extents[0] as i64],
        scales: None,
    };
    (memory, BoundArgument::Tensor(Box::new(binding)))
}

/// What a memory holds, as numbers.
pub fn unpack(format: ElementFormat, memory: &HostMemory, count: usize) -> Vec<f64> {
    let bytes = memory.with_bytes(<[u8]>::to_vec);
    (0..count)
        .map(|i| format.decode(format.load(&bytes, i).unwrap()))
        .collect()
}

pub fn descriptor(m: u32, n: u32, k: Option<u32>) -> MatmulDescriptor {
    MatmulDescriptor {
        m,
        n,
        k,
        transpose_left: false,
        transpose_right: false,
        relaxed_precision: false,
        accumulate: false,
    }
}

/// A cooperative tensor of `rows` × `columns`.
pub fn coop(
    b: &mut Builder,
    role: CoopRole,
    element: Scalar,
    (rows, columns): (u32, u32),
    simdgroups: u32,
    layout: LayoutKind,
    descriptor: MatmulDescriptor,
) -> CoopId {
    let id = b.cooperative(Cooperative {
        name: format!("{role:?}"),
        role,
        element,
        rows,
        columns,
        simdgroups,
        layout,
        descriptor,
        spatial: None,
    });
    b.emit_void(Op::CoopInit(id));
    id
}
