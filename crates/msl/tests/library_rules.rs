//! The rules of tensors, cooperative tensors and `matmul2d`: each is broken once, and the whole text of the refusal is asserted.

#[path = "common/library.rs"]
mod library;

use library::check;

/// Reference 2.5.
#[test]
fn scale_planes() {
    check(&[
        (
            "OP(16, 16, dyn, false, true); SCALED(l, S32); SCALED(r, S32); tensor<device float, D2, tensor_inline, S32> d(p, D2(16, 16), S32(u)); op.run(l, r, d);",
            "E0901 Destination tensor cannot have scale factors",
        ),
        (
            "using P = blocks<device uchar, 32>; OP(16, 16, dyn, false, true); SCALED(l, P); SCALED(r, S32); op.run(l, r, c);",
            "E0902 scale dtype must be 'metal_fp8_ue8m0_format', not 'uchar'",
        ),
        (
            "using P = blocks<device metal_fp8_ue8m0_format>; OP(16, 16, dyn, false, true); SCALED(l, P); SCALED(r, S32); op.run(l, r, c);",
            "E0903 a scale plane has 1 or 2 block sizes, not 0",
        ),
        (
            "using P = blocks<device metal_fp8_ue8m0_format, 32, 1, 1>; OP(16, 16, dyn, false, true); SCALED(l, S32); SCALED(r, P); op.run(l, r, c);",
            "E0903 a scale plane has 1 or 2 block sizes, not 3",
        ),
        (
            "using P = blocks<device metal_fp8_ue8m0_format, 16>; OP(16, 16, dyn, false, true); SCALED(l, P); SCALED(r, S32); op.run(l, r, c);",
            "E0904 Scale block size 0 must be 32, not 16",
        ),
        (
            "using P = blocks<device metal_fp8_ue8m0_format, 32, 2>; OP(16, 16, dyn, false, true); SCALED(l, P); SCALED(r, S32); op.run(l, r, c);",
            "E0905 Scale block size 1 must be 1, not 2",
        ),
        (
            "OP(16, 16, dyn, true, true); SCALED(l, S32); SCALED(r, S32); op.run(l, r, c);",
            "E0906 Left tensor must not be transposed if it has scale factors | note: store A with K innermost (extents (K, M)) and pass transpose_left = false",
        ),
        (
            "OP(16, 16, dyn, false, false); SCALED(l, S32); SCALED(r, S32); op.run(l, r, c);",
            "E0907 Right tensor must be transposed if it has scale factors | note: store B with K innermost (extents (K, N)) and pass transpose_right = true",
        ),
        (
            "using I8 = tensor<device int8_t, D2, tensor_inline, S32>; device int8_t* e = (device int8_t*)u; I8 l(e, D2(32, 32), S32(u)); I8 r(e, D2(32, 32), S32(u)); OP(16, 16, dyn, false, true); op.run(l, r, ci);",
            "E0909 a product of scaled operands is no integer | help: multiply the scaled integers by half or bfloat elements, into half, bfloat or float",
        ),
        (
            "tensor_blockwise<tensor_inline, device metal_fp8_ue8m0_format, 32> x(u);",
            "E0833 the first template argument of 'tensor_blockwise' must be a plane tag, not 'tensor_inline' | help: the only plane is 'tensor_plane_scales'",
        ),
        (
            "blocks<device Pair, 32> x(u);",
            "E0834 'device Pair' cannot be the element type of a plane | help: write 'device metal_fp8_ue8m0_format'",
        ),
        (
            "blocks<device metal_fp8_ue8m0_format, 0> x(u);",
            "E0835 block size 0 is not positive",
        ),
        (
            "tensor<device metal_fp8_e4m3_format, D2, tensor_inline, S32> l(u, D2(32, 32));",
            "E0846 the tensor has a scale plane, but no plane object is given | help: pass an object of the plane's type, constructed from a pointer, as the last argument",
        ),
        (
            "S32 s(p);",
            "E0848 a scale plane is constructed from a pointer to device uchar, not 'device float *'",
        ),
        (
            "S32 s(u, u);",
            "E0848 a scale plane is constructed from one pointer, 2 arguments given",
        ),
        (
            "tensor<device float, D2, tensor_inline> l(p, D2(32, 32), S32(u));",
            "E0847 this argument is not a plane object of the tensor's type | help: a plane is declared by a 'tensor_blockwise<…>' tag of the tensor and constructed from a pointer",
        ),
    ]);
}

