//! What the Metal library and Metal Performance Primitives declare, as far as parsing needs it: which names are types, which
//! are templates. Their meaning is the checker's business; a source may declare the same names for itself.

use super::scope::NameKind;

const TYPES: &[&str] = &[
    "half",
    "bfloat",
    "uchar",
    "ushort",
    "uint",
    "ulong",
    "size_t",
    "ptrdiff_t",
    "nullptr_t",
    "intptr_t",
    "uintptr_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "atomic_int",
    "atomic_uint",
    "atomic_bool",
    "atomic_float",
    "atomic_ulong",
    "simdgroup_float8x8",
    "simdgroup_half8x8",
    "simdgroup_bfloat8x8",
    "matmul2d_descriptor",
    "convolution2d_descriptor",
    "convolution2d_activation_layout",
    "convolution2d_weights_layout",
    "execution_simdgroup",
    "execution_thread",
    "execution_dsimdgroups",
    "execution_dthreads",
    "tensor_handle",
    "tensor_inline",
    "tensor_offset",
    "tensor_plane_scales",
    "int2b_format",
    "uint2b_format",
    "int4b_format",
    "uint4b_format",
    "int8b_format",
    "uint8b_format",
    "metal_fp4_e2m1_format",
    "metal_fp8_e4m3_format",
    "metal_fp8_e5m2_format",
    "metal_fp8_ue8m0_format",
    "mem_flags",
    "memory_order",
    "thread_scope",
    "true_type",
    "false_type",
    "simd_vote",
    "quad_vote",
    "reduction_operation",
    "_Bool",
];

const TYPE_TEMPLATES: &[&str] = &[
    "vec",
    "packed_vec",
    "matrix",
    "array",
    "array_ref",
    "tensor",
    "extents",
    "dextents",
    "cooperative_tensor",
    "tensor_blockwise",
    "matmul2d",
    "convolution2d",
    "execution_simdgroups",
    "execution_threads",
    "atomic",
    "_atomic",
    "simdgroup_matrix",
    "numeric_limits",
    "integral_constant",
    "bool_constant",
    "dynamic_length",
    "pair",
    "tuple",
    "packed_numeric_type",
    "index_sequence",
    "make_index_sequence",
    "integer_sequence",
    "make_integer_sequence",
    "is_same",
    "conditional",
    "enable_if",
    "common_type",
    "decay",
    "underlying_type",
    "conjunction",
    "disjunction",
    "negation",
    "type_identity",
    "void_t",
    "is_vector",
    "is_scalar",
    "make_scalar",
    "make_vector",
    "invoke_result",
];

const VALUE_TEMPLATES: &[&str] = &[
    "as_type",
    "make_filled_simdgroup_matrix",
    "declval",
    "get",
    "pack",
    "unpack",
    "forward",
    "move",
    "dynamic_length_v",
    "simdgroup_load",
    "is_null_tensor",
];

const MEMBER_TEMPLATES: &[&str] = &[
    "slice",
    "get_destination_cooperative_tensor",
    "get_left_input_cooperative_tensor",
    "get_right_input_cooperative_tensor",
    "is_compatible_as_left_input",
    "is_compatible_as_right_input",
    "get_row_reduction_destination_cooperative_tensor",
    "get_column_reduction_destination_cooperative_tensor",
];

const SCALARS: &[&str] = &[
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float",
];

/// Namespaces of the library.
pub(super) fn is_namespace(name: &str) -> bool {
    matches!(
        name,
        "metal" | "mpp" | "tensor_ops" | "precise" | "fast" | "simd" | "detail"
    )
}

/// Member templates of tensors and of TensorOps objects.
pub(super) fn member_template(name: &str) -> bool {
    MEMBER_TEMPLATES.contains(&name)
}

/// Member types of `matmul2d`: `cooperative_tensor_destination_t<…>` and its siblings.
pub(super) fn member_type_template(name: &str) -> bool {
    name.starts_with("cooperative_tensor_") && name.ends_with("_t")
}

/// `float4`, `packed_half3`, `float4x4`.
fn is_vector_or_matrix(name: &str) -> bool {
    let name = name
        .strip_prefix("packed_")
        .or_else(|| name.strip_prefix("vector_"))
        .unwrap_or(name);
    let name = name.strip_prefix("simd_").unwrap_or(name);
    let digits = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let scalar = &name[..name.len() - digits.len()];
    let (scalar, digits) = match scalar.strip_suffix('x') {
        Some(_) => return false,
        None => (scalar, digits),
    };
    let dim = |s: &str| matches!(s, "2" | "3" | "4");
    let shape = match digits.split_once('x') {
        Some((a, b)) => dim(a) && dim(b) && matches!(scalar, "half" | "float" | "bfloat"),
        None => dim(digits),
    };
    shape && SCALARS.contains(&scalar)
}

/// What a name of the library is.
pub(super) fn kind(name: &str) -> NameKind {
    if is_namespace(name) {
        return NameKind::Namespace;
    }
    if TYPES.contains(&name) || is_vector_or_matrix(name) {
        return NameKind::Type;
    }
    if TYPE_TEMPLATES.contains(&name) {
        return NameKind::TypeTemplate;
    }
    if VALUE_TEMPLATES.contains(&name) {
        return NameKind::ValueTemplate;
    }
    // Type traits: is_floating_point<T>, is_floating_point_v<T>, remove_reference_t<T>, make_unsigned_t<T>, …
    let trait_like = ["is_", "has_", "remove_", "add_", "make_"]
        .iter()
        .any(|p| name.starts_with(p));
    if trait_like && name.ends_with("_v") {
        return NameKind::ValueTemplate;
    }
    let aliased = [
        "conditional_t",
        "enable_if_t",
        "common_type_t",
        "decay_t",
        "underlying_type_t",
        "invoke_result_t",
    ];
    if aliased.contains(&name) || (trait_like && name.ends_with("_t")) {
        return NameKind::TypeTemplate;
    }
    let trait_names = [
        "is_same",
        "is_integral",
        "is_floating_point",
        "is_arithmetic",
        "is_signed",
        "is_unsigned",
        "is_pointer",
        "is_reference",
        "is_array",
        "is_const",
        "is_volatile",
        "is_void",
        "is_enum",
        "is_class",
        "is_convertible",
        "is_base_of",
        "is_function",
        "is_scalar",
        "is_vector",
        "is_tensor",
        "is_tensor_handle",
        "is_tensor_inline",
        "remove_const",
        "remove_volatile",
        "remove_cv",
        "remove_reference",
        "remove_pointer",
        "remove_addrspace",
        "remove_extent",
        "remove_cvref",
        "add_const",
        "add_pointer",
        "make_signed",
        "make_unsigned",
    ];
    if trait_names.contains(&name) {
        NameKind::TypeTemplate
    } else {
        NameKind::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for name in [
            "float4",
            "packed_half3",
            "half4x4",
            "uint",
            "bool2",
            "matmul2d_descriptor",
            "simd_float4",
        ] {
            assert_eq!(kind(name), NameKind::Type, "{name}");
        }
        for name in ["float5", "int4x4", "float", "x", "floatx4", "exp"] {
            assert_eq!(kind(name), NameKind::Unknown, "{name}");
        }
        assert_eq!(kind("is_same_v"), NameKind::ValueTemplate);
        assert_eq!(kind("remove_addrspace_t"), NameKind::TypeTemplate);
        assert_eq!(kind("metal"), NameKind::Namespace);
    }
}
