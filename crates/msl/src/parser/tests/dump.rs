//! A compact text form of the tree, for tests: expressions are fully parenthesised, types are read from the outside in.

use crate::ast::*;

fn list<T>(items: &[T], f: impl Fn(&T) -> String) -> String {
    items.iter().map(f).collect::<Vec<_>>().join(", ")
}

pub fn quals(q: &Quals) -> String {
    let mut out = String::new();
    if let Some((space, _)) = q.space {
        out.push_str(space.keyword());
        out.push(' ');
    }
    for (flag, word) in [
        (q.is_const, "const "),
        (q.is_volatile, "volatile "),
        (q.is_coherent, "coherent "),
    ] {
        if flag {
            out.push_str(word);
        }
    }
    out
}

pub fn ty(t: &Ty) -> String {
    let body = match &t.kind {
        TyKind::Builtin(b) => format!("{b:?}").to_lowercase(),
        TyKind::Path(p) => path(p),
        TyKind::Auto => "auto".into(),
        TyKind::DecltypeAuto => "decltype(auto)".into(),
        TyKind::Decltype(e) => format!("decltype({})", expr(e)),
        TyKind::Pointer(t) => format!("ptr<{}>", ty(t)),
        TyKind::LRef(t) => format!("ref<{}>", ty(t)),
        TyKind::RRef(t) => format!("rref<{}>", ty(t)),
        TyKind::Array(t, None) => format!("array<{}>", ty(t)),
        TyKind::Array(t, Some(n)) => format!("array<{}, {}>", ty(t), expr(n)),
        TyKind::Function(f) => format!("fn({}) -> {}", list(&f.params, param), ty(&f.ret)),
        TyKind::MemberPointer(..) => "member pointer".into(),
        TyKind::Record(r) => record(r),
        TyKind::Enum(e) => format!("enum {:?}", e.name),
    };
    format!("{}{body}", quals(&t.quals))
}

pub fn path(p: &Path) -> String {
    let mut out = match &p.root {
        PathRoot::Scope => String::new(),
        PathRoot::Global => "::".into(),
        PathRoot::Decltype(e) => format!("decltype({})::", expr(e)),
    };
    let parts: Vec<String> = p.segments.iter().map(segment).collect();
    out.push_str(&parts.join("::"));
    out
}

fn segment(s: &Segment) -> String {
    match &s.args {
        None => s.ident.name.to_string(),
        Some(args) => format!("{}<{}>", s.ident.name, list(args, arg)),
    }
}

fn arg(a: &TemplateArg) -> String {
    let text = match &a.kind {
        TemplateArgKind::Path(p) => path(p),
        TemplateArgKind::Type(t) => format!("type {}", ty(t)),
        TemplateArgKind::Expr(e) => expr(e),
    };
    if a.is_pack { format!("{text}...") } else { text }
}

fn item(i: &InitItem) -> String {
    match &i.designator {
        None => expr(&i.value),
        Some(Designator::Field(n)) => format!(".{} = {}", n.name, expr(&i.value)),
        Some(Designator::Index(e)) => format!("[{}] = {}", expr(e), expr(&i.value)),
        Some(Designator::Range(a, b)) => format!("[{} ... {}] = {}", expr(a), expr(b), expr(&i.value)),
    }
}

