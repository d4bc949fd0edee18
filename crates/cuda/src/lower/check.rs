//! Checked mode: bounds of accesses, and the record of the first fault.

use anymetal_ir::passes::Root;
use anymetal_ir::{AddressSpace, ArgumentId, ArgumentKind, MemoryId, ValueId};

use super::Lower;
use super::memory::Address;
use crate::abi::{self, FaultCode, FaultRecord};
use crate::ptx::{Class, Reg};
use crate::{emit, ptx};

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Reads and writes at once.
    Atomic,
}

/// A range of memory that an access may be in.
#[derive(Clone, Copy)]
struct Range {
    base: Reg,
    /// Of the same class as `base`.
    bytes: Reg,
    /// As [`FaultRecord::OBJECT`] says.
    object: u32,
}

/// What is written to the record of a fault; numbers that do not apply are left out.
#[derive(Clone, Default)]
pub(crate) struct Fault {
    /// [`FaultRecord::OBJECT`].
    pub object: u32,
    /// [`FaultRecord::OFFSET`], `.b64`.
    pub offset: Option<Reg>,
    /// [`FaultRecord::BYTES`], `.b64`.
    pub bytes: Option<Reg>,
    /// [`FaultRecord::SIZE`].
    pub size: u32,
    /// The subscript, `.b64` each.
    pub coordinates: Vec<Reg>,
    /// The extents that it broke, `.b64` each.
    pub extents: Vec<Reg>,
}

