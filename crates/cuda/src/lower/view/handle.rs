//! Tensor handles: what is bound to an argument stands in the parameter block, other handles are looked up in the dispatch's table.

use std::collections::HashMap;

use anymetal_ir::{ArgumentId, Const, Op, Scalar, TensorField, TensorSpec, ValueId};

use crate::abi;
use crate::lower::check::Fault;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Handles as the kernel's values.
#[derive(Default)]
pub(crate) struct Handles {
    /// Values that are the handle of an argument.
    arguments: HashMap<ValueId, ArgumentId>,
    /// For other handles: the handle that was looked up last, and its entry in the table (0 if it has none).
    found: HashMap<ValueId, (Reg, Reg)>,
}

impl<'k> Lower<'k> {
    /// Prepares the look-up of handles that are no argument's.
    pub fn prepare_handles(&mut self) {
        let kernel = self.kernel;
        let mut bound = Vec::new();
        let mut queried = Vec::new();
        kernel.body.for_each_inst(&mut |inst| match &inst.op {
            Op::ArgumentTensor(_) => bound.push(inst.first),
            Op::TensorQuery { handle, .. } => queried.push(*handle),
            _ => {}
        });
        for handle in queried {
            if bound.contains(&handle) || self.handles.found.contains_key(&handle) {
                continue;
            }
            // No lookup was made of handle 0, so it stands for nothing.
            let (key, entry) = (self.i64(0), self.i64(0));
            self.handles.found.insert(handle, (key, entry));
        }
    }

    pub fn argument_tensor(&mut self, to: ValueId, id: ArgumentId) -> Result {
        let handle = self.parameter(Class::B64, self.parameters.argument(id) + abi::tensor::HANDLE);
        self.bind(to, handle);
        self.handles.arguments.insert(to, id);
        Ok(())
    }

    pub fn tensor_query(&mut self, to: ValueId, handle: ValueId, spec: &TensorSpec, field: TensorField) -> Result {
        // Elements of a bound tensor's rows follow one another: no other descriptor is accepted.
        if field == TensorField::Stride(0) {
            let constant = Const {
                ty: Scalar::I64,
                bits: 1,
            };
            self.constants[to.index()] = Some(constant);
            return self.const_(to, constant);
        }
        if let Some(&argument) = self.handles.arguments.get(&handle) {
            return self.query_argument(to, argument, spec, field);
        }
        let entry = self.look_up(handle);
        let max_rank = 8 * anymetal_formats::MAX_RANK as u32;
        let offset = match field {
            TensorField::Pointer => 8,
            TensorField::ScalePointer => 24,
            TensorField::Extent(d) => 40 + 8 * d,
            TensorField::Stride(d) => 40 + max_rank + 8 * d,
            TensorField::ScaleStride(d) => 40 + 2 * max_rank + 8 * d,
        };
        let (result, known) = (self.define(to), self.reg(Class::Pred));
        ptx!(self, "mov.b64 {result}, 0");
        ptx!(self, "setp.ne.s64 {known}, {entry}, 0");
        ptx!(self, "@{known} ld.global.b64 {result}, [{entry}+{offset}]");
        Ok(())
    }

    fn query_argument(&mut self, to: ValueId, id: ArgumentId, spec: &TensorSpec, field: TensorField) -> Result {
        let rank = spec.extents.len() as u32;
        let offset = match field {
            TensorField::Pointer => abi::tensor::ADDRESS,
            TensorField::Extent(d) => abi::tensor::extent(d),
            TensorField::Stride(d) => abi::tensor::stride(rank, d),
            TensorField::ScalePointer => abi::tensor::scale_address(rank),
            TensorField::ScaleStride(d) => abi::tensor::scale_stride(rank, d),
        };
        let result = self.parameter(Class::B64, self.parameters.argument(id) + offset);
        self.bind(to, result);
        Ok(())
    }

    /// The table's entry of a handle, or 0.
    fn look_up(&mut self, handle: ValueId) -> Reg {
        let (key, entry) = self.handles.found[&handle];
        let handle = self.value(handle);
        let (next, done) = (self.writer.label(), self.writer.label());
        let same = self.reg(Class::Pred);
        ptx!(self, "setp.eq.s64 {same}, {key}, {handle}");
        ptx!(self, "@{same} bra {done}");
        let table = self.parameter(Class::B64, abi::HANDLES);
        let left = self.parameter(Class::B32, abi::HANDLE_COUNT);
        let here = self.copy(table);
        ptx!(self, "mov.b64 {key}, {handle}");
        ptx!(self, "mov.b64 {entry}, 0");
        self.writer.place(next);
        let (none, hit, there) = (self.reg(Class::Pred), self.reg(Class::Pred), self.reg(Class::B64));
        ptx!(self, "setp.eq.u32 {none}, {left}, 0");
        ptx!(self, "@{none} bra {done}");
        ptx!(self, "ld.global.b64 {there}, [{here}]");
        ptx!(self, "setp.eq.s64 {hit}, {there}, {handle}");
        ptx!(self, "@{hit} mov.b64 {entry}, {here}");
        ptx!(self, "@{hit} bra {done}");
        ptx!(self, "add.s64 {here}, {here}, {}", abi::HANDLE_ENTRY);
        ptx!(self, "sub.u32 {left}, {left}, 1");
        ptx!(self, "bra {next}");
        self.writer.place(done);
        if self.options.checked {
            let (known, fine) = (self.reg(Class::Pred), self.reg(Class::Pred));
            ptx!(self, "setp.ne.s64 {known}, {entry}, 0");
            ptx!(self, "setp.eq.or.s64 {fine}, {handle}, 0, {known}");
            self.fault_unless(fine, abi::FaultCode::UnknownHandle, |_| Fault {
                offset: Some(handle),
                ..Fault::default()
            });
        }
        entry
    }
}
