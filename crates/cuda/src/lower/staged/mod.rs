//! Products of a threadgroup through shared memory: a pipeline of stages that the tensor cores read.
//!
//! How a product is staged is decided when the kernel is compiled (shape, types, which dimension runs along memory). Whether it may be is decided when
//! it runs: copies want 16-byte addresses and pitches, and operands that exist at all. A uniform branch takes everything else to the general product.

mod bulk;
mod copied;
mod engine;
mod epilogue;
mod mma;
mod order;
mod plan;
mod select;
mod widened;

use anymetal_ir::{Extent, MatmulDescriptor, Operand, ScalePlane, TensorRef};

use self::engine::{Engine, Source};
use self::epilogue::{Output, Target};
use self::plan::{MAP_BYTES, Plan, Side};
use self::select::Feed;
use self::widened::{Packed, Scales, UNIT};
use super::{Lower, Result};
use crate::abi;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Pitches and extents stay below this in tensor maps.
const PITCH_LIMIT: u64 = 1 << 40;
/// K at most, so that positions stay in 32 bits.
const DEPTH_LIMIT: u32 = 0x7fff_ff00;

impl Lower<'_> {
    /// Lowers the product if this path has it; false if not.
    pub fn staged_matmul(
        &mut self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        left: &Operand,
        right: &Operand,
        destination: &Operand,
    ) -> Result<bool> {
        let (Operand::Tensor(a), Operand::Tensor(b), Operand::Tensor(c)) = (left, right, destination) else {
            return Ok(false);
        };
        let Some((plan, feed, output)) = self.staged_plan(descriptor, simdgroups, [a, b, c]) else {
            return Ok(false);
        };
        let generic = self.writer.label();
        let end = self.writer.label();
        let source_a = self.staged_source(&plan, descriptor, Side::Left, a);
        let mut source_b = self.staged_source(&plan, descriptor, Side::Right, b);
        // Past the left operand's K nothing counts, whatever the right operand holds there.
        let depth = self.reg(Class::B32);
        ptx!(self, "min.s32 {depth}, {}, {}", source_a.depth, source_b.depth);
        source_b.depth = depth;
        let target = self.staged_target(descriptor, c, output);
        let fits = self.staged_fits(&source_a, &source_b, [a, b, c], &feed);
        ptx!(self, "@!{fits} bra {generic}");
        let workspace = matches!(feed, Feed::Bulk).then(|| self.staged_workspace());
        let scales = [a, b].map(|tensor| tensor.scales.as_ref().map(|plane| self.staged_scales(tensor, plane)));
        self.stage(plan.shared_bytes());
        let shared = self.reg(Class::B32);
        ptx!(self, "mov.u32 {shared}, smem");
        let warp = self.reg(Class::B32);
        ptx!(self, "shr.u32 {warp}, {}, 5", self.geometry.hardware_thread);
        // Through a shuffle, so that the assembler knows that it is the same in the warp.
        ptx!(self, "shfl.sync.idx.b32 {warp}, {warp}, 0, 31, 0xffffffff");
        let thread = self.geometry.hardware_thread;
        let mut engine = Engine {
            writer: &mut self.writer,
            plan,
            shared,
            thread,
            warp,
        };
        let sums = engine.sums();
        if descriptor.accumulate {
            engine.add_target(&target, &sums);
        }
        match (feed, workspace) {
            (Feed::Bulk, Some(workspace)) => engine.bulk(&source_a, &source_b, workspace, &sums),
            (Feed::Widened(packings), _) => {
                let packed = |index: usize, source: Source| Packed {
                    source,
                    packing: packings[index],
                    scales: scales[index],
                };
                engine.widened(&packed(0, source_a), &packed(1, source_b), &sums);
            }
            _ => engine.copied(&source_a, &source_b, &sums),
        }
        engine.store(&target, &sums);
        engine.barrier();
        ptx!(self, "bra.uni {end}");
        self.writer.place(generic);
        self.matmul(descriptor, simdgroups, left, right, destination)?;
        self.writer.place(end);
        Ok(true)
    }

    /// The address of the first element of a view whose dimension 0 has stride 1, and its pitch in bytes.
    fn staged_address(&mut self, tensor: &TensorRef) -> (Reg, Reg) {
        let bytes = tensor.format.bits() / 8;
        let (pitch, address) = (self.reg(Class::B64), self.reg(Class::B64));
        let [x, y] = [self.value(tensor.origin[0]), self.value(tensor.origin[1])];
        let (stride, pointer) = (self.value(tensor.strides[1]), self.value(tensor.pointer));
        ptx!(self, "mul.lo.s64 {pitch}, {stride}, {bytes}");
        ptx!(self, "mad.lo.s64 {address}, {y}, {pitch}, {pointer}");
        ptx!(self, "mad.lo.s64 {address}, {x}, {bytes}, {address}");
        (address, pitch)
    }

    /// What a dimension of a view has, at most `limit`; 0 or less where it lies outside.
    fn staged_extent(&mut self, tensor: &TensorRef, dimension: usize, limit: u32) -> Reg {
        let (rest, short) = (self.reg(Class::B64), self.reg(Class::B32));
        let (base, origin) = (
            self.value(tensor.base_extents[dimension]),
            self.value(tensor.origin[dimension]),
        );
        ptx!(self, "sub.s64 {rest}, {base}, {origin}");
        match tensor.extents[dimension] {
            Extent::Rest => {}
            Extent::Dynamic(value) => {
                let value = self.value(value);
                ptx!(self, "min.s64 {rest}, {rest}, {value}");
            }
            Extent::Static(number) => ptx!(self, "min.s64 {rest}, {rest}, {}", number.min(i64::MAX as u64)),
        }
        ptx!(self, "min.s64 {rest}, {rest}, {limit}");
        ptx!(self, "max.s64 {rest}, {rest}, 0");
        ptx!(self, "cvt.u32.u64 {short}, {rest}");
        short
    }

    fn staged_source(&mut self, plan: &Plan, descriptor: &MatmulDescriptor, side: Side, tensor: &TensorRef) -> Source {
        let (address, pitch) = self.staged_address(tensor);
        let (inner, outer) = if plan.along_k(side) { (0, 1) } else { (1, 0) };
        let depth = self.staged_extent(tensor, inner, descriptor.k.unwrap_or(DEPTH_LIMIT).min(DEPTH_LIMIT));
        let rows = self.staged_extent(tensor, outer, plan.extent(side));
        Source {
            address,
            pitch,
            rows,
            depth,
        }
    }

    fn staged_target(&mut self, descriptor: &MatmulDescriptor, tensor: &TensorRef, element: Output) -> Target {
        let (address, pitch) = self.staged_address(tensor);
        let columns = self.staged_extent(tensor, 0, descriptor.n);
        let rows = self.staged_extent(tensor, 1, descriptor.m);
        Target {
            address,
            pitch,
            rows,
            columns,
            element,
        }
    }

    /// The scales of a view's first row, from its first element along K on.
    fn staged_scales(&mut self, tensor: &TensorRef, plane: &ScalePlane) -> Scales {
        let (block, address) = (self.reg(Class::B64), self.reg(Class::B64));
        let [x, y] = [self.value(tensor.origin[0]), self.value(tensor.origin[1])];
        let (pitch, pointer) = (self.value(plane.strides[1]), self.value(plane.pointer));
        ptx!(self, "shr.s64 {block}, {x}, 5");
        ptx!(self, "mad.lo.s64 {address}, {y}, {pitch}, {pointer}");
        ptx!(self, "add.s64 {address}, {address}, {block}");
        Scales { address, pitch }
    }

    /// True if the feed can bring the operands: aligned, of positive pitch and extents, and no view begins before its base.
    fn staged_fits(&mut self, a: &Source, b: &Source, tensors: [&TensorRef; 3], feed: &Feed) -> Reg {
        let (bits, low, fits) = (self.reg(Class::B64), self.reg(Class::B32), self.reg(Class::Pred));
        ptx!(self, "or.b64 {bits}, {}, {}", a.address, a.pitch);
        ptx!(self, "or.b64 {bits}, {bits}, {}", b.address);
        ptx!(self, "or.b64 {bits}, {bits}, {}", b.pitch);
        ptx!(self, "cvt.u32.u64 {low}, {bits}");
        if matches!(feed, Feed::Widened(_)) {
            // Units of 16 elements that exist whole.
            for depth in [a.depth, b.depth] {
                let rest = self.reg(Class::B32);
                ptx!(self, "and.b32 {rest}, {depth}, {}", UNIT - 1);
                ptx!(self, "or.b32 {low}, {low}, {rest}");
            }
        }
        ptx!(self, "and.b32 {low}, {low}, 15");
        ptx!(self, "setp.eq.u32 {fits}, {low}, 0");
        for pitch in [a.pitch, b.pitch] {
            ptx!(self, "setp.gt.and.s64 {fits}, {pitch}, 0, {fits}");
            ptx!(self, "setp.lt.and.s64 {fits}, {pitch}, {PITCH_LIMIT}, {fits}");
        }
        for extent in [a.rows, a.depth, b.rows, b.depth] {
            ptx!(self, "setp.gt.and.s32 {fits}, {extent}, 0, {fits}");
        }
        for tensor in tensors {
            for (dimension, &origin) in tensor.origin.iter().enumerate() {
                let known = self.constant(origin).map(|bits| bits as i64);
                let register = self.value(origin);
                if known.is_none_or(|origin| origin < 0) {
                    ptx!(self, "setp.ge.and.s64 {fits}, {register}, 0, {fits}");
                }
                if dimension == 0 && tensor.scales.is_some() && known.is_none_or(|origin| origin % 32 != 0) {
                    let rest = self.reg(Class::B64);
                    ptx!(self, "and.b64 {rest}, {register}, 31");
                    ptx!(self, "setp.eq.and.s64 {fits}, {rest}, 0, {fits}");
                }
            }
        }
        fits
    }

    /// The address of this block's room for two tensor maps.
    pub fn staged_workspace(&mut self) -> Reg {
        let bytes = 2 * MAP_BYTES;
        self.workspace_bytes = self.workspace_bytes.max(bytes);
        let (block, part, size) = (self.reg(Class::B32), self.reg(Class::B32), self.reg(Class::B32));
        ptx!(self, "mov.u32 {block}, %ctaid.z");
        for dimension in ["y", "x"] {
            ptx!(self, "mov.u32 {size}, %nctaid.{dimension}");
            ptx!(self, "mov.u32 {part}, %ctaid.{dimension}");
            ptx!(self, "mad.lo.u32 {block}, {block}, {size}, {part}");
        }
        let base = self.parameter(Class::B64, abi::WORKSPACE);
        let workspace = self.reg(Class::B64);
        ptx!(self, "mad.wide.u32 {workspace}, {block}, {bytes}, {base}");
        workspace
    }
}
