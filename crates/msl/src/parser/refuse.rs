//! What is refused by name: constructs of C++ that Metal does not have, and parts of Metal outside compute on buffers and
//! tensors.

use std::collections::BTreeSet;

use super::PResult;
use crate::diagnostics::Diagnostic;
use crate::options::MetalStd;
use crate::source::Span;

/// An error with a fixed code for something that is not supported.
fn refusal(what: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0310", format!("{what} not supported"), span).label("used here")
}

/// The error for something that is not supported: `what` ends in a verb (`textures are`).
pub(super) fn unsupported(what: &str, span: Span) -> Box<Diagnostic> {
    Box::new(refusal(what, span))
}

/// As [`unsupported`], with what to do instead.
pub(super) fn unsupported_help(what: &str, span: Span, help: &str) -> Box<Diagnostic> {
    Box::new(refusal(what, span).help(help))
}

/// Refuses a keyword that starts nothing this compiler accepts.
pub(super) fn keyword(word: &str, span: Span) -> PResult<()> {
    let not_metal = "Metal does not have it";
    let d = match word {
        "goto" => refusal("'goto' is", span)
            .note(not_metal)
            .help("use a loop with 'break' or 'continue'"),
        "try" | "catch" | "throw" => refusal("exceptions are", span).note(not_metal),
        "virtual" => refusal("virtual functions are", span)
            .note(not_metal)
            .help("use a template parameter for the type"),
        "new" | "delete" => refusal(&format!("'{word}' is"), span)
            .note(not_metal)
            .help("memory comes from buffers and threadgroup arrays"),
        "asm" | "__asm" | "__asm__" => refusal("inline assembly is", span),
        "dynamic_cast" | "typeid" => refusal("run-time type information is", span).note(not_metal),
        "thread_local" => refusal("'thread_local' is", span).note(not_metal),
        "concept" | "requires" => refusal("concepts are", span)
            .note("Metal is based on C++17")
            .help("use enable_if_t or static_assert"),
        "co_await" | "co_return" | "co_yield" => refusal("coroutines are", span).note(not_metal),
        "import" | "export" | "module" => refusal("modules are", span).note(not_metal),
        "register" => refusal("'register' is", span).note(not_metal),
        "vertex" | "fragment" => refusal(&format!("{word} functions are"), span)
            .note("anymetal runs compute kernels: functions marked 'kernel'"),
        _ => return Ok(()),
    };
    Err(Box::new(d))
}

/// Refuses a stage attribute: `[[vertex]]`, `[[mesh]]`, `[[visible]]`, …
pub(super) fn attribute(name: &str, span: Span) -> PResult<()> {
    let d = match name {
        "vertex" | "fragment" | "mesh" | "object" | "patch" | "tile" => {
            refusal(&format!("'[[{name}]]' functions are"), span)
        }
        "intersection" | "visible" | "stitchable" => refusal(&format!("'[[{name}]]' functions are"), span),
        "texture"
        | "sampler"
        | "color"
        | "stage_in"
        | "vertex_id"
        | "instance_id"
        | "position"
        | "imageblock_data"
        | "point_coord"
        | "front_facing"
        | "render_target_array_index"
        | "viewport_array_index" => refusal(&format!("the attribute '[[{name}]]' is"), span),
        _ => return Ok(()),
    };
    Err(Box::new(d.note("anymetal runs compute kernels on buffers and tensors")))
}

/// Refuses a type of the library outside compute on buffers and tensors.
pub(super) fn type_name(name: &str, span: Span) -> PResult<()> {
    let prefixes = [
        "texture1d",
        "texture2d",
        "texture3d",
        "texturecube",
        "texture_buffer",
        "depth2d",
        "depthcube",
    ];
    let what = if prefixes.iter().any(|p| name.starts_with(p)) {
        "textures are"
    } else {
        match name {
            "sampler" => "samplers are",
            "ray"
            | "ray_data"
            | "intersector"
            | "intersection_query"
            | "intersection_result"
            | "acceleration_structure"
            | "primitive_acceleration_structure"
            | "instance_acceleration_structure"
            | "intersection_function_table"
            | "intersection_params" => "ray tracing types are",
            "visible_function_table" => "function tables are",
            "imageblock" => "image blocks are",
            "interpolant" => "interpolants are",
            "command_buffer" | "render_command" | "compute_command" => "indirect command buffers are",
            "mesh_grid_properties" | "mesh" => "mesh functions are",
            "patch_control_point" => "tessellation is",
            _ => return Ok(()),
        }
    };
    Err(Box::new(
        refusal(&format!("'{name}': {what}"), span)
            .note("anymetal runs compute kernels on buffers and tensors")
            .help("pass the data as a buffer or a tensor"),
    ))
}

/// Which parts of the library the source may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Available {
    std: MetalStd,
    tensor: bool,
    tensor_ops: bool,
}

impl Available {
    /// By language version and included headers.
    pub(crate) fn new(std: MetalStd, headers: &BTreeSet<String>) -> Self {
        Available {
            std,
            tensor: headers.contains("metal_tensor"),
            tensor_ops: headers.contains("MetalPerformancePrimitives"),
        }
    }

    /// Refuses a name of the tensor headers that the source did not include, or that its language version does not have.
    pub(super) fn check(&self, name: &str, span: Span) -> PResult<()> {
        let (included, header) = match name {
            "tensor"
            | "extents"
            | "dextents"
            | "tensor_blockwise"
            | "tensor_inline"
            | "tensor_handle"
            | "tensor_offset"
            | "tensor_plane_scales"
            | "dynamic_extent" => (self.tensor, "metal_tensor"),
            "matmul2d" | "convolution2d" | "reduce_rows" | "reduce_columns" => (
                self.tensor_ops,
                "MetalPerformancePrimitives/MetalPerformancePrimitives.h",
            ),
            _ => return Ok(()),
        };
        if self.std < MetalStd::Metal4_0 {
            return Err(Box::new(
                Diagnostic::error("E0312", format!("'{name}' needs Metal 4"), span)
                    .label("used here")
                    .note(format!("this source is compiled with -std={}", self.std))
                    .help("compile with -std=metal4.0 or later"),
            ));
        }
        if included {
            return Ok(());
        }
        Err(Box::new(
            Diagnostic::error(
                "E0311",
                format!("'{name}' is declared in a header that is not included"),
                span,
            )
            .label("used here")
            .help(format!("add '#include <{header}>'")),
        ))
    }
}
