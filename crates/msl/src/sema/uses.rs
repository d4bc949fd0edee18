//! Walks over the tree: how a function uses its variables, and which names an expression mentions.

use std::collections::HashSet;

use crate::ast::{
    Condition, Decl, Expr, ExprKind, Init, Name, Path, Stmt, StmtKind, TemplateArgKind, Ty, TyKind, UnOp,
};

/// How a function uses its variables.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// `&x`, `&x.m`, `&x[i]`
    pub address_taken: HashSet<Name>,
    /// `x = …`, `x += …`, `++x`, `x.m = …`
    pub assigned: HashSet<Name>,
    /// `f(x)`: perhaps by reference.
    pub passed: HashSet<Name>,
    /// The parameters change when the function calls itself as its last act.
    pub tail_params: bool,
}

/// The variable that an lvalue expression is a part of. Through an index only if asked: `p[i] = …` does not assign a pointer.
fn root(e: &Expr, through_index: bool) -> Option<&Name> {
    match &e.kind {
        ExprKind::Path(path) => path.as_ident().map(|i| &i.name),
        ExprKind::Paren(e) => root(e, through_index),
        ExprKind::Member { base, arrow: false, .. } => root(base, through_index),
        ExprKind::Index { base, .. } if through_index => root(base, true),
        _ => None,
    }
}

impl Uses {
    /// Of a statement.
    pub fn of(body: &Stmt) -> Uses {
        let mut uses = Uses::default();
        stmt(body, &mut |e| match &e.kind {
            ExprKind::Unary(UnOp::AddrOf, inner) => {
                if let Some(name) = root(inner, true) {
                    uses.address_taken.insert(name.clone());
                }
            }
            ExprKind::Unary(UnOp::PreInc | UnOp::PreDec | UnOp::PostInc | UnOp::PostDec, inner)
            | ExprKind::Assign(_, inner, _) => {
                if let Some(name) = root(inner, false) {
                    uses.assigned.insert(name.clone());
                }
            }
            ExprKind::Call { args, .. } => {
                for arg in args {
                    if let ExprKind::Path(path) = &arg.kind
                        && let Some(ident) = path.as_ident()
                    {
                        uses.passed.insert(ident.name.clone());
                    }
                }
            }
            _ => {}
        });
        uses
    }

    /// May the variable change after its initialisation?
    pub fn changes(&self, name: &Name) -> bool {
        self.assigned.contains(name) || self.address_taken.contains(name) || self.passed.contains(name)
    }
}

/// Visits all expressions of a statement, outermost first, lambdas included.
pub fn stmt(s: &Stmt, f: &mut dyn FnMut(&Expr)) {
    match &s.kind {
        StmtKind::Compound(list) => list.iter().for_each(|s| stmt(s, f)),
        StmtKind::Expr(e) | StmtKind::Case(e) | StmtKind::Return(Some(e)) => expr(e, f),
        StmtKind::Decl(decls) => decls.iter().for_each(|d| decl(d, f)),
        StmtKind::If {
            init,
            cond,
            then,
            otherwise,
            ..
        } => {
            init.iter().for_each(|s| stmt(s, f));
            condition(cond, f);
            stmt(then, f);
            otherwise.iter().for_each(|s| stmt(s, f));
        }
        StmtKind::While { cond, body, .. } => {
            condition(cond, f);
            stmt(body, f);
        }
        StmtKind::DoWhile { body, cond, .. } => {
            stmt(body, f);
            expr(cond, f);
        }
        StmtKind::For {
            init, cond, step, body, ..
        } => {
            stmt(init, f);
            cond.iter().for_each(|c| condition(c, f));
            step.iter().for_each(|e| expr(e, f));
            stmt(body, f);
        }
        StmtKind::RangeFor { var, range, body, .. } => {
            ty(&var.ty, f);
            expr(range, f);
            stmt(body, f);
        }
        StmtKind::Switch { init, cond, body } => {
            init.iter().for_each(|s| stmt(s, f));
            condition(cond, f);
            stmt(body, f);
        }
        _ => {}
    }
}

fn condition(c: &Condition, f: &mut dyn FnMut(&Expr)) {
    match c {
        Condition::Expr(e) => expr(e, f),
        Condition::Var(v) => {
            if let Some(i) = &v.init {
                init(i, f);
            }
        }
    }
}

