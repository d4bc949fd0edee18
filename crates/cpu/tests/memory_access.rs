//! Loads, stores, atomics, memory of all spaces, and every fault.

mod common;

use anymetal_cpu::{
    BoundArgument, DispatchError, DispatchOptions, FaultKind, HostMemory, Launch, LaunchError, NoTensors,
};
use anymetal_ir::{
    Access, AddressSpace, Argument, ArgumentKind, AtomicOp, BinaryOp, Builder, Builtin, CompareOp, Location, MathMode,
    MemFlags, MemoryObject, Op, Scalar, Scope, Type, ValueId,
};
use common::*;

const P: MathMode = MathMode::Precise;

fn launch(threads: u32, group: u32) -> Launch {
    Launch::threads([threads, 1, 1], [group, 1, 1])
}

fn barrier(b: &mut Builder) {
    b.emit_void(Op::Barrier {
        scope: Scope::Threadgroup,
        flags: MemFlags {
            threadgroup: true,
            ..MemFlags::default()
        },
    });
}

fn guarded(b: &mut Builder, condition: ValueId, body: impl FnOnce(&mut Builder)) {
    b.push_block();
    body(b);
    let then = b.pop_block();
    b.push_block();
    let otherwise = b.pop_block();
    b.if_(condition, then, otherwise);
}

#[test]
fn vectors_strides_and_gathers() {
    // out[i] = x[4·i + 1] + x[(i·7) % n] + x[n − 1 − i], with a vector load of four and a vector store of two.
    let mut b = Builder::new("gather");
    let x = buffer(&mut b, "x", 4, Access::ReadOnly);
    let y = buffer(&mut b, "y", 4, Access::ReadWrite);
    let (x, y) = (pointer(&mut b, x), pointer(&mut b, y));
    let i = gid(&mut b);
    let n = builtin(&mut b, Builtin::ThreadsPerGrid(0));
    let at = element(&mut b, x, i, 16);
    let four = b.load(at, Scalar::F32, 4, 4);
    let seven = u32c(&mut b, 7);
    let k = b.binary(BinaryOp::Mul, i, seven, P);
    let k = b.binary(BinaryOp::Rem, k, n, P);
    let p = load_at(&mut b, x, k, Scalar::F32);
    let one = u32c(&mut b, 1);
    let last = b.binary(BinaryOp::Sub, n, one, P);
    let back = b.binary(BinaryOp::Sub, last, i, P);
    let q = load_at(&mut b, x, back, Scalar::F32);
    let s = add(&mut b, four[1], p);
    let s = add(&mut b, s, q);
    let to = element(&mut b, y, i, 8);
    b.store(to, vec![s, four[3]], 4);
    let kernel = compile(b.finish());
    for n in [1u32, 50, 256, 700] {
        let xs: Vec<f32> = (0..4 * n).map(|i| (i * i % 911) as f32).collect();
        let y = memory(&vec![0f32; 2 * n as usize]);
        run(&kernel, &[&memory(&xs), &y], n, 64);
        for (i, pair) in contents::<f32>(&y).chunks(2).enumerate() {
            let n = n as usize;
            let want = xs[4 * i + 1] + xs[i * 7 % n] + xs[n - 1 - i];
            assert_eq!(pair, [want, xs[4 * i + 3]], "{i} of {n}");
        }
    }
}

#[test]
fn every_size_of_element() {
    for ty in Scalar::ALL {
        let mut b = Builder::new("copy");
        let x = buffer(&mut b, "x", ty.size(), Access::ReadOnly);
        let y = buffer(&mut b, "y", ty.size(), Access::ReadWrite);
        let (x, y) = (pointer(&mut b, x), pointer(&mut b, y));
        let i = gid(&mut b);
        let v = load_at(&mut b, x, i, ty);
        // Reversed in pairs, so that the store is a scatter.
        let one = u32c(&mut b, 1);
        let k = b.binary(BinaryOp::Xor, i, one, P);
        store_at(&mut b, y, k, v);
        let kernel = compile(b.finish());
        let size = ty.size() as usize;
        let bytes: Vec<u8> = (0..200 * size).map(|i| (i * 37 % 251) as u8).collect();
        let (x, y) = (
            HostMemory::from_bytes(&bytes).unwrap(),
            HostMemory::zeroed(200 * size).unwrap(),
        );
        run(&kernel, &[&x, &y], 200, 32);
        let got = contents::<u8>(&y);
        for i in 0..200 {
            let want = &bytes[i * size..(i + 1) * size];
            let got = &got[(i ^ 1) * size..((i ^ 1) + 1) * size];
            if ty == Scalar::Bool {
                assert_eq!(got[0], u8::from(want[0] != 0));
            } else {
                assert_eq!(got, want, "{ty} {i}");
            }
        }
    }
}

