//! What PTX is made for, and what is told about it.

use std::fmt;
use std::str::FromStr;

use anymetal_ir::{Kernel, Op};

use crate::abi::ParameterBlock;

/// A chip that PTX is made for (`.target`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Target {
    /// Compute capability: 80, 90, 100, 120.
    pub sm: u32,
    /// The target has the suffix `a`: instructions of this chip alone (`wgmma`) may be used.
    pub arch_specific: bool,
}

impl Target {
    /// Threads that a multiprocessor holds.
    pub(crate) fn threads(self) -> u32 {
        match self.sm {
            80 | 90 | 100 | 103 => 2048,
            _ => 1536,
        }
    }

    /// `sm_80`, the oldest that is supported: everything by `mma.sync`.
    pub const SM_80: Target = Target {
        sm: 80,
        arch_specific: false,
    };
    /// `sm_90a`: Hopper with `wgmma` and bulk tensor copies.
    pub const SM_90A: Target = Target {
        sm: 90,
        arch_specific: true,
    };

    /// The target for a device of a compute capability: with the suffix `a` from 9.0 on.
    pub const fn of_capability(major: u32, minor: u32) -> Target {
        let sm = major * 10 + minor;
        Target {
            sm,
            arch_specific: sm >= 90,
        }
    }

    /// Has `wgmma`, bulk tensor copies and `mbarrier` pipelines as this backend uses them.
    pub const fn has_wgmma(self) -> bool {
        self.sm == 90 && self.arch_specific
    }

    /// Converts fp8 by instructions (`cvt.rn.f16x2.e4m3x2`).
    pub const fn has_fp8_conversion(self) -> bool {
        self.sm >= 89
    }

    /// The lowest PTX ISA version that has this target and what the backend uses on it.
    pub const fn ptx_version(self) -> (u32, u32) {
        match self.sm {
            ..=87 => (7, 8),
            88 | 89 => (8, 1),
            90 => (8, 3),
            100 => (8, 6),
            _ => (8, 7),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.sm, if self.arch_specific { "a" } else { "" })
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no target: write sm_80, sm_90a, sm_100a or sm_120a");
        let number = text.strip_prefix("sm_").ok_or_else(bad)?;
        let (digits, arch_specific) = match number.strip_suffix('a') {
            Some(digits) => (digits, true),
            None => (number, false),
        };
        let sm = digits.parse().map_err(|_| bad())?;
        if !(80..=130).contains(&sm) || (arch_specific && sm < 90) {
            return Err(bad());
        }
        Ok(Target { sm, arch_specific })
    }
}

/// How a kernel is compiled.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PtxOptions {
    /// The chip.
    pub target: Target,
    /// Every access is checked against its buffer; the first fault is recorded and the access does nothing.
    pub checked: bool,
    /// Layout compatibility queries answer false.
    pub force_incompatible: bool,
    /// Checked mode does not mind tiles whose static extents reach past their tensor; they read zeros there, as without checks.
    pub static_overhang_zero: bool,
    /// No two arguments are bound to overlapping memory: reads of what the kernel does not write may be moved and cached.
    pub unaliased: bool,
    /// Every argument that [`ParameterBlock::values`] has room for is bound as bytes, and a copy of them is there: loads from it need no memory.
    pub values: bool,
    /// Threads that a threadgroup of the dispatches has at most: fewer leave more registers for each. One of [`THREAD_CLASSES`].
    pub threads: u32,
    /// Every threadgroup of the launch has exactly so many threads.
    pub whole: bool,
    /// The size of every threadgroup of the launch, where it is known to be the same for all: sizes become numbers in the code.
    pub shape: Option<[u32; 3]>,
}

/// The values of [`PtxOptions::threads`]; each has its own number of registers for a thread.
pub const THREAD_CLASSES: [u32; 5] = [256, 384, 512, 768, 1024];

impl PtxOptions {
    /// The smallest class that has room for threadgroups of so many threads.
    pub fn thread_class(threads: u32) -> u32 {
        let class = THREAD_CLASSES.into_iter().find(|&class| threads <= class);
        class.unwrap_or(THREAD_CLASSES[THREAD_CLASSES.len() - 1])
    }

