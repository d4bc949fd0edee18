//! Rows of 16-bit elements as accesses of 16 bytes: the four lanes of a row exchange pairs, so that each has whole blocks of eight columns.

use anymetal_ir::AddressSpace;

use super::map_store::Pending;
use crate::emit;
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Label, Reg};

/// Blocks that the lanes of a row exchange among each other, one for each lane.
const LANES: usize = 4;

impl Lower<'_> {
    /// Stores a lane's row as [`store_row`](Self::store_row) does, where all lanes store all they have and the row is aligned to 16 bytes. Elsewhere it
    /// jumps to the label that it returns; `None` if rows like this one have no such form. `base` is the address of the lane's first element.
    pub(super) fn store_wide_row(&mut self, row: &[(u32, [Pending; 2])], size: u32, base: Reg) -> Option<Label> {
        let (_, [first, _]) = row.first()?;
        let consecutive = row.iter().zip(0u32..).all(|((column, _), block)| *column == 8 * block);
        if size != 2 || first.space != AddressSpace::Device || !row.len().is_multiple_of(LANES) || !consecutive {
            return None;
        }
        let pair = self.geometry.fragment_pair;
        // Lane t of a row begins at column 2·t, and has block 4·n + t in the end: 12·t bytes further.
        let further = emit!(self, B64, "mul.wide.u32", pair, 12);
        let address = emit!(self, B64, "add.s64", base, further);
        let low = emit!(self, B32, "cvt.u32.u64", address);
        let low = emit!(self, B32, "and.b32", low, 15);
        let aligned = emit!(self, Pred, "setp.eq.u32", low, 0);
        let mut all = Some(aligned);
        let mut guards: Vec<Reg> = row
            .iter()
            .flat_map(|(_, stores)| stores.iter().filter_map(|store| store.guard))
            .collect();
        guards.dedup();
        for guard in guards {
            all = self.both(all, Some(guard));
        }
        let narrow = self.writer.label();
        if let Some(all) = all {
            let everywhere = self.reg(Class::Pred);
            ptx!(self, "vote.sync.all.pred {everywhere}, {all}, 0xffffffff");
            ptx!(self, "@!{everywhere} bra.uni {narrow}");
        }
        let odd = emit!(self, Pred, "setp.ne.u32", emit!(self, B32, "and.b32", pair, 1), 0);
        let high = emit!(self, Pred, "setp.gt.u32", pair, 1);
        for (blocks, at) in row.chunks_exact(LANES).zip(0u32..) {
            let mut pairs: Vec<Reg> = blocks
                .iter()
                .map(|(_, stores)| {
                    let [left, right] = [0, 1].map(|i| stores[i].values[0]);
                    let pair = self.reg(Class::B32);
                    if left.class == Class::B16 {
                        ptx!(self, "mov.b32 {pair}, {{{left}, {right}}}");
                    } else {
                        ptx!(self, "prmt.b32 {pair}, {left}, {right}, 0x5410");
                    }
                    pair
                })
                .collect();
            for (a, b, side, distance) in [(0, 1, odd, 1), (2, 3, odd, 1), (0, 2, high, 2), (1, 3, high, 2)] {
                let (first, second) = (pairs[a], pairs[b]);
                let sent = emit!(self, B32, "selp.b32", first, second, side);
                let received = self.reg(Class::B32);
                ptx!(
                    self,
                    "shfl.sync.bfly.b32 {received}, {sent}, {distance}, 31, 0xffffffff"
                );
                pairs[a] = emit!(self, B32, "selp.b32", received, first, side);
                pairs[b] = emit!(self, B32, "selp.b32", second, received, side);
            }
            let list = pairs.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
            ptx!(self, "st.global.v4.b32 [{address}+{}], {{{list}}}", 64 * at);
        }
        Some(narrow)
    }
}
