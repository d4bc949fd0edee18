//! The Metal Shading Language front end: source text in, kernel IR out.
