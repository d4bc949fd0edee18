//! Parse trees of tricky snippets.
