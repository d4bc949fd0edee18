//! Statements.

use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::{
    AddressSpace, BinaryOp, Block, CompareOp, Op, Scalar, UnaryOp, Unroll as IrUnroll,
};

use super::context::*;
use super::library::LibEntity;
use super::types::*;
use super::tyres::has_auto;
use super::value::*;
use crate::ast::{
    self, Condition, Decl, Expr, Init, LoopHints, Stmt, StmtKind, TyKind, Unroll, VarDecl,
};
use crate::source::Span;

impl Sema<'_> {
    /// Lowers statements in a new scope.
    pub fn statements(&mut self, list: &[Stmt]) -> Res<Flow> {
        let scope = Env::names(&self.env.clone());
        let math = self.math;
        let result = self.within(scope, |s| s.statements_here(list));
        self.math = math;
        result
    }

    fn statements_here(&mut self, list: &[Stmt]) -> Res<Flow> {
        let mut failed = false;
        for stmt in list {
            match self.statement(stmt) {
                Ok(Flow::Next) => {}
                Ok(flow) => {
                    return if failed {
                        Err(Fail::Reported)
                    } else {
                        Ok(flow)
                    };
                }
                Err(fail) => {
                    if self.const_eval > 0
                        || self.trial > 0
                        || self.unevaluated > 0
                        || self.diagnostics.len() >= self.options.max_errors
                    {
                        return Err(fail);
                    }
                    // Go on with the next statement, so that one run shows several errors.
                    self.report_fail(fail);
                    self.poison(stmt);
                    failed = true;
                }
            }
        }
        if failed {
            Err(Fail::Reported)
        } else {
            Ok(Flow::Next)
        }
    }

    /// The names that a failed declaration would have bound mean nothing from now on.
    fn poison(&mut self, stmt: &Stmt) {
        if let StmtKind::Decl(decls) = &stmt.kind {
            for decl in decls {
                let name = match decl {
                    Decl::Var(v) => v.name.as_ref().map(|n| n.name.clone()),
                    Decl::Alias(a) => Some(a.name.name.clone()),
                    _ => None,
                };
                if let Some(name) = name {
                    let bound = match &self.env.kind {
                        EnvKind::Names(names) => names.borrow().iter().any(|(n, _)| *n == name),
                        _ => true,
                    };
                    if !bound {
                        self.env.bind(name, Entity::Poison);
                    }
                }
            }
        }
    }

    /// Lowers a statement.
    pub fn statement(&mut self, stmt: &Stmt) -> Res<Flow> {
        if self.const_eval > 0 {
            self.step(stmt.span)?;
        }
        let former = self.at(stmt.span);
        let result = self.statement_inner(stmt);
        self.at(former);
        result
    }

    fn statement_inner(&mut self, stmt: &Stmt) -> Res<Flow> {
        match &stmt.kind {
            StmtKind::Empty => Ok(Flow::Next),
            StmtKind::Compound(list) => self.statements(list),
            StmtKind::Expr(e) => {
                self.expr(e)?;
                Ok(Flow::Next)
            }
            StmtKind::Decl(decls) => {
                for decl in decls {
                    self.local_decl(decl)?;
                }
                Ok(Flow::Next)
            }
            StmtKind::If {
                is_constexpr,
                init,
                cond,
                then,
                otherwise,
            } => self.scoped(|s| {
                if let Some(init) = init {
                    s.statement(init)?;
                }
                s.if_statement(*is_constexpr, cond, then, otherwise.as_deref())
            }),
            StmtKind::While { cond, body, hints } => self.scoped(|s| {
                if s.const_eval > 0 {
                    return s.const_loop(Some(cond), None, body);
                }
                let unroll = s.unroll(hints)?;
                s.run_loop(Some(cond), None, body, unroll)
            }),
            StmtKind::DoWhile { body, cond, hints } => self.do_while(body, cond, hints),
            StmtKind::For {
                init,
                cond,
                step,
                body,
                hints,
            } => self.scoped(|s| {
                if s.const_eval > 0 {
                    s.statement(init)?;
                    return s.const_loop(cond.as_ref(), step.as_ref(), body);
                }
                if let Some(flow) = s.try_unroll(init, cond.as_ref(), step.as_ref(), body, hints)? {
                    return Ok(flow);
                }
                s.statement(init)?;
                let unroll = s.unroll(hints)?;
                s.run_loop(cond.as_ref(), step.as_ref(), body, unroll)
            }),
            StmtKind::Switch { init, cond, body } => self.scoped(|s| {
                if let Some(init) = init {
                    s.statement(init)?;
                }
                s.switch(cond, body)
            }),
            StmtKind::Case(_) | StmtKind::Default => self.err(
                "E0540",
                "a label belongs directly into the body of its 'switch'",
                stmt.span,
            ),
            StmtKind::Break => self.break_statement(stmt.span),
            StmtKind::Continue => self.continue_statement(stmt.span),
            StmtKind::Return(e) => self.return_statement(e.as_ref(), stmt.span),
            StmtKind::FpPragma(pragma) => {
                self.apply_fp_pragma(*pragma);
                Ok(Flow::Next)
            }
        }
    }

    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        let scope = Env::names(&self.env.clone());
        self.within(scope, f)
    }

    /// Evaluates a condition.
    fn condition(&mut self, cond: &Condition) -> Res<Leaf> {
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

    /// Runs a step that is inside of control flow for the innermost function.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        let at = self.function_control();
        if let Some(i) = at
            && let Control::Function(target) = &mut self.control[i]
        {
            target.depth += 1;
        }
        let result = f(self);
        if let Some(i) = at
            && let Some(Control::Function(target)) = self.control.get_mut(i)
        {
            target.depth -= 1;
        }
        result
    }

    fn function_control(&self) -> Option<usize> {
        self.control
            .iter()
            .rposition(|c| matches!(c, Control::Function(_)))
    }

    fn if_statement(
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
    fn dead(&mut self, stmt: &Stmt) {
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
        self.dead_code += 1;
        let result = self.block_of(|s| s.scoped(|s| s.statement(stmt)));
        self.dead_code -= 1;
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
    fn const_loop(
        &mut self,
        cond: Option<&Condition>,
        step: Option<&Expr>,
        body: &Stmt,
    ) -> Res<Flow> {
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

    fn unroll(&mut self, hints: &LoopHints) -> Res<IrUnroll> {
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

    fn run_loop(
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
    fn exit_unless(&mut self, leaf: &Leaf) -> Res<()> {
        let mode = self.math;
        let not = self.unary_leaf(UnaryOp::Not, leaf, mode)?;
        let condition = self.materialize(&not)?;
        self.builder.push_block();
        self.builder.emit_void(Op::Break(0));
        let block = self.builder.pop_block();
        self.builder.if_(condition, block, Block::default());
        Ok(())
    }

    fn do_while(&mut self, body: &Stmt, cond: &Expr, hints: &LoopHints) -> Res<Flow> {
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

    fn break_statement(&mut self, span: Span) -> Res<Flow> {
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

    fn continue_statement(&mut self, span: Span) -> Res<Flow> {
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

    fn return_statement(&mut self, e: Option<&Expr>, span: Span) -> Res<Flow> {
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
    fn returned(&mut self, arg: &Arg, ty: Option<&QualType>, span: Span) -> Res<Operand> {
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
                Arg::List(..) => self.err(
                    "E0447",
                    "the returned type cannot be deduced from a braced list",
                    span,
                ),
            },
        }
    }

    fn store_result(
        &mut self,
        at: usize,
        operand: Operand,
        ty: Option<&QualType>,
        span: Span,
    ) -> Res<()> {
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
        let place = super::call::slots_place(&ty, slots);
        self.store(&place, &value)
    }

    fn switch(&mut self, cond: &Condition, body: &Stmt) -> Res<Flow> {
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
                        return self.err(
                            "E0550",
                            "this statement stands before the first 'case'",
                            stmt.span,
                        );
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

    fn known_switch(
        &mut self,
        leaf: &Leaf,
        segments: &[(Vec<Option<i128>>, Vec<&Stmt>)],
    ) -> Res<Flow> {
        let Some(n) = self.int_of(leaf) else {
            return self.foldable().map(|()| Flow::Next);
        };
        let start = segments
            .iter()
            .position(|(labels, _)| labels.contains(&Some(n)))
            .or_else(|| {
                segments
                    .iter()
                    .position(|(labels, _)| labels.contains(&None))
            });
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
    fn switch_chain(
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

    /// A declaration inside a function.
    fn local_decl(&mut self, decl: &Decl) -> Res<()> {
        match decl {
            Decl::Var(v) => self.local_variable(v),
            Decl::Alias(a) => {
                let entity = match &a.template {
                    Some(_) => {
                        let env = self.env.clone();
                        self.new_template(a.name.name.clone(), &env, TemplateDecl::Alias(a.clone()))
                    }
                    None => Entity::Type(self.resolve_type(&a.ty)?),
                };
                self.env.bind(a.name.name.clone(), entity);
                Ok(())
            }
            Decl::Using(path) => {
                let entity = self.resolve_path(path)?;
                self.env.bind(path.last().ident.name.clone(), entity);
                Ok(())
            }
            Decl::UsingNamespace(path) => {
                let id = self.resolve_namespace(path)?;
                // Later names of the block see the namespace.
                self.env = Env::names(&Env::of(&self.env.clone(), EnvKind::Using(id)));
                Ok(())
            }
            Decl::NamespaceAlias { name, target, .. } => {
                let id = self.resolve_namespace(target)?;
                self.env.bind(name.name.clone(), Entity::Namespace(id));
                Ok(())
            }
            Decl::Record(d) => {
                if let Some(name) = &d.name
                    && d.members.is_some()
                {
                    let env = self.env.clone();
                    let id = self.new_record(d.clone(), &env, None, super::declare::record_name(d));
                    self.env
                        .bind(name.name.clone(), Entity::Type(Type::Record(id).into()));
                    self.complete_record(id)?;
                }
                Ok(())
            }
            Decl::Enum(d) => {
                let env = self.env.clone();
                let id = self.enum_of(d, &env)?;
                if let Some(name) = &d.name {
                    self.env
                        .bind(name.name.clone(), Entity::Type(Type::Enum(id).into()));
                }
                if !d.is_scoped {
                    for (name, c) in self.enums[id.index()].values.clone() {
                        let value = Value::one(Type::Enum(id), Leaf::Const(c));
                        self.env.bind(name, Entity::Operand(value.into()));
                    }
                }
                Ok(())
            }
            Decl::StaticAssert(a) => self.static_assert(a),
            Decl::FpPragma(pragma, _) => {
                self.apply_fp_pragma(*pragma);
                Ok(())
            }
            Decl::Function(f) => {
                if matches!(f.body, ast::Body::None) {
                    return Ok(());
                }
                self.err(
                    "E0551",
                    "a function cannot be defined inside another",
                    f.span,
                )
            }
            other => self.err(
                "E0552",
                "this declaration is not allowed here",
                other.span(),
            ),
        }
    }

    /// `static_assert`
    pub fn static_assert(&mut self, a: &ast::StaticAssert) -> Res<()> {
        let leaf = self.in_const_mode(|s| {
            let operand = s.expr(&a.cond)?;
            s.to_bool(operand, a.cond.span)
        })?;
        match self.const_of(&leaf) {
            Some(c) if c.bits != 0 => Ok(()),
            Some(_) => {
                let message = match &a.message {
                    Some(m) => format!("static assertion failed: {m}"),
                    None => "static assertion failed".to_string(),
                };
                self.err("E0553", message, a.cond.span)
            }
            None => self.err(
                "E0420",
                "this is not a constant expression: its value is known at run time only",
                a.cond.span,
            ),
        }
    }

    /// A variable of a block.
    fn local_variable(&mut self, v: &Arc<VarDecl>) -> Res<()> {
        let Some(name) = v.name.clone() else {
            return Ok(());
        };
        let (operand, declared) = self.variable(v)?;
        self.env
            .bind(name.name.clone(), Entity::Variable(operand, declared));
        Ok(())
    }

    /// The type of a variable declaration and its evaluated initialiser.
    fn variable_type(&mut self, v: &VarDecl) -> Res<(QualType, Option<Vec<Arg>>)> {
        if let TyKind::Path(path) = &v.ty.kind
            && v.init.is_some()
        {
            // A class template without arguments: deduced from the initialiser.
            let entity = self.resolve_path(path)?;
            let is_template = matches!(
                entity,
                Entity::Template(_) | Entity::Library(LibEntity::Template { .. })
            );
            if is_template {
                let args = match &v.init {
                    Some(init) => self.init_args(init)?,
                    None => Vec::new(),
                };
                let flat = match args.as_slice() {
                    [Arg::List(items, _)] => items.iter().map(|(_, a)| a.clone()).collect(),
                    _ => args.clone(),
                };
                let ty = match (flat.as_slice(), &v.init) {
                    ([Arg::Operand(o, _)], Some(Init::Copy(_)))
                        if matches!(o.ty(), Type::Object(_)) =>
                    {
                        o.ty().clone()
                    }
                    _ => self.deduce_class(entity, path, &flat, v.span)?,
                };
                return Ok((super::tyres::qualify(ty.into(), &v.ty.quals), Some(args)));
            }
        }
        if has_auto(&v.ty) {
            let Some(init) = &v.init else {
                return self.err("E0447", "an 'auto' variable must be initialised", v.span);
            };
            let args = self.init_args(init)?;
            let operand = match args.as_slice() {
                [Arg::Operand(operand, _)] => operand.clone(),
                [Arg::List(items, _)] => match items.as_slice() {
                    [(None, Arg::Operand(operand, _))] => operand.clone(),
                    _ => {
                        return self.err(
                            "E0447",
                            "'auto' cannot be deduced from a braced list",
                            v.span,
                        );
                    }
                },
                _ => return self.err("E0447", "'auto' needs one initialiser", v.span),
            };
            if *operand.ty() == Type::Void {
                return self.err("E0554", "a variable cannot be 'void'", v.span);
            }
            let args = match args.as_slice() {
                [Arg::List(..)] => vec![Arg::Operand(operand.clone(), v.span)],
                _ => args,
            };
            let ty = self.deduce_auto(&v.ty, &operand)?;
            return Ok((ty, Some(args)));
        }
        let mut ty = self.resolve_type(&v.ty)?;
        let args = match &v.init {
            Some(init) => Some(self.init_args(init)?),
            None => None,
        };
        if let Type::Array(element, u64::MAX) = &ty.ty {
            let n = match args.as_deref() {
                Some([Arg::List(items, _)]) => items.len() as u64,
                _ => {
                    return self.err(
                        "E0458",
                        "an array without a bound needs an initialiser in braces",
                        v.span,
                    );
                }
            };
            ty.ty = Type::Array(element.clone(), n);
        }
        if ty.ty == Type::Void {
            return self.err("E0554", "a variable cannot be 'void'", v.span);
        }
        Ok((ty, args))
    }

    /// Makes a local variable.
    fn variable(&mut self, v: &Arc<VarDecl>) -> Res<(Operand, QualType)> {
        let span = v.span;
        let name = v.name.as_ref().map_or("", |n| n.name.as_str()).to_string();
        let is_constant = v.ty.quals.space.map(|s| s.0) == Some(ast::AddressSpace::Constant)
            && !matches!(v.ty.kind, TyKind::Pointer(_) | TyKind::LRef(_));
        let known =
            v.specs.is_constexpr || (v.specs.is_static && v.ty.quals.is_const) || is_constant;
        if known && self.const_eval == 0 {
            let attempt = self.in_const_mode(|s| {
                let (ty, args) = s.variable_type(v)?;
                let value = s.variable_value(&ty, args, v)?;
                Ok((ty, value))
            });
            let (mut ty, value) = attempt?;
            ty.is_const = true;
            if ty.is_reference() {
                return self.reference_variable(ty, value, span);
            }
            let value = self.frozen(value);
            let place = self.fixed_variable(&ty.ty, value);
            let place = self.constant_home(place, &ty)?;
            return Ok((place.into(), ty));
        }
        if v.specs.is_static {
            return self.err(
                "E0555",
                "a 'static' variable inside a function must be constant",
                span,
            );
        }
        let (ty, args) = self.variable_type(v)?;
        match ty.space {
            Some(Space::Threadgroup) if !ty.is_reference() => {
                return self.threadgroup_variable(&name, ty, args.is_some(), span);
            }
            Some(Space::Device) if !ty.is_reference() => {
                return self.err("E0556", "a variable cannot live in 'device' memory", span);
            }
            _ => {}
        }
        let value = self.variable_value(&ty, args, v)?;
        if ty.is_reference() {
            return self.reference_variable(ty, value, span);
        }
        let uses = self.current_uses.clone();
        let key = ast::Name::from(name.as_str());
        let taken = uses.address_taken.contains(&key);
        let assigned = uses.assigned.contains(&key);
        let memory = self.needs_memory(&ty.ty)?;
        let fixed = !taken
            && !memory
            && (ty.is_const || (!assigned && super::call::is_bundle(&ty.ty)))
            && !ty.is_volatile;
        let mut place = if fixed || (ty.is_const && !taken && self.all_known(&value)) {
            self.fixed_variable(&ty.ty, value)
        } else {
            let value = self.named_coop(&name, value);
            self.new_variable(&name, &ty.ty, value, taken)?
        };
        place.is_const = ty.is_const;
        place.is_volatile = ty.is_volatile;
        Ok((place.into(), ty))
    }

    /// Names the cooperative tensor of a new variable after the variable.
    fn named_coop(&mut self, name: &str, value: Value) -> Value {
        if self.const_eval == 0 {
            for leaf in &value.leaves {
                if let Leaf::Coop(id) = leaf
                    && let Some(coop) = self.builder.kernel_mut().cooperatives.get_mut(id.index())
                    && coop.name.is_empty()
                {
                    coop.name = name.to_string();
                }
            }
        }
        value
    }

    fn all_known(&self, value: &Value) -> bool {
        !value.leaves.is_empty() && value.leaves.iter().all(|l| self.const_of(l).is_some())
    }

    /// Cells that a constant refers to are replaced by what they hold.
    pub fn frozen(&self, value: Value) -> Value {
        let leaves = value
            .leaves
            .into_iter()
            .map(|leaf| match &leaf {
                Leaf::Undef(_) => self.const_of(&leaf).map_or(leaf, Leaf::Const),
                _ => leaf,
            })
            .collect();
        Value {
            ty: value.ty,
            leaves,
        }
    }

    /// A constant variable in `constant` space has that space.
    fn constant_home(&mut self, place: LValue, ty: &QualType) -> Res<LValue> {
        if ty.space == Some(Space::Constant)
            && self.const_eval == 0
            && matches!(ty.ty, Type::Array(..) | Type::Record(_))
            && self.unevaluated == 0
        {
            return self.in_memory(place, self.span);
        }
        Ok(place)
    }

    fn variable_value(&mut self, ty: &QualType, args: Option<Vec<Arg>>, v: &VarDecl) -> Res<Value> {
        let Some(args) = args else {
            if ty.is_reference() {
                return self.err("E0463", "a reference must be initialised", v.span);
            }
            if ty.is_const && v.specs.is_constexpr {
                let value = self.default_init(&ty.ty, v.span)?;
                if value
                    .leaves
                    .iter()
                    .any(|leaf| matches!(leaf, Leaf::Undef(_)))
                {
                    return self.err("E0463", "a constant must be initialised", v.span);
                }
                return Ok(value);
            }
            return self.default_init(&ty.ty, v.span);
        };
        let braces = matches!(v.init, Some(Init::Brace(_)));
        match (&v.init, args.as_slice()) {
            (Some(Init::Copy(_)), [arg]) if !ty.is_reference() => self.init(&ty.ty, arg, v.span),
            _ => self.direct_init(ty, &args, braces, v.span),
        }
    }

    fn reference_variable(
        &mut self,
        ty: QualType,
        value: Value,
        span: Span,
    ) -> Res<(Operand, QualType)> {
        match value.leaf() {
            Some(Leaf::Place(place)) => Ok(((**place).clone().into(), ty)),
            _ => self.err("E0463", "a reference must be initialised", span),
        }
    }

    fn threadgroup_variable(
        &mut self,
        name: &str,
        mut ty: QualType,
        initialised: bool,
        span: Span,
    ) -> Res<(Operand, QualType)> {
        if initialised {
            return self.err(
                "E0557",
                "a 'threadgroup' variable cannot be initialised",
                span,
            );
        }
        if self.const_eval > 0 {
            return self.foldable().map(|()| (Operand::void(), ty));
        }
        let key = (span.file.0, span.lo, self.type_name(&ty.ty));
        let unique = self.frames.iter().filter(|f| f.decl.is_some()).count();
        let id = match self.threadgroup.get(&(key.clone(), unique)) {
            Some(id) => *id,
            None => {
                let place = self.new_memory(name, &ty.ty, AddressSpace::Threadgroup, 16)?;
                let _ = place;
                let id = anymetal_ir::MemoryId(self.builder.kernel().memory.len() as u32 - 1);
                if self.unevaluated == 0 {
                    self.threadgroup.insert((key, unique), id);
                }
                id
            }
        };
        let align = self.builder.kernel().memory_object(id).align;
        let space = AddressSpace::Threadgroup;
        let pointer = self
            .builder
            .emit(Op::MemoryPointer(id), &[anymetal_ir::Type::Pointer(space)]);
        ty.space = Some(space);
        let place = LValue {
            ty: ty.ty.clone(),
            is_const: ty.is_const,
            is_volatile: ty.is_volatile,
            place: Place::Memory {
                pointer,
                offset: 0,
                space,
                align,
            },
        };
        Ok((place.into(), ty))
    }

    /// A variable at namespace scope or a static member.
    pub fn global_variable(&mut self, v: &Arc<VarDecl>) -> Res<Entity> {
        let span = v.span;
        if let Some(attr) = v.attrs.iter().find(|a| a.name == "function_constant") {
            return self.function_constant(v, attr);
        }
        let space = v.ty.quals.space.map(|s| s.0);
        let is_constant = v.specs.is_constexpr
            || v.ty.quals.is_const
            || space == Some(ast::AddressSpace::Constant)
            || is_constant_array(&v.ty);
        if !is_constant {
            return self.err_help(
                "E0558",
                "a variable at program scope must be in 'constant' memory",
                span,
                "write 'constant' before its type",
            );
        }
        if v.init.is_none() && !v.specs.is_constexpr {
            let ty = self.resolve_type(&v.ty)?;
            if !matches!(ty.ty, Type::Record(_) | Type::Object(_)) {
                return self.err("E0463", "a constant must be initialised", span);
            }
        }
        let math = self.math;
        let (mut ty, value) = self.in_const_mode(|s| {
            let (ty, args) = s.variable_type(v)?;
            let value = s.variable_value(&ty, args, v)?;
            Ok((ty, value))
        })?;
        self.math = math;
        if ty.is_reference() {
            let (operand, ty) = self.reference_variable(ty, value, span)?;
            return Ok(Entity::Variable(operand, ty));
        }
        ty.is_const = true;
        let value = self.frozen(value);
        let place = self.fixed_variable(&ty.ty, value);
        Ok(Entity::Variable(place.into(), ty))
    }

    /// Unrolls a loop as the source asks, if it counts a few constant steps and its body indexes with the counter.
    fn try_unroll(
        &mut self,
        _init: &Stmt,
        _cond: Option<&Condition>,
        _step: Option<&Expr>,
        _body: &Stmt,
        _hints: &LoopHints,
    ) -> Res<Option<Flow>> {
        Ok(None)
    }
}

/// Keeps a scope alive while it is used.
pub type Scope = Rc<Env>;

/// Is the innermost element of an array type const or in constant memory?
fn is_constant_array(ty: &ast::Ty) -> bool {
    match &ty.kind {
        TyKind::Array(element, _) => {
            element.quals.is_const
                || element.quals.space.map(|s| s.0) == Some(ast::AddressSpace::Constant)
                || is_constant_array(element)
        }
        _ => false,
    }
}
