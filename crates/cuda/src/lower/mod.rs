//! IR to PTX. [`Lower`] is the state of one compilation; every file here is one kind of operation.
//!
//! A SIMD-group is a warp, a threadgroup a block. The kernel's structured control flow becomes branches and labels; values and locals
//! become registers (see [`Class`] for which); cooperative tensors become registers in the order of `mma` fragments ([`coop`]).

mod atomic;
mod builtin;
mod check;
mod clamp;
mod coarse;
mod control;
mod convert;
mod coop;
mod division;
mod early;
mod float;
mod math;
mod math_wide;
mod memory;
mod merged;
mod product;
mod scalar;
mod simd;
mod staged;
mod trigonometry;
mod view;

use std::collections::HashMap;

use anymetal_ir::passes::{Effects, UniformityInfo};
use anymetal_ir::{
    AddressSpace, ArgumentId, Block, Const, Inst, Kernel, LocalId, LocationId, MemoryId, Op, Type, ValueId,
};

use crate::abi::ParameterBlock;
use crate::error::CompileError;
use crate::options::{PtxModule, PtxOptions};
use crate::ptx;
use crate::ptx::{Class, Reg, Writer};

/// The result of lowering a piece.
pub(crate) type Result<T = ()> = std::result::Result<T, CompileError>;

/// Bytes of shared memory that a block can have on the chips that are supported (sm_90; others have less and say so at launch).
const MAX_SHARED: u64 = 227 * 1024;
/// Bytes of a row that a thread keeps beside everything else in 32 registers.
const FEW_BYTES: u32 = 32;

/// Registers that are set at the kernel's entry and never change.
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    /// Linear index of the hardware thread in the block, `%tid.x`.
    pub hardware_thread: Reg,
    /// Hardware lane, `%tid.x & 31`.
    pub hardware_lane: Reg,
    /// Lane as the kernel sees it.
    pub lane: Reg,
    /// Linear index of the thread in the threadgroup as the kernel sees it.
    pub thread: Reg,
    /// Index of the SIMD-group in the threadgroup.
    pub simdgroup: Reg,
    /// `hardware_lane >> 2`: the row in an `mma` fragment.
    pub fragment_row: Reg,
    /// `hardware_lane & 3`: the pair of columns in an `mma` fragment.
    pub fragment_pair: Reg,
}

/// How columns of a 16-column block are held by fragments, for the whole kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColumnMap {
    /// Register (nb, i) of lane pair t holds column 8·nb + 2·t + i.
    Natural,
    /// Register (2·cb + j, i) holds column 16·cb + 4·t + 2·j + i: slots are layout R's as the kernel may see them.
    R,
}

/// The state of one compilation.
pub(crate) struct Lower<'k> {
    pub kernel: &'k Kernel,
    pub options: &'k PtxOptions,
    pub effects: Effects,
    pub uniformity: UniformityInfo,
    pub parameters: ParameterBlock,
    pub writer: Writer,
    pub geometry: Geometry,
    /// The kernel can see lanes and slots together: hardware lanes are permuted against the kernel's.
    pub permuted_lanes: bool,
    pub column_map: ColumnMap,
    /// The location of the instruction that is being lowered.
    pub location: LocationId,
    /// Bytes of the staging area at the start of shared memory that operations asked for (the largest request).
    pub staging_bytes: u32,
    /// Bytes of workspace in device memory that each block needs.
    pub workspace_bytes: u32,
    pub hidden_threads: u32,
    /// Blocks that registers shall allow on a multiprocessor at once; 0 leaves it to the assembler.
    pub min_blocks: u32,
    /// Bytes that a thread keeps of a row.
    kept: Option<u32>,
    /// Some product is of fused multiply-adds.
    pub multiply_adds: bool,
    /// See [`PtxModule::coarse_shift`].
    pub coarse_shift: u32,
    /// Widened copies of arguments that operations can use.
    pub images: Vec<crate::options::ImageRequest>,
    /// The pointers of arguments that were asked for.
    argument_pointers: HashMap<Reg, ArgumentId>,
    /// The kernel waits for the launch in front of it.
    waits: bool,
    /// It has not waited yet; see [`early`].
    wait_pending: bool,
    /// Arguments that are read before that.
    early_reads: Vec<ArgumentId>,
    values: Vec<Option<Reg>>,
    constants: Vec<Option<Const>>,
    locals: Vec<Reg>,
    pub control: control::ControlState,
    pub launch: builtin::Launch,
    pub forms: memory::AddressForms,
    /// 16-bit values that were loaded as half of a word: the word, and whether it is the upper half.
    half_words: std::collections::HashMap<Reg, (Reg, bool)>,
    pub coops: coop::CoopState,
    pub handles: view::Handles,
    merged: merged::MergedState<'k>,
    /// Clamps that are not made.
    index_clamps: std::collections::HashSet<ValueId>,
    /// Declarations outside the entry (constant tables, …).
    pub module_declarations: String,
    /// Declarations at the head of the entry (`.local` arrays, …).
    pub entry_declarations: String,
}

