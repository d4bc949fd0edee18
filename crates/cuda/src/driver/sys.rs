//! The functions of libcuda that this crate calls, loaded at run time.
//!
//! Nothing links against CUDA: the library is opened by name when the first device is asked for, so the same program runs on
//! machines without it. Types and numbers are those of `cuda.h`; an error code is a number, since drivers add new ones.

#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `CUresult`.
pub type Code = c_int;
/// `CUdevice`: an ordinal.
pub type DeviceHandle = c_int;
/// `CUdeviceptr`.
pub type DevicePointer = u64;
/// `CUcontext`, `CUstream` and the other handles.
pub type Handle = *mut c_void;

pub const SUCCESS: Code = 0;
pub const ERROR_OUT_OF_MEMORY: Code = 2;
pub const ERROR_NO_DEVICE: Code = 100;
pub const ERROR_NOT_READY: Code = 600;

/// `CUdevice_attribute`.
pub mod attribute {
    use std::ffi::c_int;

    pub const MAX_THREADS_PER_BLOCK: c_int = 1;
    pub const MULTIPROCESSOR_COUNT: c_int = 16;
    pub const L2_CACHE_SIZE: c_int = 38;
    pub const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
    pub const COMPUTE_CAPABILITY_MINOR: c_int = 76;
    pub const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: c_int = 81;
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
    pub const MEMORY_POOLS_SUPPORTED: c_int = 115;
}

/// `CUfunction_attribute`.
pub mod function {
    use std::ffi::c_int;

    pub const LOCAL_SIZE_BYTES: c_int = 3;
    pub const NUM_REGS: c_int = 4;
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_int = 8;
}

/// `CUjit_option`.
pub mod jit {
    use std::ffi::c_int;

    pub const ERROR_LOG_BUFFER: c_int = 5;
    pub const ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;

    /// `CUjitInputType`.
    pub const INPUT_PTX: c_int = 1;
}

/// `CUmemPool_attribute`.
pub mod pool {
    use std::ffi::c_int;

    pub const RELEASE_THRESHOLD: c_int = 4;
    pub const RESERVED_MEM_CURRENT: c_int = 5;
    pub const USED_MEM_CURRENT: c_int = 7;
}

/// `CU_EVENT_DEFAULT`.
pub const EVENT_DEFAULT: c_uint = 0;
/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;

/// `CUmemPoolProps`, version of CUDA 12 and 13.
#[repr(C)]
pub struct PoolProperties {
    /// 1: `CU_MEM_ALLOCATION_TYPE_PINNED`.
    pub allocation_type: c_int,
    pub handle_types: c_int,
    /// 1: `CU_MEM_LOCATION_TYPE_DEVICE`.
    pub location_type: c_int,
    pub location_id: c_int,
    pub security_attributes: *mut c_void,
    pub max_size: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

/// `CUlaunchAttribute`: a number, padding, and 64 bytes of value.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    pub id: c_int,
    pub padding: [u8; 4],
    pub value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
pub const LAUNCH_CLUSTER_DIMENSION: c_int = 4;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
pub const LAUNCH_PROGRAMMATIC: c_int = 6;

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub shared_bytes: c_uint,
    pub stream: Handle,
    pub attributes: *mut LaunchAttribute,
    pub attribute_count: c_uint,
}

/// Declares the table of functions: a field each, filled by name when the library is opened.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($ty:ty),* $(,)?);)*) => {
        /// The functions. Every one returns a code.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($ty),*) -> Code,)*
        }

        impl Functions {
            /// Finds all of them in an open library; an error is the name of the first one that is missing.
            ///
            /// # Safety
            /// The library is libcuda, and stays open as long as the table is used.
            pub unsafe fn find(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the symbol of this name has this type in every libcuda that has it.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($ty),*) -> Code>(concat!($symbol, "\0").as_bytes()) };
                        *found.map_err(|_| $symbol)?
                    },)*
                })
            }
        }
    };
}

functions! {
    init = "cuInit"(c_uint);
    driver_version = "cuDriverGetVersion"(*mut c_int);
    error_name = "cuGetErrorName"(Code, *mut *const c_char);
    error_string = "cuGetErrorString"(Code, *mut *const c_char);
    device_count = "cuDeviceGetCount"(*mut c_int);
    device_get = "cuDeviceGet"(*mut DeviceHandle, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, DeviceHandle);
    device_memory = "cuDeviceTotalMem_v2"(*mut usize, DeviceHandle);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, DeviceHandle);
    primary_retain = "cuDevicePrimaryCtxRetain"(*mut Handle, DeviceHandle);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(DeviceHandle);
    set_current = "cuCtxSetCurrent"(Handle);
    memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    stream_create = "cuStreamCreate"(*mut Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2"(Handle);
    stream_synchronize = "cuStreamSynchronize"(Handle);
    stream_begin_capture = "cuStreamBeginCapture_v2"(Handle, c_int);
    stream_end_capture = "cuStreamEndCapture"(Handle, *mut Handle);
    graph_instantiate = "cuGraphInstantiateWithFlags"(*mut Handle, Handle, u64);
    graph_launch = "cuGraphLaunch"(Handle, Handle);
    graph_destroy = "cuGraphDestroy"(Handle);
    graph_exec_destroy = "cuGraphExecDestroy"(Handle);
    event_create = "cuEventCreate"(*mut Handle, c_uint);
    event_record = "cuEventRecord"(Handle, Handle);
    event_query = "cuEventQuery"(Handle);
    event_synchronize = "cuEventSynchronize"(Handle);
    event_elapsed = "cuEventElapsedTime"(*mut f32, Handle, Handle);
    event_destroy = "cuEventDestroy_v2"(Handle);
    pool_create = "cuMemPoolCreate"(*mut Handle, *const PoolProperties);
    pool_set = "cuMemPoolSetAttribute"(Handle, c_int, *mut c_void);
    pool_get = "cuMemPoolGetAttribute"(Handle, c_int, *mut c_void);
    pool_trim = "cuMemPoolTrimTo"(Handle, usize);
    allocate = "cuMemAllocFromPoolAsync"(*mut DevicePointer, usize, Handle, Handle);
    free = "cuMemFreeAsync"(DevicePointer, Handle);
    allocate_host = "cuMemAllocHost_v2"(*mut Handle, usize);
    free_host = "cuMemFreeHost"(Handle);
    copy_in = "cuMemcpyHtoDAsync_v2"(DevicePointer, *const c_void, usize, Handle);
    copy_out = "cuMemcpyDtoHAsync_v2"(*mut c_void, DevicePointer, usize, Handle);
    copy = "cuMemcpyDtoDAsync_v2"(DevicePointer, DevicePointer, usize, Handle);
    set_bytes = "cuMemsetD8Async"(DevicePointer, u8, usize, Handle);
    link_create = "cuLinkCreate_v2"(c_uint, *mut c_int, *mut *mut c_void, *mut Handle);
    link_add = "cuLinkAddData_v2"(Handle, c_int, *mut c_void, usize, *const c_char, c_uint, *mut c_int, *mut *mut c_void);
    link_complete = "cuLinkComplete"(Handle, *mut *mut c_void, *mut usize);
    link_destroy = "cuLinkDestroy"(Handle);
    module_load = "cuModuleLoadDataEx"(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    module_unload = "cuModuleUnload"(Handle);
    module_function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    function_get = "cuFuncGetAttribute"(*mut c_int, c_int, Handle);
    function_set = "cuFuncSetAttribute"(Handle, c_int, c_int);
    launch = "cuLaunchKernelEx"(*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
}
