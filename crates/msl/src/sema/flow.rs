//! Conditions, loops, switches and what leaves them.

use std::sync::Arc;

use super::context::*;
use super::types::*;
use super::value::*;
use crate::ast::{
    BinOp, BuiltinTy, Condition, Decl, Expr, ExprKind, Ident, Init, IntSuffix, LoopHints, Name, Path, PathRoot, Quals,
    Segment, Specifiers, Stmt, StmtKind, Ty, TyKind, UnOp, Unroll, VarDecl,
};
use crate::source::Span;
use anymetal_ir::{BinaryOp, Block, CompareOp, Op, Scalar, UnaryOp, Unroll as IrUnroll};

impl Sema<'_> {
    /// Evaluates a condition.
    pub(super) fn condition(&mut self, cond: &Condition) -> Res<Leaf> {
        match cond {
            Condition::Expr(e) => {
                let operand = self.expr(e)?;
                self.to_bool(operand, e.span)
            }
            Condition::Var(v) => {
                self.local_variable(v)?;
                let Some(name) = &v.name else {
                    return Err(Fail::Reported);
                };
                match self.lookup(&name.name, name.span)? {
                    Some(Entity::Variable(operand, _)) => self.to_bool(operand, v.span),
                    _ => Err(Fail::Reported),
                }
            }
        }
    }

    pub(super) fn if_statement(
        &mut self,
        is_constexpr: bool,
        cond: &Condition,
        then: &Stmt,
        otherwise: Option<&Stmt>,
    ) -> Res<Flow> {
        if is_constexpr {
            let leaf = self.in_const_mode(|s| s.condition(cond))?;
            let Some(known) = self.const_of(&leaf) else {
                let span = match cond {
                    Condition::Expr(e) => e.span,
                    Condition::Var(v) => v.span,
                };
                return self.err(
                    "E0420",
                    "this is not a constant expression: its value is known at run time only",
                    span,
                );
            };
            return match (known.bits != 0, otherwise) {
                (true, _) => self.scoped(|s| s.statement(then)),
                (false, Some(otherwise)) => self.scoped(|s| s.statement(otherwise)),
                (false, None) => Ok(Flow::Next),
            };
        }
        let leaf = self.condition(cond)?;
        if let Some(known) = self.const_of(&leaf) {
            let (taken, dead) = if known.bits != 0 {
                (Some(then), otherwise)
            } else {
                (otherwise, Some(then))
            };
            if self.const_eval == 0
                && let Some(dead) = dead
            {
                self.dead(dead);
            }
            return match taken {
                Some(taken) => self.scoped(|s| s.statement(taken)),
                None => Ok(Flow::Next),
            };
        }
        self.foldable()?;
        let condition = self.materialize(&leaf)?;
        let (then, left) = self.deeper(|s| s.block_of(|s| s.scoped(|s| s.statement(then))))?;
        let (otherwise, right) = match otherwise {
            Some(stmt) => self.deeper(|s| s.block_of(|s| s.scoped(|s| s.statement(stmt))))?,
            None => (Block::default(), Flow::Next),
        };
        self.locate();
        self.builder.if_(condition, then, otherwise);
        Ok(match (left, right) {
            (Flow::Left, Flow::Left) => Flow::Left,
            _ => Flow::Next,
        })
    }

    /// Checks a statement that never runs.
    pub(super) fn dead(&mut self, stmt: &Stmt) {
        let depth = self.control.len();
        let at = self.function_control();
        let saved = at.map(|i| match &mut self.control[i] {
            Control::Function(target) => {
                let ty = target.ty.clone();
                let is_kernel = target.is_kernel;
                let former = std::mem::take(target);
                target.ty = ty;
                target.is_kernel = is_kernel;
                target.depth = 1;
                former
            }
            _ => ReturnTarget::default(),
        });
        self.thrown_away += 1;
        let result = self.block_of(|s| s.scoped(|s| s.statement(stmt)));
        self.thrown_away -= 1;
        self.control.truncate(depth);
        if let (Some(i), Some(saved)) = (at, saved)
            && let Some(Control::Function(target)) = self.control.get_mut(i)
        {
            *target = saved;
        }
        if let Err(fail) = result {
            self.report_fail(fail);
        }
    }

    /// A loop of the constant evaluator.
    pub(super) fn const_loop(&mut self, cond: Option<&Condition>, step: Option<&Expr>, body: &Stmt) -> Res<Flow> {
        loop {
            self.step(body.span)?;
            if let Some(cond) = cond {
                let leaf = self.condition(cond)?;
                match self.const_of(&leaf) {
                    Some(c) if c.bits == 0 => return Ok(Flow::Next),
                    Some(_) => {}
                    None => return self.foldable().map(|()| Flow::Next),
                }
            }
            match self.scoped(|s| s.statement(body))? {
                Flow::Break => return Ok(Flow::Next),
                flow @ Flow::Return(_) => return Ok(flow),
                _ => {}
            }
            if let Some(step) = step {
                self.expr(step)?;
            }
        }
    }

    pub(super) fn unroll(&mut self, hints: &LoopHints) -> Res<IrUnroll> {
        Ok(match &hints.unroll {
            None => IrUnroll::Default,
            Some((Unroll::Full, _)) => IrUnroll::Full,
            Some((Unroll::Enable, _)) => IrUnroll::Default,
            Some((Unroll::Disable, _)) => IrUnroll::Never,
            Some((Unroll::Count(e), span)) => {
                let c = self.constant_expr(e)?;
                match c.as_int() {
                    Some(n) if n > 0 && n <= 1 << 20 => IrUnroll::Count(n as u32),
                    _ => return self.err("E0541", "an unroll count must be positive", *span),
                }
            }
        })
    }

    pub(super) fn run_loop(
        &mut self,
        cond: Option<&Condition>,
        step: Option<&Expr>,
        body: &Stmt,
        unroll: IrUnroll,
    ) -> Res<Flow> {
        let depth = self.control.len();
        self.control.push(Control::Loop);
        let result = self.deeper(|s| {
            let (block, endless) = s.block_of(|s| {
                let mut endless = true;
                if let Some(cond) = cond {
                    let leaf = s.condition(cond)?;
                    match s.const_of(&leaf) {
                        Some(c) if c.bits != 0 => {}
                        Some(_) => {
                            s.builder.emit_void(Op::Break(0));
                            return Ok(false);
                        }
                        None => {
                            endless = false;
                            s.exit_unless(&leaf)?;
                        }
                    }
                }
                s.scoped(|s| s.statement(body))?;
                Ok(endless)
            })?;
            let (latch, ()) = s.block_of(|s| match step {
                Some(step) => s.expr(step).map(|_| ()),
                None => Ok(()),
            })?;
            Ok((block, latch, endless))
        });
        self.control.truncate(depth);
        let (block, latch, _endless) = result?;
        self.locate();
        self.builder.loop_(block, latch, unroll);
        Ok(Flow::Next)
    }

    /// `if (!condition) break;` of the innermost loop or scope.
    pub(super) fn exit_unless(&mut self, leaf: &Leaf) -> Res<()> {
        let mode = self.math;
        let not = self.unary_leaf(UnaryOp::Not, leaf, mode)?;
        let condition = self.materialize(&not)?;
        self.builder.push_block();
        self.builder.emit_void(Op::Break(0));
        let block = self.builder.pop_block();
        self.builder.if_(condition, block, Block::default());
        Ok(())
    }

    pub(super) fn do_while(&mut self, body: &Stmt, cond: &Expr, hints: &LoopHints) -> Res<Flow> {
        if self.const_eval > 0 {
            loop {
                self.step(body.span)?;
                match self.scoped(|s| s.statement(body))? {
                    Flow::Break => return Ok(Flow::Next),
                    flow @ Flow::Return(_) => return Ok(flow),
                    _ => {}
                }
                let operand = self.expr(cond)?;
                let leaf = self.to_bool(operand, cond.span)?;
                match self.const_of(&leaf) {
                    Some(c) if c.bits == 0 => return Ok(Flow::Next),
                    Some(_) => {}
                    None => return self.foldable().map(|()| Flow::Next),
                }
            }
        }
        let unroll = self.unroll(hints)?;
        let depth = self.control.len();
        self.control.push(Control::Loop);
        let result = self.deeper(|s| {
            s.block_of(|s| {
                s.control.push(Control::DoBody);
                let inner = s.block_of(|s| s.scoped(|s| s.statement(body)));
                s.control.pop();
                let (block, _) = inner?;
                s.builder.emit_void(Op::Scope { body: block });
                let operand = s.expr(cond)?;
                let leaf = s.to_bool(operand, cond.span)?;
                match s.const_of(&leaf) {
                    Some(c) if c.bits != 0 => {}
                    Some(_) => s.builder.emit_void(Op::Break(0)),
                    None => s.exit_unless(&leaf)?,
                }
                Ok(())
            })
        });
        self.control.truncate(depth);
        let (block, ()) = result?;
        self.builder.loop_(block, Block::default(), unroll);
        Ok(Flow::Next)
    }

    pub(super) fn break_statement(&mut self, span: Span) -> Res<Flow> {
        if self.const_eval > 0 {
            return Ok(Flow::Break);
        }
        let mut depth = 0;
        for control in self.control.iter().rev() {
            match control {
                Control::Loop | Control::Switch => {
                    self.builder.emit_void(Op::Break(depth));
                    return Ok(Flow::Left);
                }
                Control::DoBody => depth += 1,
                Control::Function(_) => break,
                Control::Unrolled => {
                    return self.err("E0542", "'break' in a loop that is unrolled", span);
                }
            }
        }
        self.err("E0542", "'break' outside of a loop or 'switch'", span)
    }

    pub(super) fn continue_statement(&mut self, span: Span) -> Res<Flow> {
        if self.const_eval > 0 {
            return Ok(Flow::Continue);
        }
        let mut depth = 0;
        for control in self.control.iter().rev() {
            match control {
                Control::Loop => {
                    self.builder.emit_void(Op::Continue(depth));
                    return Ok(Flow::Left);
                }
                Control::DoBody => {
                    self.builder.emit_void(Op::Break(depth));
                    return Ok(Flow::Left);
                }
                Control::Switch => depth += 1,
                Control::Function(_) => break,
                Control::Unrolled => {
                    return self.err("E0543", "'continue' in a loop that is unrolled", span);
                }
            }
        }
        self.err("E0543", "'continue' outside of a loop", span)
    }

    pub(super) fn return_statement(&mut self, e: Option<&Expr>, span: Span) -> Res<Flow> {
        let Some(at) = self.function_control() else {
            return self.err("E0544", "'return' outside of a function", span);
        };
        let (ty, is_kernel) = match &self.control[at] {
            Control::Function(target) => (target.ty.clone(), target.is_kernel),
            _ => (None, false),
        };
        let operand = match e {
            None => Operand::void(),
            Some(e) => {
                let arg = self.arg(e)?;
                if std::mem::take(&mut self.tail_taken) {
                    return Ok(Flow::Left);
                }
                self.returned(&arg, ty.as_ref(), e.span)?
            }
        };
        if let Some(t) = &ty
            && t.ty != Type::Void
            && e.is_none()
        {
            return self.err(
                "E0545",
                format!("this function must return a '{}'", self.qual_name(t)),
                span,
            );
        }
        self.at(span);
        if self.const_eval > 0 {
            return Ok(Flow::Return(operand));
        }
        if is_kernel {
            self.builder.emit_void(Op::Return);
            return Ok(Flow::Left);
        }
        let breaks = self.control[at + 1..]
            .iter()
            .filter(|c| !matches!(c, Control::Unrolled))
            .count() as u32;
        let (depth, has_slots) = match &self.control[at] {
            Control::Function(target) => (target.depth, target.slots.is_some()),
            _ => (0, false),
        };
        if depth == 0 && !has_slots {
            if let Control::Function(target) = &mut self.control[at] {
                target.value = Some(operand);
            }
            return Ok(Flow::Left);
        }
        if *operand.ty() != Type::Void {
            self.store_result(at, operand, ty.as_ref(), span)?;
        }
        if depth > 0 {
            self.builder.emit_void(Op::Break(breaks));
            if let Control::Function(target) = &mut self.control[at] {
                target.used = true;
            }
        }
        Ok(Flow::Left)
    }

    /// The returned operand, converted to the declared type.
    pub(super) fn returned(&mut self, arg: &Arg, ty: Option<&QualType>, span: Span) -> Res<Operand> {
        match ty {
            Some(t) if t.is_reference() => Ok(self.bind_reference(t, arg, span)?.into()),
            Some(t) if t.ty == Type::Void => Ok(Operand::void()),
            Some(t) => Ok(self.init(&t.ty, arg, span)?.into()),
            None => match arg {
                Arg::Operand(operand, _) => {
                    let operand = self.decay(operand.clone(), span)?;
                    if let Operand::Place(place) = &operand
                        && let (Place::Slots(_), Type::Object(_)) = (&place.place, &place.ty)
                    {
                        // The object itself leaves the function.
                        return Ok(self.load(place)?.into());
                    }
                    Ok(self.rvalue_copy(operand)?.into())
                }
                Arg::List(..) => self.err("E0447", "the returned type cannot be deduced from a braced list", span),
            },
        }
    }

    pub(super) fn store_result(&mut self, at: usize, operand: Operand, ty: Option<&QualType>, span: Span) -> Res<()> {
        let value = match (ty, operand) {
            (Some(t), Operand::Place(place)) if t.is_reference() => {
                let leaf = self.address_leaf(&place, span)?;
                let mut pointee = place.qual_type();
                pointee.is_const |= t.is_const;
                Value::one(super::tyres::pointer_to(pointee), leaf)
            }
            (_, operand) => self.rvalue(operand)?,
        };
        let existing = match &self.control[at] {
            Control::Function(target) => target.slots.clone(),
            _ => None,
        };
        let (ty, slots) = match existing {
            Some(slots) => slots,
            None => {
                let slots = if value.leaves.iter().all(|l| self.leaf_type(l).is_some()) {
                    self.new_slots("result", &value.ty)?
                } else {
                    // Cooperative tensors, references, functions: the same in every return.
                    value.leaves.iter().cloned().map(Slot::Fixed).collect()
                };
                let pair = (value.ty.clone(), slots);
                if let Control::Function(target) = &mut self.control[at] {
                    target.slots = Some(pair.clone());
                }
                pair
            }
        };
        if ty != value.ty {
            return self.err(
                "E0546",
                format!(
                    "this function returns '{}' here and '{}' elsewhere",
                    self.type_name(&value.ty),
                    self.type_name(&ty)
                ),
                span,
            );
        }
        let place = super::bind::slots_place(&ty, slots);
        self.store(&place, &value)
    }

    pub(super) fn switch(&mut self, cond: &Condition, body: &Stmt) -> Res<Flow> {
        let StmtKind::Compound(list) = &body.kind else {
            return self.err("E0547", "the body of a 'switch' must be a block", body.span);
        };
        let operand = match cond {
            Condition::Expr(e) => self.expr(e)?,
            Condition::Var(v) => {
                self.local_variable(v)?;
                let Some(name) = &v.name else {
                    return Err(Fail::Reported);
                };
                match self.lookup(&name.name, name.span)? {
                    Some(Entity::Variable(operand, _)) => operand,
                    _ => return Err(Fail::Reported),
                }
            }
        };
        let value = self.rvalue(operand)?;
        let value = match &value.ty {
            Type::Enum(id) => {
                let scalar = self.enums[id.index()].underlying;
                Value {
                    ty: scalar.into(),
                    leaves: value.leaves,
                }
            }
            Type::Scalar(s) if !s.is_float() => {
                let to = super::ops::promote(*s);
                self.convert(value.into(), &Type::Scalar(to), false, body.span)?
            }
            _ => {
                let operand = self.arithmetic(value.into(), body.span)?;
                self.rvalue(operand)?
            }
        };
        let Some(scalar) = value.ty.as_scalar().filter(|s| !s.is_float()) else {
            return self.err("E0548", "'switch' needs an integer", body.span);
        };
        // Segments: the labels before each group of statements.
        let mut segments: Vec<(Vec<Option<i128>>, Vec<&Stmt>)> = Vec::new();
        let mut seen: Vec<i128> = Vec::new();
        for stmt in list {
            let label = match &stmt.kind {
                StmtKind::Case(e) => {
                    let c = self.constant_expr(e)?;
                    let operand = self.operand_of(&c);
                    let v = self.convert(operand, &Type::Scalar(scalar), true, e.span)?;
                    let n = self.int_of(&v.leaves[0]);
                    if let Some(n) = n {
                        if seen.contains(&n) {
                            return self.err("E0549", format!("'case {n}' appears twice"), e.span);
                        }
                        seen.push(n);
                    }
                    Some(n)
                }
                StmtKind::Default => Some(None),
                _ => None,
            };
            match label {
                Some(label) => match segments.last_mut() {
                    Some((labels, stmts)) if stmts.is_empty() => labels.push(label),
                    _ => segments.push((vec![label], Vec::new())),
                },
                None => match segments.last_mut() {
                    Some((_, stmts)) => stmts.push(stmt),
                    None if matches!(stmt.kind, StmtKind::Decl(_) | StmtKind::Empty) => {}
                    None => {
                        return self.err("E0550", "this statement stands before the first 'case'", stmt.span);
                    }
                },
            }
        }
        let leaf = value.leaves[0].clone();
        if self.const_eval > 0 || self.int_of(&leaf).is_some() {
            return self.known_switch(&leaf, &segments);
        }
        self.switch_chain(&leaf, scalar, &segments)
    }

    pub(super) fn known_switch(&mut self, leaf: &Leaf, segments: &[(Vec<Option<i128>>, Vec<&Stmt>)]) -> Res<Flow> {
        let Some(n) = self.int_of(leaf) else {
            return self.foldable().map(|()| Flow::Next);
        };
        let start = segments
            .iter()
            .position(|(labels, _)| labels.contains(&Some(n)))
            .or_else(|| segments.iter().position(|(labels, _)| labels.contains(&None)));
        let Some(start) = start else {
            return Ok(Flow::Next);
        };
        if self.const_eval > 0 {
            for stmt in segments[start..].iter().flat_map(|(_, stmts)| stmts) {
                match self.statement(stmt)? {
                    Flow::Next | Flow::Left => {}
                    Flow::Break => return Ok(Flow::Next),
                    flow => return Ok(flow),
                }
            }
            return Ok(Flow::Next);
        }
        self.control.push(Control::Switch);
        let result = self.deeper(|s| {
            s.block_of(|s| {
                for stmt in segments[start..].iter().flat_map(|(_, stmts)| stmts) {
                    if matches!(s.statement(stmt)?, Flow::Left) {
                        break;
                    }
                }
                Ok(())
            })
        });
        self.control.pop();
        let (body, ()) = result?;
        self.builder.emit_void(Op::Scope { body });
        Ok(Flow::Next)
    }

    /// Segments as a chain of `if`s inside a scope: segment `i` runs if the first one to run is `i` or, where control can
    /// fall through, an earlier one.
    pub(super) fn switch_chain(
        &mut self,
        leaf: &Leaf,
        scalar: Scalar,
        segments: &[(Vec<Option<i128>>, Vec<&Stmt>)],
    ) -> Res<Flow> {
        let mode = self.math;
        let none = segments.len() as i128;
        let default = segments
            .iter()
            .position(|(labels, _)| labels.contains(&None))
            .map_or(none, |i| i as i128);
        let mut first = Self::int_leaf(Scalar::I32, default);
        for (i, (labels, _)) in segments.iter().enumerate() {
            let mut hit: Option<Leaf> = None;
            for n in labels.iter().flatten() {
                let n = Self::int_leaf(scalar, *n);
                let is = self.compare_leaf(CompareOp::Eq, leaf, &n)?;
                hit = Some(match hit {
                    Some(h) => self.binary_leaf(BinaryOp::Or, &h, &is, mode)?,
                    None => is,
                });
            }
            if let Some(hit) = hit {
                let i = Self::int_leaf(Scalar::I32, i as i128);
                first = self.select_leaf(&hit, &i, &first)?;
            }
        }
        let depth = self.control.len();
        self.control.push(Control::Switch);
        let scope = Env::names(&self.env.clone());
        let result = self.deeper(|s| {
            s.within(scope, |s| {
                s.block_of(|s| {
                    let mut falls = false;
                    for (i, (_, stmts)) in segments.iter().enumerate() {
                        let at = Self::int_leaf(Scalar::I32, i as i128);
                        let op = if falls { CompareOp::Le } else { CompareOp::Eq };
                        let run = s.compare_leaf(op, &first, &at)?;
                        let condition = s.materialize(&run)?;
                        let (block, left) = s.block_of(|s| {
                            for stmt in stmts {
                                if matches!(s.statement(stmt)?, Flow::Left) {
                                    return Ok(true);
                                }
                            }
                            Ok(false)
                        })?;
                        s.builder.if_(condition, block, Block::default());
                        falls = !left;
                    }
                    Ok(())
                })
            })
        });
        self.control.truncate(depth);
        let (body, ()) = result?;
        self.builder.emit_void(Op::Scope { body });
        Ok(Flow::Next)
    }

    /// `for (var : range) body`, as a counted loop over the elements of an array.
    pub(super) fn range_for(&mut self, var: &Arc<VarDecl>, range: &Expr, body: &Stmt, hints: &LoopHints) -> Res<Flow> {
        let operand = self.expr(range)?;
        let Type::Array(_, n) = operand.ty().clone() else {
            let name = self.type_name(operand.ty());
            return self.err_help(
                "E0559",
                format!("'{name}' is no array: a 'for' with ':' goes over the elements of arrays only"),
                range.span,
                "loop with an index",
            );
        };
        // Names that no source can have.
        let (array, counter) = (Name::from(" range"), Name::from(" index"));
        let place = self.place_of(operand)?;
        let ty = place.qual_type();
        self.env.bind(array.clone(), Entity::Variable(place.into(), ty));
        let span = range.span;
        let expr = |kind| Expr { kind, span };
        let named = |name: &Name| {
            expr(ExprKind::Path(Path {
                root: PathRoot::Scope,
                segments: vec![Segment {
                    ident: Ident {
                        name: name.clone(),
                        span,
                    },
                    args: None,
                    template_keyword: false,
                }],
                span,
            }))
        };
        let number = |n: u64| expr(ExprKind::Int(n, IntSuffix::default()));
        let element = VarDecl {
            init: Some(Init::Copy(expr(ExprKind::Index {
                base: Box::new(named(&array)),
                indices: vec![named(&counter)],
            }))),
            ..(**var).clone()
        };
        let start = VarDecl {
            ty: Ty {
                kind: TyKind::Builtin(BuiltinTy::Int),
                quals: Quals::default(),
                span,
            },
            name: Some(Ident {
                name: counter.clone(),
                span,
            }),
            init: Some(Init::Copy(number(0))),
            specs: Specifiers::default(),
            attrs: Vec::new(),
            ..(**var).clone()
        };
        let statement = |kind| Stmt { kind, span };
        let each = statement(StmtKind::Compound(vec![
            statement(StmtKind::Decl(vec![Decl::Var(Arc::new(element))])),
            body.clone(),
        ]));
        let whole = statement(StmtKind::For {
            init: Box::new(statement(StmtKind::Decl(vec![Decl::Var(Arc::new(start))]))),
            cond: Some(Condition::Expr(expr(ExprKind::Binary(
                BinOp::Lt,
                Box::new(named(&counter)),
                Box::new(number(n)),
            )))),
            step: Some(expr(ExprKind::Unary(UnOp::PreInc, Box::new(named(&counter))))),
            body: Box::new(each),
            hints: hints.clone(),
        });
        self.statement(&whole)
    }
}
