//! Kernels of one `matmul2d` each, written from a description, and what they must give: sums in `f64` over decoded elements.

use std::fmt::Write as _;

use anymetal::{Buffer, CompileOptions, Device, ElementFormat, ExecutionOptions, FunctionConstants};

pub const HEADER: &str = "#include <metal_stdlib>\n#include <metal_tensor>\n\
    #include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>\n\
    using namespace metal;\nusing namespace mpp::tensor_ops;\n\
    using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;\n";

/// Where an operand lies when `run` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tensor argument.
    Handle,
    /// A slice of a tensor argument, from an origin that is not zero.
    Slice,
    /// An inline tensor over a buffer.
    Inline,
    Constant,
    Threadgroup,
    /// In an array of the thread's own.
    Thread,
    Cooperative,
}

/// How the descriptor says K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    Static(u32),
    Extent,
    Length,
    Zero,
}

/// One product: element types, descriptor, scope, operand kinds, and sizes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub formats: [ElementFormat; 3],
    pub transposed: [bool; 2],
    pub scaled: [bool; 2],
    pub kinds: [Kind; 3],
    /// SIMD-groups; 0 is `execution_thread`.
    pub scope: u32,
    /// M and N of the descriptor.
    pub tile: [u32; 2],
    pub inner: Inner,
    /// Rows, columns and K that there are.
    pub sizes: [usize; 3],
    pub accumulate: bool,
    pub relaxed: bool,
}

/// An operand as bytes, and what they mean.
pub struct Matrix {
    pub format: ElementFormat,
    /// Stored extents, dimension 0 first.
    pub extents: [usize; 2],
    pub codes: Vec<u64>,
    /// Codes of scales, one for each 32 elements along dimension 0.
    pub scales: Option<Vec<u8>>,
}

impl Matrix {
    pub fn value(&self, x: usize, y: usize) -> f64 {
        let value = self.format.decode(self.codes[y * self.extents[0] + x]);
        match &self.scales {
            Some(scales) => {
                let code = scales[y * self.extents[0].div_ceil(32) + x / 32];
                value * ElementFormat::Fp8UE8M0.decode(u64::from(code))
            }
            None => value,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let bits = self.format.bits();
        let mut out = vec![0u8; (self.codes.len() * bits).div_ceil(8)];
        for (i, &code) in self.codes.iter().enumerate() {
            for b in 0..bits {
                let at = i * bits + b;
                out[at / 8] |= ((code >> b & 1) as u8) << (at % 8);
            }
        }
        out
    }
}

/// A generator with a state; the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// In [−1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Random elements: floats in [−2, 2), formats and integers over all finite codes.
pub fn random_matrix(random: &mut Random, format: ElementFormat, extents: [usize; 2], scaled: bool) -> Matrix {
    let count = extents[0] * extents[1];
    let codes = (0..count).map(|_| random_code(random, format)).collect();
    let scales = scaled.then(|| {
        let count = extents[0].div_ceil(32) * extents[1];
        (0..count).map(|_| 122 + random.below(10) as u8).collect()
    });
    Matrix {
        format,
        extents,
        codes,
        scales,
    }
}

fn random_code(random: &mut Random, format: ElementFormat) -> u64 {
    if !format.is_format_type() && format.is_float() {
        return format.encode(2.0 * random.unit());
    }
    loop {
        let code = random.next() & ((1 << format.bits()) - 1);
        if format.decode(code).is_finite() {
            return code;
        }
    }
}

fn pointee(format: ElementFormat) -> &'static str {
    if format.is_format_type() {
        "uchar"
    } else {
        format.msl_name()
    }
}

/// The count of pointees that hold elements.
fn length(format: ElementFormat, extents: [usize; 2]) -> usize {
    let elements = extents[0] * extents[1];
    if format.is_format_type() {
        (elements * format.bits()).div_ceil(8)
    } else {
        elements
    }
}

impl Case {
    pub fn extents(&self) -> [[usize; 2]; 3] {
        let [m, n, k] = self.sizes;
        let flip = |transposed: bool, x: usize, y: usize| if transposed { [y, x] } else { [x, y] };
        [flip(self.transposed[0], k, m), flip(self.transposed[1], n, k), [n, m]]
    }

    fn is_scaled(&self, at: usize) -> bool {
        at < 2 && self.scaled[at]
    }

    /// How many elements a slice starts past the beginning, in each dimension. K stays at a block's beginning.
    fn origin(&self, at: usize) -> [usize; 2] {
        let k_first = at == 0 && !self.transposed[0] || at == 1 && self.transposed[1];
        match (self.kinds[at], k_first) {
            (Kind::Slice, true) => [32, 3],
            (Kind::Slice, false) => [8, 2],
            _ => [0, 0],
        }
    }

