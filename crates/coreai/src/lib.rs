//! Reads Core AI assets (.aimodel) and runs them through anymetal.
