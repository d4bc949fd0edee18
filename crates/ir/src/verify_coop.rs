//! The verifier's rules for cooperative tensors, maps and products.

use crate::op::{Op, ReduceAxis};
use crate::tensor::{ConvolutionDescriptor, CoopRole, Cooperative, MatmulDescriptor, Operand, TensorRef, tile_scalar};
use crate::types::{CoopId, Scalar, Type};
use crate::verify::{Check, Problem, Verifier, writable};

impl Verifier<'_> {
    pub(crate) fn map_rules(&self, op: &Op) -> Check {
        let Some(over) = self.map else {
            return match op {
                Op::CoopElement(_) | Op::CoopElementSet { .. } | Op::CoopElementIndex => Err(Problem::OutsideMap),
                _ => Ok(()),
            };
        };
        let allowed = op.is_pure()
            || matches!(
                op,
                Op::LocalGet(_)
                    | Op::LocalSet { .. }
                    | Op::Load { .. }
                    | Op::TensorLoad { .. }
                    | Op::Store { .. }
                    | Op::TensorStore { .. }
                    | Op::TensorQuery { .. }
                    | Op::CoopElement(_)
                    | Op::CoopElementSet { .. }
                    | Op::CoopElementIndex
                    | Op::If { .. }
                    | Op::Scope { .. }
                    | Op::Loop { .. }
                    | Op::Break(_)
                    | Op::Continue(_)
            );
        let slots = matches!(op, Op::CoopValid { .. } | Op::CoopIndex { .. } | Op::CoopMapSlot { .. });
        if !allowed || slots {
            return Err(Problem::InsideMap);
        }
        if let Op::CoopElement(coop) | Op::CoopElementSet { coop, .. } = op {
            let (tile, element) = (self.coop(over)?, self.coop(*coop)?);
            let same = tile.layout() == element.layout()
                || (!is_reduction(tile)
                    && !is_reduction(element)
                    && (tile.rows, tile.columns, tile.layout, tile.simdgroups)
                        == (element.rows, element.columns, element.layout, element.simdgroups));
            let mapped = matches!(op, Op::CoopElement(_))
                && !is_reduction(tile)
                && match element.role {
                    CoopRole::RowReduction => element.rows == tile.rows,
                    CoopRole::ColumnReduction => element.columns == tile.columns,
                    _ => false,
                };
            if !same && !mapped {
                return Err(Problem::Cooperative {
                    coop: *coop,
                    rule: "its shape or layout is not that of the map",
                });
            }
        }
        Ok(())
    }

    pub(crate) fn coop_op(&self, op: &Op) -> Result<Vec<Type>, Problem> {
        let one = |ty: Type| Ok(vec![ty]);
        let none = Ok(Vec::new());
        let i32s = |coop: &Cooperative| vec![Type::Scalar(Scalar::I32); if is_reduction(coop) { 1 } else { 2 }];
        let rule = |coop: CoopId, rule: &'static str| Err(Problem::Cooperative { coop, rule });
        match op {
            Op::CoopInit(coop) => self.coop(*coop).and(none),
            Op::CoopCopy { to, from } => {
                let (a, b) = (self.coop(*to)?, self.coop(*from)?);
                if a.layout() != b.layout() || a.element != b.element {
                    return rule(*to, "a copy needs the same role, shape, layout and element type");
                }
                none
            }
            Op::CoopGet { coop, slot } => {
                self.expect(*slot, Scalar::I32)?;
                one(self.coop(*coop)?.element.into())
            }
            Op::CoopSet { coop, slot, value } => {
                self.expect(*slot, Scalar::I32)?;
                self.expect(*value, self.coop(*coop)?.element).and(none)
            }
            Op::CoopValid { coop, slot } => {
                self.coop(*coop)?;
                self.expect(*slot, Scalar::I32)?;
                one(Scalar::Bool.into())
            }
            Op::CoopIndex { coop, slot } => {
                self.expect(*slot, Scalar::I32)?;
                Ok(i32s(self.coop(*coop)?))
            }
            Op::CoopMapSlot { to, from, slot } => {
                self.expect(*slot, Scalar::I32)?;
                let (to_tile, from_tile) = (self.coop(*to)?, self.coop(*from)?);
                if !reduces(to_tile, from_tile) {
                    return rule(*to, "it is no reduction tensor of the tile that it is mapped from");
                }
                one(Scalar::I32.into())
            }
            Op::CoopLoad { coop, tensor } | Op::CoopStore { coop, tensor } => {
                let tile = self.coop(*coop)?;
                self.tensor(tensor)?;
                if tile_scalar(tensor.format) != tile.element {
                    return rule(*coop, "its element type is not the tensor's");
                }
                if matches!(op, Op::CoopStore { .. }) {
                    writable(tensor.space)?;
                }
                match (is_reduction(tile), tile.spatial.is_some(), tensor.origin.len()) {
                    (true, _, 1) | (false, false, 1 | 2) | (false, true, 1 | 4) => none,
                    _ => rule(*coop, "the tensor's rank does not fit it"),
                }
            }
            Op::CoopConvert { to, from } => {
                let (a, b) = (self.coop(*to)?, self.coop(*from)?);
                if b.role != CoopRole::Destination || !matches!(a.role, CoopRole::Left | CoopRole::Right) {
                    return rule(*to, "a destination is converted into an input");
                }
                if (a.rows, a.columns, a.element) != (b.rows, b.columns, b.element) {
                    return rule(*to, "a conversion keeps shape and element type");
                }
                none
            }
            Op::CoopCompatible { to, from } | Op::CoopIteratorCompatible { from, to } => {
                self.coop(*to)?;
                self.coop(*from)?;
                one(Scalar::Bool.into())
            }
            Op::CoopReduce {
                to,
                from,
                axis,
                identity,
                ..
            } => {
                let (a, b) = (self.coop(*to)?, self.coop(*from)?);
                let role = match axis {
                    ReduceAxis::Rows => CoopRole::RowReduction,
                    ReduceAxis::Columns => CoopRole::ColumnReduction,
                };
                if a.role != role || !reduces(a, b) || a.element != b.element {
                    return rule(*to, "it is no reduction tensor of the tile that is reduced");
                }
                self.expect(*identity, a.element).and(none)
            }
            Op::CoopMap { over, .. } => self.coop(*over).and(none),
            Op::CoopElement(coop) => one(self.coop(*coop)?.element.into()),
            Op::CoopElementSet { coop, value } => self.expect(*value, self.coop(*coop)?.element).and(none),
            Op::CoopElementIndex => match self.map {
                Some(over) => Ok(i32s(self.coop(over)?)),
                None => Err(Problem::OutsideMap),
            },
            _ => none,
        }
    }

    pub(crate) fn matmul(
        &self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        left: &Operand,
        right: &Operand,
        destination: &Operand,
    ) -> Check {
        let MatmulDescriptor { m, n, k, .. } = *descriptor;
        if m == 0 || n == 0 || k == Some(0) {
            return Err(Problem::Rule("a product has no empty side"));
        }
        let flip = |transposed: bool, rows: Option<u32>, columns: Option<u32>| {
            if transposed { (columns, rows) } else { (rows, columns) }
        };
        let (m, n) = (Some(m), Some(n));
        let operands = [
            (left, CoopRole::Left, flip(descriptor.transpose_left, m, k)),
            (right, CoopRole::Right, flip(descriptor.transpose_right, k, n)),
            (destination, CoopRole::Destination, (m, n)),
        ];
        for (operand, role, (rows, columns)) in operands {
            match operand {
                Operand::Tensor(tensor) => {
                    self.tensor(tensor)?;
                    if tensor.origin.len() != 2 {
                        return Err(Problem::Rank {
                            part: "view in a product",
                            found: 2,
                            rank: tensor.origin.len(),
                        });
                    }
                    if role == CoopRole::Destination {
                        writable(tensor.space)?;
                    }
                }
                Operand::Coop(id) => {
                    let coop = self.coop(*id)?;
                    let rule = |rule| Err(Problem::Cooperative { coop: *id, rule });
                    if coop.role != role {
                        return rule("its role does not fit the operand");
                    }
                    if rows.is_some_and(|rows| rows != coop.rows)
                        || columns.is_some_and(|columns| columns != coop.columns)
                    {
                        return rule("its shape does not fit the product");
                    }
                    if coop.simdgroups != simdgroups {
                        return rule("its scope is not that of the product");
                    }
                }
            }
        }
        Ok(())
    }
}

