//! Loads and stores of whole tiles.
//!
//! Each lane moves its own elements. Where a tile lies wholly inside a tensor whose columns are consecutive and aligned, the two
//! neighbours of each block go as one access; a branch that all lanes take alike tells that at run time. Else every access stands under
//! a predicate: loads give zero outside the tensor and in the tile's padding, stores are dropped there.

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopId, CoopRole, Scalar, TensorRef};

use super::{LanePlace, Storage, Tile};
use crate::lower::view::{Int, MAX_EXTENT, Place, View, state_space};
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// How one coordinate of a tile runs through a view.
#[derive(Clone, Copy)]
struct Axis {
    /// As [`View::strides`].
    stride: Int,
    /// Coordinates that exist, `.b32`.
    valid: Int,
    /// All coordinates are at one place, which exists for all or for none.
    repeats: bool,
}

impl Axis {
    /// A coordinate that the view does not have: everything is at its only place.
    const NONE: Axis = Axis {
        stride: Int::Const(0),
        valid: Int::Const(MAX_EXTENT),
        repeats: true,
    };
}

/// The rows of a tile in a view.
enum Rows {
    /// A dimension of the view.
    One(Axis),
    /// The places of a convolution: width, height and batch, and the axes of x, y and batch.
    Places([u32; 3], [Axis; 3]),
}

/// How a tile lies in a view.
struct Shape {
    rows: Rows,
    columns: Axis,
    /// The tile's columns are dimension 0 of the view, and its rows dimension 1.
    plain: bool,
}

/// One row of a lane, while it is moved.
#[derive(Clone, Copy)]
struct Row {
    /// Offset of the row from the view's base: bytes, or elements for formats of less than a byte.
    offset: Int,
    /// Holds where the row exists.
    guard: Option<Reg>,
}

/// A load or a store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Load,
    Store,
}

impl<'k> Lower<'k> {
    pub(super) fn coop_load(&mut self, coop: CoopId, tensor: &TensorRef) -> Result {
        self.move_tile(coop, tensor, Direction::Load)
    }

    pub(super) fn coop_store(&mut self, coop: CoopId, tensor: &TensorRef) -> Result {
        self.move_tile(coop, tensor, Direction::Store)
    }

    fn move_tile(&mut self, coop: CoopId, tensor: &TensorRef, direction: Direction) -> Result {
        let tile = self.tile(coop);
        let view = match direction {
            Direction::Load => self.view(tensor)?,
            Direction::Store => self.written_view(tensor)?,
        };
        let place = self.lane_place(&tile);
        let shape = self.tile_shape(coop, &tile, &view, direction)?;
        let fast = if shape.plain {
            self.whole_and_aligned(&tile, &view)
        } else {
            None
        };
        let Some(fast) = fast else {
            return self.move_guarded(coop, &tile, &view, place, &shape, direction);
        };
        let (slow, done) = (self.writer.label(), self.writer.label());
        ptx!(self, "@!{fast} bra {slow}");
        self.move_whole(coop, &tile, &view, place, direction);
        ptx!(self, "bra {done}");
        self.writer.place(slow);
        self.move_guarded(coop, &tile, &view, place, &shape, direction)?;
        self.writer.place(done);
        Ok(())
    }

    /// How the tile's rows and columns run through the view. Loads repeat dimensions of extent 1.
    fn tile_shape(&mut self, coop: CoopId, tile: &Tile, view: &View, direction: Direction) -> Result<Shape> {
        let repeat = direction == Direction::Load;
        let rank = view.strides.len();
        let axes: Vec<Axis> = (0..rank).map(|d| self.axis(view, d, repeat)).collect();
        let shape = match (self.kernel.coop(coop).spatial, axes.as_slice()) {
            (Some(sizes), [columns, x, y, n]) => Shape {
                rows: Rows::Places(sizes, [*x, *y, *n]),
                columns: *columns,
                plain: false,
            },
            // A vector runs along the channels, of the first place if it is stored.
            (Some(_), [columns]) => Shape {
                rows: Rows::One(if repeat {
                    Axis::NONE
                } else {
                    Axis {
                        stride: Int::Const(0),
                        valid: Int::Const(1),
                        repeats: false,
                    }
                }),
                columns: *columns,
                plain: false,
            },
            (None, [columns, rows]) => Shape {
                rows: Rows::One(*rows),
                columns: *columns,
                plain: true,
            },
            (None, [axis]) => self.vector_shape(tile, view, *axis),
            _ => return self.unsupported(format!("a tile operation on a tensor of rank {rank}")),
        };
        Ok(shape)
    }

