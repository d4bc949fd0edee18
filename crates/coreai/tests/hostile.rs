//! Damaged and hostile assets: an error that says what and where, never a panic, never a runaway allocation.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anymetal_coreai::bytecode::Module;
use anymetal_coreai::{Asset, Model, ModelOptions, OpenOptions, Program, SharedBytes, print};
use common::assets;

/// Counts the largest single allocation.
struct Counting;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(assets().join(format!("{name}.aimodel/main.mlirb"))).unwrap()
}

/// Reads, builds and prints; the text of the error if there is one. (One mebibyte of print is enough to see every attribute.)
fn read(bytes: &[u8]) -> Result<(), String> {
    let module = Module::read(SharedBytes::new(bytes.to_vec())).map_err(|e| e.to_string())?;
    let text = print(&module, 1 << 20).map_err(|e| e.to_string());
    let program = Program::new(module).map_err(|e| e.to_string())?;
    program.summary();
    text.map(|_| ())
}

const SMALL: [&str; 3] = ["cache", "branches", "kernel_add"];

#[test]
fn every_truncation_is_an_error() {
    for name in SMALL {
        let whole = bytes(name);
        read(&whole).unwrap();
        for length in 0..whole.len() {
            let error = read(&whole[..length]).expect_err(&format!("{name} cut to {length} bytes"));
            assert!(!error.is_empty());
        }
        let mut longer = whole.clone();
        longer.push(9);
        assert!(read(&longer).is_err());
    }
    assert!(LARGEST.load(Ordering::Relaxed) < 64 << 20);
}

/// A deterministic sequence of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn flipped_bits_never_panic() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut refused = 0;
    for name in ["cache", "branches", "kernel_add", "linear_norm_gelu", "kernel_scalars"] {
        let whole = bytes(name);
        for _ in 0..2000 {
            let mut damaged = whole.clone();
            for _ in 0..=random.next() % 3 {
                let bit = random.next() as usize % (damaged.len() * 8);
                damaged[bit / 8] ^= 1 << (bit % 8);
            }
            refused += usize::from(read(&damaged).is_err());
        }
        // Every bit of the first bytes: the header, the dialect and the tables.
        for bit in 0..whole.len().min(256) * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(read(&damaged).is_err());
        }
    }
    assert!(refused > 5000, "{refused}");
    assert!(LARGEST.load(Ordering::Relaxed) < 64 << 20);
}

#[test]
fn large_numbers_in_place_of_bytes() {
    // Nine bytes of 0 and 0xFF read as the largest numbers, wherever a count, a size or an index stands.
    for name in SMALL {
        let whole = bytes(name);
        for at in 0..whole.len() {
            for pattern in [[0xFF; 9], [0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]] {
                let mut damaged = whole.clone();
                let end = damaged.len().min(at + 9);
                damaged[at..end].copy_from_slice(&pattern[..end - at]);
                let _ = read(&damaged);
            }
        }
    }
    assert!(LARGEST.load(Ordering::Relaxed) < 64 << 20);
}

