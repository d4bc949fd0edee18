//! [`Library`]: a checked translation unit from which kernels are made.

use std::sync::Arc;

use anymetal_ir::{Argument, Kernel};

use super::context::*;
use super::declare::Roots;
use super::function_constant::FunctionConstantValues;
use super::library::PRELUDE;
use super::types::*;
use super::value::*;
use crate::ast::{self, ExprKind, InstantiationTarget};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::options::CompileOptions;
use crate::source::{SourceMap, Span};
use crate::{Translation, parse_here, with_large_stack};

/// The name under which the prelude is included.
const PRELUDE_NAME: &str = "anymetal/prelude.metal";

/// What is known of a kernel without function constants.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// The host name.
    pub name: String,
    /// Its arguments when no function constant is set.
    pub arguments: Vec<Argument>,
    /// The function constants that it depends on.
    pub function_constants: Vec<FunctionConstantInfo>,
    /// `[[max_total_threads_per_threadgroup(n)]]`
    pub max_threads: Option<u32>,
    root: Root,
    lowered: Option<Arc<Kernel>>,
}

/// A function constant of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionConstantInfo {
    /// Its name.
    pub name: String,
    /// `[[function_constant(n)]]`
    pub index: u32,
    /// Its type in Metal's words: `bool`, `uint`, `float2`.
    pub type_name: String,
}

/// How [`Library::specialize_with`] lowers a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Specialization {
    /// Cooperative tensors have the permuted layout.
    pub permuted_layout: bool,
    /// A pipeline is being made: a function constant that the kernel reads must have a value, unless the source asks for it with
    /// `is_function_constant_defined`.
    pub complete: bool,
}

/// Which declaration a kernel comes from, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Function(usize),
    Instantiation(usize),
}

/// A compiled source text.
///
/// Every kernel and explicit instantiation has been lowered once, with no function constant set, so all its errors are
/// known. [`Library::specialize`] lowers it again with values for its function constants.
#[derive(Clone, Debug)]
pub struct Library {
    translation: Arc<Translation>,
    kernels: Vec<KernelInfo>,
    constants: Vec<FunctionConstantInfo>,
    warnings: Vec<Diagnostic>,
    file_name: String,
}

impl Library {
    /// Parses and checks a source text. `file_name` is shown in diagnostics.
    ///
    /// # Errors
    /// Everything that is wrong with the source, with the warnings.
    pub fn compile(source: &str, file_name: &str, options: &CompileOptions) -> Result<Library, Diagnostics> {
        with_large_stack(|| Library::compile_here(source, file_name, options))
    }

    fn compile_here(source: &str, file_name: &str, options: &CompileOptions) -> Result<Library, Diagnostics> {
        let mut with_prelude = options.clone();
        with_prelude
            .virtual_files
            .insert(PRELUDE_NAME.to_string(), PRELUDE.to_string());
        with_prelude.force_includes.insert(0, PRELUDE_NAME.to_string());
        let translation = Arc::new(parse_here(source, file_name, &with_prelude)?);
        let sources = translation.sources.clone();
        let mut list = translation.warnings.clone();
        let mut library = Library {
            translation: translation.clone(),
            kernels: Vec::new(),
            constants: Vec::new(),
            warnings: Vec::new(),
            file_name: file_name.to_string(),
        };
        let none = FunctionConstantValues::default();
        let (mut sema, roots) = start(&translation, &translation.options, &none);
        for (assert, env) in &roots.asserts {
            let env = env.clone();
            if let Err(fail) = sema.within(env, |s| s.static_assert(assert)) {
                sema.report_fail(fail);
            }
        }
        add_new(&mut list, std::mem::take(&mut sema.diagnostics));
        let all = (0..roots.kernels.len())
            .map(Root::Function)
            .chain((0..roots.instantiations.len()).map(Root::Instantiation));
        for root in all {
            if errors(&list) >= options.max_errors {
                break;
            }
            sema.next_kernel();
            library.check_root(&mut sema, &roots, root, &mut list);
        }
        if errors(&list) < options.max_errors {
            library.check_functions(&mut sema, &roots, &mut list);
        }
        library.all_constants(&mut sema, &mut list);
        drop(sema);
        list.truncate(10_000);
        if list.iter().any(Diagnostic::is_error) {
            return Err(Diagnostics { sources, list });
        }
        library.warnings = list;
        Ok(library)
    }