    /// A dimension of the view as an axis; one of extent 1 repeats if asked to.
    fn axis(&mut self, view: &View, d: usize, repeat: bool) -> Axis {
        let (stride, valid) = (view.strides[d], view.valid[d]);
        let own = Axis {
            stride,
            valid,
            repeats: false,
        };
        if !repeat {
            return own;
        }
        match view.extents[d] {
            Int::Const(1) => {
                let valid = match valid {
                    Int::Const(valid) => Int::Const(if valid > 0 { MAX_EXTENT } else { 0 }),
                    // 0 stays 0, 1 becomes the most.
                    valid => self.int_mul(valid, Int::Const(MAX_EXTENT), Class::B32),
                };
                Axis {
                    stride: Int::Const(0),
                    valid,
                    repeats: true,
                }
            }
            Int::Const(_) => own,
            Int::Reg(extent) => {
                let single = self.reg(Class::Pred);
                ptx!(self, "setp.eq.s64 {single}, {extent}, 1");
                let most = self.int_mul(valid, Int::Const(MAX_EXTENT), Class::B32);
                let class = view.class();
                Axis {
                    stride: self.int_select(single, Int::Const(0), stride, class),
                    valid: self.int_select(single, most, valid, Class::B32),
                    repeats: false,
                }
            }
        }
    }

    /// A vector runs along the columns, unless it has as many elements as there are rows and not as many as columns.
    fn vector_shape(&mut self, tile: &Tile, view: &View, axis: Axis) -> Shape {
        let along = |rows: bool| Shape {
            rows: Rows::One(if rows { axis } else { Axis::NONE }),
            columns: if rows { Axis::NONE } else { axis },
            plain: false,
        };
        match tile.role {
            CoopRole::RowReduction => return along(true),
            CoopRole::ColumnReduction => return along(false),
            _ => {}
        }
        if tile.columns == 1 {
            return along(true);
        }
        if tile.rows == 1 {
            return along(false);
        }
        let (rows, columns) = (i64::from(tile.rows), i64::from(tile.columns));
        match view.extents[0] {
            Int::Const(length) => along(length != columns && length == rows),
            Int::Reg(_) if rows == columns => along(false),
            Int::Reg(length) => {
                let is_rows = self.reg(Class::Pred);
                ptx!(self, "setp.eq.s64 {is_rows}, {length}, {rows}");
                let (class, none) = (view.class(), Axis::NONE);
                Shape {
                    rows: Rows::One(Axis {
                        stride: self.int_select(is_rows, axis.stride, none.stride, class),
                        valid: self.int_select(is_rows, axis.valid, none.valid, Class::B32),
                        repeats: false,
                    }),
                    columns: Axis {
                        stride: self.int_select(is_rows, none.stride, axis.stride, class),
                        valid: self.int_select(is_rows, none.valid, axis.valid, Class::B32),
                        repeats: false,
                    },
                    plain: false,
                }
            }
        }
    }

    /// Bytes of two neighbours as they are moved together, if the element type has that.
    fn pair_bytes(tile: &Tile, view: &View) -> Option<u32> {
        let same = view.format.bits() as u32 == tile.element.bits();
        (same && !view.format.is_format_type()).then(|| 2 * tile.element.size())
    }

