//! A device of the driver: its primary context, one stream, and the pool that its memory comes from.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::error::{DriverError, is_fatal};
use super::library::Driver;
use super::memory::Staging;
use super::sys::{self, Code, DeviceHandle, Functions, Handle, SUCCESS, attribute};

/// What a device is and has.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Properties {
    /// Its number.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Compute capability: 90 for 9.0.
    pub sm: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a block at most.
    pub max_threads: u32,
    /// Shared memory that a block can have, in bytes.
    pub shared_per_block: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_per_multiprocessor: u32,
    /// Bytes of the second-level cache.
    pub l2: u32,
    /// CUDA version of the driver: 13000 for 13.0.
    pub driver: u32,
}

impl Properties {
    /// `13.0`.
    pub fn driver_version(&self) -> String {
        format!("{}.{}", self.driver / 1000, self.driver % 1000 / 10)
    }

    fn read(driver: &Driver, ordinal: u32) -> Result<(DeviceHandle, Self), DriverError> {
        let count = driver.count()?;
        if ordinal >= count {
            return Err(DriverError::NoDevice { ordinal, count });
        }
        let functions = driver.functions();
        let mut device: DeviceHandle = 0;
        // SAFETY: writes one number.
        driver.check("cuDeviceGet", unsafe {
            (functions.device_get)(&mut device, ordinal as c_int)
        })?;
        let mut name = [0u8; 256];
        // SAFETY: writes at most the given number of bytes, the terminating zero included.
        let code = unsafe { (functions.device_name)(name.as_mut_ptr().cast::<c_char>(), 255, device) };
        driver.check("cuDeviceGetName", code)?;
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(0);
        let mut memory = 0usize;
        // SAFETY: writes one number.
        driver.check("cuDeviceTotalMem", unsafe {
            (functions.device_memory)(&mut memory, device)
        })?;
        let get = |attribute| driver.attribute(device, attribute);
        let properties = Properties {
            ordinal,
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            sm: get(attribute::COMPUTE_CAPABILITY_MAJOR)? * 10 + get(attribute::COMPUTE_CAPABILITY_MINOR)?,
            memory: memory as u64,
            multiprocessors: get(attribute::MULTIPROCESSOR_COUNT)?,
            max_threads: get(attribute::MAX_THREADS_PER_BLOCK)?,
            shared_per_block: get(attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            shared_per_multiprocessor: get(attribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            l2: get(attribute::L2_CACHE_SIZE)?,
            driver: driver.version(),
        };
        let unsuitable = |reason| DriverError::Unsuitable {
            name: properties.name.clone(),
            sm: properties.sm,
            reason,
        };
        if properties.sm < 80 {
            return Err(unsuitable("compute capability 8.0 or later is needed"));
        }
        if get(attribute::MEMORY_POOLS_SUPPORTED)? == 0 {
            return Err(unsuitable("its driver has no memory pools here"));
        }
        Ok((device, properties))
    }
}

/// Every device that the driver sees, without opening them. Devices that cannot be used are left out.
pub fn devices() -> Result<Vec<Properties>, DriverError> {
    let driver = Driver::get()?;
    let all = (0..driver.count()?).map(|ordinal| Properties::read(driver, ordinal));
    Ok(all
        .filter_map(|found| found.ok().map(|(_, properties)| properties))
        .collect())
}

/// An opened device. There is one for each device of the process; it is never closed, since other parts of the process may
/// share the driver's primary context.
pub struct Context {
    pub(super) driver: &'static Driver,
    properties: Properties,
    handle: Handle,
    stream: Handle,
    pool: Handle,
    pub(super) staging: Mutex<Staging>,
    /// Events that nobody uses now.
    pub(super) spare_events: Mutex<Vec<usize>>,
    /// The kernel that was launched last, for messages.
    last_kernel: Mutex<Arc<str>>,
    lost: OnceLock<DriverError>,
}

// SAFETY: the handles are the driver's, which may be used from any thread in which the context is current; `enter` makes it so.
unsafe impl Send for Context {}
// SAFETY: as above; the driver's calls are thread-safe.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a device, or finds it open.
    pub fn open(ordinal: u32) -> Result<Arc<Context>, DriverError> {
        static OPEN: Mutex<Option<HashMap<u32, Arc<Context>>>> = Mutex::new(None);
        let mut open = OPEN.lock().unwrap_or_else(|e| e.into_inner());
        let open = open.get_or_insert_with(HashMap::new);
        if let Some(found) = open.get(&ordinal) {
            return Ok(found.clone());
        }
        let context = Arc::new(Context::new(Driver::get()?, ordinal)?);
        open.insert(ordinal, context.clone());
        Ok(context)
    }

    fn new(driver: &'static Driver, ordinal: u32) -> Result<Context, DriverError> {
        let (device, properties) = Properties::read(driver, ordinal)?;
        let functions = driver.functions();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        driver.check("cuDevicePrimaryCtxRetain", unsafe {
            (functions.primary_retain)(&mut handle, device)
        })?;
        // SAFETY: the context was just retained.
        driver.check("cuCtxSetCurrent", unsafe { (functions.set_current)(handle) })?;
        let mut stream: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        driver.check("cuStreamCreate", unsafe {
            (functions.stream_create)(&mut stream, sys::STREAM_NON_BLOCKING)
        })?;
        let wanted = sys::PoolProperties {
            allocation_type: 1,
            handle_types: 0,
            location_type: 1,
            location_id: device,
            security_attributes: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool: Handle = std::ptr::null_mut();
        // SAFETY: reads the properties, writes one handle.
        driver.check("cuMemPoolCreate", unsafe {
            (functions.pool_create)(&mut pool, &wanted)
        })?;
        // Freed memory stays with the pool for the next buffer; `allocate` gives it back when the device is full.
        let mut keep = u64::MAX;
        // SAFETY: the attribute is a 64-bit number.
        driver.check("cuMemPoolSetAttribute", unsafe {
            (functions.pool_set)(pool, sys::pool::RELEASE_THRESHOLD, (&raw mut keep).cast::<c_void>())
        })?;
        Ok(Context {
            driver,
            properties,
            handle,
            stream,
            pool,
            staging: Mutex::default(),
            spare_events: Mutex::default(),
            last_kernel: Mutex::new("".into()),
            lost: OnceLock::new(),
        })
    }

    /// What the device is.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Why the device is lost, if it is.
    pub fn lost(&self) -> Option<&DriverError> {
        self.lost.get()
    }

    pub(super) fn functions(&self) -> &Functions {
        self.driver.functions()
    }

    /// The stream that everything of this device runs on, in order.
    pub(super) fn stream(&self) -> Handle {
        self.stream
    }

    pub(super) fn pool(&self) -> Handle {
        self.pool
    }

    /// Makes the context current in this thread.
    pub(super) fn enter(&self) -> Result<(), DriverError> {
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone());
        }
        // SAFETY: the context is retained for the life of the process.
        self.check("cuCtxSetCurrent", unsafe {
            (self.functions().set_current)(self.handle)
        })
    }

