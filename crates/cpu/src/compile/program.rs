//! The lane program: what a kernel becomes before it runs.
//!
//! Its control flow is the IR's. Its operands are registers of a worker's arena: *uniform* registers hold one value of a strip
//! (as 32 equal elements), *varying* ones an element for each lane. A varying integer or pointer may be *tagged*: at run time it may be
//! known as `base + lane · stride` without its lanes being written, which makes addresses of consecutive lanes cheap.

use anymetal_formats::ElementFormat;
use anymetal_ir::{
    AtomicOp, BinaryOp, Builtin, CompareOp, ConvolutionDescriptor, GroupOp, GroupWidth, LocationId, MatmulDescriptor,
    MemFlags, ReduceAxis, ReduceOp, Scalar, Scope, ShuffleOp, TensorField, TensorSpec, VoteOp,
};

use crate::fault::AccessKind;
use crate::lanes::convert::BlendFn;
use crate::lanes::digits::DigitsFn;
use crate::lanes::dot::{After, Code, DotFn, Operand, Place as DotPlace, Term};
use crate::lanes::load_dot::{LoadDotFn, Plan};
use crate::lanes::{Fn1, Fn2, Fn3};

/// A register. Before allocation `at` is the number of a virtual register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reg {
    /// Byte offset in the uniform area, or bytes per lane before it in the varying area.
    pub at: u32,
    /// [`Reg::UNIFORM`], [`Reg::PLAIN`], or the index of a tag.
    pub tag: u32,
    /// Bytes of an element.
    pub size: u8,
}

impl Reg {
    pub const UNIFORM: u32 = u32::MAX;
    pub const PLAIN: u32 = u32::MAX - 1;

    pub fn is_uniform(self) -> bool {
        self.tag == Self::UNIFORM
    }

    pub fn tag_index(self) -> Option<usize> {
        (self.tag < Self::PLAIN).then_some(self.tag as usize)
    }
}

/// Operations that keep `base + lane · stride`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AffineKind {
    Add,
    Sub,
    Mul,
    Shl,
    /// Kept where the lanes of a strip do not cross a multiple of the divisor.
    Div,
    Rem,
    Shr,
    And,
    /// Kept where one operand is the smaller (or greater) one in every lane.
    Min,
    Max,
    PointerOffset,
    /// Integer to integer.
    Convert(Scalar, Scalar),
    Compare(CompareOp),
}

/// The loop behind an affine operation, for operands that are not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lanes {
    One(Fn1),
    Two(Fn2),
}

/// A view of a tensor in registers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct View {
    pub pointer: Reg,
    pub format: ElementFormat,
    pub base_extents: Vec<Reg>,
    pub strides: Vec<Reg>,
    pub origin: Vec<Reg>,
    pub extents: Vec<ViewExtent>,
    pub scales: Option<ViewScales>,
    /// What lanes see differently.
    pub varies: Varies,
    /// For messages.
    pub name: String,
}

/// What differs from lane to lane in a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Varies {
    Nothing,
    /// The origin in one dimension, and perhaps what the view has there of its own.
    Origin(u8),
    More,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ViewExtent {
    Rest,
    Dynamic(Reg),
    Static(u64),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ViewScales {
    pub pointer: Reg,
    pub format: ElementFormat,
    pub block: Vec<u32>,
    pub strides: Vec<Reg>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum TileOperand {
    View(Box<View>),
    Coop(u32),
}

/// A matrix of a SIMD-group: the registers of the two elements of each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixOperand {
    pub values: [Reg; 2],
    pub ty: Scalar,
}

/// A convolution.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    pub descriptor: ConvolutionDescriptor,
    pub simdgroups: u32,
    pub offsets: [Reg; 2],
    pub activation: View,
    pub weights: View,
    pub destination: TileOperand,
    /// Neither the kernel nor another argument of it writes the memory of the weights.
    pub share_weights: bool,
}

/// An operand of arithmetic in a map body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Reg(Reg),
    /// The elements of a tile that the strip stands for, where they lie. The tile has the shape that the map runs over, and
    /// whole chunks.
    Tile(u32),
}

/// Several values that each lane loads only to store them in the same order.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub load: Access,
    /// Of the load.
    pub location: LocationId,
    pub store: Access,
}

/// A local that is set to one value of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetLocal {
    pub blend: BlendFn,
    pub local: Reg,
    pub value: Reg,
}

