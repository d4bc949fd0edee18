//! Cooperative tensors in registers.

mod access;
mod convert;
mod map;
mod map_store;
mod reduce;
mod slots;
#[cfg(test)]
mod tests;
mod tile;
mod wide_store;

use anymetal_ir::{Block, CoopId, CoopRole, Inst, Kernel, LayoutKind, Op, Scalar, ValueId};

use super::{ColumnMap, Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

pub(crate) use tile::{LanePlace, Storage, Tile};

/// Registers of all cooperative tensors that a lane can have before the compiler gives up.
const MAX_REGISTERS: u32 = 1024;

/// The registers of all cooperative tensors.
#[derive(Default)]
pub(crate) struct CoopState {
    tiles: Vec<Tile>,
    /// By tensor: its registers in order of (rb, nb, i), or of (rb, nb) for pairs.
    registers: Vec<Vec<Reg>>,
    /// The element of the map that is being lowered.
    element: Option<map::Element>,
}

/// Calls `f` with every operation outside of element-wise maps.
fn outside_maps(block: &Block, f: &mut impl FnMut(&Op)) {
    for inst in &block.insts {
        f(&inst.op);
        match &inst.op {
            Op::If { then, otherwise, .. } => {
                outside_maps(then, f);
                outside_maps(otherwise, f);
            }
            Op::Loop { body, latch, .. } => {
                outside_maps(body, f);
                outside_maps(latch, f);
            }
            Op::Scope { body } => outside_maps(body, f),
            _ => {}
        }
    }
}

/// True if an operation shows slots of lanes, of a tensor that `of` accepts.
fn shows_slots(op: &Op, of: impl Fn(CoopId) -> bool) -> bool {
    match op {
        Op::CoopGet { coop, .. }
        | Op::CoopSet { coop, .. }
        | Op::CoopValid { coop, .. }
        | Op::CoopIndex { coop, .. } => of(*coop),
        Op::CoopMapSlot { to, from, .. } => of(*to) || of(*from),
        _ => false,
    }
}

/// True if the kernel can relate slots to lanes (element access outside maps, `simdgroup_matrix`).
pub(crate) fn slots_are_visible(kernel: &Kernel) -> bool {
    let mut visible = false;
    outside_maps(&kernel.body, &mut |op| {
        visible |= matches!(op, Op::SimdgroupMatrixMultiply { .. }) || shows_slots(op, |_| true);
    });
    visible
}

/// How the kernel's tiles of layout R hold columns; those of layout S always hold them in the natural order.
pub(crate) fn column_map(kernel: &Kernel) -> ColumnMap {
    let mut visible = false;
    outside_maps(&kernel.body, &mut |op| {
        visible |= shows_slots(op, |coop| kernel.coop(coop).layout == LayoutKind::R);
    });
    if visible { ColumnMap::R } else { ColumnMap::Natural }
}

impl<'k> Lower<'k> {
    /// Gives every cooperative tensor its registers.
    pub fn prepare_coops(&mut self) -> Result {
        self.prepare_handles();
        let kernel = self.kernel;
        for coop in &kernel.cooperatives {
            if coop.layout == LayoutKind::Permuted {
                return self.unsupported("the permuted layout of cooperative tensors");
            }
            let tile = Tile::of(coop, self.column_map);
            if coop.element.size() > 4 || coop.element.bits() == 1 {
                return self.unsupported(format!("a cooperative tensor of {} elements", coop.element));
            }
            if tile.registers() > MAX_REGISTERS {
                return self.unsupported(format!(
                    "cooperative tensor '{}' of {} × {} elements in {} SIMD-groups ({} registers for each thread, at most \
                     {MAX_REGISTERS})",
                    coop.name,
                    coop.rows,
                    coop.columns,
                    tile.simdgroups,
                    tile.registers()
                ));
            }
            if tile.is_reduction() && tile.simdgroups > 1 {
                return self.unsupported("a reduction of a tile of several SIMD-groups");
            }
            let class = tile.class();
            let registers = (0..tile.registers()).map(|_| self.writer.reg(class)).collect();
            self.coops.tiles.push(tile);
            self.coops.registers.push(registers);
        }
        Ok(())
    }

    /// Every `Coop…` operation.
    pub fn cooperative(&mut self, inst: &'k Inst) -> Result {
        let first = inst.first;
        match &inst.op {
            Op::CoopInit(coop) => {
                for register in self.tile_registers(*coop) {
                    let zero = if register.class == Class::F32 {
                        "0f00000000"
                    } else {
                        "0"
                    };
                    ptx!(self, "mov.{} {register}, {zero}", register.class.ptx());
                }
                Ok(())
            }
            Op::CoopCopy { to, from } => {
                self.copy_registers(*to, *from);
                Ok(())
            }
            Op::CoopGet { coop, slot } => self.coop_get(first, *coop, *slot),
            Op::CoopSet { coop, slot, value } => self.coop_set(*coop, *slot, *value),
            Op::CoopValid { coop, slot } => self.coop_valid(first, *coop, *slot),
            Op::CoopIndex { coop, slot } => self.coop_index(inst, *coop, *slot),
            Op::CoopMapSlot { to, from, slot } => self.coop_map_slot(first, *to, *from, *slot),
            Op::CoopLoad { coop, tensor } => self.coop_load(*coop, tensor),
            Op::CoopStore { coop, tensor } => self.coop_store(*coop, tensor),
            Op::CoopConvert { to, from } => self.coop_convert(*to, *from),
            Op::CoopCompatible { to, from } => {
                let (to, from) = (self.kernel.coop(*to), self.kernel.coop(*from));
                let answer = !self.options.force_incompatible
                    && (to.rows, to.columns, to.element) == (from.rows, from.columns, from.element)
                    && to.simdgroups == from.simdgroups;
                self.known(first, answer)
            }
            Op::CoopIteratorCompatible { from, to } => {
                let (from, to) = (self.kernel.coop(*from), self.kernel.coop(*to));
                let same = from.layout == to.layout && from.simdgroups == to.simdgroups && from.element == to.element;
                let fits = match to.role {
                    CoopRole::RowReduction => to.rows == from.rows,
                    CoopRole::ColumnReduction => to.columns == from.columns,
                    _ => (to.rows, to.columns) == (from.rows, from.columns),
                };
                self.known(first, same && fits)
            }
            Op::CoopReduce {
                to,
                from,
                axis,
                op,
                identity,
            } => self.coop_reduce(*to, *from, *axis, *op, *identity),
            Op::CoopMap { over, body } => self.coop_map(*over, body),
            Op::CoopElement(coop) => self.coop_element(first, *coop),
            Op::CoopElementSet { coop, value } => self.coop_element_set(*coop, *value),
            Op::CoopElementIndex => self.coop_element_index(inst),
            _ => self.unsupported("this operation on cooperative tensors"),
        }
    }

    /// A `bool` that is known.
    fn known(&mut self, to: ValueId, answer: bool) -> Result {
        let constant = anymetal_ir::Const {
            ty: anymetal_ir::Scalar::Bool,
            bits: answer.into(),
        };
        self.constants[to.index()] = Some(constant);
        self.const_(to, constant)
    }

    /// The elements of a pair as registers of their scalar's class.
    fn unpack(&mut self, tile: &Tile, pair: Reg) -> [Reg; 2] {
        let class = Class::of_scalar(tile.element);
        let parts = [self.reg(class), self.reg(class)];
        let [low, high] = parts;
        if class == Class::B16 {
            ptx!(self, "mov.b32 {{{low}, {high}}}, {pair}");
        } else {
            let sign = if tile.element.is_signed() { "s32" } else { "u32" };
            ptx!(self, "bfe.{sign} {low}, {pair}, 0, 16");
            ptx!(self, "shr.{sign} {high}, {pair}, 16");
        }
        parts
    }

    /// Puts two elements into a pair.
    fn pack(&mut self, pair: Reg, [low, high]: [Reg; 2]) {
        if low.class == Class::B16 {
            ptx!(self, "mov.b32 {pair}, {{{low}, {high}}}");
        } else {
            ptx!(self, "prmt.b32 {pair}, {low}, {high}, 0x5410");
        }
    }

    /// A float element as `f32`; integers stay what they are.
    fn widen_element(&mut self, value: Reg, element: Scalar) -> Reg {
        let wide = match element {
            Scalar::F16 | Scalar::BF16 => self.reg(Class::F32),
            _ => return value,
        };
        if element == Scalar::F16 {
            ptx!(self, "cvt.f32.f16 {wide}, {value}");
        } else {
            let (zero, bits) = (self.reg(Class::B16), self.reg(Class::B32));
            ptx!(self, "mov.b16 {zero}, 0");
            ptx!(self, "mov.b32 {bits}, {{{zero}, {value}}}");
            ptx!(self, "mov.b32 {wide}, {bits}");
        }
        wide
    }

    /// Back from [`widen_element`](Self::widen_element), rounded to nearest even.
    fn narrow_element(&mut self, value: Reg, element: Scalar) -> Reg {
        if !matches!(element, Scalar::F16 | Scalar::BF16) {
            return value;
        }
        let narrow = self.reg(Class::B16);
        ptx!(self, "cvt.rn.{element}.f32 {narrow}, {value}");
        narrow
    }

    /// The element at (rb, nb, i) in a register of its scalar's class.
    fn tile_element(&mut self, id: CoopId, rb: u32, nb: u32, i: u32) -> Reg {
        let tile = self.tile(id);
        match tile.storage {
            Storage::Single => self.tile_reg(id, rb, nb, i),
            Storage::Pairs => {
                let pair = self.tile_pair(id, rb, nb);
                self.unpack(&tile, pair)[i as usize]
            }
        }
    }
}
