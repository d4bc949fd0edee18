//! Events: points on a device's stream.

use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::error::DriverError;
use super::sys::{self, ERROR_NOT_READY, Handle};

/// A point on the stream of a device, at which everything before it has run. It is used again after it is dropped.
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

// SAFETY: a handle of the driver's, which any thread may use.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Context {
    /// Marks the present end of the stream.
    pub fn record(self: &Arc<Self>) -> Result<Event, DriverError> {
        self.enter()?;
        let spare = self.spare_events.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let handle = match spare {
            Some(handle) => handle as Handle,
            None => {
                let mut handle: Handle = std::ptr::null_mut();
                // SAFETY: writes one handle.
                let code = unsafe { (self.functions().event_create)(&mut handle, sys::EVENT_DEFAULT) };
                self.check("cuEventCreate", code)?;
                handle
            }
        };
        let event = Event {
            context: self.clone(),
            handle,
        };
        // SAFETY: both handles live.
        let code = unsafe { (self.functions().event_record)(handle, self.stream()) };
        self.check("cuEventRecord", code)?;
        Ok(event)
    }
}

impl Event {
    /// Waits until the device has come to this point.
    pub fn wait(&self) -> Result<(), DriverError> {
        self.context.enter()?;
        // SAFETY: the event lives.
        let code = unsafe { (self.context.functions().event_synchronize)(self.handle) };
        self.context.check("cuEventSynchronize", code)
    }

    /// True when the device has come to this point.
    pub fn is_past(&self) -> Result<bool, DriverError> {
        self.context.enter()?;
        // SAFETY: the event lives.
        let code = unsafe { (self.context.functions().event_query)(self.handle) };
        if code == ERROR_NOT_READY {
            return Ok(false);
        }
        self.context.check("cuEventQuery", code)?;
        Ok(true)
    }

    /// Device time from `start` to here. Both must have been passed.
    pub fn since(&self, start: &Event) -> Result<Duration, DriverError> {
        self.context.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: writes one number; both events live.
        let code = unsafe { (self.context.functions().event_elapsed)(&mut milliseconds, start.handle, self.handle) };
        self.context.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut spare = self.context.spare_events.lock().unwrap_or_else(|e| e.into_inner());
        spare.push(self.handle as usize);
    }
}