pub fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int(v, s) => {
            format!(
                "{v}{}{}",
                if s.unsigned { "u" } else { "" },
                if s.long { "l" } else { "" }
            )
        }
        ExprKind::Float(v, s) => {
            let suffix = match s {
                FloatSuffix::None => "",
                FloatSuffix::Float => "f",
                FloatSuffix::Half => "h",
                FloatSuffix::BFloat => "bf",
            };
            format!("{v:?}{suffix}")
        }
        ExprKind::Char(c) => format!("'{c}'"),
        ExprKind::Str(s) => format!("{s:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Nullptr => "nullptr".into(),
        ExprKind::This => "this".into(),
        ExprKind::Path(p) => path(p),
        ExprKind::Paren(e) => expr(e),
        ExprKind::Unary(op, e) if matches!(op, UnOp::PostInc | UnOp::PostDec) => {
            format!("({}{})", expr(e), op.spelling())
        }
        ExprKind::Unary(op, e) => format!("({}{})", op.spelling(), expr(e)),
        ExprKind::Binary(op, a, b) => format!("({} {} {})", expr(a), op.spelling(), expr(b)),
        ExprKind::Assign(op, a, b) => {
            format!("({} {}= {})", expr(a), op.map_or("", BinOp::spelling), expr(b))
        }
        ExprKind::Conditional(c, a, b) => format!("({} ? {} : {})", expr(c), expr(a), expr(b)),
        ExprKind::Call { callee, args } => format!("{}({})", expr(callee), list(args, expr)),
        ExprKind::Index { base, indices } => format!("{}[{}]", expr(base), list(indices, expr)),
        ExprKind::Member { base, arrow, member } => {
            format!("{}{}{}", expr(base), if *arrow { "->" } else { "." }, path(member))
        }
        ExprKind::Cast { kind, ty: t, expr: e } => {
            let word = match kind {
                CastKind::CStyle => "cast",
                CastKind::Static => "static_cast",
                CastKind::Reinterpret => "reinterpret_cast",
                CastKind::Const => "const_cast",
            };
            format!("{word}<{}>({})", ty(t), expr(e))
        }
        ExprKind::Construct {
            ty: t,
            args,
            braces: true,
        } => format!("new {} {{{}}}", ty(t), list(args, item)),
        ExprKind::Construct {
            ty: t,
            args,
            braces: false,
        } => format!("new {}({})", ty(t), list(args, item)),
        ExprKind::InitList(items) => format!("{{{}}}", list(items, item)),
        ExprKind::SizeofType(t) => format!("sizeof type {}", ty(t)),
        ExprKind::SizeofExpr(e) => format!("sizeof {}", expr(e)),
        ExprKind::SizeofPack(n) => format!("sizeof...({})", n.name),
        ExprKind::AlignofType(t) => format!("alignof type {}", ty(t)),
        ExprKind::Lambda(l) => lambda(l),
        ExprKind::PackExpansion(e) => format!("{}...", expr(e)),
        ExprKind::Fold {
            op,
            assign,
            pack,
            init,
            left,
        } => {
            let op = format!("{}{}", op.spelling(), if *assign { "=" } else { "" });
            let init = init.as_ref().map_or(String::new(), |e| format!(", {}", expr(e)));
            format!("fold{}({op}, {}{init})", if *left { "l" } else { "r" }, expr(pack))
        }
    }
}

fn lambda(l: &LambdaExpr) -> String {
    let mut captures: Vec<String> = Vec::new();
    captures.extend(
        l.default_by_ref
            .map(|r| if r { "&".to_string() } else { "=".to_string() }),
    );
    for c in &l.captures {
        let name = c.name.as_ref().map_or("this".to_string(), |n| n.name.to_string());
        captures.push(format!("{}{name}", if c.by_ref { "&" } else { "" }));
    }
    let ret = l.ret.as_ref().map_or(String::new(), |t| format!(" -> {}", ty(t)));
    format!(
        "[{}]({}){ret} {}",
        captures.join(", "),
        list(&l.params, param),
        stmt(&l.body)
    )
}

pub fn param(p: &Param) -> String {
    let name = p.name.as_ref().map_or("_", |n| n.name.as_str());
    let default = p.default.as_ref().map_or(String::new(), |e| format!(" = {}", expr(e)));
    let attrs: String = p.attrs.iter().map(|a| format!(" [[{}]]", attr(a))).collect();
    format!(
        "{name}: {}{}{default}{attrs}",
        ty(&p.ty),
        if p.is_pack { "..." } else { "" }
    )
}

pub fn attr(a: &Attr) -> String {
    let scope = a.scope.as_ref().map_or(String::new(), |s| format!("{s}::"));
    if a.args.is_empty() {
        format!("{scope}{}", a.name)
    } else {
        format!("{scope}{}({})", a.name, list(&a.args, expr))
    }
}

fn init(i: &Init) -> String {
    match i {
        Init::Copy(e) => format!(" = {}", expr(e)),
        Init::Paren(args, _) => format!("({})", list(args, expr)),
        Init::Brace(e) => expr(e),
    }
}

fn cond(c: &Condition) -> String {
    match c {
        Condition::Expr(e) => expr(e),
        Condition::Var(v) => var(v),
    }
}

fn hints(h: &LoopHints) -> String {
    match &h.unroll {
        None => String::new(),
        Some((Unroll::Count(e), _)) => format!("unroll({}) ", expr(e)),
        Some((u, _)) => format!("unroll({u:?}) "),
    }
}

