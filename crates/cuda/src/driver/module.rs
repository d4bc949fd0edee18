//! Kernels on a device: PTX assembled by the driver, loaded, and launched.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::cache::{Cache, Key};
use super::context::Context;
use super::error::DriverError;
use super::sys::{self, Code, Handle, SUCCESS, function, jit};

/// Bytes of the assembler's logs that are kept.
const LOG_BYTES: usize = 16 << 10;

/// A loaded kernel.
pub struct Function {
    context: Arc<Context>,
    module: Handle,
    handle: Handle,
    name: Arc<str>,
    registers: u32,
    local_bytes: u32,
    /// Dynamic shared memory that it was allowed so far.
    shared_allowed: AtomicU32,
}

// SAFETY: handles of the driver's, which any thread may use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// The shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchShape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Blocks of a cluster; all ones for none.
    pub cluster: [u32; 3],
    /// May begin before the launch in front of it has ended, for which it waits itself.
    pub early: bool,
}

/// Where a launch goes.
#[derive(Clone, Copy)]
pub(super) struct Stream(pub Handle);

impl Function {
    /// Assembles PTX (or takes what it came to from the cache), and finds its entry. `kernel` is for messages.
    pub fn load(
        context: &Arc<Context>,
        ptx: &str,
        entry: &str,
        kernel: &str,
        cache: Option<&Cache>,
    ) -> Result<Function, DriverError> {
        context.enter()?;
        let properties = context.properties();
        let key = Key::of(ptx, properties.sm, properties.driver);
        let cached = cache.and_then(|cache| cache.get(&key));
        let loaded = cached.and_then(|cubin| load_module(context, &cubin).ok());
        let module = match loaded {
            Some(module) => module,
            None => {
                let cubin = assemble(context, ptx, kernel)?;
                if let Some(cache) = cache {
                    cache.put(&key, &cubin);
                }
                load_module(context, &cubin).map_err(|code| refused(context, "cuModuleLoadDataEx", code, kernel, ""))?
            }
        };
        let mut handle: Handle = std::ptr::null_mut();
        let name = CString::new(entry).unwrap_or_default();
        // SAFETY: writes one handle; the name is a C string.
        let code = unsafe { (context.functions().module_function)(&mut handle, module, name.as_ptr()) };
        let mut function = Function {
            context: context.clone(),
            module,
            handle,
            name: kernel.into(),
            registers: 0,
            local_bytes: 0,
            // What every kernel may have without being allowed.
            shared_allowed: AtomicU32::new(48 << 10),
        };
        context.check("cuModuleGetFunction", code)?;
        function.registers = function.get(function::NUM_REGS)?;
        function.local_bytes = function.get(function::LOCAL_SIZE_BYTES)?;
        Ok(function)
    }

    fn get(&self, attribute: c_int) -> Result<u32, DriverError> {
        let mut value: c_int = 0;
        // SAFETY: writes one number; the function lives.
        let code = unsafe { (self.context.functions().function_get)(&mut value, attribute, self.handle) };
        self.context.check("cuFuncGetAttribute", code)?;
        Ok(value.max(0) as u32)
    }

    /// The device it is on.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Registers of a thread.
    pub fn registers(&self) -> u32 {
        self.registers
    }

    /// Bytes of local memory of a thread: spilled registers and thread arrays.
    pub fn local_bytes(&self) -> u32 {
        self.local_bytes
    }

    /// Puts a launch with a parameter block on the device's stream.
    pub fn launch(&self, shape: &LaunchShape, parameters: &[u8]) -> Result<(), DriverError> {
        self.launch_on(Stream(self.context.stream()), shape, parameters)
    }