    /// Metal source of the kernel `product`. Buffers: operands at 0 to 2, scales at 3 and 4.
    pub fn source(&self) -> String {
        let names = ["left", "right", "product"];
        let mut parameters = Vec::new();
        let mut body = String::new();
        let mut after = String::new();
        let k = match self.inner {
            Inner::Static(k) => k.to_string(),
            Inner::Extent => "static_cast<int>(dynamic_extent)".to_string(),
            Inner::Length => "dynamic_length_v<int>".to_string(),
            Inner::Zero => "0".to_string(),
        };
        let mode = if self.accumulate {
            "multiply_accumulate"
        } else {
            "multiply"
        };
        let _ = writeln!(
            body,
            "    constexpr auto descriptor = matmul2d_descriptor({}, {}, {k}, {}, {}, {}, matmul2d_descriptor::mode::{mode});",
            self.tile[0], self.tile[1], self.transposed[0], self.transposed[1], self.relaxed
        );
        let scope = match self.scope {
            0 => "execution_thread".to_string(),
            1 => "execution_simdgroup".to_string(),
            n => format!("execution_simdgroups<{n}>"),
        };
        let _ = writeln!(body, "    matmul2d<descriptor, {scope}> op;");
        let mut operands: Vec<String> = Vec::new();
        for (at, name) in names.into_iter().enumerate() {
            let (format, kind) = (self.formats[at], self.kinds[at]);
            let extents = self.extents()[at];
            let ty = format.msl_name();
            let plane = if self.is_scaled(at) { ", scales" } else { "" };
            let [x, y] = extents;
            let own = self.scope == 0 && at == 2 && kind != Kind::Handle && kind != Kind::Slice;
            let offset = if own {
                format!(" + thread_number * {}", length(format, extents))
            } else {
                String::new()
            };
            match kind {
                Kind::Handle | Kind::Slice => {
                    parameters.push(format!(
                        "tensor<device {ty}, dextents<int, 2>, tensor_handle{plane}> {name} [[buffer({at})]]"
                    ));
                }
                _ => {
                    let space = if kind == Kind::Constant { "constant" } else { "device" };
                    parameters.push(format!("{space} {}* {name}_memory [[buffer({at})]]", pointee(format)));
                    if self.is_scaled(at) {
                        parameters.push(format!("device uchar* {name}_scales [[buffer({})]]", 3 + at));
                    }
                }
            }
            let inline = |space: &str, pointer: &str| {
                let (strides, plane) = if self.is_scaled(at) {
                    (
                        format!(", array<int, 2>({{1, {x}}}), scales({name}_scales)"),
                        ", scales",
                    )
                } else {
                    (String::new(), "")
                };
                format!(
                    "    tensor<{space} {ty}, dextents<int, 2>, tensor_inline{plane}> {name}({pointer}, \
                     dextents<int, 2>({x}, {y}){strides});\n"
                )
            };
            let operand = match kind {
                Kind::Handle => name.to_string(),
                Kind::Slice => {
                    let [ox, oy] = self.origin(at);
                    let _ = writeln!(body, "    auto {name}_tile = {name}.slice({ox}, {oy});");
                    format!("{name}_tile")
                }
                Kind::Inline => {
                    body.push_str(&inline("device", &format!("{name}_memory{offset}")));
                    name.to_string()
                }
                Kind::Constant => {
                    body.push_str(&inline("constant", &format!("{name}_memory")));
                    name.to_string()
                }
                Kind::Threadgroup | Kind::Thread => {
                    let count = length(format, extents);
                    let thread = kind == Kind::Thread;
                    let space = if thread { "thread" } else { "threadgroup" };
                    let (first, step) = if thread {
                        ("0", "1")
                    } else {
                        ("thread_number", "thread_count")
                    };
                    let qualifier = if thread { "" } else { "threadgroup " };
                    let pointee = pointee(format);
                    let _ = writeln!(body, "    {qualifier}{pointee} {name}_copy[{count}];");
                    let _ = writeln!(
                        body,
                        "    for (uint i = {first}; i < {count}; i += {step}) {name}_copy[i] = ({name}_memory{offset})[i];"
                    );
                    if !thread {
                        body.push_str("    threadgroup_barrier(mem_flags::mem_threadgroup);\n");
                    }
                    body.push_str(&inline(space, &format!("{name}_copy")));
                    if at == 2 {
                        if !thread {
                            after.push_str("    threadgroup_barrier(mem_flags::mem_threadgroup);\n");
                        }
                        let _ = writeln!(
                            after,
                            "    for (uint i = {first}; i < {count}; i += {step}) ({name}_memory{offset})[i] = {name}_copy[i];"
                        );
                    }
                    name.to_string()
                }
                Kind::Cooperative => {
                    body.push_str(&inline("device", &format!("{name}_memory")));
                    let obtain = match at {
                        0 | 1 => {
                            let [l, r, d] = self.formats.map(ElementFormat::msl_name);
                            format!("get_{name}_input_cooperative_tensor<{l}, {r}, {d}>()")
                        }
                        _ => {
                            let (l, r) = (&operands[0], &operands[1]);
                            format!(
                                "get_destination_cooperative_tensor<remove_addrspace_t<decltype({l})>, \
                                 remove_addrspace_t<decltype({r})>, {ty}>()"
                            )
                        }
                    };
                    let _ = writeln!(
                        body,
                        "    auto {name}_tile = op.{obtain};\n    {name}_tile.load({name});"
                    );
                    if at == 2 {
                        let _ = writeln!(after, "    {name}_tile.store({name});");
                    }
                    format!("{name}_tile")
                }
            };
            operands.push(operand);
        }
        let _ = writeln!(body, "    op.run({});", operands.join(", "));
        parameters.push("uint thread_number [[thread_index_in_threadgroup]]".to_string());
        parameters.push("uint3 threads [[threads_per_threadgroup]]".to_string());
        format!(
            "{HEADER}kernel void product({})\n{{\n    const uint thread_count = threads.x;\n{body}{after}}}\n",
            parameters.join(",\n    ")
        )
    }