    /// An error for every code but success. A code that says that the device is gone is kept.
    pub(super) fn check(&self, call: &'static str, code: Code) -> Result<(), DriverError> {
        if code == SUCCESS {
            return Ok(());
        }
        let Some(addressed) = is_fatal(code) else {
            return self.driver.check(call, code);
        };
        let last = self.last();
        let lost = self.lost.get_or_init(|| DriverError::Lost {
            during: match &**last {
                "" => format!("before {call}"),
                kernel => format!("while kernel `{kernel}` or one before it ran"),
            },
            reason: self.driver.explain(code),
            addressed,
        });
        Err(lost.clone())
    }

    fn last(&self) -> MutexGuard<'_, Arc<str>> {
        self.last_kernel.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn launched(&self, kernel: &Arc<str>) {
        *self.last() = kernel.clone();
    }

    /// Waits until everything that was put on the stream so far has run.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: the stream lives as long as the context.
        self.check("cuStreamSynchronize", unsafe {
            (self.functions().stream_synchronize)(self.stream)
        })
    }

    /// Free bytes and all bytes of the device.
    pub fn memory_info(&self) -> Result<(u64, u64), DriverError> {
        self.enter()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: writes two numbers.
        self.check("cuMemGetInfo", unsafe {
            (self.functions().memory_info)(&mut free, &mut total)
        })?;
        Ok((free as u64, total as u64))
    }

    /// Bytes of the pool that buffers use now, and bytes that it holds.
    pub fn pool_info(&self) -> Result<(u64, u64), DriverError> {
        self.enter()?;
        let get = |attribute| {
            let mut value = 0u64;
            // SAFETY: the attribute is a 64-bit number.
            let code = unsafe { (self.functions().pool_get)(self.pool, attribute, (&raw mut value).cast::<c_void>()) };
            self.check("cuMemPoolGetAttribute", code).map(|()| value)
        };
        Ok((get(sys::pool::USED_MEM_CURRENT)?, get(sys::pool::RESERVED_MEM_CURRENT)?))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context(cuda:{} {})", self.properties.ordinal, self.properties.name)
    }
}
