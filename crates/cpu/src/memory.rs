//! Host memory that buffers, tensors and the executor share.
//!
//! A [`HostMemory`] is a fixed run of bytes behind an `Arc`. Three parties use it: the host program copies bytes in and
//! out, views borrow it, and the executor reads and writes it from many threads through a raw pointer. A
//! reader-writer lock keeps the host apart from running dispatches: host calls take it for the length of a copy,
//! a dispatch takes it for its whole run by [`DispatchLock::acquire`]. Inside a dispatch, races between threads of
//! the kernel are the kernel's business, as on a GPU.
//!
//! A memory whose bytes are also at another device knows which side is newer: see [`Mirror`](crate::mirror::Mirror).

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::mirror::{MirrorState, Mirrored};

/// The address of every allocation is a multiple of this many bytes.
pub const MEMORY_ALIGNMENT: usize = 64;

/// Why memory cannot be had or reached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The system has no such run of bytes.
    #[error("cannot allocate {bytes} bytes of memory")]
    OutOfMemory {
        /// How many were asked for.
        bytes: usize,
    },
    /// A range past the end.
    #[error("bytes {offset} to {} lie outside the memory, which has {length} bytes", offset.saturating_add(*bytes))]
    OutOfBounds {
        /// First byte of the range.
        offset: usize,
        /// How many bytes it has.
        bytes: usize,
        /// How many bytes the memory has.
        length: usize,
    },
    /// A write to memory that was borrowed read-only, such as a mapped file.
    #[error("the memory is read-only")]
    ReadOnly,
    /// The bytes are at a device that does not give them back.
    #[error("cannot read a buffer back: {reason}")]
    Mirror {
        /// What the device said.
        reason: String,
    },
}

/// A shared, fixed-size run of bytes, zero at first. Cloning gives another handle to the same bytes.
#[derive(Clone)]
pub struct HostMemory(Arc<Inner>);

struct Inner {
    id: u64,
    start: NonNull<u8>,
    length: usize,
    owner: Owner,
    /// Guards the bytes.
    lock: RwLock<()>,
    /// Taken after `lock`.
    mirror: Mutex<MirrorState>,
    /// The mirror's bytes are newer. Changes only under an exclusive `lock`.
    ahead: AtomicBool,
    /// All bytes are zero: nobody wrote any.
    pristine: AtomicBool,
}

/// Reads of less than this share of a memory leave the rest at its mirror.
const PART: usize = 4;