/// Lowers a prepared kernel; `kept` are the bytes that its threads keep of a row.
pub(crate) fn lower(kernel: &Kernel, options: &PtxOptions, kept: Option<u32>) -> Result<PtxModule> {
    let effects = Effects::of(kernel);
    let uniformity = UniformityInfo::with_effects(kernel, &effects);
    let mut writer = Writer::default();
    let locals = kernel.locals.iter().map(|l| writer.reg(Class::of(l.ty))).collect();
    let geometry = Geometry {
        hardware_thread: writer.reg(Class::B32),
        hardware_lane: writer.reg(Class::B32),
        lane: writer.reg(Class::B32),
        thread: writer.reg(Class::B32),
        simdgroup: writer.reg(Class::B32),
        fragment_row: writer.reg(Class::B32),
        fragment_pair: writer.reg(Class::B32),
    };
    let mut lower = Lower {
        kernel,
        options,
        effects,
        uniformity,
        parameters: ParameterBlock::of(kernel),
        writer,
        geometry,
        permuted_lanes: coop::slots_are_visible(kernel),
        column_map: ColumnMap::Natural,
        location: LocationId::default(),
        staging_bytes: 0,
        workspace_bytes: 0,
        hidden_threads: 0,
        min_blocks: 0,
        kept,
        multiply_adds: false,
        coarse_shift: 0,
        images: Vec::new(),
        argument_pointers: HashMap::new(),
        waits: false,
        wait_pending: false,
        early_reads: Vec::new(),
        values: vec![None; kernel.values.len()],
        constants: vec![None; kernel.values.len()],
        locals,
        control: control::ControlState::default(),
        launch: builtin::Launch::default(),
        forms: memory::AddressForms::default(),
        half_words: Default::default(),
        coops: coop::CoopState::default(),
        handles: view::Handles::default(),
        merged: merged::MergedState::default(),
        index_clamps: if options.checked {
            Default::default()
        } else {
            clamp::index_clamps(kernel)
        },
        module_declarations: String::new(),
        entry_declarations: String::new(),
    };
    lower.column_map = coop::column_map(kernel);
    lower.declare_memory()?;
    let coarse = if options.checked {
        None
    } else {
        coarse::plan(kernel, &lower.effects, options.unaliased)
    };
    lower.coarse_shift = coarse.as_ref().map_or(0, |plan| plan.shift);
    match coarse {
        Some(_) => lower.coarse_prologue(),
        None => lower.prologue(),
    }
    lower.prepare_coops()?;
    match coarse {
        Some(plan) => lower.coarse_body(&plan)?,
        None => lower.block(&kernel.body)?,
    }
    ptx!(lower, "ret");
    lower.finish()
}

