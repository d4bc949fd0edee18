//! Executes kernel IR on this machine's cores.

pub mod memory;

pub use memory::{DispatchLock, HostMemory, MemoryError};
