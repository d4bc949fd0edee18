//! Libraries: compiled Metal source, from which pipelines are made.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use anymetal_ir::{Kernel, passes};
use anymetal_msl::sema::function_constant as msl;
use anymetal_msl::{CompileOptions, Diagnostics, FunctionConstantInfo, Specialization};

use crate::backend::Target;
use crate::error::{BindingError, Error, NoSuchKernel, Result};
use crate::pipeline::{ConstantValue, ExecutionOptions, FunctionConstants, Pipeline};

/// Metal source after compilation (`MTLLibrary`). Cheap to clone.
///
/// ```
/// use anymetal::{CompileOptions, Device};
///
/// let source = "kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] += x[i]; }";
/// let library = Device::cpu().new_library(source, "twice.metal", &CompileOptions::default())?;
/// assert_eq!(library.kernel_names(), ["twice"]);
/// let error = library.pipeline("twise").unwrap_err();
/// assert_eq!(error.to_string(), "twice.metal has no kernel `twise`; did you mean `twice`? (it has: twice)");
/// # Ok::<(), anymetal::Error>(())
/// ```
#[derive(Clone)]
pub struct Library(Arc<LibraryInner>);

pub(crate) struct LibraryInner {
    file: String,
    /// The device whose pipelines it makes.
    target: Target,
    front: anymetal_msl::Library,
    pipelines: Mutex<HashMap<PipelineKey, Pipeline>>,
}

/// A kernel, the text form of its constants, and how it runs.
type PipelineKey = (String, String, ExecutionOptions);

/// How a kernel is lowered that nobody runs.
pub(crate) const INSPECTED: Specialization = Specialization {
    permuted_layout: false,
    complete: false,
};

impl LibraryInner {
    pub fn compile(target: &Target, source: &str, file: &str, options: &CompileOptions) -> Result<Self> {
        let front = anymetal_msl::Library::compile(source, file, options)?;
        Ok(Self {
            file: file.to_owned(),
            target: target.clone(),
            front,
            pipelines: Mutex::default(),
        })
    }
}

impl Library {
    pub(crate) fn new(inner: Arc<LibraryInner>) -> Self {
        Self(inner)
    }

    /// What messages call the source.
    pub fn file_name(&self) -> &str {
        &self.0.file
    }

    /// The host names of its kernels, instantiated templates included, in the order of the source.
    pub fn kernel_names(&self) -> Vec<String> {
        self.0.front.kernels().iter().map(|k| k.name.clone()).collect()
    }

    /// The warnings of the compilation.
    pub fn warnings(&self) -> Diagnostics {
        self.0.front.warnings()
    }

    /// The pipeline of a kernel without function constants, with default options.
    pub fn pipeline(&self, kernel: &str) -> Result<Pipeline> {
        self.pipeline_with(kernel, &FunctionConstants::new(), &ExecutionOptions::default())
    }

    /// The pipeline of a kernel with function constants and options. The same request again is answered from a cache.
    ///
    /// # Errors
    /// Among others, a function constant that the kernel reads without a value, as in Metal; one that the source asks for with
    /// `is_function_constant_defined` is optional.
    pub fn pipeline_with(
        &self,
        kernel: &str,
        constants: &FunctionConstants,
        options: &ExecutionOptions,
    ) -> Result<Pipeline> {
        let key = (kernel.to_owned(), constants.cache_key(), options.clone());
        let cache = || self.0.pipelines.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = cache().get(&key) {
            return Ok(found.clone());
        }
        let how = Specialization {
            permuted_layout: options.permuted_layout,
            complete: true,
        };
        // The sanitizer watches what the source says, before any pass merges or moves it.
        let kernel = Arc::new(match &options.sanitize {
            Some(_) => self.kernel_as_written(kernel, constants, how)?,
            None => self.lower(kernel, constants, how)?,
        });
        let pipeline = Pipeline::new(&self.0.target, kernel, options)?;
        cache().insert(key, pipeline.clone());
        Ok(pipeline)
    }