    /// Lowers one root without function constants and keeps what is learnt.
    fn check_root(&mut self, sema: &mut Sema<'_>, roots: &Roots, root: Root, list: &mut Vec<Diagnostic>) {
        let name = match lower(sema, roots, root) {
            Ok(name) => name,
            Err(fail) => {
                sema.report_fail(fail);
                None
            }
        };
        let mut touched = std::mem::take(&mut sema.touched);
        touched.sort_unstable();
        let constants: Vec<FunctionConstantInfo> = touched
            .iter()
            .map(|i| &sema.function_constants[*i])
            .map(|c| FunctionConstantInfo {
                name: c.name.clone(),
                index: c.index,
                type_name: sema.type_name(&c.ty),
            })
            .collect();
        let kernel = sema.next_kernel().finish();
        add_new(list, std::mem::take(&mut sema.diagnostics));
        let Some((name, span)) = name else { return };
        if self.kernels.iter().any(|k| k.name == name) {
            add_new(
                list,
                vec![Diagnostic::error(
                    "E0780",
                    format!("there are two kernels with the name '{name}'"),
                    span,
                )],
            );
            return;
        }
        self.kernels.push(KernelInfo {
            name,
            arguments: kernel.arguments.clone(),
            max_threads: kernel.max_threads,
            lowered: constants.is_empty().then(|| Arc::new(kernel)),
            function_constants: constants,
            root,
        });
    }

    /// Checks the functions that no kernel reached, with parameters of no particular value.
    fn check_functions(&self, sema: &mut Sema<'_>, roots: &Roots, list: &mut Vec<Diagnostic>) {
        for f in &roots.functions {
            let key = Arc::as_ptr(&f.decl) as usize;
            let abbreviated = f.decl.params.iter().any(|p| super::tyres::has_auto(&p.ty));
            if sema.visited.contains(&key) || abbreviated {
                continue;
            }
            if is_prelude(&self.translation.sources, f.decl.span) {
                continue;
            }
            let before = sema.diagnostics.len();
            if let Err(fail) = sema.check_function(f) {
                sema.report_fail(fail);
            }
            sema.next_kernel();
            if !self.has_kernels(roots) {
                continue;
            }
            // No kernel needs it: what a header has that is not supported here does no harm.
            if self.in_header(f.decl.span) {
                sema.diagnostics.truncate(before);
            }
            for d in &mut sema.diagnostics[before..] {
                if super::library::is_unsupported(d.code) {
                    d.severity = crate::diagnostics::Severity::Warning;
                }
            }
        }
        add_new(list, std::mem::take(&mut sema.diagnostics));
    }

    fn has_kernels(&self, roots: &Roots) -> bool {
        !roots.kernels.is_empty() || !roots.instantiations.is_empty()
    }

    /// Is the place in another file than the source text itself?
    fn in_header(&self, span: Span) -> bool {
        let name = self.translation.sources.get(span.file).map_or("", |f| f.name.as_str());
        name != self.file_name
    }

    /// All function constants, whether a kernel uses them or not.
    fn all_constants(&mut self, sema: &mut Sema<'_>, list: &mut Vec<Diagnostic>) {
        for at in 0..sema.deferred.len() {
            let is_constant = match &sema.deferred[at].decl {
                DeferredDecl::Var(v) => v.attrs.iter().any(|a| a.name == "function_constant"),
                _ => false,
            };
            if is_constant && let Err(fail) = sema.resolve_deferred(at as u32, Span::default()) {
                sema.report_fail(fail);
            }
        }
        self.constants = sema
            .function_constants
            .iter()
            .map(|c| FunctionConstantInfo {
                name: c.name.clone(),
                index: c.index,
                type_name: sema.type_name(&c.ty),
            })
            .collect();
        add_new(list, std::mem::take(&mut sema.diagnostics));
    }

    /// The kernels in the order of the source.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&KernelInfo> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// All function constants of the source.
    pub fn function_constants(&self) -> &[FunctionConstantInfo] {
        &self.constants
    }

    /// The warnings of the compilation.
    pub fn warnings(&self) -> Diagnostics {
        Diagnostics {
            sources: self.translation.sources.clone(),
            list: self.warnings.clone(),
        }
    }

    /// The tree and the sources.
    pub fn translation(&self) -> &Translation {
        &self.translation
    }

    /// The kernel of a name with values for its function constants; those without a value read as zero.
    ///
    /// # Errors
    /// There is no such kernel, or with these values the source is wrong (a failed `static_assert`, say).
    pub fn specialize(&self, name: &str, values: &FunctionConstantValues) -> Result<Kernel, Diagnostics> {
        self.specialize_with(name, values, &self.specialization())
    }

    /// How [`specialize`](Self::specialize) lowers.
    pub fn specialization(&self) -> Specialization {
        Specialization {
            permuted_layout: self.translation.options.permuted_layout,
            complete: false,
        }
    }

