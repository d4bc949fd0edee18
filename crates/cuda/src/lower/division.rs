//! Division of 64-bit integers by a constant.
//!
//! The assembler makes a call of each 64-bit division, whatever the divisor, and in a kernel that calls functions it lets every `wgmma` wait for the
//! one before. So constants are divided by with multiplications (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).

use anymetal_ir::BinaryOp;

use super::Lower;
use crate::emit;
use crate::ptx::Reg;

/// `n / d = (t + ((n - t) >> first)) >> second` where `t` is the upper half of `factor · n`, for each `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reciprocal {
    factor: u64,
    first: u32,
    second: u32,
}

impl Reciprocal {
    /// Of a divisor that is not zero.
    fn of(divisor: u64) -> Reciprocal {
        // The power of two at or above the divisor.
        let log = 64 - (divisor - 1).leading_zeros();
        let above = (1u128 << log) - u128::from(divisor);
        Reciprocal {
            factor: ((above << 64) / u128::from(divisor) + 1) as u64,
            first: log.min(1),
            second: log.saturating_sub(1),
        }
    }
}

impl Lower<'_> {
    /// `a / by` or `a % by`, rounded towards zero; `by` is not zero.
    pub(super) fn divide_long(&mut self, op: BinaryOp, signed: bool, a: Reg, by: u64) -> Reg {
        let quotient = if signed {
            // 0 or -1.
            let sign = emit!(self, B64, "shr.s64", a, 63);
            let magnitude = emit!(self, B64, "abs.s64", a);
            let quotient = self.divide_magnitude(magnitude, (by as i64).unsigned_abs());
            let sign = if (by as i64) < 0 {
                emit!(self, B64, "not.b64", sign)
            } else {
                sign
            };
            emit!(self, B64, "sub.s64", emit!(self, B64, "xor.b64", quotient, sign), sign)
        } else {
            self.divide_magnitude(a, by)
        };
        if op == BinaryOp::Div {
            return quotient;
        }
        let whole = emit!(self, B64, "mul.lo.s64", quotient, by as i64);
        emit!(self, B64, "sub.s64", a, whole)
    }

    fn divide_magnitude(&mut self, a: Reg, by: u64) -> Reg {
        if by.is_power_of_two() {
            return emit!(self, B64, "shr.u64", a, by.trailing_zeros());
        }
        let reciprocal = Reciprocal::of(by);
        let high = emit!(self, B64, "mul.hi.u64", a, reciprocal.factor as i64);
        let rest = emit!(self, B64, "sub.s64", a, high);
        let rest = emit!(self, B64, "shr.u64", rest, reciprocal.first);
        let sum = emit!(self, B64, "add.s64", high, rest);
        emit!(self, B64, "shr.u64", sum, reciprocal.second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(n: u64, by: u64) -> u64 {
        let reciprocal = Reciprocal::of(by);
        let high = ((u128::from(reciprocal.factor) * u128::from(n)) >> 64) as u64;
        (high + ((n - high) >> reciprocal.first)) >> reciprocal.second
    }

    #[test]
    fn reciprocals_divide_as_division_does() {
        let near = |n: u64| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let mut edges: Vec<u64> = (0..64).flat_map(|shift| near(1 << shift)).collect();
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        for shift in 0..60 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            edges.push(random >> shift);
        }
        for &by in edges.iter().filter(|&&by| by != 0) {
            for &n in &edges {
                assert_eq!(divided(n, by), n / by, "{n} / {by}");
                // Just before and at a multiple.
                let multiple = n / by * by;
                for n in near(multiple) {
                    assert_eq!(divided(n, by), n / by, "{n} / {by}");
                }
            }
        }
    }
}