#[test]
fn threadgroup_memory_is_shared_and_static_or_dynamic() {
    for dynamic in [false, true] {
        let mut b = Builder::new("reverse");
        let x = buffer(&mut b, "x", 4, Access::ReadWrite);
        let x = pointer(&mut b, x);
        let shared = if dynamic {
            let argument = b.argument(Argument {
                name: "scratch".into(),
                index: 0,
                kind: ArgumentKind::Threadgroup { size: 4, align: 4 },
                access: Access::ReadWrite,
            });
            b.emit(
                Op::ArgumentPointer(argument),
                &[Type::Pointer(AddressSpace::Threadgroup)],
            )
        } else {
            let object = b.memory(MemoryObject {
                name: "scratch".into(),
                space: AddressSpace::Threadgroup,
                size: 1024,
                align: 4,
                element_size: 4,
                data: Vec::new(),
            });
            b.emit(Op::MemoryPointer(object), &[Type::Pointer(AddressSpace::Threadgroup)])
        };
        let i = gid(&mut b);
        let t = builtin(&mut b, Builtin::ThreadIndexInThreadgroup);
        let size = builtin(&mut b, Builtin::ThreadsPerThreadgroup(0));
        let v = load_at(&mut b, x, i, Scalar::F32);
        store_at(&mut b, shared, t, v);
        barrier(&mut b);
        let one = u32c(&mut b, 1);
        let last = b.binary(BinaryOp::Sub, size, one, P);
        let back = b.binary(BinaryOp::Sub, last, t, P);
        let v = load_at(&mut b, shared, back, Scalar::F32);
        store_at(&mut b, x, i, v);
        let kernel = compile(b.finish());
        let xs: Vec<f32> = (0..500).map(|i| i as f32).collect();
        let x = memory(&xs);
        let mut arguments = vec![BoundArgument::buffer(&x)];
        if dynamic {
            arguments.push(BoundArgument::Threadgroup(1024));
        }
        kernel
            .dispatch(&arguments, &launch(500, 96), &DispatchOptions::default(), &NoTensors)
            .unwrap();
        for (i, got) in contents::<f32>(&x).into_iter().enumerate() {
            let first = i / 96 * 96;
            let size = (500 - first).min(96);
            assert_eq!(got, (first + size - 1 - (i - first)) as f32);
        }
    }
}

#[test]
fn thread_memory_takes_mixed_sizes_and_lane_indices() {
    // Each lane fills 16 bytes of its own word by word, then reads bytes, half words and long words at its own offsets.
    for element_size in [1, 2, 4, 8] {
        let mut b = Builder::new("own");
        let y = buffer(&mut b, "y", 8, Access::ReadWrite);
        let y = pointer(&mut b, y);
        let object = b.memory(MemoryObject {
            name: "own".into(),
            space: AddressSpace::Thread,
            size: 16,
            align: 8,
            element_size,
            data: Vec::new(),
        });
        let own = b.emit(Op::MemoryPointer(object), &[Type::Pointer(AddressSpace::Thread)]);
        let i = gid(&mut b);
        for k in 0..4 {
            let factor = u32c(&mut b, 0x0101_0307 * (k + 1));
            let v = b.binary(BinaryOp::Mul, i, factor, P);
            let k = u32c(&mut b, k);
            store_at(&mut b, own, k, v);
        }
        let eight = u32c(&mut b, 8);
        let k = b.binary(BinaryOp::Rem, i, eight, P);
        let byte = load_at(&mut b, own, k, Scalar::U8);
        let short = load_at(&mut b, own, k, Scalar::U16);
        let two = u32c(&mut b, 2);
        let odd = b.binary(BinaryOp::Rem, i, two, P);
        let long = load_at(&mut b, own, odd, Scalar::U64);
        let one = u32c(&mut b, 1);
        let fixed = load_at(&mut b, own, one, Scalar::U64);
        let mut sum = add(&mut b, long, fixed);
        for v in [byte, short] {
            let wide = b.convert(v, Scalar::U64);
            sum = add(&mut b, sum, wide);
        }
        store_at(&mut b, y, i, sum);
        let kernel = compile(b.finish());
        let y = memory(&[0u64; 300]);
        run(&kernel, &[&y], 300, 64);
        for (i, got) in contents::<u64>(&y).into_iter().enumerate() {
            let mut bytes = Vec::new();
            for k in 0..4u32 {
                bytes.extend((i as u32).wrapping_mul(0x0101_0307 * (k + 1)).to_le_bytes());
            }
            let at = |k: usize, n: usize| {
                let mut wide = [0; 8];
                wide[..n].copy_from_slice(&bytes[k * n..(k + 1) * n]);
                u64::from_le_bytes(wide)
            };
            let want = at(i % 2, 8)
                .wrapping_add(at(1, 8))
                .wrapping_add(at(i % 8, 1))
                .wrapping_add(at(i % 8, 2));
            assert_eq!(got, want, "{i}, unit {element_size}");
        }
    }
}