enum Owner {
    /// Allocated here; `start` is the first aligned address inside it.
    Allocation { base: NonNull<u8>, layout: Layout },
    /// Borrowed from something that lives as long as this value; never written.
    Shared(#[allow(dead_code)] Arc<dyn AsRef<[u8]> + Send + Sync>),
    /// No bytes at all.
    Nothing,
}

// SAFETY: the pointer owns its bytes (or a share of a `Send + Sync` owner). They are reached from other threads only
// under `lock` by the methods here, and by the executor while it holds a `DispatchLock`.
unsafe impl Send for Inner {}
// SAFETY: as for `Send`: shared access goes through `lock`.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Owner::Allocation { base, layout } = self.owner {
            // SAFETY: `base` came from `alloc_zeroed` with this layout and is released once, here.
            unsafe { dealloc(base.as_ptr(), layout) }
        }
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl HostMemory {
    /// `length` zero bytes, aligned to [`MEMORY_ALIGNMENT`]. Large runs cost no memory until they are touched.
    pub fn zeroed(length: usize) -> Result<Self, MemoryError> {
        let refused = MemoryError::OutOfMemory { bytes: length };
        if length == 0 {
            let start = NonNull::<u64>::dangling().cast();
            return Ok(Self::from_parts(start, 0, Owner::Nothing));
        }
        // The allocator only hands out lazily zeroed pages at its own alignment, so ask for that and some slack.
        let size = length.checked_add(MEMORY_ALIGNMENT).ok_or(refused.clone())?;
        let layout = Layout::from_size_align(size, 16).map_err(|_| refused.clone())?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(refused)?;
        let skip = base.align_offset(MEMORY_ALIGNMENT);
        // SAFETY: `skip` is at most MEMORY_ALIGNMENT − 1, inside the allocation, with `length` bytes after it.
        let start = unsafe { base.add(skip) };
        Ok(Self::from_parts(start, length, Owner::Allocation { base, layout }))
    }

    /// A copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MemoryError> {
        let memory = Self::zeroed(bytes.len())?;
        memory.write(0, bytes)?;
        Ok(memory)
    }

    /// Read-only memory that borrows `range` of what `owner` holds (a mapped file, say) without a copy. Its address has
    /// whatever alignment it has there.
    pub fn from_shared(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Result<Self, MemoryError> {
        let all: &[u8] = (*owner).as_ref();
        let length = all.len();
        let part = all.get(range.clone()).ok_or(MemoryError::OutOfBounds {
            offset: range.start,
            bytes: range.len(),
            length,
        })?;
        // `owner` is kept alive and never handed out mutably again, so the borrowed bytes stay where they are.
        let (start, length) = (NonNull::from(part).cast(), part.len());
        Ok(Self::from_parts(start, length, Owner::Shared(owner)))
    }

    /// Gives the bytes up for reading only, without a copy, when this is the last handle to them and they can be had from
    /// their mirror; else gives the handle back.
    pub fn freeze(self) -> Result<FrozenMemory, Self> {
        match self.settle() {
            Ok(()) => Arc::try_unwrap(self.0).map(FrozenMemory).map_err(Self),
            Err(_) => Err(self),
        }
    }

    fn from_parts(start: NonNull<u8>, length: usize, owner: Owner) -> Self {
        Self(Arc::new(Inner {
            id: next_id(),
            start,
            length,
            pristine: AtomicBool::new(!matches!(owner, Owner::Shared(_))),
            owner,
            lock: RwLock::new(()),
            mirror: Mutex::default(),
            ahead: AtomicBool::new(false),
        }))
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// True when there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.length == 0
    }

    /// False for memory that borrows somebody else's bytes.
    pub fn is_writable(&self) -> bool {
        !matches!(self.0.owner, Owner::Shared(_))
    }

    /// A number that no other memory of this process has had.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// True when both handles mean the same bytes.
    pub fn same_as(&self, other: &HostMemory) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The address of the first byte. For the executor: to be dereferenced only inside `[0, len())`, while a
    /// [`DispatchLock`] over this memory is held, and written only if that lock covers writing.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    fn check(&self, offset: usize, bytes: usize) -> Result<(), MemoryError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(MemoryError::OutOfBounds {
                offset,
                bytes,
                length: self.len(),
            }),
        }
    }

    fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.0.lock.read().unwrap_or_else(|e| e.into_inner())
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.lock.write().unwrap_or_else(|e| e.into_inner())
    }

    fn mirror_state(&self) -> MutexGuard<'_, MirrorState> {
        self.0.mirror.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn is_behind(&self) -> bool {
        self.0.ahead.load(Ordering::Acquire)
    }

    /// A shared lock under which the host's bytes are the newest.
    fn shared_and_settled(&self) -> Result<RwLockReadGuard<'_, ()>, MemoryError> {
        loop {
            let guard = self.shared();
            if !self.is_behind() {
                return Ok(guard);
            }
            drop(guard);
            self.settle()?;
        }
    }

    /// An exclusive lock for writing to a range of the host's bytes, which are the newest unless `replaced`: then nobody will
    /// look at what they were.
    fn exclusive_for(
        &self,
        offset: usize,
        bytes: usize,
        replaced: bool,
    ) -> Result<RwLockWriteGuard<'_, ()>, MemoryError> {
        if !self.is_writable() {
            return Err(MemoryError::ReadOnly);
        }
        let guard = self.exclusive();
        if self.is_behind() && !replaced {
            self.fetch(&guard)?;
        }
        let mut state = self.mirror_state();
        if state.mirror.is_some() && bytes > 0 {
            let written = offset..offset + bytes;
            state.behind = match state.behind.is_empty() {
                true => written,
                false => state.behind.start.min(written.start)..state.behind.end.max(written.end),
            };
        }
        state.ahead = false;
        drop(state);
        self.0.ahead.store(false, Ordering::Release);
        self.0.pristine.store(false, Ordering::Relaxed);
        Ok(guard)
    }

    fn fetch(&self, guard: &RwLockWriteGuard<'_, ()>) -> Result<(), MemoryError> {
        self.mirrored(guard, |mirrored| mirrored.fetch())
    }

    fn mirrored<R>(
        &self,
        _guard: &RwLockWriteGuard<'_, ()>,
        body: impl FnOnce(&mut Mirrored) -> Result<R, MemoryError>,
    ) -> Result<R, MemoryError> {
        let mut state = self.mirror_state();
        let pristine = self.0.pristine.load(Ordering::Relaxed);
        // SAFETY: `start` has `length` initialised bytes, and the exclusive guard keeps everybody else out. They are written
        // only where a mirror is ahead, which that of read-only memory never is.
        let mut mirrored = unsafe { Mirrored::new(&mut state, self.0.start, self.0.length, pristine) };
        let result = body(&mut mirrored);
        if !self.is_writable() {
            state.ahead = false;
        }
        if state.ahead {
            self.0.pristine.store(false, Ordering::Relaxed);
        }
        self.0.ahead.store(state.ahead, Ordering::Release);
        result
    }

    /// Brings the host's bytes up to date with the mirror's, if there is one.
    ///
    /// # Errors
    /// [`MemoryError::Mirror`] if they cannot be had.
    pub fn settle(&self) -> Result<(), MemoryError> {
        if !self.is_behind() {
            return Ok(());
        }
        self.fetch(&self.exclusive())
    }

    /// Lends the memory and its mirror to a backend while nobody else uses either. Waits for dispatches of this crate that use the
    /// memory.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn with_mirror<R>(&self, body: impl FnOnce(&mut Mirrored) -> Result<R, MemoryError>) -> Result<R, MemoryError> {
        self.mirrored(&self.exclusive(), body)
    }

    /// Copies bytes out, from `offset` on. Waits for a dispatch that writes this memory.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        self.check(offset, into.len())?;
        if self.is_behind() && into.len() < self.len() / PART {
            // The lock keeps dispatches from making the mirror old meanwhile.
            let _guard = self.shared();
            let state = self.mirror_state();
            if let (true, Some(mirror)) = (state.ahead, &state.mirror) {
                return mirror
                    .read(offset, into)
                    .map_err(|reason| MemoryError::Mirror { reason });
            }
        }
        let _guard = self.shared_and_settled()?;
        // SAFETY: `start` has `length` initialised bytes for as long as `self` lives, the range was checked, and nobody writes
        // while the shared guard is held.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.length) };
        into.copy_from_slice(&bytes[offset..offset + into.len()]);
        Ok(())
    }

    /// Copies bytes in, from `offset` on. Waits for every dispatch that uses this memory.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), MemoryError> {
        self.check(offset, from.len())?;
        let replaced = from.len() == self.len();
        self.change(offset, from.len(), replaced, |bytes| bytes.copy_from_slice(from))
    }

    /// Sets `bytes` bytes from `offset` on to `value`.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), MemoryError> {
        self.check(offset, bytes)?;
        let replaced = bytes == self.len();
        self.change(offset, bytes, replaced, |bytes| bytes.fill(value))
    }

    /// Lends a part that was checked for writing.
    fn change<R>(
        &self,
        offset: usize,
        bytes: usize,
        replaced: bool,
        body: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, MemoryError> {
        let _guard = self.exclusive_for(offset, bytes, replaced)?;
        // SAFETY: `start` has `length` initialised bytes for as long as `self` lives, the callers checked the range, and the
        // exclusive guard keeps every other reader and writer out.
        Ok(body(unsafe {
            std::slice::from_raw_parts_mut(self.0.start.as_ptr().add(offset), bytes)
        }))
    }

    /// Lends all bytes to `body`. Do not use this memory in any other way inside: a write or a dispatch from there
    /// would wait forever.
    ///
    /// If the bytes are at a device that was lost, these are the ones that the host had last; [`settle`](Self::settle) and
    /// [`read`](Self::read) say so.
    pub fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        let _guard = self.shared_and_settled().unwrap_or_else(|_| self.shared());
        // SAFETY: `start` has `length` initialised bytes for as long as `self` lives, and nobody writes them while the
        // shared guard is held.
        body(unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.length) })
    }

    /// Lends all bytes to `body` for writing, with the same caution as [`with_bytes`](Self::with_bytes).
    pub fn with_bytes_mut<R>(&self, body: impl FnOnce(&mut [u8]) -> R) -> Result<R, MemoryError> {
        self.change(0, self.len(), false, body)
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes, id {})", self.len(), self.id())
    }
}