    /// Operands and initial destination.
    pub fn data(&self, seed: u64) -> [Matrix; 3] {
        let mut random = Random(seed);
        let extents = self.extents();
        std::array::from_fn(|at| {
            let mut matrix = random_matrix(&mut random, self.formats[at], extents[at], self.is_scaled(at));
            if at == 2 && self.formats[2] != ElementFormat::I32 {
                matrix.codes = matrix
                    .codes
                    .iter()
                    .map(|_| self.formats[2].encode(random.unit()))
                    .collect();
            }
            matrix
        })
    }

    /// Runs the kernel; the destination's codes as it is left.
    pub fn run(&self, data: &[Matrix; 3], options: &ExecutionOptions) -> Result<Vec<u64>, String> {
        let text = |error: anymetal::Error| error.to_string();
        let device = Device::cpu();
        let library = device
            .new_library(&self.source(), "product.metal", &CompileOptions::default())
            .map_err(text)?;
        let pipeline = library
            .pipeline_with("product", &FunctionConstants::new(), options)
            .map_err(text)?;
        let mut encoder = device.new_queue().encoder();
        encoder.set_pipeline(&pipeline);
        let format = self.formats[2];
        let mut out: Option<(Buffer, usize)> = None;
        let mut tensors = Vec::new();
        let threads = if self.scope == 0 { 5 } else { 32 * self.scope as usize };
        for (at, matrix) in data.iter().enumerate() {
            let bytes = matrix.bytes();
            match self.kinds[at] {
                Kind::Handle | Kind::Slice => {
                    let tensor = self.bind(&device, at, matrix).map_err(text)?;
                    encoder.set_tensor(at as u32, &tensor);
                    tensors.push((at, tensor));
                }
                _ => {
                    // In the scope of a thread each has a destination of its own.
                    let copies = if self.scope == 0 && at == 2 { threads } else { 1 };
                    let buffer = device.new_buffer_with_bytes(&bytes.repeat(copies)).map_err(text)?;
                    encoder.set_buffer(at as u32, &buffer, 0);
                    if let Some(scales) = &matrix.scales {
                        let scales = device.new_buffer_with_bytes(scales).map_err(text)?;
                        encoder.set_buffer(3 + at as u32, &scales, 0);
                    }
                    if at == 2 {
                        out = Some((buffer, copies));
                    }
                }
            }
        }
        encoder.dispatch_threadgroups(1, threads).map_err(text)?;
        encoder.run().map_err(text)?;
        let wide = format.bits() / 8;
        let decode = |bytes: &[u8]| -> Vec<u64> {
            let code = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
            bytes.chunks_exact(wide).map(code).collect()
        };
        match out {
            Some((buffer, copies)) => {
                let all = decode(&buffer.to_vec::<u8>().map_err(text)?);
                let one = all.len() / copies;
                for copy in all.chunks_exact(one) {
                    if copy != &all[..one] {
                        return Err("threads got different products".to_string());
                    }
                }
                Ok(all[..one].to_vec())
            }
            None => {
                let (_, tensor) = tensors.iter().find(|(at, _)| *at == 2).ok_or("no destination")?;
                let all = decode(&tensor.read_plane(anymetal::PlaneType::Data).map_err(text)?);
                let [ox, oy] = self.origin(2);
                let [x, y] = self.extents()[2];
                let row = tensor.dimensions()[0];
                Ok((0..y).flat_map(|j| all[(j + oy) * row + ox..][..x].to_vec()).collect())
            }
        }
    }

