//! Checked mode: bounds of accesses, and the record of the first fault.