pub fn stmt(s: &Stmt) -> String {
    match &s.kind {
        StmtKind::Empty => ";".into(),
        StmtKind::Compound(body) => {
            let parts: Vec<String> = body.iter().map(stmt).collect();
            format!("{{ {} }}", parts.join(" "))
        }
        StmtKind::Expr(e) => format!("{};", expr(e)),
        StmtKind::Decl(d) => format!("let {};", list(d, decl)),
        StmtKind::If {
            is_constexpr,
            init,
            cond: c,
            then,
            otherwise,
        } => {
            let init = init.as_ref().map_or(String::new(), |s| format!("{} ", stmt(s)));
            let otherwise = otherwise
                .as_ref()
                .map_or(String::new(), |s| format!(" else {}", stmt(s)));
            let word = if *is_constexpr { "if constexpr" } else { "if" };
            format!("{word} ({init}{}) {}{otherwise}", cond(c), stmt(then))
        }
        StmtKind::While {
            cond: c,
            body,
            hints: h,
        } => format!("{}while ({}) {}", hints(h), cond(c), stmt(body)),
        StmtKind::DoWhile { body, cond, hints: h } => {
            format!("{}do {} while ({});", hints(h), stmt(body), expr(cond))
        }
        StmtKind::For {
            init,
            cond: c,
            step,
            body,
            hints: h,
        } => {
            let c = c.as_ref().map_or(String::new(), cond);
            let step = step.as_ref().map_or(String::new(), expr);
            format!("{}for ({} {c}; {step}) {}", hints(h), stmt(init), stmt(body))
        }
        StmtKind::RangeFor {
            var,
            range,
            body,
            hints: h,
        } => format!(
            "{}for ({} : {}) {}",
            hints(h),
            decl(&Decl::Var(var.clone())),
            expr(range),
            stmt(body)
        ),
        StmtKind::Switch { cond: c, body, .. } => format!("switch ({}) {}", cond(c), stmt(body)),
        StmtKind::Case(e) => format!("case {}:", expr(e)),
        StmtKind::Default => "default:".into(),
        StmtKind::Break => "break;".into(),
        StmtKind::Continue => "continue;".into(),
        StmtKind::Return(None) => "return;".into(),
        StmtKind::Return(Some(e)) => format!("return {};", expr(e)),
        StmtKind::FpPragma(p) => format!("pragma {p:?};"),
    }
}

fn header(h: &Option<TemplateHeader>) -> String {
    match h {
        None => String::new(),
        Some(h) => format!("template<{}> ", list(&h.params, template_param)),
    }
}

fn template_param(p: &TemplateParam) -> String {
    let name = p.name.as_ref().map_or("_", |n| n.name.as_str());
    let dots = if p.is_pack { "..." } else { "" };
    match &p.kind {
        TemplateParamKind::Type(d) => {
            format!(
                "type{dots} {name}{}",
                d.as_ref().map_or(String::new(), |t| format!(" = {}", ty(t)))
            )
        }
        TemplateParamKind::Value(t, d) => {
            format!(
                "{}{dots} {name}{}",
                ty(t),
                d.as_ref().map_or(String::new(), |e| format!(" = {}", expr(e)))
            )
        }
        TemplateParamKind::Template(..) => format!("template{dots} {name}"),
    }
}

fn quoted(segments: &[Segment]) -> String {
    segments.iter().map(|s| format!("{}::", segment(s))).collect()
}

pub fn var(v: &VarDecl) -> String {
    let mut specs = String::new();
    for (flag, word) in [(v.specs.is_static, "static "), (v.specs.is_constexpr, "constexpr ")] {
        if flag {
            specs.push_str(word);
        }
    }
    let name = v.name.as_ref().map_or("_", |n| n.name.as_str());
    let attrs: String = v.attrs.iter().map(|a| format!(" [[{}]]", attr(a))).collect();
    let args = v
        .spec_args
        .as_ref()
        .map_or(String::new(), |a| format!("<{}>", list(a, arg)));
    let width = v
        .bit_width
        .as_ref()
        .map_or(String::new(), |e| format!(" : {}", expr(e)));
    let init = v.init.as_ref().map_or(String::new(), init);
    format!(
        "{}{specs}{}{name}{args}: {}{width}{init}{attrs}",
        header(&v.template),
        quoted(&v.qualifier),
        ty(&v.ty)
    )
}