    /// The same in another way.
    ///
    /// # Errors
    /// As [`specialize`](Self::specialize), and a function constant that lacks a value if the specialisation is to be complete.
    pub fn specialize_with(
        &self,
        name: &str,
        values: &FunctionConstantValues,
        how: &Specialization,
    ) -> Result<Kernel, Diagnostics> {
        let permuted = how.permuted_layout;
        let Some(info) = self.kernel(name) else {
            let names: Vec<&str> = self.kernels.iter().map(|k| k.name.as_str()).collect();
            let d = Diagnostic::error("E0781", format!("there is no kernel '{name}'"), Span::default())
                .note(format!("the kernels are: {}", names.join(", ")));
            return Err(Diagnostics {
                sources: self.translation.sources.clone(),
                list: vec![d],
            });
        };
        let as_compiled = permuted == self.translation.options.permuted_layout;
        if let Some(kernel) = info.lowered.as_ref().filter(|_| as_compiled) {
            return Ok((**kernel).clone());
        }
        let root = info.root;
        with_large_stack(|| {
            let mut options = self.translation.options.clone();
            options.permuted_layout = permuted;
            let (mut sema, roots) = start(&self.translation, &options, values);
            if let Err(fail) = lower(&mut sema, &roots, root) {
                sema.report_fail(fail);
            }
            let mut list = std::mem::take(&mut sema.diagnostics);
            let unset = sema.unset_constants();
            if how.complete && !unset.is_empty() {
                // What else is wrong may come from the zero in their place.
                list = unset;
            }
            if list.iter().any(Diagnostic::is_error) {
                return Err(Diagnostics {
                    sources: self.translation.sources.clone(),
                    list,
                });
            }
            Ok(sema.builder.finish())
        })
    }
}

/// A lowering with all declarations registered.
fn start<'a>(
    translation: &'a Translation,
    options: &'a CompileOptions,
    values: &FunctionConstantValues,
) -> (Sema<'a>, Roots) {
    let mut sema = Sema::new("", options, &translation.sources, values.clone());
    let mut roots = Roots::default();
    let math = sema.math;
    sema.declare_all(&translation.decls, NamespaceId(0), &mut roots);
    if sema.math == math {
        sema.math = math;
    }
    (sema, roots)
}

/// Lowers a root; its host name if it is a kernel.
fn lower(sema: &mut Sema<'_>, roots: &Roots, root: Root) -> Res<Option<(String, Span)>> {
    match root {
        Root::Function(i) => {
            let f = &roots.kernels[i];
            let name = match host_name(&f.decl.attrs) {
                Some(name) => name,
                None => f.decl.name.name.to_string(),
            };
            sema.builder.kernel_mut().name = name.clone();
            sema.lower_kernel(f, &[])?;
            Ok(Some((name, f.decl.name.span)))
        }
        Root::Instantiation(i) => {
            let (instantiation, env) = &roots.instantiations[i];
            sema.at(instantiation.span);
            let env = env.clone();
            sema.within(env, |s| lower_instantiation(s, instantiation))
        }
    }
}

