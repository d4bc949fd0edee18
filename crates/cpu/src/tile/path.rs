//! Which instruction set a tile product runs on: detection, the override by environment, and the list of what this
//! machine has.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use super::TileError;

/// The environment variable that forces a path: `portable`, `avx2`, `avx512` or `amx`.
pub const PATH_VARIABLE: &str = "ANYMETAL_CPU";

/// An instruction set that the tile products are written for, from the plainest to the fastest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TilePath {
    /// Plain Rust, on every machine.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL (and everything of [`Avx2`](Self::Avx2)); BF16 and VNNI are used where they
    /// are there.
    Avx512,
    /// x86-64 with AMX tiles for bf16 and int8 (and everything of [`Avx512`](Self::Avx512)).
    Amx,
}

impl TilePath {
    /// Every path, plainest first.
    pub const ALL: [TilePath; 4] = [TilePath::Portable, TilePath::Avx2, TilePath::Avx512, TilePath::Amx];

    /// The name that [`PATH_VARIABLE`] takes.
    pub const fn name(self) -> &'static str {
        match self {
            TilePath::Portable => "portable",
            TilePath::Avx2 => "avx2",
            TilePath::Avx512 => "avx512",
            TilePath::Amx => "amx",
        }
    }

    /// Nothing when this machine has the path, otherwise what it lacks.
    pub fn missing(self) -> Option<&'static str> {
        detected().missing[self as usize]
    }

    /// True when this machine has the path.
    pub fn is_available(self) -> bool {
        self.missing().is_none()
    }

    /// This path, or an error that says what the machine lacks.
    pub fn require(self) -> Result<TilePath, TileError> {
        match self.missing() {
            None => Ok(self),
            Some(missing) => Err(TileError::PathUnavailable { path: self, missing }),
        }
    }

    /// The path in use: the one that [`PATH_VARIABLE`] names, or the fastest that this machine has. The variable is read
    /// once in a process.
    pub fn current() -> Result<TilePath, TileError> {
        static CURRENT: OnceLock<Result<TilePath, TileError>> = OnceLock::new();
        CURRENT
            .get_or_init(|| match std::env::var(PATH_VARIABLE) {
                Ok(value) if !value.is_empty() => value.parse::<TilePath>()?.require(),
                Err(std::env::VarError::NotUnicode(value)) => Err(TileError::UnknownPath {
                    value: value.to_string_lossy().into_owned(),
                }),
                _ => Ok(TilePath::best()),
            })
            .clone()
    }

    /// The fastest path that this machine has, whatever the environment says.
    pub fn best() -> TilePath {
        available_paths().last().copied().unwrap_or(TilePath::Portable)
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TilePath {
    type Err = TileError;

    fn from_str(text: &str) -> Result<Self, TileError> {
        TilePath::ALL
            .into_iter()
            .find(|path| path.name() == text)
            .ok_or_else(|| TileError::UnknownPath { value: text.to_owned() })
    }
}

/// True where the [`Avx512`](TilePath::Avx512) path has dot products of bf16 pairs.
pub(crate) fn has_bf16_dots() -> bool {
    #[cfg(target_arch = "x86_64")]
    return TilePath::Avx512.is_available() && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// True where dot products of bf16 pairs multiply faster than `f32` does. On Intel's processors the instruction takes two
/// cycles of one port (measured on one with AMX), `f32` two ports.
pub(crate) fn has_fast_bf16_dots() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_bf16_dots() && !is_intel();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "x86_64")]
fn is_intel() -> bool {
    // In newer standard libraries this is a safe function.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has CPUID.
    let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

/// True where multiplying subnormal numbers takes no longer than others. Intel's processors take an assist of a hundred cycles or more.
pub(crate) fn has_fast_subnormals() -> bool {
    #[cfg(target_arch = "x86_64")]
    return !is_intel();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// True where the [`Avx512`](TilePath::Avx512) path has dot products of 8-bit integers.
pub(crate) fn has_int8_dots() -> bool {
    #[cfg(target_arch = "x86_64")]
    return TilePath::Avx512.is_available() && is_x86_feature_detected!("avx512vnni");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// True where the AVX-512 paths have what products of few rows take: dot products of bf16 pairs and byte permutations.
pub(crate) fn has_few_rows() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_bf16_dots() && is_x86_feature_detected!("avx512vbmi");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The paths that this machine has, plainest first; never empty.
pub fn available_paths() -> &'static [TilePath] {
    &detected().available
}

struct Detected {
    missing: [Option<&'static str>; 4],
    available: Vec<TilePath>,
}

fn detected() -> &'static Detected {
    static DETECTED: OnceLock<Detected> = OnceLock::new();
    DETECTED.get_or_init(|| {
        let missing = detect();
        let available = TilePath::ALL
            .into_iter()
            .filter(|&path| missing[path as usize].is_none())
            .collect();
        Detected { missing, available }
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> [Option<&'static str>; 4] {
    const OTHER: Option<&str> = Some("an x86-64 processor");
    [None, OTHER, OTHER, OTHER]
}

#[cfg(target_arch = "x86_64")]
fn detect() -> [Option<&'static str>; 4] {
    let avx2 = if !is_x86_feature_detected!("avx2") {
        Some("AVX2")
    } else if !is_x86_feature_detected!("fma") {
        Some("FMA")
    } else if !is_x86_feature_detected!("f16c") {
        Some("F16C")
    } else {
        None
    };
    let avx512 = avx2.or(if !is_x86_feature_detected!("avx512f") {
        Some("AVX-512 F")
    } else if !is_x86_feature_detected!("avx512bw") {
        Some("AVX-512 BW")
    } else if !is_x86_feature_detected!("avx512dq") {
        Some("AVX-512 DQ")
    } else if !is_x86_feature_detected!("avx512vl") {
        Some("AVX-512 VL")
    } else {
        None
    });
    let amx = avx512.or_else(missing_amx);
    [None, avx2, avx512, amx]
}

/// AMX needs three things: the instructions (CPUID leaf 7), an operating system that saves the tile registers (XCR0 bits
/// 17 and 18), and, on Linux, this process's permission to use them (the tile state enlarges signal frames, so the
/// kernel hands it out on request).
#[cfg(target_arch = "x86_64")]
fn missing_amx() -> Option<&'static str> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // In newer standard libraries these are safe functions: every x86-64 processor has CPUID.
    #[allow(unused_unsafe)]
    // SAFETY: CPUID exists on every x86-64 processor, and leaf 7 is asked for only where the processor has it.
    let edx = unsafe {
        if __cpuid(0).eax < 7 {
            return Some("AMX tiles");
        }
        __cpuid_count(7, 0).edx
    };
    if edx & (1 << 24) == 0 {
        return Some("AMX tiles");
    }
    if edx & (1 << 22) == 0 {
        return Some("AMX bf16");
    }
    if edx & (1 << 25) == 0 {
        return Some("AMX int8");
    }
    if !is_x86_feature_detected!("xsave") {
        return Some("XSAVE");
    }
    // SAFETY: XSAVE was just detected.
    let saved = unsafe { extended_control_register() };
    if saved & (0b11 << 17) != 0b11 << 17 {
        return Some("AMX state saved by the operating system");
    }
    request_tile_permission()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "xsave")]
unsafe fn extended_control_register() -> u64 {
    // SAFETY: XSAVE is enabled for this function; register 0 always exists then.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn request_tile_permission() -> Option<&'static str> {
    const SYS_ARCH_PRCTL: u64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let result: i64;
    // SAFETY: the system call takes two integers, touches no memory of ours, and clobbers rcx and r11 only. Permission
    // once given holds for every thread of the process.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") SYS_ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    (result != 0).then_some("the kernel's permission to use AMX tiles")
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn request_tile_permission() -> Option<&'static str> {
    Some("AMX support on this operating system")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_always_there() {
        assert_eq!(available_paths()[0], TilePath::Portable);
        assert!(TilePath::best().is_available());
    }

    #[test]
    fn names_parse_back() {
        for path in TilePath::ALL {
            assert_eq!(path.name().parse::<TilePath>().unwrap(), path);
        }
        assert_eq!(
            "sse".parse::<TilePath>().unwrap_err().to_string(),
            "ANYMETAL_CPU names no instruction set: \"sse\"; it takes portable, avx2, avx512 or amx"
        );
    }

    #[test]
    fn a_missing_path_says_what_is_missing() {
        let error = TileError::PathUnavailable {
            path: TilePath::Amx,
            missing: "AMX tiles",
        };
        assert_eq!(
            error.to_string(),
            "this machine cannot run the amx tile products: it lacks AMX tiles; unset ANYMETAL_CPU to take the best it has"
        );
        for path in TilePath::ALL {
            assert_eq!(path.require().is_ok(), available_paths().contains(&path));
        }
    }
}
