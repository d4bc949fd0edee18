//! The kernel IR: types, verifier, passes and text form.