/// The template arguments of `matmul2d`, and reference 4.5.
#[test]
fn descriptor_and_scope() {
    check(&[
        (
            "matmul2d<3, execution_simdgroup> op;",
            "E0875 the first template argument of 'matmul2d' must be a constant 'matmul2d_descriptor' | help: declare it as 'constexpr auto descriptor = matmul2d_descriptor(…);'",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), int> op;",
            "E0876 Scope template argument should be of op_scope type, not 'int' | help: use 'execution_simdgroup', 'execution_simdgroups<N>' or 'execution_thread'",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_simdgroups> op;",
            "E0434 'execution_simdgroups' needs template arguments here | help: write 'execution_simdgroups<N>' for N SIMD-groups, or 'execution_simdgroup' for one",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), Scope> op;",
            "E0840 the scope of 'matmul2d' is a class template without its arguments | help: write 'execution_simdgroup' for one SIMD-group, or 'execution_simdgroups<N>' for N",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16)> op;",
            "E0821 'matmul2d' needs template argument 2 (a type)",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), 4> op;",
            "E0820 template argument 2 of 'matmul2d' must be a type, not '4'",
        ),
        (
            "matmul2d<matmul2d_descriptor(1, 17), execution_thread> op; auto d = op.get_destination_cooperative_tensor<H2, H2, float>();",
            "E0877 'execution_thread' has no cooperative destination | help: pass a tensor in 'device' or 'thread' memory to 'run', or use the scope 'execution_simdgroup'",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16, 16), execution_thread> op; auto l = op.get_left_input_cooperative_tensor<half, half, float>();",
            "E0885 Input cooperative tensors require a single SIMD group | help: a thread takes its operands from 'device' or 'thread' memory; cooperative ones take 'execution_simdgroup'",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_threads<32>> op;",
            "E0874 Only execution_thread<1> is supported",
        ),
        (
            "threadgroup float s[4]; tensor<threadgroup float, D2, tensor_inline> t(s, D2(2, 2)); matmul2d<matmul2d_descriptor(2, 2), execution_thread> op; op.run(a, b, t);",
            "E0866 Unsupported address space: the destination operand is in threadgroup memory | help: the operands of 'execution_thread' are in 'device' or 'thread' memory",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_simdgroups<0>> op;",
            "E0874 'execution_simdgroups<0>': a threadgroup has 1 to 32 SIMD-groups",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_simdgroups<33>> op;",
            "E0874 'execution_simdgroups<33>': a threadgroup has 1 to 32 SIMD-groups",
        ),
        (
            "matmul2d<matmul2d_descriptor(16, 16), execution_simdgroups<half>> op;",
            "E0822 template argument 1 of 'execution_simdgroups' must be an integer, not 'half'",
        ),
        ("OP(0, 16);", "E0878 matmul2d_descriptor: m = 0 is not in 1…65536"),
        ("OP(16, -4);", "E0878 matmul2d_descriptor: n = -4 is not in 1…65536"),
        (
            "OP(16, 16, 70000);",
            "E0878 matmul2d_descriptor: k = 70000 is not in 1…65536",
        ),
        (
            "OP(16, 16, 8);",
            "E0879 K must be dynamic or a multiple of 16 | note: k is 8",
        ),
        (
            "OP(12, 16, dyn); op.run(a, b, c);",
            "E0892 M and N must be multiples of 8 | note: m is 12, n is 16",
        ),
        (
            "OP(8, 8, dyn); op.run(a, b, c);",
            "E0893 At least one of M or N must be a multiple of 16 | note: m is 8, n is 8",
        ),
        (
            "OP(8, 24, dyn); auto d = op.get_destination_cooperative_tensor<H2, H2, float>();",
            "E0893 At least one of M or N must be a multiple of 16 | note: m is 8, n is 24",
        ),
    ]);
}