/// A number for each row of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowOperand {
    /// The same for all.
    Value(Reg),
    /// Of a row reduction tensor.
    Rows(u32),
}

/// A function of a [`RowMap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowFunction {
    None,
    Exp,
    Exp2,
}

/// `x ← f(x · factor ± addend)` for all elements of a tile of `float`, with numbers by row. Without a function there is no addend.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct RowMap {
    pub over: u32,
    pub factor: Option<RowOperand>,
    pub addend: Option<RowOperand>,
    /// The addend is subtracted.
    pub negative: bool,
    pub function: RowFunction,
    /// Where the sums of the results go, by row, and what each starts from.
    pub sums: Option<(u32, Reg)>,
}

/// A memory access.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Access {
    pub pointer: Reg,
    /// Destinations of a load, sources of a store; consecutive in memory.
    pub values: Vec<Reg>,
    pub size: u8,
    /// Loaded bytes are turned into 0 or 1.
    pub boolean: bool,
    /// What an address must be a multiple of.
    pub align: u32,
    /// Lanes where this is zero load zero and store nothing.
    pub predicate: Option<Reg>,
}

/// A chain of multiply-adds with codes out of words.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    pub f: DotFn,
    pub out: Reg,
    pub sum: Reg,
    pub terms: Vec<DotTerm>,
    /// Steps may be added in another order.
    pub fast: bool,
    /// What is done with the sum.
    pub after: Vec<After<Factor>>,
    /// The register of the factors' digits, if they have been made.
    pub digits: Option<Reg>,
    /// The terms for the loop, once registers are placed, and what comes after them.
    pub steps: Vec<Term>,
    pub ends: Vec<After<Operand>>,
    /// Words that may be known without their lanes, likewise.
    pub tagged: Vec<Reg>,
}

/// The digits of factors ([`crate::lanes::digits`]), made for several chains.
#[derive(Clone, Debug)]
pub(crate) struct Digits {
    pub f: DigitsFn,
    pub numbers: Vec<[Reg; 4]>,
    pub out: Reg,
    /// The numbers for the loop, once registers are placed.
    pub places: Vec<[DotPlace; 4]>,
}

/// Words loaded for chains, which cut them up where they lie.
#[derive(Clone, Debug)]
pub(crate) struct LoadDot {
    pub f: LoadDotFn,
    /// Where the loop is not for these lanes, words are loaded into its values.
    pub access: Access,
    /// Bit k: something else looks at value k too.
    pub kept: u32,
    pub dots: Vec<Dot>,
    /// For the loop, once registers are placed.
    pub plan: Plan,
}

/// A step of a [`Dot`]: `x` times the number whose code is `(word >> shift) & mask`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DotTerm {
    pub word: Reg,
    pub x: Reg,
    pub shift: u32,
    pub mask: u32,
    pub code: Code,
}

/// A number that a sum of a chain is multiplied by, or that is added to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Factor {
    Reg(Reg),
    /// The half whose lowest bit is bit 0 or 16 of a word.
    Half {
        word: Reg,
        shift: u32,
    },
}

impl Factor {
    pub fn reg(&mut self) -> &mut Reg {
        match self {
            Factor::Reg(reg) | Factor::Half { word: reg, .. } => reg,
        }
    }

    /// For the loop, of a register that is placed.
    pub fn placed(self) -> Operand {
        match self {
            Factor::Reg(reg) => Operand::Float(reg.place()),
            Factor::Half { word, shift } => Operand::Half {
                word: word.place(),
                shift,
            },
        }
    }
}

/// A lane operation by the number of its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    One(Fn1),
    Two(Fn2),
    Three(Fn3),
}

impl Operation {
    pub fn operands(self) -> usize {
        match self {
            Operation::One(_) => 1,
            Operation::Two(_) => 2,
            Operation::Three(_) => 3,
        }
    }
}

impl Reg {
    /// Where a register that is placed lies, for chains.
    pub fn place(self) -> DotPlace {
        match self.is_uniform() {
            true => DotPlace::Uniform(self.at),
            false => DotPlace::Varying(self.at),
        }
    }
}

