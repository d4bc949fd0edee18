//! Who accesses memory, and what orders two accesses.
//!
//! Lanes of a SIMD-group are not taken to run in lock-step, although they do here: Metal promises no order of memory
//! accesses between threads without a barrier.

use std::collections::{HashMap, HashSet};

use super::shadow::Stamp;

/// A thread of a threadgroup, or all threads of a tile operation's scope together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor(u32);

impl Actor {
    const TILE: u32 = 1 << 31;
    const WIDE: u32 = 1 << 30;

    /// A thread by its index in the threadgroup.
    pub fn thread(index: usize) -> Self {
        Actor(index as u32)
    }

    /// The scope of a tile operation. Which thread handles which element is not known, but the same for equal `key`s: role,
    /// shape and place of the tile.
    pub fn tile(instance: usize, simdgroups: usize, key: u32) -> Self {
        let wide = if simdgroups > 1 { Self::WIDE } else { 0 };
        Actor(Self::TILE | wide | (instance as u32 & 0x3f) << 24 | key & 0xff_ffff)
    }

    /// The thread's index, unless it is a scope.
    pub fn index(self) -> Option<usize> {
        (self.0 & Self::TILE == 0).then_some(self.0 as usize)
    }

    /// The SIMD-group that it lies in, if it is one.
    pub fn simdgroup(self) -> Option<usize> {
        if self.0 & Self::TILE == 0 {
            Some(self.0 as usize / 32)
        } else if self.0 & Self::WIDE == 0 {
            Some((self.0 >> 24 & 0x3f) as usize)
        } else {
            None
        }
    }

    /// True for two accesses of one operation's scope.
    fn same_scope(self, other: Actor) -> bool {
        let scope = |actor: Actor| actor.0 & !0xff_ffff;
        self.0 & Self::TILE != 0 && scope(self) == scope(other)
    }

    /// The words of messages.
    pub fn describe(self) -> String {
        match (self.index(), self.simdgroup()) {
            (Some(index), _) => format!("thread {index}"),
            (None, Some(simdgroup)) => format!("SIMD-group {simdgroup}"),
            (None, None) => "the threadgroup".to_string(),
        }
    }
}

/// The barriers so far, for one address space.
#[derive(Default)]
pub(crate) struct Clock {
    /// The current threadgroup, from 1.
    group: u32,
    barriers: u32,
    simd: [u32; 32],
    /// Threadgroups whose writes this one may see: through atomics after a fence.
    acquired: HashSet<u32>,
    /// By address of an atomic: the threadgroups that a later one acquires with it.
    released: HashMap<usize, HashSet<u32>>,
    /// This threadgroup has passed a fence, or a barrier, that orders device memory.
    fenced: bool,
}

impl Clock {
    /// Another threadgroup starts; `group` counts from 1.
    pub fn start(&mut self, group: u32) {
        self.group = group;
        self.barriers = 0;
        self.simd = [0; 32];
        self.acquired.clear();
        self.fenced = false;
    }

    /// The current threadgroup, from 1.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// A barrier of the whole threadgroup that orders this space.
    pub fn barrier(&mut self) {
        self.barriers += 1;
    }

    /// A barrier of one SIMD-group that orders this space.
    pub fn simd_barrier(&mut self, simdgroup: usize) {
        if let Some(count) = self.simd.get_mut(simdgroup) {
            *count += 1;
        }
    }

    pub fn fence(&mut self) {
        self.fenced = true;
    }

    /// An atomic operation: what earlier threadgroups published through it is seen from now on, and what this one has done
    /// before its fence is published.
    pub fn atomic(&mut self, address: usize) {
        let cell = self.released.entry(address).or_default();
        self.acquired.extend(cell.iter());
        if self.fenced {
            cell.extend(&self.acquired);
            cell.insert(self.group);
        }
    }

    /// Barriers to stamp an access with.
    pub fn counts(&self, actor: Actor) -> (u32, u32) {
        let simd = actor.simdgroup().and_then(|group| self.simd.get(group));
        (self.barriers, simd.copied().unwrap_or(0))
    }

    /// Does something order an earlier access before one of now?
    pub fn ordered(&self, earlier: &Stamp, now: &Stamp) -> bool {
        if earlier.group != now.group {
            return self.acquired.contains(&earlier.group);
        }
        if earlier.actor == now.actor || earlier.barriers < self.barriers {
            return true;
        }
        if earlier.tick == now.tick && earlier.actor.same_scope(now.actor) {
            return true;
        }
        match (earlier.actor.simdgroup(), now.actor.simdgroup()) {
            (Some(a), Some(b)) if a == b => earlier.simd_barriers < self.simd.get(a).copied().unwrap_or(0),
            _ => false,
        }
    }
}