/// Reference 4.4 and 4.5: what `run` takes.
#[test]
fn operands_of_run() {
    check(&[
        ("OP(16, 16); op.run(a, b);", "E0811 'run' takes 3 arguments, 2 given"),
        (
            "OP(16, 16); op.run(a, p, c);",
            "E0894 the right operand of 'run' must be a tensor or cooperative tensor, not 'device float *'",
        ),
        (
            "OP(16, 16); op.run(a, b, 3);",
            "E0894 the destination operand of 'run' must be a tensor or cooperative tensor, not 'int'",
        ),
        (
            "OP(16, 16); op.run(cube, b, c);",
            "E0896 the left operand has rank 3; matmul2d takes rank 2",
        ),
        (
            "OP(16, 16); op.run(a, b, v);",
            "E0896 the destination operand has rank 1; matmul2d takes rank 2",
        ),
        (
            "OP(16, 16); op.run(wide, b, c);",
            "E0897 Index type must be int | help: the left operand's extents are of 'uint'",
        ),
        (
            "OP(16, 16); float s[4]; tensor<thread float, D2, tensor_inline> t(s, D2(2, 2)); op.run(a, b, t);",
            "E0866 Unsupported address space: the destination operand is in thread memory | help: the operands of SIMD-groups are in 'device' or 'threadgroup' memory; those in 'thread' memory take 'execution_thread'",
        ),
        (
            "OP(16, 16); op.run(a.slice(0, 0), b, c);",
            "E0857 the left operand of 'run' is a temporary | note: operands are bound to references: store it in a variable first",
        ),
        (
            "OP(16, 16); op.run(a, b, kf);",
            "E0854 the elements of the destination are const | help: declare the tensor in 'device' or 'threadgroup' memory without 'const'",
        ),
        (
            "OP(16, 16); op.run(a, b, ac);",
            "E0854 the elements of the destination are const | help: declare the tensor in 'device' or 'threadgroup' memory without 'const'",
        ),
        (
            "OP(16, 16); op.run(a, b, ci);",
            "E0880 Unsupported type: matmul2d has no row for left 'half', right 'half', destination 'int' | help: these operands can have a destination of float or half",
        ),
        (
            "OP(16, 16); op.run(ci, b, c);",
            "E0880 Unsupported type: matmul2d has no row for left 'int', right 'half', destination 'float' | help: these operand types cannot be multiplied; convert one of them first",
        ),
        (
            "OP(16, 16); tensor<device uchar, D2, tensor_inline> t(u, D2(16, 16)); op.run(a, t, ci);",
            "E0880 Unsupported type: matmul2d has no row for left 'half', right 'uchar', destination 'int' | help: these operands can have a destination of float or half",
        ),
        (
            "OP(16, 16); tensor<device uchar, D2, tensor_inline> l(u, D2(16, 16)); tensor<device int8_t, D2, tensor_inline> r((device int8_t *)u, D2(16, 16)); op.run(l, r, ci);",
            "E0880 Unsupported type: matmul2d has no row for left 'uchar', right 'char', destination 'int' | help: these operand types cannot be multiplied; convert one of them first",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, F2, float>(); op.run(a, b, d);",
            "E0895 Input types must match cooperative tensor types | help: the destination was obtained for 'half' and 'float', the operands are 'half' and 'half'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); op.run(a, d, c);",
            "E0898 this cooperative tensor is not a right operand | help: obtain it with 'get_right_input_cooperative_tensor'",
        ),
        (
            "OP(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, float>(); op.run(a, l, c);",
            "E0898 this cooperative tensor is not a right operand | help: obtain it with 'get_right_input_cooperative_tensor'",
        ),
        (
            "OP(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, float>(); op.run(a, b, l);",
            "E0898 this cooperative tensor is not a destination operand | help: obtain it with 'get_destination_cooperative_tensor'",
        ),
        (
            "OP4(16, 16); matmul2d<matmul2d_descriptor(16, 16), execution_simdgroup> one; auto d = one.get_destination_cooperative_tensor<H2, H2, float>(); op.run(a, b, d);",
            "E0899 this cooperative tensor belongs to the scope 'execution_simdgroup', the operation to 'execution_simdgroups<4>'",
        ),
        (
            "OP(32, 16); matmul2d<matmul2d_descriptor(16, 16), execution_simdgroup> one; auto d = one.get_destination_cooperative_tensor<H2, H2, float>(); op.run(a, b, d);",
            "E0900 this cooperative tensor is 16 × 16, the operation's destination operand 32 × 16 (rows × columns)",
        ),
        (
            "OP(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, float>(); auto r = op.get_right_input_cooperative_tensor<half, half, float>(); op.run(l, r, c);",
            "E0908 With two cooperative inputs M, N and K must be 16 or 32, and at least one 32 | note: m is 16, n is 16, k is 16",
        ),
    ]);
}

