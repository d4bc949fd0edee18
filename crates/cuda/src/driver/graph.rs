//! Launches recorded once and replayed by one call.

use std::sync::Arc;

use super::context::Context;
use super::dispatch::Prepared;
use super::error::DriverError;
use super::module::Stream;
use super::sys::{self, Handle};

/// A list of launches that the device runs as a whole (a CUDA graph).
pub struct Graph {
    context: Arc<Context>,
    handle: Handle,
    /// What its launches name.
    _dispatches: Vec<Prepared>,
}

// SAFETY: a handle of the driver's; launches of one graph are kept apart by the stream's order.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// Something that is put on a stream while a graph is recorded.
pub(crate) struct Recorder {
    stream: Handle,
}

impl Recorder {
    pub(super) fn stream(&self) -> Stream {
        Stream(self.stream)
    }

    /// A launch.
    pub fn launch(
        &self,
        function: &super::module::Function,
        shape: &super::module::LaunchShape,
        parameters: &[u8],
    ) -> Result<(), DriverError> {
        function.launch_on(self.stream(), shape, parameters)
    }
}

impl Context {
    /// Records dispatches, in order. The memory that is bound to them must live as long as the graph.
    pub fn record_graph(self: &Arc<Self>, dispatches: Vec<Prepared>) -> Result<Graph, DriverError> {
        self.enter()?;
        let functions = self.functions();
        let mut stream: Handle = std::ptr::null_mut();
        // A stream of its own: what other threads put on the device's stream meanwhile is not recorded.
        // SAFETY: writes one handle.
        self.check("cuStreamCreate", unsafe {
            (functions.stream_create)(&mut stream, sys::STREAM_NON_BLOCKING)
        })?;
        let recorded = self.capture(stream, |recorder| {
            let mut previous = None;
            dispatches
                .iter()
                .try_for_each(|dispatch| dispatch.record(recorder, previous.replace(dispatch)))
        });
        // SAFETY: created above; nothing runs on it, since it only recorded.
        unsafe { (functions.stream_destroy)(stream) };
        let graph = recorded?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle; the graph was recorded above and is not used afterwards.
        let code = unsafe { (functions.graph_instantiate)(&mut handle, graph, 0) };
        // SAFETY: recorded above and destroyed once.
        unsafe { (functions.graph_destroy)(graph) };
        self.check("cuGraphInstantiateWithFlags", code)?;
        Ok(Graph {
            context: self.clone(),
            handle,
            _dispatches: dispatches,
        })
    }

    fn capture(
        self: &Arc<Self>,
        stream: Handle,
        body: impl FnOnce(&Recorder) -> Result<(), DriverError>,
    ) -> Result<Handle, DriverError> {
        let functions = self.functions();
        // SAFETY: the stream lives.
        let code = unsafe { (functions.stream_begin_capture)(stream, sys::CAPTURE_THREAD_LOCAL) };
        self.check("cuStreamBeginCapture", code)?;
        let outcome = body(&Recorder { stream });
        let mut graph: Handle = std::ptr::null_mut();
        // SAFETY: writes one handle; the capture began above.
        let code = unsafe { (functions.stream_end_capture)(stream, &mut graph) };
        let ended = self.check("cuStreamEndCapture", code);
        match outcome.and(ended) {
            Ok(()) => Ok(graph),
            Err(error) => {
                if !graph.is_null() {
                    // SAFETY: recorded above and destroyed once.
                    unsafe { (functions.graph_destroy)(graph) };
                }
                Err(error)
            }
        }
    }
}

impl Graph {
    /// Puts the launches on the device's stream.
    pub fn launch(&self) -> Result<(), DriverError> {
        self.context.enter()?;
        // SAFETY: both handles live.
        let code = unsafe { (self.context.functions().graph_launch)(self.handle, self.context.stream()) };
        self.context.check("cuGraphLaunch", code)
    }

    /// The device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.synchronize().is_ok() {
            // SAFETY: instantiated once, destroyed once, and nothing of it runs.
            unsafe { (self.context.functions().graph_exec_destroy)(self.handle) };
        }
    }
}
