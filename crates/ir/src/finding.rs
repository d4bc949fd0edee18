//! What the sanitizer finds: mistakes of a kernel that compile, and often run, but are mistakes all the same.
//!
//! A [`Finding`] is made by a backend while a kernel runs under watch, or by the [checks](mod@crate::checks) that look at
//! the IR alone. `docs/sanitizer.md` explains each code with an example.

use std::fmt;

use crate::location::{LocationId, Locations};

/// One place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourcePoint {
    /// File name as the user knows it.
    pub file: String,
    /// 1-based line; 0 when unknown.
    pub line: u32,
    /// 1-based column in characters; 0 when unknown.
    pub column: u32,
}

impl fmt::Display for SourcePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A place of a finding, with the call sites around it, and what happened there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The place, then the call sites that it was inlined at, innermost first; never empty.
    pub chain: Vec<SourcePoint>,
    /// What happened there, in a few words.
    pub label: String,
}

impl Spot {
    /// The place behind a location of a kernel.
    pub fn new(locations: &Locations, id: LocationId, label: impl Into<String>) -> Self {
        let point = |id: LocationId| {
            let location = locations.get(id);
            let file = locations.files.get(location.file as usize);
            SourcePoint {
                file: file.map_or_else(|| "<unknown>".to_string(), Clone::clone),
                line: location.line,
                column: location.column,
            }
        };
        let mut chain = vec![point(id)];
        let mut at = locations.get(id).inlined_at;
        while let (Some(next), true) = (at, chain.len() < 64) {
            chain.push(point(next));
            at = locations.get(next).inlined_at;
        }
        Spot {
            chain,
            label: label.into(),
        }
    }

    /// The place itself.
    pub fn point(&self) -> &SourcePoint {
        &self.chain[0]
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which kind.
    pub code: FindingCode,
    /// Host name of the kernel.
    pub kernel: String,
    /// One sentence without a full stop.
    pub message: String,
    /// Where it shows.
    pub spot: Spot,
    /// Other places that matter: the other access of a race.
    pub related: Vec<Spot>,
    /// What else is known: threads, coordinates, the rule.
    pub notes: Vec<String>,
    /// What to do.
    pub help: String,
    /// How often it was seen at these lines.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  --> {}", self.code, self.message, self.spot.point())?;
        for spot in &self.related {
            write!(f, "\n  ::: {}: {}", spot.point(), spot.label)?;
        }
        for note in &self.notes {
            write!(f, "\n  note: {note}")?;
        }
        write!(f, "\n  help: {}", self.help)
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $code:literal, $static_check:literal;)*) => {
        /// The kinds of findings. The hundreds are families: 01 races, 02 control flow and launch, 03 values that were
        /// never set, 04 tiles, 05 index arithmetic, 06 accesses that end a dispatch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FindingCode {
            $($(#[doc = $doc])* $variant,)*
        }

        impl FindingCode {
            /// All of them, in order.
            pub const ALL: &[FindingCode] = &[$(FindingCode::$variant),*];

            /// `S0101` and so on; stable.
            pub const fn as_str(self) -> &'static str {
                match self { $(FindingCode::$variant => $code),* }
            }

            /// True for what is found without running the kernel.
            pub const fn is_static(self) -> bool {
                match self { $(FindingCode::$variant => $static_check),* }
            }
        }
    };
}

codes! {
    /// Two threads of a threadgroup access threadgroup memory without a barrier between, one of them writing.
    ThreadgroupRace = "S0101", false;
    /// The same in device memory, within a threadgroup.
    DeviceRace = "S0102", false;
    /// Two threadgroups access device memory, one of them writing; nothing orders threadgroups.
    GroupRace = "S0103", false;
    /// A barrier that not all threads of its scope reach.
    DivergentBarrier = "S0201", false;
    /// A tile operation that not all threads of its scope reach.
    DivergentTileOperation = "S0202", false;
    /// A dispatch with another number of SIMD-groups than an operation's scope.
    SimdgroupCount = "S0203", false;
    /// A read of threadgroup memory that nobody has written.
    UninitialisedThreadgroup = "S0301", false;
    /// A read of a thread's own array that it has not written.
    UninitialisedThread = "S0302", false;
    /// A read of cooperative elements that were never set.
    UninitialisedCooperative = "S0303", false;
    /// A slot of a cooperative tensor that holds no element.
    InvalidSlot = "S0304", false;
    /// A destination reused as an input without the compatibility query.
    UncheckedConversion = "S0401", true;
    /// Results differ under another legal layout of cooperative tensors.
    LayoutDependence = "S0402", false;
    /// A reduction by max or min that starts from the identity of the sum.
    ReductionIdentity = "S0403", true;
    /// A loop that overwrites a product instead of accumulating.
    OverwrittenProduct = "S0404", true;
    /// Signed arithmetic of an index overflows.
    SignedOverflow = "S0501", false;
    /// Unsigned arithmetic of an index goes below zero.
    UnsignedWrap = "S0502", false;
    /// An access outside of its memory.
    OutOfBounds = "S0601", false;
    /// A static extent past the end of a tensor.
    StaticOverhang = "S0602", false;
    /// An access at an address that its type does not allow.
    Misaligned = "S0603", false;
    /// The instruction budget ran out.
    Budget = "S0604", false;
    /// A tile operation or tensor that does not fit.
    TileOperation = "S0605", false;
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
