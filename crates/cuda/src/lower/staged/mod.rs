//! Products of a threadgroup through shared memory: a pipeline of stages that the tensor cores read.
//!
//! How a product is staged is decided when the kernel is compiled (shape, types, which dimension runs along memory). Whether it may be is decided when
//! it runs: copies want 16-byte addresses and pitches, and operands that exist at all. A uniform branch takes everything else to the general product.

mod bulk;
mod copied;
mod decode;
mod engine;
mod epilogue;
mod image;
mod level;
mod mma;
mod operands;
mod order;
mod plan;
mod select;
pub(crate) mod tensor_map;
#[cfg(test)]
mod tests;
mod widened;

use anymetal_ir::{CoopId, MatmulDescriptor, Operand, Scalar, TensorRef};

use self::decode::Packing;
use self::engine::{Engine, Source};
use self::epilogue::Target;
use self::image::Original;
pub(crate) use self::plan::Input;
use self::plan::{Plan, Side};
use self::select::Feed;
use self::widened::Packed;
use super::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Label, Reg};

/// Where the sums go.
enum Sink {
    Memory(Target),
    /// A cooperative tensor, whose registers are the sums if its elements are `f32`.
    Tile(CoopId),
}

/// Operands as images.
struct Images {
    sources: [Source; 2],
    /// The operand whose rows have levels, and where they are.
    levels: Option<(Original, Reg)>,
}

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
        let (Operand::Tensor(a), Operand::Tensor(b)) = (left, right) else {
            return Ok(false);
        };
        let Some(selected) = self.staged_plan(descriptor, simdgroups, [a, b], destination) else {
            return Ok(false);
        };
        let (plan, feed) = (selected.plan, selected.feed);
        let generic = self.writer.label();
        let end = self.writer.label();
        let source_a = self.staged_source(&plan, descriptor, Side::Left, a);
        let mut source_b = self.staged_source(&plan, descriptor, Side::Right, b);
        // Past the left operand's K nothing counts, whatever the right operand holds there.
        let depth = self.reg(Class::B32);
        ptx!(self, "min.s32 {depth}, {}, {}", source_a.depth, source_b.depth);
        source_b.depth = depth;
        let sources = [source_a, source_b];
        let (sink, fits) = match destination {
            Operand::Tensor(c) => {
                let target = self.staged_target(descriptor, c, selected.output);
                let fits = self.staged_fits(&sources[0], &sources[1], &[a, b, c], &feed);
                (Sink::Memory(target), fits)
            }
            Operand::Coop(id) => (
                Sink::Tile(*id),
                self.staged_fits(&sources[0], &sources[1], &[a, b], &feed),
            ),
        };
        ptx!(self, "@!{fits} bra {generic}");
        self.stage(plan.shared_bytes());
        let sums = self.staged_registers(&plan, &sink);
        match feed {
            Feed::Bulk => {
                let workspace = self.staged_workspace();
                self.staged_begin(&plan, descriptor, &sink, &sums);
                self.engine(plan).bulk(&sources[0], &sources[1], workspace, &sums);
            }
            Feed::Copied => {
                self.staged_begin(&plan, descriptor, &sink, &sums);
                self.engine(plan).copied(&sources[0], &sources[1], &sums);
            }
            Feed::Widened(packings) => {
                let joined = self.writer.label();
                if let Some(image_plan) = selected.image_plan {
                    let direct = self.writer.label();
                    let without = if selected.levelled { generic } else { direct };
                    let images = self.staged_images([a, b], packings, &sources, without, image_plan, selected.levelled);
                    let levels = images.levels.map(|(original, levels)| {
                        let (levels, good) = self.engine(image_plan).levels(&original, levels);
                        ptx!(self, "@!{good} bra {generic}");
                        levels
                    });
                    self.stage(image_plan.shared_bytes());
                    let workspace = self.staged_workspace();
                    self.staged_begin(&plan, descriptor, &sink, &sums);
                    let [left, right] = &images.sources;
                    self.engine(image_plan).bulk(left, right, workspace, &sums);
                    if let Some(levels) = levels {
                        self.engine(image_plan).undo_levels(packings[1], &levels, &sums);
                    }
                    ptx!(self, "bra.uni {joined}");
                    self.writer.place(direct);
                }
                if !selected.levelled {
                    let scales = [a, b].map(|t| t.scales.as_ref().map(|plane| self.staged_scales(t, plane)));
                    let [left, right] = std::array::from_fn(|index| Packed {
                        source: sources[index],
                        packing: packings[index],
                        scales: scales[index],
                    });
                    self.staged_begin(&plan, descriptor, &sink, &sums);
                    self.engine(plan).widened(&left, &right, &sums);
                }
                self.writer.place(joined);
            }
        }
        if plan.input == Input::F32 {
            // Of infinities and of numbers that round to one the rest is NaN; the general product knows what comes out.
            let finite = self.staged_all_finite(&plan, &sums);
            ptx!(self, "@!{finite} bra {generic}");
        }
        self.staged_end(&plan, &sink, &sums);
        ptx!(self, "bra.uni {end}");
        self.writer.place(generic);
        self.matmul(descriptor, simdgroups, left, right, destination)?;
        self.writer.place(end);
        Ok(true)
    }

    /// The engine of this threadgroup.
    fn engine(&mut self, plan: Plan) -> Engine<'_> {
        let shared = self.reg(Class::B32);
        ptx!(self, "mov.u32 {shared}, smem");
        let warp = self.reg(Class::B32);
        ptx!(self, "shr.u32 {warp}, {}, 5", self.geometry.hardware_thread);
        // Through a shuffle, so that the assembler knows that it is the same in the warp.
        ptx!(self, "shfl.sync.idx.b32 {warp}, {warp}, 0, 31, 0xffffffff");
        let thread = self.geometry.hardware_thread;
        Engine {
            writer: &mut self.writer,
            plan,
            shared,
            thread,
            warp,
        }
    }

    /// Widens what has an image; what has none is read where it lies. Branches to `without` where this dispatch has no images.
    fn staged_images(
        &mut self,
        tensors: [&TensorRef; 2],
        packings: [Packing; 2],
        sources: &[Source; 2],
        without: Label,
        plan: Plan,
        levelled: bool,
    ) -> Images {
        let all = self.staged_sharing();
        let (mut originals, mut extents) = (Vec::new(), Vec::new());
        let mut result = *sources;
        for (index, side) in [Side::Left, Side::Right].into_iter().enumerate() {
            if packings[index] == Packing::Plain {
                continue;
            }
            if let Some((imaged, there)) = self.staged_image(tensors[index], packings[index], &sources[index], levelled)
            {
                ptx!(self, "and.pred {all}, {all}, {there}");
                originals.push(imaged.original);
                extents.push(plan.extent(side));
                result[index] = imaged.source;
            }
        }
        ptx!(self, "@!{all} bra {without}");
        let whole = self.staged_whole(&originals, &extents);
        self.engine(plan).make_images(&originals, whole);
        Images {
            sources: result,
            levels: originals
                .into_iter()
                .find_map(|original| original.levels.map(|levels| (original, levels))),
        }
    }

    /// Registers for the sums: the tile's own where it holds `f32`.
    fn staged_registers(&mut self, plan: &Plan, sink: &Sink) -> Vec<Reg> {
        if let Sink::Tile(id) = sink
            && self.tile(*id).element == Scalar::F32
            && plan.input != Input::F32
        {
            let places = (0..plan.sums()).map(|place| plan.place_of(place));
            return places.map(|(rb, nb, i)| self.tile_reg(*id, rb, nb, i)).collect();
        }
        (0..plan.sums()).map(|_| self.reg(Class::F32)).collect()
    }

    /// What the sums begin with: zero, or what the destination holds.
    fn staged_begin(&mut self, plan: &Plan, descriptor: &MatmulDescriptor, sink: &Sink, sums: &[Reg]) {
        match sink {
            Sink::Tile(id) if descriptor.accumulate => {
                let tile = self.tile(*id);
                if tile.element == Scalar::F32 {
                    for (place, sum) in sums.iter().enumerate() {
                        let (rb, nb, i) = plan.place_of(place as u32);
                        let from = self.tile_reg(*id, rb, nb, i);
                        if from != *sum {
                            ptx!(self, "mov.f32 {sum}, {from}");
                        }
                    }
                } else {
                    for (place, sum) in sums.iter().enumerate() {
                        let (rb, nb, i) = plan.place_of(place as u32);
                        let pair = self.tile_pair(*id, rb, nb);
                        let halves = [self.reg(Class::B16), self.reg(Class::B16)];
                        ptx!(self, "mov.b32 {{{}, {}}}, {pair}", halves[0], halves[1]);
                        let half = halves[i as usize];
                        if tile.element == Scalar::F16 {
                            ptx!(self, "cvt.f32.f16 {sum}, {half}");
                        } else {
                            let zero = self.reg(Class::B16);
                            ptx!(self, "mov.b16 {zero}, 0");
                            ptx!(self, "mov.b32 {sum}, {{{zero}, {half}}}");
                        }
                    }
                }
            }
            _ => {
                for sum in sums {
                    ptx!(self, "mov.f32 {sum}, 0f00000000");
                }
            }
        }
        if let (Sink::Memory(target), true) = (sink, descriptor.accumulate) {
            self.engine(*plan).add_target(target, sums);
        }
    }

    /// True for the whole threadgroup if all its sums are finite.
    fn staged_all_finite(&mut self, plan: &Plan, sums: &[Reg]) -> Reg {
        let (largest, all, mine) = (self.u32(0), self.reg(Class::Pred), self.reg(Class::Pred));
        for sum in sums {
            let bits = self.reg(Class::B32);
            ptx!(self, "mov.b32 {bits}, {sum}");
            ptx!(self, "and.b32 {bits}, {bits}, 0x7fffffff");
            ptx!(self, "max.u32 {largest}, {largest}, {bits}");
        }
        ptx!(self, "setp.lt.u32 {mine}, {largest}, 0x7f800000");
        ptx!(self, "barrier.red.and.pred {all}, 0, {}, {mine}", plan.threads());
        all
    }

    /// Puts the sums where they belong.
    fn staged_end(&mut self, plan: &Plan, sink: &Sink, sums: &[Reg]) {
        match sink {
            Sink::Memory(target) => {
                let mut engine = self.engine(*plan);
                engine.store(target, sums);
                engine.barrier();
            }
            Sink::Tile(id) => {
                // What comes next may use the staging area.
                self.engine(*plan).barrier();
                let ty = match self.tile(*id).element {
                    Scalar::F32 => {
                        for (place, sum) in sums.iter().enumerate() {
                            let (rb, nb, i) = plan.place_of(place as u32);
                            let to = self.tile_reg(*id, rb, nb, i);
                            if to != *sum {
                                ptx!(self, "mov.f32 {to}, {sum}");
                            }
                        }
                        return;
                    }
                    Scalar::F16 => "f16x2",
                    _ => "bf16x2",
                };
                for place in (0..plan.sums()).step_by(2) {
                    let (rb, nb, _) = plan.place_of(place);
                    let pair = self.tile_pair(*id, rb, nb);
                    let (low, high) = (sums[place as usize], sums[place as usize + 1]);
                    ptx!(self, "cvt.rn.{ty}.f32 {pair}, {high}, {low}");
                }
            }
        }
    }
}
