//! How fast two cores can multiply with the instruction that a path's products of few rows use: what such products are measured
//! against where memory is not what they wait for.

use std::time::{Duration, Instant};

/// Threads that multiply, as many as the benchmarks use.
const THREADS: usize = 2;

/// Multiply-adds in a second, of `f32` (AVX2, AVX-512) or of bf16 in tiles (AMX), on two cores: the fastest of nine measurements, because other
/// guests of a machine only ever slow them.
/// `None` on other paths.
pub fn measure(path: &str) -> Option<f64> {
    let (work, each): (fn(u64), f64) = match path {
        #[cfg(target_arch = "x86_64")]
        "avx2" => (x86::avx2, 12.0 * 8.0),
        #[cfg(target_arch = "x86_64")]
        "avx512" => (x86::avx512, 12.0 * 16.0),
        #[cfg(target_arch = "x86_64")]
        "amx" => (x86::amx, 4.0 * 8192.0),
        _ => return None,
    };
    let rounds = (4e9 / each) as u64;
    let mut times: Vec<Duration> = (0..9)
        .map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| work(rounds));
                }
            });
            start.elapsed()
        })
        .collect();
    times.sort();
    Some(THREADS as f64 * rounds as f64 * each / times[0].as_secs_f64())
}

/// Multiply-adds that a product of some rows of half by N × K weights takes on a path. A tile multiplies 16 columns whatever it
/// holds; half takes two terms there.
pub fn multiply_adds(path: &str, rows: usize, weights: usize) -> f64 {
    let rows = match path {
        "amx" if rows <= 8 => 16,
        "amx" => rows.next_multiple_of(16) * 2,
        _ => rows,
    };
    rows as f64 * weights as f64
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::hint::black_box;

    pub fn avx2(rounds: u64) {
        // SAFETY: the path that was asked for is the one in use.
        unsafe { fma256(rounds) }
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn fma256(rounds: u64) {
        let (x, y) = black_box((_mm256_set1_ps(0.5), _mm256_set1_ps(0.25)));
        let mut sums = [y; 12];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, x, y);
            }
        }
        black_box(sums);
    }

    pub fn avx512(rounds: u64) {
        // SAFETY: as above.
        unsafe { fma512(rounds) }
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn fma512(rounds: u64) {
        let (x, y) = black_box((_mm512_set1_ps(0.5), _mm512_set1_ps(0.25)));
        let mut sums = [y; 12];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, x, y);
            }
        }
        black_box(sums);
    }

    /// The operand of LDTILECFG: palette 1, eight tiles of 16 rows × 64 bytes.
    #[repr(C, align(64))]
    struct Config([u8; 64]);

    pub fn amx(rounds: u64) {
        let mut config = Config([0; 64]);
        config.0[0] = 1;
        for tile in 0..8 {
            config.0[16 + 2 * tile] = 64;
            config.0[48 + tile] = 16;
        }
        // SAFETY: as above; the permission to use tiles holds for the process. Nothing but tiles is touched.
        unsafe {
            asm!(
                "ldtilecfg [{config}]",
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "tilezero tmm4", "tilezero tmm5", "tilezero tmm6", "tilezero tmm7",
                "2:",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "dec {rounds}",
                "jnz 2b",
                "tilerelease",
                config = in(reg) &raw const config,
                rounds = inout(reg) rounds => _,
                options(nostack),
            );
        }
    }
}