#[test]
fn constant_tables() {
    let mut b = Builder::new("table");
    let y = buffer(&mut b, "y", 4, Access::ReadWrite);
    let y = pointer(&mut b, y);
    let data: Vec<u8> = (0..8u32).flat_map(|i| (i * i).to_le_bytes()).collect();
    let table = b.memory(MemoryObject {
        name: "squares".into(),
        space: AddressSpace::Constant,
        size: 32,
        align: 4,
        element_size: 4,
        data,
    });
    let table = b.emit(Op::MemoryPointer(table), &[Type::Pointer(AddressSpace::Constant)]);
    let i = gid(&mut b);
    let seven = u32c(&mut b, 7);
    let k = b.binary(BinaryOp::And, i, seven, P);
    let v = load_at(&mut b, table, k, Scalar::U32);
    store_at(&mut b, y, i, v);
    let kernel = compile(b.finish());
    let y = memory(&[0u32; 100]);
    run(&kernel, &[&y], 100, 32);
    assert!(
        contents::<u32>(&y)
            .iter()
            .enumerate()
            .all(|(i, &v)| v == (i as u32 % 8).pow(2))
    );
}

#[test]
fn atomics_count() {
    let mut b = Builder::new("histogram");
    let bins = buffer(&mut b, "bins", 4, Access::ReadWrite);
    let sums = buffer(&mut b, "sums", 4, Access::ReadWrite);
    let most = buffer(&mut b, "most", 8, Access::ReadWrite);
    let (bins, sums, most) = (pointer(&mut b, bins), pointer(&mut b, sums), pointer(&mut b, most));
    let i = gid(&mut b);
    let five = u32c(&mut b, 5);
    let k = b.binary(BinaryOp::Rem, i, five, P);
    let at = element(&mut b, bins, k, 4);
    let one = u32c(&mut b, 1);
    b.emit(
        Op::Atomic {
            op: AtomicOp::Add,
            pointer: at,
            values: vec![one],
            ty: Scalar::U32,
        },
        &[Scalar::U32.into()],
    );
    let half = b.float(Scalar::F32, 0.5);
    b.emit(
        Op::Atomic {
            op: AtomicOp::Add,
            pointer: sums,
            values: vec![half],
            ty: Scalar::F32,
        },
        &[Scalar::F32.into()],
    );
    let wide = b.convert(i, Scalar::U64);
    b.emit(
        Op::Atomic {
            op: AtomicOp::Max,
            pointer: most,
            values: vec![wide],
            ty: Scalar::U64,
        },
        &[Scalar::U64.into()],
    );
    let kernel = compile(b.finish());
    let (bins, sums, most) = (memory(&[0u32; 5]), memory(&[0f32]), memory(&[0u64]));
    run(&kernel, &[&bins, &sums, &most], 10_003, 64);
    assert_eq!(contents::<u32>(&bins), [2001, 2001, 2001, 2000, 2000]);
    assert_eq!(contents::<f32>(&sums), [5001.5]);
    assert_eq!(contents::<u64>(&most), [10_002]);
}