impl DotTerm {
    /// The step for the loop, of registers that are placed.
    pub fn placed(&self) -> Term {
        Term {
            word: self.word.place(),
            x: self.x.place(),
            shift: self.shift,
            mask: self.mask,
            code: self.code,
        }
    }
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) enum Inst {
    Op1 {
        f: Fn1,
        out: Reg,
        a: Reg,
    },
    Op2 {
        f: Fn2,
        out: Reg,
        a: Reg,
        b: Reg,
    },
    Op3 {
        f: Fn3,
        out: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    Dot(Box<Dot>),
    LoadDot(Box<LoadDot>),
    Digits(Box<Digits>),
    /// An operation on what is loaded for it alone.
    OfMemory {
        access: Box<Access>,
        /// Of the load.
        location: LocationId,
        operation: Operation,
        out: Reg,
        /// As many as the operation has; the others repeat one of them.
        operands: [Reg; 3],
    },
    /// Stores of what is loaded for them alone, all of it before the first store.
    Copy(Vec<Copy>),
    /// An operation for locals alone.
    SetLocal {
        /// Writes the locals.
        direct: Box<Inst>,
        /// Writes their values.
        apart: Box<Inst>,
        sets: Vec<SetLocal>,
    },
    Affine {
        kind: AffineKind,
        ty: Scalar,
        lanes: Lanes,
        out: Reg,
        a: Reg,
        /// Unused by conversions (equal to `a`).
        b: Reg,
    },
    LocalSet {
        copy: Fn1,
        blend: BlendFn,
        local: Reg,
        value: Reg,
    },
    LocalGet {
        copy: Fn1,
        out: Reg,
        local: Reg,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    /// Merges the low `bits` of a byte into memory at a bit offset from a pointer.
    StoreBits {
        pointer: Reg,
        bit: Reg,
        value: Reg,
        bits: u8,
        predicate: Option<Reg>,
    },
    Atomic {
        op: AtomicOp,
        ty: Scalar,
        pointer: Reg,
        values: Vec<Reg>,
        out: Option<Reg>,
        success: Option<Reg>,
    },
    /// Faults unless `0 ≤ index < extent` in every dimension of every active lane.
    CheckIndex {
        access: AccessKind,
        indices: Vec<Reg>,
        extents: Vec<Reg>,
        name: String,
    },
    /// Faults where the offset of an element of an active lane has more than 63 bits, in bits, and would wrap around to another element.
    CheckReach(Box<Reach>),
    /// Writes into `out` whether `0 ≤ index < extent` everywhere.
    InRange {
        out: Reg,
        indices: Vec<Reg>,
        extents: Vec<Reg>,
    },
    TensorQuery {
        handle: Reg,
        spec: Box<TensorSpec>,
        field: TensorField,
        out: Reg,
        /// Where a worker remembers the last answer.
        memory: u32,
    },
    Barrier(Scope),
    Fence,
    Group {
        op: GroupOp,
        width: GroupWidth,
        ty: Scalar,
        out: Reg,
        a: Reg,
    },
    Shuffle {
        op: ShuffleOp,
        width: GroupWidth,
        out: Reg,
        a: Reg,
        index: Reg,
        /// The index's type.
        index_ty: Scalar,
    },
    Vote {
        op: VoteOp,
        width: GroupWidth,
        out: Reg,
        a: Option<Reg>,
    },
    SimdgroupMatrixMultiply {
        /// Left, right, and what is added.
        operands: Box<(MatrixOperand, MatrixOperand, Option<MatrixOperand>)>,
        /// Of the result.
        ty: Scalar,
        out: [Reg; 2],
    },
    CoopInit(u32),
    CoopCopy {
        to: u32,
        from: u32,
        /// The source is not looked at again: the tiles may exchange their memory.
        moves: bool,
    },
    CoopGet {
        coop: u32,
        slot: Reg,
        out: Reg,
    },
    CoopSet {
        coop: u32,
        slot: Reg,
        value: Reg,
    },
    CoopValid {
        coop: u32,
        slot: Reg,
        out: Reg,
    },
    CoopIndex {
        coop: u32,
        slot: Reg,
        column: Reg,
        row: Option<Reg>,
    },
    CoopMapSlot {
        to: u32,
        from: u32,
        slot: Reg,
        out: Reg,
    },
    CoopLoad {
        coop: u32,
        view: Box<View>,
    },
    CoopStore {
        coop: u32,
        view: Box<View>,
    },
    CoopCompatible {
        to: u32,
        from: u32,
        out: Reg,
    },
    CoopReduce {
        to: u32,
        from: u32,
        axis: ReduceAxis,
        op: ReduceOp,
        identity: Reg,
    },
    CoopMap {
        over: u32,
        /// Varying values from outside → the uniform register that stands for it inside.
        captures: Vec<(Reg, Reg)>,
        /// Tiles that the body reads or writes.
        tiles: Vec<u32>,
        body: Box<Block>,
        /// What runs instead over instances that lie side by side and are whole chunks together, if one is not.
        of_chunks: Option<Box<Block>>,
    },
    /// A map that is one pass by rows.
    RowMap(Box<RowMap>),
    CoopElement {
        coop: u32,
        over: u32,
        out: Reg,
    },
    CoopElementSet {
        coop: u32,
        value: Reg,
    },
    CoopElementIndex {
        over: u32,
        column: Reg,
        row: Option<Reg>,
    },
    /// `Op1` of a map body with tiles among its operands.
    Map1 {
        f: Fn1,
        out: Place,
        a: Place,
    },
    Map2 {
        f: Fn2,
        out: Place,
        a: Place,
        b: Place,
    },
    Map3 {
        f: Fn3,
        out: Place,
        a: Place,
        b: Place,
        c: Place,
    },
    Matmul {
        descriptor: MatmulDescriptor,
        simdgroups: u32,
        left: TileOperand,
        right: TileOperand,
        destination: TileOperand,
        /// Whether the left (the right) operand's memory is written neither by the kernel nor by way of another argument of
        /// it.
        share: [bool; 2],
    },
    Convolution(Box<Convolution>),
    If {
        condition: Reg,
        /// The comparison that gives the condition, if it has no other use and its operands may be affine.
        compare: Option<Box<Comparison>>,
        then: Block,
        otherwise: Block,
        /// Depth of control constructs around it; names its masks.
        depth: u32,
        /// A lane may leave the construct from inside by break, continue or return.
        leaves: bool,
    },
    Loop {
        body: Block,
        latch: Block,
        depth: u32,
        /// A lane may leave to an outer construct.
        leaves: bool,
        /// Instructions of an iteration, for the budget.
        cost: u64,
    },
    Scope {
        body: Block,
        depth: u32,
        leaves: bool,
    },
    Break(u32),
    Continue(u32),
    Return,
    /// Another instruction, under the sanitizer's eyes; only in programs that are compiled for it.
    Watched(Box<Watched>),
    /// Tells the sanitizer when arithmetic of an index leaves its type; only in programs that are compiled for it.
    WatchIndex {
        op: BinaryOp,
        ty: Scalar,
        a: Reg,
        b: Reg,
        location: LocationId,
    },
}

/// An instruction that the sanitizer watches.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub inst: Inst,
    pub location: LocationId,
    /// What a barrier or fence orders.
    pub flags: MemFlags,
    /// The source asked for the validity of the slot in the same breath (`get` and `set`).
    pub checked: bool,
}

/// A comparison of integers or pointers, made only where lanes may disagree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    pub op: CompareOp,
    pub ty: Scalar,
    pub f: Fn2,
    pub a: Reg,
    pub b: Reg,
}

