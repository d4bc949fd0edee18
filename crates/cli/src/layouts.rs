//! S0402: does a kernel's result depend on where cooperative tensors hold their elements?

use anymetal::ir::{Op, Spot};
use anymetal::{ExecutionOptions, Finding, FindingCode, FunctionConstants, Library, Pipeline};

use crate::binding::Bound;
use crate::testing::compare::compare;
use crate::testing::header::Tolerance;

/// Slot accesses that a finding names.
const MOST_PLACES: usize = 4;

/// Runs a kernel with the layout of known devices and with another legal one, by `run`, and compares all arguments. Kernels
/// whose slots the compiler turned into loops over elements do not let the layout show and are not run.
pub fn compare_layouts(
    library: &Library,
    (name, constants): (&str, &FunctionConstants),
    execution: &ExecutionOptions,
    run: &dyn Fn(&Pipeline) -> Result<Bound, String>,
) -> Result<Option<Finding>, String> {
    let kernel = library.kernel(name, constants).map_err(|error| error.to_string())?;
    let mut places = Vec::new();
    kernel.body.for_each_inst(&mut |inst| {
        if matches!(inst.op, Op::CoopGet { .. } | Op::CoopSet { .. }) {
            let spot = Spot::new(&kernel.locations, inst.location, "this addresses a slot");
            if places.len() < MOST_PLACES && !places.iter().any(|known: &Spot| known.point() == spot.point()) {
                places.push(spot);
            }
        }
    });
    let Some(first) = places.first().cloned() else {
        return Ok(None);
    };
    let finding = |message: String| {
        Finding {
        code: FindingCode::LayoutDependence,
        kernel: name.to_string(),
        message,
        spot: first.clone(),
        related: places[1..].to_vec(),
        notes: vec!["which slot of which thread holds an element depends on the device".to_string()],
        help: "ask `get_multidimensional_index(i)` which element a slot holds, and combine elements by `reduce_rows`, `map_iterator` \
               or through memory, not by the numbers of slots and lanes"
            .to_string(),
        count: 1,
    }
    };
    let mut execution = execution.clone().with_deterministic(true);
    execution.sanitize = None;
    let outcome = |permuted: bool| {
        let options = execution.clone().with_permuted_layout(permuted);
        let pipeline = library
            .pipeline_with(name, constants, &options)
            .map_err(|error| error.to_string())?;
        run(&pipeline)
    };
    // What goes wrong with the usual layout is not a matter of layouts.
    let Ok(usual) = outcome(false) else { return Ok(None) };
    let other = match outcome(true) {
        Ok(other) => other,
        Err(error) => {
            let message = format!("under another legal layout of cooperative tensors the kernel fails: {error}");
            return Ok(Some(finding(message)));
        }
    };
    let mut indices: Vec<usize> = usual.initial.keys().copied().collect();
    indices.sort_unstable();
    for index in indices {
        let (Some(usual), Some(other)) = (usual.read(index), other.read(index)) else {
            continue;
        };
        let difference = compare(
            &other.elements,
            &usual.elements,
            usual.format,
            Tolerance::of(usual.format),
        );
        if let Some((element, with_other, with_usual)) = difference.first {
            return Ok(Some(finding(format!(
                "argument {index} depends on the layout of cooperative tensors: element {element} is {with_usual} with the layout of \
                 known devices and {with_other} with another legal one ({} of {} elements differ)",
                difference.wrong, difference.count
            ))));
        }
    }
    Ok(None)
}