impl Verifier<'_> {
    pub(crate) fn convolution(
        &self,
        descriptor: &ConvolutionDescriptor,
        simdgroups: u32,
        activation: &TensorRef,
        weights: &TensorRef,
        destination: &Operand,
    ) -> Check {
        let d = descriptor;
        let sizes = d.destination.iter().chain(&d.source).chain(&d.kernel);
        if sizes.chain(&d.strides).chain(&d.dilations).any(|&size| size == 0) || simdgroups == 0 {
            return Err(Problem::Rule("a convolution has no empty side"));
        }
        let rank_of = |tensor: &TensorRef| {
            self.tensor(tensor)?;
            match tensor.origin.len() {
                4 => Ok(()),
                rank => Err(Problem::Rank {
                    part: "view in a convolution",
                    found: 4,
                    rank,
                }),
            }
        };
        rank_of(activation)?;
        rank_of(weights)?;
        match destination {
            Operand::Tensor(tensor) => {
                rank_of(tensor)?;
                writable(tensor.space)
            }
            Operand::Coop(id) => {
                let coop = self.coop(*id)?;
                let rule = |rule| Err(Problem::Cooperative { coop: *id, rule });
                let [columns, width, height, batch] = d.destination;
                if coop.role != CoopRole::Destination || coop.spatial != Some([width, height, batch]) {
                    return rule("it is no destination of a convolution of this shape");
                }
                if u64::from(coop.rows) != d.places() || coop.columns != columns {
                    return rule("its shape does not fit the convolution");
                }
                if coop.simdgroups != simdgroups {
                    return rule("its scope is not that of the convolution");
                }
                Ok(())
            }
        }
    }
}

fn is_reduction(coop: &Cooperative) -> bool {
    matches!(coop.role, CoopRole::RowReduction | CoopRole::ColumnReduction)
}

/// True if `to` has one element for each row (or column) of `from`.
fn reduces(to: &Cooperative, from: &Cooperative) -> bool {
    !is_reduction(from)
        && match to.role {
            CoopRole::RowReduction => to.rows == from.rows,
            CoopRole::ColumnReduction => to.columns == from.columns,
            _ => false,
        }
}
