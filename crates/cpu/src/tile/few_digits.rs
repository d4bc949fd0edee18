//! One row, the left operand of a product, as integers for kernels that multiply bytes: in units of a power of two, each integer
//! as three digits of a signed byte.
//!
//! An integer has 22 bits and a sign, which holds every `half` within eleven binary orders of the largest. Elements that no
//! unit holds beside the others are listed: they count as zero and are multiplied one by one. A row with many of them is not
//! packed this way.

use super::kernel::DigitKernels;

/// Elements that are laid out together: those of 128 bytes of a column of 4-bit codes.
pub(crate) const GROUP: usize = 256;

/// Bytes of a group: for each 64 elements and digit the even ones and the odd ones, then a number for each block of 32.
pub(crate) const GROUP_BYTES: usize = GROUP * 3 + 32;

/// What a digit counts, the lowest first.
pub(crate) const DIGITS: [i64; 3] = [1, 1 << 7, 1 << 15];

/// The largest magnitude of an integer: more than 2^22 - 2^15, less than what three digits hold.
const MOST: f32 = 4_161_000.0;

/// Elements of a row for each one that may be listed.
const LISTED: usize = 64;

/// What the packed row stands for.
#[derive(Debug)]
pub(crate) struct DigitRow {
    /// What an integer of one counts.
    pub unit: f64,
    /// All integers together.
    pub sum: i64,
    /// Elements that are no integers, and their places.
    pub listed: Vec<(usize, f32)>,
}

impl DigitRow {
    /// Packs a row into groups from `to` on. `integers` is for as many elements as whole groups have; `offset` is what will be
    /// subtracted from every code of the right operand. `None` where the row is better multiplied as `f32`.
    ///
    /// # Safety
    /// The groups must be writable and aligned to 32 bytes, and the machine must have the kernels.
    pub unsafe fn pack(
        kernels: &DigitKernels,
        offset: i32,
        values: &[f32],
        integers: &mut [i32],
        to: *mut u8,
    ) -> Option<DigitRow> {
        // SAFETY: the caller's contract.
        let most = unsafe { (kernels.largest)(values) };
        if !most.is_finite() {
            return None;
        }
        // The unit of the largest element, or a smaller one that leaves out fewer elements.
        let top = exponent(most * (4_194_304.0 / MOST));
        let split = |down: i32, integers: &mut [i32]| {
            let unit = top - 21 - down;
            // SAFETY: `integers` holds as many elements at least.
            unsafe { (kernels.integers)(values, power(-unit), MOST, integers.as_mut_ptr()) }
        };
        integers[values.len()..].fill(0);
        let (mut others, mut down) = (split(0, integers), 0);
        if others > values.len() / (4 * LISTED) {
            let fewer = (top - crowded(values)).max(0);
            let with_fewer = split(fewer, integers);
            (others, down) = (others, down).min((with_fewer, fewer));
            if others > values.len() / LISTED {
                return None;
            }
            if down != fewer {
                split(down, integers);
            }
        }
        let mut listed = Vec::with_capacity(others);
        if others > 0 {
            let places = values.iter().zip(&*integers).enumerate();
            listed.extend(
                places
                    .filter(|&(_, (&value, &integer))| integer == 0 && value != 0.0)
                    .map(|(k, (&value, _))| (k, value)),
            );
        }
        let mut sum = 0;
        for (g, group) in integers.chunks_exact(GROUP).enumerate() {
            let mut blocks = [0i32; 8];
            for (b, block) in group.chunks_exact(32).enumerate() {
                let integer = block.iter().sum::<i32>();
                sum += i64::from(integer);
                // Blocks of the lower half of each 32 bytes first, as the kernels have them.
                blocks[b / 2 + b % 2 * 4] = integer * offset;
            }
            // SAFETY: the caller's contract.
            unsafe {
                let to = to.add(g * GROUP_BYTES);
                (kernels.digits)(group.as_ptr(), to);
                to.add(GROUP * 3).cast::<[i32; 8]>().write(blocks);
            }
        }
        let unit = f64::from(power(top - 21 - down));
        Some(DigitRow { unit, sum, listed })
    }
}

/// The exponent up to which, from eleven below on, most elements lie.
fn crowded(values: &[f32]) -> i32 {
    let mut counts = [0u32; 256];
    for x in values.iter().filter(|&&x| x != 0.0) {
        counts[(x.to_bits() >> 23 & 255) as usize] += 1;
    }
    let windows = counts.windows(12).map(|window| window.iter().sum::<u32>()).enumerate();
    let (first, _) = windows.max_by_key(|&(_, count)| count).unwrap_or_default();
    first as i32 + 11 - 127
}

/// The binary exponent of a finite number; subnormal ones and zero answer the least normal one's.
fn exponent(x: f32) -> i32 {
    (x.to_bits() >> 23).max(1) as i32 - 127
}

/// A power of two that is a normal number.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent.clamp(-126, 127) + 127) as u32) << 23)
}
