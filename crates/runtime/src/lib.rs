//! Metal tensor kernels on any machine: devices, tensors, libraries, pipelines and queues.
