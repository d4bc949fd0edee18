//! The table of declared names: what each one is, as far as parsing needs it.

use std::collections::HashMap;

use super::library;
use crate::ast::{Name, Path, PathRoot};

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Namespace,
    Type,
    TypeTemplate,
    Value,
    /// A function or variable template.
    ValueTemplate,
    /// Not declared in sight: a member of something dependent, or a mistake.
    Unknown,
}

impl NameKind {
    pub(super) fn is_template(self) -> bool {
        matches!(self, NameKind::TypeTemplate | NameKind::ValueTemplate)
    }

    pub(super) fn is_type(self) -> bool {
        matches!(self, NameKind::Type | NameKind::TypeTemplate)
    }

    pub(super) fn is_value(self) -> bool {
        matches!(self, NameKind::Value | NameKind::ValueTemplate)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: NameKind,
    /// The scope of a namespace, record or enum.
    scope: Option<usize>,
    is_pack: bool,
}

#[derive(Debug, Default)]
struct Scope {
    names: HashMap<Name, Entry>,
    /// Scopes whose names are visible here: using-directives, inline namespaces, bases.
    visible: Vec<usize>,
}

/// How a member name has been declared, anywhere.
#[derive(Clone, Copy, Debug, Default)]
struct MemberUse {
    template: bool,
    plain: bool,
}

/// All scopes and the stack of open ones.
#[derive(Debug)]
pub(super) struct Scopes {
    all: Vec<Scope>,
    stack: Vec<usize>,
    members: HashMap<Name, MemberUse>,
}

impl Scopes {
    pub(super) fn new() -> Self {
        Scopes {
            all: vec![Scope::default()],
            stack: vec![0],
            members: HashMap::new(),
        }
    }

    /// The height of the stack, to come back to after a failed attempt.
    pub(super) fn mark(&self) -> usize {
        self.stack.len()
    }

    pub(super) fn reset(&mut self, mark: usize) {
        self.stack.truncate(mark);
    }

    /// Opens a nameless scope.
    pub(super) fn push(&mut self) {
        self.all.push(Scope::default());
        self.stack.push(self.all.len() - 1);
    }

    pub(super) fn pop(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
        }
    }

    fn current(&mut self) -> &mut Scope {
        let top = self.stack[self.stack.len() - 1];
        &mut self.all[top]
    }

    fn insert(&mut self, name: &Name, kind: NameKind, scope: Option<usize>, is_pack: bool) {
        let names = &mut self.current().names;
        if let Some(old) = names.get_mut(name) {
            // An overload does not hide a template, nor a second declaration a scope.
            if old.kind == NameKind::ValueTemplate && kind == NameKind::Value {
                return;
            }
            if kind == NameKind::Value && old.kind.is_type() {
                return;
            }
            let scope = scope.or(old.scope);
            *old = Entry { kind, scope, is_pack };
            return;
        }
        names.insert(name.clone(), Entry { kind, scope, is_pack });
    }

    /// Declares a name in the innermost scope.
    pub(super) fn declare(&mut self, name: &Name, kind: NameKind) {
        self.insert(name, kind, None, false);
    }

    /// Declares a parameter pack.
    pub(super) fn declare_pack(&mut self, name: &Name, kind: NameKind) {
        self.insert(name, kind, None, true);
    }

    fn declare_in(&mut self, id: usize, name: &Name, kind: NameKind) {
        self.stack.push(id);
        self.insert(name, kind, None, false);
        self.stack.pop();
    }

    /// Declares a name in the scope around the innermost one.
    pub(super) fn declare_below(&mut self, name: &Name, kind: NameKind) {
        let id = self.stack[self.stack.len().saturating_sub(2)];
        self.declare_in(id, name, kind);
    }

    /// Declares a function in the scope that was innermost at `mark`, or the one around it when that holds template
    /// parameters.
    pub(super) fn declare_at(&mut self, name: &Name, kind: NameKind, mark: usize, in_template: bool) {
        let below = if in_template { 2 } else { 1 };
        let id = self.stack[mark.saturating_sub(below).min(self.stack.len() - 1)];
        self.declare_in(id, name, kind);
    }

    /// Opens the scope of a record; its name goes into the scope around the template parameters.
    pub(super) fn open_record(&mut self, name: Option<&Name>, kind: NameKind, in_template: bool) {
        let Some(name) = name else {
            self.push();
            return;
        };
        let below = if in_template { 2 } else { 1 };
        let home = self.stack[self.stack.len().saturating_sub(below)];
        self.stack.push(home);
        self.open(Some(name), kind);
        let id = self.stack.pop();
        self.stack.pop();
        self.stack.extend(id);
    }

    /// The open scopes above the innermost record's: template parameters and parameters of a member. `mark` is the height
    /// before the function's scope was opened.
    pub(super) fn above_record(&self, mark: usize) -> Vec<usize> {
        // A member template has one scope of template parameters below the function's own.
        self.stack[mark.saturating_sub(1).min(self.stack.len())..].to_vec()
    }

    /// Opens scopes that existed before.
    pub(super) fn push_existing(&mut self, ids: &[usize]) {
        self.stack.extend_from_slice(ids);
    }

