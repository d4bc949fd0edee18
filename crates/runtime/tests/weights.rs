//! Weights files: against NumPy and ml_dtypes, there and back, and hostile ones.

use std::path::{Path, PathBuf};

use anymetal::quantise::{FORMATS, QuantiseOptions, dequantise, quantise_bytes};
use anymetal::weights::{DequantiseOptions, QuantiseFileOptions, WeightsFile, dequantise_file, quantise_file};
use anymetal::{Device, ElementFormat, Extents, PlaneType};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/quantised.safetensors")
}

/// A folder of this test's own, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("anymetal-weights-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A safetensors file with the given header text and that many bytes after it.
fn write(path: &Path, header: &str, bytes: &[u8]) {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(bytes);
    std::fs::write(path, file).unwrap();
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

#[test]
fn agrees_with_numpy_and_ml_dtypes() {
    let file = WeightsFile::open(golden()).unwrap();
    let bytes = |name: &str| file.bytes(&file.get(name).unwrap_or_else(|| panic!("{name}")).data);
    let mut compared = 0;
    for input in ["f32", "f16", "bf16"] {
        let info = file.get(input).unwrap();
        let source = info.format.unwrap();
        for format in FORMATS {
            let options = QuantiseOptions::new(format).with_padding(true);
            let dimensions = info.dimensions().unwrap();
            let (got, _) = quantise_bytes(bytes(input), source, &dimensions, &options).unwrap();
            assert_eq!(
                got.scales,
                bytes(&format!("{format}/{input}/scales")),
                "{format} of {input}"
            );
            assert_eq!(
                got.data,
                bytes(&format!("{format}/{input}/data")),
                "{format} of {input}"
            );
            let back = dequantise(&got).unwrap();
            assert!(
                same(&back, &floats(bytes(&format!("{format}/{input}/back")))),
                "{format} of {input}"
            );
            compared += got.scales.len();
        }
    }
    assert_eq!(compared, 6 * 2 * (12 + 7 + 12));
}

#[test]
fn files_go_there_and_back() {
    let folder = Folder::new("round");
    let file = WeightsFile::open(golden()).unwrap();
    for format in FORMATS {
        let (there, back) = (folder.file("q.safetensors"), folder.file("b.safetensors"));
        let mut options = QuantiseFileOptions::new(format);
        options.include = vec!["f32".to_owned(), "*f16".to_owned()];
        let report = quantise_file(golden(), &there, &options).unwrap();
        let names: Vec<&str> = report.tensors.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["bf16", "f16", "f32"]);
        assert_eq!(report.bytes_after as u64, std::fs::metadata(&there).unwrap().len());
        assert_eq!(report.copied, file.tensors().len() - 3);
        let quantised = WeightsFile::open(&there).unwrap();
        let device = Device::cpu();
        for input in ["f32", "f16", "bf16"] {
            let info = quantised.get(input).unwrap();
            assert_eq!(info.format, Some(format));
            assert_eq!(info.shape[1], 64);
            let scales = info.scales.clone().unwrap();
            let golden = |what: &str| file.bytes(&file.get(&format!("{format}/{input}/{what}")).unwrap().data);
            assert_eq!(quantised.bytes(&info.data), golden("data"));
            assert_eq!(quantised.bytes(&scales), golden("scales"));
            // The same as a tensor over the mapped file.
            let tensor = quantised.tensor(&device, input).unwrap();
            assert_eq!(tensor.read_plane(PlaneType::Scales).unwrap(), golden("scales"));
            assert!(
                same(&tensor.dequantise().unwrap(), &floats(golden("back"))),
                "{format} {input}"
            );
        }
        // Copies are copies.
        let name = "int4/f16/back";
        assert_eq!(
            quantised.bytes(&quantised.get(name).unwrap().data),
            file.bytes(&file.get(name).unwrap().data)
        );
        let report = dequantise_file(&there, &back, &DequantiseOptions::default()).unwrap();
        assert_eq!(report.tensors.len(), 3);
        let plain = WeightsFile::open(&back).unwrap();
        for (input, source) in [
            ("f32", ElementFormat::F32),
            ("f16", ElementFormat::F16),
            ("bf16", ElementFormat::BF16),
        ] {
            let (info, before) = (plain.get(input).unwrap(), file.get(input).unwrap());
            assert_eq!((info.format, &info.shape), (Some(source), &before.shape));
            let wanted = floats(file.bytes(&file.get(&format!("{format}/{input}/back")).unwrap().data));
            for (i, row) in wanted.chunks(64).enumerate() {
                for (j, &value) in row[..45].iter().enumerate() {
                    let code = source.load(plain.bytes(&info.data), i * 45 + j).unwrap();
                    let got = source.decode(code);
                    let wanted = source.decode(source.encode(value.into()));
                    assert!(
                        got == wanted || (got.is_nan() && wanted.is_nan()),
                        "{format} {input} {i} {j}: {got} {wanted}"
                    );
                }
            }
        }
        assert_eq!(plain.tensors().len(), file.tensors().len());
        let wide = folder.file("w.safetensors");
        dequantise_file(&there, &wide, &DequantiseOptions::to(ElementFormat::F32)).unwrap();
        assert_eq!(
            WeightsFile::open(&wide).unwrap().get("f16").unwrap().format,
            Some(ElementFormat::F32)
        );
    }
    // Nothing else is left behind.
    let mut names: Vec<_> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["b.safetensors", "q.safetensors", "w.safetensors"]);
}