/// Instructions and where they come from.
#[derive(Clone, Default, Debug)]
pub(crate) struct Block {
    pub insts: Vec<(Inst, LocationId)>,
}

/// Sizes of a register area.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct AreaSizes {
    /// Bytes a lane.
    pub lane_bytes: u32,
    /// Tags.
    pub tags: u32,
    /// Nesting depth of control constructs.
    pub depth: u32,
}

/// A kernel for one way of cutting the grid into strips.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub body: Block,
    /// Constants: register and bits.
    pub constants: Vec<(Reg, u64)>,
    /// Handles of tensor arguments, by argument.
    pub handles: Vec<(u32, Reg)>,
    /// Locals that may be read before they are set: zero at first.
    pub zeroed: Vec<Reg>,
    /// Built-in values: uniform ones of the dispatch or the threadgroup, and varying ones.
    pub builtins: Vec<(Builtin, Reg)>,
    pub main: AreaSizes,
    /// For the bodies of `CoopMap`, which have an area of their own.
    pub map: AreaSizes,
    pub uniform_bytes: u32,
    /// Tensor queries.
    pub queries: u32,
}

/// Where the element of a tensor lies whose memory is no bound tensor's: nothing says that its extents and strides fit into 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub access: AccessKind,
    pub pointer: Reg,
    pub indices: Vec<Reg>,
    pub origin: Vec<Reg>,
    pub strides: Vec<Reg>,
    /// The extents of the whole tensor where they bound `origin + index`.
    pub extents: Option<Vec<Reg>>,
    pub bits: u8,
    /// Lanes where this is false access nothing.
    pub predicate: Option<Reg>,
}