    /// A tensor with an operand at the origin of its slice.
    fn bind(&self, device: &Device, at: usize, matrix: &Matrix) -> anymetal::Result<anymetal::Tensor> {
        use anymetal::{AuxiliaryPlaneDescriptor, PlaneType, TensorDescriptor};
        let [ox, oy] = self.origin(at);
        let [x, y] = matrix.extents;
        // The host asks for a multiple of 32 elements of format types; what is past the operand is cut off by the extents.
        let whole = [ox + x, oy + y];
        let mut descriptor = TensorDescriptor::new(whole, matrix.format);
        if matrix.scales.is_some() {
            descriptor = descriptor.with_plane(PlaneType::Scales, AuxiliaryPlaneDescriptor::new());
        }
        let tensor = device.new_tensor(&descriptor)?;
        let fill = matrix.format.encode(1.0);
        let mut codes = vec![fill; whole[0] * whole[1]];
        for j in 0..y {
            codes[(j + oy) * whole[0] + ox..][..x].copy_from_slice(&matrix.codes[j * x..][..x]);
        }
        let all = Matrix {
            format: matrix.format,
            extents: whole,
            codes,
            scales: None,
        };
        tensor.write_plane(PlaneType::Data, &all.bytes())?;
        if let Some(scales) = &matrix.scales {
            let (row, from) = (whole[0].div_ceil(32), x.div_ceil(32));
            let mut all = vec![127u8; row * whole[1]];
            for j in 0..y {
                all[(j + oy) * row + ox / 32..][..from].copy_from_slice(&scales[j * from..][..from]);
            }
            tensor.write_plane(PlaneType::Scales, &all)?;
        }
        Ok(tensor)
    }

    /// Compares with sums in `f64`; the first element that differs by more than rounding explains.
    pub fn compare(&self, data: &[Matrix; 3], got: &[u64]) -> Result<(), String> {
        let [m, n, k] = self.sizes;
        let format = self.formats[2];
        let element = |matrix: &Matrix, at: usize, row: usize, column: usize| {
            if self.transposed[at] {
                matrix.value(row, column)
            } else {
                matrix.value(column, row)
            }
        };
        for row in 0..m {
            for column in 0..n {
                let initial = format.decode(data[2].codes[row * n + column]);
                let products = (0..k).map(|i| element(&data[0], 0, row, i) * element(&data[1], 1, i, column));
                let (mut sum, mut size) = if self.accumulate {
                    (initial, initial.abs())
                } else {
                    (0.0, 0.0)
                };
                for product in products {
                    sum += product;
                    size += product.abs();
                }
                let found = format.decode(got[row * n + column]);
                let fine = if !sum.is_finite() {
                    found.is_nan() && sum.is_nan() || found == sum
                } else if format == ElementFormat::I32 {
                    found == f64::from(sum.rem_euclid(4_294_967_296.0) as u32 as i32)
                } else {
                    let rounding = match format {
                        ElementFormat::F16 => 2f64.powi(-11) * sum.abs() + 2f64.powi(-25),
                        ElementFormat::BF16 => 2f64.powi(-8) * sum.abs(),
                        _ => 0.0,
                    };
                    // Relaxed floats are rounded to a 16-bit partner's format, or to 16 significant bits.
                    let partner = |format| self.formats[..2].contains(&format);
                    let relaxed = match self.relaxed && partner(ElementFormat::F32) {
                        false => 0.0,
                        true if partner(ElementFormat::BF16) => 2f64.powi(-8),
                        true => 2f64.powi(-15),
                    };
                    let wide = ((k as f64 + 1.0) * 2f64.powi(-24) + relaxed) * size + 1e-40;
                    // What a format cannot hold is infinite.
                    let over = found.is_infinite() && sum.abs() > 65519.0 && format == ElementFormat::F16;
                    over || (found - sum).abs() <= rounding + wide
                };
                if !fine {
                    return Err(format!("row {row}, column {column}: {found}, not {sum}"));
                }
            }
        }
        Ok(())
    }

    /// All of it; panics with the kernel where something is wrong.
    pub fn check(&self, seed: u64, options: &ExecutionOptions) {
        let data = self.data(seed);
        let outcome = self.run(&data, options).and_then(|got| self.compare(&data, &got));
        if let Err(why) = outcome {
            panic!("{self:?} with {options:?}:\n{why}\n{}", self.source());
        }
    }
}
