//! From tensor views to what the engine reads and writes: addresses, pitches, what exists; and whether that can be staged.

use anymetal_ir::passes::{Root, Uniformity};
use anymetal_ir::{ArgumentKind, Extent, MatmulDescriptor, ScalePlane, TensorRef, ValueId};

use super::decode::{Packing, Scales, UNIT};
use super::engine::Source;
use super::epilogue::{Output, Target};
use super::image::Original;
use super::plan::{Plan, Side};
use super::select::Feed;
use super::tensor_map::{MAP_BYTES, PITCH_LIMIT};
use crate::abi;
use crate::lower::Lower;
use crate::options::ImageRequest;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// K at most, so that positions stay in 32 bits.
const DEPTH_LIMIT: u32 = 0x7fff_ff00;
/// Blocks from which on an image pays.
const IMAGE_BLOCKS: u32 = 8;

/// An operand with an image, and where the parts of it are.
pub(super) struct Imaged {
    /// What is widened.
    pub original: Original,
    /// The image as the pipeline reads it.
    pub source: Source,
}

impl Lower<'_> {
    /// The address of the first element of a view whose dimension 0 has stride 1, and its pitch in bytes.
    pub(super) fn staged_address(&mut self, tensor: &TensorRef) -> (Reg, Reg) {
        let bits = tensor.format.bits();
        let (pitch, address) = (self.reg(Class::B64), self.reg(Class::B64));
        let [x, y] = [self.value(tensor.origin[0]), self.value(tensor.origin[1])];
        let (stride, pointer) = (self.value(tensor.strides[1]), self.value(tensor.pointer));
        if bits < 8 {
            // Whole bytes, as is looked at in `staged_fits`.
            let offset = self.reg(Class::B64);
            ptx!(self, "mul.lo.s64 {pitch}, {stride}, {bits}");
            ptx!(self, "shr.s64 {pitch}, {pitch}, 3");
            ptx!(self, "mul.lo.s64 {offset}, {x}, {bits}");
            ptx!(self, "shr.s64 {offset}, {offset}, 3");
            ptx!(self, "mad.lo.s64 {address}, {y}, {pitch}, {pointer}");
            ptx!(self, "add.s64 {address}, {address}, {offset}");
        } else {
            let bytes = bits / 8;
            ptx!(self, "mul.lo.s64 {pitch}, {stride}, {bytes}");
            ptx!(self, "mad.lo.s64 {address}, {y}, {pitch}, {pointer}");
            ptx!(self, "mad.lo.s64 {address}, {x}, {bytes}, {address}");
        }
        (address, pitch)
    }

    /// What a dimension of a view has, at most `limit`; 0 or less where it lies outside.
    pub(super) fn staged_extent(&mut self, tensor: &TensorRef, dimension: usize, limit: u32) -> Reg {
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

    pub(super) fn staged_source(
        &mut self,
        plan: &Plan,
        descriptor: &MatmulDescriptor,
        side: Side,
        tensor: &TensorRef,
    ) -> Source {
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

    pub(super) fn staged_target(
        &mut self,
        descriptor: &MatmulDescriptor,
        tensor: &TensorRef,
        element: Output,
    ) -> Target {
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
    pub(super) fn staged_scales(&mut self, tensor: &TensorRef, plane: &ScalePlane) -> Scales {
        let (block, address) = (self.reg(Class::B64), self.reg(Class::B64));
        let [x, y] = [self.value(tensor.origin[0]), self.value(tensor.origin[1])];
        let (pitch, pointer) = (self.value(plane.strides[1]), self.value(plane.pointer));
        ptx!(self, "shr.s64 {block}, {x}, 5");
        ptx!(self, "mad.lo.s64 {address}, {y}, {pitch}, {pointer}");
        ptx!(self, "add.s64 {address}, {address}, {block}");
        Scales { address, pitch }
    }

    /// True if the feed can bring the operands: aligned, of positive pitch and extents, and no view begins before its base.
    pub(super) fn staged_fits(&mut self, a: &Source, b: &Source, tensors: &[&TensorRef], feed: &Feed) -> Reg {
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
        for tensor in tensors.iter().filter(|tensor| tensor.format.bits() < 8) {
            // An even element begins a byte.
            for odd in [self.value(tensor.origin[0]), self.value(tensor.strides[1])] {
                let short = self.reg(Class::B32);
                ptx!(self, "cvt.u32.u64 {short}, {odd}");
                ptx!(self, "and.b32 {short}, {short}, 1");
                ptx!(self, "or.b32 {low}, {low}, {short}");
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
            let scale_stride = tensor.scales.as_ref().map(|plane| plane.strides[0]);
            for stride in std::iter::once(tensor.strides[0]).chain(scale_stride) {
                if self.constant(stride).is_none() {
                    let stride = self.value(stride);
                    ptx!(self, "setp.eq.and.s64 {fits}, {stride}, 1, {fits}");
                }
            }
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

    /// True if an operand may have an image: the kernel never writes it, and its base is the same for the whole dispatch.
    pub(super) fn may_have_image(&self, tensor: &TensorRef) -> bool {
        let Some(root @ Root::Argument(_)) = self.effects.roots(tensor.pointer).only() else {
            return false;
        };
        let constant = |value: &ValueId| self.uniformity.value(*value) == Uniformity::Dispatch;
        let scales = tensor.scales.as_ref().is_none_or(|plane| {
            let unwritten = self
                .effects
                .roots(plane.pointer)
                .only()
                .is_some_and(|root| self.effects.never_written(self.kernel, root));
            unwritten && constant(&plane.pointer) && plane.strides.iter().all(constant)
        });
        scales
            && self.options.unaliased
            && self.effects.never_written(self.kernel, root)
            && constant(&tensor.pointer)
            && tensor.base_extents.iter().chain(&tensor.strides).all(constant)
    }

    /// Asks for the image of an operand, and says in a predicate whether this dispatch has it.
    pub(super) fn staged_image(
        &mut self,
        tensor: &TensorRef,
        packing: Packing,
        source: &Source,
        levelled: bool,
    ) -> Option<(Imaged, Reg)> {
        let Some(Root::Argument(argument)) = self.effects.roots(tensor.pointer).only() else {
            return None;
        };
        let growth = packing.growth();
        let request = ImageRequest {
            argument,
            growth,
            levels: levelled,
        };
        let place = self.parameters.add_image();
        self.images.push(request);
        let at = self.parameters.argument(argument);
        let at = match self.kernel.arguments[argument.index()].kind {
            ArgumentKind::Tensor(_) => at + abi::tensor::ADDRESS,
            _ => at,
        };
        let (root, bytes) = (self.parameter(Class::B64, at), self.parameter(Class::B64, at + 8));
        let image = self.parameter(Class::B64, place);
        let flags = self.parameter(Class::B64, place + 8);
        let there = self.reg(Class::Pred);
        ptx!(self, "setp.ne.u64 {there}, {image}, 0");
        // The part of the argument that the operand takes must lie in it, as its image does in the memory that was lent.
        let (pointer, first) = (self.value(tensor.pointer), self.value(tensor.origin[1]));
        let (offset, end, wide, rest) = (
            self.reg(Class::B64),
            self.reg(Class::B64),
            self.reg(Class::B64),
            self.reg(Class::B32),
        );
        let depth = self.clamped(tensor.base_extents[0], DEPTH_LIMIT);
        let rows = self.clamped(tensor.base_extents[1], DEPTH_LIMIT);
        ptx!(self, "sub.s64 {offset}, {pointer}, {root}");
        ptx!(self, "setp.ge.and.s64 {there}, {offset}, 0, {there}");
        ptx!(self, "and.b64 {wide}, {offset}, 15");
        ptx!(self, "setp.eq.and.s64 {there}, {wide}, 0, {there}");
        ptx!(self, "cvt.u64.u32 {wide}, {rows}");
        ptx!(self, "mad.lo.s64 {end}, {wide}, {}, {offset}", source.pitch);
        ptx!(self, "setp.le.and.u64 {there}, {end}, {bytes}, {there}");
        ptx!(self, "and.b32 {rest}, {depth}, {}", UNIT - 1);
        ptx!(self, "setp.eq.and.u32 {there}, {rest}, 0, {there}");
        // Shorter rows have no words for their pieces.
        ptx!(
            self,
            "setp.ge.and.s64 {there}, {}, {}, {there}",
            source.pitch,
            ImageRequest::ROW_BYTES
        );
        let (unit_pitch, fits) = (self.reg(Class::B64), self.reg(Class::B64));
        ptx!(self, "mul.wide.u32 {unit_pitch}, {depth}, {}", packing.unit_bytes());
        ptx!(self, "mul.lo.u64 {fits}, {}, {UNIT}", source.pitch);
        ptx!(self, "setp.le.and.u64 {there}, {unit_pitch}, {fits}, {there}");
        let (base, inner, address, pitch) = (
            self.reg(Class::B64),
            self.reg(Class::B64),
            self.reg(Class::B64),
            self.reg(Class::B64),
        );
        ptx!(self, "mad.lo.s64 {base}, {offset}, {growth}, {image}");
        ptx!(self, "sub.s64 {inner}, {}, {pointer}", source.address);
        ptx!(self, "mad.lo.s64 {address}, {inner}, {growth}, {base}");
        ptx!(self, "mul.lo.s64 {pitch}, {}, {growth}", source.pitch);
        let first_row = self.reg(Class::B32);
        ptx!(self, "cvt.u32.u64 {first_row}, {first}");
        let scales = tensor.scales.as_ref().map(|plane| Scales {
            address: self.value(plane.pointer),
            pitch: self.value(plane.strides[1]),
        });
        let levels = levelled.then(|| {
            let address = self.reg(Class::B64);
            ptx!(self, "mad.lo.u64 {address}, {bytes}, {growth}, {image}");
            ptx!(self, "add.u64 {address}, {address}, 15");
            ptx!(self, "and.b64 {address}, {address}, -16");
            address
        });
        let original = Original {
            pointer,
            pitch: source.pitch,
            rows,
            depth,
            packing,
            scales,
            image: base,
            flags,
            levels,
            first: first_row,
            count: source.rows,
        };
        let source = Source {
            address,
            pitch,
            ..*source
        };
        Some((Imaged { original, source }, there))
    }

    /// True if the grid is so large that it is likely to need all rows of operands, which tiles have `extents` of.
    pub(super) fn staged_whole(&mut self, originals: &[Original], extents: &[u32]) -> Reg {
        let (whole, longer, deep) = (self.reg(Class::Pred), self.reg(Class::B32), self.reg(Class::B32));
        let [columns, groups] = [self.reg(Class::B32), self.reg(Class::B64)];
        ptx!(self, "mov.u32 {columns}, %nctaid.x");
        ptx!(self, "mov.u32 {longer}, %nctaid.y");
        ptx!(self, "max.u32 {longer}, {longer}, {columns}");
        ptx!(self, "mov.u32 {deep}, %nctaid.z");
        ptx!(self, "mul.wide.u32 {groups}, {longer}, {deep}");
        ptx!(self, "setp.eq.u32 {whole}, 0, 0");
        for (original, extent) in originals.iter().zip(extents) {
            let (rows, reached) = (self.reg(Class::B64), self.reg(Class::B64));
            ptx!(self, "cvt.u64.u32 {rows}, {}", original.rows);
            ptx!(self, "mul.lo.u64 {reached}, {groups}, {extent}");
            ptx!(self, "setp.ge.and.u64 {whole}, {reached}, {rows}, {whole}");
        }
        whole
    }

    /// True if so many threadgroups share the operands that images pay.
    pub(super) fn staged_sharing(&mut self) -> Reg {
        let shared = self.reg(Class::Pred);
        let [columns, rows, blocks] = std::array::from_fn(|_| self.reg(Class::B32));
        ptx!(self, "mov.u32 {columns}, %nctaid.x");
        ptx!(self, "mov.u32 {rows}, %nctaid.y");
        ptx!(self, "mul.lo.u32 {blocks}, {columns}, {rows}");
        ptx!(self, "setp.ge.u32 {shared}, {blocks}, {IMAGE_BLOCKS}");
        ptx!(self, "setp.ge.and.u32 {shared}, {columns}, 2, {shared}");
        ptx!(self, "setp.ge.and.u32 {shared}, {rows}, 2, {shared}");
        shared
    }

    /// An `i64` value between 0 and a limit, in 32 bits.
    fn clamped(&mut self, value: ValueId, limit: u32) -> Reg {
        let (wide, short, value) = (self.reg(Class::B64), self.reg(Class::B32), self.value(value));
        ptx!(self, "min.s64 {wide}, {value}, {limit}");
        ptx!(self, "max.s64 {wide}, {wide}, 0");
        ptx!(self, "cvt.u32.u64 {short}, {wide}");
        short
    }
}
