//! Structs, classes and unions: instantiation and layout.

use super::context::{Res, Sema};
use super::types::RecordId;

impl Sema<'_> {
    /// Makes sure that a record's members are known.
    pub fn complete_record(&mut self, id: RecordId) -> Res<()> {
        if self.records[id.index()].complete {
            return Ok(());
        }
        let name = self.records[id.index()].name.clone();
        self.err("E0430", format!("'{name}' is not complete here"), self.span)
    }
}