#[test]
fn damaged_programs_run_without_panics() {
    // Constants and operand numbers that still decode may make any program; running it gives results or errors.
    let mut random = Random(77);
    let name = "linear_norm_gelu";
    let whole = bytes(name);
    let folder = copy(name, "damaged");
    let x = anymetal_coreai::Array::from_values(&[3, 8], vec![0.5f32; 24]).unwrap();
    let mut ran = 0;
    for _ in 0..400 {
        let mut damaged = whole.clone();
        let bit = random.next() as usize % (damaged.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(folder.join("main.mlirb"), &damaged).unwrap();
        let Ok(model) = ModelOptions::new().allow_wrong_hash(true).load(&folder) else {
            continue;
        };
        let Ok(function) = model.function("main") else {
            continue;
        };
        for _ in 0..2 {
            ran += usize::from(function.run(&[("x", x.clone())]).is_ok());
        }
    }
    assert!(ran > 50, "{ran}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A copy of an asset that a test may damage.
fn copy(name: &str, test: &str) -> PathBuf {
    let to = std::env::temp_dir().join(format!("anymetal-{test}-{}.aimodel", std::process::id()));
    std::fs::create_dir_all(&to).unwrap();
    for file in ["main.mlirb", "main.hash", "metadata.json"] {
        std::fs::copy(assets().join(format!("{name}.aimodel")).join(file), to.join(file)).unwrap();
    }
    to
}

fn open_error(path: &Path) -> String {
    match Asset::open(path) {
        Ok(_) => panic!("{} opens", path.display()),
        Err(error) => error.to_string().replace(&path.display().to_string(), "m.aimodel"),
    }
}

#[test]
fn asset_errors_say_what_to_do() {
    let folder = copy("cache", "asset");
    let program = std::fs::read(folder.join("main.mlirb")).unwrap();

    // A flipped bit shows in the hash before anything is read.
    let mut flipped = program.clone();
    flipped[100] ^= 1;
    std::fs::write(folder.join("main.mlirb"), &flipped).unwrap();
    let hash: String = std::fs::read(folder.join("main.hash"))
        .unwrap()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let error = open_error(&folder);
    let (start, rest) = error.split_once(&hash).unwrap();
    assert_eq!(
        start,
        "m.aimodel/main.mlirb: the file does not match main.hash (expected SHA-256 "
    );
    assert!(rest.ends_with("); it is damaged or was changed: copy or export it again, or allow a wrong hash"));
    std::fs::write(folder.join("main.mlirb"), &program).unwrap();

    std::fs::write(folder.join("main.hash"), [0; 32]).unwrap();
    assert!(Asset::open(&folder).is_err());
    OpenOptions::new().allow_wrong_hash(true).open(&folder).unwrap();
    std::fs::write(folder.join("main.hash"), [0; 5]).unwrap();
    assert_eq!(
        open_error(&folder),
        "m.aimodel/main.hash: a hash file has 32 bytes, this one has 5; export the model again, or allow a wrong hash"
    );

    let lenient = |bytes: &[u8]| {
        std::fs::write(folder.join("main.mlirb"), bytes).unwrap();
        let error = OpenOptions::new()
            .allow_wrong_hash(true)
            .open(&folder)
            .map(|_| ())
            .unwrap_err();
        error.to_string().replace(&folder.display().to_string(), "m.aimodel")
    };
    assert_eq!(
        lenient(b""),
        "m.aimodel/main.mlirb: byte 0: this is not MLIR bytecode (it must begin with 4d 4c ef 52, found an empty file); give the main.mlirb of an .aimodel directory"
    );
    assert_eq!(
        lenient(b"PK\x03\x04"),
        "m.aimodel/main.mlirb: byte 0: this is not MLIR bytecode (it must begin with 4d 4c ef 52, found 50 4b 03 04); give the main.mlirb of an .aimodel directory"
    );
    let mut wrong = program.clone();
    wrong[4] = 0x0f;
    assert_eq!(
        lenient(&wrong),
        "m.aimodel/main.mlirb: byte 4: MLIR bytecode version 7 is not supported (this reader knows version 6); export the model with coreai-core 1.0"
    );
    let dialect = 4 + 1 + b"MLIR22.0.0git\0".len() + 3;
    let mut wrong = program.clone();
    wrong[dialect + 3] = 0x13;
    assert_eq!(
        lenient(&wrong),
        format!(
            "m.aimodel/main.mlirb: byte {dialect}: dialect \"aicode\" version 9 is not supported (this reader knows \"aicode\" up to version 2); export the model with coreai-core 1.0"
        )
    );
    assert_eq!(
        lenient(&program[..200]),
        format!(
            "m.aimodel/main.mlirb: byte {}: the data ends inside section ({} bytes needed, {} left); the asset is truncated or damaged: copy or export it again",
            section_offset(&program, 200).0,
            section_offset(&program, 200).1,
            200 - section_offset(&program, 200).0
        )
    );

    std::fs::write(folder.join("metadata.json"), "{\"assetVersion\": \"3.1\"}").unwrap();
    assert_eq!(
        lenient(&program),
        "m.aimodel/metadata.json: asset version \"3.1\" is not supported (this reader knows version 2); export the model with coreai-core 1.0"
    );
    std::fs::write(folder.join("metadata.json"), "[]").unwrap();
    assert_eq!(lenient(&program), "m.aimodel/metadata.json: must be a JSON object");
    std::fs::write(folder.join("metadata.json"), "{").unwrap();
    assert!(lenient(&program).starts_with("m.aimodel/metadata.json: not valid JSON: "));
    std::fs::remove_file(folder.join("main.mlirb")).unwrap();
    assert_eq!(
        open_error(&folder),
        "m.aimodel: not a Core AI asset; an .aimodel is a directory that holds main.mlirb, main.hash and metadata.json"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(open_error(&folder), "m.aimodel: entity not found");
}

/// Start of the data of the section that byte `cut` lies in, and its length.
fn section_offset(file: &[u8], cut: usize) -> (usize, usize) {
    let varint = |at: usize| -> (usize, usize) {
        let extra = file[at].trailing_zeros() as usize;
        let word = (0..=extra).fold(0usize, |w, i| w | (file[at + i] as usize) << (8 * i));
        (word >> (extra + 1), at + extra + 1)
    };
    let mut at = 4 + 1 + b"MLIR22.0.0git\0".len();
    loop {
        let aligned = file[at] & 0x80 != 0;
        assert!(!aligned);
        let (length, start) = varint(at + 1);
        if start + length > cut {
            return (start, length);
        }
        at = start + length;
    }
}

#[test]
fn calls_are_checked() {
    let model = Model::load(assets().join("encoder.aimodel")).unwrap();
    let error = model.function("predict").map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "no function named \"predict\"; the model has main");
    let function = model.function("main").unwrap();
    let ids = anymetal_coreai::Array::from_values(&[1, 3], vec![1i32, 2, 3]).unwrap();
    let run = |inputs: &[(&str, anymetal_coreai::Array)]| function.run(inputs).unwrap_err().to_string();
    assert_eq!(
        run(&[("ids", ids.clone())]),
        "input \"mask\" is missing; the function takes ids: int32[?, ?], mask: int32[?, ?]"
    );
    assert_eq!(
        run(&[("ids", ids.clone()), ("mask", ids.clone()), ("zz", ids.clone())]),
        "\"zz\" is not a declared input of this function; it takes ids: int32[?, ?], mask: int32[?, ?]"
    );
    let flat = ids.reshaped(&[3]).unwrap();
    assert_eq!(
        run(&[("ids", flat), ("mask", ids.clone())]),
        "\"ids\" has an invalid shape: [3], expected: [?, ?]"
    );
    let floats = anymetal_coreai::Array::from_values(&[1, 3], vec![1f32, 2.0, 3.0]).unwrap();
    assert_eq!(
        run(&[("ids", floats), ("mask", ids.clone())]),
        "\"ids\" has an invalid element type: float32, expected: int32"
    );
    // A token that the embedding table does not have.
    let far = anymetal_coreai::Array::from_values(&[1, 3], vec![1i32, 50, 3]).unwrap();
    assert_eq!(
        run(&[("ids", far), ("mask", ids.clone())]),
        "primitive.gather_nd_v1: index 50 is out of bounds for a dimension of 50"
    );
    // Two shapes that do not go together.
    let short = anymetal_coreai::Array::from_values(&[1, 2], vec![1i32, 1]).unwrap();
    assert!(run(&[("ids", ids), ("mask", short)]).contains("do not broadcast"));
}

/// A copy of an asset in which one text is replaced by another of the same length.
fn patched(name: &str, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let folder = copy(name, to);
    let mut program = bytes(name);
    let at = program.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
    program[at..at + to.len()].copy_from_slice(to.as_bytes());
    std::fs::write(folder.join("main.mlirb"), program).unwrap();
    folder
}

#[test]
fn unknown_operations_are_refused_by_name() {
    let folder = patched("linear_norm_gelu", "primitive.gelu_v1", "primitive.gelo_v1");
    let error = ModelOptions::new()
        .allow_wrong_hash(true)
        .load(&folder)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error.replace(&folder.display().to_string(), "m.aimodel"),
        "m.aimodel: the model uses operations that are not supported: primitive.gelo_v1 (1×); export it without them"
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn unknown_operations_with_a_decomposition_run_through_it() {
    for (known, unknown) in [
        ("broadcasting_add_v1", "broadcasting_adz_v1"),
        ("broadcasting_mul_v1", "broadcasting_mux_v1"),
        ("broadcasting_batch_matmul_v1", "broadcasting_batch_matmux_v1"),
    ] {
        let folder = patched("linear_norm_gelu", known, unknown);
        let model = ModelOptions::new().allow_wrong_hash(true).load(&folder).unwrap();
        let function = model.function("main").unwrap();
        for case in common::cases("linear_norm_gelu") {
            for _ in 0..2 {
                let out = function.run(&[("x", case.inputs[0].1.clone())]).unwrap();
                common::check(unknown, &out[0].1, &case.outputs[0].1, 2e-6);
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