    /// Notes that some record has a member of this name.
    pub(super) fn declare_member(&mut self, name: &Name, template: bool) {
        let entry = self.members.entry(name.clone()).or_default();
        entry.template |= template;
        entry.plain |= !template;
    }

    /// Is `object.name <` the start of template arguments? `None` when only trying can tell.
    pub(super) fn member_is_template(&self, name: &str) -> Option<bool> {
        let seen = self.members.get(name).copied().unwrap_or_default();
        match (seen.template || library::member_template(name), seen.plain) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    /// Opens the scope of a namespace, record or enum of this name, making it when it is new.
    pub(super) fn open(&mut self, name: Option<&Name>, kind: NameKind) {
        let existing = name.and_then(|n| self.current().names.get(n)).and_then(|e| e.scope);
        let id = match existing {
            Some(id) => id,
            None => {
                self.all.push(Scope::default());
                self.all.len() - 1
            }
        };
        match name {
            Some(name) => self.insert(name, kind, Some(id), false),
            // What an unnamed namespace holds is visible outside.
            None if kind == NameKind::Namespace => self.current().visible.push(id),
            None => {}
        }
        self.stack.push(id);
    }

    /// Makes the names of the innermost scope visible in the one around it.
    pub(super) fn expose_to_parent(&mut self) {
        if let [.., parent, top] = self.stack[..] {
            let visible = &mut self.all[parent].visible;
            if !visible.contains(&top) {
                visible.push(top);
            }
        }
    }

    /// Opens the scope that a path names; false (and nothing opened) when it is not known.
    pub(super) fn open_path(&mut self, path: &[&Name]) -> bool {
        match self.resolve_scope(path) {
            Some(id) => {
                self.stack.push(id);
                true
            }
            None => false,
        }
    }

    /// Makes the names of a namespace or base visible in the innermost scope.
    pub(super) fn make_visible(&mut self, path: &Path) {
        let names: Vec<&Name> = path.segments.iter().map(|s| &s.ident.name).collect();
        if let Some(id) = self.resolve_scope(&names)
            && self.stack.last() != Some(&id)
        {
            self.current().visible.push(id);
        }
    }

    /// `using a::b;`
    pub(super) fn import(&mut self, path: &Path) {
        let names: Vec<&Name> = path.segments.iter().map(|s| &s.ident.name).collect();
        let Some((last, prefix)) = names.split_last() else {
            return;
        };
        let entry = match self.resolve_scope(prefix) {
            Some(id) => self.find_in(id, last, 0),
            None => None,
        };
        if let Some(entry) = entry {
            self.insert(last, entry.kind, entry.scope, entry.is_pack);
        }
    }

    /// `namespace a = b::c;`
    pub(super) fn alias_namespace(&mut self, name: &Name, target: &Path) {
        let names: Vec<&Name> = target.segments.iter().map(|s| &s.ident.name).collect();
        let scope = self.resolve_scope(&names);
        self.insert(name, NameKind::Namespace, scope, false);
    }

    fn find_in(&self, id: usize, name: &str, depth: usize) -> Option<Entry> {
        let scope = &self.all[id];
        if let Some(entry) = scope.names.get(name) {
            return Some(*entry);
        }
        if depth > 8 {
            return None;
        }
        scope.visible.iter().find_map(|v| self.find_in(*v, name, depth + 1))
    }

    fn find(&self, name: &str) -> Option<Entry> {
        self.stack.iter().rev().find_map(|id| self.find_in(*id, name, 0))
    }

    fn resolve_scope(&self, path: &[&Name]) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let mut id = self.find(first)?.scope?;
        for name in rest {
            id = self.find_in(id, name, 0)?.scope?;
        }
        Some(id)
    }

    /// What an unqualified name is.
    pub(super) fn kind(&self, name: &str) -> NameKind {
        match self.find(name) {
            Some(entry) => entry.kind,
            None => library::kind(name),
        }
    }

    /// Has the source itself declared this name?
    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Is it a parameter pack?
    pub(super) fn is_pack(&self, name: &str) -> bool {
        self.find(name).is_some_and(|e| e.is_pack)
    }

    /// What the last segment of a (partial) path is.
    pub(super) fn path_kind(&self, root: &PathRoot, segments: &[&Name]) -> NameKind {
        let Some((last, prefix)) = segments.split_last() else {
            return NameKind::Unknown;
        };
        if prefix.is_empty() {
            return match root {
                PathRoot::Scope => self.kind(last),
                PathRoot::Global => match self.find_in(0, last, 0) {
                    Some(entry) => entry.kind,
                    None => library::kind(last),
                },
                PathRoot::Decltype(_) => of_object(last),
            };
        }
        if matches!(root, PathRoot::Decltype(_)) {
            return of_object(last);
        }
        if let Some(entry) = self.resolve_scope(prefix).and_then(|id| self.find_in(id, last, 0)) {
            return entry.kind;
        }
        if prefix.iter().all(|n| library::is_namespace(n)) {
            library::kind(last)
        } else {
            of_object(last)
        }
    }
}

/// What a member of a type that is not known here is: the library's classes have a few templates.
fn of_object(name: &str) -> NameKind {
    if library::member_type_template(name) {
        NameKind::TypeTemplate
    } else {
        NameKind::Unknown
    }
}
