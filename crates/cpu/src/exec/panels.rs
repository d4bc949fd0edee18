//! Packed operands that the workers of a dispatch share, and the memory that outlives it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use anymetal_formats::ElementFormat;

use crate::tile::{PackedLeft, PackedRight, Product};

/// Bytes of packed operands that a dispatch keeps at most.
const CACHE_BYTES: usize = 256 << 20;

/// Bytes of packed operands that the process keeps between dispatches, so that the next one finds memory whose pages are
/// there already.
const SPARE_BYTES: usize = 64 << 20;

/// What a packed operand is known by. Memory that the dispatch does not write stays as it is, so the place of the elements
/// stands for their values.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct PanelKey {
    pub base: usize,
    pub format: ElementFormat,
    pub product: Product,
    pub origin: [i64; 2],
    pub shape: [usize; 2],
    pub valid: [usize; 2],
    pub strides: [i64; 2],
    pub scales: Option<(usize, [usize; 2], [i64; 2])>,
    pub transposed: bool,
}

/// A packed operand, once a worker has packed it.
pub(super) type Panel<T> = Arc<OnceLock<T>>;

/// Packed operands of a dispatch, for all workers.
#[derive(Default)]
pub(crate) struct PanelCache {
    left: Mutex<HashMap<PanelKey, Panel<PackedLeft>>>,
    right: Mutex<HashMap<PanelKey, Panel<PackedRight>>>,
    bytes: AtomicUsize,
}

impl PanelCache {
    /// The cell of a left operand, or `None` when the cache is full and does not have it.
    pub(super) fn left(&self, key: PanelKey, bytes: usize) -> Option<Panel<PackedLeft>> {
        self.cell(&self.left, key, bytes)
    }

    /// The cell of a right operand, likewise.
    pub(super) fn right(&self, key: PanelKey, bytes: usize) -> Option<Panel<PackedRight>> {
        self.cell(&self.right, key, bytes)
    }

    fn cell<T>(&self, panels: &Mutex<HashMap<PanelKey, Panel<T>>>, key: PanelKey, bytes: usize) -> Option<Panel<T>> {
        let mut panels = lock(panels);
        if let Some(panel) = panels.get(&key) {
            return Some(panel.clone());
        }
        if self.bytes.load(Ordering::Relaxed) + bytes > CACHE_BYTES {
            return None;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let panel = Panel::default();
        panels.insert(key, panel.clone());
        Some(panel)
    }
}

impl Drop for PanelCache {
    fn drop(&mut self) {
        give_back(&SPARE.left, &mut self.left);
        give_back(&SPARE.right, &mut self.right);
    }
}

/// Memory of dispatches that are over.
static SPARE: Spare = Spare {
    left: Mutex::new(Vec::new()),
    right: Mutex::new(Vec::new()),
    bytes: AtomicUsize::new(0),
};

struct Spare {
    left: Mutex<Vec<PackedLeft>>,
    right: Mutex<Vec<PackedRight>>,
    bytes: AtomicUsize,
}

/// A packed operand whose memory can be used again.
pub(super) trait Reusable: Default + 'static {
    fn spare() -> &'static Mutex<Vec<Self>>;
    fn byte_size(&self) -> usize;
}

impl Reusable for PackedLeft {
    fn spare() -> &'static Mutex<Vec<Self>> {
        &SPARE.left
    }

    fn byte_size(&self) -> usize {
        PackedLeft::byte_size(self)
    }
}

impl Reusable for PackedRight {
    fn spare() -> &'static Mutex<Vec<Self>> {
        &SPARE.right
    }

    fn byte_size(&self) -> usize {
        PackedRight::byte_size(self)
    }
}

/// An operand to be packed into: memory of a former dispatch if there is some that is large enough and not much too large,
/// else new.
pub(super) fn fresh<T: Reusable>(bytes: usize) -> T {
    let mut spare = lock(T::spare());
    let fits = |one: &T| (bytes..=bytes.saturating_mul(4)).contains(&one.byte_size());
    match spare.iter().rposition(fits) {
        Some(at) => {
            let found = spare.swap_remove(at);
            SPARE.bytes.fetch_sub(found.byte_size(), Ordering::Relaxed);
            found
        }
        None => T::default(),
    }
}

fn give_back<T: Reusable>(spare: &Mutex<Vec<T>>, panels: &mut Mutex<HashMap<PanelKey, Panel<T>>>) {
    let panels = panels.get_mut().unwrap_or_else(|e| e.into_inner());
    let mut spare = lock(spare);
    for (_, panel) in panels.drain() {
        let Some(packed) = Arc::into_inner(panel).and_then(OnceLock::into_inner) else {
            continue;
        };
        let bytes = packed.byte_size();
        if SPARE.bytes.load(Ordering::Relaxed) + bytes <= SPARE_BYTES {
            SPARE.bytes.fetch_add(bytes, Ordering::Relaxed);
            spare.push(packed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
