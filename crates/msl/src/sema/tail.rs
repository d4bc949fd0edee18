//! Functions whose last act is a call of themselves.
//!
//! Metal has no recursion, and every call is lowered in place. A call in tail position is no more than a jump, though: Apple's compiler turns it into
//! a loop, and public kernels rely on that. So here: the body is lowered inside a loop, its parameters are variables, and the call sets them and
//! goes round.

use std::sync::Arc;

use anymetal_ir::Op;

use super::context::*;
use super::types::*;
use super::value::*;
use crate::ast::{self, Expr, ExprKind, Name, Stmt, StmtKind};
use crate::source::Span;

/// A function being lowered inside a loop.
#[derive(Debug)]
pub struct TailLoop {
    /// Frames that are open inside its body.
    frame: usize,
    /// Its declaration.
    decl: Arc<ast::FunctionDecl>,
    /// Its template arguments.
    template_args: Vec<TemplateArg>,
    /// The object it was called for.
    this: Option<LValue>,
    /// Its parameters; those without a name are never read.
    params: Vec<Option<(LValue, QualType)>>,
    /// The calls of a function of its name in tail position.
    sites: Vec<Span>,
    /// Its place among the open control structures.
    control: usize,
}

/// The calls of a function of this name that are the last thing a body does.
pub(super) fn sites(body: &Stmt, name: &Name) -> Vec<Span> {
    let mut out = Vec::new();
    collect(body, name, &mut out);
    out
}

fn collect(stmt: &Stmt, name: &Name, out: &mut Vec<Span>) {
    let call = |e: &Expr| match &e.kind {
        ExprKind::Call { callee, .. } => {
            matches!(&callee.kind, ExprKind::Path(path) if path.as_single().is_some_and(|s| s.ident.name == *name))
        }
        _ => false,
    };
    match &stmt.kind {
        StmtKind::Compound(list) => {
            let end = match list.as_slice() {
                [rest @ .., last] if matches!(last.kind, StmtKind::Return(None) | StmtKind::Empty) => rest.last(),
                list => list.last(),
            };
            // A `return` anywhere is an end too.
            for stmt in list {
                if end.is_some_and(|end| std::ptr::eq(end, stmt)) {
                    collect(stmt, name, out);
                } else if let StmtKind::If { then, otherwise, .. } = &stmt.kind {
                    returns(then, name, out);
                    otherwise.iter().for_each(|s| returns(s, name, out));
                }
            }
        }
        StmtKind::If { then, otherwise, .. } => {
            collect(then, name, out);
            otherwise.iter().for_each(|s| collect(s, name, out));
        }
        StmtKind::Expr(e) | StmtKind::Return(Some(e)) if call(e) => out.push(e.span),
        _ => {}
    }
}

/// Those inside a statement that something follows: it must return them, or return right after them.
fn returns(stmt: &Stmt, name: &Name, out: &mut Vec<Span>) {
    match &stmt.kind {
        StmtKind::Return(_) => collect(stmt, name, out),
        StmtKind::Compound(list) if matches!(list.last().map(|s| &s.kind), Some(StmtKind::Return(_))) => {
            collect(stmt, name, out);
        }
        StmtKind::If { then, otherwise, .. } => {
            returns(then, name, out);
            otherwise.iter().for_each(|s| returns(s, name, out));
        }
        _ => {}
    }
}

impl Sema<'_> {
    /// Lowers the body of a function with such calls, its parameters being bound.
    pub(super) fn tail_body(
        &mut self,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        this: Option<LValue>,
        sites: Vec<Span>,
        body: &Stmt,
        ret: Option<QualType>,
    ) -> Res<Operand> {
        let mut params = Vec::new();
        for param in &f.decl.params {
            params.push(match &param.name {
                Some(name) => match self.lookup(&name.name, name.span)? {
                    Some(Entity::Variable(Operand::Place(place), ty)) => Some((place, ty)),
                    _ => None,
                },
                None => None,
            });
        }
        self.tails.push(TailLoop {
            frame: self.frames.len(),
            decl: f.decl.clone(),
            template_args: template_args.to_vec(),
            this,
            params,
            sites,
            control: self.control.len(),
        });
        self.control.push(Control::Loop);
        let (tails, depth) = (self.tails.len(), self.control.len());
        let result = self.deeper(|s| s.function_body_in(body, ret, true));
        self.control.truncate(depth - 1);
        self.tails.truncate(tails - 1);
        result
    }

    /// Lowers a call as a step of the loop around the innermost function, if it is one. False: it is an ordinary call.
    pub(super) fn tail_call(
        &mut self,
        f: &FunctionRef,
        template_args: &[TemplateArg],
        this: Option<&LValue>,
        args: &[Arg],
        span: Span,
    ) -> Res<bool> {
        let Some(tail) = self.tails.last() else {
            return Ok(false);
        };
        let same = tail.frame == self.frames.len()
            && Arc::ptr_eq(&tail.decl, &f.decl)
            && tail.template_args == template_args
            && tail.sites.contains(&span)
            && tail.params.len() == args.len()
            && tail.this.as_ref().map(|t| &t.place) == this.map(|t| &t.place);
        if !same || self.const_eval > 0 || self.unevaluated > 0 {
            return Ok(false);
        }
        let (params, control) = (tail.params.clone(), tail.control);
        // All values before the first of them is set.
        let mut values = Vec::new();
        for (param, arg) in params.iter().zip(args) {
            let Some((place, ty)) = param else { continue };
            if ty.is_reference() {
                if self.bind_reference(ty, arg, span)?.place != place.place {
                    return Ok(false);
                }
                continue;
            }
            let value = self.init(&ty.ty, arg, span)?;
            if let Place::Slots(slots) = &place.place {
                let fixed = slots.iter().zip(&value.leaves).all(|(slot, leaf)| match slot {
                    Slot::Fixed(former) => former == leaf,
                    _ => !matches!(leaf, Leaf::Place(_)),
                });
                if !fixed {
                    return Ok(false);
                }
                if slots.iter().all(|slot| matches!(slot, Slot::Fixed(_))) {
                    continue;
                }
            }
            let mut place = place.clone();
            place.is_const = false;
            values.push((place, value));
        }
        for (place, value) in &values {
            self.store(place, value)?;
        }
        // Out of what is open inside the body, and of the body's own scope.
        let inside = self.control[control + 1..]
            .iter()
            .filter(|c| !matches!(c, Control::Unrolled))
            .count() as u32;
        self.builder.emit_void(Op::Continue(inside));
        self.tail_taken = true;
        Ok(true)
    }
}
