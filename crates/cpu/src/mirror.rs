//! Copies of a memory's bytes at another place, such as a GPU, and which of the two is newer.
//!
//! A [`HostMemory`](crate::HostMemory) may have one [`Mirror`]. Host calls and dispatches of this crate fetch what is newer there before they
//! look, so nobody above has to know; who writes to the host's bytes leaves a note of which bytes the mirror lacks. A backend
//! keeps both in step by [`HostMemory::with_mirror`](crate::HostMemory::with_mirror).

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::MemoryError;

/// The other place.
pub trait Mirror: Any + Send + Sync {
    /// Copies its bytes from `offset` on to the host, and waits for whatever writes them. An error says what the device said.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), String>;
}

/// What a memory knows of its mirror.
#[derive(Default)]
pub(crate) struct MirrorState {
    pub mirror: Option<Arc<dyn Mirror>>,
    /// The host lacks what was written at the mirror.
    pub ahead: bool,
    /// Host bytes that the mirror lacks; empty if none. Never together with `ahead`.
    pub behind: Range<usize>,
}

/// A memory and its mirror while nobody else uses either, in [`HostMemory::with_mirror`](crate::HostMemory::with_mirror).
pub struct Mirrored<'a> {
    state: &'a mut MirrorState,
    start: NonNull<u8>,
    length: usize,
    pristine: bool,
    /// Stands for the lock on the bytes.
    _bytes: PhantomData<&'a mut [u8]>,
}

impl<'a> Mirrored<'a> {
    /// # Safety
    /// `start` has `length` initialised bytes, which nobody else reads or writes for `'a`; if `state` is ahead they may be written.
    pub(crate) unsafe fn new(state: &'a mut MirrorState, start: NonNull<u8>, length: usize, pristine: bool) -> Self {
        Self {
            state,
            start,
            length,
            pristine,
            _bytes: PhantomData,
        }
    }

    /// The mirror, if there is one.
    pub fn mirror(&self) -> Option<&Arc<dyn Mirror>> {
        self.state.mirror.as_ref()
    }

    /// Gives the memory a mirror whose contents mean nothing yet, in place of any other. What is newer at the other comes to the
    /// host first.
    ///
    /// # Errors
    /// [`MemoryError::Mirror`] if it cannot.
    pub fn replace(&mut self, mirror: Arc<dyn Mirror>) -> Result<(), MemoryError> {
        self.fetch()?;
        self.state.mirror = Some(mirror);
        self.state.behind = 0..self.length;
        Ok(())
    }

    /// The host's bytes that the mirror lacks, and where they start; `None` when it has everything.
    pub fn behind(&self) -> Option<(usize, &[u8])> {
        let range = self.state.behind.clone();
        // SAFETY: as `new` was promised.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) };
        (!range.is_empty()).then(|| (range.start, &bytes[range]))
    }

    /// True when the host's bytes are all zero because nobody ever wrote any.
    pub fn is_pristine(&self) -> bool {
        self.pristine
    }

    /// Notes that the mirror has everything.
    pub fn caught_up(&mut self) {
        self.state.behind = 0..0;
    }

    /// Notes that the mirror is about to be written: from now on the host's bytes are old. It has to have everything.
    pub fn write_at_mirror(&mut self) {
        debug_assert!(self.state.behind.is_empty());
        self.state.ahead = self.state.mirror.is_some();
    }

