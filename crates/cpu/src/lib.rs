//! Executes kernel IR on this machine's cores.
