//! The inner loops of the AVX2 micro-kernels for strips of 5 and 6 rows × 16 columns, as inline assembly: four steps along K at
//! once, rows addressed by two registers and a distance. What a compiler makes of the same loop spends a third more
//! instructions on addresses, or keeps sums in memory.

use std::arch::asm;
use std::arch::x86_64::{__m256, __m256i};

/// Steps along K at once.
const AT_ONCE: usize = 4;

/// A row's multiply-adds in one step: where its group is, its two sums, and a register for the group.
macro_rules! f32_row {
    ($step:literal, $group:literal, $low:literal, $high:literal, $y:literal) => {
        concat!(
            "vbroadcastss {",
            $y,
            "}, dword ptr [",
            $group,
            " + 4*",
            $step,
            "]\n",
            "vfmadd231ps {",
            $low,
            "}, {",
            $y,
            "}, {x0}\n",
            "vfmadd231ps {",
            $high,
            "}, {",
            $y,
            "}, {x1}\n",
        )
    };
}

/// The same for pairs of 16-bit integers, which take both registers.
macro_rules! i16_row {
    ($step:literal, $group:literal, $low:literal, $high:literal, $y:literal) => {
        concat!(
            "vpbroadcastd {y}, dword ptr [",
            $group,
            " + 4*",
            $step,
            "]\n",
            "vpmaddwd {z}, {y}, {x0}\n",
            "vpmaddwd {y}, {y}, {x1}\n",
            "vpaddd {",
            $low,
            "}, {",
            $low,
            "}, {z}\n",
            "vpaddd {",
            $high,
            "}, {",
            $high,
            "}, {y}\n",
        )
    };
}

macro_rules! step {
    ($row:ident, $step:literal, [$(($group:literal, $low:literal, $high:literal, $y:literal)),*]) => {
        concat!(
            "vmovdqu {x0}, ymmword ptr [{b} + 64*", $step, "]\n",
            "vmovdqu {x1}, ymmword ptr [{b} + 64*", $step, " + 32]\n",
            $($row!($step, $group, $low, $high, $y)),*
        )
    };
}

/// A loop over as many steps as go by fours; it answers how many. `$rows` rows, of which the first three are addressed from
/// `a`, the others from `d`.
macro_rules! steps {
    ($name:ident, $vector:ty, $row:ident, $rows:literal, $list:tt, [$($low:ident $high:ident $i:literal),*]) => {
        /// # Safety
        /// The machine must have AVX2 and FMA; rows and panel must hold the groups.
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        pub(super) unsafe fn $name(
            groups: usize,
            a: *const u8,
            a_stride: isize,
            b: *const u8,
            sums: &mut [[$vector; 2]; $rows],
        ) -> usize {
            let count = groups / AT_ONCE;
            if count == 0 {
                return 0;
            }
            $(let [mut $low, mut $high] = sums[$i];)*
            // SAFETY: the loads lie in `count` times four groups of the rows and the panel.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2:",
                    step!($row, "0", $list),
                    step!($row, "1", $list),
                    step!($row, "2", $list),
                    step!($row, "3", $list),
                    "add {b}, 256",
                    "add {a}, 16",
                    "add {d}, 16",
                    "dec {count}",
                    "jnz 2b",
                    a = inout(reg) a => _,
                    d = inout(reg) a.wrapping_offset(3 * a_stride) => _,
                    s = in(reg) a_stride,
                    b = inout(reg) b => _,
                    count = inout(reg) count => _,
                    x0 = out(ymm_reg) _,
                    x1 = out(ymm_reg) _,
                    y = out(ymm_reg) _,
                    z = out(ymm_reg) _,
                    $($low = inout(ymm_reg) $low, $high = inout(ymm_reg) $high,)*
                    options(nostack, readonly),
                );
            }
            $(sums[$i] = [$low, $high];)*
            count * AT_ONCE
        }
    };
}

macro_rules! both {
    ($vector:ty, $row:ident, $five:ident, $six:ident) => {
        steps!($five, $vector, $row, 5,
            [("{a}", "l0", "h0", "y"), ("{a} + {s}", "l1", "h1", "z"), ("{a} + 2*{s}", "l2", "h2", "y"), ("{d}", "l3", "h3", "z"), ("{d} + {s}", "l4", "h4", "y")],
            [l0 h0 0, l1 h1 1, l2 h2 2, l3 h3 3, l4 h4 4]);
        steps!($six, $vector, $row, 6,
            [("{a}", "l0", "h0", "y"), ("{a} + {s}", "l1", "h1", "z"), ("{a} + 2*{s}", "l2", "h2", "y"), ("{d}", "l3", "h3", "z"), ("{d} + {s}", "l4", "h4", "y"), ("{d} + 2*{s}", "l5", "h5", "z")],
            [l0 h0 0, l1 h1 1, l2 h2 2, l3 h3 3, l4 h4 4, l5 h5 5]);
    };
}

both!(__m256, f32_row, f32_5, f32_6);
both!(__m256i, i16_row, i16_5, i16_6);