impl<'k> Lower<'k> {
    /// A refusal at the current instruction.
    pub fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(CompileError::Unsupported {
            what: what.into(),
            location: self.kernel.locations.describe(self.location),
        })
    }

    /// A new register.
    pub fn reg(&mut self, class: Class) -> Reg {
        self.writer.reg(class)
    }

    /// The register of a value that was defined.
    pub fn value(&self, value: ValueId) -> Reg {
        self.values[value.index()].expect("the verifier saw the definition before the use")
    }

    /// The bits of a value that is a constant.
    pub fn constant(&self, value: ValueId) -> Option<u64> {
        self.constants[value.index()].map(|c| c.bits)
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> Type {
        self.kernel.ty(value)
    }

    /// A new register for a result.
    pub fn define(&mut self, value: ValueId) -> Reg {
        let reg = self.writer.reg(Class::of(self.kernel.ty(value)));
        self.values[value.index()] = Some(reg);
        reg
    }

    /// Lets a value be an existing register, which must not change as long as the value lives.
    pub fn bind(&mut self, value: ValueId, reg: Reg) {
        self.values[value.index()] = Some(reg);
    }

    /// The register of a local.
    pub fn local(&self, local: LocalId) -> Reg {
        self.locals[local.index()]
    }

    /// Lets a local be another register for a while.
    pub fn replace_local(&mut self, local: LocalId, reg: Reg) {
        self.locals[local.index()] = reg;
    }

    /// The register of a value, if its definition was lowered.
    pub fn value_if_defined(&self, value: ValueId) -> Option<Reg> {
        self.values[value.index()]
    }

    /// `mov` into a new register of the same class.
    pub fn copy(&mut self, from: Reg) -> Reg {
        let to = self.reg(from.class);
        ptx!(self, "mov.{} {to}, {from}", from.class.ptx());
        to
    }

    /// A `.b32` register with a number.
    pub fn u32(&mut self, number: u32) -> Reg {
        let to = self.reg(Class::B32);
        ptx!(self, "mov.b32 {to}, {number}");
        to
    }

    /// A `.b64` register with a number.
    pub fn i64(&mut self, number: i64) -> Reg {
        let to = self.reg(Class::B64);
        ptx!(self, "mov.b64 {to}, {number}");
        to
    }

    /// Loads a field of the parameter block.
    pub fn parameter(&mut self, class: Class, offset: u32) -> Reg {
        let to = self.reg(class);
        ptx!(self, "ld.param.{} {to}, [args+{offset}]", class.ptx());
        to
    }

    /// Asks for bytes of the staging area, which operations share one after another. Returns its offset in shared memory: 0.
    pub fn stage(&mut self, bytes: u32) -> u32 {
        self.staging_bytes = self.staging_bytes.max(bytes);
        0
    }

    /// Lowers a block.
    pub fn block(&mut self, block: &'k Block) -> Result {
        for inst in &block.insts {
            self.location = inst.location;
            self.inst(inst)?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &'k Inst) -> Result {
        if self.merged_inst(inst)? {
            return Ok(());
        }
        let first = inst.first;
        match &inst.op {
            Op::Const(c) => {
                self.constants[first.index()] = Some(*c);
                self.const_(first, *c)
            }
            Op::Builtin(b) => self.builtin(first, *b),
            Op::Unary { op, operand, mode } => self.unary(first, *op, *operand, *mode),
            Op::Binary { lhs, .. } if self.index_clamps.contains(&first) => {
                self.alias(first, *lhs);
                Ok(())
            }
            Op::Binary { op, lhs, rhs, mode } => self.binary(first, *op, *lhs, *rhs, *mode),
            Op::Ternary { op, a, b, c, mode } => self.ternary(first, *op, [*a, *b, *c], *mode),
            Op::Compare { op, lhs, rhs } => self.compare(first, *op, *lhs, *rhs),
            Op::Select {
                condition,
                then,
                otherwise,
            } => self.select(first, *condition, *then, *otherwise),
            Op::Convert { operand, to, saturate } => self.convert(first, *operand, *to, *saturate),
            Op::Bitcast { operand, to } => self.bitcast(first, *operand, *to),
            Op::Decode { operand, format } => self.decode(first, *operand, *format),
            Op::Encode {
                operand,
                format,
                saturate,
            } => self.encode(first, *operand, *format, *saturate),
            Op::Frexp { operand } => self.frexp(inst, *operand),
            Op::Modf { operand } => self.modf(inst, *operand),
            Op::LocalGet(local) => {
                let from = self.local(*local);
                let to = self.copy(from);
                self.bind(first, to);
                Ok(())
            }
            Op::LocalSet { local, value } => {
                let (to, from) = (self.local(*local), self.value(*value));
                ptx!(self, "mov.{} {to}, {from}", to.class.ptx());
                Ok(())
            }
            Op::MemoryPointer(id) => self.memory_pointer(first, *id),
            Op::ArgumentPointer(id) => self.argument_pointer(first, *id),
            Op::ArgumentTensor(id) => self.argument_tensor(first, *id),
            Op::TensorQuery { handle, spec, field } => self.tensor_query(first, *handle, spec, *field),
            Op::NullPointer(space) => self.null_pointer(first, *space),
            Op::PointerOffset { pointer, offset } => self.pointer_offset(first, *pointer, *offset),
            Op::PointerDiff { lhs, rhs } => self.pointer_diff(first, *lhs, *rhs),
            Op::Load {
                pointer,
                ty,
                count,
                align,
            } => self.load(inst, *pointer, *ty, *count, *align),
            Op::Store { pointer, values, align } => self.store(*pointer, values, *align),
            Op::Atomic {
                op,
                pointer,
                values,
                ty,
            } => self.atomic(inst, *op, *pointer, values, *ty),
            Op::TensorLoad {
                tensor,
                indices,
                bounds,
            } => self.tensor_load(first, tensor, indices, *bounds),
            Op::TensorStore {
                tensor,
                indices,
                value,
                bounds,
            } => self.tensor_store(tensor, indices, *value, *bounds),
            Op::TensorElementPointer { tensor, indices } => self.tensor_element_pointer(first, tensor, indices),
            Op::Barrier { scope, flags } => self.barrier(*scope, *flags),
            Op::Fence(flags) => self.fence(*flags),
            Op::Group { op, width, operand } => self.group(first, *op, *width, *operand),
            Op::Shuffle {
                op,
                width,
                operand,
                index,
            } => self.shuffle(first, *op, *width, *operand, *index),
            Op::Vote { op, width, operand } => self.vote(first, *op, *width, *operand),
            Op::SimdgroupMatrixMultiply { a, b, c, ty } => self.simdgroup_matrix(inst, *a, *b, *c, *ty),
            Op::CoopInit(_)
            | Op::CoopCopy { .. }
            | Op::CoopGet { .. }
            | Op::CoopSet { .. }
            | Op::CoopValid { .. }
            | Op::CoopIndex { .. }
            | Op::CoopMapSlot { .. }
            | Op::CoopLoad { .. }
            | Op::CoopStore { .. }
            | Op::CoopConvert { .. }
            | Op::CoopCompatible { .. }
            | Op::CoopIteratorCompatible { .. }
            | Op::CoopReduce { .. }
            | Op::CoopMap { .. }
            | Op::CoopElement(_)
            | Op::CoopElementSet { .. }
            | Op::CoopElementIndex => self.cooperative(inst),
            Op::Matmul {
                descriptor,
                simdgroups,
                left,
                right,
                destination,
            } => {
                if self.few_rows_matmul(descriptor, *simdgroups, left, right, destination)? {
                    return Ok(());
                }
                self.wait_for_predecessor();
                self.has_waited();
                if self.staged_matmul(descriptor, *simdgroups, left, right, destination)? {
                    return Ok(());
                }
                self.matmul(descriptor, *simdgroups, left, right, destination)
            }
            Op::Convolution {
                descriptor,
                simdgroups,
                offsets,
                activation,
                weights,
                destination,
            } => self.convolution(descriptor, *simdgroups, *offsets, activation, weights, destination),
            // What is known takes no branch.
            Op::If {
                condition,
                then,
                otherwise,
            } if self.constant(*condition).is_some() => {
                let taken = if self.constant(*condition) == Some(0) {
                    otherwise
                } else {
                    then
                };
                self.block(taken)
            }
            Op::If {
                condition,
                then,
                otherwise,
            } => self.if_(*condition, then, otherwise),
            Op::Loop { body, latch, unroll } => self.merged_or_plain_loop(body, latch, *unroll),
            Op::Scope { body } => self.scope(body),
            Op::Break(depth) => self.break_(*depth),
            Op::Continue(depth) => self.continue_(*depth),
            Op::Return => self.return_(),
        }
    }

    /// The kernel's text, once everything is lowered.
    fn finish(self) -> Result<PtxModule> {
        // A dispatch has exactly as many SIMD-groups as an operation of all of them says; registers are dealt out accordingly.
        let required = self
            .kernel
            .required_simdgroups
            .iter()
            .map(|&(groups, _)| groups.saturating_mul(32))
            .min();
        let threads = self
            .kernel
            .max_threads
            .unwrap_or(1024)
            .min(required.unwrap_or(1024))
            .min(self.options.threads)
            .clamp(1, 1024);
        let shared = u64::from(self.staging_bytes.next_multiple_of(128)) + self.threadgroup_bytes();
        if shared > MAX_SHARED {
            return Err(CompileError::Unsupported {
                what: format!("{shared} bytes of shared memory (at most {MAX_SHARED})"),
                location: self.kernel.name.clone(),
            });
        }
        let (major, minor) = self.options.target.ptx_version();
        let entry = entry_name(&self.kernel.name);
        let staging = self.staging_bytes.next_multiple_of(128);
        let mut text = format!(
            ".version {major}.{minor}\n.target {}\n.address_size 64\n\n.extern .shared .align 1024 .b8 smem[];\n{}\n",
            self.options.target, self.module_declarations
        );
        // Where the number of threads is known, the assembler spills less to make room for more of them. Products through shared memory
        // are made for the registers that they get without knowing it.
        let known = required == Some(threads) || self.options.whole && self.options.threads == threads;
        let exact = known && self.staging_bytes == 0;
        // Threads that keep little of a row fit all at once, and hide each other's reductions.
        let min_blocks = match self.kept {
            Some(0..=FEW_BYTES) if self.min_blocks == 0 => self.options.target.threads() / threads,
            _ => self.min_blocks,
        };
        text.push_str(&format!(
            ".visible .entry {entry}(\n\t.param .align 64 .b8 args[{}]\n)\n.{} {}\n{}{{\n{}",
            self.parameters.size,
            if exact { "reqntid" } else { "maxntid" },
            threads.next_multiple_of(32) + self.hidden_threads,
            match min_blocks {
                0 if self.staging_bytes == 0 && (exact && required.is_some() || self.needs_registers(exact)) => {
                    ".minnctapersm 1\n".to_string()
                }
                // Multiply-adds into a tile behind a staged product of four SIMD-groups need more than a third of all registers.
                0 if self.staging_bytes > 0
                    && self.multiply_adds
                    && threads == 128
                    && self.tile_registers_in_all() >= 32 =>
                    ".minnctapersm 2\n".to_string(),
                0 => String::new(),
                blocks => format!(".minnctapersm {blocks}\n"),
            },
            self.entry_declarations,
        ));
        // Where the kernel's own threadgroup objects begin is known only now.
        // Where the backend has warps of its own, they do not take part.
        let (barrier, apart) = match self.hidden_threads {
            0 => ("barrier.sync.aligned 0".to_string(), "barrier.sync 0".to_string()),
            _ => {
                let count = self.barrier_threads();
                (
                    format!("barrier.sync.aligned 0, {count}"),
                    format!("barrier.sync 0, {count}"),
                )
            }
        };
        text.push_str(
            &self
                .writer
                .finish()
                .replace(OBJECTS_BASE, &staging.to_string())
                .replace(simd::BARRIER, &barrier)
                .replace(simd::BARRIER_APART, &apart),
        );
        text.push_str("}\n");
        Ok(PtxModule {
            text,
            entry,
            parameters: self.parameters,
            shared_bytes: shared as u32,
            workspace_bytes: self.workspace_bytes,
            images: self.images,
            max_threads: threads,
            hidden_threads: self.hidden_threads,
            coarse_shift: self.coarse_shift,
            waits: self.waits,
            early_reads: self.early_reads,
        })
    }

    /// Has so many registers of tiles that the assembler, which likes to have several threadgroups beside each other, would spill to get there. It
    /// does so sooner where it does not know how many threads there are.
    fn needs_registers(&self, exact: bool) -> bool {
        self.has_many_tile_registers() || !exact && self.tile_registers_in_all() >= 96
    }

    /// Bytes of the kernel's own threadgroup objects.
    fn threadgroup_bytes(&self) -> u64 {
        self.kernel.static_threadgroup_bytes()
    }

    /// The offset of a threadgroup object among the kernel's own.
    pub fn threadgroup_offset(&self, id: MemoryId) -> u64 {
        let mut at = 0u64;
        for (index, object) in self.kernel.memory.iter().enumerate() {
            if object.space != AddressSpace::Threadgroup {
                continue;
            }
            at = at.next_multiple_of(u64::from(object.align.max(1)));
            if index == id.index() {
                break;
            }
            at += object.size;
        }
        at
    }
}

/// Stands in the text for the offset of the kernel's own threadgroup objects in shared memory.
pub(crate) const OBJECTS_BASE: &str = "OBJECTS_BASE";

/// A PTX identifier for a kernel: letters, digits and `_`; everything else becomes `_`.
fn entry_name(name: &str) -> String {
    let mut entry = String::from("k_");
    entry.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    entry
}