fn lower_instantiation(sema: &mut Sema<'_>, d: &ast::Instantiation) -> Res<Option<(String, Span)>> {
    let (path, params) = match &d.target {
        InstantiationTarget::Record(path) => {
            if let Entity::Type(QualType {
                ty: Type::Record(id), ..
            }) = sema.resolve_path(path)?
            {
                sema.complete_record(id)?;
            }
            return Ok(None);
        }
        InstantiationTarget::Function { path, params, .. } => (path, Some(params)),
        InstantiationTarget::FunctionByType { path, .. } => (path, None),
    };
    let Entity::Functions(set) = sema.resolve_path(path)? else {
        return sema.err("E0782", format!("'{path}' is not a function template"), path.span);
    };
    let args: Vec<Arg> = match params {
        Some(params) => params
            .iter()
            .map(|p| {
                let t = sema.param_type(&p.ty)?;
                let operand = sema.unevaluated(|s| s.declval(&t))?;
                Ok(Arg::Operand(operand, p.span))
            })
            .collect::<Res<Vec<_>>>()?,
        None => Vec::new(),
    };
    let mut found = None;
    for f in &set.user {
        let Some(header) = &f.decl.template else {
            continue;
        };
        if header.params.is_empty() {
            continue;
        }
        let template_args = if set.args.is_empty() && params.is_some() {
            sema.deduce_call(f, &set.args, &args)
        } else {
            let mut given: Vec<Option<TemplateArg>> = Vec::new();
            let mut rest = set.args.iter().cloned();
            for param in &header.params {
                given.push(if param.is_pack {
                    Some(TemplateArg::Pack(rest.by_ref().collect()))
                } else {
                    rest.next()
                });
            }
            if rest.next().is_some() {
                continue;
            }
            let complete = given.iter().zip(&header.params).all(|(g, p)| {
                g.is_some()
                    || matches!(
                        &p.kind,
                        ast::TemplateParamKind::Type(Some(_))
                            | ast::TemplateParamKind::Value(_, Some(_))
                            | ast::TemplateParamKind::Template(_, Some(_))
                    )
            });
            if complete {
                let env = f.env.clone();
                if set.user.len() == 1 {
                    Some(sema.finish_args(header, given, &env, path.span)?)
                } else {
                    sema.attempt(|s| s.finish_args(header, given, &env, path.span))
                }
            } else {
                sema.deduce_call(f, &set.args, &args)
            }
        };
        if let Some(template_args) = template_args {
            found = Some((f.clone(), template_args));
            if matches!(f.decl.body, ast::Body::Block(_)) {
                break;
            }
        }
    }
    let Some((mut f, mut template_args)) = found else {
        return sema.err(
            "E0782",
            format!("no function template '{path}' takes these template arguments"),
            path.span,
        );
    };
    // An explicit specialisation takes the place of the template.
    if let Some(spec) = set
        .user
        .iter()
        .find(|g| g.decl.template.as_ref().is_some_and(|t| t.params.is_empty()))
    {
        let patterns = spec.decl.spec_args.clone().unwrap_or_default();
        let env = spec.env.clone();
        let own = sema.attempt(|s| s.within(env, |s| s.template_args(&patterns)));
        if own.is_some_and(|own| own == template_args) {
            f = spec.clone();
            template_args = Vec::new();
        }
    }
    let is_kernel = d.kernel.is_some() || f.decl.kernel.is_some();
    if !is_kernel {
        return Ok(None);
    }
    let name = match host_name(&d.attrs).or_else(|| host_name(&f.decl.attrs)) {
        Some(name) => name,
        None => format!("{}{}", f.decl.name.name, sema.args_name(&template_args)),
    };
    sema.builder.kernel_mut().name = name.clone();
    sema.lower_kernel(&f, &template_args)?;
    Ok(Some((name, d.span)))
}

fn host_name(attrs: &[ast::Attr]) -> Option<String> {
    attrs
        .iter()
        .find(|a| a.name == "host_name")
        .and_then(|a| match a.args.first().map(|e| &e.kind) {
            Some(ExprKind::Str(s)) => Some(s.to_string()),
            _ => None,
        })
}

fn errors(list: &[Diagnostic]) -> usize {
    list.iter().filter(|d| d.is_error()).count()
}

/// Adds diagnostics that are not there yet.
fn add_new(list: &mut Vec<Diagnostic>, new: Vec<Diagnostic>) {
    for d in new {
        let same = list
            .iter()
            .any(|o| o.code == d.code && o.primary.span == d.primary.span && o.message == d.message);
        if !same {
            list.push(d);
        }
    }
}

fn is_prelude(sources: &SourceMap, span: Span) -> bool {
    sources.get(span.file).is_some_and(|f| f.name.ends_with(PRELUDE_NAME))
}

impl Sema<'_> {
    /// Lowers a function with parameters of no particular value, to find its errors.
    fn check_function(&mut self, f: &FunctionRef) -> Res<()> {
        let mut args = Vec::new();
        for param in &f.decl.params {
            let env = f.env.clone();
            let t = self.within(env, |s| s.param_type(&param.ty))?;
            let object = matches!(&t.ty, Type::Object(o) if matches!(**o, Object::Coop(_) | Object::CoopIterator(_)));
            if object || matches!(t.ty, Type::Function(_)) {
                return Ok(());
            }
            let operand = if t.is_reference() && t.space_or_thread() != Space::Thread {
                let leaf = self.null_leaf(t.space_or_thread())?;
                let pointer = self.materialize(&leaf)?;
                let mut place = self.deref(pointer, &t.without_reference())?;
                place.is_const = t.is_const;
                place.into()
            } else if let Type::Pointer(p) = &t.ty {
                let leaf = self.null_leaf(p.space_or_thread())?;
                Value::one(t.ty.clone(), leaf).into()
            } else {
                let Ok(value) = self.undefined(&t.ty) else {
                    return Ok(());
                };
                Operand::from(self.new_variable("argument", &t.ty, value, false)?)
            };
            args.push(Arg::Operand(operand, param.span));
        }
        let recursion_guard = self.frames.len();
        let result = self.inline_call(f, &[], None, args, f.decl.name.span);
        self.frames.truncate(recursion_guard);
        match result {
            Ok(_) => Ok(()),
            Err(Fail::Error(mut d)) => {
                // The call is ours, not the user's.
                d.instantiation_chain.pop();
                Err(Fail::Error(d))
            }
            Err(fail) => Err(fail),
        }
    }
}
