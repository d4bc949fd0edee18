//! Source locations with their inlined-at chain.

/// Indexes [`Locations`]. Id 0 is the unknown location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocationId(pub u32);

/// A place in a source file, and where the function around it was inlined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// Index into [`Locations::files`].
    pub file: u32,
    /// 1-based line; 0 when unknown.
    pub line: u32,
    /// 1-based column in characters; 0 when unknown.
    pub column: u32,
    /// The call site that this code was inlined at, if any.
    pub inlined_at: Option<LocationId>,
}

/// The table of locations of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// File names as the user knows them.
    pub files: Vec<String>,
    /// The locations; entry 0 is the unknown one.
    pub entries: Vec<Location>,
}

impl Default for Locations {
    fn default() -> Self {
        Locations {
            files: vec!["<unknown>".to_string()],
            entries: vec![Location::default()],
        }
    }
}

impl Locations {
    /// Adds a location, or finds it among the latest ones.
    pub fn add(&mut self, location: Location) -> LocationId {
        let recent = self.entries.len().saturating_sub(8);
        if let Some(at) = self.entries[recent..].iter().position(|entry| *entry == location) {
            return LocationId((recent + at) as u32);
        }
        self.entries.push(location);
        LocationId(self.entries.len() as u32 - 1)
    }

    /// The entry behind an id; the unknown location for an id out of range.
    pub fn get(&self, id: LocationId) -> &Location {
        self.entries.get(id.0 as usize).unwrap_or(&self.entries[0])
    }

    /// `file:line:column` of a location.
    pub fn describe(&self, id: LocationId) -> String {
        let location = self.get(id);
        let file = self
            .files
            .get(location.file as usize)
            .map_or("<unknown>", String::as_str);
        format!("{file}:{}:{}", location.line, location.column)
    }

    /// The location and the call sites around it, innermost first.
    pub fn chain(&self, id: LocationId) -> Vec<String> {
        let mut out = vec![self.describe(id)];
        let mut at = self.get(id).inlined_at;
        while let (Some(next), true) = (at, out.len() < 64) {
            out.push(self.describe(next));
            at = self.get(next).inlined_at;
        }
        out
    }
}
