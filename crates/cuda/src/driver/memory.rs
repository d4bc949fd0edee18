//! Device memory from the stream-ordered pool, and copies to and from the host.
//!
//! Large copies go through two halves of pinned memory: the processor fills (or empties) one while the device reads (or
//! writes) the other. Small ones go directly: the driver has taken the bytes when the call returns.

use std::ffi::c_void;
use std::sync::Arc;

use super::context::Context;
use super::error::DriverError;
use super::event::Event;
use super::sys::{self, DevicePointer, ERROR_OUT_OF_MEMORY, Handle};

/// Copies up to this size do not use pinned memory.
const DIRECT: usize = 64 << 10;
/// Bytes of each half of the pinned memory.
const HALF: usize = 8 << 20;

/// A run of bytes on a device. Dropping it returns it to the pool once everything that was put on the stream has run.
pub struct DeviceMemory {
    context: Arc<Context>,
    address: DevicePointer,
    length: usize,
}

impl Context {
    /// `length` bytes of unknown contents, at a multiple of 256 bytes.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] after the pool gave back what nobody uses.
    pub fn allocate(self: &Arc<Self>, length: usize) -> Result<DeviceMemory, DriverError> {
        self.enter()?;
        let mut address: DevicePointer = 0;
        if length > 0 {
            // SAFETY: writes one address.
            let take = |address: &mut DevicePointer| unsafe {
                (self.functions().allocate)(address, length, self.pool(), self.stream())
            };
            let mut code = take(&mut address);
            if code == ERROR_OUT_OF_MEMORY {
                self.synchronize()?;
                // SAFETY: the pool lives as long as the context.
                self.check("cuMemPoolTrimTo", unsafe {
                    (self.functions().pool_trim)(self.pool(), 0)
                })?;
                code = take(&mut address);
            }
            if code == ERROR_OUT_OF_MEMORY {
                let (free, total) = self.memory_info()?;
                return Err(DriverError::OutOfMemory {
                    wanted: length as u64,
                    free,
                    total,
                    pooled: self.pool_info()?.0,
                });
            }
            self.check("cuMemAllocFromPoolAsync", code)?;
        }
        Ok(DeviceMemory {
            context: self.clone(),
            address,
            length,
        })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.address != 0 && self.context.enter().is_ok() {
            // SAFETY: allocated from the pool and freed once. The result does not matter: a failure means a lost device,
            // which the next call reports.
            unsafe { (self.context.functions().free)(self.address, self.context.stream()) };
        }
    }
}

