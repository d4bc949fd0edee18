//! Lowering of tensor element accesses to index arithmetic, checks and memory accesses.

use anymetal_formats::ElementFormat;
use anymetal_ir::{ArgumentKind, BinaryOp, Bounds, Extent, Scalar, TensorRef, ValueId};

use super::lower::Lower;
use super::program::{Access, Inst, Reach, Reg, Varies, View, ViewExtent, ViewScales};
use crate::compile::classify::Class;
use crate::fault::{AccessKind, CompileError};
use crate::lanes::convert;
use anymetal_ir::passes::effects::Root;

/// Where an element is.
struct Place {
    /// Address of the element, or of the tensor for formats of less than a byte.
    pointer: Reg,
    /// Bit offset for formats of less than a byte.
    bit: Option<Reg>,
    predicate: Option<Reg>,
}

impl Lower<'_> {
    fn tensor_name(&self, tensor: &TensorRef) -> String {
        let bound = match self.effects.roots(tensor.pointer).only() {
            Some(Root::Argument(argument)) => Some(argument),
            _ => tensor.root,
        };
        bound
            .and_then(|root| self.kernel.arguments.get(root.index()))
            .map_or_else(|| format!("{} tensor", tensor.space), |argument| argument.name.clone())
    }

    /// The registers of a view.
    pub fn view(&mut self, tensor: &TensorRef) -> Result<View, CompileError> {
        let rank = tensor.origin.len();
        if tensor.base_extents.len() != rank || tensor.strides.len() != rank || tensor.extents.len() != rank {
            return Err(self.malformed("a tensor view whose parts differ in rank"));
        }
        let mut extents = Vec::with_capacity(rank);
        for extent in &tensor.extents {
            extents.push(match extent {
                Extent::Rest => ViewExtent::Rest,
                Extent::Dynamic(value) => ViewExtent::Dynamic(self.value(*value)?),
                Extent::Static(extent) => ViewExtent::Static(*extent),
            });
        }
        let scales = match &tensor.scales {
            Some(plane) => Some(ViewScales {
                pointer: self.value(plane.pointer)?,
                format: plane.format,
                block: plane.block.clone(),
                strides: self.all(&plane.strides)?,
            }),
            None => None,
        };
        let mut view = View {
            pointer: self.value(tensor.pointer)?,
            format: tensor.format,
            base_extents: self.all(&tensor.base_extents)?,
            strides: self.all(&tensor.strides)?,
            origin: self.all(&tensor.origin)?,
            extents,
            scales,
            varies: Varies::Nothing,
            name: self.tensor_name(tensor),
        };
        let mut varying = 0;
        view.visit(&mut |reg, _| varying += usize::from(!reg.is_uniform()));
        let origin = view.origin.iter().position(|reg| !reg.is_uniform());
        // What is left from an origin on varies with it.
        let extent = |dimension: usize| match view.extents[dimension] {
            ViewExtent::Dynamic(reg) => usize::from(!reg.is_uniform()),
            _ => 0,
        };
        view.varies = match origin {
            None if varying == 0 => Varies::Nothing,
            Some(dimension) if varying == 1 + extent(dimension) => Varies::Origin(dimension as u8),
            _ => Varies::More,
        };
        Ok(view)
    }

    /// What is left of the base in a dimension, further bounded by the view's own extent.
    fn bound(&mut self, view: &View, dimension: usize) -> Result<Reg, CompileError> {
        let rest = self.int2(BinaryOp::Sub, view.base_extents[dimension], view.origin[dimension])?;
        let own = match view.extents[dimension] {
            ViewExtent::Rest => return Ok(rest),
            ViewExtent::Dynamic(reg) => reg,
            ViewExtent::Static(extent) => self.constant(8, extent),
        };
        self.int2(BinaryOp::Min, rest, own)
    }

    /// `Σ (origin + index) · stride`, in elements.
    fn linear(&mut self, view: &View, indices: &[Reg]) -> Result<Reg, CompileError> {
        let mut sum = self.constant(8, 0);
        for (dimension, &index) in indices.iter().enumerate() {
            let at = self.int2(BinaryOp::Add, view.origin[dimension], index)?;
            let scaled = self.int2(BinaryOp::Mul, at, view.strides[dimension])?;
            sum = self.int2(BinaryOp::Add, sum, scaled)?;
        }
        Ok(sum)
    }

    fn place(
        &mut self,
        tensor: &TensorRef,
        indices: &[ValueId],
        bounds: Option<Bounds>,
        access: AccessKind,
    ) -> Result<Place, CompileError> {
        let view = self.view(tensor)?;
        if indices.len() != view.origin.len() {
            return Err(self.malformed("a tensor access with another number of indices than its rank"));
        }
        let mut indices = self.all(indices)?;
        let mut predicate = None;
        if let Some(bounds) = bounds {
            let mut extents = Vec::with_capacity(indices.len());
            for dimension in 0..indices.len() {
                extents.push(self.bound(&view, dimension)?);
            }
            match bounds {
                Bounds::Fault => self.push(Inst::CheckIndex {
                    access,
                    indices: indices.clone(),
                    extents,
                    name: view.name.clone(),
                }),
                Bounds::Clip => {
                    for (index, &extent) in indices.iter_mut().zip(&extents) {
                        *index = self.broadcast_index(*index, extent);
                    }
                    let class = match self.joined(&indices).max(self.joined(&extents)) {
                        Class::Uniform => Class::Uniform,
                        _ => Class::Plain,
                    };
                    let out = self.register(1, class, false);
                    self.push(Inst::InRange {
                        out,
                        indices: indices.clone(),
                        extents,
                    });
                    predicate = Some(out);
                }
            }
        }
        self.check_reach(tensor, &view, &indices, bounds.is_some(), predicate, access);
        let linear = self.linear(&view, &indices)?;
        let bits = view.format.bits();
        if bits < 8 {
            let bits = self.constant(8, bits as u64);
            let bit = self.int2(BinaryOp::Mul, linear, bits)?;
            return Ok(Place {
                pointer: view.pointer,
                bit: Some(bit),
                predicate,
            });
        }
        let bytes = self.constant(8, bits as u64 / 8);
        let offset = self.int2(BinaryOp::Mul, linear, bytes)?;
        Ok(Place {
            pointer: self.pointer_offset(view.pointer, offset),
            bit: None,
            predicate,
        })
    }

    /// A check that an element's offset does not wrap around. A tensor that the host binds fits into its memory, so it needs none.
    fn check_reach(
        &mut self,
        tensor: &TensorRef,
        view: &View,
        indices: &[Reg],
        bounded: bool,
        predicate: Option<Reg>,
        access: AccessKind,
    ) {
        if let Some(Root::Argument(argument)) = self.effects.roots(tensor.pointer).only()
            && let Some(argument) = self.kernel.arguments.get(argument.index())
            && matches!(argument.kind, ArgumentKind::Tensor { .. })
        {
            return;
        }
        let known = |regs: &[Reg]| -> Option<Vec<i128>> {
            let one = |reg: &Reg| self.as_constant(*reg).map(|c| i128::from(c as i64));
            regs.iter().map(one).collect()
        };
        if bounded
            && let (Some(extents), Some(strides)) = (known(&view.base_extents), known(&view.strides))
            && known(&view.origin).is_some_and(|origin| origin.iter().all(|o| (0..1 << 40).contains(o)))
        {
            let reach = extents
                .iter()
                .zip(&strides)
                .map(|(e, s)| e.abs().max(1 << 40) * s.abs());
            if reach.fold(0i128, i128::saturating_add) < 1 << 56 {
                return;
            }
        }
        self.push(Inst::CheckReach(Box::new(Reach {
            access,
            pointer: view.pointer,
            indices: indices.to_vec(),
            origin: view.origin.clone(),
            strides: view.strides.clone(),
            extents: bounded.then(|| view.base_extents.clone()),
            bits: view.format.bits() as u8,
            predicate,
        })));
    }

    /// An index into a dimension of extent 1 is 0.
    fn broadcast_index(&mut self, index: Reg, extent: Reg) -> Reg {
        let (zero, one) = (self.constant(8, 0), self.constant(8, 1));
        match self.as_constant(extent) {
            Some(1) => return zero,
            Some(_) => return index,
            None => {}
        }
        let pure = |class: Class| match class {
            Class::Uniform => Class::Uniform,
            _ => Class::Plain,
        };
        let class = pure(self.class(extent));
        let single = self.register(1, class, false);
        self.push(Inst::Op2 {
            f: convert::compare(anymetal_ir::CompareOp::Eq, Scalar::I64, self.isa),
            out: single,
            a: extent,
            b: one,
        });
        let class = pure(self.joined(&[single, index]));
        let out = self.register(8, class, false);
        self.push(Inst::Op3 {
            f: convert::select(8, self.isa),
            out,
            a: single,
            b: zero,
            c: index,
        });
        out
    }

    /// `T[…]` or `get(…)` as a value.
    pub fn tensor_load(
        &mut self,
        result: ValueId,
        tensor: &TensorRef,
        indices: &[ValueId],
        bounds: Bounds,
    ) -> Result<(), CompileError> {
        let place = self.place(tensor, indices, Some(bounds), AccessKind::Read)?;
        let size = tensor.format.bytes_for(1) as u8;
        let Some(bit) = place.bit else {
            let out = self.define(result);
            self.push(Inst::Load(Box::new(Access {
                pointer: place.pointer,
                values: vec![out],
                size,
                boolean: tensor.format == ElementFormat::Bool,
                align: u32::from(size),
                predicate: place.predicate,
            })));
            return Ok(());
        };
        let three = self.constant(8, 3);
        let byte = self.binary(BinaryOp::Shr, Scalar::I64, bit, three)?;
        let pointer = self.pointer_offset(place.pointer, byte);
        let class = match self.class(pointer) {
            Class::Uniform if tensor.space != anymetal_ir::AddressSpace::Thread => Class::Uniform,
            _ => Class::Plain,
        };
        let class = match place.predicate {
            Some(predicate) => class.max(self.class(predicate)),
            None => class,
        };
        let code = self.register(1, class, false);
        self.push(Inst::Load(Box::new(Access {
            pointer,
            values: vec![code],
            size: 1,
            boolean: false,
            align: 1,
            predicate: place.predicate,
        })));
        let seven = self.constant(8, 7);
        let shift = self.binary(BinaryOp::And, Scalar::I64, bit, seven)?;
        let class = match self.class(shift) {
            Class::Uniform => Class::Uniform,
            _ => Class::Plain,
        };
        let short = self.register(1, class, false);
        self.push(Inst::Op1 {
            f: convert::convert(Scalar::I64, Scalar::U8, self.isa),
            out: short,
            a: shift,
        });
        let shifted = self.plain_byte(BinaryOp::Shr, code, short, None)?;
        let mask = self.constant(1, (1 << tensor.format.bits()) - 1);
        self.plain_byte(BinaryOp::And, shifted, mask, Some(result))?;
        Ok(())
    }

    fn plain_byte(&mut self, op: BinaryOp, a: Reg, b: Reg, result: Option<ValueId>) -> Result<Reg, CompileError> {
        let class = match self.joined(&[a, b]) {
            Class::Uniform => Class::Uniform,
            _ => Class::Plain,
        };
        let f = crate::lanes::int::binary(op, Scalar::U8, self.isa).ok_or_else(|| self.malformed("bit arithmetic"))?;
        let out = match result {
            Some(result) => self.define(result),
            None => self.register(1, class, false),
        };
        self.push(Inst::Op2 { f, out, a, b });
        Ok(out)
    }

    /// `T[…] = value` or `set(…)`.
    pub fn tensor_store(
        &mut self,
        tensor: &TensorRef,
        indices: &[ValueId],
        value: ValueId,
        bounds: Bounds,
    ) -> Result<(), CompileError> {
        let place = self.place(tensor, indices, Some(bounds), AccessKind::Write)?;
        let value = self.value(value)?;
        match place.bit {
            Some(bit) => self.push(Inst::StoreBits {
                pointer: place.pointer,
                bit,
                value,
                bits: tensor.format.bits() as u8,
                predicate: place.predicate,
            }),
            None => self.push(Inst::Store(Box::new(Access {
                pointer: place.pointer,
                values: vec![value],
                size: value.size,
                boolean: false,
                align: u32::from(value.size),
                predicate: place.predicate,
            }))),
        }
        Ok(())
    }

    /// `&T[…]`.
    pub fn tensor_pointer(
        &mut self,
        result: ValueId,
        tensor: &TensorRef,
        indices: &[ValueId],
    ) -> Result<(), CompileError> {
        let place = self.place(tensor, indices, None, AccessKind::Read)?;
        if place.bit.is_some() {
            return Err(self.unsupported(format!("the address of an element of {}", tensor.format.msl_name())));
        }
        self.bind(result, place.pointer);
        Ok(())
    }
}