    /// A predicate, the same in all lanes, that the tile can be moved by pairs: all of it exists, columns are consecutive, pairs aligned.
    fn whole_and_aligned(&mut self, tile: &Tile, view: &View) -> Option<Reg> {
        let bytes = Self::pair_bytes(tile, view)?;
        if tile.is_reduction() || tile.may_pad() || tile.element.size() < 2 {
            return None;
        }
        if view.strides[0] != Int::Const(tile.element.size().into()) {
            return None;
        }
        let class = view.class();
        let bits = match view.strides[1] {
            Int::Const(stride) if stride % i64::from(bytes) == 0 => view.base,
            Int::Const(_) => return None,
            Int::Reg(stride) => {
                let both = self.reg(class);
                ptx!(self, "or.{} {both}, {}, {stride}", class.ptx(), view.base);
                both
            }
        };
        let low = self.int_reg(Int::Reg(bits), Class::B32);
        let odd = self.reg(Class::B32);
        ptx!(self, "and.b32 {odd}, {low}, {}", bytes - 1);
        let mut fast = self.reg(Class::Pred);
        ptx!(self, "setp.eq.u32 {fast}, {odd}, 0");
        for (d, size) in [(0, tile.columns), (1, tile.rows)] {
            match view.valid[d] {
                Int::Const(valid) if valid >= size.into() => {}
                Int::Const(_) => return None,
                Int::Reg(valid) => {
                    let both = self.reg(Class::Pred);
                    ptx!(self, "setp.ge.and.u32 {both}, {valid}, {size}, {fast}");
                    fast = both;
                }
            }
        }
        Some(fast)
    }

    /// The offset of a lane's row blocks, from the view's base.
    fn row_offset(&mut self, row: Reg, rb: u32, axis: Axis, class: Class, first: &mut Option<Int>) -> Int {
        let start = match *first {
            Some(start) => start,
            None => {
                let start = self.int_mul(Int::Reg(row), axis.stride, class);
                *first = Some(start);
                start
            }
        };
        let step = self.int_mul(axis.stride, Int::Const(i64::from(8 * rb)), class);
        self.int_add(start, step, class)
    }

