//! How fast this machine's memory can be read: what skinny products are measured against.

use std::time::{Duration, Instant};

/// Threads that read, as many as the benchmarks use.
const THREADS: usize = 2;

/// Sums words in several chains, so that only memory limits it.
fn sum(words: &[u64]) -> u64 {
    let mut chains = [0u64; 32];
    let chunks = words.chunks_exact(chains.len());
    let rest: u64 = chunks.remainder().iter().copied().fold(0, u64::wrapping_add);
    for chunk in chunks {
        for (chain, &word) in chains.iter_mut().zip(chunk) {
            *chain = chain.wrapping_add(word);
        }
    }
    chains.into_iter().fold(rest, u64::wrapping_add)
}

/// Bytes a second: the median of nine reads of the words by two threads.
pub fn measure(words: &[u64]) -> f64 {
    let mut times: Vec<Duration> = (0..9)
        .map(|_| {
            let start = Instant::now();
            let total = std::thread::scope(|scope| {
                let threads: Vec<_> = words
                    .chunks(words.len().div_ceil(THREADS))
                    .map(|part| scope.spawn(|| sum(part)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_default())
                    .fold(0, u64::wrapping_add)
            });
            std::hint::black_box(total);
            start.elapsed()
        })
        .collect();
    times.sort();
    size_of_val(words) as f64 / times[times.len() / 2].as_secs_f64()
}