    pub(super) fn launch_on(&self, stream: Stream, shape: &LaunchShape, parameters: &[u8]) -> Result<(), DriverError> {
        self.context.enter()?;
        self.allow_shared(shape.shared_bytes)?;
        let mut attributes = Vec::new();
        let mut attribute = |id, values: &[u32]| {
            let mut value = [0; 16];
            value[..values.len()].copy_from_slice(values);
            attributes.push(sys::LaunchAttribute {
                id,
                padding: [0; 4],
                value,
            });
        };
        if shape.cluster != [1; 3] {
            attribute(sys::LAUNCH_CLUSTER_DIMENSION, &shape.cluster);
        }
        if shape.early {
            attribute(sys::LAUNCH_PROGRAMMATIC, &[1]);
        }
        let config = sys::LaunchConfig {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            stream: stream.0,
            attributes: match attributes.is_empty() {
                true => std::ptr::null_mut(),
                false => attributes.as_mut_ptr(),
            },
            attribute_count: attributes.len() as c_uint,
        };
        let mut block = [parameters.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the kernel has one parameter, which is as long as `parameters`; the driver copies it before it returns.
        let code = unsafe {
            (self.context.functions().launch)(&config, self.handle, block.as_mut_ptr(), std::ptr::null_mut())
        };
        self.context.launched(&self.name);
        self.context.check("cuLaunchKernelEx", code)
    }

    /// Shared memory above 48 KB has to be allowed for each kernel.
    fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        if bytes <= self.shared_allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let attribute = function::MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function lives.
        let code = unsafe { (self.context.functions().function_set)(self.handle, attribute, bytes as c_int) };
        self.context.check("cuFuncSetAttribute", code)?;
        self.shared_allowed.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // A module must outlive its launches.
        if self.context.synchronize().is_ok() {
            // SAFETY: loaded once, unloaded once; nothing runs. A failure means a lost device, which the next call reports.
            unsafe { (self.context.functions().module_unload)(self.module) };
        }
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Function({}, {} registers)", self.name, self.registers)
    }
}

fn load_module(context: &Context, image: &[u8]) -> Result<Handle, Code> {
    let mut module: Handle = std::ptr::null_mut();
    // SAFETY: writes one handle; an ELF image says its own length.
    let code = unsafe {
        (context.functions().module_load)(
            &mut module,
            image.as_ptr().cast(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if code == SUCCESS { Ok(module) } else { Err(code) }
}

fn refused(context: &Context, call: &'static str, code: Code, kernel: &str, log: &str) -> DriverError {
    match context.check(call, code) {
        Err(lost @ DriverError::Lost { .. }) => lost,
        _ => DriverError::Assemble {
            kernel: kernel.to_owned(),
            reason: context.driver.explain(code),
            log: log.to_owned(),
        },
    }
}

/// PTX to an ELF image for the device, by the driver's own assembler.
fn assemble(context: &Context, ptx: &str, kernel: &str) -> Result<Vec<u8>, DriverError> {
    let mut errors = vec![0u8; LOG_BYTES];
    let mut options = [jit::ERROR_LOG_BUFFER, jit::ERROR_LOG_BUFFER_SIZE_BYTES];
    // Numbers travel in the pointers themselves.
    let mut values = [errors.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
    let mut link: Handle = std::ptr::null_mut();
    let functions = context.functions();
    // SAFETY: two options with their values; the log outlives the link.
    let code = unsafe { (functions.link_create)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut link) };
    context.check("cuLinkCreate", code)?;
    let text = CString::new(ptx.replace('\0', " ")).unwrap_or_default();
    let bytes = text.as_bytes_with_nul();
    let name = CString::new("kernel.ptx").unwrap_or_default();
    let (mut image, mut length) = (std::ptr::null_mut::<c_void>(), 0usize);
    // SAFETY: the text with its terminating zero, which the driver copies or parses at once.
    let mut code = unsafe {
        (functions.link_add)(
            link,
            jit::INPUT_PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            name.as_ptr(),
            0 as c_uint,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if code == SUCCESS {
        // SAFETY: writes an address and a length; the image belongs to the link.
        code = unsafe { (functions.link_complete)(link, &mut image, &mut length) };
    }
    let result = if code == SUCCESS && !image.is_null() {
        // SAFETY: the link's image, copied before the link goes.
        Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), length) }.to_vec())
    } else {
        let end = errors.iter().position(|&byte| byte == 0).unwrap_or(errors.len());
        let log = String::from_utf8_lossy(&errors[..end]);
        Err(refused(context, "cuLinkAddData", code, kernel, &log))
    };
    // SAFETY: created above and destroyed once.
    unsafe { (functions.link_destroy)(link) };
    result
}