    /// Moves a whole tile by pairs.
    fn move_whole(&mut self, coop: CoopId, tile: &Tile, view: &View, place: LanePlace, direction: Direction) {
        let class = view.class();
        let space = state_space(view.space);
        let size = i64::from(tile.element.size());
        let column = self.int_mul(Int::Reg(place.column), Int::Const(size), class);
        let start = self.int_add(Int::Reg(view.base), column, class);
        let rows = Axis {
            stride: view.strides[1],
            valid: view.valid[1],
            repeats: false,
        };
        let mut first = None;
        for rb in 0..tile.row_blocks {
            let offset = self.row_offset(place.row, rb, rows, class, &mut first);
            let address = self.int_add(start, offset, class);
            let address = self.int_reg(address, class);
            for nb in 0..tile.column_blocks {
                let at = i64::from(tile.column_offset(nb, 0)) * size;
                match tile.storage {
                    Storage::Pairs => {
                        let pair = self.tile_pair(coop, rb, nb);
                        match direction {
                            Direction::Load => ptx!(self, "ld.{space}.b32 {pair}, [{address}+{at}]"),
                            Direction::Store => ptx!(self, "st.{space}.b32 [{address}+{at}], {pair}"),
                        }
                    }
                    Storage::Single => {
                        let [left, right] = [0, 1].map(|i| self.tile_reg(coop, rb, nb, i));
                        let ty = left.class.ptx();
                        match direction {
                            Direction::Load => {
                                ptx!(self, "ld.{space}.v2.{ty} {{{left}, {right}}}, [{address}+{at}]");
                            }
                            Direction::Store => {
                                ptx!(self, "st.{space}.v2.{ty} [{address}+{at}], {{{left}, {right}}}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// Where a lane's row block is, and whether it exists.
    fn row_of(&mut self, tile: &Tile, view: &View, row: Reg, rb: u32, rows: &Rows, first: &mut Option<Int>) -> Row {
        let class = view.class();
        match rows {
            Rows::One(axis) => {
                let offset = self.row_offset(row, rb, *axis, class, first);
                let valid = self.int_min(axis.valid, Int::Const(tile.rows.into()), Class::B32);
                let covered = matches!(valid, Int::Const(valid) if valid >= tile.rows.into()) && !tile.row_may_pad(rb);
                let at = self.plus(row, 8 * rb);
                let guard = (!covered && tile.role != CoopRole::ColumnReduction).then(|| self.below(at, valid));
                // The only row of a column reduction may not exist either.
                let guard = match (tile.role, axis.valid) {
                    (CoopRole::ColumnReduction, Int::Const(1..)) => None,
                    (CoopRole::ColumnReduction, valid) => Some(self.below(at, valid)),
                    _ => guard,
                };
                Row { offset, guard }
            }
            Rows::Places([width, height, _], axes) => {
                let at = self.plus(row, 8 * rb);
                let mut guard = self.below(at, Int::Const(tile.rows.into()));
                let [x, line, y, n] = [(); 4].map(|()| self.reg(Class::B32));
                ptx!(self, "rem.u32 {x}, {at}, {width}");
                ptx!(self, "div.u32 {line}, {at}, {width}");
                ptx!(self, "rem.u32 {y}, {line}, {height}");
                ptx!(self, "div.u32 {n}, {line}, {height}");
                let mut offset = Int::Const(0);
                for (coordinate, axis) in [x, y, n].into_iter().zip(axes) {
                    let part = self.int_mul(Int::Reg(coordinate), axis.stride, class);
                    offset = self.int_add(offset, part, class);
                    let valid = self.int_reg(axis.valid, Class::B32);
                    let both = self.reg(Class::Pred);
                    ptx!(self, "setp.lt.and.u32 {both}, {coordinate}, {valid}, {guard}");
                    guard = both;
                }
                Row {
                    offset,
                    guard: Some(guard),
                }
            }
        }
    }

    fn below(&mut self, number: Reg, limit: Int) -> Reg {
        let below = self.reg(Class::Pred);
        match limit {
            Int::Const(limit) => ptx!(self, "setp.lt.u32 {below}, {number}, {limit}"),
            Int::Reg(limit) => ptx!(self, "setp.lt.u32 {below}, {number}, {limit}"),
        }
        below
    }

    /// Columns that exist from this lane's first on, signed; `None` if all of the tile's do.
    fn columns_left(&mut self, tile: &Tile, place: LanePlace, axis: Axis) -> Option<Reg> {
        if tile.role == CoopRole::RowReduction {
            return match axis.valid {
                Int::Const(1..) => None,
                valid => Some(self.int_reg(valid, Class::B32)),
            };
        }
        let valid = self.int_min(axis.valid, Int::Const(tile.columns.into()), Class::B32);
        let pads = (0..tile.column_blocks).any(|nb| tile.column_may_pad(nb, 1));
        if !pads && matches!(valid, Int::Const(valid) if valid >= tile.columns.into()) {
            return None;
        }
        let mut left = self.int_sub(valid, Int::Reg(place.column), Class::B32);
        if !tile.by_rows {
            let first = self.reg(Class::B32);
            ptx!(
                self,
                "mul.lo.u32 {first}, {}, {}",
                self.geometry.fragment_pair,
                tile.pair_step()
            );
            let band = self.int_sub(Int::Const(tile.band_columns.into()), Int::Reg(first), Class::B32);
            left = self.int_min(left, band, Class::B32);
        }
        Some(self.int_reg(left, Class::B32))
    }

    /// Moves a tile element by element, each under its predicate.
    fn move_guarded(
        &mut self,
        coop: CoopId,
        tile: &Tile,
        view: &View,
        place: LanePlace,
        shape: &Shape,
        direction: Direction,
    ) -> Result {
        let class = view.class();
        let left = self.columns_left(tile, place, shape.columns);
        let first_column = self.int_mul(Int::Reg(place.column), shape.columns.stride, class);
        let width = if tile.role == CoopRole::RowReduction { 1 } else { 2 };
        // Only one lane of those that hold the same element of a reduction tensor stores it.
        let single = (direction == Direction::Store)
            .then(|| self.storing_lane(tile))
            .flatten();
        let loads = direction == Direction::Load;
        // Rows (columns) that are all alike are loaded once.
        let same_rows = loads
            && matches!(shape.rows, Rows::One(Axis { repeats: true, .. }))
            && !tile.row_may_pad(tile.row_blocks - 1);
        let same_columns =
            loads && shape.columns.repeats && !(0..tile.column_blocks).any(|nb| tile.column_may_pad(nb, 1));
        let mut first = None;
        for rb in 0..tile.row_blocks {
            if same_rows && rb > 0 {
                self.repeat_row(coop, tile, rb);
                continue;
            }
            let row = self.row_of(tile, view, place.row, rb, &shape.rows, &mut first);
            let guard = self.both(row.guard, single);
            let start = self.int_add(row.offset, first_column, class);
            let mut single_column = None;
            for nb in 0..tile.column_blocks {
                let mut loaded = Vec::new();
                for i in 0..width {
                    if let Some(element) = single_column {
                        loaded.push(element);
                        continue;
                    }
                    let column = tile.column_offset(nb, i);
                    let exists = self.column_exists(left, column, guard);
                    let step = self.int_mul(shape.columns.stride, Int::Const(column.into()), class);
                    let at = self.element_at(view, start, step);
                    match direction {
                        Direction::Load => {
                            let code = self.load_code(&at, exists);
                            let element = self.tile_value(view.format, code);
                            loaded.push(element);
                            if same_columns {
                                single_column = Some(element);
                            }
                        }
                        Direction::Store => {
                            let element = self.tile_element(coop, rb, nb, i);
                            let code = self.tile_code(tile.element, view.format, element);
                            self.store_code(&at, code, exists);
                        }
                    }
                }
                match (tile.storage, loaded.as_slice()) {
                    (Storage::Pairs, &[low, high]) => {
                        let pair = self.tile_pair(coop, rb, nb);
                        self.pack(pair, [low, high]);
                    }
                    (_, loaded) => {
                        for (i, &element) in loaded.iter().enumerate() {
                            let register = self.tile_reg(coop, rb, nb, i as u32);
                            ptx!(self, "mov.{} {register}, {element}", register.class.ptx());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies row block 0 to another.
    fn repeat_row(&mut self, coop: CoopId, tile: &Tile, rb: u32) {
        let registers = self.tile_registers(coop);
        let width = registers.len() / tile.row_blocks as usize;
        let (from, rest) = registers.split_at(width);
        let to = &rest[(rb as usize - 1) * width..][..width];
        for (to, from) in to.iter().zip(from) {
            ptx!(self, "mov.{} {to}, {from}", to.class.ptx());
        }
    }

    /// Of the lanes that hold the same element of a reduction tensor, the first.
    fn storing_lane(&mut self, tile: &Tile) -> Option<Reg> {
        let other = match tile.role {
            CoopRole::RowReduction => self.geometry.fragment_pair,
            CoopRole::ColumnReduction => self.geometry.fragment_row,
            _ => return None,
        };
        let first = self.reg(Class::Pred);
        ptx!(self, "setp.eq.u32 {first}, {other}, 0");
        Some(first)
    }

    /// Whether a register column exists, of a row that exists where the guard holds.
    fn column_exists(&mut self, left: Option<Reg>, column: u32, guard: Option<Reg>) -> Option<Reg> {
        let Some(left) = left else {
            return guard;
        };
        let exists = self.reg(Class::Pred);
        match guard {
            Some(guard) => ptx!(self, "setp.gt.and.s32 {exists}, {left}, {column}, {guard}"),
            None => ptx!(self, "setp.gt.s32 {exists}, {left}, {column}"),
        }
        Some(exists)
    }

    /// The element `start + step` from a view's base.
    fn element_at(&mut self, view: &View, start: Int, step: Int) -> Place {
        let class = view.class();
        if view.bits() < 8 {
            let offset = self.int_add(start, step, class);
            return self.bit_place(view.space, view.format, view.base, view.phase, offset);
        }
        let (offset, displacement) = match step {
            Int::Const(step) => (start, step),
            step => (self.int_add(start, step, class), 0),
        };
        let address = self.int_add(Int::Reg(view.base), offset, class);
        Place {
            space: view.space,
            format: view.format,
            address: self.int_reg(address, class),
            displacement,
            shift: Int::Const(0),
        }
    }

    /// An element of a tile as a tensor of a format has it.
    fn tile_code(&mut self, element: Scalar, format: ElementFormat, value: Reg) -> Reg {
        if !format.is_format_type() || format.bits() as u32 == element.bits() {
            return value;
        }
        let wide = self.convert_register(value, element, Scalar::F32, false);
        // Halves that are not of the format become its infinity, where it has one.
        self.encode_value(wide, format, format != ElementFormat::Fp8E5M2)
    }
}