impl Lower<'_> {
    /// In checked mode: a predicate that says whether the access may happen (a fault is recorded where not). `None` without checks, and
    /// where the access is known to be inside.
    pub fn check_access(
        &mut self,
        pointer: ValueId,
        address: Address,
        size: u64,
        align: u32,
        kind: AccessKind,
    ) -> Option<Reg> {
        if !self.options.checked {
            return None;
        }
        let roots = self.effects.roots(pointer).clone();
        let space = self.space_of(pointer);
        let ranges = self.ranges_of(space, &roots.known, roots.unknown);
        let at = self.materialise(address);
        let inside = self.is_inside(&ranges, roots.unknown, at, size);
        let code = match kind {
            AccessKind::Read => FaultCode::ReadOutside,
            AccessKind::Write => FaultCode::WriteOutside,
            AccessKind::Atomic => FaultCode::AtomicOutside,
        };
        let mut fault = Fault {
            size: size.min(u64::from(u32::MAX)) as u32,
            ..Fault::default()
        };
        let (mut base, mut bytes) = (None, None);
        if let ([range], false) = (ranges.as_slice(), roots.unknown) {
            fault.object = range.object;
            base = Some(range.base);
            bytes = Some(range.bytes);
        }
        self.fault_unless(inside, code, |lower| {
            fault.offset = Some(lower.offset_in(at, base));
            fault.bytes = bytes.map(|bytes| lower.extended_to_64(bytes));
            fault.clone()
        });
        let align = align.next_power_of_two();
        if align <= 1 || space == AddressSpace::Thread {
            return Some(inside);
        }
        let low = if at.class == Class::B64 {
            emit!(self, B32, "cvt.u32.u64", at)
        } else {
            at
        };
        let rest = emit!(self, B32, "and.b32", low, align - 1);
        let aligned = emit!(self, Pred, "setp.eq.b32", rest, 0);
        let outside = emit!(self, Pred, "not.pred", inside);
        let fine = emit!(self, Pred, "or.pred", aligned, outside);
        self.fault_unless(fine, FaultCode::Misaligned, |lower| {
            fault.offset = Some(lower.offset_in(at, base));
            fault.size = align;
            fault.clone()
        });
        Some(emit!(self, Pred, "and.pred", inside, aligned))
    }

    /// The distance from the start of an object as `i64`; the address itself if the object is unknown.
    fn offset_in(&mut self, at: Reg, base: Option<Reg>) -> Reg {
        match (base, at.class) {
            (Some(base), Class::B64) => emit!(self, B64, "sub.s64", at, base),
            (Some(base), _) => emit!(self, B64, "cvt.s64.s32", emit!(self, B32, "sub.s32", at, base)),
            (None, _) => self.extended_to_64(at),
        }
    }

    fn extended_to_64(&mut self, reg: Reg) -> Reg {
        if reg.class == Class::B64 {
            reg
        } else {
            emit!(self, B64, "cvt.u64.u32", reg)
        }
    }

    /// The ranges that a pointer may point into.
    fn ranges_of(&mut self, space: AddressSpace, known: &[Root], unknown: bool) -> Vec<Range> {
        let mut roots = known.to_vec();
        if unknown {
            roots = (0..self.kernel.arguments.len() as u32)
                .map(|i| Root::Argument(ArgumentId(i)))
                .chain((0..self.kernel.memory.len() as u32).map(|i| Root::Memory(MemoryId(i))))
                .collect();
        }
        let mut out = Vec::new();
        for root in roots {
            match root {
                Root::Argument(id) => self.argument_ranges(space, id, &mut out),
                Root::Memory(id) => {
                    let object = self.kernel.memory_object(id);
                    if object.space == space {
                        let size = object.size;
                        let address = self.object_address(id);
                        let base = self.materialise(address);
                        let bytes = if base.class == Class::B64 {
                            self.i64(size as i64)
                        } else {
                            self.u32(size as u32)
                        };
                        out.push(Range {
                            base,
                            bytes,
                            object: 0x8000_0000 + id.0,
                        });
                    }
                }
            }
        }
        out
    }

    /// The ranges of an argument.
    fn argument_ranges(&mut self, space: AddressSpace, id: ArgumentId, out: &mut Vec<Range>) {
        let at = self.parameters.argument(id);
        let object = 1 + id.0;
        let kernel = self.kernel;
        match &kernel.arguments[id.index()].kind {
            ArgumentKind::Buffer { space: own, .. } if *own == space => {
                let base = self.parameter(Class::B64, at);
                let bytes = self.parameter(Class::B64, at + 8);
                out.push(Range { base, bytes, object });
            }
            ArgumentKind::Tensor(spec) if spec.space == space => {
                let rank = spec.extents.len() as u32;
                let base = self.parameter(Class::B64, at + abi::tensor::ADDRESS);
                let bytes = self.parameter(Class::B64, at + abi::tensor::BYTES);
                out.push(Range { base, bytes, object });
                if spec.scale_block.is_some() {
                    let base = self.parameter(Class::B64, at + abi::tensor::scale_address(rank));
                    let bytes = self.parameter(Class::B64, at + abi::tensor::scale_bytes(rank));
                    out.push(Range { base, bytes, object });
                }
            }
            ArgumentKind::Threadgroup { .. } if space == AddressSpace::Threadgroup => {
                let offset = self.parameter(Class::B32, at);
                let base = emit!(self, B32, "add.s32", offset, emit!(self, B32, "mov.u32", "smem"));
                let bytes = self.parameter(Class::B32, at + 4);
                out.push(Range { base, bytes, object });
            }
            _ => {}
        }
    }

    /// True if so many bytes from an address on are in one of the ranges, or (in device memory, behind no known one) in a tensor that
    /// is known by its handle.
    fn is_inside(&mut self, ranges: &[Range], unknown: bool, at: Reg, size: u64) -> Reg {
        let long = at.class == Class::B64;
        let inside = self.reg(Class::Pred);
        ptx!(self, "setp.ne.b32 {inside}, 0, 0");
        for range in ranges {
            let fits = self.range_fits(range.base, range.bytes, at, size);
            ptx!(self, "or.pred {inside}, {inside}, {fits}");
        }
        if long && unknown {
            self.search_handles(inside, at, size);
        }
        inside
    }

    /// `at − base ≤ bytes − size`, without wrapping.
    fn range_fits(&mut self, base: Reg, bytes: Reg, at: Reg, size: u64) -> Reg {
        if at.class == Class::B64 {
            let offset = emit!(self, B64, "sub.s64", at, base);
            let room = emit!(self, B64, "sub.s64", bytes, size);
            let large = emit!(self, Pred, "setp.ge.u64", bytes, size);
            emit!(self, Pred, "setp.le.and.u64", offset, room, large)
        } else {
            let offset = emit!(self, B32, "sub.s32", at, base);
            let room = emit!(self, B32, "sub.s32", bytes, size as u32);
            let large = emit!(self, Pred, "setp.ge.u32", bytes, size as u32);
            emit!(self, Pred, "setp.le.and.u32", offset, room, large)
        }
    }

    /// Looks the address up in the tensors by handle, where nothing else has it. Rare, so aside.
    fn search_handles(&mut self, inside: Reg, at: Reg, size: u64) {
        let (search, back) = (self.writer.label(), self.writer.label());
        ptx!(self, "@!{inside} bra {search}");
        self.writer.place(back);
        let body = self.writer.begin_aside();
        self.writer.place(search);
        let table = self.parameter(Class::B64, abi::HANDLES);
        let entry = self.copy(table);
        let left = self.parameter(Class::B32, abi::HANDLE_COUNT);
        let head = self.writer.label();
        self.writer.place(head);
        let none = emit!(self, Pred, "setp.eq.b32", left, 0);
        ptx!(self, "@{none} bra {back}");
        for offset in [8, 24] {
            let base = emit!(self, B64, "ld.global.b64", format!("[{entry}+{offset}]"));
            let bytes = emit!(self, B64, "ld.global.b64", format!("[{entry}+{}]", offset + 8));
            let fits = self.range_fits(base, bytes, at, size);
            ptx!(self, "or.pred {inside}, {inside}, {fits}");
        }
        ptx!(self, "@{inside} bra {back}");
        ptx!(self, "add.s64 {entry}, {entry}, {}", abi::HANDLE_ENTRY);
        ptx!(self, "sub.s32 {left}, {left}, 1");
        ptx!(self, "bra {head}");
        self.writer.end_aside(body);
    }

    /// Records a fault at the current instruction in lanes where a condition is false; they go on then. `describe` may write
    /// instructions: they run in the rare case only.
    pub fn fault_unless(&mut self, condition: Reg, code: FaultCode, describe: impl FnOnce(&mut Self) -> Fault) {
        let (aside, back) = (self.writer.label(), self.writer.label());
        ptx!(self, "@!{condition} bra {aside}");
        self.writer.place(back);
        let body = self.writer.begin_aside();
        self.writer.place(aside);
        let record = self.parameter(Class::B64, abi::FAULT);
        let none = emit!(self, Pred, "setp.eq.u64", record, 0);
        ptx!(self, "@{none} bra {back}");
        // Whoever comes first writes.
        let state = emit!(
            self,
            B32,
            "atom.global.cas.b32",
            format!("[{record}+{}]", FaultRecord::STATE),
            0,
            1
        );
        let late = emit!(self, Pred, "setp.ne.b32", state, 0);
        ptx!(self, "@{late} bra {back}");
        let fault = describe(self);
        let location = self.location.0;
        let rank = fault.coordinates.len() as u32;
        for (field, number) in [
            (FaultRecord::CODE, code as u32),
            (FaultRecord::LOCATION, location),
            (FaultRecord::OBJECT, fault.object),
            (FaultRecord::SIZE, fault.size),
            (FaultRecord::RANK, rank),
        ] {
            let number = self.u32(number);
            ptx!(self, "st.global.b32 [{record}+{field}], {number}");
        }
        ptx!(
            self,
            "st.global.b32 [{record}+{}], {}",
            FaultRecord::THREAD,
            self.geometry.thread
        );
        for d in 0..3 {
            let position = self.threadgroup_position(d);
            ptx!(
                self,
                "st.global.b32 [{record}+{}], {position}",
                FaultRecord::GROUP + 4 * d
            );
        }
        let pairs = [(FaultRecord::OFFSET, fault.offset), (FaultRecord::BYTES, fault.bytes)];
        for (field, value) in pairs {
            if let Some(value) = value {
                ptx!(self, "st.global.b64 [{record}+{field}], {value}");
            }
        }
        for (start, values) in [
            (FaultRecord::COORDINATES, &fault.coordinates),
            (FaultRecord::EXTENTS, &fault.extents),
        ] {
            for (i, value) in values.iter().take(4).enumerate() {
                ptx!(self, "st.global.b64 [{record}+{}], {value}", start + 8 * i as u32);
            }
        }
        ptx!(self, "bra {back}");
        self.writer.end_aside(body);
    }
}