impl DeviceMemory {
    /// The device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device that it is on.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn assert_range(&self, offset: usize, bytes: usize) {
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.length),
            "a copy of {bytes} bytes at {offset} does not lie inside {} bytes of device memory",
            self.length
        );
    }

    /// Sets all bytes from `offset` on to `value`, in the order of the stream.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), DriverError> {
        self.assert_range(offset, bytes);
        if bytes == 0 {
            return Ok(());
        }
        self.context.enter()?;
        let (functions, stream) = (self.context.functions(), self.context.stream());
        // SAFETY: the range lies inside the allocation.
        let code = unsafe { (functions.set_bytes)(self.address + offset as u64, value, bytes, stream) };
        self.context.check("cuMemsetD8Async", code)
    }

    /// Copies bytes from the host, in the order of the stream. They have been read when this returns.
    pub fn upload(&self, offset: usize, bytes: &[u8]) -> Result<(), DriverError> {
        self.assert_range(offset, bytes.len());
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        if bytes.len() <= DIRECT {
            return self.copy_in(offset, bytes.as_ptr().cast(), bytes.len());
        }
        let mut staging = self.context.staging.lock().unwrap_or_else(|e| e.into_inner());
        let halves = staging.halves(&self.context)?;
        for (at, chunk) in bytes.chunks(HALF).enumerate() {
            let half = &mut halves[at % 2];
            half.wait()?;
            // SAFETY: the half has HALF bytes, no copy uses it any more, and the lock keeps others out.
            unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), half.start.cast::<u8>(), chunk.len()) };
            self.copy_in(offset + at * HALF, half.start.cast_const(), chunk.len())?;
            half.mark(&self.context)?;
        }
        Ok(())
    }

    /// Copies bytes to the host and waits for them, and so for everything before on the stream.
    pub fn download(&self, offset: usize, into: &mut [u8]) -> Result<(), DriverError> {
        self.assert_range(offset, into.len());
        if into.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        if into.len() <= DIRECT {
            self.copy_out(offset, into.as_mut_ptr().cast(), into.len())?;
            return self.context.synchronize();
        }
        let mut staging = self.context.staging.lock().unwrap_or_else(|e| e.into_inner());
        let halves = staging.halves(&self.context)?;
        let count = into.len().div_ceil(HALF);
        let length = into.len();
        let chunk = |at: usize| at * HALF..((at + 1) * HALF).min(length);
        // One copy is on its way while the one before it is taken out.
        for at in 0..=count {
            if at < count {
                let half = &mut halves[at % 2];
                half.wait()?;
                self.copy_out(offset + chunk(at).start, half.start, chunk(at).len())?;
                half.mark(&self.context)?;
            }
            if at > 0 {
                let half = &mut halves[(at - 1) % 2];
                half.wait()?;
                let target = &mut into[chunk(at - 1)];
                // SAFETY: the half holds that many bytes, and its copy has ended.
                unsafe { std::ptr::copy_nonoverlapping(half.start.cast::<u8>(), target.as_mut_ptr(), target.len()) };
            }
        }
        Ok(())
    }

    /// Copies from other memory of the same device, in the order of the stream.
    pub fn copy_from(
        &self,
        offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), DriverError> {
        self.assert_range(offset, bytes);
        from.assert_range(from_offset, bytes);
        if bytes == 0 {
            return Ok(());
        }
        self.context.enter()?;
        let (functions, stream) = (self.context.functions(), self.context.stream());
        let (to, source) = (self.address + offset as u64, from.address + from_offset as u64);
        // SAFETY: both ranges lie inside their allocations.
        self.context.check("cuMemcpyDtoDAsync", unsafe {
            (functions.copy)(to, source, bytes, stream)
        })
    }

    fn copy_in(&self, offset: usize, from: *const c_void, bytes: usize) -> Result<(), DriverError> {
        let (functions, stream) = (self.context.functions(), self.context.stream());
        // SAFETY: the callers checked both ranges; pinned bytes stay until their event, others are taken at once.
        let code = unsafe { (functions.copy_in)(self.address + offset as u64, from, bytes, stream) };
        self.context.check("cuMemcpyHtoDAsync", code)
    }

    fn copy_out(&self, offset: usize, into: *mut c_void, bytes: usize) -> Result<(), DriverError> {
        let (functions, stream) = (self.context.functions(), self.context.stream());
        // SAFETY: the callers checked both ranges and wait for the copy before the bytes are used or given up.
        let code = unsafe { (functions.copy_out)(into, self.address + offset as u64, bytes, stream) };
        self.context.check("cuMemcpyDtoHAsync", code)
    }
}

/// Pinned memory for copies; made when it is first needed.
#[derive(Default)]
pub(super) struct Staging {
    halves: Option<[Half; 2]>,
}

struct Half {
    start: Handle,
    /// The end of the copy that uses it.
    busy: Option<Event>,
}

impl Half {
    fn new(context: &Arc<Context>) -> Result<Half, DriverError> {
        let mut start: Handle = std::ptr::null_mut();
        // SAFETY: writes one address.
        let code = unsafe { (context.functions().allocate_host)(&mut start, HALF) };
        if code != sys::SUCCESS {
            return Err(match context.check("cuMemAllocHost", code) {
                Err(lost @ DriverError::Lost { .. }) => lost,
                _ => DriverError::HostMemory {
                    bytes: HALF,
                    reason: context.driver.explain(code),
                },
            });
        }
        Ok(Half { start, busy: None })
    }

    /// Waits until no copy uses it.
    fn wait(&mut self) -> Result<(), DriverError> {
        match self.busy.take() {
            Some(event) => event.wait(),
            None => Ok(()),
        }
    }

    fn mark(&mut self, context: &Arc<Context>) -> Result<(), DriverError> {
        self.busy = Some(context.record()?);
        Ok(())
    }
}

impl Staging {
    fn halves(&mut self, context: &Arc<Context>) -> Result<&mut [Half; 2], DriverError> {
        if self.halves.is_none() {
            self.halves = Some([Half::new(context)?, Half::new(context)?]);
        }
        self.halves.as_mut().ok_or(DriverError::HostMemory {
            bytes: HALF,
            reason: "there is none".to_string(),
        })
    }
}

impl std::fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceMemory({} bytes at {:#x})", self.length, self.address)
    }
}
