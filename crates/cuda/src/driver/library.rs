//! libcuda, opened once for the process.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use super::error::{DriverError, is_fatal};
use super::sys::{Code, DeviceHandle, ERROR_NO_DEVICE, Functions, SUCCESS};

/// The library's file name.
#[cfg(windows)]
const LIBRARY: &str = "nvcuda.dll";
/// The library's file name.
#[cfg(not(windows))]
const LIBRARY: &str = "libcuda.so.1";

/// The open driver.
pub struct Driver {
    functions: Functions,
    version: u32,
    /// Closed never: threads of the driver may outlive any owner.
    _library: libloading::Library,
}

impl Driver {
    /// The driver of this machine, opened and initialised the first time.
    pub fn get() -> Result<&'static Driver, DriverError> {
        static DRIVER: OnceLock<Result<Driver, DriverError>> = OnceLock::new();
        DRIVER
            .get_or_init(|| Driver::open(LIBRARY))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Opens a library by name.
    fn open(name: &'static str) -> Result<Driver, DriverError> {
        // SAFETY: libcuda's initialisers may run at any time; a library of that name is NVIDIA's.
        let library = unsafe { libloading::Library::new(name) }.map_err(|error| DriverError::NoDriver {
            library: name,
            reason: error.to_string(),
        })?;
        // SAFETY: the library is kept in the same value as the table.
        let functions = unsafe { Functions::find(&library) }.map_err(|symbol| DriverError::TooOld { symbol })?;
        let mut driver = Driver {
            functions,
            version: 0,
            _library: library,
        };
        // SAFETY: the first call to the driver, as it asks for.
        let code = unsafe { (driver.functions.init)(0) };
        if code == ERROR_NO_DEVICE {
            return Err(DriverError::NoDevice { ordinal: 0, count: 0 });
        }
        driver.check("cuInit", code)?;
        let mut version: c_int = 0;
        // SAFETY: writes one number.
        driver.check("cuDriverGetVersion", unsafe {
            (driver.functions.driver_version)(&mut version)
        })?;
        driver.version = version.max(0) as u32;
        Ok(driver)
    }

    /// The functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The CUDA version that the driver speaks: 13000 for 13.0.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// How many devices it sees.
    pub fn count(&self) -> Result<u32, DriverError> {
        let mut count: c_int = 0;
        // SAFETY: writes one number.
        let code = unsafe { (self.functions.device_count)(&mut count) };
        self.check("cuDeviceGetCount", code)?;
        Ok(count.max(0) as u32)
    }

    /// A property of a device as the driver counts it.
    pub(super) fn attribute(&self, device: DeviceHandle, attribute: c_int) -> Result<u32, DriverError> {
        let mut value: c_int = 0;
        // SAFETY: writes one number.
        let code = unsafe { (self.functions.device_attribute)(&mut value, attribute, device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(value.max(0) as u32)
    }

    /// The name and the explanation of an error code.
    pub(super) fn explain(&self, code: Code) -> String {
        let text = |get: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: writes one pointer, to a text that lives as long as the driver.
            let found = unsafe { get(code, &mut text) };
            let known = found == SUCCESS && !text.is_null();
            // SAFETY: a C string of the driver's.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = text(self.functions.error_name).unwrap_or_else(|| format!("CUDA error {code}"));
        match text(self.functions.error_string) {
            Some(words) => format!("{name} ({words})"),
            None => name,
        }
    }

    /// An error for every code but success.
    pub(super) fn check(&self, call: &'static str, code: Code) -> Result<(), DriverError> {
        if code == SUCCESS {
            return Ok(());
        }
        let reason = self.explain(code);
        Err(match is_fatal(code) {
            Some(addressed) => DriverError::Lost {
                during: format!("before {call} could run"),
                reason,
                addressed,
            },
            None => DriverError::Call { call, reason, code },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_library_says_so() {
        match Driver::open("libanymetal-no-such-library.so.1") {
            Err(DriverError::NoDriver { library, reason }) => {
                assert_eq!(library, "libanymetal-no-such-library.so.1");
                assert!(!reason.is_empty());
            }
            Err(other) => panic!("another error: {other}"),
            Ok(_) => panic!("it was found"),
        }
    }

    #[test]
    fn a_library_without_the_functions_is_too_old() {
        // Every Linux has this one, and none of CUDA's functions is in it.
        if let Err(error) = Driver::open("libc.so.6") {
            assert_eq!(error, DriverError::TooOld { symbol: "cuInit" });
        }
    }
}