#[test]
fn selection_alignment_and_metadata() {
    let folder = Folder::new("select");
    let input = folder.file("in.safetensors");
    let header = r#"{"__metadata__":{"format":"pt"},
        "a.weight":{"dtype":"F32","shape":[64,128],"data_offsets":[0,32768]},
        "b.weight":{"dtype":"F32","shape":[3,33],"data_offsets":[32768,33164]},
        "bias":{"dtype":"F32","shape":[5],"data_offsets":[33164,33184]},
        "c.weight":{"dtype":"F16","shape":[2,2,32],"data_offsets":[33184,33440]},
        "empty":{"dtype":"F32","shape":[0,32],"data_offsets":[33440,33440]},
        "n":{"dtype":"I32","shape":[2,2],"data_offsets":[33440,33456]},
        "w":{"dtype":"F64","shape":[1,2],"data_offsets":[33456,33472]}}"#;
    let bytes: Vec<u8> = (0..33472).map(|i| (i % 61) as u8).collect();
    write(&input, header, &bytes);
    let output = folder.file("out.safetensors");
    let names = |options: &QuantiseFileOptions| -> Vec<String> {
        let report = quantise_file(&input, &output, options).unwrap();
        report.tensors.into_iter().map(|t| t.name).collect()
    };
    let mut options = QuantiseFileOptions::new(ElementFormat::Fp4E2M1);
    assert_eq!(names(&options), ["a.weight", "b.weight"]);
    options.include = vec!["*.weight".to_owned()];
    options.exclude = vec!["b*".to_owned()];
    assert_eq!(names(&options), ["a.weight", "c.weight"]);
    let file = WeightsFile::open(&output).unwrap();
    assert_eq!(file.metadata().collect::<Vec<_>>(), [("format", "pt")]);
    // Metal's alignment for what can have it, natural alignment for the rest.
    let a = file.get("a.weight").unwrap();
    assert_eq!((a.data.len(), a.data.start % 128), (4096, 0));
    assert_eq!(a.scales.as_ref().unwrap().start % 128, 0);
    let c = file.get("c.weight").unwrap();
    assert_eq!(c.dimensions(), Some(Extents::from([32, 2, 2])));
    assert_eq!(c.scales.as_ref().unwrap().len(), 4);
    for (name, size) in [("b.weight", 4), ("bias", 4), ("n", 4), ("w", 8)] {
        assert_eq!(file.get(name).unwrap().data.start % size, 0, "{name}");
    }
    assert_eq!(file.get("w").unwrap().format, None);
    // Quantised tensors of an input stay what they are, and are still understood.
    let more = folder.file("more.safetensors");
    let report = quantise_file(&output, &more, &QuantiseFileOptions::new(ElementFormat::I8)).unwrap();
    assert_eq!(report.tensors.len(), 1);
    let both = WeightsFile::open(&more).unwrap();
    assert_eq!(both.get("a.weight").unwrap().format, Some(ElementFormat::Fp4E2M1));
    assert_eq!(both.get("b.weight").unwrap().format, Some(ElementFormat::I8));
    let text = |r: Result<_, anymetal::weights::WeightsError>| {
        r.map(|_: anymetal::weights::Report| ()).unwrap_err().to_string()
    };
    options.exclude = vec!["*".to_owned()];
    assert!(text(quantise_file(&input, &output, &options)).ends_with(
        "no tensor is left to quantise: of 7 tensors 3 are matrices of F32, F16 or BF16, but --include [\"*.weight\"] and --exclude \
         [\"*\"] leave none of them"
    ));
    assert!(text(quantise_file(&input, &input, &options)).ends_with("the output is the input; give another file name"));
    assert!(
        text(dequantise_file(&input, &output, &DequantiseOptions::default()))
            .ends_with("it has no quantised tensors (elements NAME with scales NAME.scales)")
    );
    let nowhere = folder.file("none/out.safetensors");
    let options = QuantiseFileOptions::new(ElementFormat::I8);
    assert!(text(quantise_file(&input, &nowhere, &options)).contains("No such file or directory"));
    // A folder in the way: the temporary file is gone again.
    std::fs::create_dir(folder.file("dir")).unwrap();
    assert!(quantise_file(&input, folder.file("dir"), &options).is_err());
    let left = std::fs::read_dir(&folder.0)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains("partial"));
    assert_eq!(left.count(), 0);
}