fn init(i: &Init, f: &mut dyn FnMut(&Expr)) {
    match i {
        Init::Copy(e) | Init::Brace(e) => expr(e, f),
        Init::Paren(args, _) => args.iter().for_each(|e| expr(e, f)),
    }
}

fn decl(d: &Decl, f: &mut dyn FnMut(&Expr)) {
    match d {
        Decl::Var(v) => {
            ty(&v.ty, f);
            if let Some(i) = &v.init {
                init(i, f);
            }
        }
        Decl::Alias(a) => ty(&a.ty, f),
        Decl::StaticAssert(a) => expr(&a.cond, f),
        _ => {}
    }
}

fn ty(t: &Ty, f: &mut dyn FnMut(&Expr)) {
    match &t.kind {
        TyKind::Path(p) => path(p, f),
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) => ty(t, f),
        TyKind::Array(t, bound) => {
            ty(t, f);
            bound.iter().for_each(|e| expr(e, f));
        }
        TyKind::Decltype(e) => expr(e, f),
        _ => {}
    }
}

fn path(p: &Path, f: &mut dyn FnMut(&Expr)) {
    for segment in &p.segments {
        for arg in segment.args.iter().flatten() {
            match &arg.kind {
                TemplateArgKind::Path(p) => {
                    // As an expression, so that its names are seen.
                    f(&Expr {
                        kind: ExprKind::Path(p.clone()),
                        span: arg.span,
                    });
                    path(p, f);
                }
                TemplateArgKind::Type(t) => ty(t, f),
                TemplateArgKind::Expr(e) => expr(e, f),
            }
        }
    }
}

/// Visits an expression and all inside it, outermost first.
pub fn expr(e: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(e);
    match &e.kind {
        ExprKind::Path(p) => path(p, f),
        ExprKind::Paren(e) | ExprKind::Unary(_, e) | ExprKind::SizeofExpr(e) | ExprKind::PackExpansion(e) => expr(e, f),
        ExprKind::Binary(_, a, b) | ExprKind::Assign(_, a, b) => {
            expr(a, f);
            expr(b, f);
        }
        ExprKind::Conditional(a, b, c) => {
            expr(a, f);
            expr(b, f);
            expr(c, f);
        }
        ExprKind::Call { callee, args } => {
            expr(callee, f);
            args.iter().for_each(|e| expr(e, f));
        }
        ExprKind::Index { base, indices } => {
            expr(base, f);
            indices.iter().for_each(|e| expr(e, f));
        }
        ExprKind::Member { base, member, .. } => {
            expr(base, f);
            path(member, f);
        }
        ExprKind::Cast { ty: t, expr: e, .. } => {
            ty(t, f);
            expr(e, f);
        }
        ExprKind::Construct { ty: t, args, .. } => {
            ty(t, f);
            args.iter().for_each(|a| expr(&a.value, f));
        }
        ExprKind::InitList(items) => items.iter().for_each(|a| expr(&a.value, f)),
        ExprKind::SizeofType(t) | ExprKind::AlignofType(t) => ty(t, f),
        ExprKind::Lambda(l) => {
            for c in &l.captures {
                c.init.iter().for_each(|e| expr(e, f));
            }
            stmt(&l.body, f);
        }
        ExprKind::Fold { pack, init, .. } => {
            expr(pack, f);
            init.iter().for_each(|e| expr(e, f));
        }
        _ => {}
    }
}

/// Does any path in the expression satisfy a predicate? Types inside are searched too.
pub fn any_path(e: &Expr, test: &mut dyn FnMut(&Path) -> bool) -> bool {
    let mut found = false;
    expr(e, &mut |e| {
        if found {
            return;
        }
        found = match &e.kind {
            ExprKind::Path(p) => test(p),
            ExprKind::Cast { ty, .. } | ExprKind::Construct { ty, .. } => type_path(ty, test),
            ExprKind::SizeofType(ty) | ExprKind::AlignofType(ty) => type_path(ty, test),
            ExprKind::SizeofPack(ident) => test(&Path {
                root: crate::ast::PathRoot::Scope,
                segments: vec![crate::ast::Segment {
                    ident: ident.clone(),
                    args: None,
                    template_keyword: false,
                }],
                span: ident.span,
            }),
            _ => false,
        };
    });
    found
}

fn type_path(t: &Ty, test: &mut dyn FnMut(&Path) -> bool) -> bool {
    match &t.kind {
        TyKind::Path(p) => test(p),
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) | TyKind::Array(t, _) => type_path(t, test),
        _ => false,
    }
}
