//! Packed operands that the workers of a dispatch share, and the memory that outlives it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use anymetal_formats::ElementFormat;

use crate::tile::{FewLeft, FewProduct, PackedLeft, PackedRight, Product};

/// Bytes of packed operands that a dispatch keeps at most.
const CACHE_BYTES: usize = 256 << 20;

/// Bytes of packed operands that the process keeps between dispatches, so that the next one finds memory whose pages are
/// there already.
const SPARE_BYTES: usize = 64 << 20;

/// What a packed operand is known by. Memory that the dispatch does not write stays as it is, so the place of the elements
/// stands for their values.
#[derive(Clone, PartialEq, Eq)]
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
    /// The thread that keeps it to itself ([`this_thread`]), or 0.
    pub owner: usize,
}

/// A number of this thread's own.
pub(super) fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// What says whose a packed operand is.
trait Owned {
    fn owner(&self) -> usize;
}

impl Owned for PanelKey {
    fn owner(&self) -> usize {
        self.owner
    }
}

impl Owned for (PanelKey, FewProduct) {
    fn owner(&self) -> usize {
        self.0.owner
    }
}

impl Hash for PanelKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // What tells tiles of a kernel apart; equality looks at the rest.
        state.write_u64(self.base as u64);
        for value in [self.shape[0], self.shape[1], self.valid[0], self.valid[1]] {
            state.write_u64(value as u64);
        }
        for value in self.origin {
            state.write_u64(value as u64);
        }
        state.write_u64(self.owner as u64);
    }
}

/// A multiplicative hash: look-ups happen for each product, of keys that nobody chooses to collide.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // The high bits are the mixed ones; tables look at both ends.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A packed operand, once a worker has packed it.
pub(super) type Panel<T> = Arc<OnceLock<T>>;

type Panels<K, T> = HashMap<K, Panel<T>, BuildHasherDefault<KeyHasher>>;

/// Packed operands of a dispatch, for all workers. On cache lines of its own: what lies beside it is read by everyone.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct PanelCache {
    left: Mutex<Panels<PanelKey, PackedLeft>>,
    right: Mutex<Panels<PanelKey, PackedRight>>,
    few: Mutex<Panels<(PanelKey, FewProduct), FewLeft>>,
    bytes: AtomicUsize,
}

/// The packed operands that a worker used last, which it finds without asking the others.
pub(super) struct Memo<T> {
    entries: Vec<Option<(PanelKey, Panel<T>)>>,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Memo { entries: Vec::new() }
    }
}

impl<T> Memo<T> {
    /// Entries; a key has one place.
    const PLACES: usize = 256;

    /// The cell of a key: the worker's own, or what `ask` answers for the dispatch.
    pub fn cell(&mut self, key: PanelKey, ask: impl FnOnce(PanelKey) -> Option<Panel<T>>) -> Option<&Panel<T>> {
        let mut hasher = KeyHasher::default();
        key.hash(&mut hasher);
        if self.entries.is_empty() {
            self.entries.resize_with(Self::PLACES, || None);
        }
        let place = &mut self.entries[hasher.finish() as usize % Self::PLACES];
        if place.as_ref().is_none_or(|(known, _)| *known != key) {
            let panel = ask(key.clone())?;
            *place = Some((key, panel));
        }
        place.as_ref().map(|(_, panel)| panel)
    }
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

    /// The cell of the left operand of a product of few rows, likewise.
    pub(super) fn few(&self, key: (PanelKey, FewProduct), bytes: usize) -> Option<Panel<FewLeft>> {
        self.cell(&self.few, key, bytes)
    }

    fn cell<K: Eq + Hash, T>(&self, panels: &Mutex<Panels<K, T>>, key: K, bytes: usize) -> Option<Panel<T>> {
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
        give_back(&SPARE.few, &mut self.few);
    }
}

/// Memory of dispatches that are over.
static SPARE: Spare = Spare {
    left: Mutex::new(Vec::new()),
    right: Mutex::new(Vec::new()),
    few: Mutex::new(Vec::new()),
    bytes: AtomicUsize::new(0),
};

/// Packed operands with their last owners.
type Spares<T> = Mutex<Vec<(usize, T)>>;

struct Spare {
    left: Spares<PackedLeft>,
    right: Spares<PackedRight>,
    few: Spares<FewLeft>,
    bytes: AtomicUsize,
}

/// A packed operand whose memory can be used again.
pub(super) trait Reusable: Default + 'static {
    fn spare() -> &'static Spares<Self>;
    fn byte_size(&self) -> usize;
}

impl Reusable for PackedLeft {
    fn spare() -> &'static Spares<Self> {
        &SPARE.left
    }

    fn byte_size(&self) -> usize {
        PackedLeft::byte_size(self)
    }
}

impl Reusable for PackedRight {
    fn spare() -> &'static Spares<Self> {
        &SPARE.right
    }

    fn byte_size(&self) -> usize {
        PackedRight::byte_size(self)
    }
}

impl Reusable for FewLeft {
    fn spare() -> &'static Spares<Self> {
        &SPARE.few
    }

    fn byte_size(&self) -> usize {
        FewLeft::byte_size(self)
    }
}

/// An operand to be packed into: memory of a former dispatch if there is some that is large enough and not much too large,
/// else new. What the owner had before may be in its cache; what another thread had is in that one's.
pub(super) fn fresh<T: Reusable>(bytes: usize, owner: usize) -> T {
    let mut spare = lock(T::spare());
    let fits = |one: &T| (bytes..=bytes.saturating_mul(4)).contains(&one.byte_size());
    let own = spare.iter().rposition(|(last, one)| *last == owner && fits(one));
    match own.or_else(|| spare.iter().rposition(|(_, one)| fits(one))) {
        Some(at) => {
            let (_, found) = spare.swap_remove(at);
            SPARE.bytes.fetch_sub(found.byte_size(), Ordering::Relaxed);
            found
        }
        None => T::default(),
    }
}

fn give_back<K: Owned, T: Reusable>(spare: &Spares<T>, panels: &mut Mutex<Panels<K, T>>) {
    let panels = panels.get_mut().unwrap_or_else(|e| e.into_inner());
    let mut spare = lock(spare);
    for (key, panel) in panels.drain() {
        let Some(packed) = Arc::into_inner(panel).and_then(OnceLock::into_inner) else {
            continue;
        };
        let bytes = packed.byte_size();
        if SPARE.bytes.load(Ordering::Relaxed) + bytes <= SPARE_BYTES {
            SPARE.bytes.fetch_add(bytes, Ordering::Relaxed);
            spare.push((key.owner(), packed));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