    /// Threads of a threadgroup that a kernel's source states: by an operation of all SIMD-groups, or as the most that there may be.
    pub fn stated_threads(kernel: &Kernel) -> Option<u32> {
        let required = kernel.required_simdgroups.iter().map(|&(groups, _)| groups);
        let required = required.min().map(|groups| groups.saturating_mul(32));
        required.or(kernel.max_threads)
    }

    /// For a kernel of which nothing is known but its source.
    pub fn of_kernel(kernel: &Kernel) -> Self {
        PtxOptions {
            threads: PtxOptions::thread_class(PtxOptions::stated_threads(kernel).unwrap_or(0)),
            ..PtxOptions::default()
        }
    }

    /// As a launch of a kernel has it: its threads in all, and the size of a threadgroup.
    pub fn of_launch(kernel: &Kernel, threads: [u32; 3], threadgroup: [u32; 3]) -> Self {
        let gains = Gains::of(kernel);
        PtxOptions::default().with_launch(gains, threads, threadgroup)
    }

    pub(crate) fn with_launch(self, gains: Gains, threads: [u32; 3], threadgroup: [u32; 3]) -> Self {
        let divides = (0..3).all(|d| threads[d].is_multiple_of(threadgroup[d].max(1)));
        let count = threadgroup.iter().fold(1u32, |all, &n| all.saturating_mul(n));
        let whole = gains.whole && divides && count > 0 && count.is_multiple_of(128);
        PtxOptions {
            threads: if whole { count } else { PtxOptions::thread_class(count) },
            whole,
            shape: (gains.shape && divides && count.is_multiple_of(32)).then_some(threadgroup),
            ..self
        }
    }
}

/// What a kernel gains from knowing of its launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gains {
    /// That all threadgroups are whole: SIMD-groups multiply, which whole threadgroups can share.
    pub whole: bool,
    /// The size of a threadgroup: it asks for it.
    pub shape: bool,
}

impl Gains {
    pub fn of(kernel: &Kernel) -> Self {
        let mut whole = false;
        kernel
            .body
            .for_each_inst(&mut |inst| whole |= matches!(inst.op, Op::Matmul { simdgroups: 1, .. }));
        Gains {
            whole,
            shape: crate::prepare::asks_for_sizes(kernel),
        }
    }
}

impl Default for PtxOptions {
    fn default() -> Self {
        PtxOptions {
            target: Target::SM_90A,
            checked: false,
            force_incompatible: false,
            static_overhang_zero: false,
            unaliased: true,
            values: true,
            threads: 1024,
            whole: false,
            shape: None,
        }
    }
}

/// Memory that a kernel wants for a widened copy of an argument that it only reads.
///
/// Its size is `growth` bytes for each byte that is bound, and what [levels](Self::levels) take; beside it come [flags](Self::flag_bytes), which are zero when the kernel starts. What a launch
/// cannot lend it leaves out (zeros in the [parameter block](crate::abi)): the kernel then does without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageRequest {
    /// The argument.
    pub argument: anymetal_ir::ArgumentId,
    /// Bytes for each byte of it.
    pub growth: u32,
    /// Whether each row has a word behind the copy.
    pub levels: bool,
}

impl ImageRequest {
    /// Words before those of the pieces: counters.
    pub const HEADER_WORDS: u32 = 2;
    /// Rows that have a word.
    pub const PIECE_ROWS: u32 = 4;
    /// Bytes that a row has at least.
    pub const ROW_BYTES: u32 = 128;

    /// Bytes of the copy of an argument of so many bytes. Levels begin at the next multiple of 16.
    pub const fn image_bytes(&self, bytes: u64) -> u64 {
        let levels = if self.levels {
            (bytes / Self::ROW_BYTES as u64).saturating_mul(4).saturating_add(16)
        } else {
            0
        };
        bytes.saturating_mul(self.growth as u64).saturating_add(levels)
    }

