//! The system headers that are built into the compiler.
//!
//! The types and functions of the Metal library are built into the checker, so a header here holds macros and the names of
//! other headers that it brings along. What matters is *that* a header was included: the checker asks
//! [`Translation::system_headers`](crate::Translation::system_headers) before it lets a tensor type be used.

/// One embedded header.
#[derive(Debug)]
pub struct Header {
    /// The name between the brackets of an `#include`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

const fn header(name: &'static str, text: &'static str) -> Header {
    Header { name, text }
}

const EMPTY: &str = "";
const STDLIB: &str = include_str!("metal_stdlib.h");
const CONFIG: &str = include_str!("metal_config.h");
const LIMITS: &str = include_str!("metal_limits.h");
const MATH: &str = include_str!("metal_math.h");
const TENSOR: &str = include_str!("metal_tensor.h");
const COOPERATIVE: &str = include_str!("metal_cooperative_tensor.h");
const MPP: &str = include_str!("mpp.h");

/// All of them.
pub const HEADERS: &[Header] = &[
    header("metal_stdlib", STDLIB),
    header("metal_config", CONFIG),
    header("metal_types", CONFIG),
    header("metal_limits", LIMITS),
    header("metal_math", MATH),
    header("metal_common", CONFIG),
    header("metal_integer", CONFIG),
    header("metal_relational", CONFIG),
    header("metal_geometric", CONFIG),
    header("metal_matrix", CONFIG),
    header("metal_graphics", CONFIG),
    header("metal_pack", CONFIG),
    header("metal_atomic", CONFIG),
    header("metal_compute", CONFIG),
    header("metal_simdgroup", CONFIG),
    header("metal_quadgroup", CONFIG),
    header("metal_simdgroup_matrix", CONFIG),
    header("metal_numeric", LIMITS),
    header("metal_type_traits", CONFIG),
    header("metal_array", CONFIG),
    header("metal_utility", CONFIG),
    header("metal_initializer_list", CONFIG),
    header("metal_tuple", CONFIG),
    header("metal_uniform", CONFIG),
    header("metal_assert", CONFIG),
    header("metal_logging", CONFIG),
    header("metal_extended_vector", CONFIG),
    header("metal_packed_vector", CONFIG),
    header("metal_command_buffer", EMPTY),
    header("metal_tensor", TENSOR),
    header("metal_cooperative_tensor", COOPERATIVE),
    header("metal_packed_numeric", CONFIG),
    header("metal_execution_unit", CONFIG),
    header("simd/simd.h", CONFIG),
    header("TargetConditionals.h", include_str!("target_conditionals.h")),
    header("MetalPerformancePrimitives/MetalPerformancePrimitives.h", MPP),
    header("MetalPerformancePrimitives/MPPTensorOpsMatMul2d.h", MPP),
    header("MetalPerformancePrimitives/MPPTensorOpsConvolution2d.h", MPP),
    header("MetalPerformancePrimitives/MPPTensorOpsTypes.h", MPP),
    header("MetalPerformancePrimitives/MPPTensorOpsUtility.h", MPP),
    header("MetalPerformancePrimitives/MPPTensorOpsTraits.h", MPP),
];

/// Apple's headers outside compute on buffers and tensors.
pub const REFUSED: &[&str] = &[
    "metal_raytracing",
    "metal_texture",
    "metal_mesh",
    "metal_interpolate",
    "metal_visible_function_table",
    "metal_intersection_query",
];

/// The header of this name.
pub fn find(name: &str) -> Option<&'static Header> {
    // Apple's folder of headers can be named too: `<metal/metal_stdlib>`.
    let name = name.strip_prefix("metal/").unwrap_or(name);
    HEADERS.iter().find(|h| h.name == name)
}

/// The name under which an inclusion is recorded: all headers of Metal Performance Primitives count as
/// `MetalPerformancePrimitives`, others as themselves.
pub fn canonical(name: &'static str) -> &'static str {
    name.split_once('/')
        .filter(|(dir, _)| *dir == "MetalPerformancePrimitives")
        .map_or(name, |(dir, _)| dir)
}

/// An embedded header whose name is within two edits of this one.
pub fn closest(name: &str) -> Option<&'static str> {
    HEADERS
        .iter()
        .map(|h| (edits(h.name, name), h.name))
        .filter(|(d, n)| *d <= 2 && *d < n.len())
        .min_by_key(|(d, _)| *d)
        .map(|(_, n)| n)
}

/// Levenshtein distance; long names are never close.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    if a.len() > 80 || b.len() > 80 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup() {
        assert!(find("metal_stdlib").is_some());
        assert_eq!(
            canonical("MetalPerformancePrimitives/MPPTensorOpsTypes.h"),
            "MetalPerformancePrimitives"
        );
        assert_eq!(closest("metal_tensr"), Some("metal_tensor"));
        assert_eq!(closest("vector"), None);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