#[test]
fn hostile_files_are_refused() {
    let folder = Folder::new("hostile");
    let path = folder.file("x.safetensors");
    let refused = || {
        let text = WeightsFile::open(&path).unwrap_err().to_string();
        text.split_once("x.safetensors: ").unwrap().1.to_owned()
    };
    let with = |header: &str, bytes: usize| {
        write(&path, header, &vec![0; bytes]);
        refused()
    };
    std::fs::write(&path, b"").unwrap();
    assert_eq!(
        refused(),
        "not a usable safetensors file: it is empty or no regular file; a safetensors file begins with the length of its header"
    );
    std::fs::write(&path, b"abc").unwrap();
    assert_eq!(
        refused(),
        "not a usable safetensors file: it has fewer than 8 bytes, which hold the length of the header"
    );
    std::fs::write(&path, [255; 16]).unwrap();
    assert!(refused().ends_with("its header would be longer than 100 MB; this is no safetensors file"));
    std::fs::write(&path, [100, 0, 0, 0, 0, 0, 0, 0, b'{']).unwrap();
    assert!(
        refused().ends_with("its header reaches past the end of the file; it was cut off, or is no safetensors file")
    );
    assert!(with("{", 0).contains("its header is not the JSON it should be"));
    assert!(with(&"[".repeat(100_000), 0).contains("its header is not the JSON it should be"));
    let one = |shape: &str, from: u64, to: u64| {
        format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
    };
    assert!(
        with(&one("[4]", 0, 16), 12)
            .ends_with("its tensors do not end where the file ends; it was cut off, or has bytes after them")
    );
    assert!(with(&one("[4]", 4, 20), 20).ends_with("the offsets of tensor `a` leave a hole or overlap another tensor"));
    assert!(with(&one("[5]", 0, 16), 16).ends_with("a tensor's offsets do not fit its shape and type"));
    assert!(with(&one("[9223372036854775807,9]", 0, 16), 16).ends_with("a tensor is larger than memory can be"));
    // Lengths whose sum wraps around to the file's size.
    let wrapping = format!(
        r#"{{"a":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}}"#,
        u64::MAX - 70
    );
    assert!(!with(&wrapping, 16).is_empty());
    // Descriptions that are not true.
    let described = |description: &str, data: &str, scales: &str, bytes: usize| {
        let description = description.replace('"', "\\\"");
        let header = format!(r#"{{"__metadata__":{{"anymetal.tensors":"{description}"}},{data}{scales}}}"#);
        with(&header, bytes)
    };
    let data = r#""a":{"dtype":"F4","shape":[2,64],"data_offsets":[0,64]}"#;
    let scales = r#","a.scales":{"dtype":"F8_E8M0","shape":[2,2],"data_offsets":[64,68]}"#;
    let wrong = "not a usable safetensors file: its metadata `anymetal.tensors` is wrong about `a`: ";
    assert!(described("{", data, scales, 68).contains("its metadata `anymetal.tensors` is not what it should be"));
    for (description, scales, bytes, what) in [
        (
            r#"{"b":{"format":"int4","block":32}}"#,
            scales,
            68,
            "wrong about `b`: the file has no such tensor",
        ),
        (
            r#"{"a":{"format":"int5","block":32}}"#,
            scales,
            68,
            "`int5` is not an element format",
        ),
        (
            r#"{"a":{"format":"int4","block":32}}"#,
            scales,
            68,
            "int4 is kept as U8, but the entry is F4",
        ),
        (
            r#"{"a":{"format":"fp4_e2m1","block":16}}"#,
            scales,
            68,
            "its blocks have 16 elements; only 32 is possible",
        ),
        (
            r#"{"a":{"format":"fp4_e2m1","block":32}}"#,
            "",
            64,
            "the file has no `a.scales`",
        ),
        (
            r#"{"a":{"format":"fp4_e2m1","block":32}}"#,
            r#","a.scales":{"dtype":"F8_E8M0","shape":[4],"data_offsets":[64,68]}"#,
            68,
            "`a.scales` is F8_E8M0 [4]; elements of shape [2, 64] need F8_E8M0 with the last dimension divided by 32",
        ),
        (
            r#"{"a":{"format":"fp4_e2m1","block":32,"original":{"dtype":"F64","shape":[2,64]}}}"#,
            scales,
            68,
            "its original type is F64; only F32, F16 and BF16 are possible",
        ),
        (
            r#"{"a":{"format":"fp4_e2m1","block":32,"original":{"dtype":"F32","shape":[2,31]}}}"#,
            scales,
            68,
            "its original shape [2, 31] does not lead to [2, 64]",
        ),
        (
            r#"{"a":{"format":"fp4_e2m1","block":32,"zero":1}}"#,
            scales,
            68,
            "unknown field `zero`",
        ),
    ] {
        let text = described(description, data, scales, bytes);
        assert!(text.contains(what), "{text}");
        assert!(text.starts_with(&wrong[..30]), "{text}");
    }
    // Names in each other's way.
    write(
        &path,
        r#"{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"a.scales":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
        &[0; 8],
    );
    let error = quantise_file(&path, folder.file("o"), &QuantiseFileOptions::new(ElementFormat::I8)).unwrap_err();
    assert!(error.to_string().ends_with(
        "x.safetensors: tensor `a`: its scales would be called `a.scales`, which the file already has; leave it out with --exclude"
    ));
    // Empty tensors and seventeen dimensions are fine until something asks for a tensor of them.
    let ones = vec!["1"; 17].join(",");
    write(
        &path,
        &format!(
            r#"{{"e":{{"dtype":"I8","shape":[4,0],"data_offsets":[0,0]}},"e.scales":{{"dtype":"F8_E8M0","shape":[4,0],"data_offsets":[0,0]}},
            "m":{{"dtype":"F32","shape":[{ones}],"data_offsets":[0,4]}}}}"#
        ),
        &[0; 4],
    );
    let file = WeightsFile::open(&path).unwrap();
    let device = Device::cpu();
    assert!(file.tensor(&device, "e").is_err() && file.get("m").unwrap().descriptor().is_none());
    assert!(
        file.tensor(&device, "m")
            .unwrap_err()
            .to_string()
            .ends_with("tensor `m`: Metal tensors have no such type or rank")
    );
    assert!(
        file.tensor(&device, "x")
            .unwrap_err()
            .to_string()
            .ends_with("tensor `x`: there is no such tensor")
    );
    dequantise_file(&path, folder.file("o"), &DequantiseOptions::default()).unwrap();
}
