//! The asset directory: program, hash and metadata.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::bytecode::Module;
use crate::bytes::SharedBytes;
use crate::error::AssetError;

/// Largest `metadata.json` that is read.
const MAX_METADATA_BYTES: u64 = 16 << 20;

/// What `metadata.json` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Version of the asset format: "2.0".
    pub asset_version: String,
    /// The exporter: "coreai-core 1.0.0b3".
    pub producer: String,
    /// When it was exported: "20260101T120000Z".
    pub creation_date: String,
    /// Author, when given.
    pub author: Option<String>,
    /// Licence, when given.
    pub license: Option<String>,
    /// Description, when given.
    pub description: Option<String>,
    /// What the creator added.
    pub custom: Map<String, Value>,
}

/// How to open an asset.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    allow_wrong_hash: bool,
}

impl OpenOptions {
    /// The hash must be right.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens an asset whose `main.hash` is missing or wrong.
    pub fn allow_wrong_hash(mut self, allow: bool) -> Self {
        self.allow_wrong_hash = allow;
        self
    }

    /// Opens the asset directory `path`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Asset, AssetError> {
        Asset::open_with(path.as_ref(), self)
    }
}

/// An opened asset: the mapped and indexed program with its metadata.
pub struct Asset {
    path: PathBuf,
    metadata: Metadata,
    module: Module,
}

impl Asset {
    /// Opens the asset directory `path` and checks its hash.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AssetError> {
        OpenOptions::new().open(path)
    }

    fn open_with(path: &Path, options: OpenOptions) -> Result<Self, AssetError> {
        let program = path.join("main.mlirb");
        if !path.is_dir() || !program.is_file() {
            if !path.exists() {
                let source = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(AssetError::Io {
                    path: path.to_path_buf(),
                    source,
                });
            }
            return Err(AssetError::NotAnAsset {
                path: path.to_path_buf(),
            });
        }
        let metadata = read_metadata(&path.join("metadata.json"))?;
        let bytes = map(&program)?;
        if !options.allow_wrong_hash {
            check_hash(path, &program, &bytes)?;
        }
        let module = Module::read(bytes).map_err(|error| AssetError::Bytecode { path: program, error })?;
        Ok(Self {
            path: path.to_path_buf(),
            metadata,
            module,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `metadata.json` says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The bytecode.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The decoded module.
    pub fn into_module(self) -> Module {
        self.module
    }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> AssetError + '_ {
    move |source| AssetError::Io {
        path: path.to_path_buf(),
        source,
    }
}

fn map(path: &Path) -> Result<SharedBytes, AssetError> {
    let file = File::open(path).map_err(io(path))?;
    if file.metadata().map_err(io(path))?.len() == 0 {
        return Ok(SharedBytes::new(Vec::new()));
    }
    // SAFETY: the mapping is private and read-only. As with any mapped file, another process that truncates the
    // file while it is mapped ends this process with SIGBUS; that is documented on `Model::load`. All lengths were
    // taken from the mapping itself, so changed contents can only give wrong numbers or an error.
    let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file) }.map_err(io(path))?;
    Ok(SharedBytes::new(map))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn check_hash(asset: &Path, program: &Path, bytes: &[u8]) -> Result<(), AssetError> {
    let path = asset.join("main.hash");
    let expected = std::fs::read(&path).map_err(io(&path))?;
    if expected.len() != 32 {
        return Err(AssetError::HashSize {
            path,
            found: expected.len(),
        });
    }
    let found = Sha256::digest(bytes);
    if found[..] != expected[..] {
        return Err(AssetError::WrongHash {
            path: program.to_path_buf(),
            expected: hex(&expected),
            found: hex(&found),
        });
    }
    Ok(())
}

fn read_metadata(path: &Path) -> Result<Metadata, AssetError> {
    let bad = |what: String| AssetError::Metadata {
        path: path.to_path_buf(),
        what,
    };
    let size = std::fs::metadata(path).map_err(io(path))?.len();
    if size > MAX_METADATA_BYTES {
        return Err(bad(format!(
            "{size} bytes are too many for metadata (limit {MAX_METADATA_BYTES})"
        )));
    }
    let text = std::fs::read(path).map_err(io(path))?;
    let value: Value = serde_json::from_slice(&text).map_err(|e| bad(format!("not valid JSON: {e}")))?;
    let Value::Object(object) = value else {
        return Err(bad("must be a JSON object".into()));
    };
    let text = |key: &str| match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(bad(format!("{key:?} must be a string"))),
    };
    let custom = match object.get("creatorDefinedMetadata") {
        Some(Value::Object(map)) => map.clone(),
        Some(other) => Map::from_iter([("value".to_string(), other.clone())]),
        None => Map::new(),
    };
    let metadata = Metadata {
        asset_version: text("assetVersion")?.ok_or_else(|| bad("\"assetVersion\" is missing".into()))?,
        producer: text("producer")?.unwrap_or_default(),
        creation_date: text("creationDate")?.unwrap_or_default(),
        author: text("author")?,
        license: text("license")?,
        description: text("description")?,
        custom,
    };
    if metadata.asset_version.split('.').next() != Some("2") {
        return Err(AssetError::AssetVersion {
            path: path.to_path_buf(),
            found: metadata.asset_version,
        });
    }
    Ok(metadata)
}
