//! Faults as findings: under the sanitizer, what ends a dispatch has a code and a piece of advice too.

use anymetal_ir::{Finding, FindingCode, LocationId, Locations, Spot};

use crate::fault::{FaultKind, ThreadPosition};

/// The finding behind a fault.
pub(crate) fn finding(
    kernel: &str,
    locations: &Locations,
    kind: &FaultKind,
    location: LocationId,
    thread: &ThreadPosition,
) -> Finding {
    let (code, label, help) = match kind {
        FaultKind::OutOfBounds { .. } | FaultKind::TensorIndex { .. } => (
            FindingCode::OutOfBounds,
            "outside here",
            "bound the index (threads past the end have to be masked off), or make the memory larger",
        ),
        FaultKind::NullPointer { .. } => (
            FindingCode::OutOfBounds,
            "null here",
            "bind something here, or ask for null before the access",
        ),
        FaultKind::ReadOnly { .. } => (
            FindingCode::OutOfBounds,
            "written here",
            "declare the argument as `device` memory without `const`",
        ),
        FaultKind::StaticOverhang { .. } => (
            FindingCode::StaticOverhang,
            "goes past the end here",
            "take a slice with dynamic extents at the edge: `slice(x, y)` instead of `slice<…>(x, y)`",
        ),
        FaultKind::Misaligned { .. } => (
            FindingCode::Misaligned,
            "misaligned here",
            "use a packed type, or an index that keeps the alignment",
        ),
        FaultKind::DivergentBarrier { .. } => (
            FindingCode::DivergentBarrier,
            "not all threads come here",
            "move the barrier out of the branch or loop that only some threads take",
        ),
        FaultKind::Budget { .. } => (
            FindingCode::Budget,
            "still running here",
            "look for a loop whose condition never becomes false; raise --budget if it is only long",
        ),
        // Products of SIMD-group matrices fault where others are found.
        FaultKind::TileOperation { reason } if reason.contains("in control flow that is uniform") => (
            FindingCode::DivergentTileOperation,
            "not all threads come here",
            "take it out of the branch or loop that only some threads take, and dispatch whole SIMD-groups",
        ),
        _ => (
            FindingCode::TileOperation,
            "here",
            "bind tensors that have the element type, rank and extents that the kernel declares",
        ),
    };
    let p = thread;
    let is_null = matches!(kind, FaultKind::TensorIndex { extents, .. } if extents.iter().all(|&extent| extent == 0));
    Finding {
        code,
        kernel: kernel.to_string(),
        message: if is_null {
            format!("{kind}; a null tensor has extents of 0")
        } else {
            kind.to_string()
        },
        spot: Spot::new(locations, location, label),
        related: Vec::new(),
        notes: vec![format!(
            "thread ({}, {}, {}) of the grid, index {} in threadgroup ({}, {}, {}); the dispatch ends here",
            p.grid[0], p.grid[1], p.grid[2], p.index, p.threadgroup[0], p.threadgroup[1], p.threadgroup[2]
        )],
        help: help.to_string(),
        count: 1,
    }
}