/// Template arguments of the destination getters and aliases.
#[test]
fn cooperative_destinations() {
    check(&[
        (
            "OP(2048, 1024); auto d = op.get_destination_cooperative_tensor<H2, H2, float>();",
            "E0859 a cooperative tensor of 2048 × 1024 elements (rows × columns) is too large: the threads of a threadgroup hold at most 1048576",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<half, H2, float>();",
            "E0883 template argument 1 of 'get_destination_cooperative_tensor' must be a tensor type, not 'half' | help: pass the operand's type: 'decltype(tile)'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2>();",
            "E0821 'get_destination_cooperative_tensor' needs template argument 2 (a type)",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, 4, float>();",
            "E0820 template argument 2 of 'get_destination_cooperative_tensor' must be a type, not '4'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, Pair>();",
            "E0882 template argument 3 of 'get_destination_cooperative_tensor' must be an element type, not 'Pair'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float, float>();",
            "E0881 the coordinate type of 'get_destination_cooperative_tensor' must be short, ushort, int or uint, not 'float'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, uchar>();",
            "E0884 cooperative tensor data type can only be one of float, half, bfloat, int, not 'uchar'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, bfloat>();",
            "E0880 Unsupported type: matmul2d has no row for left 'half', right 'half', destination 'bfloat' | help: these operands can have a destination of float or half",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(3);",
            "E0811 'get_destination_cooperative_tensor' takes no arguments, 1 given",
        ),
    ]);
}

/// Reference 4.5 and 5.5.
#[test]
fn cooperative_inputs() {
    check(&[
        (
            "OP4(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, float>();",
            "E0885 Input cooperative tensors require a single SIMD group | help: use the scope 'execution_simdgroup'",
        ),
        (
            "OP(16, 16, dyn); auto l = op.get_left_input_cooperative_tensor<half, half, float>();",
            "E0886 Inner dimension cannot be dynamic with input cooperative tensors | help: give the descriptor a constant k",
        ),
        (
            "OP(16, 16, 16); auto r = op.get_right_input_cooperative_tensor<half, int4b_format, float>(); r.set(0, 1.0f);",
            "E0865 'float' does not convert to 'int4b_format'",
        ),
        (
            "OP(16, 16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, half, short>(); auto l = op.get_left_input_cooperative_tensor<half, half, half>(d);",
            "E0889 a cooperative tensor whose coordinates are not 'int' cannot become an input | help: obtain both without the template argument CoordType",
        ),
        (
            "OP(16, 16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, half>(); bool c = op.is_compatible_as_left_input<half, half, half, int>(d);",
            "E0881 'is_compatible_as_left_input' takes no coordinate type",
        ),
        (
            "OP(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, int>();",
            "E0880 Unsupported type: matmul2d has no row for left 'half', right 'half', destination 'int' | help: these operands can have a destination of float or half",
        ),
        (
            "OP(16, 16, 16, true); auto d = op.get_destination_cooperative_tensor<H2, H2, half>(); auto l = op.get_left_input_cooperative_tensor<half, half, half>(d);",
            "E0888 Input cooperative tensor cannot be transposed | help: pass transpose_left = false in the descriptor",
        ),
        (
            "OP(16, 16, 16, false, true); auto d = op.get_destination_cooperative_tensor<H2, H2, half>(); auto r = op.get_right_input_cooperative_tensor<half, half, half>(d);",
            "E0888 Input cooperative tensor cannot be transposed | help: pass transpose_right = false in the descriptor",
        ),
        (
            "OP(16, 16, 16); auto d = op.get_left_input_cooperative_tensor<half, half, half>(); auto l = op.get_left_input_cooperative_tensor<half, half, half>(d);",
            "E0889 only a matmul2d destination cooperative tensor of a single SIMD group can become an input",
        ),
        (
            "OP(16, 16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto l = op.get_left_input_cooperative_tensor<half, half, half>(d);",
            "E0890 the source's elements are 'float', the input's are 'half'",
        ),
        (
            "OP(16, 32, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, half>(); auto l = op.get_left_input_cooperative_tensor<half, half, half>(d);",
            "E0891 the source is 16 × 32, the input 16 × 16 (rows × columns)",
        ),
        (
            "OP(16, 16, 16); auto l = op.get_left_input_cooperative_tensor<half, half, half>(a);",
            "E0860 'get_left_input_cooperative_tensor' takes a cooperative tensor, not 'tensor<device half, dextents<int, 2>, tensor_handle>'",
        ),
        (
            "OP(16, 16, 16); bool ok = op.is_compatible_as_left_input<half, half, half>(a);",
            "E0860 'is_compatible_as_left_input' takes a cooperative tensor, not 'tensor<device half, dextents<int, 2>, tensor_handle>'",
        ),
        (
            "OP(16, 16, 16); bool ok = op.is_compatible_as_right_input<half, half, half>();",
            "E0811 'is_compatible_as_right_input' takes 1 argument, 0 given",
        ),
    ]);
}