fn record(r: &RecordDecl) -> String {
    let name = r.name.as_ref().map_or("_", |n| n.name.as_str());
    let args = r
        .spec_args
        .as_ref()
        .map_or(String::new(), |a| format!("<{}>", list(a, arg)));
    let bases = if r.bases.is_empty() {
        String::new()
    } else {
        format!(" : {}", list(&r.bases, |b| ty(&b.ty)))
    };
    let members = match &r.members {
        None => String::new(),
        Some(m) => format!(
            " {{ {} }}",
            m.iter().map(|m| decl(&m.decl)).collect::<Vec<_>>().join("; ")
        ),
    };
    format!("{}{:?} {name}{args}{bases}{members}", header(&r.template), r.kind).to_string()
}

pub fn function(f: &FunctionDecl) -> String {
    let args = f
        .spec_args
        .as_ref()
        .map_or(String::new(), |a| format!("<{}>", list(a, arg)));
    let outer: String = f.outer_templates.iter().map(|h| header(&Some(h.clone()))).collect();
    let kernel = if f.kernel.is_some() { "kernel " } else { "" };
    let kind = match &f.kind {
        FunctionKind::Plain => String::new(),
        FunctionKind::Constructor => "ctor ".into(),
        FunctionKind::Destructor => "dtor ".into(),
        FunctionKind::Conversion(t) => format!("conversion {} ", ty(t)),
        FunctionKind::DeductionGuide => "guide ".into(),
    };
    let inits: String = f
        .member_inits
        .iter()
        .map(|i| format!(" :{}{}", path(&i.member), init(&i.init)))
        .collect();
    let body = match &f.body {
        Body::None => String::new(),
        Body::Block(s) => format!(" {}", stmt(s)),
        Body::Default => " = default".into(),
        Body::Delete => " = delete".into(),
    };
    let this = quals(&f.this_quals);
    format!(
        "{outer}{}{kernel}{kind}{}{}{args}({}){}{} -> {}{inits}{body}",
        header(&f.template),
        quoted(&f.qualifier),
        f.name.name,
        list(&f.params, param),
        if this.is_empty() { "" } else { " " },
        this.trim_end(),
        ty(&f.ret)
    )
}

pub fn decl(d: &Decl) -> String {
    match d {
        Decl::Namespace(n) => {
            let name = n.name.as_ref().map_or("_", |n| n.name.as_str());
            let decls: Vec<String> = n.decls.iter().map(decl).collect();
            format!(
                "{}namespace {name} {{ {} }}",
                if n.is_inline { "inline " } else { "" },
                decls.join("; ")
            )
        }
        Decl::NamespaceAlias { name, target, .. } => {
            format!("namespace {} = {}", name.name, path(target))
        }
        Decl::UsingNamespace(p) => format!("using namespace {}", path(p)),
        Decl::Using(p) => format!("using {}", path(p)),
        Decl::Alias(a) => format!("{}alias {} = {}", header(&a.template), a.name.name, ty(&a.ty)),
        Decl::Var(v) => var(v),
        Decl::Function(f) => function(f),
        Decl::Record(r) => record(r),
        Decl::Enum(e) => {
            let name = e.name.as_ref().map_or("_", |n| n.name.as_str());
            let values = e.enumerators.as_deref().unwrap_or(&[]);
            let values = list(values, |v| {
                format!(
                    "{}{}",
                    v.name.name,
                    v.value.as_ref().map_or(String::new(), |e| format!(" = {}", expr(e)))
                )
            });
            let under = e.underlying.as_ref().map_or(String::new(), |t| format!(" : {}", ty(t)));
            format!(
                "enum{} {name}{under} {{{values}}}",
                if e.is_scoped { " class" } else { "" }
            )
        }
        Decl::StaticAssert(a) => {
            format!(
                "static_assert({}{})",
                expr(&a.cond),
                a.message.as_ref().map_or(String::new(), |m| format!(", {m:?}"))
            )
        }
        Decl::Instantiation(i) => {
            let attrs: String = i.attrs.iter().map(|a| format!("[[{}]] ", attr(a))).collect();
            let kernel = if i.kernel.is_some() { "kernel " } else { "" };
            let target = match &i.target {
                InstantiationTarget::Function { path: p, ret, params } => {
                    format!("{}({}) -> {}", path(p), list(params, param), ty(ret))
                }
                InstantiationTarget::FunctionByType { path: p, ty: t } => {
                    format!("{} as {}", path(p), ty(t))
                }
                InstantiationTarget::Record(p) => format!("record {}", path(p)),
            };
            format!("instantiate {attrs}{kernel}{target}")
        }
        Decl::FpPragma(p, _) => format!("pragma {p:?}"),
    }
}