    pub(crate) fn fetch(&mut self) -> Result<(), MemoryError> {
        if let (true, Some(mirror)) = (self.state.ahead, &self.state.mirror) {
            // SAFETY: as `new` was promised.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
            let read = mirror.read(0, bytes);
            read.map_err(|reason| MemoryError::Mirror { reason })?;
            self.state.ahead = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::memory::{DispatchLock, HostMemory};

    /// A device whose memory is a vector.
    #[derive(Default)]
    struct Device {
        bytes: Mutex<Vec<u8>>,
        reads: AtomicUsize,
        lost: bool,
    }

    impl Mirror for Device {
        fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), String> {
            if self.lost {
                return Err("the device is lost".into());
            }
            self.reads.fetch_add(1, Ordering::Relaxed);
            into.copy_from_slice(&self.bytes.lock().unwrap()[offset..offset + into.len()]);
            Ok(())
        }
    }

    /// What a backend does before a kernel runs; returns how many bytes it copied.
    fn make_resident(memory: &HostMemory, device: &Arc<Device>, writes: bool) -> usize {
        memory
            .with_mirror(|mirrored| {
                if mirrored.mirror().is_none() {
                    *device.bytes.lock().unwrap() = vec![0xee; memory.len()];
                    mirrored.replace(device.clone())?;
                }
                let copied = mirrored.behind().map_or(0, |(at, bytes)| {
                    device.bytes.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
                    bytes.len()
                });
                mirrored.caught_up();
                if writes {
                    mirrored.write_at_mirror();
                }
                Ok(copied)
            })
            .unwrap()
    }

    #[test]
    fn bytes_move_only_when_they_must() {
        let (memory, device) = (
            HostMemory::from_bytes(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap(),
            Arc::default(),
        );
        assert_eq!(make_resident(&memory, &device, true), 8);
        assert_eq!(make_resident(&memory, &device, true), 0, "nothing changed on the host");
        device.bytes.lock().unwrap()[2] = 30;
        let mut out = [0; 8];
        memory.read(0, &mut out).unwrap();
        assert_eq!(out, [1, 2, 30, 4, 5, 6, 7, 8]);
        memory.read(0, &mut out).unwrap();
        assert_eq!(device.reads.load(Ordering::Relaxed), 1, "fetched once");
        memory.write(4, &[50]).unwrap();
        memory.fill(6, 1, 70).unwrap();
        assert_eq!(make_resident(&memory, &device, false), 3, "bytes 4 to 6");
        assert_eq!(*device.bytes.lock().unwrap(), [1, 2, 30, 4, 50, 6, 70, 8]);
        memory.with_bytes_mut(|bytes| bytes[0] = 10).unwrap();
        assert_eq!(make_resident(&memory, &device, true), 8);
    }

    #[test]
    fn a_small_part_is_read_without_the_rest() {
        let (memory, device) = (HostMemory::zeroed(1 << 16).unwrap(), Arc::default());
        make_resident(&memory, &device, true);
        device.bytes.lock().unwrap()[100] = 9;
        let mut one = [0];
        memory.read(100, &mut one).unwrap();
        assert_eq!(one, [9]);
        // A write of a part keeps what the device wrote around it.
        memory.write(101, &[8]).unwrap();
        make_resident(&memory, &device, false);
        assert_eq!(device.bytes.lock().unwrap()[100..102], [9, 8]);
        // A write of everything needs nothing of it.
        make_resident(&memory, &device, true);
        let before = device.reads.load(Ordering::Relaxed);
        memory.write(0, &vec![1; 1 << 16]).unwrap();
        assert_eq!(device.reads.load(Ordering::Relaxed), before);
        assert!(memory.with_bytes(|bytes| bytes.iter().all(|&byte| byte == 1)));
    }

    #[test]
    fn memory_that_nobody_wrote_is_known() {
        let pristine = |memory: &HostMemory| memory.with_mirror(|mirrored| Ok(mirrored.is_pristine())).unwrap();
        let memory = HostMemory::zeroed(8).unwrap();
        assert!(pristine(&memory));
        memory.with_bytes(|_| ());
        assert!(pristine(&memory));
        memory.write(0, &[0]).unwrap();
        assert!(!pristine(&memory));
        let memory = HostMemory::zeroed(8).unwrap();
        drop(DispatchLock::acquire([(&memory, true)]).unwrap());
        assert!(!pristine(&memory));
        assert!(!pristine(&HostMemory::from_bytes(&[0]).unwrap()));
    }

    #[test]
    fn dispatches_and_frozen_bytes_see_what_the_mirror_wrote() {
        let (memory, device) = (HostMemory::zeroed(2).unwrap(), Arc::default());
        make_resident(&memory, &device, true);
        device.bytes.lock().unwrap()[0] = 1;
        let lock = DispatchLock::acquire([(&memory, true)]).unwrap();
        // SAFETY: the dispatch lock is held.
        unsafe {
            assert_eq!(*memory.as_ptr(), 1);
            *memory.as_ptr().add(1) = 2;
        }
        drop(lock);
        assert_eq!(
            make_resident(&memory, &device, true),
            2,
            "the dispatch may have written all of it"
        );
        device.bytes.lock().unwrap()[0] = 3;
        let frozen = memory.freeze().map_err(|_| "shared").unwrap();
        assert_eq!(frozen.as_ref(), [3, 2]);
    }

    #[test]
    fn a_lost_mirror_is_an_error() {
        let memory = HostMemory::zeroed(4).unwrap();
        let lost = Arc::new(Device {
            lost: true,
            ..Device::default()
        });
        make_resident(&memory, &lost, true);
        let error = memory.read(0, &mut [0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "cannot read a buffer back: the device is lost");
        assert!(memory.settle().is_err());
        assert!(memory.write(1, &[1]).is_err());
        assert!(DispatchLock::acquire([(&memory, false)]).is_err());
        // Bytes that replace all of it do not need it.
        assert!(memory.write(0, &[1; 4]).is_ok());
        assert!(memory.settle().is_ok());
    }
}