/// Bytes that nobody writes any more, from [`HostMemory::freeze`].
pub struct FrozenMemory(Inner);

impl AsRef<[u8]> for FrozenMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` has `length` initialised bytes for as long as `self` lives. This value was made from the last
        // handle, so no lock is held and nobody can write them.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.length) }
    }
}

/// Keeps the host and other dispatches away from the memories of one dispatch while it runs.
///
/// A memory taken for reading may be read by other dispatches at the same time; one taken for writing is this
/// dispatch's alone.
pub struct DispatchLock<'a> {
    _shared: Vec<RwLockReadGuard<'a, ()>>,
    _exclusive: Vec<RwLockWriteGuard<'a, ()>>,
}

impl<'a> DispatchLock<'a> {
    /// Locks every memory once, in the order of their ids so that two dispatches cannot wait for each other. The flag
    /// says whether the dispatch may write there; writing memory that is not writable is refused.
    pub fn acquire(memories: impl IntoIterator<Item = (&'a HostMemory, bool)>) -> Result<Self, MemoryError> {
        let mut all: Vec<(&HostMemory, bool)> = memories.into_iter().collect();
        all.sort_by_key(|(memory, writes)| (memory.id(), !writes));
        all.dedup_by_key(|(memory, _)| memory.id());
        if all.iter().any(|(memory, writes)| *writes && !memory.is_writable()) {
            return Err(MemoryError::ReadOnly);
        }
        let mut lock = Self {
            _shared: Vec::new(),
            _exclusive: Vec::new(),
        };
        for (memory, writes) in all {
            if writes {
                // It may write any of the bytes; those that it leaves must be the newest.
                lock._exclusive.push(memory.exclusive_for(0, memory.len(), false)?);
            } else {
                lock._shared.push(memory.shared_and_settled()?);
            }
        }
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_zeroed_and_bounded() {
        for length in [0, 1, 63, 64, 4097, 1 << 22] {
            let memory = HostMemory::zeroed(length).unwrap();
            assert!((memory.as_ptr() as usize).is_multiple_of(MEMORY_ALIGNMENT) || length == 0);
            assert!(memory.with_bytes(|b| b.len() == length && b.iter().all(|&x| x == 0)));
            let error = memory.write(length, &[1]).unwrap_err();
            assert_eq!(
                error,
                MemoryError::OutOfBounds {
                    offset: length,
                    bytes: 1,
                    length
                }
            );
        }
        assert!(HostMemory::zeroed(usize::MAX).is_err());
        assert!(HostMemory::zeroed(usize::MAX / 2 - 64).is_err());
    }

    #[test]
    fn shared_bytes_are_read_only() {
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(vec![1u8, 2, 3, 4]);
        let memory = HostMemory::from_shared(owner.clone(), 1..3).unwrap();
        let mut out = [0; 2];
        memory.read(0, &mut out).unwrap();
        assert_eq!(out, [2, 3]);
        assert_eq!(memory.write(0, &[9]), Err(MemoryError::ReadOnly));
        assert!(DispatchLock::acquire([(&memory, true)]).is_err());
        assert!(DispatchLock::acquire([(&memory, false), (&memory, false)]).is_ok());
        assert!(HostMemory::from_shared(owner, 3..5).is_err());
    }

    #[test]
    fn a_dispatch_keeps_the_host_out() {
        let memory = HostMemory::from_bytes(&[0; 8]).unwrap();
        let lock = DispatchLock::acquire([(&memory, false), (&memory, true)]).unwrap();
        let other = memory.clone();
        let writer = std::thread::spawn(move || other.write(0, &[7]).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: the dispatch lock is held.
        assert_eq!(unsafe { *memory.as_ptr() }, 0);
        drop(lock);
        writer.join().unwrap();
        assert_eq!(memory.with_bytes(|b| b[0]), 7);
    }
}
