//! Kernels: arguments, built-in attributes, function constants.

use std::collections::BTreeMap;

/// Values bound to function constants: raw bits of the scalar (or the components, in order) by index or by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionConstantValues {
    /// By `[[function_constant(n)]]`.
    pub by_index: BTreeMap<u32, ConstantValue>,
    /// By name.
    pub by_name: BTreeMap<String, ConstantValue>,
}

/// The value of a function constant; converted to the constant's type.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstantValue {
    /// `bool`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A vector.
    Vector(Vec<ConstantValue>),
}