/// A copy kernel with a source location, for faults.
fn copy_kernel(shift: i64, access: Access, guard: bool) -> anymetal_ir::Kernel {
    let mut b = Builder::new("shifted_copy");
    let x = buffer(&mut b, "x", 4, Access::ReadOnly);
    let y = buffer(&mut b, "y", 4, access);
    b.kernel_mut().locations.files = vec!["k.metal".into()];
    let outer = b.add_location(Location {
        file: 0,
        line: 20,
        column: 5,
        inlined_at: None,
    });
    let inner = b.add_location(Location {
        file: 0,
        line: 7,
        column: 12,
        inlined_at: Some(outer),
    });
    let (x, y) = (pointer(&mut b, x), pointer(&mut b, y));
    let i = gid(&mut b);
    let wide = b.convert(i, Scalar::I64);
    let shift = b.int(Scalar::I64, shift);
    let k = add(&mut b, wide, shift);
    b.set_location(inner);
    let body = |b: &mut Builder| {
        let v = load_at(b, x, k, Scalar::F32);
        store_at(b, y, i, v);
    };
    if guard {
        let size = b.int(Scalar::I64, 100);
        let c = b.compare(CompareOp::Lt, k, size);
        guarded(&mut b, c, body);
    } else {
        body(&mut b);
    }
    b.finish()
}

#[test]
fn out_of_bounds_names_everything() {
    let kernel = compile(copy_kernel(3, Access::ReadWrite, false));
    let (x, y) = (memory(&[1f32; 100]), memory(&[0f32; 100]));
    let options = DispatchOptions {
        deterministic: true,
        ..DispatchOptions::default()
    };
    let fault = fault(run_with(&kernel, &[&x, &y], launch(100, 32), &options));
    assert_eq!(
        fault.to_string(),
        "out-of-bounds read of 4 bytes at byte offset 400 of device 'x', which has 400 bytes (index 100 of 100 elements)\n  \
         --> k.metal:7:12 in kernel 'shifted_copy'\n      called from k.metal:20:5\n  \
         thread (97, 0, 0) of the grid, index 1 in threadgroup (3, 0, 0)"
    );
    // The same with a guard runs, and copies what is inside.
    let kernel = compile(copy_kernel(3, Access::ReadWrite, true));
    run(&kernel, &[&x, &y], 100, 32);
    let got = contents::<f32>(&y);
    assert!(got[..97].iter().all(|&v| v == 1.0) && got[97..].iter().all(|&v| v == 0.0));
    // Before the start.
    let kernel = compile(copy_kernel(-1, Access::ReadWrite, false));
    let fault = common::fault(run_with(&kernel, &[&x, &y], launch(100, 32), &options));
    assert!(fault.to_string().starts_with(
        "out-of-bounds read of 4 bytes at byte offset -4 of device 'x', which has 400 bytes (index -1 of 100 elements)"
    ));
    assert_eq!(fault.thread.index, 0);
}

#[test]
fn read_only_memory_is_not_written() {
    let kernel = compile(copy_kernel(0, Access::ReadOnly, false));
    let (x, y) = (memory(&[1f32; 100]), memory(&[0f32; 100]));
    let fault = fault(run_with(
        &kernel,
        &[&x, &y],
        launch(100, 32),
        &DispatchOptions::default(),
    ));
    assert_eq!(fault.kind, FaultKind::ReadOnly { object: "y".into() });
    assert!(contents::<f32>(&y).iter().all(|&v| v == 0.0));
}

#[test]
fn null_pointers_and_divergent_barriers() {
    let mut b = Builder::new("null");
    let null = b.emit(
        Op::NullPointer(AddressSpace::Device),
        &[Type::Pointer(AddressSpace::Device)],
    );
    let v = b.load(null, Scalar::F32, 1, 4)[0];
    let y = buffer(&mut b, "y", 4, Access::ReadWrite);
    let y = pointer(&mut b, y);
    b.store(y, vec![v], 4);
    let kernel = compile(b.finish());
    let y = memory(&[0f32]);
    let fault = fault(run_with(&kernel, &[&y], launch(1, 1), &DispatchOptions::default()));
    assert!(matches!(fault.kind, FaultKind::NullPointer { .. }));

    let mut b = Builder::new("barrier");
    let i = gid(&mut b);
    let ten = u32c(&mut b, 10);
    let c = b.compare(CompareOp::Lt, i, ten);
    guarded(&mut b, c, barrier);
    let kernel = compile(b.finish());
    let fault = common::fault(run_with(&kernel, &[], launch(64, 64), &DispatchOptions::default()));
    assert_eq!(
        fault.kind,
        FaultKind::DivergentBarrier {
            arrived: 10,
            expected: 64
        }
    );

    // Lanes that have returned are not waited for.
    let mut b = Builder::new("returned");
    let i = gid(&mut b);
    let ten = u32c(&mut b, 10);
    let c = b.compare(CompareOp::Ge, i, ten);
    guarded(&mut b, c, |b| b.emit_void(Op::Return));
    barrier(&mut b);
    let kernel = compile(b.finish());
    run(&kernel, &[], 64, 64);
}

