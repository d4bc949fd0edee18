//! Element-wise maps: the body once for each register of a tile.

use std::collections::HashMap;

use anymetal_ir::{Block, CoopId, CoopRole, Inst, Op, ValueId};

use super::map_store::{Pending, is_straight, store_step};
use super::{LanePlace, Storage, Tile};
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::Reg;

/// The element that a copy of a map's body works on.
#[derive(Clone)]
pub(super) struct Element {
    tile: Tile,
    place: LanePlace,
    rb: u32,
    nb: u32,
    i: u32,
    /// The halves of pairs while the map is at their block: written back after both.
    halves: HashMap<CoopId, [Reg; 2]>,
}

impl<'k> Lower<'k> {
    pub(super) fn coop_map(&mut self, over: CoopId, body: &'k Block) -> Result {
        let tile = self.tile(over);
        let place = self.lane_place(&tile);
        let (mut read, mut set) = (Vec::new(), Vec::new());
        body.for_each_inst(&mut |inst| match &inst.op {
            Op::CoopElement(coop) => read.push(*coop),
            Op::CoopElementSet { coop, .. } => set.push(*coop),
            _ => {}
        });
        let mut pairs: Vec<CoopId> = read.iter().chain(&set).copied().collect();
        pairs.retain(|&coop| self.tile(coop).storage == Storage::Pairs);
        pairs.sort_unstable();
        pairs.dedup();
        for &coop in &read {
            let other = self.tile(coop);
            if other.role != CoopRole::RowReduction && other.column_map != tile.column_map {
                return self.unsupported("a loop over elements of tensors in different layouts");
            }
        }
        let (row_blocks, column_blocks, width) = match tile.role {
            CoopRole::RowReduction => (tile.row_blocks, 1, 1),
            CoopRole::ColumnReduction => (1, tile.column_blocks, 2),
            _ => (tile.row_blocks, tile.column_blocks, 2),
        };
        // Without branches nothing keeps the elements apart; with checks a store is more than a store.
        let straight = !self.options.checked && is_straight(body, !tile.may_pad());
        let step = if straight { store_step(self, body) } else { None };
        for rb in 0..row_blocks {
            let row_valid = self.row_valid(&tile, place, rb);
            let mut row = Vec::new();
            let mut size = None;
            for nb in 0..column_blocks {
                let mut halves = HashMap::new();
                for &coop in &pairs {
                    let (other, pair) = (self.tile(coop), self.tile_pair(coop, rb, nb));
                    halves.insert(coop, self.unpack(&other, pair));
                }
                let mut stores = Vec::new();
                for i in 0..width {
                    let column_valid = self.column_valid(&tile, place, nb, i);
                    let valid = self.both(row_valid, column_valid);
                    self.coops.element = Some(Element {
                        tile,
                        place,
                        rb,
                        nb,
                        i,
                        halves: halves.clone(),
                    });
                    let result = if straight {
                        self.straight_body(body, valid, &mut stores)
                    } else {
                        self.branching_body(body, valid)
                    };
                    self.coops.element = None;
                    result?;
                }
                match <[Pending; 2]>::try_from(stores) {
                    Ok(stores) if stores[0].joins(step).is_some() => {
                        size = stores[0].joins(step);
                        row.push((tile.column_offset(nb, 0), stores));
                    }
                    Ok(stores) => stores.iter().for_each(|store| self.store_pending(store)),
                    Err(stores) => stores.iter().for_each(|store| self.store_pending(store)),
                }
                for &coop in &pairs {
                    if set.contains(&coop) {
                        let pair = self.tile_pair(coop, rb, nb);
                        self.pack(pair, halves[&coop]);
                    }
                }
            }
            if let Some(size) = size {
                self.store_row(&row, size);
            }
        }
        Ok(())
    }

    /// A copy of the body for elements that exist.
    fn branching_body(&mut self, body: &'k Block, valid: Option<Reg>) -> Result {
        let skip = valid.map(|valid| {
            let skip = self.writer.label();
            ptx!(self, "@!{valid} bra {skip}");
            skip
        });
        let result = self.without_masks(|lower| lower.block(body));
        if let Some(skip) = skip {
            self.writer.place(skip);
        }
        result
    }

    /// A copy of a body without loops and calls: all lanes compute, and only writes stand under predicates. The store is left for later.
    fn straight_body(&mut self, body: &'k Block, guard: Option<Reg>, stores: &mut Vec<Pending>) -> Result {
        for inst in &body.insts {
            self.location = inst.location;
            match &inst.op {
                Op::If { condition, then, .. } => {
                    let condition = self.value(*condition);
                    let guard = self.both(guard, Some(condition));
                    self.straight_body(then, guard, stores)?;
                }
                Op::CoopElementSet { coop, value } => {
                    let (to, from) = (self.element_register(*coop)?, self.value(*value));
                    let ty = to.class.ptx();
                    match guard {
                        Some(guard) => ptx!(self, "@{guard} mov.{ty} {to}, {from}"),
                        None => ptx!(self, "mov.{ty} {to}, {from}"),
                    }
                }
                Op::Store { pointer, values, align } => {
                    let Some(&first) = values.first() else { continue };
                    stores.push(Pending {
                        guard,
                        space: self.space_of(*pointer),
                        address: self.address(*pointer),
                        ty: self.ty(first),
                        values: values.iter().map(|&value| self.value(value)).collect(),
                        align: *align,
                    });
                }
                _ => self.inst(inst)?,
            }
        }
        Ok(())
    }

    fn element(&self) -> Result<Element> {
        match &self.coops.element {
            Some(element) => Ok(element.clone()),
            None => self.unsupported("an element of a cooperative tensor outside of a loop over it"),
        }
    }

    /// The register that holds the map's element of a tensor.
    fn element_register(&self, coop: CoopId) -> Result<Reg> {
        let element = self.element()?;
        Ok(match element.halves.get(&coop) {
            Some(halves) => halves[element.i as usize],
            None => self.tile_reg(coop, element.rb, element.nb, element.i),
        })
    }

    pub(super) fn coop_element(&mut self, to: ValueId, coop: CoopId) -> Result {
        let from = self.element_register(coop)?;
        let copy = self.copy(from);
        self.bind(to, copy);
        Ok(())
    }

    pub(super) fn coop_element_set(&mut self, coop: CoopId, value: ValueId) -> Result {
        let to = self.element_register(coop)?;
        let from = self.value(value);
        ptx!(self, "mov.{} {to}, {from}", to.class.ptx());
        Ok(())
    }

    pub(super) fn coop_element_index(&mut self, inst: &Inst) -> Result {
        let Element {
            tile, place, rb, nb, i, ..
        } = self.element()?;
        let mut results = inst.results();
        if tile.role != CoopRole::RowReduction {
            let column = self.place_column(&tile, place, nb, i);
            if let Some(result) = results.next() {
                self.bind(result, column);
            }
        }
        if tile.role != CoopRole::ColumnReduction {
            let row = self.place_row(place, rb);
            if let Some(result) = results.next() {
                self.bind(result, row);
            }
        }
        Ok(())
    }
}