    /// The kernel's intermediate form, for inspection. Function constants without a value read as zero.
    pub fn kernel(&self, name: &str, constants: &FunctionConstants) -> Result<Kernel> {
        self.lower(name, constants, INSPECTED)
    }

    fn lower(&self, name: &str, constants: &FunctionConstants, how: Specialization) -> Result<Kernel> {
        let mut kernel = self.lowered(name, constants, how)?;
        passes::optimize(&mut kernel);
        Ok(kernel)
    }

    /// The kernel's intermediate form before any pass.
    pub(crate) fn kernel_as_written(
        &self,
        name: &str,
        constants: &FunctionConstants,
        how: Specialization,
    ) -> Result<Kernel> {
        let mut kernel = self.lowered(name, constants, how)?;
        passes::effects::set_access(&mut kernel);
        Ok(kernel)
    }

    fn lowered(&self, name: &str, constants: &FunctionConstants, how: Specialization) -> Result<Kernel> {
        let names = self.kernel_names();
        if !names.iter().any(|n| n == name) {
            return Err(Error::NoSuchKernel(Box::new(NoSuchKernel::new(
                name,
                &self.0.file,
                names,
            ))));
        }
        self.check_constants(name, constants)?;
        let constants = to_msl(constants);
        let front = &self.0.front;
        let how = Specialization {
            permuted_layout: how.permuted_layout || front.specialization().permuted_layout,
            ..how
        };
        let kernel = front.specialize_with(name, &constants, &how)?;
        verify(&kernel)?;
        Ok(kernel)
    }

    /// The function constants that the source declares.
    pub fn function_constants(&self) -> &[FunctionConstantInfo] {
        self.0.front.function_constants()
    }

    /// A constant that the source does not declare is a mistake.
    fn check_constants(&self, kernel: &str, constants: &FunctionConstants) -> Result<()> {
        let declared = self.function_constants();
        let index = constants
            .by_index()
            .map(|(i, _)| i)
            .find(|i| declared.iter().all(|d| d.index != *i));
        let name = constants
            .by_name()
            .map(|(n, _)| n)
            .find(|n| declared.iter().all(|d| d.name != *n));
        let what = match (index, name) {
            (Some(index), _) => format!("function_constant({index})"),
            (None, Some(name)) => format!("named `{name}`"),
            (None, None) => return Ok(()),
        };
        let list: Vec<String> = declared
            .iter()
            .map(|d| format!("{}: {} `{}`", d.index, d.type_name, d.name))
            .collect();
        let list = if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        };
        let reason = format!("there is no function constant {what} (declared: {list})");
        Err(BindingError::FunctionConstant {
            kernel: kernel.to_owned(),
            reason,
        }
        .into())
    }
}

/// Refuses kernels that break the rules of the intermediate form: the front end's mistake, or that of whoever built it.
pub(crate) fn verify(kernel: &Kernel) -> Result<()> {
    anymetal_ir::verify::verify(kernel).map_err(|error| Error::Unsupported {
        kernel: kernel.name.clone(),
        reason: format!("malformed kernel: {error}"),
    })
}

fn to_msl(constants: &FunctionConstants) -> msl::FunctionConstantValues {
    let value = |v| match v {
        ConstantValue::Bool(v) => msl::ConstantValue::Bool(v),
        ConstantValue::Int(v) => msl::ConstantValue::Int(v),
        // The bits are the same; the constant's unsigned type reads them back.
        ConstantValue::UInt(v) => msl::ConstantValue::Int(v as i64),
        ConstantValue::Float(v) => msl::ConstantValue::Float(v),
    };
    msl::FunctionConstantValues {
        by_index: constants.by_index().map(|(i, v)| (i, value(v))).collect(),
        by_name: constants.by_name().map(|(n, v)| (n.to_owned(), value(v))).collect(),
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("file", &self.0.file)
            .field("kernels", &self.kernel_names())
            .finish()
    }
}
