//! What a compilation is asked to do: the language version, macros, include paths.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A Metal language version, as `-std=` spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MetalStd {
    /// `metal3.0`
    Metal3_0,
    /// `metal3.1`
    Metal3_1,
    /// `metal3.2`
    Metal3_2,
    /// `metal4.0`
    Metal4_0,
    /// `metal4.1`
    #[default]
    Metal4_1,
}

impl MetalStd {
    /// The value of `__METAL_VERSION__`: 300, 310, 320, 400, 410.
    pub fn version(self) -> u32 {
        match self {
            MetalStd::Metal3_0 => 300,
            MetalStd::Metal3_1 => 310,
            MetalStd::Metal3_2 => 320,
            MetalStd::Metal4_0 => 400,
            MetalStd::Metal4_1 => 410,
        }
    }
}

impl fmt::Display for MetalStd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.version();
        write!(f, "metal{}.{}", v / 100, v % 100 / 10)
    }
}

/// A `-std=` value that is not one of the five.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown language version '{0}': use metal3.0, metal3.1, metal3.2, metal4.0 or metal4.1")]
pub struct UnknownStd(pub String);

impl FromStr for MetalStd {
    type Err = UnknownStd;

    fn from_str(s: &str) -> Result<Self, UnknownStd> {
        Ok(match s {
            "metal3.0" | "macos-metal3.0" => MetalStd::Metal3_0,
            "metal3.1" | "macos-metal3.1" => MetalStd::Metal3_1,
            "metal3.2" | "macos-metal3.2" => MetalStd::Metal3_2,
            "metal4.0" => MetalStd::Metal4_0,
            "metal4.1" => MetalStd::Metal4_1,
            _ => return Err(UnknownStd(s.to_string())),
        })
    }
}

/// A release of macOS, such as 26.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsRelease {
    /// 26
    pub major: u8,
    /// 4
    pub minor: u8,
}

impl fmt::Display for OsRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A release that is none, or that has no tensors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no release of macOS with tensors: use 26.0 to 26.6, 27.0 or a later one")]
pub struct UnknownRelease(pub String);

impl FromStr for OsRelease {
    type Err = UnknownRelease;

    fn from_str(s: &str) -> Result<Self, UnknownRelease> {
        let (major, minor) = s.split_once('.').unwrap_or((s, "0"));
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) if major >= 26 => Ok(OsRelease { major, minor }),
            _ => Err(UnknownRelease(s.to_string())),
        }
    }
}

/// Options of one compilation; the defaults are those of `xcrun metal -std=metal4.1`.
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    /// `-std=`
    pub std: MetalStd,
    /// `-I`: directories searched for `#include`, in order.
    pub include_dirs: Vec<PathBuf>,
    /// `-D name=value`; `None` means `1`. A name may carry a parameter list: `F(x)`.
    pub defines: Vec<(String, Option<String>)>,
    /// `-U name`, applied after the definitions.
    pub undefines: Vec<String>,
    /// `-include file`, in order, before the source.
    pub force_includes: Vec<String>,
    /// `-ffast-math` (the default) or `-fno-fast-math`.
    pub fast_math: bool,
    /// Turns those refusals into warnings that have a meaning here although Apple's headers refuse the source.
    pub lenient: bool,
    /// Gives cooperative tensors a layout that differs from those of known devices
    /// ([`LayoutKind::Permuted`](anymetal_ir::LayoutKind::Permuted)), to find kernels that rely on one.
    pub permuted_layout: bool,
    /// Files that exist only in memory, by the name an `#include` uses; they come before the disk.
    pub virtual_files: BTreeMap<String, String>,
    /// May `#include` read files from the disk? False for kernels that come inside a model.
    pub allow_files: bool,
    /// After so many errors the compilation stops.
    pub max_errors: usize,
    /// Warns (W0990) of what this release of macOS does not have, and drops the restrictions that it does not have yet; a
    /// release before 27 has no `metal4.1`.
    pub os: Option<OsRelease>,
}

impl CompileOptions {
    /// Asks what this release of macOS would say, with the newest language version that it has.
    pub fn for_release(&mut self, os: OsRelease) {
        self.os = Some(os);
        if os.major < 27 {
            self.std = self.std.min(MetalStd::Metal4_0);
        }
    }
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            std: MetalStd::default(),
            include_dirs: Vec::new(),
            defines: Vec::new(),
            undefines: Vec::new(),
            force_includes: Vec::new(),
            fast_math: true,
            lenient: false,
            permuted_layout: false,
            virtual_files: BTreeMap::new(),
            allow_files: true,
            max_errors: 20,
            os: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_round_trips() {
        for s in ["metal3.0", "metal3.1", "metal3.2", "metal4.0", "metal4.1"] {
            assert_eq!(s.parse::<MetalStd>().unwrap().to_string(), s);
        }
        assert!("metal5".parse::<MetalStd>().is_err());
    }

    #[test]
    fn releases_are_ordered() {
        let release = |s: &str| s.parse::<OsRelease>().unwrap();
        assert!(release("26.4") < release("27") && release("26") < release("26.1"));
        assert_eq!(release("27").to_string(), "27.0");
        for wrong in ["15.1", "26.x", "", "macOS 26"] {
            assert!(wrong.parse::<OsRelease>().is_err());
        }
    }
}
