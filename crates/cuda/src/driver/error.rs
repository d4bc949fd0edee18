//! What the driver refuses, and how that is told.

use super::sys::Code;

/// Why a device cannot be used, or a call to the driver failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// This machine has no CUDA driver.
    #[error(
        "no CUDA driver: {library} was not found ({reason}); a machine with an NVIDIA GPU gets it with NVIDIA's driver"
    )]
    NoDriver {
        /// The library's name.
        library: &'static str,
        /// What the system said.
        reason: String,
    },
    /// The driver is older than this program needs.
    #[error("the CUDA driver lacks {symbol}: it is older than CUDA 12; update NVIDIA's driver")]
    TooOld {
        /// The first function that is missing.
        symbol: &'static str,
    },
    /// There is a driver, but no such device.
    #[error("there is no CUDA device {ordinal}: {}", match count {
        0 => "the driver sees none (CUDA_VISIBLE_DEVICES hides devices)".to_string(),
        1 => "the driver sees one, number 0".to_string(),
        n => format!("the driver sees {n}, numbers 0 to {}", n - 1),
    })]
    NoDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The device cannot run what this crate generates.
    #[error("{name} (sm_{sm}) cannot be used: {reason}")]
    Unsuitable {
        /// The device.
        name: String,
        /// Its compute capability, 80 for 8.0.
        sm: u32,
        /// What it lacks.
        reason: &'static str,
    },
    /// No room on the device.
    #[error(
        "the GPU is out of memory: {wanted} bytes were wanted, {free} of {total} are free ({pooled} more are held by this \
         process's buffers)"
    )]
    OutOfMemory {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that the driver calls free, after this crate gave back what it kept.
        free: u64,
        /// Bytes of the device.
        total: u64,
        /// Bytes in use by this process's own buffers.
        pooled: u64,
    },
    /// No room on the host for copies.
    #[error("cannot pin {bytes} bytes of host memory for copies: {reason}")]
    HostMemory {
        /// Bytes asked for.
        bytes: usize,
        /// What the driver said.
        reason: String,
    },
    /// The driver does not assemble a kernel.
    #[error(
        "the driver does not accept the PTX of kernel `{kernel}`: {reason}{}",
        log_lines(log)
    )]
    Assemble {
        /// The kernel.
        kernel: String,
        /// What the driver said.
        reason: String,
        /// The log of its assembler.
        log: String,
    },
    /// The device stopped: everything on it is lost, and this process cannot use it any more.
    #[error(
        "the GPU stopped {during}: {reason}. Its memory is lost and this process cannot use it any more{}",
        if *addressed { "; run with --checked to learn which access of which kernel it was" } else { "" }
    )]
    Lost {
        /// What was going on.
        during: String,
        /// What the driver said.
        reason: String,
        /// True for a bad address, which the checked mode explains.
        addressed: bool,
    },
    /// Any other call that failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// What the driver said.
        reason: String,
        /// Its number.
        code: Code,
    },
}

fn log_lines(log: &str) -> String {
    let lines = log.trim().lines().filter(|line| !line.trim().is_empty());
    lines
        .take(12)
        .map(|line| format!("\n    {}", line.trim_end()))
        .collect()
}

/// What an error code says of the device: `Some` when it is gone, and whether a bad address did it.
///
/// These codes stay: every later call of the process gives the same one.
pub(super) fn is_fatal(code: Code) -> Option<bool> {
    match code {
        // Illegal address, misaligned address, invalid address space, invalid program counter.
        700 | 716 | 717 | 718 => Some(true),
        // Launch timeout, assertion, hardware stack error, illegal instruction, launch failed, ECC error, contained ones.
        702 | 710 | 714 | 715 | 719 | 214 | 226 | 721 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let missing = DriverError::NoDriver {
            library: "libcuda.so.1",
            reason: "cannot open shared object file".into(),
        };
        assert!(
            missing
                .to_string()
                .starts_with("no CUDA driver: libcuda.so.1 was not found")
        );
        let none = DriverError::NoDevice { ordinal: 3, count: 2 };
        assert_eq!(
            none.to_string(),
            "there is no CUDA device 3: the driver sees 2, numbers 0 to 1"
        );
        let full = DriverError::OutOfMemory {
            wanted: 10,
            free: 4,
            total: 8,
            pooled: 4,
        };
        assert_eq!(
            full.to_string(),
            "the GPU is out of memory: 10 bytes were wanted, 4 of 8 are free (4 more are held by this process's buffers)"
        );
        let refused = DriverError::Assemble {
            kernel: "k".into(),
            reason: "CUDA_ERROR_INVALID_PTX".into(),
            log: "ptxas application, line 3; error : bad\n\n".into(),
        };
        assert_eq!(
            refused.to_string(),
            "the driver does not accept the PTX of kernel `k`: CUDA_ERROR_INVALID_PTX\n    ptxas application, line 3; error : bad"
        );
    }
}