/// Reference 5.2 and 5.4: members, `load` and `store`.
#[test]
fn cooperative_tensors() {
    check(&[
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.load(a);",
            "E0865 Tensor datatype does not match cooperative tensor: 'half' and 'float'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.store(a);",
            "E0865 Tensor datatype does not match cooperative tensor: 'half' and 'float'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.load(p);",
            "E0842 'load' takes a tensor, not 'device float *'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.store();",
            "E0811 'store' takes 1 argument, 0 given",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.load(kf);",
            "E0866 Unsupported address space: constant memory",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.load(cube32);",
            "E0867 a cooperative tensor of rank 2 cannot be moved to or from a tensor of rank 3",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); r.store(c);",
            "E0867 a cooperative tensor of rank 1 cannot be moved to or from a tensor of rank 2",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); tensor<device const float, D2, tensor_inline> t(pc, D2(16, 16)); d.store(t);",
            "E0854 the elements of this tensor are const | help: declare the tensor without 'const' elements",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.get_mask(0);",
            "E0862 a cooperative tensor has no member 'get_mask' | help: the member is 'is_valid_element(i)'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.rows();",
            "E0472 'cooperative_tensor<float, 16 × 16, destination>' has no member function 'rows'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d[a] = 1;",
            "E0823 expected a number, not 'tensor<device half, dextents<int, 2>, tensor_handle>'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d[0, 1] = 1;",
            "E0868 a cooperative tensor takes one slot index, 2 given",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto e = op.get_destination_cooperative_tensor<H2, H2, float>(); auto it = d.begin(); it = e.begin();",
            "E0870 this iterator cannot be moved to another cooperative tensor | help: declare another iterator",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); d.set(0);",
            "E0811 'set' takes 2 arguments, 1 given",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto it = d.begin(); it * 3;",
            "E0869 an iterator of a cooperative tensor has no operator '*' with these operands",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); const auto it = d.begin(); it++;",
            "E0870 this iterator cannot be changed | help: copy it to a variable that is not 'const'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto s = d.get_multidimensional_index();",
            "E0811 'get_multidimensional_index' takes 1 argument, 0 given",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); float4 x = d[float4(0)];",
            "E0823 expected a number, not 'float4'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto it = d.begin(); auto x = it << 1;",
            "E0869 an iterator of a cooperative tensor has no operator '<<' with these operands",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto it = d.begin(); auto x = +it;",
            "E0869 an iterator of a cooperative tensor has no operator '+' with these operands",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto it = d.begin(); bool x = it == 3;",
            "E0861 expected an iterator of a cooperative tensor",
        ),
    ]);
}

