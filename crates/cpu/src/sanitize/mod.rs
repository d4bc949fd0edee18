//! The sanitizer: what it remembers while a kernel runs under watch, and the findings that it makes.
//!
//! A kernel is compiled for it with [`CpuOptions::sanitize`](crate::CpuOptions::sanitize). Its threadgroups then run whole, one
//! after another on one thread, and each watched instruction is checked before it runs (`exec/watch.rs`). Rules and limits
//! are in `docs/sanitizer.md`.

pub(crate) mod faults;
pub(crate) mod order;
pub(crate) mod shadow;

use std::collections::HashMap;

use anymetal_ir::{Finding, FindingCode, LocationId};

use self::order::{Actor, Clock};
use self::shadow::{Shadow, Stamp};

/// What the sanitizer is to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SanitizeOptions {
    /// Findings of a dispatch at most, not counting repetitions at the same lines.
    pub max_findings: usize,
}

impl Default for SanitizeOptions {
    fn default() -> Self {
        SanitizeOptions { max_findings: 50 }
    }
}

/// Memory that has a clock and a shadow of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    Threadgroup,
    Device,
}

/// A barrier that did not order a space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weak {
    pub tick: u32,
    pub location: LocationId,
}

/// Clock, shadow and last useless barrier of a space.
#[derive(Default)]
pub(crate) struct Ordered {
    pub clock: Clock,
    pub shadow: Shadow,
    pub weak: Option<Weak>,
}

/// A worker's sanitizer.
pub(crate) struct Sanitizer {
    most: usize,
    findings: Vec<Finding>,
    known: HashMap<(FindingCode, LocationId, LocationId), usize>,
    /// Watched instructions so far.
    pub tick: u32,
    pub threadgroup: Ordered,
    pub device: Ordered,
    /// By tile: whether each element of each instance is set.
    pub tiles: Vec<Vec<bool>>,
    /// By object: whether each byte of each lane's own memory is set.
    pub own: HashMap<usize, Vec<bool>>,
}

impl Sanitizer {
    pub fn new(options: &SanitizeOptions) -> Self {
        Sanitizer {
            most: options.max_findings,
            findings: Vec::new(),
            known: HashMap::new(),
            tick: 0,
            threadgroup: Ordered::default(),
            device: Ordered::default(),
            tiles: Vec::new(),
            own: HashMap::new(),
        }
    }

    /// A threadgroup starts; `group` counts from 1.
    pub fn start(&mut self, group: u32) {
        self.threadgroup.shadow.clear();
        self.threadgroup.weak = None;
        self.device.weak = None;
        self.threadgroup.clock.start(group);
        self.device.clock.start(group);
        self.tiles.iter_mut().for_each(|tile| tile.fill(false));
        self.own.values_mut().for_each(|bytes| bytes.fill(false));
    }

    pub fn space(&mut self, space: Space) -> &mut Ordered {
        match space {
            Space::Threadgroup => &mut self.threadgroup,
            Space::Device => &mut self.device,
        }
    }

    pub fn stamp(&self, space: Space, actor: Actor, location: LocationId, atomic: bool) -> Stamp {
        let clock = match space {
            Space::Threadgroup => &self.threadgroup.clock,
            Space::Device => &self.device.clock,
        };
        let (barriers, simd_barriers) = clock.counts(actor);
        Stamp {
            actor,
            group: clock.group(),
            barriers,
            simd_barriers,
            tick: self.tick,
            location,
            atomic,
        }
    }

    /// Counts a finding by its code and places; true if it is new and is to be made.
    pub fn is_new(&mut self, code: FindingCode, at: LocationId, other: LocationId) -> bool {
        if let Some(&index) = self.known.get(&(code, at, other)) {
            if let Some(finding) = self.findings.get_mut(index) {
                finding.count += 1;
            }
            return false;
        }
        self.known.insert((code, at, other), self.findings.len());
        self.findings.len() < self.most
    }

    /// Keeps a finding that [`is_new`](Self::is_new) asked for.
    pub fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub fn findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }
}