#[test]
fn threadgroup_overflow_faults() {
    let mut b = Builder::new("tg");
    let object = b.memory(MemoryObject {
        name: "tile".into(),
        space: AddressSpace::Threadgroup,
        size: 64,
        align: 4,
        element_size: 4,
        data: Vec::new(),
    });
    let tile = b.emit(Op::MemoryPointer(object), &[Type::Pointer(AddressSpace::Threadgroup)]);
    let t = builtin(&mut b, Builtin::ThreadIndexInThreadgroup);
    store_at(&mut b, tile, t, t);
    let kernel = compile(b.finish());
    let fault = fault(run_with(&kernel, &[], launch(32, 32), &DispatchOptions::default()));
    assert!(fault.to_string().starts_with(
        "out-of-bounds write of 4 bytes at byte offset 64 of threadgroup 'tile', which has 64 bytes (index 16 of 16 elements)"
    ), "{fault}");
}

#[test]
fn launches_are_checked() {
    let kernel = compile(copy_kernel(0, Access::ReadWrite, false));
    let (x, y) = (memory(&[1f32; 8]), memory(&[0f32; 8]));
    let error = |arguments: &[BoundArgument], launch: Launch| match kernel.dispatch(
        arguments,
        &launch,
        &DispatchOptions::default(),
        &NoTensors,
    ) {
        Err(DispatchError::Launch { error, .. }) => error,
        other => panic!("{other:?}"),
    };
    let two = [BoundArgument::buffer(&x), BoundArgument::buffer(&y)];
    assert_eq!(
        error(&two[..1], launch(8, 8)),
        LaunchError::ArgumentCount { expected: 2, given: 1 }
    );
    assert_eq!(
        error(&[BoundArgument::buffer(&x), BoundArgument::Unbound], launch(8, 8)).to_string(),
        "argument 'y' at index 1 is not bound"
    );
    assert_eq!(
        error(&two, launch(8, 2048)),
        LaunchError::TooManyThreads {
            threads: 2048,
            limit: 1024
        }
    );
    assert_eq!(
        error(&two, launch(0, 8)).to_string(),
        "grid has a size of zero: (0, 1, 1)"
    );
    let odd = BoundArgument::Buffer {
        memory: x.clone(),
        offset: 2,
        length: None,
    };
    assert_eq!(
        error(&[odd, BoundArgument::buffer(&y)], launch(8, 8)).to_string(),
        "argument 'x' at index 0: offset 2 is not a multiple of 4, the alignment of float"
    );
    let far = BoundArgument::Buffer {
        memory: x.clone(),
        offset: 16,
        length: Some(64),
    };
    assert_eq!(
        error(&[far, BoundArgument::buffer(&y)], launch(8, 8)).to_string(),
        "argument 'x' at index 0: bytes 16 to 80 lie outside the bound memory of 32 bytes"
    );
    assert_eq!(
        error(
            &[BoundArgument::Threadgroup(16), BoundArgument::buffer(&y)],
            launch(8, 8)
        )
        .to_string(),
        "argument 'x' at index 0 is a buffer, but threadgroup memory was bound"
    );
}

#[test]
fn traffic_is_counted() {
    let kernel = compile(copy_kernel(0, Access::ReadWrite, false));
    let (x, y) = (memory(&[1f32; 1000]), memory(&[0f32; 1000]));
    let options = DispatchOptions {
        traffic: true,
        ..DispatchOptions::default()
    };
    let report = run_with(&kernel, &[&x, &y], launch(1000, 64), &options).unwrap();
    let traffic = report.traffic.unwrap();
    assert_eq!((traffic.device_read, traffic.device_written), (4000, 4000));
    assert_eq!(report.threadgroups, 16);
}