/// Reference 6.
#[test]
fn reductions() {
    check(&[
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_rows(d, c);",
            "E0860 'reduce_rows' takes two cooperative tensors",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_rows(d);",
            "E0811 'reduce_rows' takes 2 to 4 arguments, 1 given",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_rows(r, r);",
            "E0871 reduce_rows: the source must be a matmul2d destination cooperative tensor",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_columns(d, r);",
            "E0871 reduce_columns: the destination must be a column reduction cooperative tensor",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto q2 = op.get_column_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_rows(d, q2);",
            "E0871 reduce_rows: the destination must be a row reduction cooperative tensor",
        ),
        (
            "OP4(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_rows(d, r);",
            "E0871 reduce_rows requires a single SIMD group",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); matmul2d<matmul2d_descriptor(16, 32), execution_simdgroup> other; auto r = other.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduce_rows(d, r);",
            "E0871 reduce_rows: source and destination come from different matmul2d descriptors",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, half>(); reduce_rows(d, r);",
            "E0871 reduce_rows: source and destination were obtained for different element types",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, F2, float>(); reduce_rows(d, r);",
            "E0871 reduce_rows: source and destination were obtained for different element types",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); reduction_operation o = p[0] > 0 ? reduction_operation::max : reduction_operation::min; reduce_rows(d, r, o, 0.0f);",
            "E0872 the reduction operation of 'reduce_rows' must be a constant | help: write 'reduction_operation::sum', 'reduction_operation::max' or 'reduction_operation::min'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); r.map_iterator(3);",
            "E0861 'map_iterator' takes an iterator of another cooperative tensor, not 'int'",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); r.map_iterator(r.begin());",
            "E0863 map_iterator: the iterator must come from a matmul2d destination cooperative tensor",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); d.map_iterator(d.begin());",
            "E0863 map_iterator: the receiver must be a row or column reduction cooperative tensor",
        ),
        (
            "OP4(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); r.map_iterator(d.begin());",
            "E0863 map_iterator requires a single SIMD group",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); matmul2d<matmul2d_descriptor(32, 16), execution_simdgroup> other; auto r = other.get_row_reduction_destination_cooperative_tensor<H2, H2, float>(); r.map_iterator(d.begin());",
            "E0863 map_iterator: the tile has 16 rows, the row reduction 32",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); matmul2d<matmul2d_descriptor(16, 32), execution_simdgroup> other; auto r = other.get_column_reduction_destination_cooperative_tensor<H2, H2, float>(); r.map_iterator(d.begin());",
            "E0863 map_iterator: the tile has 16 columns, the column reduction 32",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); auto r = op.get_row_reduction_destination_cooperative_tensor<H2, H2, half>(); r.map_iterator(d.begin());",
            "E0864 map_iterator: the element types differ ('float' and 'half')",
        ),
        (
            "OP(16, 16); auto d = op.get_destination_cooperative_tensor<H2, H2, float>(); bool ok = is_iterator_compatible(d, c);",
            "E0860 'is_iterator_compatible' takes two cooperative tensors",
        ),
    ]);
}

/// Reference 1.2.
#[test]
fn extents_types() {
    check(&[
        (
            "dextents<float, 2> e;",
            "E0825 the index type of extents must be an integer type, not 'float'",
        ),
        ("dextents<int, 17> e;", "E0826 a tensor's rank is 0 to 16, not 17"),
        ("dextents<int, -1> e;", "E0826 a tensor's rank is 0 to 16, not -1"),
        (
            "extents<int, -5, 4> e;",
            "E0855 an extent of 'extents' cannot be -5 | help: an extent is a count of elements, or 'dynamic_extent'",
        ),
        (
            "extents<int, 2, half> e;",
            "E0822 template argument 3 of 'extents' must be an integer, not 'half'",
        ),
        (
            "dextents<int> e;",
            "E0821 'dextents' needs template argument 2 (an integer)",
        ),
        (
            "extents<int, 4, dynamic_extent> e(1, 2, 3);",
            "E0827 extents of rank 2 take 2 values, or 1 (one for each dynamic extent), 3 given",
        ),
        (
            "extents<int, 4, dynamic_extent> e(5, 2);",
            "E0828 extent 5 is given where the type says 4",
        ),
        (
            "D3 e = D2(1, 2);",
            "E0466 'dextents<int, 2>' does not convert to 'dextents<int, 3>'",
        ),
        (
            "D2 e(1, 2); int x = e.extent(2);",
            "E0831 dimension 2 is outside a tensor of rank 2",
        ),
        (
            "D2 e(1, 2); int x = e.extent(int(p[0]));",
            "E0832 the dimension must be a constant here | help: unroll the loop over dimensions by hand",
        ),
        ("D2 e(p, 2);", "E0823 expected a number, not 'device float *'"),
        ("D2 e(1);", "E0827 extents of rank 2 take 2 values, 1 given"),
    ]);
}

