//! Tensor maps, which kernels make themselves: base, pitch and extents of an inline tensor are known nowhere else.
//!
//! A map is put together in shared memory, copied to the block's part of the workspace, and acquired by the thread that uses it.

use crate::ptx::{Reg, Writer};

/// Bytes of a tensor map.
pub const MAP_BYTES: u32 = 128;
/// Pitches stay below this in tensor maps.
pub const PITCH_LIMIT: u64 = 1 << 40;

/// A tensor of two dimensions whose boxes lie in shared memory as lines of 128 bytes under the 128-byte swizzle.
#[derive(Clone, Copy, Debug)]
pub struct TensorMap {
    /// `.b64`: address of the first element.
    pub address: Reg,
    /// `.b64`: bytes between lines.
    pub pitch: Reg,
    /// `.b32`: elements of a line, and lines.
    pub extents: [Reg; 2],
    /// Elements of a line in a box.
    pub box_columns: u32,
    /// `.b32`: lines in a box.
    pub box_lines: Reg,
    /// The code of the element type in `elemtype`.
    pub element: u32,
}

impl TensorMap {
    /// Writes it over zeros at a shared address (`.b32`, a multiple of 128), by one thread.
    pub fn write(&self, writer: &mut Writer, scratch: Reg) {
        let [columns, lines] = self.extents;
        for (field, ty, value) in [
            ("global_address", "b64", self.address.to_string()),
            ("rank", "b32", "1".into()),
            ("box_dim", "b32", format!("0, {}", self.box_columns)),
            ("box_dim", "b32", format!("1, {}", self.box_lines)),
            ("global_dim", "b32", format!("0, {columns}")),
            ("global_dim", "b32", format!("1, {lines}")),
            ("global_stride", "b64", format!("0, {}", self.pitch)),
            ("element_stride", "b32", "0, 1".into()),
            ("element_stride", "b32", "1, 1".into()),
            ("elemtype", "b32", self.element.to_string()),
            ("interleave_layout", "b32", "0".into()),
            ("swizzle_mode", "b32", "3".into()),
            ("fill_mode", "b32", "0".into()),
        ] {
            writer.line(format_args!(
                "tensormap.replace.tile.{field}.shared::cta.b1024.{ty} [{scratch}], {value}"
            ));
        }
    }

    /// The whole warp copies a map to its place in device memory (`.b64`), where whoever acquires it there sees it.
    pub fn publish(writer: &mut Writer, place: Reg, scratch: Reg) {
        writer.line(format_args!(
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [{place}], [{scratch}], {MAP_BYTES}"
        ));
    }

    /// A thread acquires a map before it uses it.
    pub fn acquire(writer: &mut Writer, place: Reg) {
        writer.line(format_args!(
            "fence.proxy.tensormap::generic.acquire.gpu [{place}], {MAP_BYTES}"
        ));
    }
}