    /// Bytes of the flags: words of four bytes, which are counters and one for each piece of rows.
    pub const fn flag_bytes(&self, bytes: u64) -> u64 {
        let pieces = bytes.div_ceil((Self::PIECE_ROWS * Self::ROW_BYTES) as u64);
        pieces.saturating_add(1 + Self::HEADER_WORDS as u64).saturating_mul(4)
    }
}

/// A compiled kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxModule {
    /// The PTX text.
    pub text: String,
    /// The name of its `.entry`.
    pub entry: String,
    /// Where a launch writes what.
    pub parameters: ParameterBlock,
    /// Bytes of dynamic shared memory before the kernel's dynamic threadgroup arguments: staging area and threadgroup objects.
    pub shared_bytes: u32,
    /// Bytes of [`abi::Header::workspace`](crate::abi::WORKSPACE) that each block needs; 0 for none.
    pub workspace_bytes: u32,
    /// Widened copies of arguments that the kernel can use, in the order of [`ParameterBlock::images`].
    pub images: Vec<ImageRequest>,
    /// The launch may let each hardware thread run 2^this neighbours in `x`: it then has as many times fewer threads there, and says so at
    /// [`COARSE_SHIFT`](crate::abi::COARSE_SHIFT). 0 if the kernel cannot.
    pub coarse_shift: u32,
    /// Threads of a threadgroup at most (what `.maxntid` says).
    pub max_threads: u32,
    /// Threads to launch beyond the threadgroup's own (whole warps of the backend, at the end).
    pub hidden_threads: u32,
    /// It waits for the launch in front of it before it touches memory (but for [`early_reads`](Self::early_reads)), and lets the next one begin only
    /// then: it may be launched while that one runs.
    pub waits: bool,
    /// Arguments that it reads before it waits. The launch in front must not write them.
    pub early_reads: Vec<anymetal_ir::ArgumentId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_parse_and_print() {
        for name in ["sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120a"] {
            assert_eq!(name.parse::<Target>().unwrap().to_string(), name);
        }
        for name in ["90a", "sm_", "sm_70", "sm_80a", "sm_900"] {
            assert!(name.parse::<Target>().is_err(), "{name}");
        }
    }

    #[test]
    fn threadgroups_have_a_class() {
        for (threads, class) in [(0, 256), (256, 256), (257, 384), (512, 512), (513, 768), (1024, 1024)] {
            assert_eq!(PtxOptions::thread_class(threads), class);
        }
    }

    #[test]
    fn a_kernel_states_its_threads() {
        let kernel = |lines: &str| {
            let text = format!("kernel \"k\" {{\n{lines}  file 1 \"k.metal\"\n  loc !1 1 1 1\n  body {{\n  }}\n}}\n");
            anymetal_ir::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
        };
        let of = |lines: &str| PtxOptions::of_kernel(&kernel(lines)).threads;
        assert_eq!(of(""), 256);
        assert_eq!(of("  max_threads 128\n"), 256);
        assert_eq!(of("  max_threads 1024\n"), 1024);
        assert_eq!(of("  max_threads 1024\n  required_simdgroups 16 !1\n"), 512);
        assert_eq!(
            PtxOptions::stated_threads(&kernel("  required_simdgroups 4 !1\n")),
            Some(128)
        );
    }

    #[test]
    fn a_launch_is_whole_where_that_helps() {
        let gains = Gains {
            whole: true,
            shape: true,
        };
        let launch = |gains, threads, threadgroup| PtxOptions::default().with_launch(gains, threads, threadgroup);
        let whole = launch(gains, [256, 2, 1], [128, 1, 1]);
        assert_eq!(
            (whole.threads, whole.whole, whole.shape),
            (128, true, Some([128, 1, 1]))
        );
        for (threads, threadgroup) in [([250, 1, 1], [128, 1, 1]), ([192, 1, 1], [96, 1, 1])] {
            let part = launch(gains, threads, threadgroup);
            assert_eq!((part.threads, part.whole), (256, false));
        }
        let none = Gains {
            whole: false,
            shape: false,
        };
        let plain = launch(none, [256, 1, 1], [128, 1, 1]);
        assert_eq!((plain.threads, plain.whole, plain.shape), (256, false, None));
        assert_eq!(launch(gains, [0; 3], [0; 3]).threads, 256);
    }
}