/// Reference 1.3 and 1.5.
#[test]
fn tensor_types() {
    check(&[
        (
            "tensor<device Pair, D2, tensor_inline> t;",
            "E0830 'device Pair' cannot be the element type of a tensor | help: use a scalar type or a format type such as 'int4b_format'",
        ),
        (
            "tensor<device float, int, tensor_inline> t;",
            "E0836 the second template argument of 'tensor' must be extents, not 'int' | help: write 'dextents<int, RANK>' or 'extents<int, E0, E1>'",
        ),
        (
            "tensor<device float, D2, int> t;",
            "E0837 tensor: Descriptor template parameter must be one of tensor_handle or tensor_inline",
        ),
        (
            "tensor<device float, D2, tensor_inline, tensor_offset> t;",
            "E0838 'tensor_offset' is not a tag of this tensor | help: the tags are 'tensor_offset' (after 'tensor_handle') and 'tensor_blockwise<…>'",
        ),
        (
            "tensor<threadgroup float, D2> t;",
            "E0839 the elements of a 'tensor_handle' tensor are in device or constant memory, not threadgroup | help: write 'tensor<device T, …>', or 'tensor_inline' for other memory",
        ),
        (
            "tensor<device float> t;",
            "E0821 'tensor' needs template argument 2 (a type)",
        ),
        (
            "tensor<4, D2> t;",
            "E0820 template argument 1 of 'tensor' must be a type, not '4'",
        ),
        (
            "auto t = tensor(3, 4);",
            "E0841 the template arguments of 'tensor' cannot be deduced from these arguments | help: write 'tensor(pointer, dextents<int, 2>(columns, rows))'",
        ),
        (
            "device Pair *x = (device Pair *)p; auto t = tensor(x, D2(1, 2));",
            "E0830 'device Pair' cannot be the element type of a tensor | help: use a scalar type or a format type such as 'int4b_format'",
        ),
        (
            "F2 t(p, D2(4, 4));",
            "E0844 a 'tensor_handle' tensor is not constructed in a kernel | help: bind it as an argument, or declare the type with 'tensor_inline'",
        ),
        (
            "F2 t(a);",
            "E0843 a 'tensor<device half, dextents<int, 2>, tensor_handle>' does not convert to a 'tensor<device float, dextents<int, 2>, tensor_handle>' | help: elements, memory, rank, planes and static extents must agree, and constness can only be added",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(c);",
            "E0843 a 'tensor<device float, dextents<int, 2>, tensor_handle>' does not convert to a 'tensor<device float, dextents<int, 2>, tensor_inline>' | help: elements, memory, rank, planes and static extents must agree, and constness can only be added",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(p);",
            "E0845 a 'tensor_inline' tensor takes a pointer, extents, strides and a plane; 1 arguments given",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(u, D2(4, 4));",
            "E0849 the pointer is to 'device uchar', the tensor's elements are 'float'",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(q, D2(4, 4));",
            "E0850 the pointer is to constant memory, the tensor's elements are in device memory",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(pc, D2(4, 4));",
            "E0851 the pointer is to const elements, the tensor's are not const | help: declare the tensor with 'const' elements, or cast the const away",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(3.0f, D2(4, 4));",
            "E0848 a tensor's first argument is a pointer, not 'float'",
        ),
        (
            "tensor<device float, D2, tensor_inline> t({1, 2}, D2(4, 4));",
            "E0812 a tensor's first argument is a pointer",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(p, D3(4, 4, 4));",
            "E0829 extents of rank 3 are given to a tensor of rank 2",
        ),
        (
            "array<int, 3> s = {1, 2, 3}; tensor<device float, D2, tensor_inline> t(p, D2(4, 4), s);",
            "E0824 2 values are needed for the strides of a tensor of rank 2, 3 given",
        ),
        (
            "array<int, 2> s = {1, 4}; tensor<device float, D2, tensor_inline> t(p, D2(4, 4), s, 5);",
            "E0847 this argument is not a plane object of the tensor's type | help: a plane is declared by a 'tensor_blockwise<…>' tag of the tensor and constructed from a pointer",
        ),
        (
            "tensor<device half, D2, tensor_handle, int> t;",
            "E0838 'int' is not a tag of this tensor | help: the tags are 'tensor_offset' (after 'tensor_handle') and 'tensor_blockwise<…>'",
        ),
        (
            "bool x = is_null_tensor(p);",
            "E0842 'is_null_tensor' takes a tensor, not 'device float *'",
        ),
        (
            "tensor<device float, D2, tensor_inline> t(p, 3);",
            "E0827 extents of rank 2 take 2 values, 1 given",
        ),
    ]);
}

