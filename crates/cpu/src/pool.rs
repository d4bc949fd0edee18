//! Worker threads that outlive dispatches.
//!
//! The caller of a dispatch works too; the pool lends it helpers, which sleep in between. One dispatch uses the pool at
//! a time, another one that comes meanwhile waits for it. `ANYMETAL_THREADS` sets how many threads work together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

type Task = &'static (dyn Fn(usize) + Sync);

#[derive(Default)]
struct State {
    /// The task, and how many helpers may still take it.
    task: Option<(Task, usize)>,
    /// Number that the next helper gets.
    next: usize,
    /// Helpers in the task.
    busy: usize,
    panicked: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// `State::busy`, to look at without the lock.
    busy: AtomicUsize,
    /// Tasks so far, likewise.
    tasks: AtomicUsize,
    /// Helpers wait for a task.
    start: Condvar,
    /// The caller waits for helpers.
    done: Condvar,
}

/// The pool of this process.
pub(crate) struct Pool {
    inner: Arc<Inner>,
    helpers: usize,
    turn: Mutex<()>,
}

/// The environment variable that sets the number of workers.
pub const THREADS_VARIABLE: &str = "ANYMETAL_THREADS";

/// How long a caller that has run out of work watches for its helpers, and a helper for the next task, before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Workers of the machine: what the environment says, else one a core.
pub(crate) fn default_workers() -> usize {
    static WORKERS: OnceLock<usize> = OnceLock::new();
    *WORKERS.get_or_init(|| {
        std::env::var(THREADS_VARIABLE)
            .ok()
            .and_then(|value| value.trim().parse::<usize>().ok())
            .filter(|&count| count > 0)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
            .min(1024)
    })
}

impl Pool {
    /// The pool, started on first use.
    pub fn get() -> &'static Pool {
        static POOL: OnceLock<Pool> = OnceLock::new();
        POOL.get_or_init(|| {
            let inner = Arc::new(Inner::default());
            let mut helpers = 0;
            for i in 1..default_workers() {
                let inner = inner.clone();
                let spawned = std::thread::Builder::new()
                    .name(format!("anymetal-{i}"))
                    .spawn(move || help(&inner));
                if spawned.is_err() {
                    break;
                }
                helpers += 1;
            }
            Pool {
                inner,
                helpers,
                turn: Mutex::new(()),
            }
        })
    }

    /// Runs `task` on up to `workers` threads, this one among them, with numbers from 0; returns when all are done.
    pub fn run(&self, workers: usize, task: &(dyn Fn(usize) + Sync)) {
        let helpers = workers.saturating_sub(1).min(self.helpers);
        if helpers == 0 {
            task(0);
            return;
        }
        let _turn = lock(&self.turn);
        // SAFETY: the reference does not outlive this call: below, it waits until no helper runs the task or can take
        // it any more, whether the caller's own share panics or not.
        let lent: Task = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Task>(task) };
        {
            let mut state = lock(&self.inner.state);
            state.task = Some((lent, helpers));
            state.next = 1;
            state.panicked = false;
            self.inner.tasks.fetch_add(1, Ordering::Release);
        }
        self.inner.start.notify_all();
        let own = catch_unwind(AssertUnwindSafe(|| task(0)));
        lock(&self.inner.state).task = None;
        // Helpers are in their last piece of work, which is shorter than to sleep and to be woken.
        let patience = Instant::now() + PATIENCE;
        while self.inner.busy.load(Ordering::Acquire) > 0 && Instant::now() < patience {
            std::hint::spin_loop();
        }
        let mut state = lock(&self.inner.state);
        while state.busy > 0 {
            state = self.inner.done.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        let panicked = state.panicked;
        drop(state);
        if let Err(panic) = own {
            std::panic::resume_unwind(panic);
        }
        assert!(!panicked, "a worker thread panicked");
    }
}

fn help(inner: &Inner) {
    let mut state = lock(&inner.state);
    loop {
        match state.task {
            Some((task, left)) if left > 0 => {
                state.task = Some((task, left - 1));
                let number = state.next;
                state.next += 1;
                state.busy += 1;
                inner.busy.store(state.busy, Ordering::Release);
                drop(state);
                let result = catch_unwind(AssertUnwindSafe(|| task(number)));
                state = lock(&inner.state);
                state.busy -= 1;
                inner.busy.store(state.busy, Ordering::Release);
                state.panicked |= result.is_err();
                inner.done.notify_all();
                // Dispatches often follow each other, and to be woken takes as long as a small one.
                let known = inner.tasks.load(Ordering::Acquire);
                drop(state);
                let patience = Instant::now() + PATIENCE;
                while inner.tasks.load(Ordering::Acquire) == known && Instant::now() < patience {
                    std::hint::spin_loop();
                }
                state = lock(&inner.state);
            }
            _ => state = inner.start.wait(state).unwrap_or_else(|e| e.into_inner()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_worker_counts_once_and_the_pool_survives() {
        for workers in [1, 2, 5] {
            let (sum, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
            Pool::get().run(workers, &|number| {
                sum.fetch_add(number, Ordering::Relaxed);
                calls.fetch_add(1, Ordering::Relaxed);
            });
            let calls = calls.into_inner();
            assert!((1..=workers).contains(&calls));
            assert_eq!(sum.into_inner(), calls * (calls - 1) / 2);
        }
    }
}