/// Reference 1.6 and 1.7: elements, extents and slices.
#[test]
fn tensor_members() {
    check(&[
        (
            "auto s = a.slice(1);",
            "E0824 2 values are needed for a slice of a tensor of rank 2, 1 given",
        ),
        (
            "auto s = a.slice(1, 2, 3);",
            "E0824 2 values are needed for a slice of a tensor of rank 2, 3 given",
        ),
        (
            "auto s = a.slice<4>(1, 2);",
            "E0852 no matching member function: slice of a tensor of rank 2 takes 2 extents, 1 given | help: 'dynamic_extent' stands for the rest of a dimension",
        ),
        (
            "auto s = fixed.slice<17, 8>(0, 0);",
            "E0853 no matching member function: a slice of 17 elements in dimension 0 of a tensor with 16",
        ),
        (
            "auto s = a.slice<-3, 4>(0, 0);",
            "E0855 an extent of 'slice' cannot be -3 | help: an extent is a count of elements, or 'dynamic_extent'",
        ),
        (
            "tensor<device float, dextents<int, 0>, tensor_inline> t(p, dextents<int, 0>()); int x = t.get_extent(int(p[0]));",
            "E0831 a tensor of rank 0 has no dimensions",
        ),
        (
            "tensor<device int4b_format, D2, tensor_inline> t(u, D2(4, 4)); int x = t[0, 0];",
            "E0466 'int4b_format' does not convert to 'int' | help: element formats convert only explicitly: write 'float(element)' or 'metal_fp8_e4m3_format(number)'",
        ),
        (
            "auto s = a.slice(p, 1);",
            "E0823 integers are needed for a slice of a tensor, not 'device float *'",
        ),
        (
            "half x = a[1];",
            "E0824 2 values are needed for an element of a tensor of rank 2, 1 given",
        ),
        (
            "half x = a[1, 2, 3];",
            "E0824 2 values are needed for an element of a tensor of rank 2, 3 given",
        ),
        (
            "half x = a[p, 1];",
            "E0823 integers are needed for an element of a tensor, not 'device float *'",
        ),
        (
            "int x = a.get_extent(2);",
            "E0831 dimension 2 is outside a tensor of rank 2",
        ),
        (
            "int x = a.get_static_extent(-1);",
            "E0831 dimension -1 is outside a tensor of rank 2",
        ),
        (
            "int x = a.get_static_extent(int(p[0]));",
            "E0832 the dimension must be a constant here | help: unroll the loop over dimensions by hand",
        ),
        (
            "int x = a.get_extent();",
            "E0811 'get_extent' takes 1 argument, 0 given",
        ),
        ("ac[0, 0] = 1;", "E0534 this object is 'const' and cannot be written"),
        ("k[0, 0] = 1;", "E0533 'constant' memory cannot be written"),
        (
            "ac.set(1.0h, 0, 0);",
            "E0854 the elements of this tensor are const | help: declare the tensor without 'const' elements",
        ),
        ("a.set();", "E0811 'set' takes a value and indices"),
        ("a.set({1}, 0, 0);", "E0812 'set' takes no braced list"),
        (
            "a.width();",
            "E0472 'tensor<device half, dextents<int, 2>, tensor_handle>' has no member function 'width'",
        ),
        (
            "float4 x = a[float4(0)];",
            "E0824 2 values are needed for an element of a tensor of rank 2, 4 given",
        ),
        (
            "int x = a.get_stride(5);",
            "E0831 dimension 5 is outside a tensor of rank 2",
        ),
    ]);
}
